//! The one error type of the crate: opaque, one word wide, able to grow without breaking callers.
//!
//! Every layer raises it; callers branch on [`Kind`] and print the rest. An error says what is wrong,
//! where in the body (JSON Pointer or byte offset), and what was expected. It may name fields, types and
//! sizes; it may not carry a user's content beyond a short identifier such as a tool or model name.

use std::fmt;

/// What sort of failure this is. Small enough to memorise; new kinds may be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The input is malformed or breaks a rule of its format.
    InvalidInput,
    /// The model isn't in the table and the caller gave no limits for it.
    UnknownModel,
    /// The request does not fit, or can't be made to fit.
    OverBudget,
    /// A page, plan, model or file that was named does not exist.
    NotFound,
    /// The state does not allow this now: an id used twice, an unknown prefix id.
    Conflict,
    /// A cap of [`crate::limits`] or a configured quota was passed.
    LimitExceeded,
    /// Something needed is not there at the moment: a store, a vocabulary, an endpoint.
    Unavailable,
    /// Stored data is damaged.
    Corrupt,
    /// The request is understood, but this build or version can't do it.
    Unsupported,
    /// A defect in this crate.
    Internal,
}

impl Kind {
    /// The name used on the wire and in JSON output (`snake_case`).
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidInput => "invalid_input",
            Self::UnknownModel => "unknown_model",
            Self::OverBudget => "over_budget",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::LimitExceeded => "limit_exceeded",
            Self::Unavailable => "unavailable",
            Self::Corrupt => "corrupt",
            Self::Unsupported => "unsupported",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The crate's result type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, where, and of which [`Kind`].
///
/// ```
/// let error = plimsoll::Request::parse(b"{\"messages\":", plimsoll::Format::Chat).unwrap_err();
/// assert_eq!(error.kind(), plimsoll::Kind::InvalidInput);
/// assert_eq!(error.offset(), Some(12));
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    message: String,
    path: Option<String>,
    offset: Option<u64>,
    context: Vec<String>,
    suggestions: Vec<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind`; `message` says what is wrong and what was expected.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            path: None,
            offset: None,
            context: Vec::new(),
            suggestions: Vec::new(),
            source: None,
        }))
    }

    /// Shorthand for [`Kind::InvalidInput`] at a place in the body (JSON Pointer, `""` for the whole).
    pub fn invalid(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Kind::InvalidInput, message).at(path)
    }

    /// Names the place in the body, as a JSON Pointer (RFC 6901). The innermost place given first wins.
    #[must_use]
    pub fn at(mut self, path: impl Into<String>) -> Self {
        self.0.path.get_or_insert_with(|| path.into());
        self
    }

    /// Names the place in the body, in bytes from its start.
    #[must_use]
    pub fn at_offset(mut self, offset: u64) -> Self {
        self.0.offset = Some(offset);
        self
    }

    /// Adds what was being done; printed before the message, the outermost first.
    #[must_use]
    pub fn context(mut self, doing: impl Into<String>) -> Self {
        self.0.context.push(doing.into());
        self
    }

    /// Adds near names or other values that would have been accepted.
    #[must_use]
    pub fn suggest(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.0.suggestions.extend(names);
        self
    }

    /// Keeps the lower error for [`std::error::Error::source`].
    #[must_use]
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(Box::new(source));
        self
    }

    /// What sort of failure this is.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// What is wrong and what was expected, without the place.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The place in the body as a JSON Pointer, when known.
    pub fn path(&self) -> Option<&str> {
        self.0.path.as_deref()
    }

    /// The place in the body in bytes, when known.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// The error as JSON: `{"kind","message"}`, and `path`, `offset`, `suggestions` where known.
    pub fn to_json(&self) -> serde_json::Value {
        let mut out = serde_json::Map::new();
        out.insert("kind".into(), self.kind().as_str().into());
        let mut message = String::new();
        for doing in self.0.context.iter().rev() {
            message.push_str(doing);
            message.push_str(": ");
        }
        message.push_str(self.message());
        out.insert("message".into(), message.into());
        out.insert("path".into(), self.path().into());
        if let Some(offset) = self.offset() {
            out.insert("offset".into(), offset.into());
        }
        if !self.suggestions().is_empty() {
            out.insert("suggestions".into(), self.suggestions().into());
        }
        serde_json::Value::Object(out)
    }

    /// Near names or accepted values, best first.
    pub fn suggestions(&self) -> &[String] {
        &self.0.suggestions
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for doing in self.0.context.iter().rev() {
            write!(f, "{doing}: ")?;
        }
        f.write_str(&self.0.message)?;
        if let Some(path) = self.0.path.as_deref() {
            write!(f, " (at {})", if path.is_empty() { "the top level" } else { path })?;
        }
        if let Some(offset) = self.0.offset {
            write!(f, " (byte {offset})")?;
        }
        if !self.0.suggestions.is_empty() {
            write!(f, "; did you mean {}?", self.0.suggestions.join(", "))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({}: {self})", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|e| e as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_wide() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
        assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
    }

    #[test]
    fn prints_context_outermost_first_and_the_innermost_place() {
        let error = Error::invalid("/messages/2", "expected a string, found a number")
            .at("/messages")
            .context("reading messages")
            .context("counting request.json");
        assert_eq!(error.to_string(), "counting request.json: reading messages: expected a string, found a number (at /messages/2)");
        assert_eq!(error.path(), Some("/messages/2"));
    }
}
