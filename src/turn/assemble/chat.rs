//! Chat Completions chunks to a whole chat response.
//!
//! Used by [`super::Assembler`]. Knows the dialects seen on real hosts: ids that come late or twice, names in pieces
//! or repeated, calls without an index, several calls under one index, content as parts, usage inside `x_groq`.

use super::super::fault::{Fault, FaultKind};
use super::super::peek::{as_text, filled, index, list, some, text, text_slot};
use super::super::tally::Lane;
use super::{Intake, room, slot};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// A chat stream so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chat {
    head: Map<String, Value>,
    choices: Vec<Choice>,
    usage: Option<Value>,
    pub(super) done: bool,
}

#[derive(Clone, Debug, Default)]
struct Choice {
    seen: bool,
    message: Map<String, Value>,
    content: Option<String>,
    parts: Vec<Value>,
    calls: Vec<Call>,
    legacy: Option<Call>,
    finish: Option<String>,
}

#[derive(Clone, Debug, Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    kind: Option<String>,
    extra: Map<String, Value>,
}

#[derive(Deserialize)]
struct QuickChunk<'a> {
    #[serde(borrow)]
    choices: [QuickChoice<'a>; 1],
    #[serde(default)]
    usage: Option<IgnoredAny>,
    #[serde(default)]
    error: Option<IgnoredAny>,
    #[serde(default)]
    x_groq: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct QuickChoice<'a> {
    #[serde(default)]
    index: u64,
    #[serde(borrow)]
    delta: QuickDelta<'a>,
    #[serde(default)]
    finish_reason: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuickDelta<'a> {
    #[serde(borrow)]
    content: QuickText<'a>,
    #[serde(default)]
    #[expect(dead_code, reason = "named so that it isn't unknown")]
    role: IgnoredAny,
    #[serde(default)]
    refusal: Option<IgnoredAny>,
    #[serde(default)]
    tool_calls: Option<IgnoredAny>,
    #[serde(default)]
    function_call: Option<IgnoredAny>,
    #[serde(default)]
    reasoning: Option<IgnoredAny>,
    #[serde(default)]
    reasoning_content: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(transparent)]
struct QuickText<'a>(#[serde(borrow)] Cow<'a, str>);

impl Chat {
    /// A chunk that adds text to a choice already begun, and nothing else.
    pub(super) fn quick(&mut self, data: &str, intake: &mut Intake<'_>) -> Result<bool, Fault> {
        if self.done || self.choices.is_empty() {
            return Ok(false);
        }
        let Ok(QuickChunk { choices: [choice], usage: None, error: None, x_groq: None }) = serde_json::from_str::<QuickChunk<'_>>(data)
        else {
            return Ok(false);
        };
        let QuickChoice { index, delta, finish_reason: None } = choice else { return Ok(false) };
        let QuickDelta { content, refusal: None, tool_calls: None, function_call: None, reasoning: None, reasoning_content: None, .. } =
            delta
        else {
            return Ok(false);
        };
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        match self.choices.get_mut(at) {
            Some(choice) if choice.seen && choice.finish.is_none() && choice.parts.is_empty() => {
                intake.text(index, Lane::Text, &content.0)?;
                choice.content.get_or_insert_default().push_str(&content.0);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    pub(super) fn event(&mut self, event: &Value, intake: &mut Intake<'_>) -> Result<(), Fault> {
        if self.done {
            return Err(Fault::new(FaultKind::AfterEnd, "an event after `[DONE]`"));
        }
        if let Some(error) = some(event, "error") {
            intake.provider(error);
        }
        for key in ["id", "object", "created", "model", "provider", "service_tier", "system_fingerprint"] {
            if let Some(value) = some(event, key)
                && (!self.head.contains_key(key) || filled(event, key).is_some() && self.head.get(key).and_then(Value::as_str) == Some(""))
            {
                self.head.insert(key.to_owned(), value.clone());
            }
        }
        if let Some(usage) = some(event, "usage").or_else(|| event.pointer("/x_groq/usage").filter(|usage| !usage.is_null())) {
            self.usage = Some(usage.clone());
        }
        for (position, piece) in list(event, "choices").iter().enumerate() {
            let number = index(piece, "index").unwrap_or(position as u64);
            let choice = slot(&mut self.choices, number)?;
            choice.seen = true;
            if let Some(delta) = some(piece, "delta").or_else(|| some(piece, "message")).and_then(Value::as_object) {
                choice.delta(number, delta, intake)?;
            }
            if let Some(reason) = some(piece, "finish_reason") {
                choice.finish = Some(as_text(reason));
            }
        }
        Ok(())
    }

    /// As bytes, `[DONE]` is the end; as parsed events, which never show it, every choice's finish reason.
    pub(super) fn ended(&self, raw: bool) -> bool {
        let mut begun = self.choices.iter().filter(|choice| choice.seen).peekable();
        if raw { self.done } else { begun.peek().is_some() && begun.all(|choice| choice.finish.is_some()) }
    }

    pub(super) fn body(&self) -> Value {
        let mut body = self.head.clone();
        let seen = self.choices.iter().enumerate().filter(|(_, choice)| choice.seen);
        let choices: Vec<Value> =
            seen.map(|(at, choice)| json!({"index": at, "message": choice.message(), "finish_reason": choice.finish})).collect();
        body.insert("choices".to_owned(), Value::Array(choices));
        if let Some(usage) = &self.usage {
            body.insert("usage".to_owned(), usage.clone());
        }
        Value::Object(body)
    }
}

impl Choice {
    fn delta(&mut self, number: u64, delta: &Map<String, Value>, intake: &mut Intake<'_>) -> Result<(), Fault> {
        for (key, value) in delta {
            match (key.as_str(), value) {
                (_, Value::Null) => {}
                ("content", Value::String(piece)) => {
                    self.late(!piece.is_empty(), intake);
                    intake.text(number, Lane::Text, piece)?;
                    if self.parts.is_empty() {
                        self.content.get_or_insert_default().push_str(piece);
                    } else if !piece.is_empty() {
                        self.part(number, &json!({"type": "text", "text": piece}), intake)?;
                    }
                }
                ("content", Value::Array(parts)) => {
                    for part in parts {
                        self.part(number, part, intake)?;
                    }
                }
                ("reasoning" | "reasoning_content", Value::String(piece)) => {
                    // Some hosts send the same reasoning under both names.
                    if !(key == "reasoning" && delta.get("reasoning_content").is_some_and(Value::is_string)) {
                        intake.text(number, Lane::Reasoning, piece)?;
                    }
                    append(&mut self.message, key, piece);
                }
                ("refusal", Value::String(piece)) => {
                    intake.text(number, Lane::Text, piece)?;
                    append(&mut self.message, key, piece);
                }
                ("tool_calls", Value::Array(calls)) => {
                    self.late(!calls.is_empty(), intake);
                    for call in calls {
                        self.call(number, call, intake)?;
                    }
                }
                ("function_call", Value::Object(_)) => {
                    if filled(value, "name").is_some() || filled(value, "arguments").is_some() || self.legacy.is_some() {
                        let call = self.legacy.get_or_insert_default();
                        join_name(&mut call.name, text(value, "name").unwrap_or_default());
                        let piece = text(value, "arguments").unwrap_or_default();
                        intake.text(number, Lane::Call(0), piece)?;
                        call.arguments.push_str(piece);
                    }
                }
                ("reasoning_details", Value::Array(details)) => {
                    for detail in details {
                        self.detail(detail, intake)?;
                    }
                }
                ("audio", Value::Object(_)) => {
                    let audio = self.message.entry("audio").or_insert_with(|| json!({}));
                    if let (Some(audio), Some(piece)) = (audio.as_object_mut(), value.as_object()) {
                        intake.tally.keep(text(value, "data").map_or(0, str::len))?;
                        for (key, value) in piece {
                            match (key.as_str(), value.as_str()) {
                                ("data" | "transcript", Some(more)) => append(audio, key, more),
                                _ => drop(audio.insert(key.clone(), value.clone())),
                            }
                        }
                    }
                }
                (_, Value::Array(more)) => {
                    intake.tally.keep(value.to_string().len())?;
                    let kept = self.message.entry(key.as_str()).or_insert_with(|| Value::Array(Vec::new()));
                    if let Some(kept) = kept.as_array_mut() {
                        kept.extend(more.iter().cloned());
                    }
                }
                // Set as it came: the role, gateway metadata and whatever is new. A role is sent with each chunk by some.
                _ if self.message.get(key) == Some(value) => {}
                _ => {
                    intake.tally.keep(key.len().saturating_add(value.to_string().len()))?;
                    self.message.insert(key.clone(), value.clone());
                }
            }
        }
        Ok(())
    }

    /// Content after the choice's finish reason.
    fn late(&self, content: bool, intake: &mut Intake<'_>) {
        if content && self.finish.is_some() {
            intake.note(FaultKind::AfterEnd, "content after the choice's finish reason");
        }
    }

    /// A part of content that comes as a list; text and thinking join the part before.
    fn part(&mut self, number: u64, part: &Value, intake: &mut Intake<'_>) -> Result<(), Fault> {
        if let Some(content) = self.content.take().filter(|content| !content.is_empty()) {
            self.parts.push(json!({"type": "text", "text": content}));
        }
        let kind = text(part, "type");
        let last = self.parts.last_mut().filter(|last| kind == text(last, "type"));
        match (kind, last) {
            (Some("thinking"), last) => {
                let words: String = list(part, "thinking").iter().filter_map(|inner| text(inner, "text")).collect();
                intake.text(number, Lane::Reasoning, &words)?;
                match last.and_then(|last| last.pointer_mut("/thinking/0/text")) {
                    Some(Value::String(before)) => before.push_str(&words),
                    _ => self.parts.push(json!({"type": "thinking", "thinking": [{"type": "text", "text": words}]})),
                }
            }
            (Some("text"), Some(last)) => {
                let words = text(part, "text").unwrap_or_default();
                intake.text(number, Lane::Text, words)?;
                if let Some(last) = last.as_object_mut() {
                    append(last, "text", words);
                }
            }
            _ => {
                intake.text(number, Lane::Text, text(part, "text").unwrap_or_default())?;
                intake.tally.keep(part.to_string().len())?;
                room(&self.parts)?;
                self.parts.push(part.clone());
            }
        }
        Ok(())
    }

    fn detail(&mut self, detail: &Value, intake: &mut Intake<'_>) -> Result<(), Fault> {
        intake.tally.keep(detail.to_string().len())?;
        let details = self.message.entry("reasoning_details").or_insert_with(|| Value::Array(Vec::new()));
        let Some(details) = details.as_array_mut() else { return Ok(()) };
        let same = |before: &&mut Value| index(before, "index") == index(detail, "index") && text(before, "type") == text(detail, "type");
        match (details.last_mut().filter(same).and_then(Value::as_object_mut), detail.as_object()) {
            (Some(before), Some(more)) => {
                for (key, value) in more {
                    match (key.as_str(), value) {
                        ("text" | "summary" | "data", Value::String(piece)) => append(before, key, piece),
                        (_, Value::Null) => {}
                        _ => drop(before.insert(key.clone(), value.clone())),
                    }
                }
            }
            _ => details.push(detail.clone()),
        }
        Ok(())
    }

    fn call(&mut self, number: u64, piece: &Value, intake: &mut Intake<'_>) -> Result<(), Fault> {
        let at = self.call_slot(piece, intake)?;
        let Some(call) = self.calls.get_mut(at) else { return Ok(()) };
        if let Some(id) = filled(piece, "id") {
            id.clone_into(&mut call.id);
        }
        if let Some(kind) = filled(piece, "type") {
            call.kind = Some(kind.to_owned());
        }
        let function = some(piece, "function").or_else(|| some(piece, "custom"));
        if some(piece, "custom").is_some() {
            call.kind = Some("custom".to_owned());
        }
        if let Some(function) = function {
            join_name(&mut call.name, text(function, "name").unwrap_or_default());
            let arguments = some(function, "arguments").or_else(|| some(function, "input")).map(as_text).unwrap_or_default();
            intake.text(number, Lane::Call(at as u64), &arguments)?;
            call.arguments.push_str(&arguments);
        }
        for (key, value) in piece.as_object().into_iter().flatten() {
            if !matches!(key.as_str(), "id" | "type" | "function" | "custom" | "index")
                && !value.is_null()
                && call.extra.get(key) != Some(value)
            {
                intake.tally.keep(key.len().saturating_add(value.to_string().len()))?;
                call.extra.insert(key.clone(), value.clone());
            }
        }
        Ok(())
    }

    /// Which call a piece belongs to: the one of its index, unless it brings another id; without an index the one
    /// of its id, or the last one.
    fn call_slot(&mut self, piece: &Value, intake: &mut Intake<'_>) -> Result<usize, Fault> {
        let (number, id) = (index(piece, "index"), filled(piece, "id"));
        let other = |call: &Call| id.is_some_and(|id| !call.id.is_empty() && call.id != id);
        let found = match number {
            Some(number) => self.calls.iter().rposition(|call| call.index == Some(number)),
            None if id.is_some() => self.calls.iter().rposition(|call| Some(call.id.as_str()) == id),
            None => self.calls.len().checked_sub(1),
        };
        if let Some(at) = found.filter(|&at| self.calls.get(at).is_some_and(|call| !other(call))) {
            return Ok(at);
        }
        if found.is_some() {
            intake.note(FaultKind::DuplicateIndex, "one index was used for calls of different ids; they are kept apart");
        } else if number.is_none() && id.is_none() {
            return Err(Fault::new(FaultKind::OutOfOrder, "a piece of a call that has neither index nor id, before any call"));
        }
        let at = self.calls.len();
        slot(&mut self.calls, at as u64)?.index = number;
        Ok(at)
    }

    fn message(&self) -> Value {
        let mut message = Map::new();
        message.insert("role".to_owned(), self.message.get("role").cloned().unwrap_or_else(|| json!("assistant")));
        let called = !self.calls.is_empty() || self.legacy.is_some();
        let content = match &self.content {
            _ if !self.parts.is_empty() => Value::Array(self.parts.clone()),
            Some(content) if !(content.is_empty() && called) => Value::String(content.clone()),
            _ => Value::Null,
        };
        message.insert("content".to_owned(), content);
        for (key, value) in &self.message {
            if key != "role" {
                message.insert(key.clone(), value.clone());
            }
        }
        if !self.calls.is_empty() {
            message.insert("tool_calls".to_owned(), self.calls.iter().map(Call::to_json).collect());
        }
        if let Some(call) = &self.legacy {
            message.insert("function_call".to_owned(), json!({"name": call.name, "arguments": call.arguments}));
        }
        Value::Object(message)
    }
}

impl Call {
    fn to_json(&self) -> Value {
        let kind = self.kind.as_deref().unwrap_or("function");
        let mut json = json!({"id": self.id, "type": kind});
        if let Some(map) = json.as_object_mut() {
            if kind == "custom" {
                map.insert(kind.to_owned(), json!({"name": self.name, "input": self.arguments}));
            } else {
                map.insert("function".to_owned(), json!({"name": self.name, "arguments": self.arguments}));
            }
            map.extend(self.extra.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        json
    }
}

/// Names come whole, in pieces, or whole again with each piece of arguments.
fn join_name(name: &mut String, piece: &str) {
    if name != piece {
        name.push_str(piece);
    }
}

fn append(map: &mut Map<String, Value>, key: &str, piece: &str) {
    if let Some(slot) = text_slot(map, key) {
        slot.push_str(piece);
    }
}
