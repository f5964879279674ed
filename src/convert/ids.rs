//! Ids and names of calls over a whole history: what formats with ids need and formats without lack.
//!
//! Used by the writers. A call without an id gets one from its position; its result is the next one without an id and of the same name.

use crate::format::{Conversation, ItemBody, ToolCall, ToolResult};
use std::collections::{BTreeMap, VecDeque};
use twox_hash::XxHash3_64;

/// Ids and names by the place of the item in the source.
#[derive(Debug, Default)]
pub(super) struct Ids<'a> {
    by_place: BTreeMap<String, (String, &'a str)>,
    /// Results that name their tool, each with the call that names it too, if one does.
    named: Vec<(String, Option<String>)>,
}

impl<'a> Ids<'a> {
    pub(super) fn of(conversation: &Conversation<'a>) -> Self {
        let mut ids = Self::default();
        // Calls by id: name and place.
        let mut names: BTreeMap<&str, (&'a str, &str)> = BTreeMap::new();
        let mut waiting: VecDeque<(String, &'a str, &str)> = VecDeque::new();
        for item in conversation.messages.iter().flat_map(|message| &message.items) {
            match &item.body {
                ItemBody::ToolCall(ToolCall { id, name, .. }) => {
                    if let Some(id) = id {
                        names.insert(id, (name, &item.place));
                    }
                    let id = id.map_or_else(|| format!("call_{}", ids.by_place.len()), str::to_owned);
                    waiting.push_back((id.clone(), name, &item.place));
                    ids.by_place.insert(item.place.clone(), (id, name));
                }
                ItemBody::ToolResult(ToolResult { call_id, name, .. }) => {
                    let found = match (call_id, name) {
                        (Some(id), _) => waiting.iter().rposition(|(waits, ..)| waits == id),
                        (None, Some(name)) => waiting.iter().position(|(_, waits, _)| waits == name),
                        (None, None) => (!waiting.is_empty()).then_some(0),
                    };
                    let answered = found.and_then(|at| waiting.remove(at));
                    let known = call_id.and_then(|id| names.get(id).copied());
                    let call = answered.as_ref().map(|(_, called, place)| (*called, *place)).or(known);
                    if let Some(name) = name {
                        let place = call.filter(|(called, _)| called == name).map(|(_, place)| place.to_owned());
                        ids.named.push((item.place.clone(), place));
                    }
                    let called = call.map(|(called, _)| called).or(*name).unwrap_or("unknown");
                    let id = answered.map(|(id, ..)| id).or_else(|| call_id.map(str::to_owned));
                    let id = id.unwrap_or_else(|| format!("call_{}", ids.by_place.len()));
                    ids.by_place.insert(item.place.clone(), (id, called));
                }
                _ => {}
            }
        }
        ids
    }

    /// Results that name their tool, with the place of the call that does too: formats that name tools in calls alone need that one.
    pub(super) fn named(&self) -> &[(String, Option<String>)] {
        &self.named
    }

    /// The id and the tool's name of a call or result.
    pub(super) fn at(&self, place: &str) -> (String, &'a str) {
        self.by_place.get(place).cloned().unwrap_or_else(|| ("call_unknown".to_owned(), "unknown"))
    }
}

/// An id as Anthropic and Converse take it: letters, digits, `_`, `-`, at most 64 of them.
pub(super) fn plain_id(id: &str) -> String {
    let plain: String = id.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' }).collect();
    if plain == id && (1..=64).contains(&id.len()) {
        return plain;
    }
    format!("{}_{:08x}", &plain[..plain.len().min(55)], XxHash3_64::oneshot(id.as_bytes()) & 0xFFFF_FFFF)
}
