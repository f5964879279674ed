//! Calls and results: each call one result, each result its call, next to each other, in order, with sound ids.
//!
//! A result is matched to the nearest open call of its id before it, since some servers use ids again in later turns;
//! formats without ids (Gemini, legacy functions) match by name and order.

use super::{Finding, History, Queues, carries_results};
use crate::format::{Edit, Format, Item, ItemBody, Role, ToolCall, ToolResult, quote};
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use twox_hash::XxHash3_64;

/// A call that has no result yet.
struct Open<'h, 'a> {
    call: &'h ToolCall<'a>,
    item: &'h Item<'a>,
    message: usize,
    order: usize,
}

/// All calls so far; those answered are taken out.
#[derive(Default)]
struct Calls<'h, 'a> {
    all: Vec<Option<Open<'h, 'a>>>,
    by_id: Queues<&'h str>,
    /// Those without an id, by name.
    bare: Queues<&'h str>,
    by_name: Queues<&'h str>,
    of_message: Queues<usize>,
    of_message_by_name: Queues<(usize, &'h str)>,
    /// Calls before this one stand in the last three, which only results without an id need.
    queued: usize,
    /// Calls from this one on are answered.
    end: usize,
}

impl<'h, 'a> Calls<'h, 'a> {
    fn push(&mut self, open: Open<'h, 'a>) {
        let at = self.all.len();
        match open.call.id {
            Some(id) => self.by_id.push(id, at),
            None => self.bare.push(open.call.name, at),
        }
        self.all.push(Some(open));
        self.end = self.all.len();
    }

    /// Takes the nearest open call that a result answers.
    fn take(&mut self, result: &'h ToolResult<'a>) -> Option<Open<'h, 'a>> {
        if result.call_id.is_none() {
            for (at, open) in self.all.iter().enumerate().skip(self.queued) {
                let Some(Open { call, message, .. }) = open else { continue };
                self.by_name.push(call.name, at);
                self.of_message.push(*message, at);
                self.of_message_by_name.push((*message, call.name), at);
            }
            self.queued = self.all.len();
        }
        while self.end > 0 && self.all[self.end - 1].is_none() {
            self.end -= 1;
        }
        let calls = &self.all;
        let gone = |at: usize| calls[at].is_none();
        let found = match (result.call_id, result.name) {
            // Gemini clients may give ids to responses alone.
            (Some(id), name) => self.by_id.last(&id, gone).or_else(|| self.bare.first(&name?, gone)),
            (None, name) => {
                let newest = calls[..self.end].last()?.as_ref()?.message;
                match name {
                    None => self.of_message.first(&newest, gone),
                    Some(name) => self.of_message_by_name.first(&(newest, name), gone).or_else(|| self.by_name.first(&name, gone)),
                }
            }
        };
        self.all.get_mut(found?)?.take()
    }
}

/// What stands where among the messages, found once.
struct Layout<'h> {
    /// How many of the messages before each carry no results.
    plain: Vec<usize>,
    /// From each message on, the first that carries no results.
    next_plain: Vec<usize>,
    /// From each message on, the first that is not the assistant's.
    next_foreign: Vec<usize>,
    /// Ids that items other than results carry (Responses), each with the first message that does.
    ids: OnceCell<HashMap<&'h str, usize>>,
}

impl<'h> Layout<'h> {
    fn of(history: &History<'h, '_>) -> Self {
        let count = history.messages.len();
        let (mut plain, mut next_plain, mut next_foreign) = (vec![0; count + 1], vec![count; count + 1], vec![count; count + 1]);
        for (at, message) in history.messages.iter().enumerate() {
            plain[at + 1] = plain[at] + usize::from(!carries_results(message));
        }
        for (at, message) in history.messages.iter().enumerate().rev() {
            next_plain[at] = if carries_results(message) { next_plain[at + 1] } else { at };
            next_foreign[at] = if message.role == Role::Assistant { next_foreign[at + 1] } else { at };
        }
        Self { plain, next_plain, next_foreign, ids: OnceCell::new() }
    }
}

/// The results that directly follow a message, found when a repair asks.
#[derive(Default)]
struct Following<'h> {
    /// Places of those with an id.
    by_id: HashMap<&'h str, Vec<&'h str>>,
    /// Places of those without.
    bare: Vec<&'h str>,
    /// The first message after them.
    end: usize,
}

impl<'h> Following<'h> {
    fn of(history: &History<'h, '_>, after: usize) -> Self {
        let messages = history.messages.iter().skip(after + 1).take_while(|m| carries_results(m));
        let mut found = Self { end: after + 1 + messages.clone().count(), ..Self::default() };
        for item in messages.flat_map(|m| &m.items) {
            let ItemBody::ToolResult(result) = &item.body else { continue };
            match result.call_id {
                Some(id) if !id.is_empty() => found.by_id.entry(id).or_default().push(&item.place),
                _ => found.bare.push(&item.place),
            }
        }
        found
    }
}

/// Where an id was met last among the calls.
struct Seen {
    message: usize,
    /// How many calls of that message have it.
    calls: usize,
    /// The last number that was given to an id made of it.
    number: usize,
}

pub(super) fn check(history: &History<'_, '_>, findings: &mut Vec<Finding>) {
    let layout = Layout::of(history);
    let mut calls = Calls::default();
    let mut seen: HashMap<&str, Seen> = HashMap::new();
    let mut answered: HashSet<&str> = HashSet::new();
    // Order of the last answer, by the message of its call.
    let mut last_answer: HashMap<usize, usize> = HashMap::new();
    for (at, message) in history.messages.iter().enumerate() {
        let following = OnceCell::new();
        let (mut order, mut nameless) = (0, 0);
        for item in &message.items {
            let ItemBody::ToolCall(call) = &item.body else { continue };
            if message.role == Role::Assistant && call.other_type.is_none() {
                check_id(history, call, item, (at, nameless), &following, &mut seen, findings);
                calls.push(Open { call, item, message: at, order });
                order += 1;
            }
            nameless += usize::from(call.id.is_none_or(str::is_empty));
        }
        if !carries_results(message) {
            continue;
        }
        for item in &message.items {
            let ItemBody::ToolResult(result) = &item.body else { continue };
            if result.other_type.is_some() {
                continue;
            }
            let Some(call) = calls.take(result) else {
                if answers_elsewhere(history, &layout, at, result) {
                    continue;
                }
                let (rule, what) = match result.call_id {
                    Some(id) if answered.contains(id) => ("duplicate_result", "answers a call that already has its result"),
                    Some(_) => ("orphan_result", "answers a call that is not in the history before it"),
                    None => ("orphan_result", "answers no open call"),
                };
                findings.push(
                    Finding::error(rule, item.place.as_str(), format!("the tool result {what}"))
                        .fix("remove the result", history.without(message, &[item])),
                );
                continue;
            };
            answered.extend(call.call.id);
            misplaced(history, &layout, &call, (at, item), findings);
            let last = last_answer.insert(call.message, call.order);
            if last.is_some_and(|last| last > call.order) {
                findings.push(Finding::warning(
                    "result_order",
                    item.place.as_str(),
                    "the results of parallel calls are not in the order of the calls",
                ));
            }
        }
    }
    let open: Vec<Open<'_, '_>> = calls.all.into_iter().flatten().collect();
    orphans(history, &open, findings);
    gemini_counts(history, findings);
}

/// A result whose call the provider keeps (a stored conversation), or that is of another sort than a function's.
fn answers_elsewhere<'h>(history: &History<'h, '_>, layout: &Layout<'h>, at: usize, result: &ToolResult<'_>) -> bool {
    if history.format != Format::Responses {
        return false;
    }
    let stored =
        ["previous_response_id", "conversation"].iter().any(|key| history.conversation.body.get(*key).is_some_and(|v| !v.is_null()));
    let find = || {
        let mut ids = HashMap::new();
        for (at, message) in history.messages.iter().enumerate().filter(|(_, m)| !carries_results(m)) {
            if let Some(id) = message.raw.get("call_id").and_then(serde_json::Value::as_str) {
                ids.entry(id).or_insert(at);
            }
        }
        ids
    };
    let called = |id: &str| layout.ids.get_or_init(find).get(id).is_some_and(|call| *call < at);
    stored || result.call_id.is_some_and(called)
}

fn check_id<'h, 'a>(
    history: &History<'h, 'a>,
    call: &'h ToolCall<'a>,
    item: &Item<'_>,
    (at, nameless): (usize, usize),
    following: &OnceCell<Following<'h>>,
    seen: &mut HashMap<&'h str, Seen>,
    findings: &mut Vec<Finding>,
) {
    let place = item.place.as_str();
    let results = || following.get_or_init(|| Following::of(history, at));
    let Some(id) = call.id.filter(|id| !id.is_empty()) else {
        if !matches!(history.format, Format::Gemini) && !call.legacy {
            findings.push(missing_id(history, call, place, at, results().bare.get(nameless).copied()));
        }
        return;
    };
    let Some(seen) = seen.get_mut(id) else {
        seen.insert(id, Seen { message: at, calls: 1, number: 1 });
        return;
    };
    let text = "two calls carry the same id";
    if seen.message != at {
        (seen.message, seen.calls) = (at, 1);
        findings.push(Finding::warning("duplicate_call_id", place, text));
        return;
    }
    let finding = Finding::error("duplicate_call_id", place, text);
    findings.push(match id_field(history.format) {
        Some((field, result_field)) => {
            let new = history.free_id(id, &mut seen.number, results().end);
            let mut edits = vec![Edit::set_text(format!("{place}/{field}"), &new)];
            // The results of an id are those of its calls, in order.
            let own = results().by_id.get(id).and_then(|places| places.get(seen.calls));
            edits.extend(own.map(|at| Edit::set_text(format!("{at}/{result_field}"), &new)));
            finding.fix("give the later call and its result an id of their own", edits)
        }
        None => finding,
    });
    seen.calls += 1;
}

/// The fields of the id on a call and on a result.
fn id_field(format: Format) -> Option<(&'static str, &'static str)> {
    Some(match format {
        Format::Chat => ("id", "tool_call_id"),
        Format::Responses => ("call_id", "call_id"),
        Format::Anthropic => ("id", "tool_use_id"),
        Format::Converse => ("toolUse/toolUseId", "toolResult/toolUseId"),
        Format::Gemini | Format::Mcp => return None,
    })
}

/// A call without an id; mended when the result that belongs to it can be told.
fn missing_id(history: &History<'_, '_>, call: &ToolCall<'_>, place: &str, at: usize, result: Option<&str>) -> Finding {
    let finding = Finding::error("missing_call_id", place, format!("the call of `{}` has no id", short(call.name)));
    let (Some((field, result_field)), Some(result)) = (id_field(history.format), result) else { return finding };
    let id = format!("call_{:016x}", XxHash3_64::oneshot(format!("{at}:{place}:{}", call.name).as_bytes()));
    finding.fix(
        "give the call and its result a stable id",
        vec![
            Edit::Set { place: format!("{place}/{field}"), json: quote(&id) },
            Edit::Set { place: format!("{result}/{result_field}"), json: quote(&id) },
        ],
    )
}

/// A result that does not stand right after its call. Anthropic and Gemini join the assistant's messages that follow each
/// other, so that calls of the first may be answered after the last.
fn misplaced<'h, 'a>(
    history: &History<'h, 'a>,
    layout: &Layout<'_>,
    call: &Open<'_, '_>,
    (at, item): (usize, &'h Item<'a>),
    findings: &mut Vec<Finding>,
) {
    let mut start = call.message + 1;
    if matches!(history.format, Format::Anthropic | Format::Gemini) {
        start = layout.next_foreign[start].min(at);
    }
    if history.format == Format::Responses || layout.plain[at] == layout.plain[start.min(at)] {
        return;
    }
    let place = item.place.as_str();
    let finding = Finding::error("result_misplaced", place, "the tool result does not directly follow the message of its call");
    findings.push(match move_result(history, layout, call, (at, item)) {
        Some(edits) => finding.fix("move the result to its call", edits),
        None => finding,
    });
}

/// Edits that move a result behind its call, after the results that stand there already.
fn move_result<'h, 'a>(
    history: &History<'h, 'a>,
    layout: &Layout<'_>,
    call: &Open<'_, '_>,
    (at, item): (usize, &'h Item<'a>),
) -> Option<Vec<Edit>> {
    let message = history.messages[at];
    let raw = history.raw(&item.place)?;
    let after = history.messages.get(call.message + 1)?;
    if history.format == Format::Chat {
        let end = history.messages.get(layout.next_plain[call.message + 1])?;
        return Some(vec![Edit::Insert { place: end.place.clone(), json: raw.to_owned() }, Edit::Remove { place: message.place.clone() }]);
    }
    let list = if history.format == Format::Gemini { "parts" } else { "content" };
    let mut edits = history.without(message, &[item]);
    edits.push(if carries_results(after) {
        let results = history.leading_results(after);
        Edit::Insert { place: format!("{}/{list}/{results}", after.place), json: raw.to_owned() }
    } else {
        Edit::Insert { place: after.place.clone(), json: format!("{{\"role\":\"user\",\"{list}\":[{raw}]}}") }
    });
    Some(edits)
}

fn orphans<'h, 'a>(history: &History<'h, 'a>, open: &[Open<'h, 'a>], findings: &mut Vec<Finding>) {
    for calls in open.chunk_by(|a, b| a.message == b.message) {
        let Some(at) = calls.first().map(|call| call.message) else { continue };
        let mine: Vec<&Item<'_>> = calls.iter().map(|call| call.item).collect();
        let mut edits = history.without(history.messages[at], &mine);
        // Reasoning of the Responses API may not stay behind without the call that it led to.
        if history.format == Format::Responses {
            let before = history.messages[..at].iter().rev();
            let reasoning = before.take_while(|m| m.items.iter().all(|i| matches!(i.body, ItemBody::Reasoning(_))));
            let next = history.messages.get(at + 1);
            let followed =
                next.is_some_and(|m| m.role == Role::Assistant && !m.items.iter().any(|i| matches!(i.body, ItemBody::Reasoning(_))));
            if !followed {
                edits.extend(reasoning.map(|m| Edit::Remove { place: m.place.clone() }));
            }
        }
        let edits: Arc<[Edit]> = edits.into();
        findings.extend(calls.iter().map(|call| {
            Finding::error("orphan_call", call.item.place.as_str(), format!("the call of `{}` has no result", short(call.call.name)))
                .fix("remove the calls that were never answered", Arc::clone(&edits))
        }));
    }
}

/// Gemini wants no more responses than there were calls in the model's turn before them.
fn gemini_counts(history: &History<'_, '_>, findings: &mut Vec<Finding>) {
    if history.format != Format::Gemini {
        return;
    }
    let mut calls = 0;
    for message in &history.messages {
        let results: Vec<&Item<'_>> =
            message.items.iter().filter(|i| matches!(&i.body, ItemBody::ToolResult(r) if r.other_type.is_none())).collect();
        if message.role == Role::Assistant {
            calls += message.items.iter().filter(|i| matches!(&i.body, ItemBody::ToolCall(c) if c.other_type.is_none())).count();
            continue;
        }
        if calls > 0 && results.len() > calls {
            let text = format!("{} function responses follow {calls} function calls; the numbers must be equal", results.len());
            findings.push(
                Finding::error("result_count", message.place.as_str(), text)
                    .fix("remove the surplus responses", history.without(message, &results[calls..])),
            );
        }
        calls = 0;
    }
}

/// A tool name short enough to print.
fn short(name: &str) -> String {
    name.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Arguments;
    use proptest::prelude::*;
    use serde_json::Value;

    /// The call that a result answers, by a walk over all open ones.
    fn walk(open: &[(usize, &ToolCall<'_>, usize)], result: &ToolResult<'_>) -> Option<usize> {
        let named = |call: &ToolCall<'_>| result.name.is_some_and(|name| name == call.name);
        if let Some(id) = result.call_id {
            let by_id = open.iter().rposition(|(_, call, _)| call.id == Some(id));
            return by_id.or_else(|| open.iter().position(|(_, call, _)| call.id.is_none() && named(call)));
        }
        let newest = open.last()?.2;
        let fits = |call: &ToolCall<'_>| result.name.is_none() || named(call);
        open.iter()
            .position(|(_, call, message)| *message == newest && fits(call))
            .or_else(|| open.iter().position(|(_, call, _)| named(call)))
    }

    proptest! {
        #[test]
        fn calls_are_found_as_by_a_walk_over_all_open_ones(
            steps in prop::collection::vec((0..5_u8, prop::option::of(0..4_usize), prop::option::of(0..3_usize)), 1..60)
        ) {
            const IDS: [&str; 4] = ["", "a", "b", "c"];
            const NAMES: [&str; 3] = ["f", "g", "h"];
            let items: Vec<Item<'_>> = steps
                .iter()
                .map(|(kind, id, name)| {
                    let (id, name) = (id.map(|at| IDS[at]), name.map(|at| NAMES[at]));
                    let body = if *kind < 2 {
                        let name = name.unwrap_or("f");
                        let (item_id, signature, legacy, other_type) = (None, None, false, None);
                        ItemBody::ToolCall(ToolCall { id, item_id, name, arguments: Arguments::None, signature, legacy, other_type })
                    } else {
                        let (content, is_error, legacy, other_type) = (Vec::new(), false, false, None);
                        ItemBody::ToolResult(ToolResult { call_id: id, name, content, is_error, legacy, other_type })
                    };
                    Item { place: String::new(), raw: &Value::Null, body }
                })
                .collect();
            let (mut calls, mut open) = (Calls::default(), Vec::new());
            for (order, item) in items.iter().enumerate() {
                let message = order / 4;
                match &item.body {
                    ItemBody::ToolCall(call) => {
                        calls.push(Open { call, item, message, order });
                        open.push((order, call, message));
                    }
                    ItemBody::ToolResult(result) => {
                        let slow = walk(&open, result).map(|at| open.remove(at).0);
                        prop_assert_eq!(calls.take(result).map(|open| open.order), slow);
                    }
                    _ => {}
                }
            }
        }
    }
}
