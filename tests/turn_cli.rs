//! The command line's contract for answers: `turn`, `stream`, `mcp tools`, `classify`, as a script sees them.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "a test binary")]

use serde_json::{Value, json};
use std::io::Write as _;
use std::process::{Command, Stdio};

fn plimsoll(args: &[&str], input: &str) -> (i32, Value) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_plimsoll")).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.code().unwrap(), serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}")))
}

fn file(folder: &tempfile::TempDir, name: &str, value: &Value) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, value.to_string()).unwrap();
    path.display().to_string()
}

fn call_stream() -> String {
    let chunk = |delta: Value, finish: Option<&str>| {
        format!("data: {}\n\n", json!({"model": "gpt-4o-mini", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
    };
    let piece = |id: Option<&str>, arguments: &str| json!({"tool_calls": [{"index": 0, "id": id, "function": {"name": id.map(|_| "read"), "arguments": arguments}}]});
    [
        chunk(piece(Some("c1"), "{\"path\""), None),
        chunk(piece(None, ":\"a\"}"), None),
        chunk(json!({}), Some("tool_calls")),
        format!("data: {}\n\n", json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 6}})),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat()
}

#[test]
fn stream_gives_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let request = json!({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function", "function":
        {"name": "read", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}}}]});
    let request = file(&folder, "request.json", &request);
    let stream = call_stream();
    let args = ["stream", "-", "--format", "chat", "--request", &request, "--json"];
    let (code, report) = plimsoll(&args, &stream);
    assert_eq!(code, 0);
    assert_eq!(
        (&report["finish"]["reason"], &report["finish"]["raw"], &report["finish"]["action"]),
        (&json!("tool_calls"), &json!("tool_calls"), &json!("run_tools"))
    );
    assert_eq!(report["usage"], json!({"prompt_tokens": 5, "completion_tokens": 6}));
    assert_eq!(
        (&report["calls"][0]["id"], &report["calls"][0]["name"], &report["calls"][0]["arguments"]),
        (&json!("c1"), &json!("read"), &json!("{\"path\":\"a\"}"))
    );
    assert_eq!((&report["calls"][0]["verdict"], &report["error"]), (&json!("run"), &Value::Null));
    assert!(report["counted_output"].as_u64().unwrap() > 0);
    assert_eq!(report["message"]["tool_calls"][0]["function"]["name"], "read");
    for end in (0..stream.len()).step_by(5).chain([stream.len() - 1]) {
        let (code, report) = plimsoll(&args, &stream[..end]);
        assert_eq!(code, 1, "the first {end} bytes");
        assert!(report["error"]["kind"].is_string() && report["error"]["offset"].is_u64(), "{report}");
        assert!(report["calls"].as_array().unwrap().iter().all(|call| call["verdict"] == "refuse"), "the first {end} bytes");
    }
}

#[test]
fn turn_takes_a_whole_response() {
    let body = json!({"type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": [{"type": "text", "text": "Hel"}],
        "stop_reason": "max_tokens", "usage": {"input_tokens": 3, "output_tokens": 1}});
    let (code, report) = plimsoll(&["turn", "--format", "anthropic", "--json"], &body.to_string());
    assert_eq!((code, &report["finish"]["reason"], &report["finish"]["action"]), (0, &json!("length"), &json!("continue_text")));
    assert_eq!(report["billed"]["input"], 3);
}

#[test]
fn mcp_tools_maps_and_weighs() {
    let folder = tempfile::tempdir().unwrap();
    let list = json!({"tools": [{"name": "find", "description": "Find things", "inputSchema": {"type": "object", "properties": {"q": {"type": "string"}}}}]});
    let (one, two) = (file(&folder, "docs.json", &list), file(&folder, "web.json", &list));
    let (code, report) = plimsoll(&["mcp", "tools", &one, &two, "--format", "chat", "--json", "--budget", "1"], "");
    assert_eq!(code, 0, "{report}");
    assert_eq!(report["map"], json!({"docs__find": {"server": "docs", "tool": "find"}, "web__find": {"server": "web", "tool": "find"}}));
    assert_eq!(report["tools"].as_array().unwrap().len(), 2);
    assert!(report["cost"].as_array().unwrap().iter().all(|row| row["tokens"].as_u64().unwrap() > 0), "{report}");
    assert_eq!(report["leave_out"]["names"].as_array().unwrap().len(), 2);
}

#[test]
fn classify_reads_the_numbers() {
    let body = json!({"error": {"message": "prompt is too long: 208310 tokens > 200000 maximum"}}).to_string();
    let (code, report) = plimsoll(&["classify", "--status", "400", "--json"], &body);
    assert_eq!(
        (code, &report["class"], &report["limit"], &report["input"], &report["remedy"]),
        (0, &json!("overflow"), &json!(200_000), &json!(208_310), &json!("compact"))
    );
}
