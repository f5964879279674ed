//! Anthropic bodies into the view, and what is said of those that break the format.

use super::super::{Format, ItemBody, Media, Reasoning, Request, ResponseFormat, Role, ToolChoice, ToolContentBody, ToolKind};
use crate::error::Kind;
use serde_json::{Value, json};

fn request(body: &Value) -> Request {
    Request::parse(body.to_string().as_bytes(), Format::Anthropic).expect("valid JSON")
}

fn error(body: &Value) -> (String, Option<String>) {
    let request = request(body);
    let error = request.conversation().expect_err("the body breaks the format");
    assert_eq!(error.kind(), Kind::InvalidInput);
    (error.message().to_owned(), error.path().map(str::to_owned))
}

#[test]
fn reads_every_block_kind_in_order_with_its_place() {
    let body = json!({
        "model": "claude-sonnet-4-5", "max_tokens": 100, "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "redacted_thinking", "data": "eA=="},
                {"type": "text", "text": "Looking."},
                {"type": "tool_use", "id": "t1", "name": "mcp__files__read", "input": {"path": "a"}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": [
                    {"type": "text", "text": "no"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                    {"type": "tool_reference", "tool_name": "x"}]},
                {"type": "document", "title": "T", "source": {"type": "text", "media_type": "text/plain", "data": "doc"}},
                {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
                {"type": "novelty", "x": 1}]}],
        "tools": [{"name": "mcp__files__read", "description": "Reads", "input_schema": {"type": "object"}, "defer_loading": true}],
        "tool_choice": {"type": "tool", "name": "mcp__files__read"},
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": {"type": "object"}}}});
    let request = request(&body);
    let view = request.conversation().expect("the body is in order");
    assert_eq!(view.messages.len(), 4);
    assert!(!view.messages[0].listed && view.messages[0].role == Role::System);
    assert!(matches!(&view.messages[0].items[0].body, ItemBody::Text(text) if text == "Be brief."));
    let assistant = &view.messages[2];
    assert!(matches!(assistant.items[0].body, ItemBody::Reasoning(Reasoning { text: Some("hm"), redacted: false, .. })));
    assert!(matches!(assistant.items[1].body, ItemBody::Reasoning(Reasoning { text: None, redacted: true, .. })));
    assert!(matches!(&assistant.items[3].body, ItemBody::ToolCall(call) if call.name == "mcp__files__read" && call.id == Some("t1")));
    assert_eq!(assistant.items[3].place, "/messages/1/content/3");
    let user = &view.messages[3];
    assert_eq!(user.role, Role::User);
    let ItemBody::ToolResult(result) = &user.items[0].body else { panic!("a tool result comes first") };
    assert!(result.is_error);
    assert_eq!(result.content[1].place, "/messages/2/content/0/content/1");
    assert!(matches!(result.content[1].body, ToolContentBody::Image(Media { base64: Some("AAAA"), .. })));
    assert!(matches!(user.items[1].body, ItemBody::File(Media { text: Some("doc"), name: Some("T"), .. })));
    assert!(matches!(user.items[3].body, ItemBody::Other("novelty")));
    assert_eq!(view.tools[0].server(), Some("files"));
    assert!(view.tools[0].deferred);
    assert_eq!(view.tool_choice, ToolChoice::Named("mcp__files__read"));
    assert!(matches!(view.response_format, ResponseFormat::JsonSchema { .. }));
    assert_eq!(view.options.max_output, Some((100, "max_tokens")));
    assert_eq!((view.options.thinking, view.options.thinking_budget, view.options.effort), (Some("enabled"), Some(1024), Some("high")));
    assert!(view.unbounded.is_empty());
}

#[test]
fn names_what_the_provider_adds_by_itself() {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": [{"type": "container_upload", "file_id": "f"}]}],
        "tools": [{"type": "bash_20250124", "name": "bash"}, {"type": "web_search_20250305", "name": "web_search"}],
        "mcp_servers": [{"type": "url", "url": "https://example.org", "name": "x"}],
        "context_management": {"edits": [{"type": "compact_20260112"}]}});
    let request = request(&body);
    let view = request.conversation().expect("the body is in order");
    assert_eq!(view.tools[0].kind, ToolKind::BuiltIn);
    assert_eq!(view.tools[1].kind, ToolKind::Server);
    let places: Vec<&str> = view.unbounded.iter().map(|u| u.place.as_str()).collect();
    assert_eq!(places, ["/messages/0/content/0", "/tools/1", "/mcp_servers", "/context_management/edits/0"]);
}

#[test]
fn errors_name_the_place() {
    assert_eq!(error(&json!({"model": "m"})).1.as_deref(), Some(""));
    let cases = [
        (json!({"messages": {}}), "/messages"),
        (json!({"messages": [7]}), "/messages/0"),
        (json!({"messages": [{"role": "robot", "content": "x"}]}), "/messages/0/role"),
        (json!({"messages": [{"role": "user"}]}), "/messages/0"),
        (json!({"messages": [{"role": "user", "content": 3}]}), "/messages/0/content"),
        (json!({"messages": [{"role": "user", "content": [{"type": "text", "text": 3}]}]}), "/messages/0/content/0/text"),
        (json!({"messages": [{"role": "user", "content": [{"type": "image"}]}]}), "/messages/0/content/0"),
        (json!({"messages": [], "max_tokens": -1}), "/max_tokens"),
        (json!({"messages": [], "tools": [{"name": "a", "input_schema": []}]}), "/tools/0/input_schema"),
        (json!({"messages": [], "tool_choice": "auto"}), "/tool_choice"),
    ];
    for (body, place) in cases {
        assert_eq!(error(&body).1.as_deref(), Some(place), "{body}");
    }
}
