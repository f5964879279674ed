//! Is this history one that its provider takes? Findings a machine can read, and repairs that invent nothing.
//!
//! Reads views; used by compaction before and after, and by the edges. Rules are grouped by concept, one file each.
//! An `error` is what the provider refuses (HTTP 400); a `warning` is taken but likely a mistake. Every finding names its
//! rule, its place and, where something can be done, the repair. Guards invariant 7.

mod content;
mod pairs;
mod queues;
mod reasoning;
mod repair;
mod roles;

pub(crate) use queues::Queues;
pub use repair::{Repaired, repair};

use crate::error::{Error, Kind};
use crate::format::{Conversation, Edit, Format, Item, ItemBody, Message, Place, Request, Role, Spans};
use serde_json::{Value, json};
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

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
    /// The edits that do it; findings that are mended together share them.
    pub edits: Arc<[Edit]>,
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

    pub(self) fn fix(mut self, what: &'static str, edits: impl Into<Arc<[Edit]>>) -> Self {
        self.fix = Some(Fix { what, edits: edits.into() });
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
    findings(&History::of(request, conversation, model))
}

/// Whether an edit of a sound history broke it: the first error's [`refusal`]. `untouched` names the listed messages that are as they
/// were in a history without errors; what a message holds need not be looked at again, only what stands around it.
pub(crate) fn broken_by_edits(
    request: &Request,
    conversation: &Conversation<'_>,
    model: Option<&str>,
    untouched: Vec<bool>,
) -> Option<Error> {
    let mut history = History::of(request, conversation, model);
    history.sound = untouched;
    let error = refusal(&findings(&history));
    debug_assert_eq!(
        error.as_ref().map(ToString::to_string),
        refusal(&check_conversation(request, conversation, model)).map(|e| e.to_string())
    );
    error
}

fn findings(history: &History<'_, '_>) -> Vec<Finding> {
    if history.format == Format::Mcp {
        return Vec::new();
    }
    let mut findings = Vec::new();
    roles::check(history, &mut findings);
    pairs::check(history, &mut findings);
    content::check(history, &mut findings);
    reasoning::check(history, &mut findings);
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
    /// Which messages are known to hold nothing wrong; may be shorter than the list.
    sound: Vec<bool>,
    /// Where the messages stand in the text, once a repair asks.
    spans: OnceCell<Option<Spans<'c>>>,
    /// How many items of a message (by its place) are worth keeping it for.
    worth: RefCell<HashMap<&'c str, usize>>,
    /// With how many results a message starts.
    leading: RefCell<HashMap<&'c str, usize>>,
    /// Ids of calls and results, each with the first message that has it, once a repair asks.
    ids: OnceCell<HashMap<&'c str, usize>>,
}

impl<'c, 'a> History<'c, 'a> {
    fn of(request: &'c Request, conversation: &'c Conversation<'a>, model: Option<&'c str>) -> Self {
        Self {
            request,
            conversation,
            format: conversation.format,
            model: model.or(conversation.model).unwrap_or_default(),
            messages: conversation.messages.iter().filter(|m| m.listed).collect(),
            sound: Vec::new(),
            spans: OnceCell::new(),
            worth: RefCell::default(),
            leading: RefCell::default(),
            ids: OnceCell::new(),
        }
    }

    /// The bytes at a place in the listed messages.
    fn raw(&self, place: &str) -> Option<&'c str> {
        let list = || Spans::of(self.request.text(), self.messages.first()?.place.rsplit_once('/')?.0).ok();
        match self.spans.get_or_init(list) {
            Some(spans) => spans.slice(place).ok(),
            None => self.request.raw(place).ok(),
        }
    }

    /// With how many results a message starts.
    fn leading_results(&self, message: &'c Message<'_>) -> usize {
        let count = || message.items.iter().take_while(|item| matches!(item.body, ItemBody::ToolResult(_))).count();
        *self.leading.borrow_mut().entry(message.place.as_str()).or_insert_with(count)
    }

    /// An id made of another by the first number above the last one that no call and no result before the message `end` has.
    fn free_id(&self, id: &str, last: &mut usize, end: usize) -> String {
        let find = || {
            let mut ids = HashMap::new();
            for (at, item) in self.messages.iter().enumerate().flat_map(|(at, m)| m.items.iter().map(move |item| (at, item))) {
                let id = match &item.body {
                    ItemBody::ToolCall(call) => call.id,
                    ItemBody::ToolResult(result) => result.call_id,
                    _ => None,
                };
                if let Some(id) = id {
                    ids.entry(id).or_insert(at);
                }
            }
            ids
        };
        let ids = self.ids.get_or_init(find);
        loop {
            *last += 1;
            let new = format!("{id}_{last}");
            if ids.get(new.as_str()).is_none_or(|at| *at >= end) {
                return new;
            }
        }
    }

    /// The edit that takes items away, or their whole message when nothing else is in it.
    fn without(&self, message: &'c Message<'a>, gone: &[&Item<'a>]) -> Vec<Edit> {
        let stays = |item: &Item<'_>| match &item.body {
            ItemBody::Text(text) => !text.trim().is_empty(),
            ItemBody::Reasoning(_) => false,
            _ => true,
        };
        let all = |message: &Message<'_>| message.items.iter().filter(|item| stays(item)).count();
        let all = *self.worth.borrow_mut().entry(message.place.as_str()).or_insert_with(|| all(message));
        let rest = all > gone.iter().filter(|item| stays(item)).count();
        if !rest || gone.iter().any(|item| item.place == message.place) {
            return vec![Edit::Remove { place: message.place.clone() }];
        }
        // Chat refuses an empty list of calls.
        if self.format == Format::Chat {
            let calls = message.raw.get("tool_calls").and_then(Value::as_array).map_or(0, Vec::len);
            let list = format!("{}/tool_calls", message.place);
            if calls > 0 && gone.iter().filter(|item| item.place.starts_with(&list)).count() == calls {
                return vec![Edit::Remove { place: list }];
            }
        }
        gone.iter().map(|item| Edit::Remove { place: item.place.clone() }).collect()
    }
}

/// Whether a message carries results of the host's tools (and so belongs to the calls before it).
pub(crate) fn carries_results(message: &Message<'_>) -> bool {
    message.role != Role::Assistant && message.items.iter().any(|item| matches!(item.body, ItemBody::ToolResult(_)))
}
