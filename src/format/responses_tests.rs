//! Tests of the Responses view: what is read where, and which error a broken body gets.

use super::*;
use crate::format::Format;
use crate::{Kind, Request};

fn request(body: &str) -> Request {
    Request::parse(body.as_bytes(), Format::Responses).unwrap()
}

#[test]
fn reads_every_kind_of_item() {
    let request = request(
        r#"{"model":"m","instructions":"be brief","max_output_tokens":9,"reasoning":{"effort":"low"},
          "input":[
            {"role":"developer","content":"d"},
            {"type":"message","role":"user","content":[{"type":"input_text","text":"look"},
               {"type":"input_image","image_url":"data:image/png;base64,AAAA","detail":"high"},
               {"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,BBBB"},
               {"type":"input_file","file_url":"https://e.org/a.pdf"}]},
            {"type":"reasoning","id":"r","summary":[],"encrypted_content":"CCCC"},
            {"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{}"},
            {"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"r"}]},
            {"type":"web_search_call","id":"ws"}],
          "tools":[{"type":"function","name":"f","parameters":{"type":"object"},"defer_loading":true},
                   {"type":"namespace","name":"ns","tools":[{"type":"function","name":"g"}]},
                   {"type":"web_search"},{"type":"tool_search"}],
          "tool_choice":{"type":"function","name":"f"},
          "text":{"format":{"type":"json_schema","name":"r","schema":{"type":"object"}}}}"#,
    );
    let view = request.conversation().unwrap();
    assert_eq!(view.options.max_output, Some((9, "max_output_tokens")));
    assert_eq!(view.options.effort, Some("low"));
    assert_eq!(view.tool_choice, ToolChoice::Named("f"));
    assert!(matches!(view.response_format, ResponseFormat::JsonSchema { name: Some("r"), .. }));
    assert!(!view.messages[0].listed);
    assert_eq!(view.messages[1].role, Role::Developer);
    let user = &view.messages[2];
    assert_eq!((user.index, user.items[1].place.as_str()), (1, "/input/1/content/1"));
    assert!(matches!(&user.items[1].body, ItemBody::Image(m) if m.base64 == Some("AAAA") && m.detail == Some("high")));
    assert!(matches!(&user.items[2].body, ItemBody::File(m) if m.base64 == Some("BBBB") && m.name == Some("a.pdf")));
    assert!(matches!(&user.items[3].body, ItemBody::File(m) if m.url == Some("https://e.org/a.pdf")));
    assert!(matches!(&view.messages[3].items[0].body, ItemBody::Reasoning(r) if r.signature == Some("CCCC") && r.redacted));
    assert!(matches!(&view.messages[4].items[0].body, ItemBody::ToolCall(c) if c.id == Some("c1") && c.item_id == Some("fc_1")));
    assert!(matches!(&view.messages[5].items[0].body, ItemBody::ToolResult(r) if r.call_id == Some("c1")));
    assert!(matches!(view.messages[6].items[0].body, ItemBody::Other("web_search_call")));
    assert_eq!(
        view.tools.iter().map(|t| (t.name, t.place.as_str(), t.deferred)).collect::<Vec<_>>(),
        [("f", "/tools/0", true), ("g", "/tools/1/tools/0", false), ("web_search", "/tools/2", false), ("tool_search", "/tools/3", false)]
    );
    assert_eq!(view.unbounded.iter().map(|u| u.place.as_str()).collect::<Vec<_>>(), ["/input/5", "/tools/2"]);
}

#[test]
fn stored_state_is_unbounded_and_may_stand_alone() {
    let request = request(r#"{"previous_response_id":"resp_1","input":[],"instructions":""}"#);
    let view = request.conversation().unwrap();
    assert_eq!(view.unbounded.iter().map(|u| u.place.as_str()).collect::<Vec<_>>(), ["/previous_response_id", "/instructions"]);
    assert!(view.messages.is_empty());
}

#[test]
fn errors_name_the_place_and_the_expectation() {
    let cases = [
        (r"{}", "", "`input` is missing"),
        (r#"{"input":[]}"#, "/input", "empty"),
        (r#"{"input":5}"#, "/input", "found a number"),
        (r#"{"input":["x"]}"#, "/input/0", "expected an object"),
        (r#"{"input":[{"content":"x"}]}"#, "/input/0", "`type` is missing"),
        (r#"{"input":[{"role":"robot","content":"x"}]}"#, "/input/0/role", "unknown role `robot`"),
        (r#"{"input":[{"role":"user"}]}"#, "/input/0", "`content` is missing"),
        (r#"{"input":[{"type":"function_call","name":3}]}"#, "/input/0/name", "expected a string"),
        (r#"{"input":[{"type":"function_call_output","call_id":"c"}]}"#, "/input/0", "`output` is missing"),
        (r#"{"input":"x","tools":[{"name":"f"}]}"#, "/tools/0", "`type` is missing"),
        (r#"{"input":"x","text":{"format":3}}"#, "/text/format", "expected an object"),
    ];
    for (body, path, says) in cases {
        let error = request(body).conversation().unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidInput, "{body}");
        assert_eq!(error.path(), Some(path), "{body}");
        assert!(error.message().contains(says), "{body}: {error}");
    }
}
