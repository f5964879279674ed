//! Mending a history by its findings' own fixes, round after round, until nothing more can be mended.
//!
//! Fixes only remove, move, join, trim or name; none invents content. Those of one round never undo one another ([`Touch`]), because
//! places are of the body before the round. Many findings of one kind are mended in one round, so that a repair costs a few checks.

use super::{Finding, check};
use crate::error::Result;
use crate::format::{Conversation, Edit, Format, Request};
use std::collections::HashMap;

/// Rounds at most: each mends at least one finding of every message that has one.
const ROUNDS: usize = 64;

/// What the fixes of a round do to one message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Touch {
    /// All of it or parts of it go, nothing else.
    Removes,
    /// Messages are put before it, nothing else.
    Precedes,
    /// Anything else.
    Writes,
}

impl Touch {
    /// What an edit does to the message that its place is in; `depth` keys name a message.
    fn of(edit: &Edit, depth: usize) -> Self {
        match edit {
            Edit::Remove { .. } => Self::Removes,
            Edit::Insert { place, .. } if place.split('/').count() <= depth => Self::Precedes,
            _ => Self::Writes,
        }
    }

    /// Both together.
    fn and(self, other: Self) -> Self {
        if self == other { self } else { Self::Writes }
    }

    /// Whether another fix may do `other` in the same round. Results moved in a chat are messages of their own; elsewhere the second
    /// may have to join the message that the first one made.
    fn allows(self, other: Self, format: Format) -> bool {
        self == other && (self == Self::Removes || self == Self::Precedes && format == Format::Chat)
    }
}

/// What a repair did.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// The mended request; the same text when nothing was done.
    pub request: Request,
    /// What was mended, in order.
    pub mended: Vec<Finding>,
    /// What is left.
    pub left: Vec<Finding>,
}

/// Mends what can be mended without inventing content. The same input gives the same bytes.
///
/// # Errors
/// [`crate::Kind::Internal`] when a fix can't be applied (a defect of this crate).
pub fn repair(request: &Request, model: Option<&str>) -> Result<Repaired> {
    let mut request = request.clone();
    let mut mended = Vec::new();
    // Keys that name a message, the empty one before the first slash among them: bodies may travel in envelopes.
    let listed = |view: Conversation<'_>| Some(view.messages.iter().find(|m| m.listed)?.place.split('/').count());
    let depth = request.conversation().ok().and_then(listed).unwrap_or(3);
    for _ in 0..ROUNDS {
        let mut touched: HashMap<String, Touch> = HashMap::new();
        // Edits that several findings share, by where they lie, with whether they are made.
        let mut shared: HashMap<*const Edit, bool> = HashMap::new();
        let mut edits = Vec::new();
        let findings = check(&request, model);
        for finding in &findings {
            let Some(fix) = &finding.fix else { continue };
            let taken = *shared.entry(fix.edits.as_ptr()).or_insert_with(|| {
                let mut touches: HashMap<String, Touch> = HashMap::new();
                for edit in fix.edits.iter() {
                    let touch = Touch::of(edit, depth);
                    touches.entry(message_of(edit.place(), depth)).and_modify(|before| *before = before.and(touch)).or_insert(touch);
                }
                let free = touches.iter().all(|(m, touch)| touched.get(m).is_none_or(|before| before.allows(*touch, request.format())));
                if free {
                    touched.extend(touches);
                    edits.extend(fix.edits.iter().cloned());
                }
                free
            });
            if taken {
                mended.push(finding.clone());
            }
        }
        if edits.is_empty() {
            break;
        }
        request = request.edited(&edits).map_err(|e| e.context("mending the history"))?;
    }
    let left = check(&request, model);
    Ok(Repaired { request, mended, left })
}

/// The message that a place stands in: its first keys.
fn message_of(place: &str, depth: usize) -> String {
    place.split('/').take(depth).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// One fix at a time, the first that there is.
    fn one_by_one(request: &Request) -> Request {
        let mut request = request.clone();
        for _ in 0..2_000 {
            let fix = check(&request, None).into_iter().find_map(|finding| finding.fix);
            let Some(fix) = fix else { break };
            request = request.edited(&fix.edits).unwrap();
        }
        request
    }

    fn list(n: usize, item: impl Fn(usize) -> Value) -> Vec<Value> {
        (0..n).map(item).collect()
    }

    #[test]
    fn many_findings_of_a_kind_are_mended_as_one_by_one() {
        let user = |text: &str| json!({"role": "user", "content": text});
        let call = |at: usize| json!({"id": format!("c{at}"), "type": "function", "function": {"name": "f", "arguments": "{}"}});
        let result = |at: usize| json!({"role": "tool", "tool_call_id": format!("c{at}"), "content": format!("r{at}")});
        let chat = |parts: Vec<Vec<Value>>| (Format::Chat, json!({"messages": parts.concat()}));
        let assistant = |n: usize| json!({"role": "assistant", "content": "x", "tool_calls": list(n, call)});
        let block = |at: usize| json!({"type": "tool_result", "tool_use_id": format!("c{at}"), "content": "r"});
        let text = |text: &str| json!({"type": "text", "text": text});
        let blocks = |assistant: Vec<Value>, user: Vec<Value>| {
            let messages =
                json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": assistant}, {"role": "user", "content": user}]);
            (Format::Anthropic, json!({"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": messages}))
        };
        let part = |at: usize| json!({"functionResponse": {"name": "f", "response": {"r": at}}});
        let contents = json!([{"role": "user", "parts": [{"text": "a"}]}, {"role": "user", "parts": list(100, part)}]);
        for (format, body) in [
            // Results that stand behind a user's words, orphans of both kinds, and several sorts at once.
            chat(vec![vec![user("a"), assistant(150), user("b")], list(150, result), vec![user("c")]]),
            chat(vec![vec![user("a")], list(150, result), vec![user("c")]]),
            chat(vec![vec![user("a"), assistant(150), user("b")], list(40, |at| result(at * 3)), list(9, result), vec![user("c")]]),
            blocks(vec![text("x")], [list(150, block), vec![text("b")]].concat()),
            blocks([list(99, |_| text("")), vec![text("x")]].concat(), [vec![text("b")], list(80, |_| text(" "))].concat()),
            (Format::Gemini, json!({"contents": contents})),
            (Format::Gemini, json!({"request": {"contents": contents}})),
        ] {
            let request = Request::parse(body.to_string().as_bytes(), format).unwrap();
            let repaired = repair(&request, None).unwrap();
            assert_eq!(repaired.request.text(), one_by_one(&request).text());
            assert!(repaired.left.iter().all(|finding| finding.fix.is_none()), "{:?}", repaired.left);
            assert!(repaired.mended.len() >= 49);
        }
    }
}
