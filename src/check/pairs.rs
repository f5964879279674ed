//! Calls and results: each call one result, each result its call, next to each other, in order, with sound ids.
//!
//! A result is matched to the nearest open call of its id before it, since some servers use ids again in later turns;
//! formats without ids (Gemini, legacy functions) match by name and order.

use super::{Finding, History, carries_results};
use crate::format::{Edit, Format, ItemBody, Message, Role, ToolCall, ToolResult, quote};
use std::collections::{HashMap, HashSet};
use xxhash_rust::xxh3::xxh3_64;

struct Open<'h> {
    call: &'h ToolCall<'h>,
    place: &'h str,
    message: usize,
    order: usize,
}

pub(super) fn check(history: &History<'_, '_>, findings: &mut Vec<Finding>) {
    let mut open: Vec<Open<'_>> = Vec::new();
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let mut answered: HashSet<&str> = HashSet::new();
    // Order of the last answer, by the message of its call.
    let mut last_answer: HashMap<usize, usize> = HashMap::new();
    for (at, message) in history.messages.iter().enumerate() {
        let calls = message.items.iter().filter_map(|item| match &item.body {
            ItemBody::ToolCall(call) if message.role == Role::Assistant && call.other_type.is_none() => Some((item, call)),
            _ => None,
        });
        for (order, (item, call)) in calls.enumerate() {
            check_id(history, message, call, &item.place, at, &mut seen, findings);
            open.push(Open { call, place: &item.place, message: at, order });
        }
        if !carries_results(message) {
            continue;
        }
        for item in &message.items {
            let ItemBody::ToolResult(result) = &item.body else { continue };
            if result.other_type.is_some() {
                continue;
            }
            let Some(found) = find(&open, result) else {
                if answers_elsewhere(history, at, result) {
                    continue;
                }
                let (rule, what) = match result.call_id {
                    Some(id) if answered.contains(id) => ("duplicate_result", "answers a call that already has its result"),
                    Some(_) => ("orphan_result", "answers a call that is not in the history before it"),
                    None => ("orphan_result", "answers no open call"),
                };
                findings.push(
                    Finding::error(rule, item.place.as_str(), format!("the tool result {what}"))
                        .fix("remove the result", history.without(message, &[item.place.as_str()])),
                );
                continue;
            };
            let call = open.remove(found);
            answered.extend(call.call.id);
            misplaced(history, &call, at, message, &item.place, findings);
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
    orphans(history, &open, findings);
    gemini_counts(history, findings);
}

/// The nearest open call that a result answers.
fn find(open: &[Open<'_>], result: &ToolResult<'_>) -> Option<usize> {
    if let Some(id) = result.call_id {
        open.iter().rposition(|o| o.call.id == Some(id)).or_else(|| {
            // Gemini clients may give ids to responses alone.
            open.iter().position(|o| o.call.id.is_none() && result.name.is_some_and(|name| name == o.call.name))
        })
    } else {
        let newest = open.last()?.message;
        let of_newest = |o: &Open<'_>| o.message == newest;
        open.iter()
            .position(|o| of_newest(o) && result.name.is_none_or(|name| name == o.call.name))
            .or_else(|| open.iter().position(|o| result.name.is_some_and(|name| name == o.call.name)))
    }
}

/// A result whose call the provider keeps (a stored conversation), or that is of another sort than a function's.
fn answers_elsewhere(history: &History<'_, '_>, at: usize, result: &ToolResult<'_>) -> bool {
    if history.format != Format::Responses {
        return false;
    }
    let stored =
        ["previous_response_id", "conversation"].iter().any(|key| history.conversation.body.get(*key).is_some_and(|v| !v.is_null()));
    let called = |m: &&Message<'_>| m.raw.get("call_id").and_then(serde_json::Value::as_str) == result.call_id && !carries_results(m);
    stored || (result.call_id.is_some() && history.messages[..at].iter().any(called))
}

fn check_id<'h>(
    history: &History<'_, '_>,
    message: &Message<'_>,
    call: &'h ToolCall<'h>,
    place: &str,
    at: usize,
    seen: &mut HashMap<&'h str, usize>,
    findings: &mut Vec<Finding>,
) {
    let _ = message;
    let Some(id) = call.id.filter(|id| !id.is_empty()) else {
        if !matches!(history.format, Format::Gemini) && !call.legacy {
            findings.push(missing_id(history, call, place, at));
        }
        return;
    };
    let Some(before) = seen.insert(id, at) else { return };
    let text = "two calls carry the same id";
    let strict = before == at;
    let finding =
        if strict { Finding::error("duplicate_call_id", place, text) } else { Finding::warning("duplicate_call_id", place, text) };
    findings.push(match (strict, id_field(history.format)) {
        (true, Some((field, result_field))) => {
            let new = format!("{id}_{}", at + 1);
            let mut edits = vec![Edit::set_text(format!("{place}/{field}"), &new)];
            // Its own result is the next unanswered one of that id: the one after this message (or the second of two).
            let skip = usize::from(before == at);
            edits.extend(
                result_places(history, at, id).into_iter().nth(skip).map(|at| Edit::set_text(format!("{at}/{result_field}"), &new)),
            );
            finding.fix("give the later call and its result an id of their own", edits)
        }
        _ => finding,
    });
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

/// Places of the results with an id that directly follow a message.
fn result_places(history: &History<'_, '_>, after: usize, id: &str) -> Vec<String> {
    let results = history.messages.iter().skip(after + 1).take_while(|m| carries_results(m)).flat_map(|m| &m.items);
    results.filter(|item| matches!(&item.body, ItemBody::ToolResult(r) if r.call_id == Some(id))).map(|item| item.place.clone()).collect()
}

/// A call without an id; mended when the result that belongs to it can be told.
fn missing_id(history: &History<'_, '_>, call: &ToolCall<'_>, place: &str, at: usize) -> Finding {
    let finding = Finding::error("missing_call_id", place, format!("the call of `{}` has no id", short(call.name)));
    let Some((field, result_field)) = id_field(history.format) else { return finding };
    let results: Vec<_> = history
        .messages
        .iter()
        .skip(at + 1)
        .take_while(|m| carries_results(m))
        .flat_map(|m| &m.items)
        .filter(|item| matches!(&item.body, ItemBody::ToolResult(r) if r.call_id.is_none_or(str::is_empty)))
        .collect();
    let nameless = history.messages[at]
        .items
        .iter()
        .filter(|item| matches!(&item.body, ItemBody::ToolCall(c) if c.id.is_none_or(str::is_empty)))
        .position(|item| item.place == place);
    let Some(result) = nameless.and_then(|nth| results.get(nth)) else { return finding };
    let id = format!("call_{:016x}", xxh3_64(format!("{at}:{place}:{}", call.name).as_bytes()));
    finding.fix(
        "give the call and its result a stable id",
        vec![
            Edit::Set { place: format!("{place}/{field}"), json: quote(&id) },
            Edit::Set { place: format!("{}/{result_field}", result.place), json: quote(&id) },
        ],
    )
}

/// A result that does not stand right after its call. Anthropic and Gemini join the assistant's messages that follow each
/// other, so that calls of the first may be answered after the last.
fn misplaced(history: &History<'_, '_>, call: &Open<'_>, at: usize, message: &Message<'_>, place: &str, findings: &mut Vec<Finding>) {
    let mut between = history.messages[call.message + 1..at].iter().peekable();
    if matches!(history.format, Format::Anthropic | Format::Gemini) {
        while between.next_if(|m| m.role == Role::Assistant).is_some() {}
    }
    if history.format == Format::Responses || between.all(|m| carries_results(m)) {
        return;
    }
    let finding = Finding::error("result_misplaced", place, "the tool result does not directly follow the message of its call");
    findings.push(match move_result(history, call, message, place) {
        Some(edits) => finding.fix("move the result to its call", edits),
        None => finding,
    });
}

/// Edits that move a result behind its call, after the results that stand there already.
fn move_result(history: &History<'_, '_>, call: &Open<'_>, message: &Message<'_>, place: &str) -> Option<Vec<Edit>> {
    let raw = history.request.raw(place).ok()?;
    let after = history.messages.get(call.message + 1)?;
    if history.format == Format::Chat {
        let end = history.messages[call.message + 1..].iter().find(|m| !carries_results(m))?;
        return Some(vec![Edit::Insert { place: end.place.clone(), json: raw.to_owned() }, Edit::Remove { place: message.place.clone() }]);
    }
    let list = if history.format == Format::Gemini { "parts" } else { "content" };
    let mut edits = history.without(message, &[place]);
    edits.push(if carries_results(after) {
        let results = after.items.iter().take_while(|i| matches!(i.body, ItemBody::ToolResult(_))).count();
        Edit::Insert { place: format!("{}/{list}/{results}", after.place), json: raw.to_owned() }
    } else {
        Edit::Insert { place: after.place.clone(), json: format!("{{\"role\":\"user\",\"{list}\":[{raw}]}}") }
    });
    Some(edits)
}

fn orphans(history: &History<'_, '_>, open: &[Open<'_>], findings: &mut Vec<Finding>) {
    for call in open {
        let message = history.messages[call.message];
        let mine: Vec<&str> = open.iter().filter(|o| o.message == call.message).map(|o| o.place).collect();
        let mut edits = history.without(message, &mine);
        // Reasoning of the Responses API may not stay behind without the call that it led to.
        if history.format == Format::Responses {
            let before = history.messages[..call.message].iter().rev();
            let reasoning = before.take_while(|m| m.items.iter().all(|i| matches!(i.body, ItemBody::Reasoning(_))));
            let next = history.messages.get(call.message + 1);
            let followed =
                next.is_some_and(|m| m.role == Role::Assistant && !m.items.iter().any(|i| matches!(i.body, ItemBody::Reasoning(_))));
            if !followed {
                edits.extend(reasoning.map(|m| Edit::Remove { place: m.place.clone() }));
            }
        }
        findings.push(
            Finding::error("orphan_call", call.place, format!("the call of `{}` has no result", short(call.call.name)))
                .fix("remove the calls that were never answered", edits),
        );
    }
}

/// Gemini wants no more responses than there were calls in the model's turn before them.
fn gemini_counts(history: &History<'_, '_>, findings: &mut Vec<Finding>) {
    if history.format != Format::Gemini {
        return;
    }
    let mut calls = 0;
    for message in &history.messages {
        let results: Vec<&str> = message
            .items
            .iter()
            .filter(|i| matches!(&i.body, ItemBody::ToolResult(r) if r.other_type.is_none()))
            .map(|i| i.place.as_str())
            .collect();
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
