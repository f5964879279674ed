//! What was wrong with an answer on its way: typed, with the byte offset where one is known.
//!
//! Made by the event reader and the assemblers; read by the gate (a fatal fault means that nothing may be
//! run) and by hosts. A fault never discards what was assembled before it, and carries none of the content.

use crate::error::{Error, Kind};
use serde_json::Value;

/// What sort of fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// The stream ended before its end was announced.
    Truncated,
    /// The provider reported an error, in mid-stream or instead of an answer.
    Provider,
    /// An event isn't valid JSON, or has the wrong shape.
    Malformed,
    /// Bytes that aren't UTF-8.
    Encoding,
    /// A line, an event or the answer passed a cap of [`crate::limits`].
    TooLarge,
    /// An index was used for two different things.
    DuplicateIndex,
    /// A piece came for something that wasn't begun, or was finished.
    OutOfOrder,
    /// Content after the announced end.
    AfterEnd,
    /// The stream ended well but reported no usage.
    UsageMissing,
    /// The answer ended well but gave no finish reason.
    FinishMissing,
    /// An event type that isn't known; kept out of the message.
    UnknownEvent,
    /// A checksum of a binary frame does not hold.
    Checksum,
}

impl FaultKind {
    /// The name used on the wire and in JSON output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::Provider => "provider",
            Self::Malformed => "malformed",
            Self::Encoding => "encoding",
            Self::TooLarge => "too_large",
            Self::DuplicateIndex => "duplicate_index",
            Self::OutOfOrder => "out_of_order",
            Self::AfterEnd => "after_end",
            Self::UsageMissing => "usage_missing",
            Self::FinishMissing => "finish_missing",
            Self::UnknownEvent => "unknown_event",
            Self::Checksum => "checksum",
        }
    }

    /// Whether the answer can't be trusted to be whole: nothing of it may be run.
    pub const fn is_fatal(self) -> bool {
        !matches!(self, Self::UsageMissing | Self::FinishMissing | Self::UnknownEvent | Self::DuplicateIndex)
    }

    const fn error_kind(self) -> Kind {
        match self {
            Self::TooLarge => Kind::LimitExceeded,
            Self::Provider => Kind::Unavailable,
            _ => Kind::InvalidInput,
        }
    }
}

/// One thing that was wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// What sort.
    pub kind: FaultKind,
    /// What was found and what was expected; for [`FaultKind::Provider`] the provider's own message.
    pub message: String,
    /// Bytes from the start of the stream to the event or byte at fault, when known.
    pub offset: Option<u64>,
    /// Whether nothing of the answer may be run.
    pub fatal: bool,
    /// The provider's error object, for [`FaultKind::Provider`].
    pub detail: Option<Value>,
}

impl Fault {
    pub(crate) fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), offset: None, fatal: kind.is_fatal(), detail: None }
    }

    pub(crate) fn at(mut self, offset: u64) -> Self {
        self.offset.get_or_insert(offset);
        self
    }

    /// The provider's error, from its error object (or whatever came in its place).
    pub(crate) fn provider(detail: &Value) -> Self {
        let message = detail
            .get("message")
            .or_else(|| detail.get("error").and_then(|inner| inner.get("message").or(Some(inner))))
            .and_then(Value::as_str)
            .or_else(|| detail.as_str())
            .unwrap_or("the provider reported an error without a message");
        Self { detail: Some(detail.clone()), ..Self::new(FaultKind::Provider, message) }
    }

    /// The fault as the crate's error.
    pub fn to_error(&self) -> Error {
        let error = Error::new(self.kind.error_kind(), format!("{}: {}", self.kind.as_str(), self.message));
        match self.offset {
            Some(offset) => error.at_offset(offset),
            None => error,
        }
    }

    /// The fault as JSON: `kind`, `message`, `offset`, `fatal`, and `detail` where there is one.
    pub fn to_json(&self) -> Value {
        let mut json = serde_json::json!({"kind": self.kind.as_str(), "message": self.message, "offset": self.offset, "fatal": self.fatal});
        if let (Some(detail), Some(map)) = (&self.detail, json.as_object_mut()) {
            map.insert("detail".to_owned(), detail.clone());
        }
        json
    }
}
