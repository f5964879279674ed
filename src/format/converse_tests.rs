//! Converse bodies into the view, and what is said of those that break the format.

use super::super::{Format, ItemBody, Media, Reasoning, Request, ResponseFormat, Role, ToolChoice, ToolContentBody, ToolKind};
use serde_json::{Value, json};

fn request(body: &Value) -> Request {
    Request::parse(body.to_string().as_bytes(), Format::Converse).expect("valid JSON")
}

#[test]
fn reads_every_block_kind_in_order_with_its_place() {
    let body = json!({
        "system": [{"text": "Be brief."}, {"cachePoint": {"type": "default"}}],
        "messages": [
            {"role": "user", "content": [{"text": "Hi"}, {"image": {"format": "png", "source": {"bytes": "AAAA"}}},
                {"document": {"format": "pdf", "name": "d", "source": {"s3Location": {"uri": "s3://b/k"}}}},
                {"guardContent": {"text": {"text": "guarded", "qualifiers": []}}}, {"cachePoint": {"type": "default"}}]},
            {"role": "assistant", "content": [{"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
                {"toolUse": {"toolUseId": "t", "name": "f", "input": {"a": 1}}}]},
            {"role": "user", "content": [{"toolResult": {"toolUseId": "t", "status": "error", "content": [{"json": {"x": 1}}, {"text": "y"}]}}]}],
        "toolConfig": {"tools": [{"toolSpec": {"name": "f", "description": "d", "inputSchema": {"json": {"type": "object"}}}}, {"cachePoint": {"type": "default"}},
            {"systemTool": {"name": "nova_grounding"}}], "toolChoice": {"tool": {"name": "f"}}},
        "outputConfig": {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": {"name": "n", "schema": "{\"type\":\"object\"}"}}}},
        "inferenceConfig": {"maxTokens": 9}, "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 1024}}});
    let request = request(&body);
    let view = request.conversation().expect("the body is in order");
    assert_eq!(view.messages[0].items.len(), 1, "a cache point carries nothing");
    let user = &view.messages[1];
    assert!(matches!(user.items[1].body, ItemBody::Image(Media { base64: Some("AAAA"), mime: Some("image/png"), .. })));
    assert!(matches!(user.items[2].body, ItemBody::File(Media { url: Some("s3://b/k"), mime: Some("application/pdf"), .. })));
    assert!(matches!(&user.items[3].body, ItemBody::Text(text) if text == "guarded"));
    assert!(matches!(view.messages[2].items[0].body, ItemBody::Reasoning(Reasoning { text: Some("hm"), signature: Some("s"), .. })));
    let ItemBody::ToolResult(result) = &view.messages[3].items[0].body else { panic!("a tool result") };
    assert!(result.is_error && matches!(result.content[0].body, ToolContentBody::Json(_)));
    assert_eq!(view.messages[3].role, Role::User);
    assert_eq!(
        view.tools.iter().map(|t| (t.name, t.kind)).collect::<Vec<_>>(),
        [("f", ToolKind::Function), ("nova_grounding", ToolKind::Server)]
    );
    assert_eq!(view.tool_choice, ToolChoice::Named("f"));
    assert!(matches!(view.response_format, ResponseFormat::JsonSchema { name: Some("n"), schema: Value::String(_), .. }));
    assert_eq!(view.options.max_output, Some((9, "inferenceConfig.maxTokens")));
    assert_eq!(view.options.thinking_budget, Some(1024));
    assert_eq!(view.unbounded.len(), 1);
}

#[test]
fn errors_name_the_place() {
    for (body, place) in [
        (json!({}), ""),
        (json!({"messages": [{"role": "tool", "content": []}]}), "/messages/0/role"),
        (json!({"messages": [{"role": "user", "content": "x"}]}), "/messages/0/content"),
        (json!({"messages": [{"role": "user", "content": [{}]}]}), "/messages/0/content/0"),
        (json!({"messages": [{"role": "user", "content": [{"text": 1}]}]}), "/messages/0/content/0/text"),
        (json!({"messages": [], "toolConfig": {"tools": [{"toolSpec": {}}]}}), "/toolConfig/tools/0/toolSpec"),
    ] {
        let request = request(&body);
        assert_eq!(request.conversation().expect_err("broken").path(), Some(place), "{body}");
    }
}
