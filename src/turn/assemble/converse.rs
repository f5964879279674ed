//! Bedrock ConverseStream events to a whole Converse response.
//!
//! Used by [`super::Assembler`]. Events come as `{"contentBlockDelta": {…}}` (the SDKs' shape) or named, with the bare
//! payload. The end is `messageStop` and then `metadata`, which carries the usage.

use super::super::fault::{Fault, FaultKind};
use super::super::peek::{index, some, text, text_slot};
use super::super::tally::Lane;
use super::{Intake, arguments, slot};
use serde_json::{Map, Value, json};

/// A response so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Converse {
    role: Option<String>,
    blocks: Vec<Block>,
    stop: Option<Map<String, Value>>,
    metadata: Option<Map<String, Value>>,
}

#[derive(Clone, Debug, Default)]
struct Block {
    json: Map<String, Value>,
    input: String,
    closed: bool,
}

const EVENTS: [&str; 6] = ["messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata"];

impl Converse {
    pub(super) fn event(&mut self, name: &str, event: &Value, intake: &mut Intake<'_>) -> Result<(), Fault> {
        let map = event.as_object();
        let wrapped = map.and_then(|map| map.iter().find(|(key, _)| EVENTS.contains(&key.as_str()) || key.ends_with("Exception")));
        let (kind, payload) = match wrapped {
            Some((kind, payload)) => (kind.as_str(), payload),
            None => (name, event),
        };
        if kind.ends_with("Exception") || kind == "error" {
            intake.provider(payload);
            return Ok(());
        }
        if self.metadata.is_some() || self.stop.is_some() && kind != "metadata" {
            return Err(Fault::new(FaultKind::AfterEnd, "an event after `messageStop`"));
        }
        match kind {
            "messageStart" => self.role = text(payload, "role").map(str::to_owned),
            "contentBlockStart" => {
                let number = need_index(payload)?;
                let block = slot(&mut self.blocks, number)?;
                if !block.json.is_empty() || block.closed {
                    return Err(Fault {
                        fatal: true,
                        ..Fault::new(FaultKind::DuplicateIndex, format!("content block {number} is begun twice"))
                    });
                }
                if let Some(start) = some(payload, "start").and_then(Value::as_object) {
                    intake.tally.keep(payload.to_string().len())?;
                    block.json.clone_from(start);
                }
            }
            "contentBlockDelta" => self.delta(payload, intake)?,
            "contentBlockStop" => {
                let number = need_index(payload)?;
                let block = slot(&mut self.blocks, number)?;
                if block.closed {
                    return Err(closed(number));
                }
                block.closed = true;
            }
            "messageStop" => {
                if let Some(at) = self.blocks.iter().position(|block| !block.closed) {
                    return Err(Fault::new(FaultKind::OutOfOrder, format!("`messageStop` while content block {at} isn't stopped")));
                }
                self.stop = payload.as_object().cloned();
            }
            "metadata" => self.metadata = payload.as_object().cloned(),
            other => {
                intake.note(FaultKind::UnknownEvent, format!("unknown event `{}`", other.chars().take(60).collect::<String>()));
            }
        }
        Ok(())
    }

    fn delta(&mut self, payload: &Value, intake: &mut Intake<'_>) -> Result<(), Fault> {
        let number = need_index(payload)?;
        let Block { json: block, input, closed: stopped } = slot(&mut self.blocks, number)?;
        if *stopped {
            return Err(closed(number));
        }
        let delta = some(payload, "delta").unwrap_or(payload);
        if let Some(words) = text(delta, "text") {
            intake.text(0, Lane::Text, words)?;
            append(block, "text", words);
        }
        if let Some(piece) = delta.pointer("/toolUse/input") {
            let piece = super::super::peek::as_text(piece);
            intake.text(0, Lane::Call(number), &piece)?;
            input.push_str(&piece);
        }
        if let Some(reasoning) = some(delta, "reasoningContent") {
            let content = block.entry("reasoningContent").or_insert_with(|| json!({}));
            if let Some(content) = content.as_object_mut() {
                if let Some(redacted) = text(reasoning, "redactedContent") {
                    intake.tally.keep(redacted.len())?;
                    append(content, "redactedContent", redacted);
                } else if let Some(inner) = content.entry("reasoningText").or_insert_with(|| json!({})).as_object_mut() {
                    if let Some(words) = text(reasoning, "text") {
                        intake.text(0, Lane::Reasoning, words)?;
                        append(inner, "text", words);
                    }
                    if let Some(signature) = text(reasoning, "signature") {
                        intake.tally.keep(signature.len())?;
                        append(inner, "signature", signature);
                    }
                }
            }
        }
        if let Some(citation) = some(delta, "citation") {
            intake.tally.keep(citation.to_string().len())?;
            match block.entry("citations").or_insert(Value::Null) {
                Value::Array(list) => list.push(citation.clone()),
                other => *other = json!([citation]),
            }
        }
        Ok(())
    }

    pub(super) fn ended(&self) -> bool {
        self.stop.is_some() && self.metadata.is_some()
    }

    pub(super) fn body(&self) -> Value {
        let content: Vec<Value> = self.blocks.iter().map(Block::to_json).collect();
        let mut body = self.metadata.clone().unwrap_or_default();
        body.insert("output".to_owned(), json!({"message": {"role": self.role.as_deref().unwrap_or("assistant"), "content": content}}));
        for (key, value) in self.stop.iter().flatten() {
            body.insert(key.clone(), value.clone());
        }
        Value::Object(body)
    }
}

impl Block {
    /// The block in the shape of a whole response: cited text moves into `citationsContent`, input becomes JSON.
    fn to_json(&self) -> Value {
        let mut block = self.json.clone();
        if let Some(call) = block.get_mut("toolUse").and_then(Value::as_object_mut) {
            let input = match (self.input.is_empty(), self.closed) {
                (true, true) => json!({}),
                (_, true) => arguments(&self.input),
                (_, false) => Value::String(self.input.clone()),
            };
            call.insert("input".to_owned(), input);
        }
        if let Some(citations) = block.remove("citations") {
            let words = block.remove("text").unwrap_or_else(|| json!(""));
            block.insert("citationsContent".to_owned(), json!({"content": [{"text": words}], "citations": citations}));
        }
        Value::Object(block)
    }
}

fn need_index(payload: &Value) -> Result<u64, Fault> {
    index(payload, "contentBlockIndex").ok_or_else(|| Fault::new(FaultKind::Malformed, "the event has no `contentBlockIndex`"))
}

fn closed(number: u64) -> Fault {
    Fault::new(FaultKind::OutOfOrder, format!("a piece of content block {number}, which is stopped"))
}

fn append(map: &mut Map<String, Value>, key: &str, piece: &str) {
    if let Some(slot) = text_slot(map, key) {
        slot.push_str(piece);
    }
}
