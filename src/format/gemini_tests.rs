//! Tests of the Gemini view: both spellings, envelopes, and errors that say where.

use super::*;
use crate::format::Format;
use serde_json::json;

fn request(body: &Value) -> Request {
    Request::parse(body.to_string().as_bytes(), Format::Gemini).unwrap()
}

#[test]
fn reads_both_spellings_alike() {
    let camel = request(&json!({
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Weather?"}, {"inlineData": {"mimeType": "image/png", "data": "iVBO"}}]},
            {"role": "model", "parts": [{"functionCall": {"id": "a", "name": "weather", "args": {"city": "Oslo"}}, "thoughtSignature": "c2ln"}]},
            {"role": "user", "parts": [{"functionResponse": {"id": "a", "name": "weather", "response": {"temp": 3}}}]},
        ],
        "tools": [{"functionDeclarations": [{"name": "weather", "description": "D", "parametersJsonSchema": {"type": "object"}}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["weather"]}},
        "generationConfig": {"maxOutputTokens": 50, "candidateCount": 2, "thinkingConfig": {"thinkingBudget": 0}},
    }));
    let snake = request(&json!({
        "system_instruction": {"parts": {"text": "Be brief."}},
        "contents": [
            {"parts": [{"text": "Weather?"}, {"inline_data": {"mime_type": "image/png", "data": "iVBO"}}]},
            {"role": "model", "parts": [{"function_call": {"id": "a", "name": "weather", "args": {"city": "Oslo"}}, "thought_signature": "c2ln"}]},
            {"role": "function", "parts": [{"function_response": {"id": "a", "name": "weather", "response": {"temp": 3}}}]},
        ],
        "tools": {"function_declarations": [{"name": "weather", "description": "D", "parameters_json_schema": {"type": "object"}}]},
        "tool_config": {"function_calling_config": {"mode": "any", "allowed_function_names": ["weather"]}},
        "generation_config": {"max_output_tokens": 50, "candidate_count": 2, "thinking_config": {"thinking_budget": 0}},
    }));
    for request in [&camel, &snake] {
        let view = request.conversation().unwrap();
        let roles: Vec<_> = view.messages.iter().map(|m| (m.role, m.listed, m.index)).collect();
        assert_eq!(roles, [(Role::System, false, 0), (Role::User, true, 0), (Role::Assistant, true, 1), (Role::Tool, true, 2)]);
        assert!(matches!(&view.messages[1].items[1].body, ItemBody::Image(m) if m.base64 == Some("iVBO")));
        let ItemBody::ToolCall(call) = &view.messages[2].items[0].body else { panic!("expected a call") };
        assert_eq!((call.id, call.name, call.signature), (Some("a"), "weather", Some("c2ln")));
        assert_eq!(view.tools[0].description, Some("D"));
        assert!(view.tools[0].parameters.is_some());
        assert_eq!(view.tool_choice, ToolChoice::Named("weather"));
        assert_eq!(view.options.max_output.map(|(n, _)| n), Some(50));
        assert_eq!((view.options.choices, view.options.thinking), (Some(2), Some("disabled")));
        assert!(view.unbounded.is_empty());
    }
    assert_eq!(snake.conversation().unwrap().tools[0].place, "/tools/function_declarations/0");
}

#[test]
fn a_signature_on_text_is_an_item_of_its_own() {
    let request = request(&json!({"contents": [{"role": "model", "parts": [
        {"text": "thinking", "thought": true},
        {"text": "answer", "thoughtSignature": "c2ln"},
        {"thoughtSignature": "bW9yZQ=="},
    ]}]}));
    let view = request.conversation().unwrap();
    let items: Vec<_> = view.messages[0].items.iter().map(|i| (i.place.as_str(), matches!(i.body, ItemBody::Reasoning(_)))).collect();
    assert_eq!(
        items,
        [
            ("/contents/0/parts/0", true),
            ("/contents/0/parts/1/thoughtSignature", true),
            ("/contents/0/parts/1", false),
            ("/contents/0/parts/2", true)
        ]
    );
}

#[test]
fn server_tools_and_stored_contexts_are_unbounded() {
    let request = request(&json!({"contents": [], "cachedContent": "cachedContents/x", "tools": [{"googleSearch": {}}]}));
    let view = request.conversation().unwrap();
    assert_eq!(view.tools[0].kind, ToolKind::Server);
    assert_eq!(view.unbounded.iter().map(|u| u.place.as_str()).collect::<Vec<_>>(), ["/cachedContent", "/tools/0/googleSearch"]);
}

#[test]
fn opens_envelopes() {
    let request =
        request(&json!({"generateContentRequest": {"model": "models/gemini-2.5-flash", "contents": [{"parts": [{"text": "Hi"}]}]}}));
    let view = request.conversation().unwrap();
    assert_eq!(view.model, Some("models/gemini-2.5-flash"));
    assert_eq!(view.messages[0].items[0].place, "/generateContentRequest/contents/0/parts/0");
}

#[test]
fn errors_say_where() {
    let cases = [
        (json!({"contents": "Hi"}), "/contents"),
        (json!({}), ""),
        (json!({"contents": [{"role": "system", "parts": []}]}), "/contents/0/role"),
        (json!({"contents": [{"parts": [{"text": 1}]}]}), "/contents/0/parts/0/text"),
        (json!({"contents": [{"parts": [{}]}]}), "/contents/0/parts/0"),
        (json!({"contents": [{"parts": [{"text": "a", "function_call": {"name": "f"}}]}]}), "/contents/0/parts/0"),
        (json!({"contents": [{"parts": [{"functionCall": {"args": {}}}]}]}), "/contents/0/parts/0/functionCall"),
        (json!({"contents": [{"parts": [{"functionCall": {"name": "f", "args": "{}"}}]}]}), "/contents/0/parts/0/functionCall/args"),
        (
            json!({"contents": [{"parts": [{"functionResponse": {"name": "f", "response": []}}]}]}),
            "/contents/0/parts/0/functionResponse/response",
        ),
        (json!({"contents": [{"parts": [{"inlineData": {"mimeType": "image/png"}}]}]}), "/contents/0/parts/0/inlineData"),
        (json!({"contents": [], "tools": [{"functionDeclarations": [{"description": "x"}]}]}), "/tools/0/functionDeclarations/0"),
        (json!({"contents": [], "generationConfig": {"maxOutputTokens": -1}}), "/generationConfig/maxOutputTokens"),
        (json!({"contents": [], "generationConfig": {"responseSchema": []}}), "/generationConfig/responseSchema"),
    ];
    for (body, place) in cases {
        let error = request(&body).conversation().unwrap_err();
        assert_eq!((error.kind(), error.path()), (Kind::InvalidInput, Some(place)), "{body}: {error}");
    }
}
