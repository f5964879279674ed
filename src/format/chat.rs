//! OpenAI Chat Completions, and the many servers that speak it: JSON to the neutral view.
//!
//! Called by [`Request::conversation`] alone. Strict on the types of what it reads and on roles; fields and
//! content types that it doesn't know are kept and reported as [`ItemBody::Other`]. Counts nothing.
//! Hosts' own additions (reasoning fields, documents, thinking parts) are read where their meaning is plain.

use super::read::{Fields, capped, join, media_of_url, nth, wrong};
use super::{
    Arguments, Conversation, Item, ItemBody, Media, Message, Options, Place, Reasoning, Request, ResponseFormat, Role, Tool, ToolCall,
    ToolChoice, ToolContent, ToolContentBody, ToolKind, ToolResult, Unbounded,
};
use crate::error::{Error, Result};
use crate::limits;
use serde_json::{Map, Value};
use std::borrow::Cow;

const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];

pub(super) fn view(request: &Request) -> Result<Conversation<'_>> {
    let fields = Fields::of(request.value(), "")?;
    let list = fields.array("messages")?.ok_or_else(|| Error::invalid("", "`messages` is missing; expected an array of messages"))?;
    if list.is_empty() {
        return Err(Error::invalid("/messages", "`messages` is empty; expected at least one message"));
    }
    capped(list, limits::MAX_MESSAGES, "messages", "/messages")?;
    let messages = list.iter().enumerate().map(|(index, raw)| message(raw, index, nth("/messages", index))).collect::<Result<Vec<_>>>()?;

    let mut unbounded = Vec::new();
    let tools = tools(&fields, &mut unbounded)?;
    server_features(&fields, &mut unbounded);
    Ok(Conversation {
        format: request.format(),
        body: fields.map,
        model: fields.str("model")?,
        messages,
        tools,
        tool_choice: tool_choice(fields.map),
        response_format: response_format(&fields)?,
        options: options(&fields)?,
        unbounded,
    })
}

/// Fields with which a server adds text of its own to the prompt.
fn server_features(fields: &Fields<'_, '_>, unbounded: &mut Vec<Unbounded>) {
    let features = [
        ("web_search_options", "web search adds the provider's own text"),
        ("search_parameters", "live search adds the provider's own text"),
        ("search_settings", "search adds the provider's own text"),
        ("plugins", "gateway plugins add their own text"),
        ("preset", "a stored preset adds its own text"),
        ("data_sources", "retrieval adds the provider's own text"),
        ("compound_custom", "a compound system adds its own text"),
    ];
    for (key, why) in features {
        let present = match fields.get(key) {
            None | Some(Value::Bool(false)) => false,
            Some(Value::Array(list)) => !list.is_empty(),
            Some(_) => true,
        };
        if present {
            unbounded.push(Unbounded { place: fields.at(key), why });
        }
    }
}

pub(super) fn message(raw: &Value, index: usize, place: Place) -> Result<Message<'_>> {
    let fields = Fields::of(raw, &place)?;
    let role_name = fields.need_str("role")?;
    let role = match role_name {
        "system" => Role::System,
        "developer" => Role::Developer,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" | "function" => Role::Tool,
        other => {
            let shown: String = other.chars().take(40).collect();
            return Err(Error::invalid(fields.at("role"), format!("unknown role `{shown}`; expected one of {}", ROLES.join(", "))));
        }
    };
    let name = fields.str("name")?;
    let mut items = Vec::new();
    if role == Role::Tool {
        let content = fields.get("content").ok_or_else(|| missing_content(&place, role_name))?;
        items.push(Item {
            place: place.clone(),
            raw,
            body: ItemBody::ToolResult(ToolResult {
                call_id: fields.str("tool_call_id")?,
                name,
                content: result_content(content, &fields.at("content"))?,
                is_error: false,
                legacy: role_name == "function",
                other_type: None,
            }),
        });
    } else {
        if role == Role::Assistant {
            reasoning(&fields, &mut items)?;
        }
        match fields.get("content") {
            Some(value) => content(value, &fields.at("content"), &mut items)?,
            None if role == Role::Assistant => {}
            None => return Err(missing_content(&place, role_name)),
        }
        if role == Role::Assistant {
            answers(&fields, &mut items)?;
        }
    }
    Ok(Message { role, name, listed: true, index, place, raw, items })
}

fn missing_content(place: &str, role: &str) -> Error {
    Error::invalid(place, format!("`content` is missing; a {role} message needs a string or an array of parts"))
}

/// What only an assistant message has after its content: refusal, audio, calls.
fn answers<'a>(fields: &Fields<'a, '_>, items: &mut Vec<Item<'a>>) -> Result<()> {
    if let Some(text) = fields.str("refusal")? {
        items.push(Item { place: fields.at("refusal"), raw: &fields.map["refusal"], body: ItemBody::Text(Cow::Borrowed(text)) });
    }
    if let Some(raw) = fields.get("audio") {
        let place = fields.at("audio");
        let file_id = Fields::of(raw, &place)?.str("id")?;
        items.push(Item { place, raw, body: ItemBody::Audio(Media { file_id, ..Media::default() }) });
    }
    for (index, raw) in fields.array("tool_calls")?.into_iter().flatten().enumerate() {
        let place = nth(&fields.at("tool_calls"), index);
        let call = tool_call(raw, &place)?;
        items.push(Item { place, raw, body: ItemBody::ToolCall(call) });
    }
    if let Some(raw) = fields.get("function_call") {
        let place = fields.at("function_call");
        let call = Fields::of(raw, &place)?;
        let call = ToolCall {
            id: None,
            item_id: None,
            name: call.need_str("name")?,
            arguments: arguments(&call, "arguments")?,
            signature: None,
            legacy: true,
            other_type: None,
        };
        items.push(Item { place, raw, body: ItemBody::ToolCall(call) });
    }
    Ok(())
}

fn tool_call<'a>(raw: &'a Value, place: &str) -> Result<ToolCall<'a>> {
    let fields = Fields::of(raw, place)?;
    let kind = fields.str("type")?.unwrap_or("function");
    let key = if kind == "custom" { "custom" } else { "function" };
    let inner_place = fields.at(key);
    let inner = fields.get(key).ok_or_else(|| Error::invalid(place, format!("`{key}` is missing; expected an object")))?;
    let inner = Fields::of(inner, &inner_place)?;
    Ok(ToolCall {
        id: fields.str("id")?,
        item_id: None,
        name: inner.need_str("name")?,
        arguments: arguments(&inner, if key == "custom" { "input" } else { "arguments" })?,
        signature: None,
        legacy: false,
        other_type: (kind != "function").then_some(kind),
    })
}

/// Arguments: JSON text in the published format, a JSON object on some hosts.
fn arguments<'a>(fields: &Fields<'a, '_>, key: &str) -> Result<Arguments<'a>> {
    match fields.get(key) {
        None => Ok(Arguments::None),
        Some(Value::String(text)) => Ok(Arguments::Text(text)),
        Some(value @ Value::Object(_)) => Ok(Arguments::Json(value)),
        Some(other) => Err(wrong(&fields.at(key), "a string of JSON", other)),
    }
}

/// Replayed reasoning in the fields that hosts of reasoning models use; they repeat one another, so the fullest one is read.
fn reasoning<'a>(fields: &Fields<'a, '_>, items: &mut Vec<Item<'a>>) -> Result<()> {
    if let Some(Value::Array(details)) = fields.get("reasoning_details")
        && !details.is_empty()
    {
        let list = fields.at("reasoning_details");
        for (index, raw) in details.iter().enumerate() {
            let place = nth(&list, index);
            let detail = Fields::of(raw, &place)?;
            let text = detail.str("text")?.or(detail.str("summary")?);
            let data = detail.str("data")?;
            let body = ItemBody::Reasoning(Reasoning { text, signature: data.or(detail.str("signature")?), redacted: data.is_some() });
            items.push(Item { place, raw, body });
        }
        return Ok(());
    }
    for key in ["reasoning_content", "reasoning"] {
        if let Some(raw @ Value::String(text)) = fields.get(key)
            && !text.is_empty()
        {
            let body = ItemBody::Reasoning(Reasoning { text: Some(text), ..Reasoning::default() });
            items.push(Item { place: fields.at(key), raw, body });
            break;
        }
    }
    Ok(())
}

/// Message content: a string or an array of parts.
fn content<'a>(value: &'a Value, place: &str, items: &mut Vec<Item<'a>>) -> Result<()> {
    match value {
        Value::String(text) => {
            items.push(Item { place: place.to_owned(), raw: value, body: ItemBody::Text(Cow::Borrowed(text)) });
            Ok(())
        }
        Value::Array(parts) => {
            for (index, raw) in parts.iter().enumerate() {
                let place = nth(place, index);
                let body = part(raw, &place)?;
                items.push(Item { place, raw, body });
            }
            Ok(())
        }
        other => Err(wrong(place, "a string or an array of content parts", other)),
    }
}

fn part<'a>(raw: &'a Value, place: &str) -> Result<ItemBody<'a>> {
    let fields = Fields::of(raw, place)?;
    let kind = match fields.str("type")? {
        Some(kind) => kind,
        None if fields.map.contains_key("text") => "text",
        None => return Err(Error::invalid(place, "`type` is missing; expected a content part such as {\"type\": \"text\", …}")),
    };
    Ok(match kind {
        "text" | "input_text" | "output_text" => ItemBody::Text(Cow::Borrowed(fields.need_str("text")?)),
        "refusal" => ItemBody::Text(Cow::Borrowed(fields.need_str("refusal")?)),
        "image_url" | "input_image" => ItemBody::Image(by_url(&fields, "image_url")?),
        "video_url" => ItemBody::Video(by_url(&fields, "video_url")?),
        "audio_url" => ItemBody::Audio(by_url(&fields, "audio_url")?),
        "document_url" => ItemBody::File(Media { name: fields.str("document_name")?, ..by_url(&fields, "document_url")? }),
        "file_url" => ItemBody::File(by_url(&fields, "file_url")?),
        "file" => ItemBody::File(file(&fields)?),
        "input_audio" => ItemBody::Audio(audio(&fields)?),
        "thinking" => ItemBody::Reasoning(Reasoning { text: thinking_text(&fields)?, ..Reasoning::default() }),
        other => ItemBody::Other(other),
    })
}

/// Text of a `thinking` part: a string, or one text chunk (Mistral). Several chunks are left to [`Item::raw`].
fn thinking_text<'a>(fields: &Fields<'a, '_>) -> Result<Option<&'a str>> {
    match fields.get("thinking") {
        Some(Value::Array(chunks)) => match chunks.as_slice() {
            [only] => Fields::of(only, &nth(&fields.at("thinking"), 0))?.str("text"),
            _ => Ok(None),
        },
        _ => fields.str("thinking"),
    }
}

/// `{"image_url": {"url", "detail"}}`, or the URL itself as some hosts take it.
fn by_url<'a>(fields: &Fields<'a, '_>, key: &str) -> Result<Media<'a>> {
    match fields.get(key) {
        Some(Value::String(url)) => Ok(media_of_url(url)),
        Some(value @ Value::Object(_)) => {
            let place = fields.at(key);
            let inner = Fields::of(value, &place)?;
            Ok(Media { detail: inner.str("detail")?, ..media_of_url(inner.need_str("url")?) })
        }
        Some(other) => Err(wrong(&fields.at(key), "an object with `url`", other)),
        None => Err(Error::invalid(fields.place, format!("`{key}` is missing; expected an object with `url`"))),
    }
}

fn file<'a>(fields: &Fields<'a, '_>) -> Result<Media<'a>> {
    let place = fields.at("file");
    let value = fields.get("file").ok_or_else(|| Error::invalid(fields.place, "`file` is missing; expected an object"))?;
    let inner = Fields::of(value, &place)?;
    let media = inner.str("file_data")?.map(media_of_url).unwrap_or_default();
    Ok(Media { file_id: inner.str("file_id")?, name: inner.str("filename")?, ..media })
}

fn audio<'a>(fields: &Fields<'a, '_>) -> Result<Media<'a>> {
    let place = fields.at("input_audio");
    let value = fields.get("input_audio").ok_or_else(|| Error::invalid(fields.place, "`input_audio` is missing; expected an object"))?;
    if let Value::String(url) = value {
        return Ok(media_of_url(url));
    }
    let inner = Fields::of(value, &place)?;
    Ok(Media { base64: inner.str("data")?, mime: inner.str("format")?, ..Media::default() })
}

fn result_content<'a>(value: &'a Value, place: &str) -> Result<Vec<ToolContent<'a>>> {
    let parts = match value {
        Value::String(text) => return Ok(vec![ToolContent { place: place.to_owned(), body: ToolContentBody::Text(text) }]),
        Value::Array(parts) => parts,
        other => return Err(wrong(place, "a string or an array of content parts", other)),
    };
    parts
        .iter()
        .enumerate()
        .map(|(index, raw)| {
            let place = nth(place, index);
            let body = match part(raw, &place)? {
                ItemBody::Text(Cow::Borrowed(text)) => ToolContentBody::Text(text),
                ItemBody::Image(media) => ToolContentBody::Image(media),
                ItemBody::File(media) => ToolContentBody::File(media),
                _ => ToolContentBody::Other(raw.get("type").and_then(Value::as_str).unwrap_or("unknown")),
            };
            Ok(ToolContent { place, body })
        })
        .collect()
}

fn tools<'a>(fields: &Fields<'a, '_>, unbounded: &mut Vec<Unbounded>) -> Result<Vec<Tool<'a>>> {
    let mut tools = Vec::new();
    for (key, legacy) in [("tools", false), ("functions", true)] {
        let Some(list) = fields.array(key)? else { continue };
        let list_place = fields.at(key);
        capped(list, limits::MAX_TOOLS, "tool definitions", &list_place)?;
        for (index, raw) in list.iter().enumerate() {
            let place = nth(&list_place, index);
            let tool = if legacy { function(raw, raw, place, true)? } else { tool(raw, place)? };
            if tool.kind == ToolKind::Server {
                unbounded.push(Unbounded { place: tool.place.clone(), why: "a server-side tool adds the provider's own text" });
            }
            tools.push(tool);
        }
    }
    Ok(tools)
}

fn tool(raw: &Value, place: Place) -> Result<Tool<'_>> {
    let fields = Fields::of(raw, &place)?;
    match fields.str("type")?.unwrap_or("function") {
        key @ ("function" | "custom") => {
            let inner = fields.get(key).ok_or_else(|| Error::invalid(place.as_str(), format!("`{key}` is missing; expected an object")))?;
            function(raw, inner, place, false)
        }
        kind => {
            Ok(Tool { raw, kind: ToolKind::Server, name: kind, description: None, parameters: None, legacy: false, deferred: false, place })
        }
    }
}

fn function<'a>(raw: &'a Value, inner: &'a Value, place: Place, legacy: bool) -> Result<Tool<'a>> {
    let inner_place = if std::ptr::eq(raw, inner) { place.clone() } else { join(&place, kind_key(raw)) };
    let fields = Fields::of(inner, &inner_place)?;
    let (name, description) = (fields.need_str("name")?, fields.str("description")?);
    let parameters = match fields.get("parameters") {
        Some(value @ (Value::Object(_) | Value::Bool(_))) => Some(value),
        None => None,
        Some(other) => return Err(wrong(&fields.at("parameters"), "a JSON Schema object", other)),
    };
    Ok(Tool { place, raw, kind: ToolKind::Function, name, description, parameters, legacy, deferred: false })
}

fn kind_key(raw: &Value) -> &'static str {
    if raw.get("type").and_then(Value::as_str) == Some("custom") { "custom" } else { "function" }
}

fn tool_choice(body: &Map<String, Value>) -> ToolChoice<'_> {
    match body.get("tool_choice").filter(|v| !v.is_null()).or_else(|| body.get("function_call")) {
        None | Some(Value::Null) => ToolChoice::Default,
        Some(value) => choice(value),
    }
}

/// `tool_choice` in the spellings of Chat Completions and Responses.
pub(super) fn choice(value: &Value) -> ToolChoice<'_> {
    match value {
        Value::String(word) => match word.as_str() {
            "auto" => ToolChoice::Auto,
            "none" => ToolChoice::None,
            "required" | "any" => ToolChoice::Required,
            _ => ToolChoice::Other,
        },
        Value::Object(map) => {
            let named = |value: Option<&'_ Value>| -> bool { value.is_some_and(Value::is_string) };
            let kind = map.get("type").and_then(Value::as_str);
            let inner = map.get("function").or_else(|| map.get("custom")).unwrap_or(value);
            match (kind, inner.get("name")) {
                (Some("function" | "custom") | None, name) if named(name) => {
                    name.and_then(Value::as_str).map_or(ToolChoice::Other, ToolChoice::Named)
                }
                (Some("auto"), _) => ToolChoice::Auto,
                (Some("none"), _) => ToolChoice::None,
                (Some("required" | "any"), _) => ToolChoice::Required,
                _ => ToolChoice::Other,
            }
        }
        _ => ToolChoice::Other,
    }
}

fn response_format<'a>(fields: &Fields<'a, '_>) -> Result<ResponseFormat<'a>> {
    let Some(raw) = fields.get("response_format") else { return Ok(ResponseFormat::Text) };
    let place = fields.at("response_format");
    let format = Fields::of(raw, &place)?;
    Ok(match format.str("type")? {
        Some("text") => ResponseFormat::Text,
        Some("json_object") => ResponseFormat::JsonObject,
        Some("json_schema") => {
            let inner_place = format.at("json_schema");
            let inner =
                format.get("json_schema").ok_or_else(|| Error::invalid(place.as_str(), "`json_schema` is missing; expected an object"))?;
            json_schema(&Fields::of(inner, &inner_place)?, raw)?
        }
        _ => ResponseFormat::Other(raw),
    })
}

/// `{name, description, schema}` as both OpenAI formats carry it; without a schema it is [`ResponseFormat::Other`].
pub(super) fn json_schema<'a>(fields: &Fields<'a, '_>, raw: &'a Value) -> Result<ResponseFormat<'a>> {
    Ok(match fields.get("schema") {
        Some(schema) => ResponseFormat::JsonSchema { name: fields.str("name")?, description: fields.str("description")?, schema },
        None => ResponseFormat::Other(raw),
    })
}

fn options<'a>(fields: &Fields<'a, '_>) -> Result<Options<'a>> {
    let mut max_output = None;
    for key in ["max_completion_tokens", "max_tokens"] {
        if let Some(tokens) = fields.u64(key)? {
            max_output = Some((tokens, key));
            break;
        }
    }
    let nested = |key: &str, field: &str| fields.get(key).and_then(|v| v.get(field)).filter(|v| !v.is_null());
    let thinking = match (nested("thinking", "type").and_then(Value::as_str), fields.get("enable_thinking")) {
        (None, Some(Value::Bool(true))) => Some("enabled"),
        (None, Some(Value::Bool(false))) => Some("disabled"),
        (kind, _) => kind,
    };
    let thinking_budget = nested("thinking", "budget_tokens")
        .or_else(|| nested("reasoning", "max_tokens"))
        .or_else(|| fields.get("thinking_budget"))
        .and_then(Value::as_i64);
    Ok(Options {
        max_output,
        choices: fields.u64("n")?,
        effort: fields.str("reasoning_effort")?.or_else(|| nested("reasoning", "effort").and_then(Value::as_str)),
        thinking_budget,
        thinking,
        stream: fields.bool("stream")?,
    })
}

#[cfg(test)]
#[path = "chat_tests.rs"]
mod tests;
