//! Counting, as a service does it: 2 kB messages, a first count, a growing text, a repeated history.
//!
//! `cargo bench --bench count`. Uses the corpora where they are present, else a text made here; `benches/rivals` has the
//! comparison with other tokenizers. Every bench asserts the answer it times.
#![allow(missing_docs, clippy::unwrap_used, reason = "a bench")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use plimsoll::Tokenizer;
use std::hint::black_box;
use std::io::Read as _;

fn text(name: &str) -> String {
    let path = format!("{}/../shared/corpora/{name}.txt.gz", env!("CARGO_MANIFEST_DIR"));
    let mut text = String::new();
    match std::fs::File::open(path) {
        Ok(file) => {
            flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
            let cut = (0..=200_000.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            text.truncate(cut);
            text
        }
        Err(_) => "The quick brown fox doesn't jump over 12345 lazy dogs.\n\tif (x == y) { return 你好，世界; }\n".repeat(2_000),
    }
}

fn messages(text: &str) -> Vec<&str> {
    let mut rest = text;
    let mut messages = Vec::new();
    while !rest.is_empty() {
        let at = (2_000.min(rest.len())..=rest.len()).find(|at| rest.is_char_boundary(*at)).unwrap_or(rest.len());
        let (message, after) = rest.split_at(at);
        messages.push(message);
        rest = after;
    }
    messages
}

fn counting(criterion: &mut Criterion) {
    for vocabulary in ["o200k_base", "cl100k_base"] {
        let tokenizer = Tokenizer::by_name(vocabulary).unwrap();
        let mut group = criterion.benchmark_group(format!("count/{vocabulary}"));
        for name in ["english", "code", "json", "chinese", "multi"] {
            let text = text(name);
            let messages = messages(&text);
            let expected: usize = messages.iter().map(|message| tokenizer.encode(message).len()).sum();
            group.throughput(Throughput::Bytes(text.len() as u64));
            group.bench_function(name, |bench| {
                bench.iter(|| {
                    let count: usize = messages.iter().map(|message| tokenizer.count(black_box(message))).sum();
                    assert_eq!(count, expected);
                });
            });
        }
        group.finish();
    }
}

fn worst(criterion: &mut Criterion) {
    let tokenizer = Tokenizer::by_name("o200k_base").unwrap();
    let mut group = criterion.benchmark_group("worst");
    let mut state = 0x5EED_u64;
    let letters: String = (0..100_000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b'a' + u8::try_from((state >> 33) % 26).unwrap_or(0))
        })
        .collect();
    for (name, text) in [("a", "a".repeat(100_000)), ("spaces", " ".repeat(100_000)), ("equals", "=".repeat(100_000)), ("letters", letters)]
    {
        let expected = tokenizer.encode(&text).len();
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(name, |bench| bench.iter(|| assert_eq!(tokenizer.count(black_box(&text)), expected)));
    }
    group.finish();
}

fn growing(criterion: &mut Criterion) {
    let tokenizer = Tokenizer::by_name("o200k_base").unwrap();
    let text = text("english");
    let expected = tokenizer.count(&text);
    criterion.bench_function("append/word by word", |bench| {
        bench.iter(|| {
            let mut counter = tokenizer.appender();
            for word in text.split_inclusive(' ') {
                counter.extend(word);
            }
            assert_eq!(counter.count(), expected);
        });
    });
}

/// A history of a megabyte in 500 messages, counted again after one more: by texts, as a whole request, and behind a prefix id.
#[cfg(feature = "cache")]
fn history(criterion: &mut Criterion) {
    use plimsoll::{CountOptions, Counter, Format, MessageCache, PrefixStore, Request};
    let plain = Tokenizer::by_name("o200k_base").unwrap();
    for name in ["english", "code", "json", "chinese", "multi"] {
        let text = text(name);
        let repeated: Vec<String> =
            messages(&text).into_iter().cycle().take(500).enumerate().map(|(at, text)| format!("{at} {text}")).collect();
        let expected: usize = repeated.iter().map(|message| plain.count(message)).sum();
        let cached = plain.cached(&MessageCache::new(16 << 20));
        let mut group = criterion.benchmark_group(format!("history/{name}"));
        for (kind, tokenizer) in [("texts whole", &plain), ("texts cached", &cached)] {
            let mut turn = 0;
            group.bench_function(kind, |bench| {
                bench.iter(|| {
                    assert_eq!(repeated.iter().map(|message| tokenizer.count(black_box(message))).sum::<usize>(), expected);
                    turn += 1;
                    tokenizer.count(&format!("{turn} {}", repeated[7]))
                });
            });
        }
        let message = |text: &str| serde_json::json!({"role": "user", "content": text});
        let body = |list: Vec<serde_json::Value>| serde_json::json!({"model": "gpt-4o", "messages": list}).to_string();
        let old = body(repeated.iter().map(|text| message(text)).collect());
        let options = CountOptions::default();
        let fresh = Counter::new();
        let cached = Counter::new().with_cache(MessageCache::new(16 << 20));
        for (kind, counter) in [("body whole", &fresh), ("body cached", &cached)] {
            group.bench_function(kind, |bench| {
                bench.iter(|| counter.count(&Request::parse(black_box(old.as_bytes()), Format::Chat).unwrap(), &options).unwrap().total());
            });
        }
        let store = PrefixStore::new(1 << 30);
        let id = store.keep(&Request::parse(old.as_bytes(), Format::Chat).unwrap());
        let mut turn = 0;
        group.bench_function("body by what is new", |bench| {
            bench.iter(|| {
                turn += 1;
                let new = body(vec![message(&format!("{turn} {}", repeated[7]))]);
                let (whole, _) = store.extend(&id, &Request::parse(new.as_bytes(), Format::Chat).unwrap()).unwrap();
                cached.count(&whole, &options).unwrap().total()
            });
        });
        group.finish();
    }
}

#[cfg(not(feature = "cache"))]
fn history(_: &mut Criterion) {}

criterion_group!(benches, counting, worst, growing, history);
criterion_main!(benches);
