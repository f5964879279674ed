//! The neutral view to Responses input items.
//!
//! Called by [`super::convert`]. Every call and result is an item of its own; reasoning of other providers has no place.

use super::media::medium;
use super::{Out, spoken};
use crate::format::{Arguments, Conversation, Format, Item, ItemBody, Role};
use serde_json::{Value, json};

pub(super) fn write(conversation: &Conversation<'_>, out: &mut Out<'_>) {
    let mut list: Vec<Value> = Vec::new();
    for message in &conversation.messages {
        for item in &message.items {
            if let ItemBody::ToolResult(result) = &item.body {
                let (id, _) = out.ids.at(&item.place);
                let text = out.marked_text(result);
                list.push(json!({"type": "function_call_output", "call_id": id, "output": text}));
            }
        }
        let role = if message.role == Role::Tool { "user" } else { message.role.as_str() };
        let mut content = Vec::new();
        for item in spoken(message) {
            if let ItemBody::ToolCall(call) = &item.body {
                flush(&mut list, role, &mut content);
                if call.other_type.is_some() {
                    out.lose(&item.place, "a call of the provider's own tools");
                    continue;
                }
                let (id, name) = out.ids.at(&item.place);
                let arguments = match call.arguments {
                    Arguments::Text(text) => text.to_owned(),
                    Arguments::Json(value) => value.to_string(),
                    Arguments::None => "{}".to_owned(),
                };
                out.note_signature(call.signature, &item.place);
                list.push(json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments}));
            } else {
                content.extend(piece(item, message.role, out));
            }
        }
        flush(&mut list, role, &mut content);
        if message.name.is_some() && message.role != Role::Tool {
            out.lose(&format!("{}/name", message.place), "the speaker's name");
        }
    }
    out.body.insert("input".to_owned(), Value::Array(list));
}

fn flush(list: &mut Vec<Value>, role: &str, content: &mut Vec<Value>) {
    if !content.is_empty() {
        list.push(json!({"type": "message", "role": role, "content": std::mem::take(content)}));
    }
}

fn piece(item: &Item<'_>, role: Role, out: &mut Out<'_>) -> Option<Value> {
    match &item.body {
        ItemBody::Text(text) => Some(json!({"type": if role == Role::Assistant { "output_text" } else { "input_text" }, "text": text})),
        _ => medium(item, Format::Responses, "a block that the responses format can't hold", out),
    }
}
