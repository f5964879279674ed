//! Replayed reasoning: Anthropic's thinking blocks, Gemini's thought signatures, reasoning items of the Responses API.
//!
//! Rules by model, as of 2026-11: Claude with thinking enabled wants the last tool loop's assistant turns to start with their
//! thinking (docs.anthropic.com, extended thinking); Gemini 3 wants a signature on the first call of each step of the current
//! turn (ai.google.dev, thought signatures); Responses wants each reasoning item followed by what it led to.

use super::{Finding, History, carries_results};
use crate::format::{Edit, Format, ItemBody, Message, Role};

pub(super) fn check(history: &History<'_, '_>, findings: &mut Vec<Finding>) {
    match history.format {
        Format::Anthropic => thinking(history, findings),
        Format::Gemini => thought_signatures(history, findings),
        Format::Responses => reasoning_items(history, findings),
        _ => {}
    }
}

/// Where the current turn starts: after the last message of the user that is no mere result.
fn turn_start(history: &History<'_, '_>) -> usize {
    history
        .messages
        .iter()
        .rposition(|m| m.role != Role::Assistant && m.items.iter().any(|i| !matches!(i.body, ItemBody::ToolResult(_))))
        .unwrap_or(0)
}

fn thinking(history: &History<'_, '_>, findings: &mut Vec<Finding>) {
    let start = turn_start(history);
    let enabled = history.conversation.options.thinking == Some("enabled");
    // Turns of the loop may share one thinking block at its start, so that only the loop's first turn is held to it.
    let loop_start = history.messages.iter().skip(start).position(|m| m.role == Role::Assistant).map(|at| at + start);
    for (at, message) in history.messages.iter().enumerate().filter(|(_, m)| m.role == Role::Assistant) {
        for item in &message.items {
            let ItemBody::Reasoning(reasoning) = &item.body else { continue };
            if !reasoning.redacted && reasoning.signature.is_none() {
                findings.push(
                    Finding::error("thinking_signature", item.place.as_str(), "the thinking block has no signature")
                        .fix("remove the thinking block", history.without(message, &[item])),
                );
            }
        }
        let calls = message.items.iter().any(|i| matches!(&i.body, ItemBody::ToolCall(c) if c.other_type.is_none()));
        let has_thinking = message.items.iter().position(|i| matches!(i.body, ItemBody::Reasoning(_)));
        let first_of_loop = at > start && loop_start == Some(at);
        if enabled && calls && first_of_loop && has_thinking != Some(0) {
            findings.push(Finding::warning(
                "thinking_first",
                message.place.as_str(),
                "thinking is enabled, but the tool loop's first assistant message does not start with a thinking block",
            ));
        }
    }
}

fn thought_signatures(history: &History<'_, '_>, findings: &mut Vec<Finding>) {
    if !history.model.contains("gemini-3") {
        return;
    }
    let start = turn_start(history);
    for message in history.messages.iter().skip(start).filter(|m| m.role == Role::Assistant) {
        let first = message.items.iter().find_map(|item| match &item.body {
            ItemBody::ToolCall(call) if call.other_type.is_none() => Some((item, call)),
            _ => None,
        });
        if let Some((item, _)) = first.filter(|(_, call)| call.signature.is_none()) {
            findings.push(Finding::error(
                "thought_signature",
                item.place.as_str(),
                "the first function call of a step of the current turn has no thoughtSignature, which Gemini 3 refuses",
            ));
        }
    }
}

fn reasoning_items(history: &History<'_, '_>, findings: &mut Vec<Finding>) {
    let reasoning = |m: &Message<'_>| !m.items.is_empty() && m.items.iter().all(|i| matches!(i.body, ItemBody::Reasoning(_)));
    // From the end, so that each knows what follows it.
    let mut next: Option<&Message<'_>> = None;
    let mut alone = Vec::new();
    for message in history.messages.iter().rev() {
        if !reasoning(message) {
            next = Some(message);
            continue;
        }
        // Whatever the model made may follow, calls of the provider's own tools among it; words of others and results may not.
        let foreign = |m: &Message<'_>| m.role != Role::Assistant && m.raw.get("type").is_none_or(|t| t == "message");
        if next.is_some_and(|m| !carries_results(m) && !foreign(m)) {
            continue;
        }
        alone.push(
            Finding::error(
                "reasoning_alone",
                message.place.as_str(),
                "the reasoning item is not followed by the message or call it led to",
            )
            .fix("remove the reasoning item", vec![Edit::Remove { place: message.place.clone() }]),
        );
    }
    findings.extend(alone.into_iter().rev());
}
