//! The command line as a script and as a person meet it: exit codes, JSON contracts, error texts, pictures.
#![cfg(feature = "cli")]

mod common;

use serde_json::{Value, json};
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

fn plimsoll(arguments: &[&str], input: &[u8]) -> Output {
    let home = std::env::temp_dir().join("plimsoll-cli-tests-without-a-home");
    let mut child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("PLIMSOLL_HOME", home)
        .env_remove("PLIMSOLL_MODEL")
        .env_remove("PLIMSOLL_PROVIDER")
        .env_remove("PLIMSOLL_MODELS")
        .env_remove("COLUMNS")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built for this test");
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("the writer ends");
    output
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("it exits by itself")
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

fn parsed(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", out(output)))
}

const EXAMPLE: &str = "examples/file-analysis.chat.json";
const SMALL: &[u8] = br#"{"model":"gpt-4o-mini","messages":[{"role":"user","content":"Hello!"}]}"#;

#[test]
fn the_example_is_counted_and_budgeted_with_its_load_line() {
    let output = plimsoll(&["count", EXAMPLE], b"");
    assert_eq!(code(&output), 0, "{}", err(&output));
    let text = out(&output);
    assert!(text.starts_with("881 prompt tokens, calibrated ±87\n"), "{text}");
    assert!(text.contains("\n[STMR!o..."), "{text}");
    assert!(text.contains("fits: up to 2,000 output tokens (limit: requested)\nsend /max_tokens = 2000"), "{text}");
    assert!(!text.contains('\u{1b}'), "piped output is plain");
}

#[test]
fn json_has_parts_that_sum_to_the_total() {
    let value = parsed(&plimsoll(&["count", "--json", EXAMPLE], b""));
    let parts: u64 = value["breakdown"].as_array().unwrap().iter().map(|p| p["tokens"].as_u64().unwrap()).sum();
    let kinds: u64 = value["by_kind"].as_object().unwrap().values().map(|t| t.as_u64().unwrap()).sum();
    assert_eq!(value["total"], parts);
    assert_eq!(value["total"], kinds);
    assert_eq!(value["format"], "chat");
    assert_eq!(value["detected"], "its tools have `function`");
    assert_eq!(value["budget"]["granted"], 2000);
    let tools: Vec<&str> = value["breakdown"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|p| p["kind"] == "tool_definition")
        .filter_map(|p| p["name"].as_str())
        .collect();
    assert_eq!(tools, ["read_file", "search_files", "write_file"]);
}

#[test]
fn exit_codes_tell_fits_does_not_fit_and_bad_input() {
    assert_eq!(code(&plimsoll(&["budget"], SMALL)), 0);
    let short = plimsoll(&["budget", "--window", "20", "--request", "100", "--whole"], SMALL);
    assert_eq!(code(&short), 1, "{}", err(&short));
    assert!(out(&short).contains("does not fit: 89 tokens short (limit: window)"), "{}", out(&short));
    assert_eq!(code(&plimsoll(&["count", "--window", "9"], SMALL)), 1);
    for bad in [&b"{"[..], b"", b"[]", b"{}", b"\xff", br#"{"messages":[{"role":"user","content":5}],"model":"gpt-4o"}"#] {
        let output = plimsoll(&["count"], bad);
        assert_eq!(code(&output), 2, "{}", out(&output));
        assert!(err(&output).starts_with("error: "), "{}", err(&output));
        let output = plimsoll(&["count", "--json"], bad);
        assert_eq!(code(&output), 2);
        let error = &parsed(&output)["error"];
        assert!(error["kind"].is_string() && error["message"].is_string(), "{error}");
    }
    assert_eq!(code(&plimsoll(&["count", "no-such-file.json"], b"")), 2);
    assert_eq!(code(&plimsoll(&["no-such-command"], b"")), 2);
    assert_eq!(code(&plimsoll(&["--help"], b"")), 0);
}

#[test]
fn errors_say_what_where_and_what_was_expected() {
    for (body, says) in [
        (&br#"{"model":"gpt-4o","messages":[{"role":"user","content":"a"},"x"]}"#[..], "/messages/1"),
        (br#"{"model":"gpt-4o","messages":[{"role":"wizard","content":"a"}]}"#, "/messages/0/role"),
        (br#"{"model":"gpt-4o","messages":"hi"}"#, "/messages"),
        (br#"{"model":"gpt-4o","messages":[{"role":"user","content":"a"}]"#, "(byte 60)"),
        (br#"{"model":"gpt-4oo","messages":[{"role":"user","content":"a"}]}"#, "did you mean gpt-4o"),
        (br#"{"messages":[{"role":"user","content":"a"}]}"#, "names no model"),
        (br#"{"model":"gpt-4o","messages":[{"role":"user","content":"\ud800"}]}"#, "not valid JSON"),
    ] {
        let output = plimsoll(&["count", "-f", "chat"], body);
        assert_eq!(code(&output), 2);
        assert!(err(&output).contains(says), "{says}: {}", err(&output));
    }
}

#[test]
fn hostile_bodies_are_refused_without_harm() {
    let deep = [b"{\"messages\":".to_vec(), b"[".repeat(10_000), b"]".repeat(10_000), b"}".to_vec()].concat();
    let wide = [b"{\"messages\":[".to_vec(), b"0,".repeat(4_000_000), b"0]}".to_vec()].concat();
    let end = br#"{"model":"gpt-4o","messages":[{"role":"user","content":"a"}],"max_tokens":18446744073709551616}"#.to_vec();
    for body in [deep, wide, end] {
        let output = plimsoll(&["count", "--json", "-f", "chat"], &body);
        assert_eq!(code(&output), 2);
        assert!(parsed(&output)["error"]["message"].is_string());
    }
    let most = br#"{"model":"gpt-4o","messages":[{"role":"user","content":"a"}],"max_tokens":18446744073709551615}"#;
    let value = parsed(&plimsoll(&["budget", "--json"], most));
    assert_eq!((&value["granted"], &value["limit"]), (&json!(16_384), &json!("output_cap")));
}

#[test]
fn a_batch_answers_every_line_in_order_whatever_it_holds() {
    let lines = [
        json!({"id": "a", "format": "chat", "model": "gpt-4o", "request": {"messages": [{"role": "user", "content": "Hello!"}]}}).to_string(),
        "not json".to_owned(),
        String::new(),
        json!({"id": 2, "model": "gpt-4o", "request": {"messages": [{"role": "user", "content": 5}]}}).to_string(),
        json!({"id": "c", "format": "smoke", "model": "gpt-4o", "request": {}}).to_string(),
        json!({"id": "d", "format": "chat", "model": "no-such-model-at-all", "request": {"messages": [{"role": "user", "content": "a"}]}}).to_string(),
        json!({"id": "e", "request": {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hello!"}]}, "provider": "api.openai.com"}).to_string(),
    ];
    let output = plimsoll(&["count", "--batch", "-"], lines.join("\n").as_bytes());
    assert_eq!(code(&output), 0, "{}", err(&output));
    let answers: Vec<Value> = out(&output).lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(
        answers.iter().map(|a| a["id"].clone()).collect::<Vec<_>>(),
        [json!("a"), Value::Null, json!(2), json!("c"), json!("d"), json!("e")]
    );
    assert_eq!((&answers[0]["total"], &answers[0]["confidence"], &answers[0]["bound"]), (&json!(9), &json!("exact"), &json!(0)));
    assert_eq!(answers[0]["total"], answers[5]["total"]);
    assert_eq!(answers[1]["error"]["kind"], "invalid_input");
    assert_eq!(answers[2]["error"]["path"], "/messages/0/content");
    assert_eq!(answers[3]["error"]["path"], "/format");
    assert_eq!(answers[4]["error"]["kind"], "unknown_model");
}

#[test]
fn every_recorded_request_gets_a_total_or_a_typed_error() {
    for name in ["chat", "anthropic", "responses", "gemini", "converse"] {
        let Some(exchanges) = common::exchanges(name) else { return };
        let lines: Vec<String> = exchanges
            .iter()
            .map(|e| {
                json!({"id": e["id"], "format": e["api"], "model": e["model"], "provider": e["host"], "request": e["request"]}).to_string()
            })
            .collect();
        let output = plimsoll(&["count", "--batch"], lines.join("\n").as_bytes());
        assert_eq!(code(&output), 0, "{name}: {}", err(&output));
        let answers: Vec<Value> = out(&output).lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(answers.len(), exchanges.len(), "{name}");
        for (exchange, answer) in exchanges.iter().zip(&answers) {
            assert_eq!(exchange["id"], answer["id"]);
            if let Some(total) = answer["total"].as_u64() {
                let parts: u64 = answer["breakdown"].as_array().unwrap().iter().map(|p| p["tokens"].as_u64().unwrap()).sum();
                assert_eq!(total, parts, "{}", exchange["id"]);
                assert_eq!(answer["bound"].is_null(), answer["confidence"] == "unbounded", "{}", exchange["id"]);
            } else {
                assert!(answer["error"]["kind"].is_string(), "{}: {answer}", exchange["id"]);
                assert_ne!(answer["error"]["kind"], "internal", "{answer}");
            }
        }
        let errors = answers.iter().filter(|a| a.get("error").is_some()).count();
        println!("{name}: {} counted, {errors} typed errors", answers.len() - errors);
        assert!(errors * 20 <= answers.len(), "{name}: {errors} of {} refused", answers.len());
    }
}

#[test]
fn models_are_listed_shown_and_imported() {
    let home = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_plimsoll")).args(arguments).env("PLIMSOLL_HOME", home.path()).output().expect("it runs")
    };
    let list = parsed(&run(&["models", "list", "--json"]));
    assert!(list.as_array().unwrap().len() >= 400, "{}", list.as_array().unwrap().len());
    let shown = parsed(&run(&["models", "show", "openrouter/anthropic/claude-sonnet-4.5", "--json"]));
    assert_eq!(shown["maker"], "anthropic");
    let unknown = run(&["models", "show", "gpt-4oo"]);
    assert_eq!(code(&unknown), 2);
    assert!(err(&unknown).contains("did you mean gpt-4o"), "{}", err(&unknown));

    let prices = home.path().join("prices.json");
    std::fs::write(
        &prices,
        r#"{"brand-new-9": {"litellm_provider": "openai", "mode": "chat", "max_input_tokens": 9000, "max_output_tokens": 700, "max_tokens": 700}}"#,
    )
    .unwrap();
    let report = run(&["models", "import", prices.to_str().unwrap(), "--date", "2026-11-30", "--json"]);
    assert_eq!(parsed(&report)["added"], 1, "{}", out(&report));
    assert_eq!(parsed(&run(&["models", "show", "brand-new-9", "--json"]))["output_cap"], 700);

    let own = home.path().join("own.toml");
    std::fs::write(&own, "[models.brand-new-9]\noutput_cap = 600\n").unwrap();
    assert_eq!(parsed(&run(&["models", "--models", own.to_str().unwrap(), "show", "brand-new-9", "--json"]))["output_cap"], 600);
}

#[test]
fn shells_and_manual_readers_get_their_files() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = plimsoll(&["completions", shell], b"");
        assert!(code(&script) == 0 && out(&script).contains("plimsoll"));
    }
    assert!(out(&plimsoll(&["man"], b"")).contains(".TH plimsoll"));
}

/// `serve` on port zero: says where it listens, answers TCP, and drains on a signal.
#[test]
#[cfg(all(unix, feature = "server"))]
fn serve_listens_on_loopback_and_ends_on_a_signal() {
    use std::io::{BufRead as _, BufReader};
    let mut child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["serve", "--listen", "127.0.0.1:0", "--json"])
        .env("PLIMSOLL_HOME", std::env::temp_dir().join("plimsoll-cli-tests-without-a-home"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("it says where");
    let address = serde_json::from_str::<Value>(&line).unwrap()["listening"].as_str().unwrap().to_owned();
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    drop(std::net::TcpStream::connect(&address).expect("it listens"));
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill runs").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn an_open_models_prompt_is_shown_with_the_borders_of_its_parts() {
    let output = plimsoll(&["count", EXAMPLE, "-m", "qwen3-32b", "--show-prompt"], b"");
    assert_eq!(code(&output), 0, "{}", err(&output));
    let text = out(&output);
    assert!(text.contains("──── framing\n<|im_start|>system\n"), "{text}");
    assert!(text.contains("──── tool definition "), "{text}");
    let output = plimsoll(&["count", EXAMPLE, "-m", "qwen3-32b", "--show-prompt", "--json"], b"");
    let shown = &parsed(&output)["prompt"];
    let prompt = shown["text"].as_str().expect("the prompt's text");
    let mut at = 0;
    for piece in shown["pieces"].as_array().expect("its pieces") {
        assert_eq!(piece["start"], at);
        at = piece["end"].as_u64().expect("an offset");
    }
    assert_eq!(at, prompt.len() as u64);
    let output = plimsoll(&["count", EXAMPLE, "-m", "gpt-4o", "--show-prompt"], b"");
    assert_eq!(code(&output), 2);
    assert!(err(&output).contains("not public"), "{}", err(&output));
    let output = plimsoll(&["count", EXAMPLE, "--as-of", "yesterday"], b"");
    assert_eq!(code(&output), 2);
    assert!(err(&output).contains("YYYY-MM-DD"), "{}", err(&output));
}
