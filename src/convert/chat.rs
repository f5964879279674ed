//! The neutral view to Chat Completions messages.
//!
//! Called by [`super::convert`]. Reasoning has no place in the format; results are messages of their own, right after their calls.

use super::media::medium;
use super::{Out, plain, spoken};
use crate::format::{Arguments, Conversation, Format, Item, ItemBody, Role};
use serde_json::{Map, Value, json};

pub(super) fn write(conversation: &Conversation<'_>, out: &mut Out<'_>) {
    let mut list: Vec<Value> = Vec::new();
    for message in &conversation.messages {
        for item in &message.items {
            if let ItemBody::ToolResult(result) = &item.body {
                let (id, _) = out.ids.at(&item.place);
                let text = out.marked_text(result);
                list.push(json!({"role": "tool", "tool_call_id": id, "content": text}));
            }
        }
        let items = spoken(message);
        if items.is_empty() {
            continue;
        }
        match message.role {
            Role::Assistant => assistant(&items, &mut list, out),
            role => {
                let content = plain(&items).map_or_else(|| Value::Array(parts(&items, out)), Value::String);
                let role = if role == Role::Tool { "user" } else { role.as_str() };
                let mut sent = json!({"role": role, "content": content});
                if let (Some(name), Some(map)) = (message.name, sent.as_object_mut()) {
                    map.insert("name".to_owned(), json!(name));
                }
                list.push(sent);
            }
        }
    }
    out.body.insert("messages".to_owned(), Value::Array(list));
}

/// One assistant message; items of Responses, which stand alone, join the assistant message before them.
fn assistant(items: &[&Item<'_>], list: &mut Vec<Value>, out: &mut Out<'_>) {
    let (mut text, mut calls) = (Vec::new(), Vec::new());
    for item in items {
        match &item.body {
            ItemBody::Text(words) => text.push(words.to_string()),
            ItemBody::ToolCall(call) if call.other_type.is_none() => {
                let (id, name) = out.ids.at(&item.place);
                let arguments = match call.arguments {
                    Arguments::Text(text) => text.to_owned(),
                    Arguments::Json(value) => value.to_string(),
                    Arguments::None => "{}".to_owned(),
                };
                out.note_signature(call.signature, &item.place);
                calls.push(json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}));
            }
            ItemBody::Reasoning(_) => out.lose_reasoning(&item.place),
            ItemBody::ToolCall(_) | ItemBody::Other(_) => out.lose(&item.place, "a call or block of the provider's own tools"),
            _ => out.lose(&item.place, "a picture, file or sound in an answer"),
        }
    }
    if text.is_empty() && calls.is_empty() {
        return;
    }
    let joins = list.last().is_some_and(|last| last["role"] == "assistant" && (text.is_empty() || last.get("tool_calls").is_none()));
    if !joins {
        list.push(json!({"role": "assistant", "content": Value::Null}));
    }
    let Some(last) = list.last_mut().and_then(Value::as_object_mut) else { return };
    if !text.is_empty() {
        let before = last.get("content").and_then(Value::as_str).map(str::to_owned);
        last.insert("content".to_owned(), json!(before.into_iter().chain(text).collect::<Vec<_>>().join("\n")));
    }
    if !calls.is_empty() {
        match last.entry("tool_calls").or_insert_with(|| json!([])) {
            Value::Array(before) => before.extend(calls),
            other => *other = Value::Array(calls),
        }
    }
}

fn parts(items: &[&Item<'_>], out: &mut Out<'_>) -> Vec<Value> {
    let mut parts = Vec::new();
    for item in items {
        match &item.body {
            ItemBody::Text(text) => parts.push(json!({"type": "text", "text": text})),
            _ => parts.extend(medium(item, Format::Chat, "a block that the chat format can't hold", out)),
        }
    }
    parts
}

/// Function tools in the format's shape.
pub(super) fn tool(name: &str, description: Option<&str>, parameters: Value) -> Value {
    let mut function = Map::new();
    function.insert("name".to_owned(), json!(name));
    if let Some(description) = description {
        function.insert("description".to_owned(), json!(description));
    }
    function.insert("parameters".to_owned(), parameters);
    json!({"type": "function", "function": function})
}
