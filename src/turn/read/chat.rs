//! Chat Completions responses to a turn.
//!
//! Called by [`Turn::read`]. Reads the dialects of the many servers that speak this format: reasoning under three
//! names, content as parts, arguments as objects, the legacy `function_call`.

use super::super::answer::{Call, CallKind, Turn};
use super::super::peek::{as_text, filled, index, list, some, text};
use super::{Gathered, owned, usage};
use serde_json::Value;

pub(super) fn read(body: &Value, turn: &mut Turn) {
    turn.id = owned(filled(body, "id"));
    turn.model = owned(filled(body, "model"));
    usage(turn, body, "usage");
    for (position, choice) in list(body, "choices").iter().enumerate() {
        let message = some(choice, "message").cloned().unwrap_or(Value::Null);
        let gathered = gather(&message);
        let number = index(choice, "index").unwrap_or(position as u64);
        turn.choices.push(gathered.choice(number, message, text(choice, "finish_reason"), turn.format));
    }
}

fn gather(message: &Value) -> Gathered {
    let mut out = Gathered::default();
    match message.get("content") {
        Some(Value::String(content)) => out.text.push_str(content),
        Some(Value::Array(parts)) => parts.iter().for_each(|part| gather_part(part, &mut out)),
        _ => {}
    }
    if let Some(reasoning) = filled(message, "reasoning_content").or_else(|| filled(message, "reasoning")) {
        out.reasoning.push_str(reasoning);
    } else {
        list(message, "reasoning_details")
            .iter()
            .filter_map(|d| text(d, "text").or(text(d, "summary")))
            .for_each(|t| out.reasoning.push_str(t));
    }
    out.refusal = owned(filled(message, "refusal"));
    for call in list(message, "tool_calls") {
        let custom = some(call, "custom");
        let Some(function) = some(call, "function").or(custom) else { continue };
        let arguments = function.get(if custom.is_some() { "input" } else { "arguments" }).map(as_text).unwrap_or_default();
        out.calls.push(Call {
            id: owned(filled(call, "id")),
            name: text(function, "name").unwrap_or_default().to_owned(),
            arguments,
            kind: if custom.is_some() { CallKind::Custom } else { CallKind::Function },
        });
    }
    // One gateway sends an empty `function_call` beside every answer.
    if let Some(function) = some(message, "function_call").filter(|call| filled(call, "name").is_some()) {
        out.calls.push(Call {
            id: None,
            name: text(function, "name").unwrap_or_default().to_owned(),
            arguments: function.get("arguments").map(as_text).unwrap_or_default(),
            kind: CallKind::Legacy,
        });
    }
    out
}

/// One part of content that came as a list: text, refusal, or Mistral's nested thinking.
fn gather_part(part: &Value, out: &mut Gathered) {
    match text(part, "type") {
        Some("thinking") => list(part, "thinking").iter().filter_map(|inner| text(inner, "text")).for_each(|t| out.reasoning.push_str(t)),
        Some("refusal") => out.refusal = owned(text(part, "refusal")),
        _ => out.text.push_str(text(part, "text").unwrap_or_default()),
    }
}
