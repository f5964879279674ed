//! What messages hold: nothing empty where a provider refuses it, arguments that are JSON, tools that exist.

use super::{Finding, History, carries_results};
use crate::format::{Arguments, Edit, Format, ItemBody, Message, Role, ToolCall};
use serde_json::Value;
use std::collections::HashSet;

pub(super) fn check(history: &History<'_, '_>, findings: &mut Vec<Finding>) {
    let last = history.messages.len().saturating_sub(1);
    let tools: HashSet<&str> = history.conversation.tools.iter().map(|tool| tool.name).collect();
    let mut uses_tools = None;
    for (at, message) in history.messages.iter().enumerate() {
        // The last message is held to rules of its own.
        let sound = at != last && history.sound.get(at).is_some_and(|sound| *sound);
        if !sound {
            empty(history, message, at == last, findings);
        }
        for item in &message.items {
            let ItemBody::ToolCall(call) = &item.body else { continue };
            if !sound {
                arguments(history, call, &item.place, findings);
            }
            if call.other_type.is_some() {
                continue;
            }
            uses_tools.get_or_insert(item.place.as_str());
            if !tools.is_empty() && !call.name.is_empty() && !tools.contains(call.name) && history.conversation.tools.len() < 2_000 {
                let name: String = call.name.chars().take(64).collect();
                findings.push(Finding::warning(
                    "unknown_tool",
                    item.place.as_str(),
                    format!("the tool `{name}` is called but not defined"),
                ));
            }
        }
    }
    if let (Some(place), Format::Converse, true) = (uses_tools, history.format, tools.is_empty()) {
        findings.push(Finding::error("tools_missing", place, "the history calls tools, but `toolConfig` is not sent"));
    }
    trailing_blanks(history, findings);
}

fn empty<'c, 'a>(history: &History<'c, 'a>, message: &'c Message<'a>, last: bool, findings: &mut Vec<Finding>) {
    let strict = matches!(history.format, Format::Anthropic | Format::Converse);
    if message.items.is_empty() {
        let final_assistant = last && message.role == Role::Assistant;
        let finding = match history.format {
            Format::Anthropic if final_assistant => return,
            Format::Anthropic | Format::Converse | Format::Gemini => {
                Finding::error("empty_message", message.place.as_str(), "the message is empty")
            }
            Format::Chat if message.role == Role::Assistant => {
                Finding::warning("empty_message", message.place.as_str(), "the assistant's message has neither content nor tool calls")
            }
            _ => return,
        };
        findings.push(finding.fix("remove the message", vec![Edit::Remove { place: message.place.clone() }]));
        return;
    }
    if !strict {
        return;
    }
    for item in &message.items {
        let ItemBody::Text(text) = &item.body else { continue };
        if !text.trim().is_empty() {
            continue;
        }
        // Anthropic refuses a text of blanks too; Converse takes it.
        let finding = match (history.format, text.is_empty()) {
            (Format::Converse, false) => Finding::warning("empty_content", item.place.as_str(), "the text is blank"),
            _ => Finding::error("empty_content", item.place.as_str(), "the text is empty or blank"),
        };
        findings.push(finding.fix("remove the empty text", history.without(message, &[item])));
    }
}

fn arguments(history: &History<'_, '_>, call: &ToolCall<'_>, place: &str, findings: &mut Vec<Finding>) {
    let strict = matches!(history.format, Format::Anthropic | Format::Gemini | Format::Converse);
    match call.arguments {
        Arguments::Text(text) if call.other_type.is_none() => {
            let field = if history.format == Format::Chat && !call.legacy { "function/arguments" } else { "arguments" };
            if text.trim().is_empty() {
                findings.push(
                    Finding::warning("arguments_not_json", place, "the arguments are empty; expected a JSON object")
                        .fix("write an empty object", vec![Edit::set_text(format!("{place}/{field}"), "{}")]),
                );
                return;
            }
            match serde_json::from_str::<Value>(text) {
                Ok(Value::Object(_)) => {}
                Ok(_) => findings.push(Finding::warning("arguments_not_json", place, "the arguments are not a JSON object")),
                Err(_) => findings.push(Finding::warning("arguments_not_json", place, "the arguments are not valid JSON")),
            }
        }
        Arguments::Json(value) if strict && !value.is_object() => {
            findings.push(Finding::error("arguments_not_json", place, "the arguments are not a JSON object"));
        }
        _ => {}
    }
}

/// Anthropic refuses blanks at the end of the answer that it is to continue.
fn trailing_blanks(history: &History<'_, '_>, findings: &mut Vec<Finding>) {
    if history.format != Format::Anthropic {
        return;
    }
    let Some(last) = history.messages.last().filter(|m| m.role == Role::Assistant && !carries_results(m)) else { return };
    let Some(item) = last.items.last() else { return };
    let ItemBody::Text(text) = &item.body else { return };
    let trimmed = text.trim_end();
    if trimmed.len() == text.len() || trimmed.is_empty() {
        return;
    }
    let place = if item.raw.is_string() { item.place.clone() } else { format!("{}/text", item.place) };
    findings.push(
        Finding::error("trailing_blanks", item.place.as_str(), "the last assistant text ends in blanks")
            .fix("trim the blanks", vec![Edit::set_text(place, trimmed)]),
    );
}
