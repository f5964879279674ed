//! What messages hold: nothing empty where a provider refuses it, arguments that are JSON, tools that exist.

use super::{Finding, History, carries_results};
use crate::format::{Arguments, Edit, Format, ItemBody, Message, Role, ToolCall};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::collections::HashSet;
use std::fmt;

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
            match serde_json::from_str(text) {
                Ok(IsObject(true)) => {}
                Ok(IsObject(false)) => findings.push(Finding::warning("arguments_not_json", place, "the arguments are not a JSON object")),
                Err(_) => findings.push(Finding::warning("arguments_not_json", place, "the arguments are not valid JSON")),
            }
        }
        Arguments::Json(value) if strict && !value.is_object() => {
            findings.push(Finding::error("arguments_not_json", place, "the arguments are not a JSON object"));
        }
        _ => {}
    }
}

/// Reads any JSON that [`serde_json::Value`] does, with the same errors, keeping of it only whether it is an object.
struct IsObject(bool);

impl<'de> Deserialize<'de> for IsObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self(false))
    }
}

impl<'de> Visitor<'de> for IsObject {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        while map.next_entry::<Self, Self>()?.is_some() {}
        Ok(Self(true))
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn arguments_are_read_as_a_value_is() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        let big = "9".repeat(400);
        for text in [
            "{}",
            "{\"a\":{\"b\":[1,2.5e3,-7,null,true,\"x\"]}}",
            "{\"a\":1,\"a\":2}",
            "[]",
            "[{}]",
            "7",
            "null",
            "\"{}\"",
            " {} ",
            "{} x",
            "{",
            "{\"a\"}",
            "{\"a\":1,}",
            "{\"a\":01}",
            "{\"a\":1e999}",
            "{\"a\":\"\\ud800\"}",
            "{\"a\":\"\\x\"}",
            "{\"\\ud800\":1}",
            "{1:2}",
            "{\"a\":\"\n\"}",
            "{\"a\":18446744073709551616}",
            &deep,
            &format!("{{\"a\":{deep}}}"),
            &format!("{{\"a\":{big}}}"),
            "",
        ] {
            let slow = serde_json::from_str::<Value>(text).map(|value| value.is_object()).map_err(|e| e.to_string());
            assert_eq!(serde_json::from_str(text).map(|IsObject(is)| is).map_err(|e| e.to_string()), slow, "{text}");
        }
    }
}
