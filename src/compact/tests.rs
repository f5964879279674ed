//! Properties of compaction over made-up histories in every format, by a toy count: invariants 5, 7, 8, 9 and 10.
//!
//! The toy count (four bytes a token, by item) keeps these tests apart from the renderers; the integration tests use the real ones.

use super::plan::plan_by;
use super::*;
use crate::check::{self, Severity};
use crate::count::{Breakdown, Count, Part, PartKind};
use crate::error::Result;
use crate::format::{Edit, Format, ItemBody, Request, Role};
use crate::models::Profile;
use crate::pages::Pages;
use proptest::prelude::*;
use scenario::{FORMATS, Scenario, Turn};
use std::sync::Arc;

#[path = "../../tests/scenario/mod.rs"]
mod scenario;

fn profile() -> Arc<Profile> {
    static PROFILE: std::sync::OnceLock<Arc<Profile>> = std::sync::OnceLock::new();
    Arc::clone(PROFILE.get_or_init(crate::compact::tests::toy_profile))
}

pub(super) fn toy_profile() -> Arc<Profile> {
    let counter = crate::count::Counter::new();
    counter.models().find("gpt-4o", None).expect("the table holds gpt-4o")
}

fn toy(request: &Request) -> Result<Count> {
    let conversation = request.conversation()?;
    let mut breakdown = Breakdown::default();
    breakdown.push(Part::exact(PartKind::Overhead, "", 3));
    for tool in &conversation.tools {
        breakdown.push(Part::exact(PartKind::ToolDefinition, tool.place.as_str(), tool.raw.to_string().len() as u64 / 4));
    }
    for message in &conversation.messages {
        breakdown.push(Part::exact(PartKind::Overhead, message.place.as_str(), 4));
        for item in &message.items {
            let bytes = match &item.body {
                ItemBody::Text(text) => text.len(),
                _ if item.raw.get("content").is_some() => item.raw["content"].to_string().len(),
                _ => item.raw.to_string().len(),
            };
            let kind = match &item.body {
                ItemBody::ToolResult(_) => PartKind::ToolResult,
                ItemBody::ToolCall(_) => PartKind::ToolCall,
                _ => PartKind::User,
            };
            breakdown.push(Part::exact(kind, item.place.as_str(), bytes as u64 / 4 + 1));
        }
    }
    Ok(Count { breakdown, profile: profile() })
}

fn total(request: &Request) -> u64 {
    toy(request).unwrap().breakdown.total()
}

fn request(scenario: &Scenario, format: &str) -> Request {
    let format: Format = format.parse().unwrap();
    Request::parse(scenario.body(format.as_str()).to_string().as_bytes(), format).unwrap()
}

fn small_policy(target: u64) -> Policy {
    Policy { shrink_over: 120, shrink_to: 60, summary_tokens: 200, min_gain: Mark::Tokens(50), ..Policy::default() }.with_target(target)
}

/// The text of every message that must stay, by role and content.
fn locked_texts(request: &Request, policy: &Policy) -> Vec<String> {
    let conversation = request.conversation().unwrap();
    let count = toy(request).unwrap();
    let history = history::History::of(request, &conversation, &count.breakdown, policy);
    let mut out: Vec<String> =
        conversation.messages.iter().filter(|m| !m.listed).map(|m| request.raw(&m.place).unwrap().to_owned()).collect();
    for unit in history.units.iter().filter(|unit| unit.locked.is_some()) {
        for message in history.messages(unit) {
            // Converse may get a summary beside what a user said; the items themselves stay.
            if request.format() == Format::Converse && message.role != Role::Assistant {
                out.extend(message.items.iter().map(|item| request.raw(&item.place).unwrap().to_owned()));
            } else {
                out.push(request.raw(&message.place).unwrap().to_owned());
            }
        }
    }
    out
}

/// All that must hold of one request, policy and target; says what was decided.
fn verify(request: &Request, policy: &Policy) -> &'static str {
    let pages = Pages::in_memory();
    let before = total(request);
    assert_eq!(check::check(request, None).iter().find(|f| f.severity == Severity::Error), None, "the test's own history is valid");
    let decision = plan_by(request, &toy, None, policy, &pages).unwrap();
    let Mark::Tokens(target) = policy.low else { panic!("tests name tokens") };
    let plan = match decision {
        Decision::Nothing { before } => {
            assert!(before <= target);
            return "nothing";
        }
        Decision::Stuck(shortfall) => {
            assert!(shortfall.floor > target && !shortfall.parts.is_empty(), "{shortfall:?}");
            assert!(shortfall.floor <= before);
            return "stuck";
        }
        Decision::Plan(plan) => plan,
    };
    let again = plan_by(request, &toy, None, policy, &pages).unwrap().into_plan().unwrap().unwrap();
    assert_eq!(again.preview().text(), plan.preview().text(), "byte-identical on repeat");
    assert_eq!(again.id, plan.id);
    for locked in locked_texts(request, policy) {
        assert!(plan.preview().text().contains(&locked), "what is locked stays byte for byte: {locked}");
    }
    assert!(plan.cache_broken_from <= before);
    let kept: Vec<(String, String)> = plan.kept().map(|(r, t)| (r.to_owned(), t.to_owned())).collect();
    let outcome = plan.apply(request, &pages).unwrap();
    assert!(outcome.after <= target && outcome.after < before && outcome.after == total(&outcome.request));
    let findings = check::check(&outcome.request, None);
    assert_eq!(findings.iter().find(|f| f.severity == Severity::Error), None, "{}", outcome.request.text());
    assert!(matches!(plan_by(&outcome.request, &toy, None, policy, &pages).unwrap(), Decision::Nothing { .. }), "a fixed point");
    assert_eq!(undo(&pages, &outcome.undo).unwrap().text(), request.text(), "undo gives the bytes back");
    for (reference, text) in kept {
        assert_eq!(pages.text(&reference).unwrap(), text);
    }
    "plan"
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn histories_of_every_format_fit_or_say_why(seed in any::<u64>(), turns in 1_u64..25, scale in 1_u64..60, keep in 0_usize..4) {
        let scenario = scenario::generate(seed, turns, scale);
        for format in FORMATS {
            let request = request(&scenario, format);
            let before = total(&request);
            for percent in [90, 70, 50, 30, 15] {
                let policy = Policy { keep_exchanges: keep, ..small_policy((before * percent / 100).max(1)) };
                verify(&request, &policy);
            }
        }
    }

    #[test]
    fn edits_leave_all_else_byte_for_byte(seed in any::<u64>()) {
        let scenario = scenario::generate(seed, 6, 20);
        for format in FORMATS {
            let request = request(&scenario, format);
            let same = request.edited(&[]).unwrap();
            prop_assert_eq!(same.text(), request.text());
        }
    }

    #[test]
    fn a_planted_fact_is_found_again(seed in any::<u64>(), turns in 4_u64..16, at in any::<prop::sample::Index>(), percent in 20_u64..80) {
        let mut scenario = scenario::generate(seed, turns, 40);
        let fact = format!("FACT-{seed:x}-TCAF");
        let mut calls: Vec<&mut scenario::Call> = scenario.turns.iter_mut().filter_map(|turn| match turn {
            Turn::Assistant { calls, .. } => Some(calls),
            Turn::User(_) => None,
        }).flatten().collect();
        prop_assume!(!calls.is_empty());
        let chosen = at.index(calls.len());
        let result = &mut calls[chosen].result;
        // In JSON too it must stand inside a string.
        if result.starts_with('{') { *result = result.replacen("\"ok\"", &format!("\"{fact}\""), 1) } else { result.push_str(&format!("\n{fact}\n")) }
        for format in FORMATS {
            let request = request(&scenario, format);
            prop_assert!(request.text().contains(&fact));
            let pages = Pages::in_memory();
            let policy = small_policy(total(&request) * percent / 100);
            let Decision::Plan(plan) = plan_by(&request, &toy, None, &policy, &pages).unwrap() else { continue };
            let outcome = plan.apply(&request, &pages).unwrap();
            let in_pages = plan_pages(&pages, &outcome.undo).unwrap().iter().any(|r| !pages.search(r, &fact, 1).unwrap().0.is_empty());
            prop_assert!(in_pages || outcome.request.text().contains(&fact), "{} lost", format);
        }
    }
}

#[test]
fn a_loop_at_a_tiny_window_ends_small_and_keeps_the_newest() {
    for format in FORMATS {
        let pages = Pages::in_memory();
        let policy = Policy { high: Mark::Tokens(900), low: Mark::Tokens(600), ..small_policy(0) };
        let mut random = scenario::Random(7);
        let mut scenario = scenario::generate(1, 1, 5);
        scenario.system = Some("You count cargo.".into());
        let mut body = request(&scenario, format);
        let list = match format {
            "responses" => "/input",
            "gemini" => "/contents",
            _ => "/messages",
        };
        let (mut compactions, mut largest) = (0, 0);
        for step in 0..2_000_u64 {
            let call = scenario::Call {
                name: "read".into(),
                args: serde_json::json!({"path": format!("f{}", random.below(9))}),
                result: format!("{} step {step}", scenario::words(&mut random, 30)),
                failed: false,
            };
            let mut turns = vec![Turn::Assistant { text: None, thinking: false, calls: vec![call] }];
            if step % 10 == 9 {
                turns.push(Turn::Assistant { text: Some("Done.".into()), thinking: false, calls: Vec::new() });
                turns.push(Turn::User(format!("Next, number {step}.")));
            }
            let addition = Scenario { system: None, turns }.body(format);
            let items = addition.pointer(list).unwrap().as_array().unwrap();
            let length = body.value().pointer(list).unwrap().as_array().unwrap().len();
            let edits: Vec<crate::format::Edit> = items
                .iter()
                .map(|item| crate::format::Edit::Insert {
                    place: format!("{list}/{length}"),
                    json: item.to_string().replace("call_00001", &format!("call_{step:05}_")),
                })
                .collect();
            body = body.edited(&edits).unwrap();
            if let Some(plan) =
                plan_by(&body, &toy, None, &policy, &pages).unwrap().into_plan().unwrap_or_else(|e| panic!("{format} {step}: {e}"))
            {
                compactions += 1;
                body = plan.apply(&body, &pages).unwrap().request;
            }
            largest = largest.max(total(&body));
            assert!(body.text().contains(&format!("step {step}")), "{format}: the newest exchange is intact");
        }
        assert!(compactions > 50, "{format}: {compactions}");
        assert!(largest <= 900, "{format}: {largest}");
        assert!(body.text().contains("You count cargo."));
    }
}

#[test]
fn a_hosts_summary_is_taken_when_sound_and_passed_over_when_not() {
    let scenario = scenario::generate(3, 20, 40);
    for format in FORMATS {
        let request = request(&scenario, format);
        let pages = Pages::in_memory();
        let policy = Policy {
            summarizer: SummarizerKind::Host,
            steps: vec![Step::Summarize],
            keep_identifiers: vec!["AB-1234".into()],
            ..small_policy(total(&request) / 2)
        };
        let make = || plan_by(&request, &toy, None, &policy, &pages).unwrap().into_plan().unwrap().unwrap();
        let plan = make();
        assert!(!plan.tasks.is_empty() && plan.tasks[0].text.contains("AB-1234"), "{format}");
        assert_eq!(plan.slots.len(), plan.tasks.len(), "{format}");
        let with = |text: &str| make().with_summaries_by(&[Some(text.to_owned())], &toy, &pages).unwrap();
        let sound = with("All went well with AB-1234.");
        assert!(sound.preview().text().contains("All went well") && sound.after < plan.after, "{format}");
        assert_eq!(check::check(sound.preview(), None).iter().find(|f| f.severity == Severity::Error), None);
        for bad in ["", "forgot the identifier", &"AB-1234 very long ".repeat(5000)] {
            assert_eq!(with(bad).preview().text(), plan.preview().text(), "{format}");
        }
    }
}

/// As [`Plan::with_summaries`]: one summary after the other, the whole counted for each.
fn summarized_one_by_one(plan: &Plan, texts: &[Option<String>]) -> (String, Vec<usize>) {
    let (mut request, mut after, mut taken) = (plan.preview().clone(), plan.after, Vec::new());
    for slot in &plan.slots {
        let Some(text) = texts[slot.task].as_deref().map(str::trim).filter(|text| !text.is_empty()) else { continue };
        if !plan.tasks[slot.task].keep.iter().all(|word| text.contains(word.as_str())) {
            continue;
        }
        let edit = Edit::set_text(slot.place.as_str(), &format!("{}\n{text}", slot.head));
        let candidate = request.edited(&[edit]).unwrap();
        let total = total(&candidate);
        let smaller = slot.extractive + total.saturating_sub(after) < slot.replaced;
        if total <= plan.target && total < plan.before && smaller {
            (request, after) = (candidate, total);
            taken.push(slot.task);
        }
    }
    (request.text().to_owned(), taken)
}

#[test]
fn many_summaries_find_their_places_as_one_by_one() {
    let mut most = 0;
    for (seed, format) in (1..13).flat_map(|seed| FORMATS.map(|format| (seed, format))) {
        let mut scenario = scenario::generate(seed, 30, 40);
        // Two runs that say the same.
        let again = scenario.turns[2..8].to_vec();
        scenario.turns.splice(14..14, again);
        let request = request(&scenario, format);
        if check::check(&request, None).iter().any(|finding| finding.severity == Severity::Error) {
            continue;
        }
        let pages = Pages::in_memory();
        // Pins part the runs.
        let pins = (0..60).step_by(5).map(|index| Pin { index: Some(index), ..Pin::default() }).collect();
        let policy =
            Policy { summarizer: SummarizerKind::Host, steps: vec![Step::Summarize], pins, ..small_policy(total(&request) * 4 / 5) };
        let plan = || plan_by(&request, &toy, None, &policy, &pages).unwrap().into_plan();
        let Ok(Some(planned)) = plan() else { continue };
        most = most.max(planned.tasks.len());

        // Each summary stands in the first text that has its head and is not taken.
        let view = planned.request.conversation().unwrap();
        let mut free: Vec<(&str, &str)> = (view.messages.iter().flat_map(|m| &m.items))
            .filter_map(|item| match &item.body {
                ItemBody::Text(text) => Some((item.place.as_str(), text.as_ref())),
                _ => None,
            })
            .collect();
        assert_eq!(planned.slots.iter().map(|slot| slot.task).collect::<Vec<_>>(), (0..planned.tasks.len()).collect::<Vec<_>>());
        for slot in &planned.slots {
            let at = free.iter().position(|(_, text)| text.starts_with(&slot.head)).unwrap();
            assert_eq!(slot.item, free.remove(at).0, "{seed} {format}");
        }

        let mut random = scenario::Random(seed * 31);
        for _ in 0..6 {
            let words = |random: &mut scenario::Random| "word ".repeat(usize::try_from(random.below(120)).unwrap());
            let texts: Vec<Option<String>> =
                planned.tasks.iter().map(|task| (random.below(5) > 0).then(|| words(&mut random) + &task.keep.join(" "))).collect();
            let summarized = plan().unwrap().unwrap().with_summaries_by(&texts, &toy, &pages).unwrap();
            let (text, taken) = summarized_one_by_one(&planned, &texts);
            assert_eq!((summarized.preview().text(), &summarized.summarized), (text.as_str(), &taken), "{seed} {format}");
            assert_eq!(summarized.after, total(summarized.preview()));
        }
    }
    assert!(most > 4, "{most}");
}

#[test]
fn pins_hold_and_contradictions_are_refused() {
    let scenario = scenario::generate(11, 14, 50);
    let request = request(&scenario, "anthropic");
    let before = total(&request);
    let pinned = request.raw("/messages/1").unwrap().to_owned();
    let policy = Policy { pins: vec![Pin { index: Some(1), ..Pin::default() }], ..small_policy(before / 3) };
    verify(&request, &policy);
    let pages = Pages::in_memory();
    if let Decision::Plan(plan) = plan_by(&request, &toy, None, &policy, &pages).unwrap() {
        assert!(plan.preview().text().contains(&pinned));
    }
    for format in FORMATS {
        let request = self::request(&scenario, format);
        let pins = vec![Pin { role: Some("user".into()), ..Pin::default() }];
        verify(&request, &Policy { pins, ..small_policy(total(&request) / 2) });
    }
    let bad = [
        Policy { low: Mark::Tokens(100), high: Mark::Tokens(50), ..Policy::default() },
        Policy { low: Mark::Share(0.5), high: Mark::Share(0.5), ..Policy::default() },
        Policy { high: Mark::Share(1.5), ..Policy::default() },
        Policy { shrink_to: 10, shrink_over: 10, ..Policy::default() },
        Policy { pins: vec![Pin::default()], ..Policy::default() },
        Policy { summary_tokens: 0, ..Policy::default() },
    ];
    for policy in bad {
        assert_eq!(plan_by(&request, &toy, None, &policy, &pages).unwrap_err().kind(), crate::Kind::InvalidInput, "{policy:?}");
    }
}

#[test]
fn an_invalid_history_is_refused_with_its_place() {
    let body = br#"{"messages":[{"role":"user","content":"hi"},{"role":"tool","tool_call_id":"x","content":"4"}]}"#;
    let request = Request::parse(body, Format::Chat).unwrap();
    let error = plan_by(&request, &toy, None, &small_policy(5), &Pages::in_memory()).unwrap_err();
    assert_eq!((error.kind(), error.path()), (crate::Kind::InvalidInput, Some("/messages/1")));
}
