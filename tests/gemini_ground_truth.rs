//! Gemini counts against recorded bills: exact shares by class, and bounds that hold.
//!
//! Skips, saying so, without the recorded data; the exact classes skip without the Gemma 3 vocabulary in the user's store.
//! What the thoughts behind a signature cost is learned from the same log, as `plimsoll eval` does.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "prints its table; a test may unwrap")]

mod common;

use plimsoll::{Apart, Content, Counter, Exchange, Group, Provider, Report, Row, Tokenizer, evaluate, read_log};

/// The recorded exchanges of a file, those of Gemini alone.
fn recorded(name: &str) -> Option<Vec<Exchange>> {
    let path = common::shared(&format!("ground-truth/{name}.jsonl.gz"))?;
    let (mut exchanges, skipped) = read_log(common::gunzip(&path).as_bytes()).unwrap();
    assert!(skipped.is_empty(), "{skipped:?}");
    exchanges.retain(|exchange| exchange.model.as_deref().is_some_and(|model| model.contains("gemini")));
    Some(exchanges)
}

fn score(exchanges: &[Exchange]) -> Report {
    let report = evaluate(exchanges, &Counter::new(), &Apart::builtin()).unwrap();
    if std::env::var_os("PLIMSOLL_RESIDUALS").is_some() {
        println!("{}", report.to_text(200));
    }
    assert!(report.failed.is_empty(), "{:?}", report.failed);
    report
}

fn print(name: &str, group: &Group) {
    let Group { n, exact, near, p50, p95, held, under, worst } = group;
    println!(
        "{name:22} n {n:3}  exact {exact:3}  near {near:3}  p50 {p50:.2}%  p95 {p95:.2}%  bound holds {held}  under {under}  worst {worst:?}"
    );
}

fn own_vocabulary() -> bool {
    let own = Tokenizer::by_name("gemma3").is_ok();
    if !own {
        println!("skipped the exact classes: the gemma3 vocabulary is not installed");
    }
    own
}

#[test]
fn recorded_bills() {
    let Some(exchanges) = recorded("gemini") else { return };
    let own = own_vocabulary();
    let report = score(&exchanges);
    let class = |content: Content| Group::of(report.rows.iter().filter(|row| row.content == content && !row.unknown_reasoning));
    let (text, tools, media) = (class(Content::Text), class(Content::Tools), class(Content::Media));
    let unknown = Group::of(report.rows.iter().filter(|row| row.unknown_reasoning));
    for (name, group) in [("text", &text), ("tools", &tools), ("media", &media), ("thoughts not known", &unknown)] {
        print(name, group);
    }
    let all = Group::of(&report.rows);
    print("all", &all);
    println!("{} unbounded, {} apart, {} without usage", report.unbounded.len(), report.apart.len(), report.without_usage);
    for row in report.rows.iter().filter(|row| !row.holds()) {
        println!("bound broken: {} {:+} of {} ±{:?}", row.id, row.error(), row.billed, row.breakdown.bound());
    }
    assert!(all.n > 350, "the data holds some 400 bounded bills");
    assert!(report.apart.len() * 100 <= 3 * exchanges.len(), "at most 3% may be left out");
    assert!(all.held * 100 >= 99 * all.n, "bounds hold in 99% of cases");
    assert!(all.under * 200 <= all.n, "under-counts beyond the bound stay below 0.5%");
    if own {
        let bar = |group: &Group, exact: usize, near: usize| {
            group.exact * 100 >= exact * group.n && group.near * 100 >= near * group.n && group.p95 <= 0.5
        };
        assert!(bar(&text, 98, 99), "text is below its bar");
        assert!(bar(&tools, 94, 97), "tools are below their bar");
    }
}

/// Behind gateways, in the chat format: the upstream's own count, whose mode only some gateways' responses name.
#[test]
fn recorded_gateway_bills() {
    let Some(mut exchanges) = recorded("chat") else { return };
    if !own_vocabulary() {
        return;
    }
    let unnamed = Group::of(&score(&exchanges).rows);
    print("upstream not known", &unnamed);
    for exchange in &mut exchanges {
        match exchange.events.iter().find_map(|event| event.get("provider")?.as_str()) {
            Some("Google") => exchange.provider = Some(Provider::Vertex),
            Some("Google AI Studio") => exchange.provider = Some(Provider::AiStudio),
            _ => {}
        }
    }
    let report = score(&exchanges);
    let named = Group::of(&report.rows);
    print("upstream named", &named);
    let broken: Vec<&Row> = report.rows.iter().filter(|row| !row.holds()).collect();
    assert!(broken.is_empty(), "{:?}", broken.iter().map(|row| (&row.id, row.error())).collect::<Vec<_>>());
    assert!(unnamed.held == unnamed.n, "without the upstream's name the bound covers both modes");
    assert!(named.exact * 10 >= 7 * named.n, "seven of ten are exact");
}
