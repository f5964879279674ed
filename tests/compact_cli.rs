//! The command line's contract for check, compact and page: what scripts lean on, and what hostile input gets.
#![cfg(all(feature = "cli", feature = "pages-disk"))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod scenario;

use plimsoll::{CountOptions, Counter, Format, Request};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A folder with a store, and files beside it.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Runs a subcommand with the desk's store where it takes one.
    fn run(&self, arguments: &[&str]) -> Output {
        self.piped(arguments, b"")
    }

    fn piped(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.args(arguments).env("PLIMSOLL_STORE", self.path("pages")).env_remove("PLIMSOLL_MODEL");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writing = std::thread::spawn(move || {
            let _ = stdin.write_all(&input);
        });
        let output = child.wait_with_output().unwrap();
        writing.join().unwrap();
        output
    }

    fn json(&self, arguments: &[&str]) -> (Option<i32>, Value) {
        let output = self.run(arguments);
        (output.status.code(), answer(&output))
    }
}

fn answer(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn history(format: &str) -> String {
    scenario::generate(3, 20, 40).body(format).to_string()
}

fn total(body: &str, format: &str, model: &str) -> u64 {
    let request = Request::parse(body.as_bytes(), format.parse().unwrap()).unwrap();
    let options = CountOptions { model: Some(model.to_owned()), ..CountOptions::default() };
    Counter::new().count(&request, &options).unwrap().total()
}

const FORMATS: [(&str, &str); 5] = [
    ("chat", "gpt-4o"),
    ("responses", "gpt-4o"),
    ("anthropic", "claude-sonnet-4-5"),
    ("gemini", "gemini-2.5-flash"),
    ("converse", "anthropic.claude-sonnet-4-5-20250929-v1:0"),
];

#[test]
fn check_says_what_is_wrong_and_repair_mends_it() {
    let desk = Desk::new();
    for (format, _) in FORMATS {
        let good = desk.file("good.json", history(format));
        let (code, answer) = desk.json(&["check", text(&good), "--format", format, "--json"]);
        assert_eq!((code, &answer["valid"]), (Some(0), &json!(true)), "{format}: {answer}");
    }
    let broken = json!({"model": "gpt-4o", "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{"}}]},
        {"role": "tool", "tool_call_id": "zzz", "content": "4"},
        {"role": "user", "content": "and?"},
    ]});
    let bad = desk.file("bad.json", broken.to_string());
    let (code, answer) = desk.json(&["check", text(&bad), "--json"]);
    assert_eq!((code, &answer["valid"]), (Some(1), &json!(false)));
    let findings = answer["findings"].as_array().unwrap();
    for finding in findings {
        let keys: Vec<&str> = finding.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["rule", "path", "severity", "message", "repair"]);
    }
    let rules: Vec<&str> = findings.iter().filter(|f| f["severity"] == "error").map(|f| f["rule"].as_str().unwrap()).collect();
    assert!(rules.contains(&"orphan_result") && rules.contains(&"orphan_call"), "{rules:?}");

    let (code, answer) = desk.json(&["check", text(&bad), "--repair", "--json"]);
    assert!(code == Some(0) && answer["valid"] == true && !answer["mended"].as_array().unwrap().is_empty(), "{answer}");
    let mended = desk.run(&["check", text(&bad), "--repair"]);
    assert_eq!(serde_json::from_slice::<Value>(&mended.stdout).unwrap(), answer["request"]);
    let again = desk.file("again.json", &mended.stdout);
    assert_eq!(desk.json(&["check", text(&again), "--json"]).0, Some(0));
    // From standard input, and input that is none.
    assert_eq!(desk.piped(&["check", "-", "--format", "chat", "--json"], history("chat").as_bytes()).status.code(), Some(0));
    let output = desk.piped(&["check", "-", "--format", "chat", "--json"], b"{\"messages\":");
    assert_eq!((output.status.code(), self::answer(&output)["error"]["kind"].as_str()), (Some(2), Some("invalid_input")));
}

#[test]
fn compact_fits_names_its_edits_and_undoes_to_the_byte() {
    let desk = Desk::new();
    for (format, model) in FORMATS {
        // Blanks and key order are the caller's.
        let body = format!(" {}\n", history(format).replacen(':', " : ", 3));
        let file = desk.file("history.json", &body);
        let before = total(&body, format, model);
        let target = (before / 2).to_string();
        let (code, answer) = desk.json(&["compact", text(&file), "--format", format, "--model", model, "--target", &target, "--json"]);
        assert_eq!(code, Some(0), "{format}: {answer}");
        let keys: Vec<&str> = answer.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["request", "before", "after", "edits", "undo", "cache_broken_from"]);
        assert_eq!(answer["before"], before);
        let after = answer["after"].as_u64().unwrap();
        assert!(after <= before / 2 && after == total(&answer["request"].to_string(), format, model), "{format}");
        assert!(answer["cache_broken_from"].as_u64().unwrap() < before && !answer["edits"].as_array().unwrap().is_empty());

        let undo = answer["undo"].as_str().unwrap();
        assert_eq!(desk.run(&["compact", "--undo", undo]).stdout, body.as_bytes(), "{format}");
        let (code, undone) = desk.json(&["compact", "--undo", undo, "--json"]);
        assert_eq!((code, &undone["request"]), (Some(0), &serde_json::from_str::<Value>(&body).unwrap()));
        let plain = desk.run(&["compact", text(&file), "--format", format, "--model", model, "--target", &target]);
        assert_eq!(serde_json::from_slice::<Value>(&plain.stdout).unwrap(), answer["request"]);
        // On its own result it has nothing to do.
        let small = desk.file("small.json", &plain.stdout);
        let (code, again) = desk.json(&["compact", text(&small), "--format", format, "--model", model, "--target", &target, "--json"]);
        assert_eq!((code, &again["request"], &again["undo"], &again["edits"]), (Some(0), &answer["request"], &Value::Null, &json!([])));
    }
    let (code, answer) = desk.json(&["compact", "--undo", "pl_0000000000000000", "--json"]);
    assert_eq!((code, answer["error"]["kind"].as_str()), (Some(2), Some("not_found")));
}

#[test]
fn what_cannot_shrink_is_named_with_its_floor() {
    let desk = Desk::new();
    for (format, model) in FORMATS {
        let file = desk.file("history.json", history(format));
        let (code, answer) = desk.json(&["compact", text(&file), "--format", format, "--model", model, "--target", "20", "--json"]);
        assert_eq!(code, Some(1), "{format}");
        let error = &answer["error"];
        assert_eq!(error["kind"], "over_budget");
        assert!(error["floor"].as_u64().unwrap() > 20, "{error}");
        let parts = error["parts"].as_array().unwrap();
        assert!(!parts.is_empty() && parts.iter().all(|p| p["tokens"].as_u64() > Some(0) && p["why"].is_string() && p["kind"].is_string()));
        let plain = desk.run(&["compact", text(&file), "--format", format, "--model", model, "--target", "20"]);
        assert!(plain.status.code() == Some(1) && plain.stdout.is_empty());
        assert!(String::from_utf8_lossy(&plain.stderr).contains("can't shrink below"));
    }
    // One message larger than any window, and system text and tools alone over the target.
    let big = "cargo ".repeat(40_000);
    let one = json!({"model": "gpt-4o", "messages": [{"role": "user", "content": big}]});
    let system = json!({"model": "gpt-4o", "messages": [{"role": "system", "content": big}, {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}, {"role": "assistant", "content": "c"}, {"role": "user", "content": "d"}]});
    let tool = |n: usize| json!({"type": "function", "function": {"name": format!("tool{n}"), "description": "word ".repeat(200)}});
    let mut tools = system.clone();
    tools["messages"][0]["content"] = json!("Be brief.");
    tools["tools"] = (0..60).map(tool).collect();
    for (body, kind) in [(one, "user"), (system, "system"), (tools, "tool_definition")] {
        let file = desk.file("history.json", body.to_string());
        let (code, answer) = desk.json(&["compact", text(&file), "--format", "chat", "--target", "1000", "--json"]);
        assert_eq!((code, answer["error"]["parts"][0]["kind"].as_str()), (Some(1), Some(kind)), "{answer}");
        assert!(answer["error"]["floor"].as_u64().unwrap() > 1000);
    }
}

#[test]
fn a_batch_answers_every_line_in_its_place() {
    let desk = Desk::new();
    let entry = |id: Value, format: &str, target: Value, request: Value| {
        json!({"id": id, "format": format, "model": "gpt-4o", "target": target, "request": request}).to_string()
    };
    let chat: Value = serde_json::from_str(&history("chat")).unwrap();
    let orphan =
        json!({"messages": [{"role": "user", "content": "x ".repeat(900)}, {"role": "tool", "tool_call_id": "n", "content": "4"}]});
    let mut lines: Vec<Vec<u8>> = [
        entry(json!("a"), "chat", json!(5000), chat.clone()),
        entry(json!(2), "chat", json!(20), chat.clone()),
        "{\"id\":\"c\",".to_owned(),
        entry(json!("d"), "chat", json!(100), orphan),
        entry(json!("e"), "morse", json!(100), chat.clone()),
        entry(json!("f"), "chat", json!(-5), chat.clone()),
        entry(json!({"any": ["thing"]}), "auto", json!(100_000), chat.clone()),
        json!({"id": "h"}).to_string(),
        "[]".to_owned(),
        String::new(),
        entry(json!("j"), "chat", json!("many"), chat),
    ]
    .into_iter()
    .map(String::into_bytes)
    .collect();
    lines.push(b"{\"id\":\"\xff\"}".to_vec());
    let file = desk.file("batch.jsonl", lines.join(&b'\n'));
    let output = desk.run(&["compact", text(&file), "--batch", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let answers: Vec<Value> = String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<(Value, &str)> = answers.iter().map(|a| (a["id"].clone(), a["error"]["kind"].as_str().unwrap_or("fits"))).collect();
    let expected = [
        (json!("a"), "fits"),
        (json!(2), "over_budget"),
        (Value::Null, "invalid_input"),
        (json!("d"), "invalid_input"),
        (json!("e"), "invalid_input"),
        (json!("f"), "invalid_input"),
        (json!({"any": ["thing"]}), "fits"),
        (json!("h"), "invalid_input"),
        (Value::Null, "invalid_input"),
        (json!("j"), "invalid_input"),
        (Value::Null, "invalid_input"),
    ];
    assert_eq!(kinds, expected);
    assert!(answers[0]["after"].as_u64().unwrap() <= 5000 && answers[1]["error"]["floor"].as_u64().unwrap() > 20);
    assert_eq!(answers[3]["error"]["path"], "/messages/1");
    let undo = answers[0]["undo"].as_str().unwrap();
    assert_eq!(desk.run(&["compact", "--undo", undo]).stdout, history("chat").as_bytes());
}

#[test]
fn pages_are_read_searched_and_sized() {
    let desk = Desk::new();
    let mut body: Value = serde_json::from_str(&history("chat")).unwrap();
    let long: String = (0..3_000).map(|n| format!("row {n}: {}\n", if n == 2_345 { "the needle" } else { "hay" })).collect();
    let result = body["messages"].as_array_mut().unwrap().iter_mut().find(|m| m["role"] == "tool").unwrap();
    result["content"] = json!(long);
    let file = desk.file("history.json", body.to_string());
    let (_, answer) = desk.json(&["compact", text(&file), "--format", "chat", "--target", "3000", "--json"]);
    let undo = answer["undo"].as_str().unwrap();
    let (code, found) = desk.json(&["page", "search", undo, "^row \\d+: the needle$", "--json"]);
    assert_eq!((code, found["hits"].as_array().unwrap().len(), &found["more"]), (Some(0), 1, &json!(false)), "{found}");
    let hit = &found["hits"][0];
    let reference = hit["ref"].as_str().unwrap();
    let page = hit["page"].to_string();
    let (code, read) = desk.json(&["page", "read", reference, "--page", &page, "--json"]);
    assert!(code == Some(0) && read["text"].as_str().unwrap().contains("row 2345: the needle"));
    let plain = desk.run(&["page", "read", reference, "--page", &page]);
    assert_eq!(String::from_utf8(plain.stdout).unwrap(), read["text"].as_str().unwrap());
    let (code, stat) = desk.json(&["page", "stat", reference, "--json"]);
    assert!(code == Some(0) && stat["pages"] == read["pages"] && stat["bytes"].as_u64().unwrap() >= long.len() as u64, "{stat}");
    let limited = desk.json(&["page", "search", reference, "hay", "--limit", "3", "--json"]).1;
    assert_eq!((limited["hits"].as_array().unwrap().len(), &limited["more"]), (3, &json!(true)));

    for (arguments, kind) in [
        (vec!["page", "read", reference, "--page", "99999"], "not_found"),
        (vec!["page", "read", reference, "--page", "0"], "not_found"),
        (vec!["page", "read", "pg_0000000000000000"], "not_found"),
        (vec!["page", "read", "../../../etc/passwd"], "not_found"),
        (vec!["page", "stat", reference, "--tenant", "somebody-else"], "not_found"),
        (vec!["page", "search", undo, ".", "--tenant", "somebody-else"], "not_found"),
        (vec!["compact", "--undo", undo, "--tenant", "somebody-else"], "not_found"),
        (vec!["page", "search", reference, "("], "invalid_input"),
        (vec!["page", "search", reference, "(?:a{1000}){1000}{1000}"], "invalid_input"),
    ] {
        let (code, answer) = desk.json(&[&arguments[..], &["--json"]].concat());
        assert_eq!((code, answer["error"]["kind"].as_str()), (Some(2), Some(kind)), "{arguments:?}");
    }
    // Patterns that hang other engines.
    for pattern in ["(h+a+)+$", "(.*)*(.*)*(.*)*x", "(a|aa)+$", "\\b(\\w+\\s?)*\\b!"] {
        assert_eq!(desk.json(&["page", "search", reference, pattern, "--json"]).0, Some(0), "{pattern}");
    }
}

#[test]
fn a_dry_run_tells_a_person_and_writes_nothing() {
    let desk = Desk::new();
    let file = desk.file("history.json", history("chat"));
    let arguments = ["compact", text(&file), "--format", "chat", "--target", "5000", "--plan"];
    let output = desk.run(&arguments);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0));
    for expected in ["plan pl_", "tokens", "->", "(stale", "cached prefix holds up to token", "turns", "before", "after", "[pg_"] {
        assert!(shown.contains(expected), "{expected} is not in\n{shown}");
    }
    assert!(!desk.path("pages").exists(), "a dry run opens no store");
    let (code, plan) = desk.json(&[&arguments[..], &["--json"]].concat());
    assert!(code == Some(0) && plan["after"].as_u64().unwrap() <= 5000);
    assert_eq!((&plan["edits"][0]["path"].is_string(), &plan["break_even_turns"].is_number()), (&true, &true), "{plan}");
    // What is done is what was planned.
    let done = desk.json(&["compact", text(&file), "--format", "chat", "--target", "5000", "--json"]).1;
    assert_eq!((&done["undo"], &done["edits"]), (&plan["plan"], &plan["edits"]));
    let roomy = desk.run(&["compact", text(&file), "--format", "chat", "--target", "900000", "--plan"]);
    assert!(String::from_utf8(roomy.stdout).unwrap().starts_with("nothing to do"));
}

#[test]
fn policies_from_files_and_their_contradictions() {
    let desk = Desk::new();
    let file = desk.file("history.json", history("chat"));
    let compact = |name: &str, policy: &str| {
        let policy = desk.file(name, policy);
        desk.json(&["compact", text(&file), "--format", "chat", "--policy", text(&policy), "--json"])
    };
    let toml = compact("policy.toml", "high = 8000\nlow = 5000\nkeep_exchanges = 1\n[[pins]]\ntag = \"#keep\"\n");
    let same = compact("policy.json", r##"{"high": 8000, "low": 5000, "keep_exchanges": 1, "pins": [{"tag": "#keep"}]}"##);
    assert_eq!((toml.0, &toml.1), (Some(0), &same.1));
    for (policy, named) in [
        ("high = 100\nlow = 200", "low"),
        ("high = \"140%\"", "high"),
        ("high = 0.5\nlow = 0.5", "low"),
        ("low = 0", "low"),
        ("shrink_to = 1000\nshrink_over = 10", "shrink_to"),
        ("cached_price = 7.0", "cached_price"),
        ("summary_tokens = 0", "summary_tokens"),
        ("[[pins]]", "pin"),
        ("[[pins]]\nrole = \"king\"", "role"),
        ("hihg = 5", "hihg"),
        ("steps = [\"burn\"]", "burn"),
        ("high = \"a lot\"", "mark"),
        ("high = nan", "high"),
        ("min_gain = -5", ""),
        ("not toml", ""),
    ] {
        let (code, answer) = compact("policy.toml", policy);
        let error = &answer["error"];
        assert_eq!((code, error["kind"].as_str()), (Some(2), Some("invalid_input")), "{policy}: {answer}");
        assert!(error["message"].as_str().unwrap().contains(named), "{policy}: {error}");
    }
    // Pins on everything leave nothing to cut.
    let (code, answer) = compact("policy.toml", "high = 5000\nlow = 4000\n[[pins]]\nrole = \"user\"\n[[pins]]\nrole = \"assistant\"\n");
    assert_eq!((code, answer["error"]["kind"].as_str()), (Some(1), Some("over_budget")));
    // No step allowed.
    let (code, answer) = compact("policy.toml", "high = 5000\nlow = 4000\nsteps = []\n");
    assert_eq!((code, answer["error"]["kind"].as_str()), (Some(1), Some("over_budget")));
}

#[test]
fn hostile_bodies_end_in_an_answer() {
    let desk = Desk::new();
    let deep = format!(r#"{{"messages":[{{"role":"user","content":{}1{}}}]}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let output = desk.piped(&["compact", "-", "--format", "chat", "--model", "gpt-4o", "--target", "10", "--json"], deep.as_bytes());
    assert_eq!((output.status.code(), answer(&output)["error"]["kind"].as_str()), (Some(2), Some("invalid_input")));

    // Ten megabytes on one line, as text and as JSON in a tool's result.
    let deep_result = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    let wide = format!("[{}]", vec!["{\"a\":1}"; 60_000].join(","));
    for result in ["x".repeat(10 << 20), "word ".repeat(2 << 20), wide, deep_result, "\\u0000".repeat(1 << 16), "%".repeat(1 << 20)] {
        let call = |id: &str| json!([{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
        let body = json!({"model": "gpt-4o", "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": null, "tool_calls": call("c1")}, {"role": "tool", "tool_call_id": "c1", "content": result},
            {"role": "assistant", "content": null, "tool_calls": call("c2")}, {"role": "tool", "tool_call_id": "c2", "content": "ok"},
            {"role": "assistant", "content": null, "tool_calls": call("c3")}, {"role": "tool", "tool_call_id": "c3", "content": "ok"},
        ]})
        .to_string();
        let file = desk.file("history.json", &body);
        let (code, answer) = desk.json(&["compact", text(&file), "--format", "chat", "--target", "900", "--json"]);
        assert_eq!(code, Some(0), "{} bytes: {answer}", result.len());
        assert!(answer["after"].as_u64().unwrap() <= 900);
        let undo = answer["undo"].as_str().unwrap();
        assert_eq!(desk.run(&["compact", "--undo", undo]).stdout, body.as_bytes());
        let request = Request::parse(answer["request"].to_string().as_bytes(), Format::Chat).unwrap();
        assert!(plimsoll::check(&request, None).iter().all(|f| f.severity != plimsoll::Severity::Error));
        assert_eq!(desk.json(&["page", "stat", undo, "--json"]).0, Some(0));
    }
}
