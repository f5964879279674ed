//! Every recorded stream, cut in every way: the same message, finish and usage; and no prefix of one is whole.
//!
//! Guards invariant 11 on real traffic. Skips, with the reason, where the recorded data is absent.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test binary")]

mod common;

use plimsoll::turn::{FaultKind, Gate, Policy, Reason, Stream, Turn};
use plimsoll::{Format, Tokenizer};
use serde_json::Value;

const FORMATS: [(&str, Format); 4] =
    [("chat", Format::Chat), ("responses", Format::Responses), ("anthropic", Format::Anthropic), ("gemini", Format::Gemini)];

/// Recorded streams: exchange, raw text.
fn streams(name: &str) -> Option<Vec<(Value, String)>> {
    let exchanges = common::exchanges(name)?;
    Some(
        exchanges
            .into_iter()
            .filter_map(|e| e["stream"].as_bool()?.then(|| e["response"].as_str().map(str::to_owned))?.map(|raw| (e, raw)))
            .collect(),
    )
}

fn assemble(raw: &[u8], cut: usize, format: Format) -> Turn {
    let mut stream = Stream::new(format).unwrap();
    for piece in raw.chunks(cut) {
        stream.feed(piece);
    }
    stream.finish()
}

#[test]
fn every_cut_gives_the_same_turn_and_the_recorded_usage_and_finish() {
    let mut seen = 0;
    for (name, format) in FORMATS {
        let Some(streams) = streams(name) else { return };
        assert!(!streams.is_empty(), "no streams in {name}");
        for (exchange, raw) in streams {
            let id = &exchange["id"];
            let whole = assemble(raw.as_bytes(), usize::MAX, format);
            let provider_error = whole.faults.iter().any(|fault| fault.kind == FaultKind::Provider);
            assert!(whole.ended_well || provider_error, "{name} {id}: {:?}", whole.faults);
            assert!(
                whole.faults.iter().all(|f| matches!(f.kind, FaultKind::FinishMissing | FaultKind::Provider)),
                "{name} {id}: {:?}",
                whole.faults
            );
            for cut in [1, 2, 3, 7, 64] {
                assert!(assemble(raw.as_bytes(), cut, format) == whole, "{name} {id}: cut at {cut} differs");
            }
            assert_eq!(whole.usage.as_ref().map(|u| &u.raw), Some(&exchange["usage"]), "{name} {id}");
            assert_eq!(whole.choices.len(), 1, "{name} {id}");
            let finish = &whole.choices[0].finish;
            assert_eq!(finish.raw.as_deref(), exchange["finish"].as_str(), "{name} {id}");
            assert_ne!(finish.reason, Reason::Unknown, "{name} {id}: {:?}", finish.raw);
            seen += 1;
        }
    }
    println!("{seen} streams at 5 cuts");
}

/// Every byte of every stream is a place where a connection may break. Fed byte by byte; after each the stream as it stands is ended on a
/// copy and judged as loosely as the gate can. Each place is judged, none is skipped.
#[test]
fn no_proper_prefix_of_a_tool_call_stream_runs_anything() {
    let (mut prefixes, mut runs) = (0_u64, 0_u64);
    for (name, format) in FORMATS {
        let Some(streams) = streams(name) else { return };
        for (exchange, raw) in streams {
            let bytes = raw.as_bytes();
            let whole = assemble(bytes, usize::MAX, format);
            if whole.choices.iter().all(|choice| choice.calls.is_empty()) {
                continue;
            }
            // Without the schemas the gate lets more through, and is quick to make.
            let names: Vec<String> = whole.choices.iter().flat_map(|choice| &choice.calls).map(|call| call.name.clone()).collect();
            let judge = |turn: &Turn| {
                let mut gate = Gate::new(Policy::default());
                for name in &names {
                    gate.add_tool(name, None);
                }
                gate.judge(turn, 0, 0)
            };
            runs += judge(&whole).runnable().count() as u64;
            let mut stream = Stream::new(format).unwrap();
            for (at, byte) in bytes.iter().enumerate() {
                let cut = stream.clone().finish();
                assert!(
                    !cut.ended_well && cut.error().is_some(),
                    "{name} {}: the first {at} of {} bytes end well",
                    exchange["id"],
                    bytes.len()
                );
                assert!(
                    cut.choices.iter().all(|choice| choice.calls.is_empty()) || judge(&cut).runnable().next().is_none(),
                    "{name} {} at {at}",
                    exchange["id"]
                );
                stream.feed(std::slice::from_ref(byte));
                prefixes += 1;
            }
            assert!(stream.finish() == whole, "{name} {}", exchange["id"]);
        }
    }
    println!("{prefixes} prefixes, {runs} calls of whole streams may be run");
    assert!(runs > 0, "some call may be run once its stream is whole");
}

#[test]
fn counted_output_equals_the_bill_of_openai_text() {
    let (mut seen, mut exact, mut misses) = (0, 0, Vec::new());
    for (name, format) in [("chat", Format::Chat), ("responses", Format::Responses)] {
        let Some(streams) = streams(name) else { return };
        for (exchange, raw) in streams {
            if exchange["host"] != "api.openai.com" {
                continue;
            }
            let turn = assemble(raw.as_bytes(), usize::MAX, format);
            let (Some(usage), [choice]) = (&turn.usage, turn.choices.as_slice()) else { continue };
            let items = choice.message["output"].as_array().map_or(1, Vec::len);
            if usage.reasoning.unwrap_or(0) > 0 || !choice.calls.is_empty() || items != 1 {
                continue;
            }
            let model = turn.model.clone().unwrap_or_default();
            let vocabulary = if model.starts_with("gpt-3.5") || model == "gpt-4" { "cl100k_base" } else { "o200k_base" };
            let tools = exchange["request"]["tools"].as_array().is_some_and(|tools| !tools.is_empty());
            let counted = turn.counted_output(&Tokenizer::by_name(vocabulary).unwrap(), tools);
            seen += 1;
            if Some(counted) == usage.output {
                exact += 1;
            } else {
                misses.push(format!("{name} {} {model} counted {counted} billed {:?}", exchange["id"], usage.output));
            }
        }
    }
    println!("{exact} of {seen} exact; {misses:#?}");
    assert!(exact * 100 >= seen * 95, "{exact} of {seen}: {misses:#?}");
}

#[test]
fn every_recorded_whole_response_is_read() {
    let mut seen = 0;
    for (name, format) in FORMATS.into_iter().chain([("converse", Format::Converse)]) {
        let Some(exchanges) = common::exchanges(name) else { return };
        for exchange in exchanges.iter().filter(|e| e["response"].is_object()) {
            let turn = Turn::read(&exchange["response"], format).unwrap();
            assert!(turn.ended_well, "{name} {}: {:?}", exchange["id"], turn.faults);
            assert_eq!(turn.usage.as_ref().map(|u| &u.raw), Some(&exchange["usage"]), "{name} {}", exchange["id"]);
            for choice in &turn.choices {
                assert!(choice.finish.reason != Reason::Unknown, "{name} {}: {:?}", exchange["id"], choice.finish);
                for call in &choice.calls {
                    assert!(!call.name.is_empty(), "{name} {}", exchange["id"]);
                }
                let wants = matches!(exchange["finish"].as_str(), Some("tool_calls" | "tool_use" | "function_call"));
                assert!(!wants || !choice.calls.is_empty(), "{name} {}", exchange["id"]);
            }
            seen += 1;
        }
    }
    println!("{seen} whole responses");
}

#[test]
fn converse_responses_in_frames_give_the_whole_ones_turn_and_no_prefix_runs() {
    let Some(exchanges) = common::exchanges("converse") else { return };
    let (mut seen, mut calls, mut prefixes) = (0, 0, 0_u64);
    for exchange in exchanges.iter().filter(|e| e["response"]["output"]["message"].is_object()) {
        let whole = Turn::read(&exchange["response"], Format::Converse).unwrap();
        let bytes = common::converse_frames(&exchange["response"]);
        for cut in [1, 2, 3, 7, 64, usize::MAX] {
            let turn = assemble(&bytes, cut, Format::Converse);
            assert!(turn.ended_well, "{}: {:?}", exchange["id"], turn.faults);
            // A block of no known kind has no event that could carry it.
            assert_eq!((&turn.choices[0].text, &turn.choices[0].reasoning), (&whole.choices[0].text, &whole.choices[0].reasoning));
            assert_eq!((&turn.choices[0].calls, &turn.usage), (&whole.choices[0].calls, &whole.usage), "{} at {cut}", exchange["id"]);
            assert_eq!(turn.choices[0].finish, whole.choices[0].finish);
        }
        seen += 1;
        if whole.choices[0].calls.is_empty() {
            continue;
        }
        calls += 1;
        let mut stream = Stream::new(Format::Converse).unwrap();
        for byte in &bytes {
            let cut = stream.clone().finish();
            assert!(!cut.ended_well && cut.error().is_some(), "{} ends well too early", exchange["id"]);
            stream.feed(std::slice::from_ref(byte));
            prefixes += 1;
        }
        assert!(stream.finish().ended_well);
    }
    println!("{seen} responses in frames, {calls} with calls, {prefixes} prefixes");
    assert!(seen > 0 && calls > 0);
}
