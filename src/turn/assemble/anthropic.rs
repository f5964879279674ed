//! Anthropic Messages events to a whole message.
//!
//! Used by [`super::Assembler`]. Blocks are begun, added to and stopped in order; a piece for a block that isn't open
//! is a fatal fault. Input that never became valid JSON stays text.

use super::super::fault::{Fault, FaultKind};
use super::super::peek::{index, some, text, text_slot};
use super::super::tally::Lane;
use super::{Intake, arguments, slot};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// A message so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Anthropic {
    head: Map<String, Value>,
    usage: Map<String, Value>,
    blocks: Vec<Block>,
    stopped: bool,
}

#[derive(Clone, Debug, Default)]
struct Block {
    json: Value,
    input: String,
    open: bool,
}

#[derive(Deserialize)]
struct Quick<'a> {
    #[serde(borrow, rename = "type")]
    kind: &'a str,
    index: u64,
    #[serde(borrow)]
    delta: QuickDelta<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuickDelta<'a> {
    #[serde(borrow, rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    text: Cow<'a, str>,
}

impl Anthropic {
    /// A text delta of an open text block.
    pub(super) fn quick(&mut self, data: &str, intake: &mut Intake<'_>) -> Result<bool, Fault> {
        let Ok(Quick { kind: "content_block_delta", index, delta: QuickDelta { kind: "text_delta", text: words } }) =
            serde_json::from_str::<Quick<'_>>(data)
        else {
            return Ok(false);
        };
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        match self.blocks.get_mut(at).filter(|block| block.open).and_then(|block| block.json.as_object_mut()) {
            Some(block) if !self.stopped => {
                intake.text(0, Lane::Text, &words)?;
                append(block, "text", &words);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    pub(super) fn event(&mut self, name: &str, event: &Value, intake: &mut Intake<'_>) -> Result<(), Fault> {
        let kind = text(event, "type").unwrap_or(name);
        if self.stopped && !matches!(kind, "ping" | "error") {
            return Err(Fault::new(FaultKind::AfterEnd, "an event after `message_stop`"));
        }
        match kind {
            "ping" => {}
            "error" => intake.provider(some(event, "error").unwrap_or(event)),
            "message_start" => {
                if !self.head.is_empty() {
                    return Err(Fault::new(FaultKind::OutOfOrder, "a second `message_start`"));
                }
                for (key, value) in some(event, "message").and_then(Value::as_object).into_iter().flatten() {
                    match key.as_str() {
                        "usage" => merge(&mut self.usage, Some(value)),
                        "content" => {}
                        _ => drop(self.head.insert(key.clone(), value.clone())),
                    }
                }
            }
            "content_block_start" => {
                let number = need_index(event)?;
                let block = slot(&mut self.blocks, number)?;
                if !block.json.is_null() {
                    return Err(fatal(FaultKind::DuplicateIndex, format!("content block {number} is begun twice")));
                }
                let begun = some(event, "content_block").cloned().unwrap_or_else(|| json!({}));
                intake.tally.keep(begun.to_string().len())?;
                intake.text(0, Lane::Text, text(&begun, "text").unwrap_or_default())?;
                *block = Block { json: begun, input: String::new(), open: true };
            }
            "content_block_delta" => self.delta(event, intake)?,
            "content_block_stop" => {
                let block = self.open(event)?;
                block.open = false;
                if !block.input.is_empty() {
                    let input = arguments(&block.input);
                    if let Some(map) = block.json.as_object_mut() {
                        map.insert("input".to_owned(), input);
                    }
                }
            }
            "message_delta" => {
                for (key, value) in some(event, "delta").and_then(Value::as_object).into_iter().flatten() {
                    self.head.insert(key.clone(), value.clone());
                }
                merge(&mut self.usage, some(event, "usage"));
                if let Some(edits) = some(event, "context_management") {
                    self.head.insert("context_management".to_owned(), edits.clone());
                }
            }
            "message_stop" => {
                if let Some(at) = self.blocks.iter().position(|block| block.open || block.json.is_null()) {
                    return Err(Fault::new(FaultKind::OutOfOrder, format!("`message_stop` while content block {at} isn't stopped")));
                }
                self.stopped = true;
            }
            other => intake.note(FaultKind::UnknownEvent, format!("unknown event `{}`", short(other))),
        }
        Ok(())
    }

    fn delta(&mut self, event: &Value, intake: &mut Intake<'_>) -> Result<(), Fault> {
        let number = need_index(event)?;
        let Block { json: block, input, .. } = self.open(event)?;
        let Some(map) = block.as_object_mut() else { return Ok(()) };
        let delta = some(event, "delta").unwrap_or(event);
        let piece = |key| text(delta, key).unwrap_or_default();
        match text(delta, "type").unwrap_or_default() {
            "text_delta" => {
                intake.text(0, Lane::Text, piece("text"))?;
                append(map, "text", piece("text"));
            }
            "thinking_delta" => {
                intake.text(0, Lane::Reasoning, piece("thinking"))?;
                append(map, "thinking", piece("thinking"));
            }
            "signature_delta" => {
                intake.tally.keep(piece("signature").len())?;
                append(map, "signature", piece("signature"));
            }
            "input_json_delta" => {
                intake.text(0, Lane::Call(number), piece("partial_json"))?;
                input.push_str(piece("partial_json"));
            }
            "citations_delta" => {
                if let Some(citation) = some(delta, "citation") {
                    intake.tally.keep(citation.to_string().len())?;
                    let citations = map.entry("citations").or_insert(Value::Null);
                    match citations {
                        Value::Array(list) => list.push(citation.clone()),
                        other => *other = json!([citation]),
                    }
                }
            }
            "compaction_delta" => {
                intake.text(0, Lane::Reasoning, piece("content"))?;
                append(map, "content", piece("content"));
            }
            other => intake.note(FaultKind::UnknownEvent, format!("unknown delta `{}`", short(other))),
        }
        Ok(())
    }

    /// The open block that an event speaks of.
    fn open(&mut self, event: &Value) -> Result<&mut Block, Fault> {
        let number = need_index(event)?;
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        self.blocks
            .get_mut(at)
            .filter(|block| block.open)
            .ok_or_else(|| Fault::new(FaultKind::OutOfOrder, format!("a piece of content block {number}, which isn't open")))
    }

    pub(super) fn ended(&self) -> bool {
        self.stopped
    }

    pub(super) fn body(&self) -> Value {
        let mut body = self.head.clone();
        let content: Vec<Value> = self.blocks.iter().filter(|block| !block.json.is_null()).map(Block::to_json).collect();
        body.insert("content".to_owned(), Value::Array(content));
        if !self.usage.is_empty() {
            body.insert("usage".to_owned(), Value::Object(self.usage.clone()));
        }
        Value::Object(body)
    }
}

impl Block {
    /// The block; one that is still open keeps its input as text, since it can't be known to be whole.
    fn to_json(&self) -> Value {
        let mut block = self.json.clone();
        if let Some(map) = block.as_object_mut().filter(|_| self.open && !self.input.is_empty()) {
            map.insert("input".to_owned(), Value::String(self.input.clone()));
        }
        block
    }
}

fn need_index(event: &Value) -> Result<u64, Fault> {
    index(event, "index").ok_or_else(|| Fault::new(FaultKind::Malformed, "the event has no `index`"))
}

fn fatal(kind: FaultKind, message: String) -> Fault {
    Fault { fatal: true, ..Fault::new(kind, message) }
}

/// Later figures replace earlier ones; null replaces nothing.
fn merge(into: &mut Map<String, Value>, from: Option<&Value>) {
    for (key, value) in from.and_then(Value::as_object).into_iter().flatten() {
        if !value.is_null() || !into.contains_key(key) {
            into.insert(key.clone(), value.clone());
        }
    }
}

fn append(map: &mut Map<String, Value>, key: &str, piece: &str) {
    if let Some(slot) = text_slot(map, key) {
        slot.push_str(piece);
    }
}

/// An event's name, cut to a length that an error may carry.
fn short(name: &str) -> &str {
    name.char_indices().nth(60).map_or(name, |(at, _)| &name[..at])
}
