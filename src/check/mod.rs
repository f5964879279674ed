//! Is this history one that its provider takes? Findings a machine can read, and repairs that invent nothing.
//!
//! Reads views; used by compaction before and after, and by the edges. Rules are grouped by concept, one file each.
//! An `error` is what the provider refuses (HTTP 400); a `warning` is taken but likely a mistake. Every finding names its
//! rule, its place and, where something can be done, the repair. Guards invariant 7.

mod content;
mod pairs;
mod reasoning;
mod repair;
mod roles;

pub use repair::{Repaired, repair};

use crate::error::{Error, Kind};
use crate::format::{Conversation, Edit, Format, ItemBody, Message, Place, Request, Role};
use serde_json::{Value, json};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The provider takes it, but it is likely a mistake.
    Warning,
    /// The provider refuses it.
    Error,
}

impl Severity {
    /// The name used on the wire and in JSON output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A way to mend a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// What it does, for a person.
    pub what: &'static str,
    /// The edits that do it.
    pub edits: Vec<Edit>,
}

/// One thing that is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule's name, stable: `orphan_call`, `results_not_first`, …
    pub rule: &'static str,
    /// Where (JSON Pointer).
    pub path: Place,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong and what is expected.
    pub message: String,
    /// How to mend it without inventing content, if that is possible.
    pub fix: Option<Fix>,
}

impl Finding {
    pub(self) fn error(rule: &'static str, path: impl Into<Place>, message: impl Into<String>) -> Self {
        Self { rule, path: path.into(), severity: Severity::Error, message: message.into(), fix: None }
    }

    pub(self) fn warning(rule: &'static str, path: impl Into<Place>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(rule, path, message) }
    }

    pub(self) fn fix(mut self, what: &'static str, edits: Vec<Edit>) -> Self {
        self.fix = Some(Fix { what, edits });
        self
    }

    /// The finding as JSON: `rule`, `path`, `severity`, `message`, `repair` (text or null).
    pub fn to_json(&self) -> Value {
        json!({
            "rule": self.rule,
            "path": self.path,
            "severity": self.severity.as_str(),
            "message": self.message,
            "repair": self.fix.as_ref().map(|fix| fix.what),
        })
    }
}

/// All findings, in order of place. `model` settles rules that differ by model; without it the body's own is taken.
///
/// A body that its format's reader refuses has one finding, `shape`.
///
/// ```
/// let body = br#"{"messages": [{"role": "tool", "tool_call_id": "c1", "content": "4"}]}"#;
/// let request = plimsoll::Request::parse(body, plimsoll::Format::Chat)?;
/// assert!(plimsoll::check(&request, None).iter().any(|finding| finding.rule == "orphan_result"));
/// # Ok::<(), plimsoll::Error>(())
/// ```
pub fn check(request: &Request, model: Option<&str>) -> Vec<Finding> {
    match request.conversation() {
        Ok(conversation) => check_conversation(request, &conversation, model),
        Err(error) => vec![shape(&error)],
    }
}

/// As [`check`], for a view already made.
pub(crate) fn check_conversation(request: &Request, conversation: &Conversation<'_>, model: Option<&str>) -> Vec<Finding> {
    if conversation.format == Format::Mcp {
        return Vec::new();
    }
    let history = History::of(request, conversation, model);
    let mut findings = Vec::new();
    roles::check(&history, &mut findings);
    pairs::check(&history, &mut findings);
    content::check(&history, &mut findings);
    reasoning::check(&history, &mut findings);
    findings
}

/// The error for a history that is refused because of its findings; `None` when none of them is an error.
pub(crate) fn refusal(findings: &[Finding]) -> Option<Error> {
    let mut errors = findings.iter().filter(|f| f.severity == Severity::Error);
    let first = errors.next()?;
    let more = errors.count();
    let tail = if more > 0 { format!(" (and {more} more)") } else { String::new() };
    Some(
        Error::new(Kind::InvalidInput, format!("the history is not valid: {}: {}{tail}; repair it first", first.rule, first.message))
            .at(first.path.clone()),
    )
}

fn shape(error: &Error) -> Finding {
    Finding::error("shape", error.path().unwrap_or_default(), error.message())
}

/// What the rules read: the listed messages and where they stand.
struct History<'c, 'a> {
    request: &'c Request,
    conversation: &'c Conversation<'a>,
    format: Format,
    model: &'c str,
    messages: Vec<&'c Message<'a>>,
}

impl<'c, 'a> History<'c, 'a> {
    fn of(request: &'c Request, conversation: &'c Conversation<'a>, model: Option<&'c str>) -> Self {
        Self {
            request,
            conversation,
            format: conversation.format,
            model: model.or(conversation.model).unwrap_or_default(),
            messages: conversation.messages.iter().filter(|m| m.listed).collect(),
        }
    }

    /// The edit that takes an item away, or its whole message when nothing else is in it.
    fn without(&self, message: &Message<'_>, gone: &[&str]) -> Vec<Edit> {
        let stays = |body: &ItemBody<'_>| match body {
            ItemBody::Text(text) => !text.trim().is_empty(),
            ItemBody::Reasoning(_) => false,
            _ => true,
        };
        let rest = message.items.iter().any(|item| !gone.contains(&item.place.as_str()) && stays(&item.body));
        if !rest || gone.contains(&message.place.as_str()) {
            return vec![Edit::Remove { place: message.place.clone() }];
        }
        // Chat refuses an empty list of calls.
        if self.format == Format::Chat {
            let calls = message.raw.get("tool_calls").and_then(Value::as_array).map_or(0, Vec::len);
            let list = format!("{}/tool_calls", message.place);
            if calls > 0 && gone.iter().filter(|place| place.starts_with(&list)).count() == calls {
                return vec![Edit::Remove { place: list }];
            }
        }
        gone.iter().map(|place| Edit::Remove { place: (*place).to_owned() }).collect()
    }
}

/// Whether a message carries results of the host's tools (and so belongs to the calls before it).
pub(crate) fn carries_results(message: &Message<'_>) -> bool {
    message.role != Role::Assistant && message.items.iter().any(|item| matches!(item.body, ItemBody::ToolResult(_)))
}
