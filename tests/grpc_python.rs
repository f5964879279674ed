//! The service seen from another language: Python's grpcio with stubs made from our proto gets the crate's numbers.
//!
//! Needs `python3` (or `PLIMSOLL_PYTHON`) with `grpcio` and `grpcio-tools`; says so and passes where they are absent.
#![cfg(feature = "server")]
#![allow(clippy::print_stdout, reason = "says why it skips")]

mod scenario;

use plimsoll::server::{ServerConfig, run};
use plimsoll::turn::{InspectOptions, inspect};
use plimsoll::{CountOptions, Counter, Format, Models, Request};
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::{Command, Stdio};

/// The Python that has what is needed; `None`, with the reason printed, when there is none.
fn python() -> Option<String> {
    let python = std::env::var("PLIMSOLL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let present = Command::new(&python).args(["-c", "import grpc, grpc_tools"]).stderr(Stdio::null()).status();
    if present.is_ok_and(|status| status.success()) {
        return Some(python);
    }
    println!("skipped: `{python}` has no grpcio and grpcio-tools");
    None
}

/// Runs a script beside a server of its own; gives the JSON lines that it prints.
async fn script(python: String, name: &'static str, input: String) -> Vec<Value> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound port").to_string();
    let server = tokio::spawn(run(listener, ServerConfig::default(), std::future::pending()));
    let here = env!("CARGO_MANIFEST_DIR");
    let output = tokio::task::spawn_blocking(move || {
        let mut child = Command::new(python)
            .args([&format!("{here}/tests/python/{name}"), &address, &format!("{here}/proto")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("python was seen to start");
        child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("python reads its input");
        child.wait_with_output().expect("python ends")
    });
    let output = output.await.expect("python ran");
    server.abort();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn python_gets_the_crates_numbers() {
    let Some(python) = python() else { return };
    let bodies = [
        (
            "FORMAT_CHAT",
            r#"{"model":"gpt-4o","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"你好, world"}],"tools":[{"type":"function","function":{"name":"read_file","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}}]}"#,
        ),
        (
            "FORMAT_AUTO",
            r#"{"model":"claude-sonnet-4-5","max_tokens":10,"system":"Be kind.","messages":[{"role":"user","content":"Hello"}]}"#,
        ),
        ("FORMAT_RESPONSES", r#"{"model":"gpt-5","input":"Hello"}"#),
        ("FORMAT_CHAT", r#"{"model":"gpt-4o","messages":[{"role":"user","content":5}]}"#),
        ("FORMAT_CHAT", r#"{"model":"gpt-4o-minj","messages":[{"role":"user","content":"x"}]}"#),
    ];
    let input: String = bodies.iter().map(|(format, body)| json!({"format": format, "body": body}).to_string() + "\n").collect();
    let answers = script(python, "count.py", input).await;
    assert_eq!(answers.len(), bodies.len());
    for ((_, body), answer) in bodies.iter().zip(&answers) {
        let request = Request::detect(body.as_bytes()).expect("JSON").0;
        match Counter::new().count(&request, &CountOptions::default()) {
            Ok(count) => {
                assert_eq!(answer["total"], json!(count.breakdown.total()), "{answer}");
                assert_eq!(answer["sum"], answer["total"]);
                assert_eq!(answer["bound"], json!(count.breakdown.bound()));
                assert_eq!(answer["model"], json!(count.profile.id));
            }
            Err(error) => {
                assert_eq!(answer["kind"], json!(format!("ERROR_KIND_{}", error.kind().as_str().to_uppercase())), "{answer}");
                assert_eq!(answer["path"], json!(error.path()));
                assert_eq!(answer["suggestions"], json!(error.suggestions()));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn python_compacts_reads_what_was_cut_and_undoes_it() {
    let Some(python) = python() else { return };
    let mut body = scenario::generate(3, 20, 40).body("chat");
    let fact = "PLANTED-IN-A-RESULT";
    let result = body["messages"].as_array_mut().and_then(|list| list.iter_mut().find(|m| m["role"] == "tool")).expect("a tool result");
    result["content"] = json!(format!("{}\n{fact}\n{}", "salt ".repeat(900), "rope ".repeat(900)));
    let body = body.to_string();
    let request = Request::parse(body.as_bytes(), plimsoll::Format::Chat).expect("a chat body");
    let before = Counter::new().count(&request, &CountOptions::default()).expect("counted").total();
    let given = json!({"format": "FORMAT_CHAT", "model": "gpt-4o", "body": body, "target": before / 2, "pattern": fact});
    let answer = script(python, "compact.py", given.to_string()).await.remove(0);
    assert!(answer["after"].as_u64().is_some_and(|after| after <= before / 2), "{answer}");
    assert_eq!(answer["undone"], json!(body));
    assert_eq!((&answer["hits"], &answer["foreign"]), (&json!(1), &json!("ERROR_KIND_NOT_FOUND")));
    assert!(answer["floor"].as_u64() > Some(1) && answer["parts"].as_u64() > Some(0), "{answer}");
    assert_eq!(answer["rule"], json!(["orphan_result"]));
}

const ANSWER: &str = "data: {\"model\":\"gpt-4o\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Größe, 你好\"}}]}\n\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"read\",\"arguments\":\"{}\"}}]}}]}\n\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":9}}\n\n\
    data: [DONE]\n\n";

#[tokio::test(flavor = "multi_thread")]
async fn python_follows_streams_as_the_crate_does() {
    let Some(python) = python() else { return };
    let request =
        r#"{"model":"gpt-4o","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"read"}}]}"#;
    let answers = [ANSWER, &ANSWER[..ANSWER.len() - 5], &ANSWER[..120], "data: {]\n\n", ""];
    let line = |answer: &&str| json!({"format": "FORMAT_CHAT", "request": request, "answer": answer}).to_string() + "\n";
    let told = script(python, "turn.py", answers.iter().map(line).collect()).await;
    assert_eq!(told.len(), answers.len());
    for (answer, told) in answers.iter().zip(&told) {
        let request = Request::parse(request.as_bytes(), Format::Chat).expect("JSON");
        let options = InspectOptions { request: Some(request), now_ms: 7, ..InspectOptions::default() };
        let own = inspect(answer.as_bytes(), Format::Chat, &Models::builtin(), &options).expect("an answer, broken or not");
        let text = own.turn.choices.first().map_or("", |choice| choice.text.as_str());
        assert_eq!((&told["ended_well"], &told["text"], &told["pieces"]), (&json!(own.turn.ended_well), &json!(text), &json!(text)));
        let verdicts: Vec<String> =
            own.judgement.calls.iter().map(|call| format!("VERDICT_{}", call.verdict.as_str().to_uppercase())).collect();
        assert_eq!(told["verdicts"], json!(verdicts), "{told}");
        let faults: Vec<Value> = own
            .turn
            .faults
            .iter()
            .map(|fault| json!([format!("FAULT_KIND_{}", fault.kind.as_str().to_uppercase()), fault.offset]))
            .collect();
        assert_eq!(told["faults"], json!(faults));
        assert_eq!(told["output"], json!(own.turn.usage.as_ref().and_then(|usage| usage.output)));
        assert_eq!(told["single"], true, "both methods give one report");
    }
    assert_eq!(told[0]["verdicts"], json!(["VERDICT_RUN"]));
}
