//! OpenAI's counts against recorded bills: a table by family, endpoint and kind, and the bars that each class must clear.
//!
//! Skips, and says so, where the recorded data is absent. `PLIMSOLL_RESIDUALS=1` lists every miss. Rows judged fake
//! are named, with the reason, in `data/openai-fakes.tsv`, and reported apart.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_precision_loss,
    reason = "a test that prints a table"
)]

mod common;

use plimsoll::{Confidence, CountOptions, Counter, Format, Provider, ReasoningMemory, Request};
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

const FAKES: &str = include_str!("../data/openai-fakes.tsv");

#[derive(Default)]
struct Class {
    n: usize,
    exact: usize,
    near: usize,
    outside: usize,
    errors: Vec<f64>,
    misses: Vec<String>,
}

impl Class {
    fn record(&mut self, id: &str, model: &str, predicted: u64, billed: u64, bound: u64) {
        let off = predicted.abs_diff(billed);
        self.n += 1;
        self.exact += usize::from(off == 0);
        self.near += usize::from(off <= 2 || off * 100 <= billed);
        self.outside += usize::from(off > bound);
        self.errors.push(off as f64 * 100.0 / billed.max(1) as f64);
        if off > 0 {
            let signed = i128::from(predicted) - i128::from(billed);
            self.misses.push(format!("{id} {model} {signed:+} of {billed} (bound {bound})"));
        }
    }

    fn p95(&mut self) -> f64 {
        self.errors.sort_by(f64::total_cmp);
        let at = (self.errors.len() * 95).div_ceil(100).saturating_sub(1);
        self.errors.get(at).copied().unwrap_or(0.0)
    }

    fn percent(part: usize, whole: usize) -> f64 {
        part as f64 * 100.0 / whole.max(1) as f64
    }
}

fn family(renderer: &str) -> Option<&'static str> {
    match renderer {
        "openai-classic" => Some("classic"),
        "harmony-o" | "harmony-o1" => Some("o-series"),
        name if name.starts_with("harmony") => Some("gpt-5"),
        "openai-o1-mini" => Some("o1-mini"),
        _ => None,
    }
}

fn walk(value: &Value, found: &mut HashSet<&'static str>) {
    match value {
        Value::Array(list) => list.iter().for_each(|v| walk(v, found)),
        Value::Object(map) => {
            match map.get("type").and_then(Value::as_str) {
                Some("image_url" | "input_image") => {
                    let inline = map.get("image_url").is_some_and(|url| url.to_string().contains("data:image"));
                    found.insert(if inline { "images" } else { "pictures of unknown size" });
                }
                Some("file" | "input_file" | "input_audio") => drop(found.insert("files")),
                Some("function_call" | "function_call_output") => drop(found.insert("history")),
                Some("reasoning") => drop(found.insert("replayed reasoning")),
                Some("additional_tools" | "tool_search_output" | "tool_search_call") => drop(found.insert("tool search")),
                _ => {}
            }
            if map.get("tool_calls").is_some_and(|v| !v.is_null()) || map.contains_key("tool_call_id") {
                found.insert("history");
            }
            map.values().for_each(|v| walk(v, found));
        }
        _ => {}
    }
}

fn kind(request: &Value) -> &'static str {
    let mut found = HashSet::new();
    for key in ["messages", "input"] {
        walk(request.get(key).unwrap_or(&Value::Null), &mut found);
    }
    for kind in ["files", "pictures of unknown size", "replayed reasoning", "images", "tool search"] {
        if found.contains(kind) {
            return kind;
        }
    }
    let tools = request.get("tools").and_then(Value::as_array).is_some_and(|t| !t.is_empty()) || request.get("functions").is_some();
    if request.pointer("/tools").is_some_and(|t| t.to_string().contains("tool_search")) {
        return "tool search";
    }
    let schema = request.pointer("/response_format/json_schema").is_some() || request.pointer("/text/format/schema").is_some();
    match (found.contains("history"), schema, tools) {
        (true, ..) => "tool history",
        (_, true, true) => "tools and schema",
        (_, true, false) => "json_schema",
        (_, _, true) => "tools",
        _ => "text",
    }
}

/// Recordings that sorted all JSON keys lost the order in which properties were sent; `required` keeps it.
fn unsort(schema: &mut Value) {
    match schema {
        Value::Array(list) => list.iter_mut().for_each(unsort),
        Value::Object(map) => {
            let required: Vec<String> = map
                .get("required")
                .and_then(Value::as_array)
                .map(|r| r.iter().filter_map(|v| v.as_str().map(str::to_owned)).collect())
                .unwrap_or_default();
            if let Some(Value::Object(properties)) = map.get_mut("properties") {
                let mut ordered = serde_json::Map::new();
                for name in &required {
                    if let Some(value) = properties.get(name) {
                        ordered.insert(name.clone(), value.clone());
                    }
                }
                for (name, value) in properties.iter() {
                    ordered.entry(name.clone()).or_insert_with(|| value.clone());
                }
                *properties = ordered;
            }
            map.values_mut().for_each(unsort);
        }
        _ => {}
    }
}

fn all_sorted(value: &Value) -> bool {
    match value {
        Value::Array(list) => list.iter().all(all_sorted),
        Value::Object(map) => map.keys().is_sorted() && map.values().all(all_sorted),
        _ => true,
    }
}

/// The final response object of a recording: the body, or the last event of a stream.
fn response(row: &Value) -> Option<Value> {
    match &row["response"] {
        Value::String(text) => {
            let line = text.lines().rev().find(|line| line.starts_with("data: ") && line.contains("response.completed"))?;
            serde_json::from_str::<Value>(&line[6..]).ok()?.get("response").cloned()
        }
        Value::Null => None,
        body => Some(body.clone()),
    }
}

/// What the responses of a log report for the reasoning in them, as a host would remember it.
fn remember(rows: &[Value]) -> ReasoningMemory {
    let mut memory = ReasoningMemory::default();
    for body in rows.iter().filter_map(response) {
        let encrypted: Vec<&str> = body["output"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|item| item["type"] == "reasoning")
            .filter_map(|item| item["encrypted_content"].as_str())
            .collect();
        let tokens = body.pointer("/usage/output_tokens_details/reasoning_tokens").and_then(Value::as_u64);
        if let ([only], Some(tokens)) = (encrypted.as_slice(), tokens) {
            memory.remember(only, tokens);
        }
    }
    memory
}

#[test]
fn counts_equal_the_bill() {
    let (Some(chat), Some(responses)) = (common::exchanges("chat"), common::exchanges("responses")) else { return };
    let fakes: HashSet<&str> = FAKES.lines().filter(|l| !l.starts_with('#')).filter_map(|l| l.split('\t').next()).collect();
    let counter = Counter::new();
    let memory = Arc::new(remember(&responses));
    let mut classes: BTreeMap<String, Class> = BTreeMap::new();
    let (mut fake, mut unbounded, mut considered, mut failed) = (0, 0, 0, Vec::new());
    for (format, rows) in [(Format::Chat, &chat), (Format::Responses, &responses)] {
        for row in rows {
            let text = |key: &str| row[key].as_str().unwrap_or_default();
            let (id, host) = (text("id"), text("host"));
            let usage = &row["usage"];
            let Some(billed) = usage["prompt_tokens"].as_u64().or_else(|| usage["input_tokens"].as_u64()) else { continue };
            let provider: Provider = host.parse().unwrap();
            let Some(model) = row["model"].as_str().or_else(|| row["response"]["model"].as_str()) else { continue };
            let Ok(profile) = counter.models().find(model, Some(&provider)) else { continue };
            let Some(family) = family(&profile.renderer) else { continue };
            let mut request = row["request"].clone();
            if let Some(tools) = request.get_mut("tools")
                && all_sorted(tools)
            {
                unsort(tools);
            }
            let own = host == "api.openai.com";
            considered += usize::from(own);
            if fakes.contains(id) {
                fake += usize::from(own);
                continue;
            }
            let body = serde_json::to_vec(&request).unwrap();
            let options =
                CountOptions { profile: Some(profile), provider: Some(provider), memory: Arc::clone(&memory), ..CountOptions::default() };
            let count = match Request::parse(&body, format).and_then(|request| counter.count(&request, &options)) {
                Ok(count) => count,
                Err(error) => {
                    failed.push(format!("{id} {error}"));
                    continue;
                }
            };
            let total = count.breakdown.total();
            if std::env::var("PLIMSOLL_RESIDUALS").is_ok_and(|v| v == "all") {
                let sure = count.breakdown.confidence().as_str();
                println!("row\t{id}\t{family}\t{format}\t{}\t{sure}\t{total}\t{billed}", kind(&row["request"]));
            }
            if count.breakdown.confidence() == Confidence::Unbounded {
                unbounded += usize::from(own);
                if std::env::var_os("PLIMSOLL_RESIDUALS").is_some() {
                    println!(
                        "unbounded {host} {id} {model} {} {:+} of {billed}",
                        kind(&row["request"]),
                        i128::from(total) - i128::from(billed)
                    );
                }
                continue;
            }
            let place = if own { "" } else { "other hosts, " };
            let class = format!("{place}{family}, {format}, {}", kind(&row["request"]));
            classes.entry(class).or_default().record(
                id,
                &format!("{host} {model}"),
                total,
                billed,
                count.breakdown.bound().unwrap_or(u64::MAX),
            );
        }
    }
    println!("{considered} on the maker's own host; {fake} judged fake; {unbounded} unbounded; {} failed", failed.len());
    println!("{:<46} {:>5} {:>8} {:>8} {:>8} {:>8}", "class", "n", "exact %", "near %", "p95 %", "outside %");
    for (name, class) in &mut classes {
        let p95 = class.p95();
        println!(
            "{name:<46} {:>5} {:>8.1} {:>8.1} {p95:>8.2} {:>8.1}",
            class.n,
            Class::percent(class.exact, class.n),
            Class::percent(class.near, class.n),
            Class::percent(class.outside, class.n)
        );
        if std::env::var_os("PLIMSOLL_RESIDUALS").is_some() {
            class.misses.iter().for_each(|miss| println!("    {miss}"));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(fake * 100 <= considered * 3, "more than 3% judged fake");
    check_bars(&classes);
}

/// Families, endpoint and kinds; least exact %, least near %, most p95 %.
type Bar = (&'static [&'static str], &'static str, &'static [&'static str], f64, f64, f64);

/// The bars of each class on the maker's own host.
const BARS: &[Bar] = &[
    (&["classic", "o-series", "gpt-5"], "chat", &["text"], 99.5, 100.0, 0.0),
    (&["classic"], "chat", &["tools", "tool history", "json_schema", "tools and schema"], 99.0, 99.5, 0.0),
    (&["o-series", "gpt-5"], "chat", &["tools", "tool history", "json_schema", "tools and schema"], 95.0, 99.0, 0.5),
    (
        &["classic", "o-series", "gpt-5"],
        "responses",
        &["text", "tools", "tool history", "json_schema", "tools and schema"],
        97.0,
        99.0,
        0.5,
    ),
    (&["classic", "o-series", "gpt-5"], "chat", &["images"], 90.0, 97.0, 1.0),
];

fn check_bars(classes: &BTreeMap<String, Class>) {
    let (mut bounded, mut outside) = (0, 0);
    for class in classes.values() {
        bounded += class.n;
        outside += class.outside;
    }
    println!("{bounded} bounded, {outside} outside their bound");
    for (families, format, kinds, exact, near, p95) in BARS {
        let mut all = Class::default();
        for name in families.iter().flat_map(|family| kinds.iter().map(move |kind| format!("{family}, {format}, {kind}"))) {
            if let Some(class) = classes.get(&name) {
                all.n += class.n;
                all.exact += class.exact;
                all.near += class.near;
                all.errors.extend(&class.errors);
            }
        }
        let worst = all.p95();
        let (is_exact, is_near) = (Class::percent(all.exact, all.n), Class::percent(all.near, all.n));
        println!("{families:?} {format} {kinds:?}: n {} exact {is_exact:.1} near {is_near:.1} p95 {worst:.2}", all.n);
        assert!(all.n > 0 && is_exact >= *exact && is_near >= *near && worst <= *p95, "below the bar: {exact} / {near} / {p95}");
    }
    assert!(outside * 100 <= bounded, "stated bounds hold in fewer than 99% of the cases");
}
