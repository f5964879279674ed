//! Gemini stream chunks to a whole generateContent response.
//!
//! Used by [`super::Assembler`]. Each chunk is a response of its own: parts are appended, and text joins the text before
//! it unless a signature or the thought flag parts them; arguments may come field by field. The end is each candidate's finish reason.

use super::super::fault::{Fault, FaultKind};
use super::super::peek::{index, list, some, text, text_slot};
use super::super::tally::Lane;
use super::partial::Partial;
use super::{Intake, room, slot};
use serde_json::{Map, Value, json};

/// A response so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gemini {
    head: Map<String, Value>,
    candidates: Vec<Candidate>,
    calls: u64,
}

#[derive(Clone, Debug, Default)]
struct Candidate {
    seen: bool,
    fields: Map<String, Value>,
    role: Option<Value>,
    parts: Vec<Value>,
    /// The position of the call whose arguments are still coming, and those that came.
    open: Option<(usize, Partial)>,
}

impl Gemini {
    pub(super) fn event(&mut self, event: &Value, intake: &mut Intake<'_>) -> Result<(), Fault> {
        if let Some(error) = some(event, "error") {
            intake.provider(error);
        }
        for (key, value) in event.as_object().into_iter().flatten() {
            if !matches!(key.as_str(), "candidates" | "error") && !value.is_null() {
                if !self.head.contains_key(key) {
                    intake.tally.keep(key.len().saturating_add(value.to_string().len()))?;
                }
                self.head.insert(key.clone(), value.clone());
            }
        }
        for (position, piece) in list(event, "candidates").iter().enumerate() {
            let number = index(piece, "index").unwrap_or(position as u64);
            let candidate = slot(&mut self.candidates, number)?;
            candidate.seen = true;
            let content = some(piece, "content");
            let parts = content.map(|content| list(content, "parts")).unwrap_or_default();
            if candidate.fields.contains_key("finishReason") && !parts.is_empty() {
                intake.note(FaultKind::AfterEnd, "content after the candidate's finish reason");
            }
            if let Some(role) = content.and_then(|content| some(content, "role")) {
                candidate.role = Some(role.clone());
            }
            for part in parts {
                intake.tally.keep(text(part, "thoughtSignature").map_or(0, str::len))?;
                if let Some(call) = some(part, "functionCall") {
                    if candidate.open.is_none() {
                        self.calls += 1;
                    }
                    if candidate.partial_call(number, self.calls, part, call, intake)? {
                        continue;
                    }
                    intake.text(number, Lane::Call(self.calls), &call.get("args").map(Value::to_string).unwrap_or_default())?;
                }
                candidate.part(number, part, intake)?;
            }
            for (key, value) in piece.as_object().into_iter().flatten() {
                if key != "content" && !value.is_null() {
                    candidate.fields.insert(key.clone(), value.clone());
                }
            }
        }
        Ok(())
    }

    pub(super) fn ended(&self) -> bool {
        let blocked = self.head.get("promptFeedback").is_some_and(|feedback| some(feedback, "blockReason").is_some());
        let mut begun = self.candidates.iter().filter(|candidate| candidate.seen).peekable();
        match begun.peek() {
            Some(_) => begun.all(|candidate| candidate.fields.contains_key("finishReason") && candidate.open.is_none()),
            None => blocked,
        }
    }

    pub(super) fn body(&self) -> Value {
        let mut body = self.head.clone();
        let seen = self.candidates.iter().enumerate().filter(|(_, candidate)| candidate.seen);
        let candidates: Vec<Value> = seen
            .map(|(at, candidate)| {
                let mut fields = candidate.fields.clone();
                let role = candidate.role.clone().unwrap_or_else(|| json!("model"));
                let mut parts = candidate.parts.clone();
                if let Some((at, partial)) = &candidate.open
                    && let Some(call) = parts.get_mut(*at).and_then(|part| part.get_mut("functionCall")).and_then(Value::as_object_mut)
                {
                    call.insert("args".to_owned(), partial.so_far());
                }
                fields.insert("content".to_owned(), json!({"role": role, "parts": parts}));
                fields.insert("index".to_owned(), json!(at));
                Value::Object(fields)
            })
            .collect();
        if !candidates.is_empty() {
            body.insert("candidates".to_owned(), Value::Array(candidates));
        }
        Value::Object(body)
    }
}

impl Candidate {
    /// A call whose arguments come in parts: begun, gone on with, or ended. False: a call that came whole.
    fn partial_call(&mut self, number: u64, nth: u64, part: &Value, call: &Value, intake: &mut Intake<'_>) -> Result<bool, Fault> {
        let goes_on = call.get("willContinue").and_then(Value::as_bool) == Some(true);
        let (at, mut partial) = match self.open.take() {
            Some((at, partial)) => {
                let begun = self.parts.get(at).and_then(|part| part.pointer("/functionCall/id"));
                let other = some(call, "id").is_some_and(|id| Some(id) != begun)
                    || call.get("name").is_some_and(|name| name != "") && some(call, "id").is_none();
                if other {
                    self.open = Some((at, partial));
                    return Err(Fault::new(FaultKind::OutOfOrder, "a call begins while the arguments of another are still coming"));
                }
                (at, partial)
            }
            None if goes_on || some(call, "partialArgs").is_some() => {
                let mut begun = part.clone();
                if let Some(call) = begun.get_mut("functionCall").and_then(Value::as_object_mut) {
                    for key in ["partialArgs", "willContinue", "args"] {
                        call.shift_remove(key);
                    }
                }
                intake.tally.keep(begun.to_string().len())?;
                room(&self.parts)?;
                self.parts.push(begun);
                (self.parts.len() - 1, Partial::default())
            }
            None => return Ok(false),
        };
        let added = partial.take(call);
        let args = if goes_on { Ok(None) } else { partial.finish().map(Some) };
        // Kept open where it isn't whole, so that what came is still told.
        let whole = added.and_then(|added| Ok((added, args?)));
        self.open = Some((at, partial));
        let (added, args) = whole?;
        intake.text(number, Lane::Call(nth), &added)?;
        if let Some(args) = args {
            self.open = None;
            if let Some(call) = self.parts.get_mut(at).and_then(|part| part.get_mut("functionCall")).and_then(Value::as_object_mut) {
                call.insert("args".to_owned(), args);
            }
        }
        Ok(true)
    }

    fn part(&mut self, number: u64, part: &Value, intake: &mut Intake<'_>) -> Result<(), Fault> {
        let plain = |part: &Value| part.as_object().is_some_and(|map| map.keys().all(|key| matches!(key.as_str(), "text" | "thought")));
        let thought = |part: &Value| part.get("thought").and_then(Value::as_bool).unwrap_or(false);
        let Some(words) = text(part, "text") else {
            intake.tally.keep(part.to_string().len())?;
            room(&self.parts)?;
            self.parts.push(part.clone());
            return Ok(());
        };
        intake.text(number, if thought(part) { Lane::Reasoning } else { Lane::Text }, words)?;
        let before = self.parts.last_mut().filter(|last| plain(last) && plain(part) && thought(last) == thought(part));
        if let Some(Value::Object(last)) = before {
            if let Some(slot) = text_slot(last, "text") {
                slot.push_str(words);
            }
        } else {
            room(&self.parts)?;
            self.parts.push(part.clone());
        }
        Ok(())
    }
}
