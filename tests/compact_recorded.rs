//! Compaction of recorded histories, in every format and by the real counts, at five targets each: valid, fits or says why,
//! stays fixed, repeats byte for byte, comes back by undo.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;
mod scenario;

use plimsoll::{CountOptions, Counter, Decision, Format, Mark, Pages, Policy, Request, Severity, check, plan, plan_pages, undo};
use scenario::{Scenario, Turn};

const TARGETS: [u64; 5] = [90, 70, 50, 30, 15];

fn options(model: &str) -> CountOptions {
    CountOptions { model: Some(model.to_owned()), ..CountOptions::default() }
}

fn model_for(format: &str) -> &'static str {
    match format {
        "anthropic" => "claude-sonnet-4-5",
        "gemini" => "gemini-2.5-flash",
        "converse" => "anthropic.claude-sonnet-4-5-20250929-v1:0",
        _ => "gpt-4o",
    }
}

fn histories() -> Option<Vec<(String, Scenario)>> {
    let mut files: Vec<_> = std::fs::read_dir(common::shared("histories")?).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let read = |path: std::path::PathBuf| {
        let body = serde_json::from_str(&common::gunzip(&path)).unwrap();
        scenario::from_chat(&body).map(|s| (path.file_name().unwrap().to_string_lossy().into_owned(), s))
    };
    Some(files.into_iter().filter(|f| f.extension().is_some_and(|e| e == "gz")).filter_map(read).collect())
}

#[derive(Default, Debug)]
struct Tally {
    nothing: usize,
    plans: usize,
    stuck: usize,
    refused: usize,
}

/// Everything that must hold of one request at one target.
fn verify(name: &str, request: &Request, counter: &Counter, options: &CountOptions, policy: &Policy, tally: &mut Tally) {
    let pages = Pages::in_memory();
    let Mark::Tokens(target) = policy.low else { panic!("a target in tokens") };
    let before = counter.count(request, options).unwrap().breakdown.total();
    let plan_once = || plan(request, counter, options, policy, &pages).unwrap_or_else(|e| panic!("{name} at {target}: {e}"));
    let first = match plan_once() {
        Decision::Nothing { .. } => {
            assert!(before <= target, "{name}");
            tally.nothing += 1;
            return;
        }
        Decision::Stuck(stuck) => {
            assert!(stuck.floor > target && stuck.floor <= before && !stuck.parts.is_empty(), "{name}: {stuck:?}");
            tally.stuck += 1;
            return;
        }
        Decision::Plan(plan) => plan,
    };
    tally.plans += 1;
    let again = plan_once().into_plan().unwrap().unwrap();
    assert_eq!(again.preview().text(), first.preview().text(), "{name} at {target}");
    let model = options.model.as_deref();
    let outcome = first.apply(request, &pages).unwrap();
    let after = counter.count(&outcome.request, options).unwrap().breakdown.total();
    assert!(after == outcome.after && after <= target && after < before, "{name}: {before} -> {after}, target {target}");
    let errors: Vec<_> = check(&outcome.request, model).into_iter().filter(|f| f.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{name} at {target}: {errors:?}");
    assert!(matches!(plan(&outcome.request, counter, options, policy, &pages).unwrap(), Decision::Nothing { .. }), "{name}: a fixed point");
    assert_eq!(undo(&pages, &outcome.undo).unwrap().text(), request.text(), "{name}");
}

#[test]
fn recorded_histories_in_every_format() {
    let Some(histories) = histories() else { return };
    assert!(histories.len() >= 10);
    let counter = Counter::new();
    for format in scenario::FORMATS {
        let (options, mut tally) = (options(model_for(format)), Tally::default());
        for (name, scenario) in &histories {
            let request = Request::parse(scenario.body(format).to_string().as_bytes(), format.parse().unwrap()).unwrap();
            let before = counter.count(&request, &options).unwrap().breakdown.total();
            for percent in TARGETS {
                let target = before * percent / 100;
                verify(
                    &format!("{format} {name}"),
                    &request,
                    &counter,
                    &options,
                    &Policy::for_room(target).with_target(target),
                    &mut tally,
                );
            }
        }
        println!("{format}: {tally:?}");
        assert!(tally.plans * 10 >= histories.len() * TARGETS.len() * 6, "{format}: {tally:?}");
    }
}

#[test]
fn recorded_requests_as_they_are() {
    let counter = Counter::new();
    for format in [Format::Chat, Format::Responses, Format::Anthropic, Format::Gemini, Format::Converse] {
        let Some(exchanges) = common::exchanges(format.as_str()) else { return };
        let mut tally = Tally::default();
        for exchange in exchanges {
            let Ok(request) = Request::parse(exchange["request"].to_string().as_bytes(), format) else { continue };
            let list = ["messages", "input", "contents"].iter().find_map(|key| request.value().get(*key)?.as_array());
            if list.is_none_or(|list| list.len() < 3) {
                continue;
            }
            let options = options(exchange["model"].as_str().unwrap_or_default());
            let Ok(count) = counter.count(&request, &options) else { continue };
            if check(&request, options.model.as_deref()).iter().any(|f| f.severity == Severity::Error) {
                tally.refused += 1;
                continue;
            }
            let before = count.breakdown.total();
            for percent in TARGETS {
                let target = (before * percent / 100).max(1);
                let policy = Policy { keep_exchanges: 1, ..Policy::for_room(target).with_target(target) };
                verify(&format!("{format} {}", exchange["id"]), &request, &counter, &options, &policy, &mut tally);
            }
        }
        println!("{format}: {tally:?}");
        assert!(tally.plans + tally.stuck > 0);
    }
}

#[test]
fn a_fact_planted_in_any_result_is_found_again() {
    let Some(histories) = histories() else { return };
    let counter = Counter::new();
    let (mut cut, mut planted) = (0, 0);
    for (name, scenario) in &histories {
        let results: Vec<(usize, usize)> = scenario
            .turns
            .iter()
            .enumerate()
            .flat_map(|(t, turn)| match turn {
                Turn::Assistant { calls, .. } => (0..calls.len()).map(|c| (t, c)).collect(),
                Turn::User(_) => Vec::new(),
            })
            .collect();
        for (number, (turn, call)) in results.into_iter().enumerate() {
            let format = scenario::FORMATS[number % 5];
            let fact = format!("PLANTED-{number}-FACT");
            let mut scenario = scenario.clone();
            if let Turn::Assistant { calls, .. } = &mut scenario.turns[turn] {
                let text = &mut calls[call].result;
                let middle = (0..=text.len() / 2).rev().find(|at| text.is_char_boundary(*at)).unwrap();
                text.insert_str(middle, &fact);
            }
            let request = Request::parse(scenario.body(format).to_string().as_bytes(), format.parse().unwrap()).unwrap();
            let options = options(model_for(format));
            let before = counter.count(&request, &options).unwrap().breakdown.total();
            let pages = Pages::in_memory();
            let target = before * 35 / 100;
            let policy = Policy::for_room(target).with_target(target);
            let Decision::Plan(plan) = plan(&request, &counter, &options, &policy, &pages).unwrap() else { continue };
            let outcome = plan.apply(&request, &pages).unwrap();
            planted += 1;
            if outcome.request.text().contains(&fact) {
                continue;
            }
            cut += 1;
            let found =
                plan_pages(&pages, &outcome.undo).unwrap().iter().any(|reference| !pages.search(reference, &fact, 1).unwrap().0.is_empty());
            assert!(found, "{format} {name}: {fact} is lost");
        }
    }
    println!("{planted} planted, {cut} cut and all found by search");
    assert!(cut > 20);
}

#[test]
fn ten_thousand_exchanges_at_a_tiny_window() {
    let counter = Counter::new();
    let options = options("gpt-4o");
    let pages = Pages::in_memory();
    let policy = Policy { high: Mark::Tokens(500), low: Mark::Tokens(350), ..Policy::for_room(400) };
    let mut messages = String::from(r#"{"role":"system","content":"You count."},{"role":"user","content":"Count the cargo."}"#);
    let mut largest = 0;
    let mut compactions = 0;
    for step in 0..10_000 {
        messages.push_str(&format!(
            r#",{{"role":"assistant","content":null,"tool_calls":[{{"id":"c{step}","type":"function","function":{{"name":"read","arguments":"{{\"n\":{}}}"}}}}]}},{{"role":"tool","tool_call_id":"c{step}","content":"hold {step} has {} crates, all of them dry and counted twice"}}"#,
            step % 7,
            step * 13 % 101
        ));
        let request = Request::parse(format!(r#"{{"model":"gpt-4o","messages":[{messages}]}}"#).as_bytes(), Format::Chat).unwrap();
        if let Some(plan) =
            plan(&request, &counter, &options, &policy, &pages).unwrap().into_plan().unwrap_or_else(|e| panic!("{step}: {e}"))
        {
            compactions += 1;
            let outcome = plan.apply(&request, &pages).unwrap();
            let text = outcome.request.text();
            messages = text[text.find('[').unwrap() + 1..text.rfind(']').unwrap()].to_owned();
        }
        assert!(messages.contains(&format!("hold {step} has")), "the newest exchange is intact");
        assert!(messages.contains("Count the cargo."));
        largest = largest.max(messages.len());
    }
    println!("{compactions} compactions, at most {largest} bytes of messages");
    assert!(compactions > 500 && largest < 6_000, "{compactions} compactions, {largest} bytes");
}

/// Asserts no times; prints them for whoever runs it with `--ignored --nocapture`.
#[test]
#[ignore = "prints times"]
fn times_of_a_large_history() {
    let Some(histories) = histories() else { return };
    let counter = Counter::new();
    for format in scenario::FORMATS {
        let mut all = Scenario::default();
        for (_, scenario) in histories.iter().cycle() {
            if all.turns.len() > 720 {
                break;
            }
            if !all.turns.is_empty() {
                all.turns.push(Turn::Assistant { text: Some("Done.".into()), thinking: false, calls: Vec::new() });
            }
            all.turns.extend(scenario.turns.iter().cloned());
        }
        all.turns.push(Turn::Assistant { text: Some("Done.".into()), thinking: false, calls: Vec::new() });
        all.turns.push(Turn::User("Go on.".into()));
        let options = options(model_for(format));
        let request = Request::parse(all.body(format).to_string().as_bytes(), format.parse().unwrap()).unwrap();
        let pages = Pages::in_memory();
        let before = counter.count(&request, &options).unwrap().breakdown.total();
        for percent in [70, 30] {
            let policy = Policy::default().with_target(before * percent / 100);
            let mut best = (u128::MAX, u128::MAX);
            for _ in 0..4 {
                let start = std::time::Instant::now();
                counter.count(&request, &options).unwrap();
                best.0 = best.0.min(start.elapsed().as_micros());
                let start = std::time::Instant::now();
                match plan(&request, &counter, &options, &policy, &pages).unwrap() {
                    Decision::Plan(plan) => drop(plan.apply(&request, &pages).unwrap()),
                    other => println!("{format}: {other:?}"),
                }
                best.1 = best.1.min(start.elapsed().as_micros());
            }
            println!("{format} {before} tokens to {percent}%: count {} us, plan and apply {} us", best.0, best.1);
        }
    }
}
