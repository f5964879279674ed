//! Open-weight vocabularies on the core beside `o200k_base`: MB/s of each, and how far ahead of the same rivals, all in one interleaved run.
//!
//! `cargo bench --no-default-features --features huggingface --bench open`. Needs `scripts/fetch-vocabularies` and the corpora; leaves out what is
//! missing. Rivals: `tiktoken-rs` with the maker's pattern, and the `tokenizers` crate where there is a `tokenizer.json`. 2 kB messages, warm,
//! one thread, the best of many rounds; a row stands only when all give the same counts.

#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints its table, and must stop when it can't set up")]
#![allow(clippy::cast_precision_loss, reason = "bytes of a corpus")]

use plimsoll::{AddOptions, Tokenizer, VocabularyStore};
use std::hint::black_box;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Instant;
use unicode_normalization::UnicodeNormalization as _;

type Count = Box<dyn Fn(&str) -> usize>;

const ROUNDS: usize = 5;
/// By each counter at its turn, before another's tables take the processor's caches.
const PASSES: usize = 3;
/// Characters of each corpus.
const SHARE: usize = 400_000;

/// The makers' patterns of rank files.
fn pattern(name: &str) -> Option<&'static str> {
    Some(match name {
        "llama3" | "glm4" => {
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        }
        "qwen3" => r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        "kimi" => {
            r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        }
        _ => return None,
    })
}

fn ranked(folder: &Path, pattern: &str) -> tiktoken_rs::CoreBPE {
    use base64::Engine as _;
    let file = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.extension().is_some()).unwrap();
    let text = std::fs::read_to_string(file).unwrap();
    let ranks = text.lines().filter_map(|line| line.split_once(' '));
    let ranks = ranks.map(|(token, rank)| (base64::engine::general_purpose::STANDARD.decode(token).unwrap(), rank.trim().parse().unwrap()));
    tiktoken_rs::CoreBPE::new(ranks.collect(), std::collections::HashMap::default(), pattern).unwrap()
}

fn from_json(folder: &Path) -> Option<Count> {
    use tokenizers::pipeline::{EncodeOptions, Override, PipelineTokenizer};
    let mut value: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(folder.join("tokenizer.json")).ok()?).unwrap();
    tokenizers::canonicalize_value(&mut value).unwrap();
    let theirs: PipelineTokenizer = tokenizers::from_json(&value.to_string()).unwrap();
    let options =
        EncodeOptions { add_special_tokens: false, encode_special_tokens: true, padding: Override::Off, truncation: Override::Off };
    Some(Box::new(move |text| {
        let mut out = Vec::new();
        theirs.encode_into(text, &options, &mut out).unwrap();
        out.len()
    }))
}

fn messages(name: &str) -> Option<Vec<String>> {
    let file = std::fs::File::open(format!("{}/../shared/corpora/{name}.txt.gz", env!("CARGO_MANIFEST_DIR"))).ok()?;
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    // Some vocabularies normalize, the ranks' rival does not.
    let text: String = text.chars().nfc().take(SHARE).collect();
    let mut out = vec![String::new()];
    for c in text.chars() {
        if out.last().is_some_and(|message| message.len() >= 2_000) {
            out.push(String::new());
        }
        out.last_mut().unwrap().push(c);
    }
    Some(out)
}

fn main() {
    let root = std::env::var_os("PLIMSOLL_TEST_VOCABULARIES")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/target/vocabularies")), PathBuf::from);
    let home = tempfile::tempdir().unwrap();
    let store = VocabularyStore::at(home.path());
    // By name: ours, tiktoken-rs, tokenizers.
    let mut rows: Vec<(&str, [Option<Count>; 3])> = Vec::new();
    let ours = Tokenizer::by_name("o200k_base").unwrap();
    let theirs = tiktoken_rs::o200k_base().unwrap();
    rows.push((
        "o200k_base",
        [
            Some(Box::new(move |text| ours.count(text))),
            Some(Box::new(move |text| theirs.count_ordinary(text))),
            from_json(&root.join("gpt-oss-json")),
        ],
    ));
    for name in ["qwen3", "qwen3-json", "llama3", "llama3-json", "glm4", "kimi", "deepseek-v3", "tekken"] {
        let folder = root.join(name);
        if !folder.is_dir() {
            println!("left out: {name}");
            continue;
        }
        store.add(name, &folder, &AddOptions { by_reference: true, ..AddOptions::default() }).unwrap();
        let ours = store.load(name).unwrap();
        let ranks: Option<Count> = pattern(name).map(|pattern| {
            let theirs = ranked(&folder, pattern);
            Box::new(move |text: &str| theirs.count_ordinary(text)) as Count
        });
        rows.push((name, [Some(Box::new(move |text| ours.count(text))), ranks, from_json(&folder)]));
    }
    println!("{:<9} {:<12} {:>8} {:>10} {:>13} {:>13}", "corpus", "vocabulary", "MB/s", "of o200k", "x tiktoken-rs", "x tokenizers");
    for corpus in ["english", "code", "json", "chinese", "multi"] {
        let Some(texts) = messages(corpus) else { continue };
        let bytes: usize = texts.iter().map(String::len).sum();
        let mut best = vec![[f64::INFINITY; 3]; rows.len()];
        for _ in 0..ROUNDS {
            for (best, (name, counts)) in best.iter_mut().zip(&rows) {
                let mut expected = None;
                for (best, count) in best.iter_mut().zip(counts) {
                    let Some(count) = count else { continue };
                    for _ in 0..PASSES {
                        let began = Instant::now();
                        let sum: usize = texts.iter().map(|text| count(black_box(text))).sum();
                        *best = best.min(began.elapsed().as_secs_f64());
                        assert_eq!(*expected.get_or_insert(sum), sum, "{name} on {corpus}");
                    }
                }
            }
        }
        let speed = |seconds: f64| bytes as f64 / seconds / 1e6;
        for ([ours, ranks, json], (name, _)) in best.iter().zip(&rows) {
            let times = |theirs: f64| if theirs.is_finite() { format!("{:.1}", theirs / ours) } else { String::new() };
            let share = best[0][0] / ours;
            println!("{corpus:<9} {name:<12} {:>8.0} {share:>10.2} {:>13} {:>13}", speed(*ours), times(*ranks), times(*json));
        }
    }
}
