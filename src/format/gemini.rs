//! Gemini generateContent: JSON to the neutral view.
//!
//! Called by [`super::Request::conversation`] alone. Reads both spellings that Google's JSON mapping takes
//! (`functionCall` and `function_call`, a lone object where a list is meant) and the two envelopes that hosts
//! wrap a body in (`generateContentRequest` of countTokens, `request` of the code-assist endpoints).
//! Counts nothing and changes nothing; every item keeps its place in the body as it was sent.

use super::read::{Fields, join, nth, wrong};
use super::{
    Arguments, Conversation, Item, ItemBody, Media, Message, Options, Place, Reasoning, Request, ResponseFormat, Role, Tool, ToolCall,
    ToolChoice, ToolContent, ToolContentBody, ToolKind, ToolResult, Unbounded, kind_of,
};
use crate::error::{Error, Kind, Result};
use crate::limits;
use serde_json::Value;
use std::borrow::Cow;

/// The data fields of a part (a union: exactly one may be set), camelCase and `snake_case`.
const PART_FIELDS: [(&str, &str); 9] = [
    ("text", "text"),
    ("functionCall", "function_call"),
    ("functionResponse", "function_response"),
    ("inlineData", "inline_data"),
    ("fileData", "file_data"),
    ("executableCode", "executable_code"),
    ("codeExecutionResult", "code_execution_result"),
    ("toolCall", "tool_call"),
    ("toolResponse", "tool_response"),
];

/// Fields of a part that qualify its data and are no data themselves.
const PART_MODIFIERS: [&str; 10] = [
    "thought",
    "thoughtSignature",
    "thought_signature",
    "videoMetadata",
    "video_metadata",
    "mediaResolution",
    "media_resolution",
    "partMetadata",
    "part_metadata",
    "metadata",
];

pub(super) fn view(request: &Request) -> Result<Conversation<'_>> {
    let whole = Fields::of(request.value(), "")?;
    let enveloped = either(&whole, "contents", "contents").is_none();
    let (value, root) = ["generateContentRequest", "generate_content_request", "request"]
        .into_iter()
        .filter(|_| enveloped)
        .find_map(|key| whole.get(key).filter(|v| v.is_object()).map(|inner| (inner, join("", key))))
        .unwrap_or((request.value(), Place::new()));
    let body = Fields::of(value, &root)?;

    let config = either(&body, "generationConfig", "generation_config");
    let config = config.as_ref().map(|(value, place)| Fields::of(value, place)).transpose()?;
    let resolution = resolution(&body)?;

    let mut conversation = Conversation {
        format: request.format(),
        body: body.map,
        model: body.str("model")?.or(whole.str("model")?),
        messages: Vec::new(),
        tools: Vec::new(),
        tool_choice: tool_choice(&body)?,
        response_format: config.as_ref().map_or(Ok(ResponseFormat::Text), response_format)?,
        options: config.as_ref().map_or(Ok(Options::default()), options)?,
        unbounded: Vec::new(),
    };
    if let Some((_, place)) = either(&body, "cachedContent", "cached_content") {
        conversation.unbounded.push(Unbounded { place, why: "a stored context is put before the request; its size is not in the body" });
    }
    if let Some((value, place)) = either(&body, "systemInstruction", "system_instruction") {
        conversation.messages.push(message(value, place, None, resolution)?);
    }
    let Some((contents, place)) = either(&body, "contents", "contents") else {
        return Err(Error::invalid(root, "`contents` is missing; expected a list of contents"));
    };
    let contents = list(contents, &place)?;
    cap(contents.len(), limits::MAX_MESSAGES, "contents", &place)?;
    for (index, (value, place)) in contents.into_iter().enumerate() {
        conversation.messages.push(message(value, place, Some(index), resolution)?);
    }
    if let Some((value, place)) = either(&body, "tools", "tools") {
        for (value, place) in list(value, &place)? {
            tools(value, &place, &mut conversation)?;
        }
    }
    Ok(conversation)
}

/// A field by either spelling, with its place; null counts as absent.
fn either<'a>(fields: &Fields<'a, '_>, camel: &str, snake: &str) -> Option<(&'a Value, Place)> {
    [camel, snake].into_iter().find_map(|key| fields.get(key).map(|value| (value, fields.at(key))))
}

/// A string field by either spelling.
fn text_of<'a>(fields: &Fields<'a, '_>, camel: &str, snake: &str) -> Result<Option<&'a str>> {
    Ok(fields.str(camel)?.or(fields.str(snake)?))
}

/// A list with its members' places; a lone object is a list of one, as in Google's JSON mapping.
fn list<'a>(value: &'a Value, place: &str) -> Result<Vec<(&'a Value, Place)>> {
    match value {
        Value::Array(all) => Ok(all.iter().enumerate().map(|(i, v)| (v, nth(place, i))).collect()),
        Value::Object(_) => Ok(vec![(value, place.to_owned())]),
        other => Err(wrong(place, "an array", other)),
    }
}

fn cap(found: usize, most: usize, what: &str, place: &str) -> Result<()> {
    if found <= most {
        return Ok(());
    }
    Err(Error::new(Kind::LimitExceeded, format!("{found} {what}; at most {most} are taken")).at(place))
}

/// The resolution of media that the whole request asks for.
pub(super) fn resolution<'a>(body: &Fields<'a, '_>) -> Result<Option<&'a str>> {
    let Some((config, place)) = either(body, "generationConfig", "generation_config") else { return Ok(None) };
    text_of(&Fields::of(config, &place)?, "mediaResolution", "media_resolution")
}

/// One content, or (`index` absent) the system instruction.
pub(super) fn message<'a>(value: &'a Value, place: Place, index: Option<usize>, resolution: Option<&'a str>) -> Result<Message<'a>> {
    let mut items = Vec::new();
    let mut role = if index.is_none() { Role::System } else { Role::User };
    if let (Value::String(text), None) = (value, index) {
        items.push(Item { place: place.clone(), raw: value, body: ItemBody::Text(Cow::Borrowed(text)) });
    } else {
        let content = Fields::of(value, &place)?;
        if index.is_some() {
            role = match content.str("role")? {
                None | Some("" | "user") => Role::User,
                Some("model") => Role::Assistant,
                Some("function" | "tool") => Role::Tool,
                Some(_) => return Err(Error::invalid(content.at("role"), "expected `user` or `model`")),
            };
        }
        if let Some((parts, place)) = either(&content, "parts", "parts") {
            for (value, place) in list(parts, &place)? {
                part(value, place, resolution, &mut items)?;
            }
        }
        let answers = !items.is_empty() && items.iter().all(|item| matches!(item.body, ItemBody::ToolResult(_)));
        if role == Role::User && answers {
            role = Role::Tool;
        }
    }
    Ok(Message { role, name: None, listed: index.is_some(), index: index.unwrap_or(0), place, raw: value, items })
}

/// One part: an item, and a second one for a signature that rides on plain text.
fn part<'a>(raw: &'a Value, place: Place, resolution: Option<&'a str>, items: &mut Vec<Item<'a>>) -> Result<()> {
    let fields = Fields::of(raw, &place)?;
    let signature = either(&fields, "thoughtSignature", "thought_signature");
    let signature = match signature {
        None => None,
        Some((Value::String(text), at)) => Some((text.as_str(), at)),
        Some((other, at)) => return Err(wrong(&at, "a string", other)),
    };
    let mut set = PART_FIELDS.iter().filter_map(|(camel, snake)| either(&fields, camel, snake).map(|(value, at)| (*camel, value, at)));
    let first = set.next();
    if let (Some((one, ..)), Some((two, ..))) = (&first, set.next()) {
        return Err(Error::invalid(place, format!("a part holds one of `{one}` and `{two}`, not both")));
    }
    let Some((kind, value, at)) = first else {
        let body = match signature {
            Some((text, _)) => ItemBody::Reasoning(Reasoning { signature: Some(text), redacted: true, text: None }),
            None => match fields.map.keys().find(|key| !PART_MODIFIERS.contains(&key.as_str())) {
                Some(unknown) => ItemBody::Other(unknown),
                None => {
                    return Err(Error::invalid(place, "the part is empty; expected `text`, `functionCall`, `inlineData` or another kind"));
                }
            },
        };
        items.push(Item { place, raw, body });
        return Ok(());
    };
    let signed = signature.as_ref().map(|(text, _)| *text);
    let body = match kind {
        "text" => {
            let Value::String(text) = value else { return Err(wrong(&at, "a string", value)) };
            if fields.bool("thought")? {
                ItemBody::Reasoning(Reasoning { text: Some(text), signature: signed, redacted: false })
            } else {
                if let Some((text, at)) = signature {
                    let raw = raw.get("thoughtSignature").or_else(|| raw.get("thought_signature")).unwrap_or(raw);
                    let body = ItemBody::Reasoning(Reasoning { signature: Some(text), redacted: true, text: None });
                    items.push(Item { place: at, raw, body });
                }
                ItemBody::Text(Cow::Borrowed(text))
            }
        }
        "functionCall" => ItemBody::ToolCall(call(value, &at, signed)?),
        "functionResponse" => ItemBody::ToolResult(response(value, &at, resolution)?),
        "inlineData" | "fileData" => attachment(value, &at, part_resolution(&fields)?.or(resolution))?,
        other => ItemBody::Other(other),
    };
    items.push(Item { place, raw, body });
    Ok(())
}

/// `mediaResolution` on a part: a string, or an object with `level`.
fn part_resolution<'a>(fields: &Fields<'a, '_>) -> Result<Option<&'a str>> {
    match either(fields, "mediaResolution", "media_resolution") {
        Some((Value::String(level), _)) => Ok(Some(level)),
        Some((value, at)) => Fields::of(value, &at)?.str("level"),
        None => Ok(None),
    }
}

fn call<'a>(value: &'a Value, place: &str, signature: Option<&'a str>) -> Result<ToolCall<'a>> {
    let fields = Fields::of(value, place)?;
    let arguments = match fields.get("args") {
        None => Arguments::None,
        Some(args @ Value::Object(_)) => Arguments::Json(args),
        Some(other) => return Err(wrong(&fields.at("args"), "an object", other)),
    };
    Ok(ToolCall {
        id: fields.str("id")?.filter(|id| !id.is_empty()),
        item_id: None,
        name: fields.need_str("name")?,
        arguments,
        signature,
        legacy: false,
        other_type: None,
    })
}

fn response<'a>(value: &'a Value, place: &str, resolution: Option<&'a str>) -> Result<ToolResult<'a>> {
    let fields = Fields::of(value, place)?;
    let mut content = Vec::new();
    match fields.get("response") {
        None => {}
        Some(json @ Value::Object(_)) => content.push(ToolContent { place: fields.at("response"), body: ToolContentBody::Json(json) }),
        Some(other) => return Err(wrong(&fields.at("response"), "an object", other)),
    }
    if let Some((parts, at)) = either(&fields, "parts", "parts") {
        for (value, place) in list(parts, &at)? {
            let part = Fields::of(value, &place)?;
            let data = either(&part, "inlineData", "inline_data").or_else(|| either(&part, "fileData", "file_data"));
            let body = match (data, part.str("text")?) {
                (Some((value, at)), _) => match attachment(value, &at, part_resolution(&part)?.or(resolution))? {
                    ItemBody::Image(media) => ToolContentBody::Image(media),
                    ItemBody::File(media) | ItemBody::Audio(media) | ItemBody::Video(media) => ToolContentBody::File(media),
                    _ => ToolContentBody::Other("inlineData"),
                },
                (None, Some(text)) => ToolContentBody::Text(text),
                (None, None) => ToolContentBody::Other(part.map.keys().next().map_or("empty", String::as_str)),
            };
            content.push(ToolContent { place, body });
        }
    }
    let is_error = fields.get("response").and_then(Value::as_object).is_some_and(|r| r.len() == 1 && r.contains_key("error"));
    Ok(ToolResult {
        call_id: fields.str("id")?.filter(|id| !id.is_empty()),
        name: Some(fields.need_str("name")?),
        content,
        is_error,
        legacy: false,
        other_type: None,
    })
}

/// `inlineData` or `fileData`, sorted by its MIME type.
fn attachment<'a>(value: &'a Value, place: &str, detail: Option<&'a str>) -> Result<ItemBody<'a>> {
    let fields = Fields::of(value, place)?;
    let mime = text_of(&fields, "mimeType", "mime_type")?;
    let url = text_of(&fields, "fileUri", "file_uri")?;
    let name = text_of(&fields, "displayName", "display_name")?;
    let media = Media { base64: fields.str("data")?, url, file_id: None, text: None, mime, detail, name };
    if media.base64.is_none() && media.url.is_none() {
        return Err(Error::invalid(place, "expected `data` (base64) or `fileUri`"));
    }
    let film = |url: &str| url.contains("youtube.com/") || url.contains("youtu.be/");
    Ok(match mime.and_then(|mime| mime.split('/').next()) {
        Some("image") => ItemBody::Image(media),
        Some("audio") => ItemBody::Audio(media),
        Some("video") => ItemBody::Video(media),
        None if url.is_some_and(film) => ItemBody::Video(media),
        _ => ItemBody::File(media),
    })
}

/// One member of `tools`: function declarations, and tools that the provider runs.
fn tools<'a>(raw: &'a Value, place: &str, conversation: &mut Conversation<'a>) -> Result<()> {
    let fields = Fields::of(raw, place)?;
    for (key, value) in fields.map.iter().filter(|(_, value)| !value.is_null()) {
        let at = fields.at(key);
        if key != "functionDeclarations" && key != "function_declarations" {
            let host_runs = key == "computerUse" || key == "computer_use";
            conversation.tools.push(Tool {
                place: at.clone(),
                raw: value,
                kind: if host_runs { ToolKind::BuiltIn } else { ToolKind::Server },
                name: key,
                description: None,
                parameters: None,
                legacy: false,
                deferred: false,
            });
            conversation
                .unbounded
                .push(Unbounded { place: at, why: "the provider adds its own text for this tool and for what it returns" });
            continue;
        }
        for (value, place) in list(value, &at)? {
            let declaration = Fields::of(value, &place)?;
            let schema = either(&declaration, "parameters", "parameters")
                .or_else(|| either(&declaration, "parametersJsonSchema", "parameters_json_schema"));
            if let Some((value, at)) = &schema
                && !value.is_object()
            {
                return Err(wrong(at, "an object", value));
            }
            conversation.tools.push(Tool {
                raw: value,
                kind: ToolKind::Function,
                name: declaration.need_str("name")?,
                description: declaration.str("description")?,
                parameters: schema.map(|(value, _)| value),
                legacy: false,
                deferred: false,
                place: place.clone(),
            });
            cap(conversation.tools.len(), limits::MAX_TOOLS, "tools", &at)?;
        }
    }
    Ok(())
}

fn tool_choice<'a>(body: &Fields<'a, '_>) -> Result<ToolChoice<'a>> {
    let Some((value, place)) = either(body, "toolConfig", "tool_config") else { return Ok(ToolChoice::Default) };
    let config = Fields::of(value, &place)?;
    let Some((value, place)) = either(&config, "functionCallingConfig", "function_calling_config") else {
        return Ok(ToolChoice::Default);
    };
    let config = Fields::of(value, &place)?;
    let allowed = match either(&config, "allowedFunctionNames", "allowed_function_names") {
        None => &[][..],
        Some((Value::Array(names), _)) => names.as_slice(),
        Some((other, at)) => return Err(wrong(&at, "an array", other)),
    };
    let mode = config.str("mode")?.unwrap_or_default();
    Ok(match (mode.to_ascii_uppercase().as_str(), allowed) {
        ("" | "MODE_UNSPECIFIED", _) => ToolChoice::Default,
        ("NONE", _) => ToolChoice::None,
        ("AUTO" | "VALIDATED", []) => ToolChoice::Auto,
        ("ANY", []) => ToolChoice::Required,
        ("ANY", [Value::String(name)]) => ToolChoice::Named(name),
        _ => ToolChoice::Other,
    })
}

fn response_format<'a>(config: &Fields<'a, '_>) -> Result<ResponseFormat<'a>> {
    let schema = either(config, "responseSchema", "response_schema")
        .or_else(|| either(config, "responseJsonSchema", "response_json_schema"))
        .or_else(|| either(config, "_responseJsonSchema", "_response_json_schema"));
    if let Some((schema, place)) = schema {
        return match schema {
            Value::Object(_) | Value::Bool(_) => Ok(ResponseFormat::JsonSchema { name: None, description: None, schema }),
            other => Err(Error::invalid(place, format!("expected an object, found {}", kind_of(other)))),
        };
    }
    Ok(match text_of(config, "responseMimeType", "response_mime_type")? {
        Some("application/json") => ResponseFormat::JsonObject,
        _ => ResponseFormat::Text,
    })
}

fn options<'a>(config: &Fields<'a, '_>) -> Result<Options<'a>> {
    let limit = config.u64("maxOutputTokens")?.map(|n| (n, "maxOutputTokens"));
    let limit = limit.or(config.u64("max_output_tokens")?.map(|n| (n, "max_output_tokens")));
    let mut options =
        Options { max_output: limit, choices: config.u64("candidateCount")?.or(config.u64("candidate_count")?), ..Options::default() };
    if let Some((value, place)) = either(config, "thinkingConfig", "thinking_config") {
        let thinking = Fields::of(value, &place)?;
        options.effort = text_of(&thinking, "thinkingLevel", "thinking_level")?;
        options.thinking_budget = match either(&thinking, "thinkingBudget", "thinking_budget") {
            None => None,
            Some((value, at)) => Some(value.as_i64().ok_or_else(|| wrong(&at, "a whole number", value))?),
        };
        options.thinking = match options.thinking_budget {
            Some(0) => Some("disabled"),
            Some(_) => Some("enabled"),
            None => options.effort.map(|_| "enabled"),
        };
    }
    Ok(options)
}

#[cfg(test)]
#[path = "gemini_tests.rs"]
mod tests;
