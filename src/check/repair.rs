//! Mending a history by its findings' own fixes, round after round, until nothing more can be mended.
//!
//! Fixes only remove, move, join, trim or name; none invents content. Those of one round never undo one another ([`Touch`]), because
//! places are of the body before the round. Many findings of one kind are mended in one round, so that a repair costs a few checks.

use super::{Finding, check};
use crate::error::Result;
use crate::format::{Conversation, Edit, Format, Request};
use std::collections::{HashMap, HashSet};

/// Rounds at most, where findings aren't more: each mends at least one finding of every message that has one.
const ROUNDS: usize = 64;
/// Where they are, as many rounds more as there are findings at first, but no more than read this many bytes of the history.
const ROUND_BYTES: usize = 256 << 20;

/// What the fixes of a round do to one message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Touch {
    /// All of it or parts of it go, nothing else.
    Removes,
    /// Messages are put before it, nothing else.
    Precedes,
    /// Values in it are written, nothing else.
    Sets,
    /// Anything else.
    Writes,
}

impl Touch {
    /// What an edit does to the message that its place is in; a message's place has `depth` keys.
    fn of(edit: &Edit, depth: usize) -> Self {
        match edit {
            Edit::Remove { .. } => Self::Removes,
            Edit::Insert { place, .. } if place.matches('/').count() <= depth => Self::Precedes,
            Edit::Insert { .. } => Self::Writes,
            Edit::Set { .. } => Self::Sets,
        }
    }

    /// Both together.
    fn and(self, other: Self) -> Self {
        if self == other { self } else { Self::Writes }
    }

    /// Whether another fix may do `other` in the same round. Results moved in a chat are messages of their own; elsewhere the second
    /// may have to join the message that the first one made. What is written has to be apart as well ([`Written`]).
    fn allows(self, other: Self, format: Format) -> bool {
        self == other
            && match self {
                Self::Removes | Self::Sets => true,
                Self::Precedes => format == Format::Chat,
                Self::Writes => false,
            }
    }
}

/// Where a round writes values.
#[derive(Default)]
struct Written<'e> {
    places: HashSet<&'e str>,
    /// All that these stand in.
    around: HashSet<&'e str>,
}

impl<'e> Written<'e> {
    /// Whether a value can be written without touching one that is written already.
    fn is_free(&self, place: &str) -> bool {
        !self.places.contains(place) && !self.around.contains(place) && !around(place).any(|outer| self.places.contains(outer))
    }

    fn add(&mut self, place: &'e str) {
        self.places.insert(place);
        self.around.extend(around(place));
    }
}

/// The places that a place stands in.
fn around(place: &str) -> impl Iterator<Item = &str> {
    place.match_indices('/').map(|(end, _)| &place[..end])
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
    // Bodies may travel in envelopes.
    let listed = |view: Conversation<'_>| Some(view.messages.iter().find(|m| m.listed)?.place.matches('/').count());
    let depth = request.conversation().ok().and_then(listed).unwrap_or(2);
    let mut rounds = None;
    loop {
        let findings = check(&request, model);
        let left = rounds.get_or_insert_with(|| ROUNDS + findings.len().min(ROUND_BYTES / request.text().len().max(1)));
        if *left == 0 {
            return Ok(Repaired { request, mended, left: findings });
        }
        *left -= 1;
        let mut touched: HashMap<&str, Touch> = HashMap::new();
        let mut written = Written::default();
        // Edits that several findings share, by where they lie, with whether they are made.
        let mut shared: HashMap<*const Edit, bool> = HashMap::new();
        let mut edits = Vec::new();
        for finding in &findings {
            let Some(fix) = &finding.fix else { continue };
            let taken = *shared.entry(fix.edits.as_ptr()).or_insert_with(|| {
                let mut touches: HashMap<&str, Touch> = HashMap::new();
                for edit in fix.edits.iter() {
                    let touch = Touch::of(edit, depth);
                    touches.entry(message_of(edit.place(), depth)).and_modify(|before| *before = before.and(touch)).or_insert(touch);
                }
                let sets = || fix.edits.iter().filter(|edit| matches!(edit, Edit::Set { .. })).map(Edit::place);
                let free = touches.iter().all(|(m, touch)| touched.get(m).is_none_or(|before| before.allows(*touch, request.format())))
                    && sets().all(|place| written.is_free(place));
                if free {
                    touched.extend(touches);
                    sets().for_each(|place| written.add(place));
                    edits.extend(fix.edits.iter().cloned());
                }
                free
            });
            if taken {
                mended.push(finding.clone());
            }
        }
        if edits.is_empty() {
            return Ok(Repaired { request, mended, left: findings });
        }
        request = request.edited(&edits).map_err(|e| e.context("mending the history"))?;
    }
}

/// The message that a place stands in: its first keys.
fn message_of(place: &str, depth: usize) -> &str {
    place.match_indices('/').nth(depth).map_or(place, |(end, _)| &place[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Severity;
    use crate::format::{ItemBody, ToolContentBody};
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use std::collections::{BTreeMap, BTreeSet};

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
    fn more_findings_than_rounds_are_mended_where_each_takes_one() {
        let calls = list(150, |k| json!({"type": "tool_use", "id": format!("t{k}"), "name": "f", "input": {}}));
        let results = list(150, |k| json!({"type": "tool_result", "tool_use_id": format!("t{k}"), "content": "x"}));
        let body = json!({"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [
            {"role": "user", "content": "go"}, {"role": "assistant", "content": calls}, {"role": "user", "content": "wait"},
            {"role": "assistant", "content": "ok"}, {"role": "user", "content": results},
        ]});
        let request = Request::parse(body.to_string().as_bytes(), Format::Anthropic).unwrap();
        let repaired = repair(&request, None).unwrap();
        assert!(repaired.left.iter().all(|finding| finding.severity != Severity::Error), "{:?}", repaired.left);
        assert_eq!(repaired.request.text(), one_by_one(&request).text());
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

    const IDS: [&str; 7] = ["", "a", "a_2", "a_2_2", "a_3", "b", "c"];

    /// A history of turns of calls and results, by the ids they carry.
    fn history(format: Format, turns: &[(Vec<usize>, Vec<usize>)]) -> Request {
        let mut messages = Vec::new();
        for (turn, (calls, results)) in turns.iter().enumerate() {
            let label = |at: usize| format!("{turn}.{at:02}");
            let (text, calls, results): (Value, Vec<Value>, Vec<Value>) = match format {
                Format::Chat => {
                    let call = |(at, id): (usize, &usize)| json!({"id": IDS[*id], "type": "function", "function": {"name": label(at), "arguments": "{}"}});
                    let result = |(at, id): (usize, &usize)| json!({"role": "tool", "tool_call_id": IDS[*id], "content": label(at)});
                    (json!("go on"), calls.iter().enumerate().map(call).collect(), results.iter().enumerate().map(result).collect())
                }
                Format::Anthropic => {
                    let call = |(at, id): (usize, &usize)| json!({"type": "tool_use", "id": IDS[*id], "name": label(at), "input": {}});
                    let result = |(at, id): (usize, &usize)| json!({"type": "tool_result", "tool_use_id": IDS[*id], "content": label(at)});
                    (json!("go on"), calls.iter().enumerate().map(call).collect(), results.iter().enumerate().map(result).collect())
                }
                _ => {
                    let call = |(at, id): (usize, &usize)| json!({"toolUse": {"toolUseId": IDS[*id], "name": label(at), "input": {}}});
                    let result =
                        |(at, id): (usize, &usize)| json!({"toolResult": {"toolUseId": IDS[*id], "content": [{"text": label(at)}]}});
                    (
                        json!([{"text": "go on"}]),
                        calls.iter().enumerate().map(call).collect(),
                        results.iter().enumerate().map(result).collect(),
                    )
                }
            };
            messages.push(json!({"role": "user", "content": text}));
            if format == Format::Chat {
                messages.push(json!({"role": "assistant", "content": "x", "tool_calls": calls}));
                messages.extend(results);
            } else {
                messages.push(json!({"role": "assistant", "content": calls}));
                messages.push(json!({"role": "user", "content": results}));
            }
            messages.push(json!({"role": "assistant", "content": text}));
        }
        let body = json!({"toolConfig": {"tools": [{"toolSpec": {"name": "f", "inputSchema": {"json": {}}}}]}, "messages": messages});
        Request::parse(body.to_string().as_bytes(), format).unwrap()
    }

    /// The ids of calls and results by turn, each under its label.
    fn ids(request: &Request) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
        let view = request.conversation().unwrap();
        let (mut calls, mut results) = (BTreeMap::new(), BTreeMap::new());
        for item in view.messages.iter().flat_map(|m| &m.items) {
            match &item.body {
                ItemBody::ToolCall(call) => drop(calls.insert(call.name.to_owned(), call.id.unwrap().to_owned())),
                ItemBody::ToolResult(result) => {
                    let text: String = result
                        .content
                        .iter()
                        .filter_map(|piece| match piece.body {
                            ToolContentBody::Text(text) => Some(text),
                            _ => None,
                        })
                        .collect();
                    results.insert(text, result.call_id.unwrap().to_owned());
                }
                _ => {}
            }
        }
        (calls, results)
    }

    fn formats() -> impl Strategy<Value = Format> {
        prop::sample::select(vec![Format::Chat, Format::Anthropic, Format::Converse])
    }

    /// Ids that a mended one never is: what orphans go first then decides no name.
    fn some_ids() -> impl Strategy<Value = Vec<usize>> {
        prop::collection::vec(prop::sample::select(vec![1_usize, 5, 6]), 1..9)
    }

    proptest! {
        #[test]
        fn shared_ids_are_told_apart_and_nothing_else_changes(
            format in formats(),
            turns in prop::collection::vec(prop::collection::vec(0..IDS.len(), 1..12), 1..4)
        ) {
            let turns: Vec<_> = turns.into_iter().map(|calls| (calls.clone(), calls)).collect();
            let request = history(format, &turns);
            let repaired = repair(&request, None).unwrap();
            let slow = one_by_one(&request);
            prop_assert_eq!(repaired.request.text(), slow.text());
            prop_assert!(repaired.left.iter().all(|f| f.severity < Severity::Error), "{:?}", repaired.left);
            let again = repair(&repaired.request, None).unwrap();
            prop_assert_eq!(again.request.text(), repaired.request.text());
            let (calls, results) = ids(&repaired.request);
            prop_assert_eq!(&calls, &results);
            let before = ids(&request).0;
            // The first call of an id in its message keeps it; what follows it on its line changes in its id alone.
            let mut met = HashSet::new();
            for (label, id) in &before {
                let turn = label.split('.').next().unwrap();
                if !id.is_empty() && met.insert((turn, id)) {
                    prop_assert_eq!(&calls[label], id);
                }
            }
            let plain = |request: &Request| {
                let mut text = request.text().to_owned();
                let (calls, results) = ids(request);
                let all: BTreeSet<String> = calls.into_values().chain(results.into_values()).collect();
                for id in all {
                    text = text.replace(&format!("d\":\"{id}\""), "d\":\"\"");
                }
                text
            };
            prop_assert_eq!(plain(&repaired.request), plain(&request));
        }

        #[test]
        fn whatever_ids_a_turn_has_rounds_mend_as_one_by_one(
            format in prop::sample::select(vec![Format::Chat, Format::Anthropic]),
            turn in (some_ids(), some_ids())
        ) {
            let request = history(format, &[turn]);
            let repaired = repair(&request, None).unwrap();
            let slow = one_by_one(&request);
            prop_assert_eq!(repaired.request.text(), slow.text());
            prop_assert!(repaired.left.iter().all(|finding| finding.fix.is_none()), "{:?}", repaired.left);
            let again = repair(&repaired.request, None).unwrap();
            prop_assert_eq!(again.request.text(), repaired.request.text());
        }
    }
}
