//! Claude, Nova and Grok against what their providers billed: a table per class, and bars that must hold.
//!
//! Reads recorded exchanges where they are present and says so where they aren't. Exchanges that say nothing of today's
//! billing are listed with reasons in `data/claude-apart.tsv` and left out; unbounded ones are counted apart.
#![allow(clippy::expect_used, clippy::print_stdout, clippy::cast_precision_loss, missing_docs, reason = "a test")]

mod common;

use plimsoll::{Confidence, CountOptions, Counter, Format, Provider, Request};
use std::collections::{BTreeMap, HashSet};

/// One counted exchange.
struct Outcome {
    id: String,
    class: &'static str,
    counted: u64,
    billed: u64,
    bound: Option<u64>,
}

impl Outcome {
    fn off(&self) -> u64 {
        self.counted.abs_diff(self.billed)
    }

    fn percent(&self) -> f64 {
        self.off() as f64 / self.billed as f64 * 100.0
    }
}

fn outcomes() -> Option<Vec<Outcome>> {
    let apart: HashSet<&str> = include_str!("../data/claude-apart.tsv").lines().filter_map(|line| line.split('\t').next()).collect();
    let counter = Counter::new();
    let mut outcomes = Vec::new();
    for (name, format) in [
        ("anthropic", Format::Anthropic),
        ("anthropic_count_tokens", Format::Anthropic),
        ("converse", Format::Converse),
        ("chat", Format::Chat),
        ("responses", Format::Responses),
    ] {
        for exchange in common::exchanges(name)? {
            let text = |field: &str| exchange[field].as_str().unwrap_or_default().to_owned();
            let (id, model) = (text("id"), text("model"));
            if !["claude", "nova", "grok"].iter().any(|family| model.contains(family)) || apart.contains(id.as_str()) {
                continue;
            }
            let Some(billed) = common::billed_input(&exchange["usage"]).filter(|&billed| billed > 0) else { continue };
            let provider: Provider = text("host").parse().expect("any host has a provider");
            let request = Request::parse(exchange["request"].to_string().as_bytes(), format).expect("a recorded body is JSON");
            let options = CountOptions { model: Some(model), provider: Some(provider), ..CountOptions::default() };
            let count = counter.count(&request, &options).unwrap_or_else(|error| panic!("{id}: {error}"));
            let tools = !request.conversation().expect("it was counted").tools.is_empty();
            let breakdown = &count.breakdown;
            assert_eq!(breakdown.total(), breakdown.parts().iter().map(|part| part.tokens).sum::<u64>(), "{id}");
            let renderer = count.profile.renderer.as_str();
            let claude = breakdown.confidence() == Confidence::Calibrated;
            let class = match (renderer, tools) {
                _ if breakdown.confidence() == Confidence::Unbounded => "unbounded",
                ("claude-4.6", false) if claude => "Claude to 4.6, text",
                ("claude-4.6", true) if claude => "Claude to 4.6, tools",
                ("claude-4.6", _) => "Claude to 4.6, estimates",
                (later, _) if later.starts_with("claude") => "Claude 4.7 and later",
                (nova, _) if nova.starts_with("nova") => "Nova",
                _ => "Grok",
            };
            outcomes.push(Outcome { id, class, counted: breakdown.total(), billed, bound: breakdown.bound() });
        }
    }
    Some(outcomes)
}

struct Score {
    n: usize,
    middle: f64,
    p95: f64,
    /// Share within 4% or 3 tokens, in percent.
    near: f64,
    covered: f64,
    under: f64,
}

fn score(class: &str, of: &[&Outcome]) -> Score {
    let mut percents: Vec<f64> = of.iter().map(|o| o.percent()).collect();
    percents.sort_by(f64::total_cmp);
    let at = |percent: usize| percents.get((percents.len() * percent / 100).min(percents.len().saturating_sub(1))).copied().unwrap_or(0.0);
    let share = |wanted: &dyn Fn(&Outcome) -> bool| of.iter().filter(|o| wanted(o)).count() as f64 / of.len() as f64 * 100.0;
    let score = Score {
        n: of.len(),
        middle: at(50),
        p95: at(95),
        near: share(&|o| o.percent() <= 4.0 || o.off() <= 3),
        covered: share(&|o| o.bound.is_none_or(|bound| o.off() <= bound)),
        under: share(&|o| o.bound.is_some_and(|bound| o.counted + bound < o.billed)),
    };
    let mut widths: Vec<f64> = of.iter().filter_map(|o| o.bound.map(|bound| bound as f64 / o.counted.max(1) as f64 * 100.0)).collect();
    widths.sort_by(f64::total_cmp);
    println!(
        "{class:26} n {:4}  exact {:5.1}%  p50 {:5.2}%  p95 {:6.2}%  near {:5.1}%  bound holds {:5.1}%  under {:4.1}%  bound p50 {:.1}%",
        score.n,
        share(&|o| o.off() == 0),
        score.middle,
        score.p95,
        score.near,
        score.covered,
        score.under,
        widths.get(widths.len() / 2).copied().unwrap_or(0.0)
    );
    let mut worst: Vec<&&Outcome> = of.iter().collect();
    worst.sort_by(|a, b| b.percent().total_cmp(&a.percent()));
    for o in worst.iter().take(4).filter(|o| o.off() > 3) {
        println!("    {} counted {} billed {} ({:.1}%, bound {:?})", o.id, o.counted, o.billed, o.percent(), o.bound);
    }
    for o in of.iter().filter(|o| o.bound.is_some_and(|bound| o.off() > bound)) {
        println!("    beyond its bound: {} counted {} billed {} bound {:?}", o.id, o.counted, o.billed, o.bound);
    }
    score
}

#[test]
fn counts_meet_the_bills() {
    let Some(outcomes) = outcomes() else { return };
    let mut classes: BTreeMap<&str, Vec<&Outcome>> = BTreeMap::new();
    for outcome in &outcomes {
        classes.entry(outcome.class).or_default().push(outcome);
    }
    let scores: BTreeMap<&str, Score> = classes.iter().map(|(class, of)| (*class, score(class, of))).collect();
    let bounded: Vec<&Outcome> = outcomes.iter().filter(|o| o.bound.is_some()).collect();
    let all = score("all bounded", &bounded);

    let text = &scores["Claude to 4.6, text"];
    assert!(text.middle <= 2.0 && text.p95 <= 7.0 && text.near >= 75.0, "Claude text fell below its bars");
    let tools = &scores["Claude to 4.6, tools"];
    assert!(tools.middle <= 0.5 && tools.p95 <= 2.5 && tools.near >= 95.0, "Claude with tools fell below its bars");
    assert!(all.covered >= 99.0, "bounds must hold in 99% of bounded cases");
    assert!(all.under < 0.5, "too many counts lie below the bill by more than their bound");
    assert!(scores["Claude 4.7 and later"].covered >= 99.0, "the later generations' bounds must hold");
    assert!(all.n > 300, "most recorded exchanges are bounded");
}
