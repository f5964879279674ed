//! Anthropic Messages: JSON to the neutral view.
//!
//! Called through [`Request::conversation`]. Strict where a wrong type would make a count meaningless, tolerant
//! of unknown fields and block types (those become [`ItemBody::Other`]). A user message that carries tool
//! results keeps [`Role::User`]: this format has no tool role. Counts nothing and fetches nothing.

use super::read::{Fields, capped, join, nth, wrong};
use super::{
    Arguments, Conversation, Format, Item, ItemBody, Media, Message, Options, Place, Reasoning, Request, ResponseFormat, Role, Tool,
    ToolCall, ToolChoice, ToolContent, ToolContentBody, ToolKind, ToolResult, Unbounded,
};
use crate::error::{Error, Result};
use crate::limits;
use serde_json::Value;
use std::borrow::Cow;

#[cfg(test)]
#[path = "anthropic_tests.rs"]
mod tests;

pub(super) fn view(request: &Request) -> Result<Conversation<'_>> {
    let body = Fields::of(request.value(), "")?;
    let mut unbounded = Vec::new();
    let mut messages = Vec::new();
    messages.extend(system(&body, &mut unbounded)?);
    let Some(list) = body.array("messages")? else {
        return Err(Error::invalid("", "`messages` is missing; expected an array"));
    };
    capped(list, limits::MAX_MESSAGES, "messages", "/messages")?;
    for (index, raw) in list.iter().enumerate() {
        messages.push(message(raw, index, nth("/messages", index), &mut unbounded)?);
    }
    let tools = tools(&body, &mut unbounded)?;
    features(&body, &mut unbounded)?;
    Ok(Conversation {
        format: Format::Anthropic,
        body: body.map,
        model: body.str("model")?,
        messages,
        tools,
        tool_choice: tool_choice(&body)?,
        response_format: response_format(&body)?,
        options: options(&body)?,
        unbounded,
    })
}

/// Body fields that let the provider add or drop text by itself.
fn features(body: &Fields<'_, '_>, unbounded: &mut Vec<Unbounded>) -> Result<()> {
    if body.array("mcp_servers")?.is_some_and(|list| !list.is_empty()) {
        unbounded.push(Unbounded { place: body.at("mcp_servers"), why: "the provider lists and calls the connector's tools itself" });
    }
    if body.get("container").is_some() {
        unbounded.push(Unbounded { place: body.at("container"), why: "a container's files and skills add hidden text" });
    }
    if let Some(edits) = body.object("context_management")?.and_then(|m| m.get("edits")).and_then(Value::as_array) {
        for (index, _) in edits.iter().enumerate() {
            unbounded.push(Unbounded {
                place: nth(&join(&body.at("context_management"), "edits"), index),
                why: "the provider edits the history before it counts",
            });
        }
    }
    Ok(())
}

/// The top-level `system` field, as one unlisted message.
fn system<'a>(body: &Fields<'a, '_>, unbounded: &mut Vec<Unbounded>) -> Result<Option<Message<'a>>> {
    let Some(raw) = body.get("system") else { return Ok(None) };
    let place = body.at("system");
    let items = content(raw, &place, unbounded)?;
    Ok(Some(Message { role: Role::System, name: None, listed: false, index: 0, place, raw, items }))
}

pub(super) fn message<'a>(raw: &'a Value, index: usize, place: Place, unbounded: &mut Vec<Unbounded>) -> Result<Message<'a>> {
    let fields = Fields::of(raw, &place)?;
    let role = match fields.need_str("role")? {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        _ => return Err(Error::invalid(fields.at("role"), "unknown role; expected `user`, `assistant` or `system`")),
    };
    let Some(raw_content) = fields.get("content") else {
        return Err(Error::invalid(place.as_str(), "`content` is missing; expected a string or an array of blocks"));
    };
    let items = content(raw_content, &fields.at("content"), unbounded)?;
    Ok(Message { role, name: None, listed: true, index, place, raw, items })
}

/// A string or an array of blocks.
fn content<'a>(raw: &'a Value, place: &str, unbounded: &mut Vec<Unbounded>) -> Result<Vec<Item<'a>>> {
    match raw {
        Value::String(text) => Ok(vec![Item { place: place.to_owned(), raw, body: ItemBody::Text(Cow::Borrowed(text)) }]),
        Value::Array(blocks) => blocks.iter().enumerate().map(|(i, block)| item(block, nth(place, i), unbounded)).collect(),
        other => Err(wrong(place, "a string or an array of blocks", other)),
    }
}

fn item<'a>(raw: &'a Value, place: Place, unbounded: &mut Vec<Unbounded>) -> Result<Item<'a>> {
    let block = Fields::of(raw, &place)?;
    let kind = block.need_str("type")?;
    let body = match kind {
        "text" => ItemBody::Text(Cow::Borrowed(block.need_str("text")?)),
        "image" => ItemBody::Image(media(&block)?),
        "document" => ItemBody::File(media(&block)?),
        "thinking" => ItemBody::Reasoning(Reasoning { text: block.str("thinking")?, signature: block.str("signature")?, redacted: false }),
        "redacted_thinking" => ItemBody::Reasoning(Reasoning { text: None, signature: block.str("data")?, redacted: true }),
        "tool_use" => ItemBody::ToolCall(call(&block, None)?),
        "server_tool_use" | "mcp_tool_use" => {
            unbounded.push(Unbounded { place: place.clone(), why: "a call that the provider ran itself" });
            ItemBody::ToolCall(call(&block, Some(kind))?)
        }
        "tool_result" => ItemBody::ToolResult(result(&block, None)?),
        _ if kind.ends_with("_tool_result") => {
            unbounded.push(Unbounded { place: place.clone(), why: "the provider renders its own tool's result" });
            ItemBody::ToolResult(result(&block, Some(kind))?)
        }
        "container_upload" => {
            unbounded.push(Unbounded { place: place.clone(), why: "a file in a container adds hidden text" });
            ItemBody::Other(kind)
        }
        _ => ItemBody::Other(kind),
    };
    Ok(Item { place, raw, body })
}

fn call<'a>(block: &Fields<'a, '_>, other_type: Option<&'a str>) -> Result<ToolCall<'a>> {
    let arguments = match block.get("input") {
        None => Arguments::None,
        Some(input @ Value::Object(_)) => Arguments::Json(input),
        Some(input) if other_type.is_some() => Arguments::Json(input),
        Some(other) => return Err(wrong(&block.at("input"), "an object", other)),
    };
    let id = if other_type.is_some() { block.str("id")? } else { Some(block.need_str("id")?) };
    Ok(ToolCall { id, item_id: None, name: block.need_str("name")?, arguments, signature: None, legacy: false, other_type })
}

fn result<'a>(block: &Fields<'a, '_>, other_type: Option<&'a str>) -> Result<ToolResult<'a>> {
    let call_id = if other_type.is_some() { block.str("tool_use_id")? } else { Some(block.need_str("tool_use_id")?) };
    let place = block.at("content");
    let content = match block.get("content") {
        None => Vec::new(),
        Some(Value::String(text)) => vec![ToolContent { place, body: ToolContentBody::Text(text) }],
        Some(json) if other_type.is_some() => vec![ToolContent { place, body: ToolContentBody::Json(json) }],
        Some(Value::Array(parts)) => parts.iter().enumerate().map(|(i, part)| result_part(part, nth(&place, i))).collect::<Result<_>>()?,
        Some(other) => return Err(wrong(&place, "a string or an array of blocks", other)),
    };
    Ok(ToolResult { call_id, name: None, content, is_error: block.bool("is_error")?, legacy: false, other_type })
}

fn result_part(raw: &Value, place: Place) -> Result<ToolContent<'_>> {
    let block = Fields::of(raw, &place)?;
    let body = match block.need_str("type")? {
        "text" => ToolContentBody::Text(block.need_str("text")?),
        "image" => ToolContentBody::Image(media(&block)?),
        "document" => ToolContentBody::File(media(&block)?),
        // A reference loads a deferred tool by name: the name is what a renderer needs.
        "tool_reference" => ToolContentBody::Json(raw),
        other => ToolContentBody::Other(other),
    };
    Ok(ToolContent { place, body })
}

/// The `source` of an image or a document.
fn media<'a>(block: &Fields<'a, '_>) -> Result<Media<'a>> {
    let Some(raw) = block.get("source") else {
        return Err(Error::invalid(block.place, "`source` is missing; expected an object"));
    };
    let place = block.at("source");
    let source = Fields::of(raw, &place)?;
    let mut media = Media { mime: source.str("media_type")?, name: block.str("title")?, ..Media::default() };
    match source.need_str("type")? {
        "base64" => media.base64 = Some(source.need_str("data")?),
        "url" => media.url = Some(source.need_str("url")?),
        "file" => media.file_id = Some(source.need_str("file_id")?),
        "text" => media.text = Some(source.need_str("data")?),
        // `content`: a string or blocks inside a document. A renderer that cares walks the raw block.
        "content" => media.text = source.get("content").and_then(Value::as_str),
        _ => {}
    }
    Ok(media)
}

fn tools<'a>(body: &Fields<'a, '_>, unbounded: &mut Vec<Unbounded>) -> Result<Vec<Tool<'a>>> {
    let Some(list) = body.array("tools")? else { return Ok(Vec::new()) };
    capped(list, limits::MAX_TOOLS, "tools", "/tools")?;
    list.iter().enumerate().map(|(index, raw)| tool(raw, nth("/tools", index), unbounded)).collect()
}

/// Types of built-in tools that the host runs. Anything else with a type of its own runs at the provider.
const BUILT_IN: [&str; 4] = ["bash_", "text_editor_", "computer_", "memory_"];

fn tool<'a>(raw: &'a Value, place: Place, unbounded: &mut Vec<Unbounded>) -> Result<Tool<'a>> {
    let fields = Fields::of(raw, &place)?;
    let kind = match fields.str("type")? {
        None | Some("custom") => ToolKind::Function,
        Some(built_in) if BUILT_IN.iter().any(|prefix| built_in.starts_with(prefix)) => ToolKind::BuiltIn,
        Some(_) => {
            unbounded.push(Unbounded { place: place.clone(), why: "a tool that the provider runs adds hidden text" });
            ToolKind::Server
        }
    };
    let name = match kind {
        ToolKind::Function => fields.need_str("name")?,
        _ => fields.need_str("type")?,
    };
    let parameters = match fields.get("input_schema") {
        Some(other) if !other.is_object() => return Err(wrong(&fields.at("input_schema"), "an object", other)),
        schema => schema,
    };
    let description = fields.str("description")?;
    let deferred = fields.bool("defer_loading")?;
    Ok(Tool { raw, kind, name, description, parameters, legacy: false, deferred, place })
}

fn tool_choice<'a>(body: &Fields<'a, '_>) -> Result<ToolChoice<'a>> {
    let Some(raw) = body.get("tool_choice") else { return Ok(ToolChoice::Default) };
    let place = body.at("tool_choice");
    let choice = Fields::of(raw, &place)?;
    Ok(match choice.need_str("type")? {
        "auto" => ToolChoice::Auto,
        "any" => ToolChoice::Required,
        "none" => ToolChoice::None,
        "tool" => ToolChoice::Named(choice.need_str("name")?),
        _ => ToolChoice::Other,
    })
}

fn response_format<'a>(body: &Fields<'a, '_>) -> Result<ResponseFormat<'a>> {
    let current = body.object("output_config")?.and_then(|config| config.get("format")).filter(|format| !format.is_null());
    let (raw, place) = match (current, body.get("output_format")) {
        (Some(raw), _) => (raw, join(&body.at("output_config"), "format")),
        (None, Some(raw)) => (raw, body.at("output_format")),
        (None, None) => return Ok(ResponseFormat::Text),
    };
    let format = Fields::of(raw, &place)?;
    Ok(match (format.str("type")?, format.get("schema")) {
        (Some("json_schema"), Some(schema)) => ResponseFormat::JsonSchema { name: None, description: None, schema },
        _ => ResponseFormat::Other(raw),
    })
}

fn options<'a>(body: &Fields<'a, '_>) -> Result<Options<'a>> {
    let mut options =
        Options { max_output: body.u64("max_tokens")?.map(|n| (n, "max_tokens")), stream: body.bool("stream")?, ..Options::default() };
    if let Some(raw) = body.get("thinking") {
        let place = body.at("thinking");
        let thinking = Fields::of(raw, &place)?;
        options.thinking = Some(thinking.need_str("type")?);
        options.thinking_budget = thinking.u64("budget_tokens")?.map(|n| i64::try_from(n).unwrap_or(i64::MAX));
    }
    if let Some(raw) = body.get("output_config") {
        let place = body.at("output_config");
        options.effort = Fields::of(raw, &place)?.str("effort")?;
    }
    Ok(options)
}
