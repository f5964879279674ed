//! Finish reasons of every provider in one normal form, with what a host should do next.
//!
//! Called by the readers of whole answers. The raw reason is always kept; one that the table
//! (`data/finish_reasons.json`, dated) doesn't know is flagged, never guessed to mean `stop`.

use crate::format::Format;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Why the model stopped, in the normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// It said all it wanted to.
    Stop,
    /// It wants tools to be run.
    ToolCalls,
    /// It was cut by a limit.
    Length,
    /// It was stopped by a filter, or refused.
    ContentFilter,
    /// The provider's reason isn't in the table.
    Unknown,
}

impl Reason {
    /// The name used on the wire and in JSON output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::ToolCalls => "tool_calls",
            Self::Length => "length",
            Self::ContentFilter => "content_filter",
            Self::Unknown => "unknown",
        }
    }

    fn by_name(name: &str) -> Self {
        [Self::Stop, Self::ToolCalls, Self::Length, Self::ContentFilter].into_iter().find(|r| r.as_str() == name).unwrap_or(Self::Unknown)
    }
}

/// What a host should do with the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// Show the text; the turn is done.
    Show,
    /// Let the gate judge the calls, run what it allows, send the results.
    RunTools,
    /// The text was cut: ask for the rest (see [`crate::turn::Continuation`]).
    ContinueText,
    /// A call was cut or is malformed: don't run it, say so to the model, ask again.
    RefusePartialCall,
    /// Nothing that can be repaired by asking again: tell the user.
    TellUser,
    /// The window is full: compact the history and ask again.
    CompactAndRetry,
    /// The provider paused its own work: send the answer back as it is and go on.
    Resume,
    /// The provider failed in mid-answer: send the same request again.
    Retry,
}

impl Action {
    /// Every action.
    pub const ALL: [Self; 8] = [
        Self::Show,
        Self::RunTools,
        Self::ContinueText,
        Self::RefusePartialCall,
        Self::TellUser,
        Self::CompactAndRetry,
        Self::Resume,
        Self::Retry,
    ];

    /// The name used on the wire and in JSON output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Show => "show",
            Self::RunTools => "run_tools",
            Self::ContinueText => "continue_text",
            Self::RefusePartialCall => "refuse_partial_call",
            Self::TellUser => "tell_user",
            Self::CompactAndRetry => "compact_and_retry",
            Self::Resume => "resume",
            Self::Retry => "retry",
        }
    }
}

/// How one choice ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finish {
    /// The normal form.
    pub reason: Reason,
    /// The provider's own word, as it came; `None` when it gave none.
    pub raw: Option<String>,
    /// Whether the raw reason is in the table; false also when it is missing and was inferred.
    pub known: bool,
    /// What to do next.
    pub action: Action,
}

/// What the choice holds, as far as the action depends on it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    pub(crate) calls: bool,
    pub(crate) text: bool,
}

struct Row {
    reason: Reason,
    action: Option<Action>,
}

static TABLE: LazyLock<HashMap<(String, String), Row>> = LazyLock::new(|| {
    // The file is part of the crate and a test reads every row: a broken row is left out, not a panic.
    let file: Value = serde_json::from_str(include_str!("../../data/finish_reasons.json")).unwrap_or_default();
    let rows = file.get("rows").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    rows.iter()
        .filter_map(|row| {
            let word = |n: usize| row.get(n).and_then(Value::as_str);
            let action = word(3).and_then(|name| Action::ALL.into_iter().find(|a| a.as_str() == name));
            Some(((word(0)?.to_owned(), word(1)?.to_owned()), Row { reason: Reason::by_name(word(2)?), action }))
        })
        .collect()
});

impl Finish {
    /// Normalizes the raw reason of a choice of `format` that holds `held`.
    pub(crate) fn of(raw: Option<&str>, format: Format, held: Held) -> Self {
        let Some(word) = raw.filter(|word| !word.is_empty()) else {
            // Some hosts send none at all. What the choice holds says what was meant, but it stays flagged.
            let reason = if held.calls { Reason::ToolCalls } else { Reason::Stop };
            return Self { reason, raw: raw.map(str::to_owned), known: false, action: natural(reason, held) };
        };
        let key = |scope: &str| (scope.to_owned(), word.to_owned());
        let row = TABLE.get(&key(format.as_str())).or_else(|| TABLE.get(&key("*")));
        let (reason, action) = row.map_or((Reason::Unknown, None), |row| (row.reason, row.action));
        // Gemini, and some servers of the chat format, say `stop` beside calls.
        let reason = if reason == Reason::Stop && action.is_none() && held.calls { Reason::ToolCalls } else { reason };
        let action = action.unwrap_or_else(|| natural(reason, held));
        Self { reason, raw: Some(word.to_owned()), known: row.is_some(), action }
    }
}

/// What a reason means for a host when the table says nothing special.
const fn natural(reason: Reason, held: Held) -> Action {
    match reason {
        Reason::Stop if !held.calls => Action::Show,
        Reason::Stop => Action::RunTools,
        Reason::ToolCalls if held.calls => Action::RunTools,
        Reason::Length if held.calls => Action::RefusePartialCall,
        Reason::Length if held.text => Action::ContinueText,
        // Cut before the first visible word: reasoning ate the grant, so make room and ask again.
        Reason::Length => Action::CompactAndRetry,
        Reason::ToolCalls | Reason::ContentFilter | Reason::Unknown => Action::TellUser,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_is_read() {
        let file: Value = serde_json::from_str(include_str!("../../data/finish_reasons.json")).unwrap();
        let rows = file["rows"].as_array().unwrap();
        assert_eq!(TABLE.len(), rows.len());
        for row in rows {
            assert_ne!(Reason::by_name(row[2].as_str().unwrap()), Reason::Unknown, "{row}");
            if let Some(action) = row.get(3) {
                assert!(Action::ALL.iter().any(|a| a.as_str() == action), "{row}");
            }
        }
    }

    #[test]
    fn normal_forms_and_actions() {
        let call = Held { calls: true, text: false };
        let text = Held { calls: false, text: true };
        let cases = [
            ("stop", Format::Chat, text, Reason::Stop, Action::Show),
            ("STOP", Format::Gemini, call, Reason::ToolCalls, Action::RunTools),
            ("1", Format::Gemini, text, Reason::Stop, Action::Show),
            ("length", Format::Chat, text, Reason::Length, Action::ContinueText),
            ("max_tokens", Format::Anthropic, call, Reason::Length, Action::RefusePartialCall),
            ("length", Format::Chat, Held::default(), Reason::Length, Action::CompactAndRetry),
            ("model_context_window_exceeded", Format::Anthropic, text, Reason::Length, Action::CompactAndRetry),
            ("pause_turn", Format::Anthropic, text, Reason::Stop, Action::Resume),
            ("guardrail_intervened", Format::Converse, text, Reason::ContentFilter, Action::TellUser),
            ("MALFORMED_FUNCTION_CALL", Format::Gemini, Held::default(), Reason::ToolCalls, Action::RefusePartialCall),
        ];
        for (raw, format, held, reason, action) in cases {
            let finish = Finish::of(Some(raw), format, held);
            assert_eq!((finish.reason, finish.action, finish.known), (reason, action, true), "{raw}");
            assert_eq!(finish.raw.as_deref(), Some(raw));
        }
    }

    #[test]
    fn unknown_and_missing_are_flagged() {
        let unknown = Finish::of(Some("tired"), Format::Chat, Held { calls: true, text: true });
        assert_eq!((unknown.reason, unknown.known, unknown.action), (Reason::Unknown, false, Action::TellUser));
        assert_eq!(unknown.raw.as_deref(), Some("tired"));
        let missing = Finish::of(Some(""), Format::Chat, Held { calls: true, text: false });
        assert_eq!((missing.reason, missing.known), (Reason::ToolCalls, false));
        assert_eq!(Finish::of(Some("1"), Format::Chat, Held::default()).reason, Reason::Unknown);
    }
}
