//! Bedrock Converse responses to a turn.
//!
//! Called by [`Turn::read`]. A `toolUse` whose result stands in the same message was run by the provider.

use super::super::answer::{Call, CallKind, Turn};
use super::super::peek::{as_text, filled, list, some, text};
use super::{Gathered, owned, usage};
use serde_json::Value;

pub(super) fn read(body: &Value, turn: &mut Turn) {
    usage(turn, body, "usage");
    let Some(message) = body.pointer("/output/message").filter(|message| message.is_object()) else { return };
    let mut out = Gathered::default();
    for block in list(message, "content") {
        if let Some(words) = text(block, "text") {
            out.text.push_str(words);
        }
        if let Some(cited) = some(block, "citationsContent") {
            list(cited, "content").iter().filter_map(|part| text(part, "text")).for_each(|t| out.text.push_str(t));
        }
        if let Some(words) = block.pointer("/reasoningContent/reasoningText/text").and_then(Value::as_str) {
            out.reasoning.push_str(words);
        }
        if let Some(call) = some(block, "toolUse").filter(|call| text(call, "type") != Some("server_tool_use")) {
            out.calls.push(Call {
                id: owned(filled(call, "toolUseId")),
                name: text(call, "name").unwrap_or_default().to_owned(),
                arguments: call.get("input").map(as_text).unwrap_or_default(),
                kind: CallKind::Function,
            });
        }
    }
    turn.choices.push(out.choice(0, message.clone(), text(body, "stopReason"), turn.format));
}
