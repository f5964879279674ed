//! Conversions: calls keep their results, nothing is lost in silence, and the result is a body that its own format reads.

use super::*;
use serde_json::json;

const TARGETS: [Format; 4] = [Format::Chat, Format::Responses, Format::Anthropic, Format::Gemini];

fn chat() -> Request {
    let body = json!({
        "model": "m", "temperature": 0.5, "stop": "END", "max_tokens": 50, "user": "u",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}]},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c.1", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"a\"}"}},
                {"id": "c2", "type": "function", "function": {"name": "read", "arguments": "not json"}}]},
            {"role": "tool", "tool_call_id": "c.1", "content": "text of a"},
            {"role": "tool", "tool_call_id": "c2", "content": "Error: no"},
            {"role": "assistant", "content": "Done."},
            {"role": "user", "content": "Thanks"}],
        "tools": [{"type": "function", "function": {"name": "read", "description": "d", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}}],
        "tool_choice": "required",
        "response_format": {"type": "json_object"}
    });
    Request::parse(body.to_string().as_bytes(), Format::Chat).unwrap()
}

/// Texts, calls and results of a body, in order, whatever its format.
fn gist(request: &Request) -> Vec<String> {
    let conversation = request.conversation().unwrap();
    let items = conversation.messages.iter().flat_map(|message| message.items.iter().map(move |item| (message.role, item)));
    items
        .filter_map(|(role, item)| match &item.body {
            ItemBody::Text(text) => Some(format!("{}: {text}", if role == Role::Developer { "system" } else { role.as_str() })),
            ItemBody::ToolCall(call) => Some(format!("call {}", call.name)),
            ItemBody::ToolResult(_) => Some("result".to_owned()),
            ItemBody::Image(_) => Some("image".to_owned()),
            _ => None,
        })
        .collect()
}

#[test]
fn every_target_reads_back_with_the_same_gist() {
    let source = chat();
    for to in TARGETS {
        let converted = convert(&source, to).unwrap();
        let read = Request::parse(converted.body.to_string().as_bytes(), to).unwrap();
        assert_eq!(gist(&read), gist(&source), "{to}: {}", converted.body);
        let conversation = read.conversation().unwrap();
        assert_eq!(conversation.tools.len(), 1, "{to}");
        assert_eq!(conversation.tool_choice, ToolChoiceOf::REQUIRED, "{to}");
        assert_eq!(conversation.options.max_output.map(|max| max.0), Some(50), "{to}");
    }
}

/// Shorthand for the one choice that the test asks for.
struct ToolChoiceOf;

impl ToolChoiceOf {
    const REQUIRED: crate::format::ToolChoice<'static> = crate::format::ToolChoice::Required;
}

#[test]
fn what_is_lost_is_listed() {
    let places = |to| -> Vec<String> { convert(&chat(), to).unwrap().lost.into_iter().map(|lost| lost.place).collect() };
    assert!(places(Format::Chat).is_empty(), "the same format loses nothing");
    assert_eq!(places(Format::Responses), ["/stop", "/user"]);
    let anthropic = places(Format::Anthropic);
    assert!(anthropic.contains(&"/messages/2/tool_calls/1".to_owned()) && anthropic.contains(&"/user".to_owned()), "{anthropic:?}");
}

#[test]
fn there_and_back_again() {
    for to in TARGETS.into_iter().filter(|to| *to != Format::Chat) {
        let there = convert(&chat(), to).unwrap().body;
        let back = convert(&Request::parse(there.to_string().as_bytes(), to).unwrap(), Format::Chat).unwrap();
        let back = Request::parse(back.body.to_string().as_bytes(), Format::Chat).unwrap();
        assert_eq!(gist(&back), gist(&chat()), "by way of {to}");
        let conversation = back.conversation().unwrap();
        let mut calls = Vec::new();
        for item in conversation.messages.iter().flat_map(|message| &message.items) {
            match &item.body {
                ItemBody::ToolCall(call) => calls.push(call.id.unwrap()),
                ItemBody::ToolResult(result) => assert!(calls.contains(&result.call_id.unwrap()), "by way of {to}"),
                _ => {}
            }
        }
    }
}
