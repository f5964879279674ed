//! The neutral view to Bedrock Converse messages.
//!
//! Called by [`super::convert`]. System text stands outside the list, roles alternate, all results of one turn share the user message right after
//! it. Signed thinking survives where it was Anthropic's own. Pictures and documents in results keep their place.

use super::ids::plain_id;
use super::media::{Sort, medium, part};
use super::{Out, join, say, system_text};
use crate::format::{Conversation, Format, Item, ItemBody, Reasoning, Role, ToolContentBody, ToolResult};
use serde_json::{Value, json};

pub(super) fn write(conversation: &Conversation<'_>, out: &mut Out<'_>) {
    if let Some(system) = system_text(conversation, out) {
        out.body.insert("system".to_owned(), json!([{"text": system}]));
    }
    let mut list: Vec<Value> = Vec::new();
    for message in conversation.messages.iter().filter(|message| !matches!(message.role, Role::System | Role::Developer)) {
        let mut results = Vec::new();
        for item in &message.items {
            if let ItemBody::ToolResult(result) = &item.body {
                results.push(tool_result(result, &item.place, out));
            }
        }
        join(&mut list, "user", "content", results);
        say(&mut list, message, "assistant", "content", block, out);
    }
    out.body.insert("messages".to_owned(), Value::Array(list));
}

fn tool_result(result: &ToolResult<'_>, place: &str, out: &mut Out<'_>) -> Value {
    let (id, _) = out.ids.at(place);
    let mut content = Vec::new();
    for piece in &result.content {
        match &piece.body {
            ToolContentBody::Text("") => {}
            ToolContentBody::Text(text) => content.push(json!({"text": text})),
            // Only objects may stand under `json`.
            ToolContentBody::Json(value) if value.is_object() => content.push(json!({"json": value})),
            ToolContentBody::Json(value) => content.push(json!({"text": value.to_string()})),
            ToolContentBody::Image(media) => content.extend(part(media, Sort::Image, Format::Converse, &piece.place, out)),
            ToolContentBody::File(media) => content.extend(part(media, Sort::File, Format::Converse, &piece.place, out)),
            ToolContentBody::Other(kind) => out.lose(&piece.place, format!("content of the type `{kind}` in a tool result")),
        }
    }
    let status = if result.is_error { "error" } else { "success" };
    json!({"toolResult": {"toolUseId": plain_id(&id), "content": content, "status": status}})
}

fn block(item: &Item<'_>, out: &mut Out<'_>) -> Option<Value> {
    match &item.body {
        // The API refuses empty text blocks.
        ItemBody::Text(text) => (!text.is_empty()).then(|| json!({"text": text})),
        ItemBody::Reasoning(reasoning) => reasoning_block(reasoning, item, out),
        ItemBody::ToolCall(call) if call.other_type.is_none() => {
            let (id, name) = out.ids.at(&item.place);
            out.note_signature(call.signature, &item.place);
            let input = out.object(call.arguments, &item.place);
            Some(json!({"toolUse": {"toolUseId": plain_id(&id), "name": name, "input": input}}))
        }
        _ => medium(item, Format::Converse, "a call or block of the provider's own tools", out),
    }
}

fn reasoning_block(reasoning: &Reasoning<'_>, item: &Item<'_>, out: &mut Out<'_>) -> Option<Value> {
    match (out.from, reasoning.text, reasoning.signature) {
        (Format::Anthropic, Some(text), Some(signature)) if !reasoning.redacted => {
            Some(json!({"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}}))
        }
        (Format::Anthropic, None, Some(data)) if reasoning.redacted => Some(json!({"reasoningContent": {"redactedContent": data}})),
        _ => {
            out.lose_reasoning(&item.place);
            None
        }
    }
}
