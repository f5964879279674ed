//! Histories made to be slow: what reading, checking, mending and compacting each costs, at a size and at four times it.
//!
//! `cargo bench --no-default-features --bench hostile` prints milliseconds for the larger one and how many times the smaller one's they
//! are: four is linear, sixteen quadratic. Names on the command line pick some of the histories; `--test` runs small ones once.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, clippy::cast_precision_loss, reason = "a bench")]

use plimsoll::{CountOptions, Counter, Format, Pages, Policy, Request, check, plan, repair};
use std::fmt::Write as _;
use std::time::Instant;

/// JSON texts of a list, joined.
fn list(n: usize, item: impl Fn(usize) -> String) -> String {
    let mut out = String::new();
    for at in 0..n {
        let _ = write!(out, "{}{}", if at > 0 { "," } else { "" }, item(at));
    }
    out
}

fn chat(messages: &str) -> String {
    format!(
        "{{\"messages\":[{{\"role\":\"user\",\"content\":\"start\"}},{messages},{{\"role\":\"assistant\",\"content\":\"a\"}},\
         {{\"role\":\"user\",\"content\":\"b\"}},{{\"role\":\"assistant\",\"content\":\"c\"}},{{\"role\":\"user\",\"content\":\"go on\"}}]}}"
    )
}

fn contents(key: &str, parts: &str, model: &str, n: [String; 2]) -> String {
    let [calls, results] = n;
    let text = |role: &str, text: &str| match key {
        "contents" => format!("{{\"role\":\"{role}\",\"{parts}\":[{{\"text\":\"{text}\"}}]}}"),
        _ if model == "assistant" && parts == "content" => format!("{{\"role\":\"{role}\",\"{parts}\":\"{text}\"}}"),
        _ => format!("{{\"role\":\"{role}\",\"content\":[{{\"text\":\"{text}\"}}]}}"),
    };
    format!(
        "{{\"{key}\":[{},{{\"role\":\"{model}\",\"{parts}\":[{calls}]}},{{\"role\":\"user\",\"{parts}\":[{results}]}},{},{},{},{}]}}",
        text("user", "start"),
        text(model, "a"),
        text("user", "b"),
        text(model, "c"),
        text("user", "go on"),
    )
}

fn call(id: usize) -> String {
    format!("{{\"id\":\"c{id}\",\"type\":\"function\",\"function\":{{\"name\":\"f\",\"arguments\":\"{{}}\"}}}}")
}

fn result(id: usize) -> String {
    format!("{{\"role\":\"tool\",\"tool_call_id\":\"c{id}\",\"content\":\"result {id}\"}}")
}

fn assistant(calls: &str) -> String {
    format!("{{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{calls}]}}")
}

/// Name, format, model, body of a size.
type History = (&'static str, Format, &'static str, fn(usize) -> String);

const HISTORIES: [History; 21] = [
    ("parallel", Format::Chat, "gpt-4o", |n| chat(&format!("{},{}", assistant(&list(n, call)), list(n, result)))),
    ("backwards", Format::Chat, "gpt-4o", |n| chat(&format!("{},{}", assistant(&list(n, call)), list(n, |at| result(n - 1 - at))))),
    ("misplaced", Format::Chat, "gpt-4o", |n| {
        chat(&format!("{},{{\"role\":\"user\",\"content\":\"x\"}},{}", assistant(&list(n, call)), list(n, result)))
    }),
    ("exchanges", Format::Chat, "gpt-4o", |n| chat(&list(n / 2, |at| format!("{},{}", assistant(&call(at)), result(at))))),
    ("one id", Format::Chat, "gpt-4o", |n| chat(&format!("{},{}", assistant(&list(n, |_| call(0))), list(n, |_| result(0))))),
    ("no ids", Format::Chat, "gpt-4o", |n| {
        chat(&format!("{},{}", assistant(&list(n, |at| call(at).replacen(&format!("\"id\":\"c{at}\","), "", 1))), list(n, result)))
    }),
    ("nameless", Format::Chat, "gpt-4o", |n| {
        let nameless = |text: String, at: usize| text.replacen(&format!("\"c{at}\""), "\"\"", 1);
        chat(&format!("{},{}", assistant(&list(n, |at| nameless(call(at), at))), list(n, |at| nameless(result(at), at))))
    }),
    ("orphan calls", Format::Chat, "gpt-4o", |n| chat(&assistant(&list(n, call)))),
    ("orphan results", Format::Chat, "gpt-4o", |n| chat(&list(n, result))),
    ("twice", Format::Chat, "gpt-4o", |n| chat(&format!("{},{}", assistant(&list(n, |at| call(at / 2))), list(n, |at| result(at / 2))))),
    ("chatter", Format::Chat, "gpt-4o", |n| {
        chat(&list(n, |at| format!("{{\"role\":\"{}\",\"content\":\"word {at}\"}}", ["user", "assistant"][at % 2])))
    }),
    ("texts", Format::Chat, "gpt-4o", |n| {
        chat(&format!("{{\"role\":\"user\",\"content\":[{}]}}", list(n, |at| format!("{{\"type\":\"text\",\"text\":\"t{at}\"}}"))))
    }),
    ("long line", Format::Chat, "gpt-4o", |n| {
        chat(&format!("{},{}", assistant(&call(0)), result(0).replace("result", &"x\\\"\\\\".repeat(n * 9))))
    }),
    ("deep", Format::Chat, "gpt-4o", |n| {
        let deep = format!("{}1{}", "{\\\"a\\\":[".repeat(45), "]}".repeat(45));
        chat(&list(n / 40, |at| {
            format!("{},{}", assistant(&call(at).replace("\"{}\"", &format!("\"{deep}\""))), result(at).replace("result", &deep))
        }))
    }),
    ("one message", Format::Anthropic, "claude-sonnet-4-5", |n| {
        let calls = list(n, |at| format!("{{\"type\":\"tool_use\",\"id\":\"c{at}\",\"name\":\"f\",\"input\":{{}}}}"));
        let results = list(n, |at| format!("{{\"type\":\"tool_result\",\"tool_use_id\":\"c{at}\",\"content\":\"r{at}\"}}"));
        contents("messages", "content", "assistant", [calls, results])
    }),
    ("empty texts", Format::Anthropic, "claude-sonnet-4-5", |n| {
        let empty = list(n, |_| "{\"type\":\"text\",\"text\":\"\"}".to_owned());
        contents("messages", "content", "assistant", [empty.clone(), format!("{{\"type\":\"text\",\"text\":\"x\"}},{empty}")])
    }),
    ("orphan blocks", Format::Anthropic, "claude-sonnet-4-5", |n| {
        let results = list(n, |at| format!("{{\"type\":\"tool_result\",\"tool_use_id\":\"c{at}\",\"content\":\"r{at}\"}}"));
        contents("messages", "content", "assistant", ["{\"type\":\"text\",\"text\":\"x\"}".to_owned(), results])
    }),
    ("one turn", Format::Gemini, "gemini-2.5-flash", |n| {
        let calls = list(n, |at| format!("{{\"functionCall\":{{\"name\":\"f{}\",\"args\":{{}}}}}}", at % 7));
        let results = list(n, |at| format!("{{\"functionResponse\":{{\"name\":\"f{}\",\"response\":{{\"r\":{at}}}}}}}", at % 7));
        contents("contents", "parts", "model", [calls, results])
    }),
    ("one side", Format::Converse, "anthropic.claude-sonnet-4-5-20250929-v1:0", |n| {
        format!("{{\"messages\":[{}]}}", list(n, |at| format!("{{\"role\":\"user\",\"content\":[{{\"text\":\"t{at}\"}}]}}")))
    }),
    ("reasoning", Format::Responses, "gpt-5", |n| {
        let items = list(n, |at| format!("{{\"type\":\"reasoning\",\"id\":\"r{at}\",\"summary\":[],\"encrypted_content\":\"QUJD\"}}"));
        format!("{{\"input\":[{{\"role\":\"user\",\"content\":\"start\"}},{items},{{\"role\":\"user\",\"content\":\"go on\"}}]}}")
    }),
    ("items", Format::Responses, "gpt-5", |n| {
        let calls = list(n / 2, |at| {
            format!("{{\"type\":\"function_call\",\"id\":\"f{at}\",\"call_id\":\"c{at}\",\"name\":\"f\",\"arguments\":\"{{}}\"}}")
        });
        let results = list(n / 2, |at| format!("{{\"type\":\"function_call_output\",\"call_id\":\"c{at}\",\"output\":\"r{at}\"}}"));
        format!("{{\"input\":[{{\"role\":\"user\",\"content\":\"start\"}},{calls},{results},{{\"role\":\"user\",\"content\":\"go on\"}}]}}")
    }),
];

/// Milliseconds of each step.
fn measure(format: Format, model: &str, body: &str, counter: &Counter) -> [f64; 5] {
    let timed = |work: &mut dyn FnMut()| {
        let clock = Instant::now();
        work();
        clock.elapsed().as_secs_f64() * 1e3
    };
    let mut request = None;
    let read = timed(&mut || request = Some(Request::parse(body.as_bytes(), format).unwrap()));
    let request = request.unwrap();
    let checked = timed(&mut || drop(check(&request, Some(model))));
    let mut mended = None;
    let mending = timed(&mut || mended = Some(repair(&request, Some(model)).unwrap()));
    let mended = mended.unwrap().request;
    let options = CountOptions { model: Some(model.to_owned()), ..CountOptions::default() };
    let mut before = 0;
    let count = timed(&mut || before = counter.count(&mended, &options).map_or(0, |count| count.total()));
    let compact = timed(&mut || {
        let policy = Policy::default().with_target(before / 2);
        // What is invalid or can't shrink is refused: that has to be quick too.
        let pages = Pages::in_memory();
        if let Ok(Ok(Some(plan))) = plan(&mended, counter, &options, &policy, &pages).map(plimsoll::Decision::into_plan) {
            let _ = plan.apply(&mended, &pages).unwrap();
        }
    });
    [read, checked, mending, count, compact]
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let test = arguments.iter().any(|argument| argument == "--test");
    let size = if test { 40 } else { 20_000 };
    let counter = Counter::new();
    let named = |name: &str| arguments.iter().any(|argument| argument == name);
    let any = HISTORIES.iter().any(|(name, ..)| named(name));
    println!("history        | format    |    bytes |    read ms  × |   check ms  × |  repair ms  × |   count ms  × | compact ms  ×");
    for (name, format, model, make) in HISTORIES.into_iter().filter(|(name, ..)| !any || named(name)) {
        let (small, large) = (make(size), make(4 * size));
        let before = measure(format, model, &small, &counter);
        let after = measure(format, model, &large, &counter);
        let mut line = format!("{name:<14} | {format:<9} | {:>8}", large.len());
        for (small, large) in before.into_iter().zip(after) {
            let _ = write!(line, " | {large:>8.1} {:>4.1}", large / small.max(0.01));
        }
        println!("{line}");
    }
}
