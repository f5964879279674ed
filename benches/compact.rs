//! Compaction of a history of some 200,000 tokens in each format, beside counting it once.
//!
//! `cargo bench --no-default-features --bench compact`. The history is put together from recorded ones where they are present,
//! else made up. Every bench asserts that what it times fits.
#![allow(missing_docs, clippy::unwrap_used, reason = "a bench")]

use criterion::{Criterion, criterion_group, criterion_main};
use plimsoll::{CountOptions, Counter, Pages, Policy, Request, plan};
use scenario::{Scenario, Turn};
use std::hint::black_box;
use std::io::Read as _;

#[path = "../tests/scenario/mod.rs"]
mod scenario;

const TOKENS: u64 = 200_000;

fn recorded() -> Vec<Scenario> {
    let Ok(folder) = std::fs::read_dir(format!("{}/../shared/histories", env!("CARGO_MANIFEST_DIR"))) else {
        return (1..9).map(|seed| scenario::generate(seed, 40, 60)).collect();
    };
    let mut files: Vec<_> = folder.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "gz")).collect();
    files.sort();
    let read = |path: std::path::PathBuf| {
        let mut text = String::new();
        flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
        scenario::from_chat(&serde_json::from_str(&text).unwrap())
    };
    files.into_iter().filter_map(read).collect()
}

/// Histories one after the other, until there are enough tokens.
fn large(counter: &Counter) -> Scenario {
    let mut all = Scenario::default();
    let end = |all: &mut Scenario| {
        all.turns.push(Turn::Assistant { text: Some("Done.".into()), thinking: false, calls: Vec::new() });
    };
    for scenario in recorded().iter().cycle() {
        let body = all.body("chat").to_string();
        let request = Request::parse(body.as_bytes(), plimsoll::Format::Chat).unwrap();
        if !all.turns.is_empty() && counter.count(&request, &CountOptions::default()).unwrap().total() >= TOKENS {
            break;
        }
        if !all.turns.is_empty() {
            end(&mut all);
        }
        all.turns.extend(scenario.turns.iter().cloned());
    }
    end(&mut all);
    all.turns.push(Turn::User("Go on.".into()));
    all
}

fn compaction(criterion: &mut Criterion) {
    let counter = Counter::new();
    let large = large(&counter);
    for (format, model) in [
        ("chat", "gpt-4o"),
        ("responses", "gpt-4o"),
        ("anthropic", "claude-sonnet-4-5"),
        ("gemini", "gemini-2.5-flash"),
        ("converse", "anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ] {
        let body = large.body(format).to_string();
        let request = Request::parse(body.as_bytes(), format.parse().unwrap()).unwrap();
        let options = CountOptions { model: Some(model.to_owned()), ..CountOptions::default() };
        let before = counter.count(&request, &options).unwrap().total();
        let mut group = criterion.benchmark_group(format!("compact/{format}"));
        group.sample_size(20);
        group.bench_function("count", |bench| {
            bench.iter(|| assert_eq!(counter.count(black_box(&request), &options).unwrap().total(), before));
        });
        for percent in [70, 30] {
            let policy = Policy::default().with_target(before * percent / 100);
            group.bench_function(format!("to {percent}%"), |bench| {
                bench.iter(|| {
                    let pages = Pages::in_memory();
                    let plan = plan(black_box(&request), &counter, &options, &policy, &pages).unwrap().into_plan().unwrap().unwrap();
                    let outcome = plan.apply(&request, &pages).unwrap();
                    assert!(outcome.after <= before * percent / 100);
                    outcome
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, compaction);
criterion_main!(benches);
