//! Streamed answers put together, one file a format: events in, the whole response body out.
//!
//! Called by [`super::Stream`] alone. The body an assembler gives has the shape of that format's whole response, so
//! that one reader serves both ways. An assembler knows whether the end was announced; it never decides what may be run.

mod anthropic;
mod chat;
mod converse;
mod gemini;
mod partial;
mod responses;

use super::fault::{Fault, FaultKind};
use super::tally::{Lane, Tally};
use crate::error::{Error, Kind, Result};
use crate::format::Format;
use crate::limits;
use serde_json::Value;

/// What an assembler may touch beside itself while it takes an event.
pub(super) struct Intake<'a> {
    pub(super) tally: &'a mut Tally,
    pub(super) faults: &'a mut Vec<Fault>,
    pub(super) offset: Option<u64>,
}

impl Intake<'_> {
    /// A fault that doesn't stop the assembly.
    fn note(&mut self, kind: FaultKind, message: impl Into<String>) {
        let mut fault = Fault::new(kind, message);
        fault.offset = self.offset;
        // A stream can hold any number of odd events; the first ones tell what is the matter.
        if self.faults.len() < limits::MAX_FAULTS
            && !self.faults.iter().any(|seen| seen.kind == fault.kind && seen.message == fault.message)
        {
            self.faults.push(fault);
        }
    }

    /// The provider's own error.
    pub(super) fn provider(&mut self, detail: &Value) {
        // The first one explains those that follow.
        if self.faults.iter().any(|seen| seen.kind == FaultKind::Provider) {
            return;
        }
        let mut fault = Fault::provider(detail);
        fault.offset = self.offset;
        self.faults.push(fault);
    }

    fn text(&mut self, choice: u64, lane: Lane, piece: &str) -> Result<(), Fault> {
        self.tally.push(choice, lane, piece)
    }
}

/// Puts the events of one format together.
#[derive(Clone, Debug)]
pub(super) enum Assembler {
    Chat(chat::Chat),
    Responses(responses::Responses),
    Anthropic(anthropic::Anthropic),
    Gemini(gemini::Gemini),
    Converse(converse::Converse),
}

impl Assembler {
    pub(super) fn new(format: Format) -> Result<Self> {
        Ok(match format {
            Format::Chat => Self::Chat(chat::Chat::default()),
            Format::Responses => Self::Responses(responses::Responses::default()),
            Format::Anthropic => Self::Anthropic(anthropic::Anthropic::default()),
            Format::Gemini => Self::Gemini(gemini::Gemini::default()),
            Format::Converse => Self::Converse(converse::Converse::default()),
            Format::Mcp => return Err(Error::new(Kind::Unsupported, "an MCP tool list is no answer of a model")),
        })
    }

    /// Takes the text of one event without building JSON values, where the event is of the commonest kind. False: not taken.
    pub(super) fn quick(&mut self, data: &str, intake: &mut Intake<'_>) -> Result<bool, Fault> {
        match self {
            Self::Chat(chat) => chat.quick(data, intake),
            Self::Responses(responses) => responses.quick(data, intake),
            Self::Anthropic(anthropic) => anthropic.quick(data, intake),
            Self::Gemini(_) | Self::Converse(_) => Ok(false),
        }
    }

    /// Takes one event: its JSON, and the event's name where the wire has one.
    pub(super) fn event(&mut self, name: &str, event: &Value, intake: &mut Intake<'_>) -> Result<(), Fault> {
        if !event.is_object() {
            return Err(Fault::new(FaultKind::Malformed, format!("the event is {}; expected an object", crate::format::kind_of(event))));
        }
        match self {
            Self::Chat(chat) => chat.event(event, intake),
            Self::Responses(responses) => responses.event(name, event, intake),
            Self::Anthropic(anthropic) => anthropic.event(name, event, intake),
            Self::Gemini(gemini) => gemini.event(event, intake),
            Self::Converse(converse) => converse.event(name, event, intake),
        }
    }

    /// `data: [DONE]`: the end that OpenAI's formats announce.
    pub(super) fn done(&mut self) {
        if let Self::Chat(chat) = self {
            chat.done = true;
        }
    }

    /// Whether the format's end was announced. `raw`: the events came as bytes, so that `[DONE]` could be seen.
    pub(super) fn ended(&self, raw: bool) -> bool {
        match self {
            Self::Chat(chat) => chat.ended(raw),
            Self::Responses(responses) => responses.ended(),
            Self::Anthropic(anthropic) => anthropic.ended(),
            Self::Gemini(gemini) => gemini.ended(),
            Self::Converse(converse) => converse.ended(),
        }
    }

    /// The body so far, in the shape of a whole response.
    pub(super) fn body(&self) -> Value {
        match self {
            Self::Chat(chat) => chat.body(),
            Self::Responses(responses) => responses.body(),
            Self::Anthropic(anthropic) => anthropic.body(),
            Self::Gemini(gemini) => gemini.body(),
            Self::Converse(converse) => converse.body(),
        }
    }
}

/// The slot at `index`, made (with those before it) when it isn't there yet.
fn slot<T: Default>(list: &mut Vec<T>, index: u64) -> Result<&mut T, Fault> {
    let at = usize::try_from(index).unwrap_or(usize::MAX);
    if at >= limits::MAX_ANSWER_PARTS {
        return Err(Fault::new(FaultKind::TooLarge, format!("index {index}: at most {} parts are taken", limits::MAX_ANSWER_PARTS)));
    }
    if list.len() <= at {
        list.resize_with(at + 1, T::default);
    }
    list.get_mut(at).ok_or_else(|| Fault::new(FaultKind::Malformed, "an index out of range"))
}

/// Whether a list may take one part more.
fn room(list: &[Value]) -> Result<(), Fault> {
    if list.len() >= limits::MAX_ANSWER_PARTS {
        return Err(Fault::new(FaultKind::TooLarge, format!("the answer has more than {} parts", limits::MAX_ANSWER_PARTS)));
    }
    Ok(())
}

/// The complete arguments in `text` as JSON, or the text itself when they aren't.
fn arguments(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}
