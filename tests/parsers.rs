//! Bodies of every format, damaged at random: a view or a typed error with a place inside the body, never a panic.
//!
//! Starts from bodies that use every kind of part, then swaps, drops and replaces values anywhere in the tree, and cuts and
//! flips bytes of the text. Doesn't cover counts (each family's own tests do).

use plimsoll::{CountOptions, Counter, Format, Kind, Request};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A body of each format that uses as many kinds of parts as the format has.
fn bodies() -> Vec<(Format, Value)> {
    let png = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAGCAIAAABxZ0isAAAADklEQVR42mNgGAWDEwAAAZ4AAUrzz7cAAAAASUVORK5CYII=";
    let schema = json!({"type": "object", "properties": {"path": {"type": "string", "description": "where"}, "n": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}, "required": ["path"]});
    vec![
        (
            Format::Chat,
            json!({"model": "gpt-4o", "n": 2, "max_tokens": 50, "tool_choice": {"type": "function", "function": {"name": "read"}},
                "response_format": {"type": "json_schema", "json_schema": {"name": "out", "schema": schema}},
                "tools": [{"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": schema}}],
                "messages": [
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "name": "ann", "content": [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{png}"), "detail": "low"}}]},
                    {"role": "assistant", "content": null, "tool_calls": [{"id": "a", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"x\"}"}}]},
                    {"role": "tool", "tool_call_id": "a", "content": "text"}]}),
        ),
        (
            Format::Responses,
            json!({"model": "gpt-5", "instructions": "Be brief.", "max_output_tokens": 50, "reasoning": {"effort": "low"},
                "tools": [{"type": "function", "name": "read", "parameters": schema, "strict": true}, {"type": "web_search"}],
                "text": {"format": {"type": "json_schema", "name": "out", "schema": schema}},
                "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}, {"type": "input_image", "image_url": "https://example.com/a.png"}]},
                    {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "abcd"},
                    {"type": "function_call", "id": "fc", "call_id": "c", "name": "read", "arguments": "{}"},
                    {"type": "function_call_output", "call_id": "c", "output": "text"}]}),
        ),
        (
            Format::Anthropic,
            json!({"model": "claude-sonnet-4-5", "max_tokens": 5000, "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
                "thinking": {"type": "enabled", "budget_tokens": 1024}, "tool_choice": {"type": "any"},
                "tools": [{"name": "read", "description": "Reads.", "input_schema": schema}, {"type": "bash_20250124", "name": "bash"}],
                "messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png}}, {"type": "text", "text": "hi"}]},
                    {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "abcd"}, {"type": "tool_use", "id": "t", "name": "read", "input": {"path": "x"}}]},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "ok"}], "is_error": false}]}]}),
        ),
        (
            Format::Gemini,
            json!({"model": "gemini-2.5-flash", "systemInstruction": {"parts": [{"text": "Be brief."}]}, "generationConfig": {"maxOutputTokens": 50, "thinkingConfig": {"thinkingBudget": 10}},
                "tools": [{"functionDeclarations": [{"name": "read", "description": "Reads.", "parameters": schema}]}],
                "contents": [{"role": "user", "parts": [{"text": "hi"}, {"inlineData": {"mimeType": "image/png", "data": png}}]},
                    {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {"path": "x"}}, "thoughtSignature": "abcd"}]},
                    {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"ok": true}}}]}]}),
        ),
        (
            Format::Converse,
            json!({"modelId": "amazon.nova-pro-v1:0", "system": [{"text": "Be brief."}], "inferenceConfig": {"maxTokens": 50},
                "toolConfig": {"tools": [{"toolSpec": {"name": "read", "inputSchema": {"json": schema}}}], "toolChoice": {"auto": {}}},
                "messages": [{"role": "user", "content": [{"text": "hi"}, {"image": {"format": "png", "source": {"bytes": png}}}]},
                    {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t", "name": "read", "input": {"path": "x"}}}]},
                    {"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": [{"json": {"a": 1}}], "status": "success"}}]}]}),
        ),
        (Format::Mcp, json!({"tools": [{"name": "read", "description": "Reads.", "inputSchema": schema}]})),
    ]
}

/// All places of a value, as JSON Pointers.
fn places(value: &Value, at: &str, out: &mut Vec<String>) {
    out.push(at.to_owned());
    match value {
        Value::Object(map) => map.iter().for_each(|(k, v)| places(v, &format!("{at}/{}", k.replace('~', "~0").replace('/', "~1")), out)),
        Value::Array(list) => list.iter().enumerate().for_each(|(i, v)| places(v, &format!("{at}/{i}"), out)),
        _ => {}
    }
}

/// Values that a field may be wrong in.
fn odd() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!([])),
        Just(json!({})),
        Just(json!("")),
        Just(json!("\u{0}\u{FFFF}💥")),
        Just(json!(-1)),
        Just(json!(u64::MAX)),
        Just(json!(1.5e300)),
        Just(json!(true)),
        Just(json!([[[]]])),
        Just(json!({"type": "object", "$ref": "#"})),
        Just(json!([null, 0, "x", {"type": "text"}])),
        "[a-z_]{1,12}".prop_map(Value::String),
    ]
}

/// Views and counts a body; whatever comes must be typed, and its parts must sum.
fn try_body(counter: &Counter, request: &Request) -> Result<(), TestCaseError> {
    match request.conversation() {
        Ok(conversation) => {
            let options = CountOptions { model: conversation.model.is_none().then(|| "gpt-4o".to_owned()), ..CountOptions::default() };
            match counter.count(request, &options) {
                Ok(count) => {
                    let sum = count.breakdown.parts().iter().fold(0_u64, |sum, part| sum.saturating_add(part.tokens));
                    prop_assert_eq!(count.total(), sum);
                }
                Err(error) => prop_assert_ne!(error.kind(), Kind::Internal, "{}", error),
            }
        }
        Err(error) => {
            prop_assert!(matches!(error.kind(), Kind::InvalidInput | Kind::LimitExceeded | Kind::Unsupported), "{:?}", error);
            prop_assert!(!error.message().is_empty());
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_value_is_a_view_or_a_typed_error(which in 0..6_usize, picks in prop::collection::vec((any::<prop::sample::Index>(), odd()), 1..4)) {
        let counter = Counter::new();
        let (format, mut body) = bodies().swap_remove(which);
        for (pick, value) in picks {
            let mut all = Vec::new();
            places(&body, "", &mut all);
            let place = pick.get(&all).clone();
            if let Some(slot) = body.pointer_mut(&place).filter(|_| !place.is_empty()) {
                *slot = value;
            }
        }
        try_body(&counter, &Request::from_value(body, format).unwrap())?;
    }

    #[test]
    fn a_damaged_text_is_a_view_or_a_typed_error(which in 0..6_usize, cut in any::<prop::sample::Index>(), flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3), truncate in any::<bool>()) {
        let counter = Counter::new();
        let (format, body) = bodies().swap_remove(which);
        let mut text = body.to_string().into_bytes();
        for (at, byte) in flips {
            let at = at.index(text.len());
            text[at] = byte;
        }
        if truncate {
            text.truncate(cut.index(text.len()));
        }
        match Request::parse(&text, format) {
            Ok(request) => try_body(&counter, &request)?,
            Err(error) => {
                prop_assert!(matches!(error.kind(), Kind::InvalidInput | Kind::LimitExceeded), "{:?}", error);
                prop_assert!(error.offset().is_none_or(|at| at <= text.len() as u64), "{:?} in {} bytes", error, text.len());
                prop_assert!(error.offset().is_some() || error.path().is_some(), "{:?}", error);
            }
        }
        let _ = Request::detect(&text);
    }
}

#[test]
fn every_whole_body_is_viewed_and_counted() {
    let counter = Counter::new();
    for (format, body) in bodies() {
        let request = Request::from_value(body, format).unwrap();
        let conversation = request.conversation().unwrap_or_else(|e| panic!("{format}: {e}"));
        let model = if format == Format::Mcp { Some("gpt-4o".to_owned()) } else { conversation.model.map(str::to_owned) };
        let model = model.or_else(|| (format == Format::Converse).then(|| "amazon.nova-pro-v1:0".to_owned()));
        let count = counter.count(&request, &CountOptions { model, ..CountOptions::default() }).unwrap_or_else(|e| panic!("{format}: {e}"));
        assert!(count.total() > 0, "{format}");
        let (_, told) = Request::detect(request.text().as_bytes()).unwrap();
        assert_eq!(told.format, format, "{}", told.because);
    }
}

#[test]
fn a_body_over_a_hundred_megabytes_is_answered() {
    let filler = "word ".repeat(21 << 20);
    let body = json!({"model": "gpt-4o", "messages": [{"role": "user", "content": filler}]}).to_string();
    let request = Request::parse(body.as_bytes(), Format::Chat).unwrap();
    let count = Counter::new().count(&request, &CountOptions::default()).unwrap();
    assert!(count.total() > 21 << 20, "{}", count.total());
}
