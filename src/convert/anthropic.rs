//! The neutral view to Anthropic messages.
//!
//! Called by [`super::convert`]. System text moves out of the list, roles alternate, all results of one turn share the user message right
//! after it, ids use the letters that the API takes. Signed thinking survives only where it was Anthropic's own (Converse).

use super::ids::plain_id;
use super::media::medium;
use super::{Out, join, say, system_text};
use crate::format::{Conversation, Format, Item, ItemBody, Role};
use serde_json::{Value, json};

pub(super) fn write(conversation: &Conversation<'_>, out: &mut Out<'_>) {
    if let Some(system) = system_text(conversation, out) {
        out.body.insert("system".to_owned(), json!(system));
    }
    let mut list: Vec<Value> = Vec::new();
    for message in conversation.messages.iter().filter(|message| !matches!(message.role, Role::System | Role::Developer)) {
        let mut results = Vec::new();
        for item in &message.items {
            if let ItemBody::ToolResult(result) = &item.body {
                let (id, _) = out.ids.at(&item.place);
                let text = out.result_text(result);
                let mut block = json!({"type": "tool_result", "tool_use_id": plain_id(&id), "content": text});
                if let (true, Some(map)) = (result.is_error, block.as_object_mut()) {
                    map.insert("is_error".to_owned(), json!(true));
                }
                results.push(block);
            }
        }
        join(&mut list, "user", "content", results);
        say(&mut list, message, "assistant", "content", block, out);
    }
    out.body.insert("messages".to_owned(), Value::Array(list));
}

fn block(item: &Item<'_>, out: &mut Out<'_>) -> Option<Value> {
    match &item.body {
        // The API refuses empty text blocks.
        ItemBody::Text(text) => (!text.is_empty()).then(|| json!({"type": "text", "text": text})),
        ItemBody::Reasoning(reasoning) => match (out.from, reasoning.text, reasoning.signature) {
            (Format::Converse, Some(text), Some(signature)) => Some(json!({"type": "thinking", "thinking": text, "signature": signature})),
            (Format::Converse, _, Some(data)) if reasoning.redacted => Some(json!({"type": "redacted_thinking", "data": data})),
            _ => {
                out.lose_reasoning(&item.place);
                None
            }
        },
        ItemBody::ToolCall(call) if call.other_type.is_none() => {
            let (id, name) = out.ids.at(&item.place);
            out.note_signature(call.signature, &item.place);
            let input = out.object(call.arguments, &item.place);
            Some(json!({"type": "tool_use", "id": plain_id(&id), "name": name, "input": input}))
        }
        _ => medium(item, Format::Anthropic, "a call or block of the provider's own tools", out),
    }
}
