//! Bedrock Converse: JSON to the neutral view.
//!
//! Called through [`Request::conversation`]. The model stands in the URL, not in the body. Blocks are objects with one
//! key that names their kind; cache points carry nothing and are left out. A user message that carries tool results
//! keeps [`Role::User`]. Counts nothing; which model's rules apply is the renderer's matter.

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
#[path = "converse_tests.rs"]
mod tests;

pub(super) fn view(request: &Request) -> Result<Conversation<'_>> {
    let body = Fields::of(request.value(), "")?;
    let mut unbounded = Vec::new();
    let mut messages = Vec::new();
    if let Some(list) = body.array("system")?
        && let Some(raw) = body.get("system")
    {
        let place = body.at("system");
        let items = items(list, &place, &mut unbounded)?;
        messages.push(Message { role: Role::System, name: None, listed: false, index: 0, place, raw, items });
    }
    let Some(list) = body.array("messages")? else {
        return Err(Error::invalid("", "`messages` is missing; expected an array"));
    };
    capped(list, limits::MAX_MESSAGES, "messages", "/messages")?;
    for (index, raw) in list.iter().enumerate() {
        messages.push(message(raw, index, nth("/messages", index), &mut unbounded)?);
    }
    let (tools, tool_choice) = tool_config(&body, &mut unbounded)?;
    if body.object("guardrailConfig")?.is_some() {
        unbounded.push(Unbounded { place: body.at("guardrailConfig"), why: "a guardrail may replace or add text" });
    }
    if body.object("promptVariables")?.is_some() {
        unbounded.push(Unbounded { place: body.at("promptVariables"), why: "the prompt is stored at the provider" });
    }
    Ok(Conversation {
        format: Format::Converse,
        body: body.map,
        model: body.str("modelId")?,
        messages,
        tools,
        tool_choice,
        response_format: response_format(&body)?,
        options: options(&body)?,
        unbounded,
    })
}

pub(super) fn message<'a>(raw: &'a Value, index: usize, place: Place, unbounded: &mut Vec<Unbounded>) -> Result<Message<'a>> {
    let fields = Fields::of(raw, &place)?;
    let role = match fields.need_str("role")? {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        _ => return Err(Error::invalid(fields.at("role"), "unknown role; expected `user` or `assistant`")),
    };
    let Some(list) = fields.array("content")? else {
        return Err(Error::invalid(place.as_str(), "`content` is missing; expected an array of blocks"));
    };
    let items = items(list, &fields.at("content"), unbounded)?;
    Ok(Message { role, name: None, listed: true, index, place, raw, items })
}

fn items<'a>(list: &'a [Value], place: &str, unbounded: &mut Vec<Unbounded>) -> Result<Vec<Item<'a>>> {
    let mut items = Vec::with_capacity(list.len());
    for (i, raw) in list.iter().enumerate() {
        if let Some(body) = item(raw, &nth(place, i), unbounded)? {
            items.push(Item { place: nth(place, i), raw, body });
        }
    }
    Ok(items)
}

/// The one key of a block that says what it is, and its value.
fn union<'a>(raw: &'a Value, place: &str) -> Result<(&'a str, &'a Value)> {
    let block = Fields::of(raw, place)?;
    let found = block.map.iter().find(|(_, value)| !value.is_null());
    found.map(|(key, value)| (key.as_str(), value)).ok_or_else(|| Error::invalid(place, "an empty block; expected one key such as `text`"))
}

fn text<'a>(value: &'a Value, place: &str, key: &str) -> Result<&'a str> {
    value.as_str().ok_or_else(|| wrong(&join(place, key), "a string", value))
}

fn item<'a>(raw: &'a Value, place: &str, unbounded: &mut Vec<Unbounded>) -> Result<Option<ItemBody<'a>>> {
    let (key, value) = union(raw, place)?;
    let inner_place = join(place, key);
    let inner = || Fields::of(value, &inner_place);
    Ok(Some(match key {
        "text" => ItemBody::Text(Cow::Borrowed(text(value, place, key)?)),
        "image" => ItemBody::Image(media(&inner()?, "image")?),
        "document" => ItemBody::File(media(&inner()?, "application")?),
        "video" => ItemBody::Video(media(&inner()?, "video")?),
        "audio" => ItemBody::Audio(media(&inner()?, "audio")?),
        "toolUse" => {
            let call = call(&inner()?)?;
            if call.other_type.is_some() {
                unbounded.push(Unbounded { place: place.to_owned(), why: "a call that the provider ran itself" });
            }
            ItemBody::ToolCall(call)
        }
        "toolResult" => {
            let result = result(&inner()?)?;
            if result.other_type.is_some() {
                unbounded.push(Unbounded { place: place.to_owned(), why: "the provider renders its own tool's result" });
            }
            ItemBody::ToolResult(result)
        }
        "reasoningContent" => ItemBody::Reasoning(reasoning(&inner()?)?),
        "guardContent" => match inner()?.object("text")?.and_then(|t| t.get("text")).and_then(Value::as_str) {
            Some(guarded) => ItemBody::Text(Cow::Borrowed(guarded)),
            None => ItemBody::Other(key),
        },
        "cachePoint" => return Ok(None),
        _ => ItemBody::Other(key),
    }))
}

fn call<'a>(block: &Fields<'a, '_>) -> Result<ToolCall<'a>> {
    let arguments = block.get("input").map_or(Arguments::None, Arguments::Json);
    Ok(ToolCall {
        id: Some(block.need_str("toolUseId")?),
        item_id: None,
        name: block.need_str("name")?,
        arguments,
        signature: None,
        legacy: false,
        other_type: block.str("type")?,
    })
}

fn result<'a>(block: &Fields<'a, '_>) -> Result<ToolResult<'a>> {
    let place = block.at("content");
    let list = block.array("content")?.map_or(&[][..], Vec::as_slice);
    let content = list.iter().enumerate().map(|(i, part)| result_part(part, nth(&place, i))).collect::<Result<_>>()?;
    let is_error = block.str("status")? == Some("error");
    Ok(ToolResult {
        call_id: Some(block.need_str("toolUseId")?),
        name: None,
        content,
        is_error,
        legacy: false,
        other_type: block.str("type")?,
    })
}

fn result_part(raw: &Value, place: Place) -> Result<ToolContent<'_>> {
    let (key, value) = union(raw, &place)?;
    let inner_place = join(&place, key);
    let body = match key {
        "text" => ToolContentBody::Text(text(value, &place, key)?),
        "json" => ToolContentBody::Json(value),
        "image" => ToolContentBody::Image(media(&Fields::of(value, &inner_place)?, "image")?),
        "document" => ToolContentBody::File(media(&Fields::of(value, &inner_place)?, "application")?),
        _ => ToolContentBody::Other(key),
    };
    Ok(ToolContent { place, body })
}

fn reasoning<'a>(block: &Fields<'a, '_>) -> Result<Reasoning<'a>> {
    if let Some(raw) = block.get("reasoningText") {
        let place = block.at("reasoningText");
        let inner = Fields::of(raw, &place)?;
        return Ok(Reasoning { text: inner.str("text")?, signature: inner.str("signature")?, redacted: false });
    }
    Ok(Reasoning { text: None, signature: block.str("redactedContent")?, redacted: true })
}

/// An image, document, sound or film: `format` and `source`.
fn media<'a>(block: &Fields<'a, '_>, family: &str) -> Result<Media<'a>> {
    let format = block.str("format")?;
    let mut media = Media { mime: format.and_then(|format| mime(family, format)), name: block.str("name")?, ..Media::default() };
    if let Some(raw) = block.get("source") {
        let place = block.at("source");
        let source = Fields::of(raw, &place)?;
        media.base64 = source.str("bytes")?;
        media.text = source.str("text")?;
        media.url = source.object("s3Location")?.and_then(|s3| s3.get("uri")).and_then(Value::as_str);
    }
    Ok(media)
}

/// MIME types of Converse's `format` names, where a renderer tells them apart.
fn mime(family: &str, format: &str) -> Option<&'static str> {
    Some(match (family, format) {
        ("image", "png") => "image/png",
        ("image", "jpeg") => "image/jpeg",
        ("image", "gif") => "image/gif",
        ("image", "webp") => "image/webp",
        ("application", "pdf") => "application/pdf",
        ("application", "txt") => "text/plain",
        ("application", "md") => "text/markdown",
        ("application", "csv") => "text/csv",
        ("application", "html") => "text/html",
        _ => return None,
    })
}

fn tool_config<'a>(body: &Fields<'a, '_>, unbounded: &mut Vec<Unbounded>) -> Result<(Vec<Tool<'a>>, ToolChoice<'a>)> {
    let Some(raw) = body.get("toolConfig") else { return Ok((Vec::new(), ToolChoice::Default)) };
    let place = body.at("toolConfig");
    let config = Fields::of(raw, &place)?;
    let list = config.array("tools")?.map_or(&[][..], Vec::as_slice);
    let list_place = config.at("tools");
    capped(list, limits::MAX_TOOLS, "tools", &list_place)?;
    let mut tools = Vec::with_capacity(list.len());
    for (i, raw) in list.iter().enumerate() {
        let place = nth(&list_place, i);
        match union(raw, &place)? {
            ("toolSpec", spec) => tools.push(tool_spec(raw, spec, place)?),
            ("cachePoint", _) => {}
            (key, value) => {
                let inner_place = join(&place, key);
                let name = Fields::of(value, &inner_place)?.str("name")?.unwrap_or(key);
                unbounded.push(Unbounded { place: place.clone(), why: "a tool that the provider runs adds hidden text" });
                tools.push(Tool {
                    place,
                    raw,
                    kind: ToolKind::Server,
                    name,
                    description: None,
                    parameters: None,
                    legacy: false,
                    deferred: false,
                });
            }
        }
    }
    let choice = match config.get("toolChoice") {
        None => ToolChoice::Default,
        Some(raw) => {
            let place = config.at("toolChoice");
            match union(raw, &place)? {
                ("auto", _) => ToolChoice::Auto,
                ("any", _) => ToolChoice::Required,
                ("tool", named) => ToolChoice::Named(Fields::of(named, &join(&place, "tool"))?.need_str("name")?),
                _ => ToolChoice::Other,
            }
        }
    };
    Ok((tools, choice))
}

fn tool_spec<'a>(raw: &'a Value, spec: &'a Value, place: Place) -> Result<Tool<'a>> {
    let spec_place = join(&place, "toolSpec");
    let spec = Fields::of(spec, &spec_place)?;
    let parameters = spec.object("inputSchema")?.and_then(|schema| schema.get("json"));
    let (name, description) = (spec.need_str("name")?, spec.str("description")?);
    Ok(Tool { raw, kind: ToolKind::Function, name, description, parameters, legacy: false, deferred: false, place })
}

/// `outputConfig.textFormat`. The schema travels as JSON text, so that `schema` is a string value here.
fn response_format<'a>(body: &Fields<'a, '_>) -> Result<ResponseFormat<'a>> {
    let Some(format) = body.object("outputConfig")?.and_then(|config| config.get("textFormat")).filter(|f| !f.is_null()) else {
        return Ok(ResponseFormat::Text);
    };
    let json_schema = format.get("structure").and_then(|structure| structure.get("jsonSchema"));
    Ok(match json_schema.and_then(|s| s.get("schema")) {
        Some(schema) => ResponseFormat::JsonSchema {
            name: json_schema.and_then(|s| s.get("name")).and_then(Value::as_str),
            description: json_schema.and_then(|s| s.get("description")).and_then(Value::as_str),
            schema,
        },
        None => ResponseFormat::Other(format),
    })
}

fn options<'a>(body: &Fields<'a, '_>) -> Result<Options<'a>> {
    let mut options = Options::default();
    if let Some(raw) = body.get("inferenceConfig") {
        let place = body.at("inferenceConfig");
        options.max_output = Fields::of(raw, &place)?.u64("maxTokens")?.map(|n| (n, "inferenceConfig.maxTokens"));
    }
    // The model's own settings: Anthropic's names for Claude. Other models' are left alone.
    if let Some(extra) = body.object("additionalModelRequestFields")? {
        if let Some(thinking) = extra.get("thinking").or_else(|| extra.get("reasoning_config")).and_then(Value::as_object) {
            options.thinking = thinking.get("type").and_then(Value::as_str);
            options.thinking_budget = thinking.get("budget_tokens").and_then(Value::as_i64);
        }
        let effort = extra.get("output_config").and_then(|config| config.get("effort"));
        options.effort = effort.or_else(|| extra.get("reasoning_effort")).and_then(Value::as_str);
    }
    Ok(options)
}
