//! Anthropic Messages responses to a turn.
//!
//! Called by [`Turn::read`]. `server_tool_use` blocks are run by the provider and stay in the message.

use super::super::answer::{Call, CallKind, Turn};
use super::super::peek::{as_text, filled, some, text};
use super::{Gathered, owned, usage};
use serde_json::{Value, json};

pub(super) fn read(body: &Value, turn: &mut Turn) {
    turn.id = owned(filled(body, "id"));
    turn.model = owned(filled(body, "model"));
    usage(turn, body, "usage");
    let Some(content) = some(body, "content").and_then(Value::as_array) else { return };
    let mut out = Gathered::default();
    for block in content {
        match text(block, "type") {
            Some("text") => out.text.push_str(text(block, "text").unwrap_or_default()),
            Some("thinking") => out.reasoning.push_str(text(block, "thinking").unwrap_or_default()),
            Some("tool_use") => out.calls.push(Call {
                id: owned(filled(block, "id")),
                name: text(block, "name").unwrap_or_default().to_owned(),
                arguments: block.get("input").map(as_text).unwrap_or_default(),
                kind: CallKind::Function,
            }),
            _ => {}
        }
    }
    let message = json!({"role": "assistant", "content": content});
    turn.choices.push(out.choice(0, message, text(body, "stop_reason"), turn.format));
}
