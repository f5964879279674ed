//! Whole responses, one file a format: JSON to a [`Turn`].
//!
//! Called for bodies that came in one piece and for the bodies that the assemblers put together. Lenient on
//! surplus fields, never on what decides whether a call may be run.

mod anthropic;
mod chat;
mod converse;
mod gemini;
mod responses;

use super::answer::{Call, Choice, Turn};
use super::fault::{Fault, FaultKind};
use super::finish::{Finish, Held};
use super::peek;
use crate::error::{Error, Kind, Result};
use crate::format::Format;
use crate::usage::Usage;
use serde_json::Value;

/// What a reader gathers of one choice.
#[derive(Default)]
struct Gathered {
    text: String,
    reasoning: String,
    refusal: Option<String>,
    calls: Vec<Call>,
}

impl Gathered {
    fn choice(self, index: u64, message: Value, raw: Option<&str>, format: Format) -> Choice {
        let held = Held { calls: !self.calls.is_empty(), text: !self.text.is_empty() };
        let finish = Finish::of(raw, format, held);
        Choice { index, message, text: self.text, reasoning: self.reasoning, refusal: self.refusal, calls: self.calls, finish }
    }
}

impl Turn {
    /// Reads a whole response body of `format`.
    ///
    /// A body that reports an error instead of an answer is a turn without choices and with a fault.
    ///
    /// ```
    /// use plimsoll::{Format, turn::{Reason, Turn}};
    /// let body = serde_json::json!({"choices": [{"index": 0, "finish_reason": "stop",
    ///     "message": {"role": "assistant", "content": "Hello"}}], "usage": {"prompt_tokens": 8, "completion_tokens": 1}});
    /// let turn = Turn::read(&body, Format::Chat)?;
    /// assert_eq!(turn.choices[0].text, "Hello");
    /// assert_eq!(turn.choices[0].finish.reason, Reason::Stop);
    /// # Ok::<(), plimsoll::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Kind::InvalidInput`] when the body isn't a JSON object; [`Kind::Unsupported`] for `mcp`.
    pub fn read(body: &Value, format: Format) -> Result<Self> {
        if !body.is_object() {
            return Err(Error::invalid("", format!("expected a JSON object, found {}", crate::format::kind_of(body))));
        }
        if format == Format::Mcp {
            return Err(Error::new(Kind::Unsupported, "an MCP tool list is no answer of a model"));
        }
        let mut turn = Self::read_parts(body, format);
        if turn.choices.is_empty() && turn.error().is_none() {
            turn.fault(Fault::new(FaultKind::Malformed, format!("the body holds no answer in the {format} format")));
        }
        turn.flag_gaps();
        Ok(turn)
    }

    /// Reads what a body holds, complete or not, without judging what it lacks.
    pub(crate) fn read_parts(body: &Value, format: Format) -> Self {
        let mut turn = Self::empty(format);
        turn.ended_well = true;
        if let Some(error) = peek::some(body, "error") {
            turn.fault(Fault::provider(error));
        }
        match format {
            Format::Chat => chat::read(body, &mut turn),
            Format::Responses => responses::read(body, &mut turn),
            Format::Anthropic => anthropic::read(body, &mut turn),
            Format::Gemini => gemini::read(body, &mut turn),
            Format::Converse => converse::read(body, &mut turn),
            Format::Mcp => {}
        }
        turn
    }
}

fn usage(turn: &mut Turn, body: &Value, key: &str) {
    turn.usage = peek::some(body, key).and_then(|raw| Usage::read(raw, turn.format));
}

fn owned(text: Option<&str>) -> Option<String> {
    text.map(str::to_owned)
}
