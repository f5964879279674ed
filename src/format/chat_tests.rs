//! Tests of the Chat Completions view: what is read where, and which error a broken body gets.

use super::*;
use crate::format::Format;
use crate::{Kind, Request};

fn request(body: &str) -> Request {
    Request::parse(body.as_bytes(), Format::Chat).unwrap()
}

fn error(body: &str) -> Error {
    request(body).conversation().unwrap_err()
}

#[test]
fn reads_every_kind_of_item() {
    let request = request(
        r#"{"model":"m","max_tokens":5,"n":2,"stream":true,"messages":[
            {"role":"system","content":"s","name":"x"},
            {"role":"user","content":[{"type":"text","text":"look"},
                {"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","detail":"low"}},
                {"type":"image_url","image_url":"https://e.org/a.png"},
                {"type":"file","file":{"file_id":"f1","filename":"a.pdf"}},
                {"type":"input_audio","input_audio":{"data":"BBBB","format":"wav"}},
                {"type":"novel","x":1}]},
            {"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[
                {"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},
                {"id":"c2","type":"custom","custom":{"name":"g","input":"raw"}}]},
            {"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"r"}]},
            {"role":"function","name":"h","content":"old"}],
          "tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}},
                   {"type":"web_search"}],
          "functions":[{"name":"h"}],
          "tool_choice":{"type":"function","function":{"name":"f"}},
          "response_format":{"type":"json_schema","json_schema":{"name":"r","schema":{"type":"object"}}}}"#,
    );
    let view = request.conversation().unwrap();
    assert_eq!(view.model, Some("m"));
    assert_eq!(view.options.max_output, Some((5, "max_tokens")));
    assert_eq!(view.options.choices, Some(2));
    assert_eq!(view.tool_choice, ToolChoice::Named("f"));
    assert!(matches!(view.response_format, ResponseFormat::JsonSchema { name: Some("r"), description: None, .. }));
    assert_eq!(view.messages[0].name, Some("x"));

    let user = &view.messages[1].items;
    assert!(
        matches!(&user[1].body, ItemBody::Image(m) if m.base64 == Some("AAAA") && m.mime == Some("image/png") && m.detail == Some("low"))
    );
    assert!(matches!(&user[2].body, ItemBody::Image(m) if m.url == Some("https://e.org/a.png")));
    assert!(matches!(&user[3].body, ItemBody::File(m) if m.file_id == Some("f1") && m.name == Some("a.pdf")));
    assert!(matches!(&user[4].body, ItemBody::Audio(m) if m.base64 == Some("BBBB") && m.mime == Some("wav")));
    assert!(matches!(user[5].body, ItemBody::Other("novel")));
    assert_eq!(user[1].place, "/messages/1/content/1");

    let assistant = &view.messages[2].items;
    assert!(matches!(&assistant[0].body, ItemBody::Reasoning(r) if r.text == Some("hm")));
    assert!(matches!(&assistant[1].body, ItemBody::ToolCall(c) if c.id == Some("c1") && c.name == "f"));
    assert!(matches!(&assistant[2].body, ItemBody::ToolCall(c) if c.other_type == Some("custom")));
    assert_eq!(assistant[2].place, "/messages/2/tool_calls/1");
    assert!(matches!(&view.messages[3].items[0].body, ItemBody::ToolResult(r) if r.call_id == Some("c1") && !r.legacy));
    assert!(matches!(&view.messages[4].items[0].body, ItemBody::ToolResult(r) if r.name == Some("h") && r.legacy));

    assert_eq!(
        view.tools.iter().map(|t| (t.name, t.kind, t.legacy)).collect::<Vec<_>>(),
        [("f", ToolKind::Function, false), ("web_search", ToolKind::Server, false), ("h", ToolKind::Function, true)]
    );
    assert_eq!(view.unbounded[0].place, "/tools/1");
}

#[test]
fn errors_name_the_place_and_the_expectation() {
    let cases = [
        (r"{}", "", "`messages` is missing"),
        (r#"{"messages":[]}"#, "/messages", "empty"),
        (r#"{"messages":{}}"#, "/messages", "expected an array, found an object"),
        (r#"{"messages":["x"]}"#, "/messages/0", "expected an object, found a string"),
        (r#"{"messages":[{"content":"x"}]}"#, "/messages/0", "`role` is missing"),
        (r#"{"messages":[{"role":"robot","content":"x"}]}"#, "/messages/0/role", "unknown role `robot`"),
        (r#"{"messages":[{"role":"user"}]}"#, "/messages/0", "`content` is missing"),
        (r#"{"messages":[{"role":"user","content":7}]}"#, "/messages/0/content", "found a number"),
        (r#"{"messages":[{"role":"user","content":[{"type":"text","text":7}]}]}"#, "/messages/0/content/0/text", "expected a string"),
        (r#"{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}"#, "/messages/0/content/0", "`image_url` is missing"),
        (
            r#"{"messages":[{"role":"assistant","tool_calls":[{"function":{"arguments":"{}"}}]}]}"#,
            "/messages/0/tool_calls/0/function",
            "`name` is missing",
        ),
        (
            r#"{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f","parameters":[]}}]}"#,
            "/tools/0/function/parameters",
            "JSON Schema",
        ),
        (r#"{"messages":[{"role":"user","content":"x"}],"max_tokens":-1}"#, "/max_tokens", "whole number"),
        (r#"{"messages":[{"role":"user","content":"x"}],"model":3}"#, "/model", "expected a string"),
    ];
    for (body, path, says) in cases {
        let error = error(body);
        assert_eq!(error.kind(), Kind::InvalidInput, "{body}");
        assert_eq!(error.path(), Some(path), "{body}");
        assert!(error.message().contains(says), "{body}: {error}");
    }
}

#[test]
fn server_features_are_named() {
    let request = request(r#"{"messages":[{"role":"user","content":"x"}],"web_search_options":{},"plugins":[]}"#);
    let view = request.conversation().unwrap();
    assert_eq!(view.unbounded.len(), 1);
    assert_eq!(view.unbounded[0].place, "/web_search_options");
}
