//! The neutral view to Gemini contents.
//!
//! Called by [`super::convert`]. Results carry their tool's name, in the order of the calls; roles alternate; signatures of other
//! providers mean nothing here, and calls without Gemini's own are listed, since newer models ask for them.

use super::media::medium;
use super::{Out, join, say, system_text};
use crate::format::{Conversation, Format, Item, ItemBody, Role, ToolContentBody};
use serde_json::{Value, json};

pub(super) fn write(conversation: &Conversation<'_>, out: &mut Out<'_>) {
    if let Some(system) = system_text(conversation, out) {
        out.body.insert("systemInstruction".to_owned(), json!({"parts": [{"text": system}]}));
    }
    let mut list: Vec<Value> = Vec::new();
    for message in conversation.messages.iter().filter(|message| !matches!(message.role, Role::System | Role::Developer)) {
        let mut results = Vec::new();
        for item in &message.items {
            if let ItemBody::ToolResult(result) = &item.body {
                let (_, name) = out.ids.at(&item.place);
                let only = match result.content.as_slice() {
                    [piece] => match &piece.body {
                        ToolContentBody::Json(value) if value.is_object() && !result.is_error => Some((*value).clone()),
                        _ => None,
                    },
                    _ => None,
                };
                let key = if result.is_error { "error" } else { "output" };
                let response = only.unwrap_or_else(|| json!({(key): out.result_text(result)}));
                results.push(json!({"functionResponse": {"name": name, "response": response}}));
            }
        }
        join(&mut list, "user", "parts", results);
        say(&mut list, message, "model", "parts", piece, out);
    }
    out.body.insert("contents".to_owned(), Value::Array(list));
}

fn piece(item: &Item<'_>, out: &mut Out<'_>) -> Option<Value> {
    match &item.body {
        ItemBody::Text(text) => (!text.is_empty()).then(|| json!({"text": text})),
        ItemBody::ToolCall(call) if call.other_type.is_none() => {
            out.note_signature(call.signature, &item.place);
            let args = out.object(call.arguments, &item.place);
            Some(json!({"functionCall": {"name": call.name, "args": args}}))
        }
        _ => medium(item, Format::Gemini, "a call or block of the provider's own tools", out),
    }
}
