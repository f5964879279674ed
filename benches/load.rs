//! How long a fetched vocabulary takes from its own file (parsed, proven, prepared) and from its prepared form.
//!
//! Needs `scripts/fetch-vocabularies`; what is missing is left out. The first is what adding costs less the comparison with the `tokenizers`
//! crate, the second what every later process pays. Reads warm files: the disk is not measured.

#![allow(missing_docs, clippy::unwrap_used, reason = "a bench that can't set up must stop")]

use criterion::{Criterion, criterion_group, criterion_main};
use plimsoll::{AddOptions, VocabularyStore};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Loads an added vocabulary `rounds` times, each from a folder of its own: engines are kept by folder for the life of a process.
fn load(name: &str, added: &VocabularyStore, prepared: bool, rounds: u64) -> Duration {
    let mut taken = Duration::ZERO;
    for _ in 0..rounds {
        let home = tempfile::tempdir().unwrap();
        let store = VocabularyStore::at(home.path());
        let folder = store.folder(name);
        std::fs::create_dir_all(&folder).unwrap();
        for entry in std::fs::read_dir(added.folder(name)).unwrap() {
            let entry = entry.unwrap();
            if prepared || entry.file_name() != "prepared.tables" {
                std::fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
            }
        }
        let started = Instant::now();
        let tokenizer = store.load(name).unwrap();
        taken += started.elapsed();
        assert!(tokenizer.count("hello") > 0);
    }
    taken
}

fn loads(criterion: &mut Criterion) {
    let root = std::env::var_os("PLIMSOLL_TEST_VOCABULARIES")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/target/vocabularies")), PathBuf::from);
    let mut group = criterion.benchmark_group("load");
    group.sample_size(10);
    for name in ["qwen3", "qwen3-json", "deepseek-v3", "llama3-json", "tekken", "gemma3"] {
        let files = root.join(name);
        if !files.is_dir() {
            continue;
        }
        let home = tempfile::tempdir().unwrap();
        let added = VocabularyStore::at(home.path());
        added.add(name, &files, &AddOptions::default()).unwrap();
        for (form, prepared) in [("file", false), ("prepared", true)] {
            group.bench_function(format!("{form}/{name}"), |bench| bench.iter_custom(|rounds| load(name, &added, prepared, rounds)));
        }
    }
    group.finish();
}

criterion_group!(benches, loads);
criterion_main!(benches);
