//! The text that Claude's prompt holds for tools and calls, and which turns it has.
//!
//! Recovered from differences between neighbouring recorded bills (2026-11-30). Called by the renderer beside it; reads
//! the neutral view alone, so that chat-format gateways and Converse render as Messages does. Counts nothing.

use crate::format::{Arguments, Conversation, Format, ItemBody, Role, Tool, ToolCall};
use crate::json_text::spaced;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt::Write as _;

/// A tool definition: description, name, schema, as one line.
pub(super) fn tool(tool: &Tool<'_>) -> String {
    let empty = Value::Object(Map::new());
    let text = |text: &str| spaced(&Value::String(text.to_owned()));
    format!(
        "<function>{{\"description\": {}, \"name\": {}, \"parameters\": {}}}</function>\n",
        text(tool.description.unwrap_or_default()),
        text(tool.name),
        spaced(tool.parameters.unwrap_or(&empty))
    )
}

/// A call: its name and one element per argument; and the number of arguments.
pub(super) fn call(call: &ToolCall<'_>) -> (String, u64) {
    let parsed;
    let arguments = match call.arguments {
        Arguments::Json(value) => Some(value),
        Arguments::Text(text) => {
            parsed = serde_json::from_str::<Value>(text).unwrap_or_else(|_| Value::String(text.to_owned()));
            Some(&parsed)
        }
        Arguments::None => None,
    };
    let mut out = format!("<invoke name=\"{}\">\n", call.name);
    let mut count = 0;
    let mut parameter = |name: &str, value: &Value| {
        let value = value.as_str().map_or_else(|| Cow::Owned(spaced(value)), Cow::Borrowed);
        // Writing into a string can't fail.
        let _ = writeln!(out, "<parameter name=\"{name}\">{value}</parameter>");
        count += 1;
    };
    match arguments {
        Some(Value::Object(map)) => map.iter().for_each(|(name, value)| parameter(name, value)),
        Some(other) => parameter("input", other),
        None => {}
    }
    out.push_str("</invoke>\n");
    (out, count)
}

/// The turns of a prompt.
pub(super) struct Turns {
    /// How many there are.
    pub(super) count: u64,
    /// The first one is the assistant's.
    pub(super) assistant_first: bool,
    /// Place in the view of the last message in which a person speaks: later ones are the tool loop under way.
    pub(super) last_said: usize,
}

/// Counts turns. System text is none, but for a system message inside an Anthropic list. Consecutive `tool` messages of
/// chat formats are one user turn; Responses items of one side are one turn. Two user messages in a row stay two.
pub(super) fn turns(conversation: &Conversation<'_>) -> Turns {
    let in_list = conversation.format == Format::Anthropic;
    let items = conversation.format == Format::Responses;
    let mut turns = Turns { count: 0, assistant_first: false, last_said: 0 };
    let mut last = None;
    for (at, message) in conversation.messages.iter().enumerate() {
        if !message.listed || (matches!(message.role, Role::System | Role::Developer) && !in_list) {
            continue;
        }
        if message.role == Role::User && message.items.iter().any(|item| !matches!(item.body, ItemBody::ToolResult(_))) {
            turns.last_said = at;
        }
        if last == Some(message.role) && (message.role == Role::Tool || items && message.role == Role::Assistant) {
            continue;
        }
        if turns.count == 0 {
            turns.assistant_first = message.role == Role::Assistant;
        }
        last = Some(message.role);
        turns.count += 1;
    }
    turns
}

/// Whether thinking is asked for, in any spelling: the maker's own field, a gateway's effort or budget, a model name's suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thinking {
    Off,
    Enabled,
    Adaptive,
}

pub(super) fn thinking(conversation: &Conversation<'_>) -> Thinking {
    let options = &conversation.options;
    match options.thinking {
        Some("adaptive") => return Thinking::Adaptive,
        Some("enabled") => return Thinking::Enabled,
        Some(_) => return Thinking::Off,
        None => {}
    }
    // Effort alone switches nothing on in the maker's own formats; gateways translate it into a thinking budget.
    let gateway = matches!(conversation.format, Format::Chat | Format::Responses);
    let asked = options.effort.is_some_and(|effort| effort != "none")
        || options.thinking_budget.is_some_and(|budget| budget > 0)
        || conversation.body.get("reasoning").and_then(|r| r.get("enabled")).and_then(Value::as_bool) == Some(true)
        || conversation.model.is_some_and(|model| model.ends_with(":thinking"));
    if gateway && asked && !unsigned_loop(conversation) { Thinking::Enabled } else { Thinking::Off }
}

/// Whether the tool loop under way has a call without signed thinking before it. The provider takes no such history with
/// thinking on, so a gateway has to switch it off.
fn unsigned_loop(conversation: &Conversation<'_>) -> bool {
    let said = turns(conversation).last_said;
    conversation.messages.iter().skip(said).filter(|message| message.role == Role::Assistant).any(|message| {
        let has = |wanted: fn(&ItemBody<'_>) -> bool| message.items.iter().any(|item| wanted(&item.body));
        has(|body| matches!(body, ItemBody::ToolCall(_))) && !has(|body| matches!(body, ItemBody::Reasoning(r) if r.signature.is_some()))
    })
}

#[cfg(test)]
#[path = "prompt_tests.rs"]
mod tests;
