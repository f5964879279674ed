//! Published chat templates, rendered by us and by Python's Jinja with transformers' settings: byte for byte the same.
//!
//! Needs the templates that `scripts/fetch-vocabularies` lays out, and `python3` with `jinja2`; skips, saying so, without.
//! Where Python refuses a conversation (templates raise exceptions for shapes that they don't take), so must we.
#![cfg(feature = "templates")]
#![allow(clippy::print_stdout, reason = "says why it skips, and how many templates agreed")]

use plimsoll::ChatTemplate;
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// transformers' environment, fed with `{"sources": [...], "contexts": [...]}`; answers a list of lists of `[text]` or null.
const PYTHON: &str = r#"
import json, sys
import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

class Generation(Extension):
    tags = {"generation"}
    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(lineno)
    def _body(self, caller):
        return caller()

def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)

def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

def strftime_now(format):
    import datetime
    return datetime.datetime(2026, 11, 30).strftime(format)

env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
env.filters["tojson"] = tojson
env.filters["from_json"] = json.loads
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = strftime_now
given = json.load(sys.stdin)
answers = []
for source in given["sources"]:
    row = []
    for context in given["contexts"]:
        try:
            row.append([env.from_string(source).render(**context)])
        except Exception as e:
            row.append(None)
    answers.append(row)
json.dump(answers, sys.stdout)
"#;

fn contexts() -> Vec<(&'static str, Value)> {
    let tools = json!([
        {"type": "function", "function": {"name": "get_weather", "description": "Wetter für eine Stadt – 天気", "parameters": {"type": "object",
            "properties": {"city": {"type": "string", "description": "The city, e.g. \"Köln\""}, "days": {"type": "integer", "default": 3},
            "unit": {"type": "string", "enum": ["c", "f"]}}, "required": ["city"]}}},
        {"type": "function", "function": {"name": "list_files", "description": "Lists files", "parameters": {"type": "object", "properties": {
            "paths": {"type": "array", "items": {"type": "string"}}}}}}
    ]);
    let base = |messages: Value| json!({"messages": messages, "add_generation_prompt": true, "bos_token": "<BOS>", "eos_token": "<EOS>", "unk_token": "<UNK>", "pad_token": "<PAD>"});
    let with_tools = |messages: Value| {
        let mut context = base(messages);
        context["tools"] = tools.clone();
        context
    };
    let call = json!([
        {"role": "system", "content": "Be brief. Sei kurz."},
        {"role": "user", "content": "Weather in Köln? 😀"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "call00001", "type": "function", "function": {"name": "get_weather",
            "arguments": {"city": "Köln", "days": 2, "nested": {"a": [1, 2.5, null, true]}}}}]},
        {"role": "tool", "tool_call_id": "call00001", "name": "get_weather", "content": "{\"temp\": 7.5, \"note\": \"regnerisch ☔\"}"},
    ]);
    let mut after = call.clone();
    if let Some(list) = after.as_array_mut() {
        list.push(json!({"role": "assistant", "content": "7.5 °C, rain."}));
        list.push(json!({"role": "user", "content": "  and tomorrow?\n"}));
    }
    let mut thinking = base(
        json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nhello"}, {"role": "user", "content": "again"}]),
    );
    thinking["enable_thinking"] = json!(false);
    vec![
        ("one turn", base(json!([{"role": "user", "content": "Hello, wörld! 你好"}]))),
        (
            "system and turns",
            base(json!([
                {"role": "system", "content": "You are terse."},
                {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c <b>&\"'"},
            ])),
        ),
        ("tools", with_tools(json!([{"role": "user", "content": "Weather in Köln?"}]))),
        ("calls", with_tools(call)),
        ("after calls", with_tools(after)),
        ("thinking off", thinking),
    ]
}

#[test]
fn published_templates_render_as_in_python() {
    let root = std::env::var_os("PLIMSOLL_TEST_VOCABULARIES")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/target/vocabularies")), PathBuf::from)
        .join("templates");
    let Ok(entries) = std::fs::read_dir(&root) else {
        println!("skipped: no templates; run scripts/fetch-vocabularies");
        return;
    };
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "jinja")).collect();
    paths.sort();
    let sources: Vec<String> = paths.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let contexts = contexts();
    let given = json!({"sources": sources, "contexts": contexts.iter().map(|(_, context)| context).collect::<Vec<_>>()}).to_string();
    let spawned = Command::new("python3").args(["-c", PYTHON]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = spawned else {
        println!("skipped: no python3");
        return;
    };
    // Without jinja2 the script ends at once, and the pipe may break.
    let written = child.stdin.take().unwrap().write_all(given.as_bytes());
    let output = child.wait_with_output().unwrap();
    if written.is_err() || !output.status.success() {
        println!("skipped: python3 has no jinja2");
        return;
    }
    let answers: Vec<Vec<Option<(String,)>>> = serde_json::from_slice(&output.stdout).unwrap();
    let (mut agreed, mut wrong) = (0, Vec::new());
    for ((path, source), row) in paths.iter().zip(&sources).zip(answers) {
        let name = path.file_name().unwrap().to_string_lossy();
        let template = ChatTemplate::compile(source, (2026, 11, 30));
        let mut fine = true;
        for ((what, context), expected) in contexts.iter().zip(row) {
            let ours =
                template.as_ref().map_err(ToString::to_string).and_then(|template| template.render(context).map_err(|e| e.to_string()));
            let agrees = match (&ours, &expected) {
                (Ok(ours), Some((expected,))) => ours == expected,
                (Err(_), None) => true,
                _ => false,
            };
            if !agrees {
                fine = false;
                let place = match (&ours, &expected) {
                    (Ok(ours), Some((expected,))) => {
                        let at = ours.bytes().zip(expected.bytes()).take_while(|(a, b)| a == b).count();
                        let show = |text: &str| {
                            text.as_bytes()
                                .get(at.saturating_sub(30)..(at + 40).min(text.len()))
                                .map(|b| String::from_utf8_lossy(b).into_owned())
                        };
                        format!("byte {at}: {:?} instead of {:?}", show(ours), show(expected))
                    }
                    (Err(e), _) => format!("we fail: {e}"),
                    (Ok(_), None) => "Python refuses".to_owned(),
                };
                wrong.push(format!("{name}, {what}: {place}"));
            }
        }
        agreed += usize::from(fine);
    }
    println!("{agreed} of {} templates agree on {} conversations each", paths.len(), contexts.len());
    for line in &wrong {
        println!("    {line}");
    }
    assert!(agreed >= 60, "only {agreed} of {} templates agree:\n{}", paths.len(), wrong.join("\n"));
}
