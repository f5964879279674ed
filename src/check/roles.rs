//! Who speaks when: the first role, alternation where a provider demands it, an empty list, results first in a user turn.

use super::{Finding, History, carries_results};
use crate::format::{Edit, Format, ItemBody, Message, Role};

pub(super) fn check(history: &History<'_, '_>, findings: &mut Vec<Finding>) {
    let list = match history.format {
        Format::Responses => "/input",
        Format::Gemini => "/contents",
        _ => "/messages",
    };
    if history.messages.is_empty() {
        // A Responses request may lean on a stored conversation or prompt alone.
        let stored = ["previous_response_id", "conversation", "prompt"].iter().any(|key| history.conversation.body.contains_key(*key));
        if history.format != Format::Responses || !stored {
            findings.push(Finding::error("no_messages", list, "there is no message; at least one is expected"));
        }
        return;
    }
    first(history, findings);
    if history.format == Format::Converse {
        alternation(history, findings);
    }
    if matches!(history.format, Format::Anthropic | Format::Converse) {
        results_first(history, findings);
    }
}

fn side(message: &Message<'_>) -> Role {
    if message.role == Role::Assistant { Role::Assistant } else { Role::User }
}

fn first(history: &History<'_, '_>, findings: &mut Vec<Finding>) {
    let strict = matches!(history.format, Format::Anthropic | Format::Gemini | Format::Converse);
    let Some(first) = history.messages.first().filter(|_| strict) else { return };
    if first.role == Role::Assistant {
        let text = "the first message is the assistant's; the user's is expected";
        findings.push(match history.format {
            Format::Gemini if first.items.iter().any(|i| matches!(i.body, ItemBody::ToolCall(_))) => Finding::error(
                "first_role",
                first.place.as_str(),
                "the history starts with a function call; a user turn is expected before it",
            ),
            // Claude takes it on both hosts (recorded 2025); older models of other makers may not.
            _ => Finding::warning("first_role", first.place.as_str(), text),
        });
    }
}

fn alternation(history: &History<'_, '_>, findings: &mut Vec<Finding>) {
    let mut start = 0;
    while start < history.messages.len() {
        let run = history.messages[start..].iter().take_while(|m| side(m) == side(history.messages[start])).count();
        if run > 1 {
            let messages = &history.messages[start..start + run];
            let contents: Option<Vec<&str>> =
                messages.iter().map(|m| history.raw(&format!("{}/content", m.place))?.strip_prefix('[')?.strip_suffix(']')).collect();
            let text = format!("{run} messages of one role follow each other; the roles must alternate");
            let mut finding = Finding::error("role_alternation", messages[1].place.as_str(), text);
            // Titan takes it as it comes (recorded 2024).
            if history.model.contains("titan") {
                finding.severity = super::Severity::Warning;
            }
            findings.push(match contents {
                Some(contents) => {
                    let joined: Vec<&str> = contents.into_iter().filter(|c| !c.trim().is_empty()).collect();
                    let mut edits =
                        vec![Edit::Set { place: format!("{}/content", messages[0].place), json: format!("[{}]", joined.join(",")) }];
                    edits.extend(messages[1..].iter().map(|m| Edit::Remove { place: m.place.clone() }));
                    finding.fix("join the messages", edits)
                }
                None => finding,
            });
        }
        start += run;
    }
}

/// Tool results come before anything else in the user's message that answers.
fn results_first(history: &History<'_, '_>, findings: &mut Vec<Finding>) {
    for message in history.messages.iter().filter(|m| carries_results(m)) {
        let is_result = |body: &ItemBody<'_>| matches!(body, ItemBody::ToolResult(_));
        let Some(other) = message.items.iter().position(|i| !is_result(&i.body)) else { continue };
        if !message.items[other..].iter().any(|i| is_result(&i.body)) {
            continue;
        }
        let text = "a tool result stands after other content; results come first in the message that answers";
        let path = message.items[other].place.as_str();
        let finding = match history.format {
            Format::Anthropic => Finding::error("results_not_first", path, text),
            _ => Finding::warning("results_not_first", path, text),
        };
        let (results, rest): (Vec<_>, Vec<_>) = message.items.iter().partition(|i| is_result(&i.body));
        let raw: Option<Vec<&str>> = results.iter().chain(&rest).map(|i| history.raw(&i.place)).collect();
        let whole = message.raw.get("content").and_then(|c| c.as_array()).is_some_and(|list| list.len() == message.items.len());
        findings.push(match raw.filter(|_| whole) {
            Some(raw) => finding.fix(
                "put the results first",
                vec![Edit::Set { place: format!("{}/content", message.place), json: format!("[{}]", raw.join(",")) }],
            ),
            None => finding,
        });
    }
}
