//! Open-weight vocabularies, as `scripts/fetch-vocabularies` lays them out: they load, give the known ids, and load fast from the prepared form.
//!
//! Skips, saying so, where the folder (`PLIMSOLL_TEST_VOCABULARIES`, else `target/vocabularies`) is absent.
#![allow(clippy::print_stdout, reason = "a skipped test says why")]

use plimsoll::{AddOptions, VocabularyStore};
use std::path::PathBuf;

/// Folder of fetched vocabularies, one sub-folder a name.
fn fetched() -> Option<PathBuf> {
    let root = std::env::var_os("PLIMSOLL_TEST_VOCABULARIES")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/target/vocabularies")), PathBuf::from);
    if root.is_dir() {
        return Some(root);
    }
    println!("skipped: no vocabularies; run scripts/fetch-vocabularies");
    None
}

#[test]
fn every_fetched_vocabulary_is_added_proven_and_loaded_again() {
    let Some(root) = fetched() else { return };
    let home = tempfile::tempdir().unwrap();
    let store = VocabularyStore::at(home.path());
    let mut names: Vec<_> = std::fs::read_dir(&root).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    // Chat templates lie beside the vocabularies, for another test.
    names.retain(|name| !name.starts_with('.') && name != "templates");
    names.sort();
    assert!(!names.is_empty(), "the folder of vocabularies is empty");
    for name in names {
        let started = std::time::Instant::now();
        store.add(&name, &root.join(&name), &AddOptions::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let added = started.elapsed();
        let started = std::time::Instant::now();
        let tokenizer = store.load(&name).unwrap_or_else(|e| panic!("{name}: {e}"));
        let loaded = started.elapsed();
        let text = "fn main() { println!(\"größer\\n\"); }\n\n\n\t日本語 <|im_start|> 😀  x 1234567";
        let ids = tokenizer.encode(text);
        println!("{name}: added {added:?} loaded {loaded:?} {} tokens", ids.len());
        assert_eq!(tokenizer.decode(&ids).unwrap(), text, "{name}");
        assert_eq!(tokenizer.count(text), ids.len());
        let borders = [10, 30, text.len()];
        assert_eq!(tokenizer.count_shares(text, &borders).iter().sum::<usize>(), ids.len(), "{name}");
    }
}
