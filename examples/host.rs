//! An agent host in three rounds, against a model server of its own on a local port: count, budget, call, gate, result, compact.
//!
//! The model asks for two independent reads at once, then for a write, then it answers. Run it with `truncated` to see a write that was cut
//! by the output limit refused, and then done in blocks: `cargo run --example host -- truncated`.

#![allow(clippy::print_stdout, reason = "an example talks to a person")]

use plimsoll::turn::{Action, Gate, Outcome, Policy as GatePolicy, Reason, Risk, Rule, Stream, Verdict, reply};
use plimsoll::{
    BudgetPolicy, CountOptions, Counter, Decision, Error, Format, Kind, Mark, Pages, Policy, Request, Result, Tokenizer, decide, plan,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

fn main() -> Result<()> {
    let truncated = std::env::args().nth(1).as_deref() == Some("truncated");
    let rounds = run(truncated)?;
    println!("ended in `stop` after {rounds} rounds");
    Ok(())
}

/// Runs the task to its end; gives the number of rounds.
fn run(truncated: bool) -> Result<usize> {
    let server = serve(script(truncated))?;
    let (counter, pages) = (Counter::new(), Pages::in_memory());
    let options = CountOptions { model: Some("gpt-4o-mini".to_owned()), ..CountOptions::default() };
    let mut gate = Gate::new(GatePolicy {
        rules: vec![Rule::new("read_*", Risk::ReadOnly, Verdict::Run), Rule::new("write_*", Risk::Write, Verdict::Run)],
        otherwise: Verdict::Ask,
        ..GatePolicy::default()
    });
    let mut files: BTreeMap<String, String> =
        [("a.txt", "alpha\n".repeat(900)), ("b.txt", "beta\n".repeat(900))].map(|(name, text)| (name.to_owned(), text)).into();
    let mut body = json!({
        "model": "gpt-4o-mini", "stream": true, "stream_options": {"include_usage": true}, "max_completion_tokens": 500,
        "messages": [{"role": "system", "content": "Use the tools."}, {"role": "user", "content": "Join a.txt and b.txt into c.txt."}],
        "tools": [tool("read_file", &["path"]), tool("write_file", &["path", "text"])]
    });
    gate.add_request(&request(&body)?)?;

    for round in 1..=10 {
        // Count and budget: the grant is sent, not merely known.
        let asked = request(&body)?;
        let count = counter.count(&asked, &options)?;
        let budget = decide(&asked.conversation()?, &count, &BudgetPolicy::default(), counter.models(), None)?;
        println!("round {round}: {} tokens in, {} granted ({})", budget.input, budget.granted, budget.limit.as_str());
        if !budget.fits {
            return Err(Error::new(Kind::OverBudget, "the request does not fit"));
        }
        body["max_completion_tokens"] = json!(budget.granted);

        // Call, and put the stream together.
        let mut stream = Stream::new(Format::Chat)?.with_tokenizer(Tokenizer::by_name("o200k_base")?).with_granted(budget.granted);
        post(server, &body, |bytes| {
            stream.feed(bytes);
        })?;
        let turn = stream.finish();
        if let Some(fault) = turn.error() {
            return Err(fault.to_error());
        }
        let judgement = gate.judge(&turn, 0, 0);
        let choice = turn.choices.first().ok_or_else(|| Error::new(Kind::InvalidInput, "an answer without a choice"))?;
        println!("  finish {}: {}", choice.finish.reason.as_str(), judgement.action.as_str());
        let mut messages = choice.history(Format::Chat);

        // Run what may be run; answer every call, the refused ones too.
        let mut outcomes = judgement.refused_outcomes();
        for judged in &judgement.calls {
            println!("  {} {}: {}", judged.verdict.as_str(), judged.call.name, judged.detail);
            if judged.verdict == Verdict::Run {
                let arguments = judged.arguments.clone().unwrap_or_default();
                outcomes.push(match tools(&mut files, &judged.call.name, &arguments) {
                    Ok(text) => Outcome::text(&judged.call, text),
                    Err(text) => Outcome::error(&judged.call, text),
                });
            }
        }
        messages.extend(reply::messages(Format::Chat, &outcomes));
        if let Some(list) = body["messages"].as_array_mut() {
            list.extend(messages);
        }
        match judgement.action {
            Action::Show => {
                assert_eq!(choice.finish.reason, Reason::Stop);
                let whole = files.get("c.txt").map(String::as_str).unwrap_or_default();
                assert_eq!(whole, "alpha and beta", "nothing cut was ever written");
                println!("  the model says: {}", choice.text);
                return Ok(round);
            }
            Action::RunTools | Action::RefusePartialCall => {}
            other => return Err(Error::new(Kind::InvalidInput, format!("this host can't {}", other.as_str()))),
        }

        // Compact: old results make room before the next round.
        let policy = Policy { high: Mark::Tokens(2000), low: Mark::Tokens(1500), keep_exchanges: 1, ..Policy::default() };
        // The newest exchange stays as it is; when that alone is over the mark, nothing can be done yet.
        if let Decision::Plan(decided) = plan(&request(&body)?, &counter, &options, &policy, &pages)? {
            let outcome = decided.apply(&request(&body)?, &pages)?;
            println!("  compacted {} to {} tokens", outcome.before, outcome.after);
            body = outcome.request.value().clone();
        }
    }
    Err(Error::new(Kind::LimitExceeded, "the task did not end within ten rounds"))
}

fn request(body: &Value) -> Result<Request> {
    Request::parse(body.to_string().as_bytes(), Format::Chat)
}

fn tool(name: &str, fields: &[&str]) -> Value {
    let properties: serde_json::Map<String, Value> = fields.iter().map(|field| ((*field).to_owned(), json!({"type": "string"}))).collect();
    let parameters = json!({"type": "object", "properties": properties, "required": fields, "additionalProperties": false});
    json!({"type": "function", "function": {"name": name, "description": name, "parameters": parameters}})
}

/// The host's tools: files in memory. Writing appends, so that a text can be written in blocks.
fn tools(files: &mut BTreeMap<String, String>, name: &str, arguments: &Value) -> std::result::Result<String, String> {
    let text = |key: &str| arguments[key].as_str().unwrap_or_default().to_owned();
    match name {
        "read_file" => files.get(&text("path")).cloned().ok_or_else(|| "no such file".to_owned()),
        "write_file" => {
            files.entry(text("path")).or_default().push_str(&text("text"));
            Ok("written".to_owned())
        }
        other => Err(format!("no tool `{other}`")),
    }
}

/// What the model server answers, in order: calls as (id, name, arguments), the text, and the finish reason.
type Answer = (Vec<(&'static str, &'static str, &'static str)>, &'static str, &'static str);

fn script(truncated: bool) -> Vec<Answer> {
    let mut answers: Vec<Answer> =
        vec![(vec![("r1", "read_file", r#"{"path":"a.txt"}"#), ("r2", "read_file", r#"{"path":"b.txt"}"#)], "", "tool_calls")];
    if truncated {
        // Cut in mid-string; and once where the JSON happens to be whole: both must be refused.
        answers.push((vec![("w0", "write_file", r#"{"path":"c.txt","text":"alpha and be"#)], "", "length"));
        answers.push((vec![("w1", "write_file", r#"{"path":"c.txt","text":"alpha"}"#)], "", "length"));
        answers.push((vec![("w2", "write_file", r#"{"path":"c.txt","text":"alpha "}"#)], "", "tool_calls"));
        answers.push((vec![("w3", "write_file", r#"{"path":"c.txt","text":"and beta"}"#)], "", "tool_calls"));
    } else {
        answers.push((vec![("w1", "write_file", r#"{"path":"c.txt","text":"alpha and beta"}"#)], "", "tool_calls"));
    }
    answers.push((Vec::new(), "The files are joined.", "stop"));
    answers
}

/// A model server that streams the scripted answers, one a connection.
fn serve(answers: Vec<Answer>) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(io)?;
    let address = listener.local_addr().map_err(io)?;
    std::thread::spawn(move || {
        for (answer, connection) in answers.into_iter().zip(listener.incoming()) {
            if let Err(error) = connection.and_then(|connection| answer_one(connection, &answer)) {
                println!("model server: {error}");
            }
        }
    });
    Ok(address)
}

fn answer_one(connection: TcpStream, (calls, text, finish): &Answer) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection);
    let (mut length, mut line) = (0, String::new());
    while reader.read_line(&mut line)? > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        line.clear();
    }
    std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink())?;
    let mut connection = reader.into_inner();
    connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")?;
    let mut send = |delta: Value, finish: Option<&str>| {
        let chunk = json!({"id": "x", "object": "chat.completion.chunk", "model": "gpt-4o-mini",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
        connection.write_all(format!("data: {chunk}\n\n").as_bytes())
    };
    send(json!({"role": "assistant", "content": if calls.is_empty() { json!(text) } else { Value::Null }}), None)?;
    for (index, (id, name, _)) in calls.iter().enumerate() {
        send(json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}]}), None)?;
    }
    // Arguments of parallel calls come in turns, a few bytes at a time.
    let longest = calls.iter().map(|call| call.2.len()).max().unwrap_or(0);
    for start in (0..longest).step_by(7) {
        for (index, (_, _, arguments)) in calls.iter().enumerate() {
            if let Some(rest) = arguments.get(start..) {
                let piece = rest.get(..7).unwrap_or(rest);
                send(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}), None)?;
            }
        }
    }
    send(json!({}), Some(finish))?;
    connection.write_all(b"data: {\"id\":\"x\",\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n")
}

/// Posts a body and hands on what comes back, as it comes.
fn post(server: SocketAddr, body: &Value, mut sink: impl FnMut(&[u8])) -> Result<()> {
    let mut connection = TcpStream::connect(server).map_err(io)?;
    let text = body.to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: {server}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        text.len()
    );
    connection.write_all(head.as_bytes()).and_then(|()| connection.write_all(text.as_bytes())).map_err(io)?;
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    while reader.read_line(&mut line).map_err(io)? > 2 {
        line.clear();
    }
    let mut piece = [0; 61];
    loop {
        match reader.read(&mut piece).map_err(io)? {
            0 => return Ok(()),
            read => sink(&piece[..read]),
        }
    }
}

fn io(error: std::io::Error) -> Error {
    Error::new(Kind::Unavailable, "the model server can't be reached").caused_by(error)
}

#[cfg(test)]
mod tests {
    #[test]
    fn three_rounds_end_in_stop() {
        assert_eq!(super::run(false).unwrap(), 3);
    }

    #[test]
    fn a_cut_write_is_refused_and_done_in_blocks() {
        assert_eq!(super::run(true).unwrap(), 6);
    }
}
