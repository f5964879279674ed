//! Compaction of a history of some 200,000 tokens in each format, beside counting it once.
//!
//! `cargo bench --no-default-features --bench compact` prints the best of many runs in milliseconds on the processor (Linux; elsewhere
//! by the clock) and the ratio to one count; with `--test` everything runs once, and names of formats pick some of them. Both sides are
//! measured twice: from the parsed request, and from the bytes that a host has (reading them is then part of the count and of the
//! compaction). The history is put together from recorded ones where they are present, else made up. No criterion here: what counts is the ratio, and on a busy machine only the best run
//! and the time on the processor say something of it.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, clippy::cast_precision_loss, reason = "a bench")]

use plimsoll::{CountOptions, Counter, Pages, Policy, Request, plan};
use scenario::{Scenario, Turn};
use std::hint::black_box;
use std::io::Read as _;
use std::time::Instant;

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

/// Milliseconds that this thread was on a processor, where the system tells.
fn on_processor() -> Option<f64> {
    // Yielding makes the system book what is open.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse::<f64>().ok().map(|nanoseconds| nanoseconds / 1e6)
}

/// The best of some samples, in milliseconds for one run: samples are long enough for a clock that moves by ticks.
fn best(samples: usize, mut work: impl FnMut()) -> f64 {
    let clock = Instant::now();
    work();
    let runs = if samples == 1 { 1.0 } else { (60.0 / (clock.elapsed().as_secs_f64() * 1e3).max(0.1)).ceil().clamp(2.0, 40.0) };
    let sample = |_| {
        let (start, clock) = (on_processor(), Instant::now());
        let mut left = runs;
        while left > 0.0 {
            work();
            left -= 1.0;
        }
        let spent = start.zip(on_processor()).map_or_else(|| clock.elapsed().as_secs_f64() * 1e3, |(from, to)| to - from);
        spent / runs
    };
    (0..samples).map(sample).fold(f64::INFINITY, f64::min)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runs = if arguments.iter().any(|argument| argument == "--test") { 1 } else { 15 };
    let counter = Counter::new();
    let large = large(&counter);
    let models = [
        ("chat", "gpt-4o"),
        ("responses", "gpt-4o"),
        ("anthropic", "claude-sonnet-4-5"),
        ("gemini", "gemini-2.5-flash"),
        ("converse", "anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ];
    let named = models.iter().any(|(format, _)| arguments.iter().any(|argument| argument == format));
    println!("format     | tokens | from   | count ms | to 70% ms | × count | to 30% ms | × count");
    for (format, model) in models.into_iter().filter(|(format, _)| !named || arguments.iter().any(|argument| argument == format)) {
        let body = large.body(format).to_string();
        let read = || Request::parse(black_box(body.as_bytes()), format.parse().unwrap()).unwrap();
        let request = read();
        let options = CountOptions { model: Some(model.to_owned()), ..CountOptions::default() };
        let before = counter.count(&request, &options).unwrap().total();
        let count = |request: &Request| assert_eq!(counter.count(black_box(request), &options).unwrap().total(), before);
        let compact = |request: &Request, percent: u64| {
            let policy = Policy::default().with_target(before * percent / 100);
            let pages = Pages::in_memory();
            let plan = plan(black_box(request), &counter, &options, &policy, &pages).unwrap().into_plan().unwrap().unwrap();
            assert!(plan.apply(request, &pages).unwrap().after <= before * percent / 100);
        };
        let line = |from: &str, count: f64, some: f64, much: f64| {
            println!(
                "{format:<10} | {before:>6} | {from:<6} | {count:>8.1} | {some:>9.1} | {:>7.1} | {much:>9.1} | {:>7.1}",
                some / count,
                much / count
            );
        };
        line("parsed", best(runs, || count(&request)), best(runs, || compact(&request, 70)), best(runs, || compact(&request, 30)));
        line("bytes", best(runs, || count(&read())), best(runs, || compact(&read(), 70)), best(runs, || compact(&read(), 30)));
    }
}
