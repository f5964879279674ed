//! Made-up histories, neutral first and then in every format's JSON: for tests of check and compaction.
//!
//! Deterministic by seed; also reads recorded chat histories into the same neutral shape, so that one conversation can be tried
//! in every format.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::pedantic,
    clippy::unwrap_used,
    reason = "test data, each user takes its own part"
)]

use serde_json::{Value, json};

pub const FORMATS: [&str; 5] = ["chat", "responses", "anthropic", "gemini", "converse"];

#[derive(Clone, Debug)]
pub struct Call {
    pub name: String,
    pub args: Value,
    pub result: String,
    pub failed: bool,
}

#[derive(Clone, Debug)]
pub enum Turn {
    User(String),
    Assistant { text: Option<String>, thinking: bool, calls: Vec<Call> },
}

#[derive(Clone, Debug, Default)]
pub struct Scenario {
    pub system: Option<String>,
    pub turns: Vec<Turn>,
}

/// xorshift: the same on every machine.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

const WORDS: [&str; 24] = [
    "the",
    "ship",
    "cargo",
    "line",
    "water",
    "harbour",
    "count",
    "error",
    "value",
    "naïve",
    "数字",
    "route",
    "файл",
    "ticket",
    "AB-1234",
    "src/main.rs",
    "found",
    "need",
    "because",
    "plan",
    "https://example.org/a",
    "😀",
    "and",
    "table",
];

pub fn words(random: &mut Random, n: u64) -> String {
    let mut out = String::new();
    for i in 0..n {
        if i > 0 {
            out.push(' ');
        }
        out.push_str(WORDS[random.below(WORDS.len() as u64) as usize]);
        if random.chance(8) {
            out.push('.');
        }
    }
    out
}

/// A tool result of some kind and size.
pub fn result(random: &mut Random, scale: u64) -> String {
    let n = 1 + random.below(scale);
    match random.below(7) {
        0 => {
            let rows: Vec<Value> = (0..n).map(|i| json!({"id": i, "name": words(random, 2), "big": 1.5, "tags": ["a", "b"]})).collect();
            json!({"rows": rows, "status": "ok"}).to_string()
        }
        1 => (0..n).map(|i| format!("{i},{},{}\n", random.below(1000), random.below(9))).collect(),
        2 => (0..n).map(|i| format!("fn f{i}(x: u32) -> u32 {{\n    let y = x + {i};\n    y\n}}\n\n")).collect(),
        3 => (0..n).map(|i| format!("12:00:{i:02} {} {}\n", if i % 17 == 5 { "ERROR" } else { "INFO" }, words(random, 5))).collect(),
        4 => "QUJDRA0x".repeat(n as usize * 4),
        5 => words(random, n * 4),
        _ => String::from("ok"),
    }
}

pub fn generate(seed: u64, turns: u64, scale: u64) -> Scenario {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    for _ in 0..4 {
        random.next();
    }
    let mut scenario = Scenario { system: random.chance(70).then(|| words(&mut random, 30)), turns: Vec::new() };
    scenario.turns.push(Turn::User(words(&mut random, 20)));
    for _ in 0..turns {
        let calls = (0..if random.chance(75) { 1 + random.below(3) } else { 0 })
            .map(|_| Call {
                name: ["read", "bash", "search"][random.below(3) as usize].to_owned(),
                args: json!({"path": format!("src/f{}.rs", random.below(5))}),
                result: result(&mut random, scale),
                failed: random.chance(10),
            })
            .collect::<Vec<_>>();
        let text = (calls.is_empty() || random.chance(50)).then(|| words(&mut random, 12));
        let more = !calls.is_empty();
        scenario.turns.push(Turn::Assistant { text, thinking: random.chance(20), calls });
        if !more {
            scenario.turns.push(Turn::User(words(&mut random, 15)));
        }
    }
    scenario
}

/// A recorded chat body as a scenario; `None` when it holds what scenarios don't.
pub fn from_chat(body: &Value) -> Option<Scenario> {
    let mut scenario = Scenario::default();
    let mut open: Vec<(String, usize, usize)> = Vec::new();
    for message in body["messages"].as_array()? {
        let text = || message["content"].as_str().map(str::to_owned);
        match message["role"].as_str()? {
            "system" | "developer" => scenario.system = text(),
            "user" => {
                if let Some(Turn::User(last)) = scenario.turns.last_mut() {
                    last.push('\n');
                    last.push_str(&text()?);
                } else {
                    scenario.turns.push(Turn::User(text()?));
                }
            }
            "assistant" => {
                let mut calls = Vec::new();
                for call in message["tool_calls"].as_array().into_iter().flatten() {
                    open.push((call["id"].as_str()?.to_owned(), scenario.turns.len(), calls.len()));
                    calls.push(Call {
                        name: call["function"]["name"].as_str()?.to_owned(),
                        args: serde_json::from_str(call["function"]["arguments"].as_str()?).unwrap_or_else(|_| json!({})),
                        result: String::new(),
                        failed: false,
                    });
                }
                let text = text().filter(|t| !t.trim().is_empty());
                let text = if calls.is_empty() { Some(text.unwrap_or_else(|| "…".into())) } else { text };
                if matches!(scenario.turns.last(), Some(Turn::Assistant { calls, .. }) if calls.is_empty()) {
                    return None;
                }
                scenario.turns.push(Turn::Assistant { text, thinking: false, calls });
            }
            "tool" => {
                let id = message["tool_call_id"].as_str()?;
                let at = open.iter().rposition(|(open, ..)| open == id)?;
                let (_, turn, call) = open.remove(at);
                if let Turn::Assistant { calls, .. } = &mut scenario.turns[turn] {
                    calls[call].result = text().filter(|t| !t.trim().is_empty()).unwrap_or_else(|| "(empty)".into());
                }
            }
            _ => return None,
        }
    }
    open.is_empty().then_some(scenario)
}

impl Scenario {
    /// The request body in a format.
    pub fn body(&self, format: &str) -> Value {
        let mut list: Vec<Value> = Vec::new();
        let mut n = 0;
        let mut id = || {
            n += 1;
            format!("call_{n:05}")
        };
        if let Some(system) = &self.system
            && format == "chat"
        {
            list.push(json!({"role": "system", "content": system}));
        }
        for turn in &self.turns {
            match (turn, format) {
                (Turn::User(text), "chat") => list.push(json!({"role": "user", "content": text})),
                (Turn::User(text), "responses") => {
                    list.push(json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}))
                }
                (Turn::User(text), "anthropic") => list.push(json!({"role": "user", "content": text})),
                (Turn::User(text), "gemini") => list.push(json!({"role": "user", "parts": [{"text": text}]})),
                (Turn::User(text), _) => list.push(json!({"role": "user", "content": [{"text": text}]})),
                (Turn::Assistant { text, thinking, calls }, _) => {
                    self.assistant(format, text.as_deref(), *thinking, calls, &mut list, &mut id)
                }
            }
        }
        match format {
            "chat" => json!({"model": "gpt-4o", "messages": list, "x_unknown": {"kept": [1.0, 1e30]}}),
            "responses" => json!({"model": "gpt-4o", "instructions": self.system, "input": list}),
            "anthropic" => {
                let mut body = json!({"model": "claude-sonnet-4-5", "max_tokens": 1000, "messages": list});
                if let Some(system) = &self.system {
                    body["system"] = json!(system);
                }
                body
            }
            "gemini" => {
                let mut body = json!({"contents": list});
                if let Some(system) = &self.system {
                    body["systemInstruction"] = json!({"parts": [{"text": system}]});
                }
                body
            }
            _ => {
                let tool = |name: &str| json!({"toolSpec": {"name": name, "inputSchema": {"json": {"type": "object"}}}});
                let mut body = json!({"messages": list, "toolConfig": {"tools": [tool("read"), tool("bash"), tool("search")]}});
                if let Some(system) = &self.system {
                    body["system"] = json!([{"text": system}]);
                }
                body
            }
        }
    }

    fn assistant(
        &self,
        format: &str,
        text: Option<&str>,
        thinking: bool,
        calls: &[Call],
        list: &mut Vec<Value>,
        id: &mut dyn FnMut() -> String,
    ) {
        let ids: Vec<String> = calls.iter().map(|_| id()).collect();
        match format {
            "chat" => {
                let mut message = json!({"role": "assistant", "content": text});
                if !calls.is_empty() {
                    message["tool_calls"] = calls
                        .iter()
                        .zip(&ids)
                        .map(|(c, id)| json!({"id": id, "type": "function", "function": {"name": c.name, "arguments": c.args.to_string()}}))
                        .collect();
                }
                list.push(message);
                for (c, id) in calls.iter().zip(&ids) {
                    list.push(json!({"role": "tool", "tool_call_id": id, "content": c.result}));
                }
            }
            "responses" => {
                if thinking {
                    list.push(json!({"type": "reasoning", "id": format!("rs_{}", ids.first().map_or("x", String::as_str)), "summary": [], "encrypted_content": "Z0FBQUFB"}));
                }
                if let Some(text) = text {
                    list.push(json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text, "annotations": []}]}));
                }
                for (c, id) in calls.iter().zip(&ids) {
                    list.push(json!({"type": "function_call", "call_id": id, "name": c.name, "arguments": c.args.to_string()}));
                }
                for (c, id) in calls.iter().zip(&ids) {
                    list.push(json!({"type": "function_call_output", "call_id": id, "output": c.result}));
                }
            }
            "anthropic" => {
                let mut blocks = Vec::new();
                if thinking {
                    blocks.push(json!({"type": "thinking", "thinking": "hm", "signature": "c2ln"}));
                }
                blocks.extend(text.map(|t| json!({"type": "text", "text": t})));
                blocks.extend(calls.iter().zip(&ids).map(|(c, id)| json!({"type": "tool_use", "id": id, "name": c.name, "input": c.args})));
                list.push(json!({"role": "assistant", "content": blocks}));
                if !calls.is_empty() {
                    let results: Vec<Value> = calls
                        .iter()
                        .zip(&ids)
                        .map(|(c, id)| {
                            let mut block = json!({"type": "tool_result", "tool_use_id": id, "content": c.result});
                            if c.failed {
                                block["is_error"] = json!(true);
                            }
                            block
                        })
                        .collect();
                    list.push(json!({"role": "user", "content": results}));
                }
            }
            "gemini" => {
                let mut parts: Vec<Value> = text.map(|t| json!({"text": t})).into_iter().collect();
                parts.extend(calls.iter().enumerate().map(|(i, c)| {
                    let mut part = json!({"functionCall": {"name": c.name, "args": c.args}});
                    if i == 0 && thinking {
                        part["thoughtSignature"] = json!("c2lnbmF0dXJl");
                    }
                    part
                }));
                list.push(json!({"role": "model", "parts": parts}));
                if !calls.is_empty() {
                    let results: Vec<Value> = calls
                        .iter()
                        .map(|c| {
                            let response = serde_json::from_str::<Value>(&c.result).ok().filter(Value::is_object);
                            json!({"functionResponse": {"name": c.name, "response": response.unwrap_or_else(|| json!({"output": c.result}))}})
                        })
                        .collect();
                    list.push(json!({"role": "user", "parts": results}));
                }
            }
            _ => {
                let mut blocks: Vec<Value> = text.map(|t| json!({"text": t})).into_iter().collect();
                blocks.extend(calls.iter().zip(&ids).map(|(c, id)| json!({"toolUse": {"toolUseId": id, "name": c.name, "input": c.args}})));
                list.push(json!({"role": "assistant", "content": blocks}));
                if !calls.is_empty() {
                    let results: Vec<Value> = calls
                        .iter()
                        .zip(&ids)
                        .map(|(c, id)| {
                            let json = serde_json::from_str::<Value>(&c.result).ok().filter(Value::is_object);
                            let content = json.map_or_else(|| json!({"text": c.result}), |j| json!({"json": j}));
                            json!({"toolResult": {"toolUseId": id, "content": [content], "status": if c.failed { "error" } else { "success" }}})
                        })
                        .collect();
                    list.push(json!({"role": "user", "content": results}));
                }
            }
        }
    }
}
