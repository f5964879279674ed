//! Wire formats: a request's JSON as it came, and the neutral view over it.
//!
//! One file a format parses JSON into a [`Conversation`]; edits go back as splices of the original
//! text, so that unknown fields, key order and untouched bytes survive (invariant 5). Nothing here counts.

mod anthropic;
mod chat;
mod converse;
mod detect;
mod edit;
mod edited;
mod gemini;
pub(crate) mod json;
mod mcp;
mod read;
mod responses;
mod view;

pub use detect::Detection;
pub use edit::Edit;
#[cfg(feature = "cli")]
pub(crate) use edit::slice;
pub(crate) use edit::{Spans, closing_quote, quote};
pub(crate) use edited::Edited;
pub(crate) use responses::brought_tools;
pub use view::*;

use crate::error::{Error, Kind, Result};
use serde_json::{Map, Value};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The wire format of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// OpenAI Chat Completions, and the many servers that speak it.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Anthropic,
    /// Gemini generateContent.
    Gemini,
    /// Amazon Bedrock Converse.
    Converse,
    /// An MCP `tools/list` result: tools alone, no messages.
    Mcp,
}

impl Format {
    /// All formats, in the order in which help texts list them.
    pub const ALL: [Self; 6] = [Self::Chat, Self::Responses, Self::Anthropic, Self::Gemini, Self::Converse, Self::Mcp];

    /// The format's name, as flags, JSON and the wire spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Converse => "converse",
            Self::Mcp => "mcp",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|f| f.as_str() == name).ok_or_else(|| {
            Error::new(
                Kind::InvalidInput,
                format!("unknown format `{name}`; expected one of chat, responses, anthropic, gemini, converse, mcp"),
            )
        })
    }
}

/// One provider request body, kept as the JSON it came as.
#[derive(Clone, Debug)]
pub struct Request {
    /// As it came, or written when first asked for.
    text: OnceLock<String>,
    /// Shared: prefixes are held by a store while they are counted. Of an edited request, read when it is first asked for.
    value: OnceLock<Arc<Value>>,
    format: Format,
}

impl Request {
    /// An empty body, to be replaced.
    pub(crate) fn empty() -> Self {
        Self::of(Value::Null, Format::Chat)
    }

    /// Reads a body of a known format. Checks JSON and caps only; [`Request::conversation`] checks the shape.
    ///
    /// # Errors
    /// [`Kind::InvalidInput`] with the byte offset for broken JSON or a body that isn't an object;
    /// [`Kind::LimitExceeded`] for a body over a cap.
    pub fn parse(body: &[u8], format: Format) -> Result<Self> {
        let (text, value) = json::parse(body)?;
        Self::checked(value, format).map(|request| request.written(text))
    }

    /// Reads a body and tells its format from its structure.
    ///
    /// # Errors
    /// As [`Request::parse`], and [`Kind::InvalidInput`] when the body belongs to no known format.
    pub fn detect(body: &[u8]) -> Result<(Self, Detection)> {
        let (text, value) = json::parse(body)?;
        let detection = detect::detect(&value)?;
        Ok((Self::of(value, detection.format).written(text), detection))
    }

    /// Takes a body that is parsed already; its text becomes the value's compact form.
    ///
    /// # Errors
    /// [`Kind::InvalidInput`] for a body that isn't an object.
    pub fn from_value(value: Value, format: Format) -> Result<Self> {
        Self::checked(value, format)
    }

    /// As [`Request::from_value`], with the format told from its structure.
    ///
    /// # Errors
    /// [`Kind::InvalidInput`] when the body belongs to no known format.
    pub fn detect_value(value: Value) -> Result<(Self, Detection)> {
        let detection = detect::detect(&value)?;
        Ok((Self::of(value, detection.format), detection))
    }

    fn of(value: Value, format: Format) -> Self {
        Self { text: OnceLock::new(), value: Arc::new(value).into(), format }
    }

    /// A body of a text that is known to be one of the format.
    fn of_text(text: String, format: Format) -> Self {
        Self { text: text.into(), value: OnceLock::new(), format }
    }

    fn written(self, text: String) -> Self {
        Self { text: text.into(), ..self }
    }

    fn checked(value: Value, format: Format) -> Result<Self> {
        if !(value.is_object() || format == Format::Mcp && value.is_array()) {
            return Err(Error::invalid("", format!("expected a JSON object, found {}", kind_of(&value))));
        }
        Ok(Self::of(value, format))
    }

    /// The wire format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The body exactly as it came; of one that came parsed, its compact form, written at the first call.
    pub fn text(&self) -> &str {
        self.text.get_or_init(|| self.value().to_string())
    }

    /// The parsed body. A request that compaction made is parsed when this is first asked for.
    pub fn value(&self) -> &Value {
        // One of the two is always there.
        self.value.get_or_init(|| Arc::new(self.text.get().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()))
    }

    /// The format-neutral view.
    ///
    /// # Errors
    /// [`Kind::InvalidInput`] with the JSON Pointer of whatever breaks the format's shape.
    pub fn conversation(&self) -> Result<Conversation<'_>> {
        match self.format {
            Format::Chat => chat::view(self),
            Format::Responses => responses::view(self),
            Format::Anthropic => anthropic::view(self),
            Format::Gemini => gemini::view(self),
            Format::Converse => converse::view(self),
            Format::Mcp => mcp::view(self),
        }
    }
}

/// Reads one message of a format's list; `body` is the object that holds the list.
fn message<'a>(
    format: Format,
    body: &'a Map<String, Value>,
    raw: &'a Value,
    (index, place): (usize, Place),
    unbounded: &mut Vec<Unbounded>,
) -> Result<Message<'a>> {
    match format {
        Format::Chat => chat::message(raw, index, place),
        Format::Responses => responses::item(raw, index, place, unbounded),
        Format::Anthropic => anthropic::message(raw, index, place, unbounded),
        Format::Gemini => gemini::message(raw, place, Some(index), gemini::resolution(&read::Fields { map: body, place: "" })?),
        Format::Converse => converse::message(raw, index, place, unbounded),
        Format::Mcp => Err(Error::invalid(place, "a tool list holds no messages")),
    }
}

/// The JSON type's name, for messages.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
