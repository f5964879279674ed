//! Summaries by an endpoint: a local server that answers as told, well and badly; and the key, which nothing may show.
#![cfg(feature = "endpoint")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod scenario;

use plimsoll::{
    CountOptions, Counter, Endpoint, EndpointSummarizer, Format, Kind, Pages, Plan, Policy, Request, Step, Summarizer, SummarizerKind,
    SummaryTask, plan,
};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const KEY: &str = "sk-very-secret-0123456789";

/// What the server does with one connection.
#[derive(Clone)]
enum Does {
    /// Answers with a status, more headers, and a body.
    Answer(u16, &'static str, String),
    /// Reads and never answers.
    Hangs,
    /// Breaks off in the middle of its answer.
    Breaks,
}

fn says(text: &str) -> Does {
    Does::Answer(200, "", json!({"choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": text}}]}).to_string())
}

/// What the server was sent: the head and the body.
type Seen = Arc<Mutex<Vec<(String, Value)>>>;

/// An OpenAI-compatible server that does one thing after the other, and the last for good.
struct Server {
    url: String,
    seen: Seen,
}

impl Server {
    fn start(does: Vec<Does>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let seen = Seen::default();
        let log = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for (n, stream) in listener.incoming().enumerate() {
                let Ok(stream) = stream else { return };
                held.extend(serve(stream, &does[n.min(does.len() - 1)], &log));
            }
        });
        Self { url, seen }
    }

    fn seen(&self) -> Vec<(String, Value)> {
        self.seen.lock().unwrap().clone()
    }

    fn summarizer(&self, change: impl FnOnce(&mut Endpoint)) -> EndpointSummarizer {
        let mut endpoint = Endpoint::new(&self.url, "little-model");
        endpoint.key = Some(KEY.to_owned());
        endpoint.backoff = Duration::from_millis(1);
        change(&mut endpoint);
        EndpointSummarizer::new(endpoint).unwrap()
    }
}

/// Serves one request; gives the connection back when it is to be left hanging.
fn serve(mut stream: TcpStream, does: &Does, log: &Seen) -> Option<TcpStream> {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    log.lock().unwrap().push((head, serde_json::from_slice(&body).unwrap_or(Value::Null)));
    match does {
        Does::Answer(status, headers, body) => {
            let _ = write!(
                stream,
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n{body}",
                body.len()
            );
            None
        }
        Does::Breaks => {
            let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{{\"choices\":");
            None
        }
        Does::Hangs => Some(stream),
    }
}

fn task(text: &str) -> SummaryTask {
    SummaryTask { index: 0, text: text.to_owned(), bound: 100, keep: vec!["AB-1234".to_owned()] }
}

#[test]
fn a_request_holds_what_any_server_takes_and_the_key_in_its_header_alone() {
    let server = Server::start(vec![says("  The cargo of AB-1234 was counted.\n")]);
    let said = server.summarizer(|_| ()).summarize(&task("user: count AB-1234")).unwrap();
    assert_eq!(said, "The cargo of AB-1234 was counted.");
    let (head, body) = server.seen().remove(0);
    assert!(head.starts_with("POST /v1/chat/completions ") && head.contains(&format!("Bearer {KEY}")), "{head}");
    assert_eq!((&body["model"], &body["stream"]), (&json!("little-model"), &json!(false)));
    assert!(body["messages"][0]["content"].as_str().unwrap().contains("AB-1234"));
    assert_eq!(body["messages"][1], json!({"role": "user", "content": "user: count AB-1234"}));
    assert!(!body.to_string().contains(KEY));
}

#[test]
fn what_may_pass_is_tried_again_and_what_may_not_is_not() {
    let fails = |status, headers| Does::Answer(status, headers, "{\"error\":{\"message\":\"sk-very-secret-0123456789\"}}".to_owned());
    let well = || says("Fine, AB-1234.");
    for (name, does, asked) in [
        ("500", vec![fails(500, ""), well()], 2),
        ("503 twice", vec![fails(503, ""), fails(503, ""), well()], 3),
        ("429 that names its pause", vec![fails(429, "retry-after: 0\r\n"), well()], 2),
        ("broken JSON", vec![Does::Answer(200, "", "{\"choices\": [".to_owned()), well()], 2),
        ("an answer that breaks off", vec![Does::Breaks, well()], 2),
        ("a hanging server", vec![Does::Hangs, well()], 2),
        ("a model that takes no temperature", vec![fails(400, ""), well()], 2),
        ("thoughts", vec![says("<think>AB-1234?</think>Fine, AB-1234.")], 1),
    ] {
        let server = Server::start(does);
        let said = server.summarizer(|e| e.timeout = Duration::from_millis(700)).summarize(&task("x"));
        assert_eq!(said.unwrap_or_else(|e| panic!("{name}: {e}")), "Fine, AB-1234.", "{name}");
        assert_eq!(server.seen().len(), asked, "{name}");
    }
    for (name, does, asked) in [
        ("500 for good", vec![fails(500, "")], 3),
        ("429 that asks for more time than there is", vec![fails(429, "retry-after: 99999\r\n")], 1),
        ("401", vec![fails(401, "")], 1),
        ("404", vec![fails(404, "")], 1),
        ("400 for good", vec![fails(400, "")], 2),
        ("a redirect", vec![fails(307, "location: http://127.0.0.1:1/\r\n")], 1),
        ("no text", vec![Does::Answer(200, "", "{\"choices\":[]}".to_owned())], 1),
        ("nothing but thoughts", vec![says("<think>hm")], 1),
        ("other JSON", vec![Does::Answer(200, "", "[7]".to_owned())], 1),
        (
            "a cut answer",
            vec![Does::Answer(200, "", json!({"choices": [{"finish_reason": "length", "message": {"content": "x"}}]}).to_string())],
            1,
        ),
        ("an answer without end", vec![says(&"x".repeat(20 << 20))], 1),
        ("a hanging server", vec![Does::Hangs], 3),
    ] {
        let server = Server::start(does);
        let error = server.summarizer(|e| e.timeout = Duration::from_millis(700)).summarize(&task("x")).unwrap_err();
        assert_eq!(error.kind(), Kind::Unavailable, "{name}: {error}");
        assert_eq!(server.seen().len(), asked, "{name}: {error}");
        assert!(!format!("{error} {error:?}").contains("secret"), "{name}: {error}");
    }
    // Nobody there.
    let gone = Endpoint { backoff: Duration::from_millis(1), key: Some(KEY.into()), ..Endpoint::new("http://127.0.0.1:1/v1", "m") };
    let error = EndpointSummarizer::new(gone).unwrap().summarize(&task("x")).unwrap_err();
    assert!(error.kind() == Kind::Unavailable && !error.to_string().contains(KEY), "{error}");
}

#[test]
fn a_text_over_the_servers_window_goes_in_chunks_that_fit() {
    let server = Server::start(vec![says("One chunk of AB-1234.")]);
    let text: String = (0..400).map(|n| format!("line {n} of the log says nothing new\n")).collect();
    let long_line = "x1 ".repeat(3_000);
    for text in [text, long_line] {
        server.seen.lock().unwrap().clear();
        server.summarizer(|e| e.input_tokens = 300).summarize(&task(&text)).unwrap();
        let o200k = plimsoll::Tokenizer::by_name("o200k_base").unwrap();
        let seen = server.seen();
        assert!(seen.len() > 5, "{}", seen.len());
        let sent: Vec<&str> = seen.iter().map(|(_, body)| body["messages"][1]["content"].as_str().unwrap()).collect();
        assert!(sent.iter().all(|chunk| o200k.count(chunk) <= 300));
        // The chunks are the text, whole and in order; what follows are their sums.
        let all = sent.concat();
        assert!(all.starts_with(&text) && all.ends_with("One chunk of AB-1234.\n"), "{all}");
    }
    // Sums that never get smaller end it.
    let server = Server::start(vec![says(&"AB-1234 ".repeat(400))]);
    let error = server.summarizer(|e| e.input_tokens = 300).summarize(&task(&"word ".repeat(2_000))).unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
}

/// A plan that holds a summary, and what made it.
fn planned() -> (Plan, Request, CountOptions, Pages) {
    let body = scenario::generate(3, 20, 40).body("chat").to_string();
    let request = Request::parse(body.as_bytes(), Format::Chat).unwrap();
    let options = CountOptions::default();
    let target = Counter::new().count(&request, &options).unwrap().total() / 2;
    let policy = Policy {
        summarizer: SummarizerKind::Endpoint,
        steps: vec![Step::Summarize],
        keep_identifiers: vec!["AB-1234".to_owned()],
        ..Policy::default().with_target(target)
    };
    let pages = Pages::in_memory();
    let plan = plan(&request, &Counter::new(), &options, &policy, &pages).unwrap().into_plan().unwrap().unwrap();
    assert!(!plan.tasks.is_empty());
    (plan, request, options, pages)
}

#[test]
fn a_sound_summary_is_taken_and_any_other_leaves_the_built_in_one() {
    let counter = Counter::new();
    let server = Server::start(vec![says("A short word on AB-1234.")]);
    let (plan, request, options, pages) = planned();
    let built_in = plan.preview().text().to_owned();
    let better = plan.summarized_by(&server.summarizer(|_| ()), &counter, &options, &pages).unwrap();
    assert!(better.preview().text().contains("A short word on AB-1234.") && better.summarized == [0]);
    let outcome = better.apply(&request, &pages).unwrap();
    assert_eq!(plimsoll::undo(&pages, &outcome.undo).unwrap().text(), request.text());
    for (name, does) in [
        ("larger than what it replaces", says(&"AB-1234 is a very long story. ".repeat(9_000))),
        ("without the identifier", says("All is well.")),
        ("empty", says("   ")),
        ("an error", Does::Answer(401, "", String::new())),
        ("broken JSON", Does::Answer(200, "", "{{".to_owned())),
    ] {
        let server = Server::start(vec![does]);
        let (plan, _, options, pages) = planned();
        let plan = plan.summarized_by(&server.summarizer(|_| ()), &counter, &options, &pages).unwrap();
        assert!(plan.preview().text() == built_in && plan.summarized.is_empty(), "{name}");
    }
}

#[cfg(feature = "cli")]
#[test]
fn the_command_line_takes_the_key_from_the_environment_and_never_shows_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("history.json");
    std::fs::write(&file, scenario::generate(3, 20, 40).body("chat").to_string()).unwrap();
    let policy = folder.path().join("policy.toml");
    std::fs::write(&policy, "steps = [\"summarize\"]\nsummarizer = \"endpoint\"\n").unwrap();
    let run = |url: Option<&str>, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.args(["compact", "--json", "--target", "5000", "--store"]).arg(folder.path().join("pages")).arg("--policy").arg(&policy);
        if let Some(url) = url {
            command.args(["--endpoint-url", url, "--endpoint-model", "little-model", "--endpoint-retries", "0"]);
        }
        command.env("PLIMSOLL_ENDPOINT_KEY", KEY).args(more).arg(&file).output().unwrap()
    };
    let server = Server::start(vec![says("A short word.")]);
    let output = run(Some(&server.url), &[]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(answer["request"].to_string().contains("A short word."), "{answer}");
    assert!(server.seen()[0].0.contains(&format!("Bearer {KEY}")));

    // When it fails the built-in summary stands, and standard error says why.
    let server = Server::start(vec![Does::Answer(401, "", KEY.to_owned())]);
    let output = run(Some(&server.url), &[]);
    assert_eq!(output.status.code(), Some(0));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("status 401"), "{error}");
    assert!(!error.contains(KEY) && !String::from_utf8(output.stdout).unwrap().contains(KEY));

    // Nobody to ask is an error before anything is done; a dry run and another choice need nobody.
    let output = run(None, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(run(None, &["--plan"]).status.code(), Some(0));
    assert_eq!(run(None, &["--summarizer", "extractive"]).status.code(), Some(0));
    // A policy has no place for an address or a key.
    std::fs::write(&policy, "summarizer = \"endpoint\"\nkey = \"x\"\n").unwrap();
    assert_eq!(run(Some(&server.url), &[]).status.code(), Some(2));
}
