//! Requests that a provider answered are valid: `check` finds no error in them, and breaking them is found and mended.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "helpers of tests")]

mod common;
mod scenario;

use plimsoll::{Format, Request, Severity, check, repair};
use serde_json::{Value, json};

/// Recorded bodies that were accepted by a mock or proxy although the provider itself would refuse them.
const FAKES: [&str; 0] = [];

#[test]
fn what_providers_took_has_no_errors() {
    let mut seen = 0;
    let mut wrong = Vec::new();
    for format in [Format::Chat, Format::Responses, Format::Anthropic, Format::Gemini, Format::Converse] {
        let Some(exchanges) = common::exchanges(format.as_str()) else { return };
        for exchange in exchanges {
            if exchange["usage"].is_null() || FAKES.contains(&exchange["id"].as_str().unwrap_or_default()) {
                continue;
            }
            let Ok(request) = Request::parse(exchange["request"].to_string().as_bytes(), format) else { continue };
            let errors: Vec<_> =
                check(&request, exchange["model"].as_str()).into_iter().filter(|f| f.severity == Severity::Error).collect();
            seen += 1;
            if let Some(error) = errors.first() {
                wrong.push(format!("{format} {} {}: {} at {}", exchange["id"], exchange["host"], error.rule, error.path));
            }
        }
    }
    assert!(seen > 2_000);
    assert!(wrong.is_empty(), "{} of {seen}:\n{}", wrong.len(), wrong.join("\n"));
}

fn errors(body: &Value, format: &str) -> Vec<&'static str> {
    let request = Request::parse(body.to_string().as_bytes(), format.parse().unwrap()).unwrap();
    check(&request, None).into_iter().filter(|f| f.severity == Severity::Error).map(|f| f.rule).collect()
}

fn mended(body: &Value, format: &str) -> Value {
    let request = Request::parse(body.to_string().as_bytes(), format.parse().unwrap()).unwrap();
    let repaired = repair(&request, None).unwrap();
    assert_eq!(repaired.left.iter().find(|f| f.severity == Severity::Error), None, "{format}: {}", repaired.request.text());
    assert!(!repaired.mended.is_empty());
    assert_eq!(repair(&request, None).unwrap().request.text(), repaired.request.text(), "the same mending every time");
    assert!(repair(&repaired.request, None).unwrap().mended.is_empty(), "mended once for all");
    repaired.request.value().clone()
}

fn list_of(format: &str) -> &'static str {
    match format {
        "responses" => "input",
        "gemini" => "contents",
        _ => "messages",
    }
}

#[test]
fn damage_is_found_and_mended() {
    for seed in 1..40 {
        let scenario = scenario::generate(seed, 8, 12);
        for format in scenario::FORMATS {
            let body = scenario.body(format);
            assert_eq!(errors(&body, format), Vec::<&str>::new(), "seed {seed} {format}");
            let length = body[list_of(format)].as_array().unwrap().len();
            let mut random = scenario::Random(seed * 77 + 1);
            for _ in 0..6 {
                // Anything but the first message may be missing, given twice, or out of place.
                let at = 1 + random.below(length as u64 - 1) as usize;
                let mut broken = body.clone();
                let list = broken[list_of(format)].as_array_mut().unwrap();
                match random.below(3) {
                    0 => {
                        list.remove(at);
                    }
                    1 => list.insert(at, list[at].clone()),
                    _ => {
                        let to = 1 + random.below(length as u64 - 1) as usize;
                        list.swap(at, to);
                    }
                }
                if !errors(&broken, format).is_empty() {
                    mended(&broken, format);
                }
            }
        }
    }
}

#[test]
fn rules_by_format() {
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let chat = json!({"messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": null, "tool_calls": [call("a"), call("b")]},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "user", "content": "and"},
        {"role": "tool", "tool_call_id": "b", "content": "2"}
    ]});
    assert_eq!(errors(&chat, "chat"), ["result_misplaced"]);
    let whole = mended(&chat, "chat");
    assert_eq!(whole["messages"][3]["tool_call_id"], "b");

    let nameless = json!({"messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [{"id": "", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "", "content": "1"}
    ]});
    assert!(errors(&nameless, "chat").contains(&"missing_call_id"));
    let id = mended(&nameless, "chat")["messages"][1]["tool_calls"][0]["id"].as_str().unwrap().to_owned();
    assert!(id.starts_with("call_"));

    let anthropic = json!({"max_tokens": 9, "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "no signature"},
            {"type": "text", "text": ""},
            {"type": "tool_use", "id": "t1", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "text", "text": "first"}, {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}]},
        {"role": "assistant", "content": "well "}
    ]});
    let found = errors(&anthropic, "anthropic");
    for rule in ["thinking_signature", "empty_content", "results_not_first", "trailing_blanks"] {
        assert!(found.contains(&rule), "{rule}: {found:?}");
    }
    let whole = mended(&anthropic, "anthropic");
    assert_eq!(whole["messages"][2]["content"][0]["type"], "tool_result");
    assert_eq!(whole["messages"][3]["content"], "well");

    let converse = json!({"messages": [
        {"role": "user", "content": [{"text": "a"}]}, {"role": "user", "content": [{"text": "b"}]}
    ]});
    assert_eq!(errors(&converse, "converse"), ["role_alternation"]);
    assert_eq!(mended(&converse, "converse")["messages"], json!([{"role": "user", "content": [{"text": "a"}, {"text": "b"}]}]));

    let responses = json!({"model": "gpt-5", "input": [
        {"type": "message", "role": "user", "content": "hi"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    ]});
    assert_eq!(errors(&responses, "responses"), ["orphan_call"]);
    assert_eq!(mended(&responses, "responses")["input"].as_array().unwrap().len(), 1);

    let gemini = json!({"contents": [
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": 1}}}]}
    ]});
    assert_eq!(errors(&gemini, "gemini"), Vec::<&str>::new());
    let request = Request::parse(gemini.to_string().as_bytes(), Format::Gemini).unwrap();
    assert_eq!(check(&request, Some("gemini-3-pro")).iter().map(|f| f.rule).collect::<Vec<_>>(), ["thought_signature"]);
}
