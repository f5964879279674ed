//! OpenAI Responses: JSON to the neutral view.
//!
//! Called by [`Request::conversation`] alone. Every input item becomes one message, so that indices in errors and
//! breakdowns are those of `input`. Item types that only the provider can weigh (server tools' calls, compaction,
//! stored conversations) are kept as [`ItemBody::Other`] and named in [`Conversation::unbounded`]. Counts nothing.

use super::chat::{choice, json_schema};
use super::read::{Fields, capped, join, media_of_url, nth, wrong};
use super::{
    Arguments, Conversation, Item, ItemBody, Media, Message, Options, Place, Reasoning, Request, ResponseFormat, Role, Tool, ToolCall,
    ToolChoice, ToolContent, ToolContentBody, ToolKind, ToolResult, Unbounded,
};
use crate::error::{Error, Result};
use crate::limits;
use serde_json::Value;
use std::borrow::Cow;

const SERVER_ITEM: &str = "a server tool's item is expanded by the provider";

pub(super) fn view(request: &Request) -> Result<Conversation<'_>> {
    let fields = Fields::of(request.value(), "")?;
    let mut unbounded = Vec::new();
    stored_state(&fields, &mut unbounded)?;
    let mut messages = Vec::new();
    instructions(&fields, &mut messages, &mut unbounded)?;
    match fields.get("input") {
        Some(raw @ Value::String(text)) => {
            let items = vec![Item { place: "/input".to_owned(), raw, body: ItemBody::Text(Cow::Borrowed(text)) }];
            messages.push(Message { role: Role::User, name: None, listed: true, index: 0, place: "/input".to_owned(), raw, items });
        }
        Some(Value::Array(list)) => {
            if list.is_empty() && unbounded.is_empty() {
                return Err(Error::invalid("/input", "`input` is empty; expected at least one item"));
            }
            capped(list, limits::MAX_MESSAGES, "input items", "/input")?;
            for (index, raw) in list.iter().enumerate() {
                messages.push(item(raw, index, nth("/input", index), &mut unbounded)?);
            }
        }
        Some(other) => return Err(wrong("/input", "a string or an array of items", other)),
        None if unbounded.is_empty() => {
            return Err(Error::invalid("", "`input` is missing; expected a string or an array of items"));
        }
        None => {}
    }
    let mut tools = Vec::new();
    if let Some(list) = fields.array("tools")? {
        definitions(list, "/tools", &mut tools, &mut unbounded)?;
    }
    Ok(Conversation {
        format: request.format(),
        body: fields.map,
        model: fields.str("model")?,
        messages,
        tools,
        tool_choice: fields.get("tool_choice").map_or(ToolChoice::Default, choice),
        response_format: response_format(&fields)?,
        options: options(&fields)?,
        unbounded,
    })
}

/// What the provider remembers and adds, so that the body is not the whole prompt.
fn stored_state(fields: &Fields<'_, '_>, unbounded: &mut Vec<Unbounded>) -> Result<()> {
    let features = [
        ("previous_response_id", "the provider adds the stored conversation"),
        ("conversation", "the provider adds the stored conversation"),
        ("prompt", "the provider fills in a stored prompt"),
        ("context_management", "the provider may compact the history itself"),
    ];
    for (key, why) in features {
        if fields.get(key).is_some_and(|value| value.as_array().is_none_or(|list| !list.is_empty())) {
            unbounded.push(Unbounded { place: fields.at(key), why });
        }
    }
    if let Some(reasoning) = fields.object("reasoning")?
        && reasoning.get("mode").and_then(Value::as_str).is_some_and(|mode| mode != "standard" && mode != "default")
    {
        unbounded.push(Unbounded { place: "/reasoning/mode".to_owned(), why: "this reasoning mode adds the provider's own text" });
    }
    Ok(())
}

/// `instructions` as a system message; the empty text is answered by the provider with text of its own.
fn instructions<'a>(fields: &Fields<'a, '_>, messages: &mut Vec<Message<'a>>, unbounded: &mut Vec<Unbounded>) -> Result<()> {
    let Some(raw) = fields.get("instructions") else { return Ok(()) };
    let place = fields.at("instructions");
    match raw {
        Value::String(text) if text.is_empty() => {
            unbounded.push(Unbounded { place, why: "empty instructions are replaced by the provider's own text" });
        }
        Value::String(text) => {
            let items = vec![Item { place: place.clone(), raw, body: ItemBody::Text(Cow::Borrowed(text)) }];
            messages.push(Message { role: Role::System, name: None, listed: false, index: 0, place, raw, items });
        }
        Value::Array(list) => {
            for (index, raw) in list.iter().enumerate() {
                let message = item(raw, index, nth(&place, index), unbounded)?;
                messages.push(Message { listed: false, ..message });
            }
        }
        other => return Err(wrong(&place, "a string", other)),
    }
    Ok(())
}

pub(super) fn item<'a>(raw: &'a Value, index: usize, place: Place, unbounded: &mut Vec<Unbounded>) -> Result<Message<'a>> {
    let fields = Fields::of(raw, &place)?;
    let kind = match fields.str("type")? {
        Some(kind) => kind,
        None if fields.map.contains_key("role") => "message",
        None => return Err(Error::invalid(place.as_str(), "`type` is missing; expected a message with `role` or a typed item")),
    };
    let (role, body) = match kind {
        "message" => return message(&fields, index, raw),
        "function_call" | "custom_tool_call" => (Role::Assistant, ItemBody::ToolCall(call(&fields, kind)?)),
        "function_call_output" | "custom_tool_call_output" => (Role::Tool, ItemBody::ToolResult(output(&fields, kind)?)),
        "reasoning" => (Role::Assistant, ItemBody::Reasoning(reasoning(&fields)?)),
        // Tools that arrive in the middle of a conversation; the renderer reads them from the raw item.
        "additional_tools" | "tool_search_output" | "tool_search_call" => (role_of(&fields)?.unwrap_or(Role::Tool), ItemBody::Other(kind)),
        // Calls that the host answers itself: counted from their JSON.
        "local_shell_call" | "shell_call" | "apply_patch_call" | "computer_call" | "mcp_approval_request" => {
            (Role::Assistant, ItemBody::Other(kind))
        }
        "local_shell_call_output" | "shell_call_output" | "apply_patch_call_output" | "computer_call_output" | "mcp_approval_response" => {
            (Role::Tool, ItemBody::Other(kind))
        }
        other => {
            let why = match other {
                "item_reference" => "the provider puts a stored item here",
                "compaction" | "compaction_trigger" => "a compacted history is opaque",
                _ => SERVER_ITEM,
            };
            unbounded.push(Unbounded { place: place.clone(), why });
            (Role::Assistant, ItemBody::Other(other))
        }
    };
    let items = vec![Item { place: place.clone(), raw, body }];
    Ok(Message { role, name: None, listed: true, index, place, raw, items })
}

fn role_of(fields: &Fields<'_, '_>) -> Result<Option<Role>> {
    Ok(match fields.str("role")? {
        None => None,
        Some("system") => Some(Role::System),
        Some("developer") => Some(Role::Developer),
        Some("user") => Some(Role::User),
        Some("assistant") => Some(Role::Assistant),
        Some("tool") => Some(Role::Tool),
        Some(other) => {
            let shown: String = other.chars().take(40).collect();
            return Err(Error::invalid(
                fields.at("role"),
                format!("unknown role `{shown}`; expected one of system, developer, user, assistant"),
            ));
        }
    })
}

fn message<'a>(fields: &Fields<'a, '_>, index: usize, raw: &'a Value) -> Result<Message<'a>> {
    let role = role_of(fields)?.ok_or_else(|| Error::invalid(fields.place, "`role` is missing; expected a string"))?;
    let mut items = Vec::new();
    let place = fields.at("content");
    match fields.get("content") {
        Some(raw @ Value::String(text)) => items.push(Item { place, raw, body: ItemBody::Text(Cow::Borrowed(text)) }),
        Some(Value::Array(parts)) => {
            for (index, raw) in parts.iter().enumerate() {
                let place = nth(&place, index);
                let body = part(raw, &place)?;
                items.push(Item { place, raw, body });
            }
        }
        Some(other) => return Err(wrong(&place, "a string or an array of content parts", other)),
        None if role == Role::Assistant => {}
        None => return Err(Error::invalid(fields.place, "`content` is missing; expected a string or an array of content parts")),
    }
    Ok(Message { role, name: fields.str("name")?, listed: true, index, place: fields.place.to_owned(), raw, items })
}

fn part<'a>(raw: &'a Value, place: &str) -> Result<ItemBody<'a>> {
    let fields = Fields::of(raw, place)?;
    let kind = match fields.str("type")? {
        Some(kind) => kind,
        None if fields.map.contains_key("text") => "input_text",
        None => return Err(Error::invalid(place, "`type` is missing; expected a content part such as {\"type\": \"input_text\", …}")),
    };
    Ok(match kind {
        "input_text" | "output_text" | "text" | "summary_text" | "reasoning_text" => {
            ItemBody::Text(Cow::Borrowed(fields.need_str("text")?))
        }
        "refusal" => ItemBody::Text(Cow::Borrowed(fields.need_str("refusal")?)),
        "input_image" | "computer_screenshot" => ItemBody::Image(image(&fields)?),
        "input_file" => ItemBody::File(file(&fields)?),
        "input_audio" => ItemBody::Audio(audio(&fields)?),
        other => ItemBody::Other(other),
    })
}

fn image<'a>(fields: &Fields<'a, '_>) -> Result<Media<'a>> {
    // A URL in an object is Chat's spelling, which some compatible servers take here too.
    let media = match fields.get("image_url") {
        Some(Value::Object(_)) => {
            let place = fields.at("image_url");
            let inner = Fields::of(&fields.map["image_url"], &place)?;
            Media { detail: inner.str("detail")?, ..media_of_url(inner.need_str("url")?) }
        }
        _ => fields.str("image_url")?.map(media_of_url).unwrap_or_default(),
    };
    Ok(Media { file_id: fields.str("file_id")?, detail: fields.str("detail")?.or(media.detail), ..media })
}

fn file<'a>(fields: &Fields<'a, '_>) -> Result<Media<'a>> {
    let media = fields.str("file_data")?.or(fields.str("file_url")?).map(media_of_url).unwrap_or_default();
    // `file_data` without a `data:` head is bare base64.
    let media = match media.url {
        Some(text) if fields.get("file_data").is_some() => Media { base64: Some(text), url: None, ..media },
        _ => media,
    };
    Ok(Media { file_id: fields.str("file_id")?, name: fields.str("filename")?, detail: fields.str("detail")?, ..media })
}

fn audio<'a>(fields: &Fields<'a, '_>) -> Result<Media<'a>> {
    let place = fields.at("input_audio");
    let raw = fields.get("input_audio").ok_or_else(|| Error::invalid(fields.place, "`input_audio` is missing; expected an object"))?;
    let inner = Fields::of(raw, &place)?;
    Ok(Media { base64: inner.str("data")?, mime: inner.str("format")?, ..Media::default() })
}

fn call<'a>(fields: &Fields<'a, '_>, kind: &'a str) -> Result<ToolCall<'a>> {
    let key = if kind == "custom_tool_call" { "input" } else { "arguments" };
    let arguments = match fields.get(key) {
        None => Arguments::None,
        Some(Value::String(text)) => Arguments::Text(text),
        Some(value @ Value::Object(_)) => Arguments::Json(value),
        Some(other) => return Err(wrong(&fields.at(key), "a string of JSON", other)),
    };
    Ok(ToolCall {
        id: fields.str("call_id")?,
        item_id: fields.str("id")?,
        name: fields.need_str("name")?,
        arguments,
        signature: None,
        legacy: false,
        other_type: (kind != "function_call").then_some(kind),
    })
}

fn output<'a>(fields: &Fields<'a, '_>, kind: &'a str) -> Result<ToolResult<'a>> {
    let place = fields.at("output");
    let content = match fields.get("output") {
        Some(Value::String(text)) => vec![ToolContent { place, body: ToolContentBody::Text(text) }],
        Some(Value::Array(parts)) => parts
            .iter()
            .enumerate()
            .map(|(index, raw)| {
                let place = nth(&place, index);
                let body = match part(raw, &place)? {
                    ItemBody::Text(Cow::Borrowed(text)) => ToolContentBody::Text(text),
                    ItemBody::Image(media) => ToolContentBody::Image(media),
                    ItemBody::File(media) => ToolContentBody::File(media),
                    _ => ToolContentBody::Other(raw.get("type").and_then(Value::as_str).unwrap_or("unknown")),
                };
                Ok(ToolContent { place, body })
            })
            .collect::<Result<_>>()?,
        Some(other) => return Err(wrong(&place, "a string or an array of content parts", other)),
        None => return Err(Error::invalid(fields.place, "`output` is missing; expected a string or an array of content parts")),
    };
    Ok(ToolResult {
        call_id: fields.str("call_id")?,
        name: None,
        content,
        is_error: false,
        legacy: false,
        other_type: (kind != "function_call_output").then_some(kind),
    })
}

/// A reasoning item: its encrypted content, and its readable text where it has just one.
fn reasoning<'a>(fields: &Fields<'a, '_>) -> Result<Reasoning<'a>> {
    let one = |key: &str| -> Result<Option<&'a str>> {
        Ok(match fields.array(key)?.map(Vec::as_slice) {
            Some([only]) => only.get("text").and_then(Value::as_str),
            _ => None,
        })
    };
    let signature = fields.str("encrypted_content")?;
    Ok(Reasoning { text: one("content")?.or(one("summary")?), signature, redacted: signature.is_some() })
}

/// Tool definitions in a list; those of a namespace are listed one by one.
fn definitions<'a>(list: &'a [Value], place: &str, tools: &mut Vec<Tool<'a>>, unbounded: &mut Vec<Unbounded>) -> Result<()> {
    capped(list, limits::MAX_TOOLS, "tool definitions", place)?;
    for (index, raw) in list.iter().enumerate() {
        let place = nth(place, index);
        let fields = Fields::of(raw, &place)?;
        let kind = fields.need_str("type")?;
        match kind {
            "function" | "custom" => tools.push(function(&fields, raw)?),
            "namespace" => {
                let inner = fields.array("tools")?.map_or(&[][..], Vec::as_slice);
                definitions(inner, &join(&place, "tools"), tools, unbounded)?;
            }
            _ => {
                let (kind_of_tool, why) = match kind {
                    "tool_search" => (ToolKind::BuiltIn, None),
                    "local_shell" | "shell" | "apply_patch" | "computer" | "computer_use_preview" => {
                        (ToolKind::BuiltIn, Some("a built-in tool's definition is the provider's own text"))
                    }
                    _ => (ToolKind::Server, Some("a server-side tool adds the provider's own text")),
                };
                unbounded.extend(why.map(|why| Unbounded { place: place.clone(), why }));
                tools.push(Tool {
                    raw,
                    kind: kind_of_tool,
                    name: kind,
                    description: fields.str("description")?,
                    parameters: fields.get("parameters"),
                    legacy: false,
                    deferred: false,
                    place,
                });
            }
        }
    }
    Ok(())
}

fn function<'a>(fields: &Fields<'a, '_>, raw: &'a Value) -> Result<Tool<'a>> {
    let parameters = match fields.get("parameters") {
        Some(value @ (Value::Object(_) | Value::Bool(_))) => Some(value),
        None => None,
        Some(other) => return Err(wrong(&fields.at("parameters"), "a JSON Schema object", other)),
    };
    Ok(Tool {
        place: fields.place.to_owned(),
        raw,
        kind: ToolKind::Function,
        name: fields.need_str("name")?,
        description: fields.str("description")?,
        parameters,
        legacy: false,
        deferred: fields.bool("defer_loading")?,
    })
}

/// The tools that an `additional_tools` or `tool_search_output` item brings, read as the `tools` field would be.
pub(crate) fn brought_tools<'a>(raw: &'a Value, place: &str) -> Vec<Tool<'a>> {
    let mut tools = Vec::new();
    if let Some(list) = raw.get("tools").and_then(Value::as_array) {
        // Shapes that the list can't have are left out: the item as a whole was accepted as opaque.
        let _ = definitions(list, &join(place, "tools"), &mut tools, &mut Vec::new());
    }
    tools
}

fn response_format<'a>(fields: &Fields<'a, '_>) -> Result<ResponseFormat<'a>> {
    let Some(text) = fields.get("text") else { return Ok(ResponseFormat::Text) };
    let text_place: Place = fields.at("text");
    let text = Fields::of(text, &text_place)?;
    let Some(raw) = text.get("format") else { return Ok(ResponseFormat::Text) };
    let place = text.at("format");
    let format = Fields::of(raw, &place)?;
    Ok(match format.str("type")? {
        Some("text") => ResponseFormat::Text,
        Some("json_object") => ResponseFormat::JsonObject,
        Some("json_schema") => json_schema(&format, raw)?,
        _ => ResponseFormat::Other(raw),
    })
}

fn options<'a>(fields: &Fields<'a, '_>) -> Result<Options<'a>> {
    let effort = fields.object("reasoning")?.and_then(|reasoning| reasoning.get("effort")).and_then(Value::as_str);
    Ok(Options {
        max_output: fields.u64("max_output_tokens")?.map(|tokens| (tokens, "max_output_tokens")),
        effort,
        stream: fields.bool("stream")?,
        ..Options::default()
    })
}

#[cfg(test)]
#[path = "responses_tests.rs"]
mod tests;
