//! Responses events to a whole response.
//!
//! Used by [`super::Assembler`]. Items are put together piece by piece; each `done` event's full text and at last the
//! terminal event's own output replace what the pieces gave.

use super::super::fault::{Fault, FaultKind};
use super::super::peek::{filled, index, list, some, text, text_slot};
use super::super::tally::Lane;
use super::{Intake, slot};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// A response so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Responses {
    head: Map<String, Value>,
    items: Vec<Value>,
    /// The terminal event's response.
    last: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
struct Quick<'a> {
    #[serde(borrow, rename = "type")]
    kind: &'a str,
    output_index: u64,
    content_index: u64,
    #[serde(borrow)]
    delta: Cow<'a, str>,
}

impl Responses {
    /// A text delta of a content part already begun.
    pub(super) fn quick(&mut self, data: &str, intake: &mut Intake<'_>) -> Result<bool, Fault> {
        if self.last.is_some() {
            return Ok(false);
        }
        let Ok(Quick { kind: "response.output_text.delta", output_index, content_index, delta }) = serde_json::from_str::<Quick<'_>>(data)
        else {
            return Ok(false);
        };
        let at = |index: u64| usize::try_from(index).unwrap_or(usize::MAX);
        let part = self.items.get_mut(at(output_index)).and_then(|item| item.get_mut("content")?.get_mut(at(content_index)));
        match part.and_then(|part| part.get_mut("text")) {
            Some(Value::String(words)) => {
                intake.text(output_index, Lane::Text, &delta)?;
                words.push_str(&delta);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    pub(super) fn event(&mut self, name: &str, event: &Value, intake: &mut Intake<'_>) -> Result<(), Fault> {
        let kind = text(event, "type").unwrap_or(name);
        if self.last.is_some() {
            return Err(Fault::new(FaultKind::AfterEnd, "an event after the terminal one"));
        }
        let words = |key| text(event, key).unwrap_or_default();
        let delta = words("delta");
        match kind {
            "error" => intake.provider(some(event, "error").unwrap_or(event)),
            "response.created" | "response.in_progress" | "response.queued" => {
                for (key, value) in some(event, "response").and_then(Value::as_object).into_iter().flatten() {
                    if key != "output" {
                        self.head.insert(key.clone(), value.clone());
                    }
                }
            }
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" | "response.done" => {
                let Some(last) = some(event, "response").and_then(Value::as_object) else {
                    return Err(Fault::new(FaultKind::Malformed, format!("`{kind}` carries no response")));
                };
                intake.tally.keep(last.get("output").map_or(0, |output| output.to_string().len()))?;
                self.last = Some(last.clone());
            }
            "response.output_item.added" => {
                let number = need(event, "output_index")?;
                let item = some(event, "item").cloned().unwrap_or_else(|| json!({}));
                intake.tally.keep(item.to_string().len())?;
                let slot = slot(&mut self.items, number)?;
                if !slot.is_null() {
                    return Err(Fault {
                        fatal: true,
                        ..Fault::new(FaultKind::DuplicateIndex, format!("output item {number} is begun twice"))
                    });
                }
                *slot = item;
            }
            "response.output_item.done" => {
                let number = need(event, "output_index")?;
                if let Some(item) = some(event, "item") {
                    intake.tally.keep(item.to_string().len())?;
                    *slot(&mut self.items, number)? = item.clone();
                }
            }
            "response.content_part.added" | "response.content_part.done" => {
                *self.part(event, "content", "content_index")? = some(event, "part").cloned().unwrap_or(Value::Null);
            }
            "response.reasoning_summary_part.added" | "response.reasoning_summary_part.done" => {
                *self.part(event, "summary", "summary_index")? = some(event, "part").cloned().unwrap_or(Value::Null);
            }
            "response.output_text.delta" | "response.refusal.delta" => {
                intake.text(index(event, "output_index").unwrap_or(0), Lane::Text, delta)?;
                let (key, kind) = if kind == "response.refusal.delta" { ("refusal", "refusal") } else { ("text", "output_text") };
                append(self.part(event, "content", "content_index")?, kind, key, delta);
            }
            "response.output_text.done" => {
                set(self.part(event, "content", "content_index")?, "output_text", "text", words("text"));
            }
            "response.refusal.done" => set(self.part(event, "content", "content_index")?, "refusal", "refusal", words("refusal")),
            "response.reasoning_text.delta" => {
                intake.text(0, Lane::Reasoning, delta)?;
                append(self.part(event, "content", "content_index")?, "reasoning_text", "text", delta);
            }
            "response.reasoning_text.done" => {
                set(self.part(event, "content", "content_index")?, "reasoning_text", "text", words("text"));
            }
            "response.reasoning_summary_text.delta" => {
                intake.text(0, Lane::Reasoning, delta)?;
                append(self.part(event, "summary", "summary_index")?, "summary_text", "text", delta);
            }
            "response.reasoning_summary_text.done" => {
                set(self.part(event, "summary", "summary_index")?, "summary_text", "text", words("text"));
            }
            "response.output_text.annotation.added" => {
                let part = self.part(event, "content", "content_index")?;
                if let (Some(part), Some(annotation)) = (part.as_object_mut(), some(event, "annotation")) {
                    intake.tally.keep(annotation.to_string().len())?;
                    match part.entry("annotations").or_insert(Value::Null) {
                        Value::Array(list) => list.push(annotation.clone()),
                        other => *other = json!([annotation]),
                    }
                }
            }
            "response.function_call_arguments.delta" | "response.mcp_call_arguments.delta" => self.grow(event, "arguments", intake)?,
            "response.custom_tool_call_input.delta" => self.grow(event, "input", intake)?,
            "response.code_interpreter_call_code.delta" => self.grow(event, "code", intake)?,
            "response.function_call_arguments.done" | "response.mcp_call_arguments.done" => self.fix(event, "arguments")?,
            "response.custom_tool_call_input.done" => self.fix(event, "input")?,
            "response.code_interpreter_call_code.done" => self.fix(event, "code")?,
            other => {
                let state = other.rsplit('.').next().unwrap_or_default();
                let progress =
                    ["in_progress", "completed", "failed", "searching", "interpreting", "generating", "partial_image", "delta", "done"];
                if !(other.starts_with("response.") && progress.contains(&state) || matches!(other, "keepalive" | "ping")) {
                    intake.note(FaultKind::UnknownEvent, format!("unknown event `{}`", other.chars().take(60).collect::<String>()));
                }
            }
        }
        Ok(())
    }

    fn item(&mut self, event: &Value) -> Result<&mut Map<String, Value>, Fault> {
        let number = need(event, "output_index")?;
        let item = usize::try_from(number).ok().and_then(|at| self.items.get_mut(at)).and_then(Value::as_object_mut);
        item.ok_or_else(|| Fault::new(FaultKind::OutOfOrder, format!("a piece of output item {number}, which wasn't begun")))
    }

    /// A part of an item's list, made when it isn't there yet.
    fn part(&mut self, event: &Value, list: &str, key: &str) -> Result<&mut Value, Fault> {
        let number = index(event, key).unwrap_or(0);
        let parts = self.item(event)?.entry(list).or_insert(Value::Null);
        if !parts.is_array() {
            *parts = Value::Array(Vec::new());
        }
        match parts {
            Value::Array(parts) => slot(parts, number),
            _ => Err(Fault::new(FaultKind::Malformed, "an item without parts")),
        }
    }

    fn grow(&mut self, event: &Value, key: &str, intake: &mut Intake<'_>) -> Result<(), Fault> {
        let delta = text(event, "delta").unwrap_or_default();
        intake.text(0, Lane::Call(index(event, "output_index").unwrap_or(0)), delta)?;
        if let Some(slot) = text_slot(self.item(event)?, key) {
            slot.push_str(delta);
        }
        Ok(())
    }

    fn fix(&mut self, event: &Value, key: &str) -> Result<(), Fault> {
        if let Some(whole) = filled(event, key) {
            self.item(event)?.insert(key.to_owned(), Value::String(whole.to_owned()));
        }
        Ok(())
    }

    pub(super) fn ended(&self) -> bool {
        self.last.is_some()
    }

    pub(super) fn body(&self) -> Value {
        let own: Vec<Value> = self.items.iter().filter(|item| !item.is_null()).cloned().collect();
        let mut body = self.last.as_ref().unwrap_or(&self.head).clone();
        // Some hosts send the terminal event without its output.
        if list(&Value::Object(body.clone()), "output").is_empty() {
            body.insert("output".to_owned(), Value::Array(own));
        }
        if self.last.is_none() {
            body.insert("status".to_owned(), json!("in_progress"));
        }
        Value::Object(body)
    }
}

fn need(event: &Value, key: &str) -> Result<u64, Fault> {
    index(event, key).ok_or_else(|| Fault::new(FaultKind::Malformed, format!("the event has no `{key}`")))
}

fn append(part: &mut Value, kind: &str, key: &str, piece: &str) {
    if part.is_null() {
        *part = json!({"type": kind});
    }
    if let Some(slot) = part.as_object_mut().and_then(|part| text_slot(part, key)) {
        slot.push_str(piece);
    }
}

fn set(part: &mut Value, kind: &str, key: &str, whole: &str) {
    if part.is_null() {
        *part = json!({"type": kind});
    }
    if let Some(part) = part.as_object_mut() {
        part.insert(key.to_owned(), Value::String(whole.to_owned()));
    }
}
