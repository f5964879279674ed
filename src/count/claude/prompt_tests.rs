//! Reading the prompt's pieces out of a view: one test a mechanism, on small bodies of our own.

use super::*;
use crate::format::Request;
use serde_json::json;

fn with<T>(format: Format, body: &Value, read: impl FnOnce(&Conversation<'_>) -> T) -> T {
    let request = Request::parse(body.to_string().as_bytes(), format).expect("valid JSON");
    read(&request.conversation().expect("the body is in order"))
}

#[test]
fn tools_and_calls_read_the_same_from_every_format() {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let anthropic = json!({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "read", "input": {"path": "a", "n": 2}}]}],
        "tools": [{"name": "read", "description": "Reads", "input_schema": schema}]});
    let chat = json!({"messages": [{"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"a\",\"n\":2}"}}]}],
        "tools": [{"type": "function", "function": {"name": "read", "description": "Reads", "parameters": schema}}]});
    let converse = json!({"messages": [{"role": "assistant", "content": [{"toolUse": {"toolUseId": "1", "name": "read", "input": {"path": "a", "n": 2}}}]}],
        "toolConfig": {"tools": [{"toolSpec": {"name": "read", "description": "Reads", "inputSchema": {"json": schema}}}]}});
    for (format, body) in [(Format::Anthropic, anthropic), (Format::Chat, chat), (Format::Converse, converse)] {
        with(format, &body, |view| {
            assert_eq!(
                tool(&view.tools[0]),
                "<function>{\"description\": \"Reads\", \"name\": \"read\", \"parameters\": {\"type\": \"object\", \"properties\": {\"path\": {\"type\": \"string\"}}}}</function>\n"
            );
            let ItemBody::ToolCall(found) = &view.messages[0].items[0].body else { panic!("a call in {format}") };
            let (text, arguments) = call(found);
            assert_eq!(
                text,
                "<invoke name=\"read\">\n<parameter name=\"path\">a</parameter>\n<parameter name=\"n\">2</parameter>\n</invoke>\n"
            );
            assert_eq!(arguments, 2);
            assert!(turns(view).assistant_first);
        });
    }
}

#[test]
fn consecutive_tool_messages_are_one_turn_and_system_text_is_none() {
    let body = json!({"messages": [
        {"role": "system", "content": "s"}, {"role": "user", "content": "u"},
        {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "a", "arguments": "{}"}}, {"id": "2", "type": "function", "function": {"name": "b", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "x"}, {"role": "tool", "tool_call_id": "2", "content": "y"}]});
    with(Format::Chat, &body, |view| {
        let found = turns(view);
        assert_eq!((found.count, found.assistant_first, found.last_said), (3, false, 1));
    });
}

#[test]
fn tool_results_are_not_something_said() {
    let body = json!({"system": "s", "messages": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "x"}]}]});
    with(Format::Anthropic, &body, |view| assert_eq!((turns(view).count, turns(view).last_said), (3, 1)));
}

#[test]
fn thinking_is_asked_for_in_many_ways() {
    let user = json!([{"role": "user", "content": "u"}]);
    let cases = [
        (Format::Anthropic, json!({"messages": user, "thinking": {"type": "enabled", "budget_tokens": 1024}}), Thinking::Enabled),
        (Format::Anthropic, json!({"messages": user, "thinking": {"type": "adaptive"}}), Thinking::Adaptive),
        (Format::Anthropic, json!({"messages": user, "output_config": {"effort": "high"}}), Thinking::Off),
        (Format::Chat, json!({"messages": user, "reasoning": {"effort": "low"}}), Thinking::Enabled),
        (Format::Chat, json!({"messages": user, "reasoning": {"enabled": true}}), Thinking::Enabled),
        (Format::Chat, json!({"messages": user, "reasoning_effort": "none"}), Thinking::Off),
        (Format::Chat, json!({"messages": user, "model": "anthropic/claude-3.7-sonnet:thinking"}), Thinking::Enabled),
    ];
    for (format, body, expected) in cases {
        assert_eq!(with(format, &body, thinking), expected, "{body}");
    }
}
