//! Histories from one wire format to another, with a list of what can't be carried over. Nothing is silently lost.
//!
//! Called by hosts that change providers in mid-task. Reads through the neutral view, so that every format that can be counted can be
//! converted; one writer a target. Pure: same request, same result.

mod anthropic;
mod chat;
mod converse;
mod covered;
mod gemini;
mod ids;
mod media;
mod responses;
mod settings;

use crate::error::{Error, Kind, Result};
use crate::format::{Arguments, Conversation, Format, Item, ItemBody, Message, Request, Role, ToolContentBody, ToolResult};
use ids::Ids;
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// A converted request.
#[derive(Clone, Debug, PartialEq)]
pub struct Converted {
    /// The body in the target's format.
    pub body: Value,
    /// What couldn't be carried over, or not as it was.
    pub lost: Vec<Lost>,
}

/// One thing that couldn't be carried over as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Where it stands in the source (JSON Pointer).
    pub place: String,
    /// What it is, and what became of it.
    pub what: String,
}

/// Converts a request with its history to another format. Every field of the source is carried over or listed.
///
/// ```
/// use plimsoll::{Format, Request, convert};
/// let chat = Request::parse(br#"{"model":"m","messages":[{"role":"system","content":"Be brief"},{"role":"user","content":"Hi"}],"max_tokens":9}"#, Format::Chat)?;
/// let converted = convert(&chat, Format::Anthropic)?;
/// assert_eq!(converted.body["messages"][0]["role"], "user");
/// assert_eq!((&converted.body["max_tokens"], converted.lost.len()), (&serde_json::json!(9), 0));
/// # Ok::<(), plimsoll::Error>(())
/// ```
///
/// # Errors
/// As [`Request::conversation`]; [`Kind::Unsupported`] for `mcp`.
pub fn convert(request: &Request, to: Format) -> Result<Converted> {
    let conversation = request.conversation()?;
    if conversation.format == to {
        return Ok(Converted { body: request.value().clone(), lost: Vec::new() });
    }
    let mut out = Out { ids: Ids::of(&conversation), from: conversation.format, lost: Vec::new(), gone: HashSet::new(), body: Map::new() };
    match conversation.model {
        Some(_) if to == Format::Gemini => {
            let place = if conversation.format == Format::Converse { "/modelId" } else { "/model" };
            out.lose(place, "the model's name, which Gemini takes in the URL");
        }
        Some(model) if to == Format::Converse => drop(out.body.insert("modelId".to_owned(), json!(model))),
        Some(model) => drop(out.body.insert("model".to_owned(), json!(model))),
        None => {}
    }
    match to {
        Format::Chat => chat::write(&conversation, &mut out),
        Format::Responses => responses::write(&conversation, &mut out),
        Format::Anthropic => anthropic::write(&conversation, &mut out),
        Format::Gemini => gemini::write(&conversation, &mut out),
        Format::Converse => converse::write(&conversation, &mut out),
        Format::Mcp => {
            return Err(Error::new(Kind::Unsupported, "a tool list holds no history, so that nothing can be converted to `mcp`"));
        }
    }
    if to != Format::Gemini {
        let gone = |call: &Option<String>| call.as_ref().is_none_or(|place| out.gone.contains(place));
        let nameless: Vec<String> = out.ids.named().iter().filter(|(_, call)| gone(call)).map(|(place, _)| place.clone()).collect();
        for place in nameless {
            out.note(&place, "the tool's name, which no call tells");
        }
    }
    settings::write(&conversation, to, &mut out);
    covered::list_rest(conversation.body, &mut out);
    Ok(Converted { body: Value::Object(out.body), lost: out.lost })
}

/// What the writers fill.
struct Out<'a> {
    ids: Ids<'a>,
    from: Format,
    lost: Vec<Lost>,
    /// Places of which nothing was carried over.
    gone: HashSet<String>,
    body: Map<String, Value>,
}

impl Out<'_> {
    /// All that stands at a place is lost.
    fn lose(&mut self, place: &str, what: impl Into<String>) {
        self.gone.insert(place.to_owned());
        self.note(place, what);
    }

    /// Something of a place is lost, or stands otherwise than it did.
    fn note(&mut self, place: &str, what: impl Into<String>) {
        self.lost.push(Lost { place: place.to_owned(), what: what.into() });
    }

    fn note_signature(&mut self, signature: Option<&str>, place: &str) {
        if signature.is_some() {
            self.note(place, "a call's signature, which only its provider can use");
        }
    }

    /// Arguments as an object, for formats that take no text.
    fn object(&mut self, arguments: Arguments<'_>, place: &str) -> Value {
        let value = match arguments {
            Arguments::Json(value) => value.clone(),
            Arguments::Text(text) if text.trim_ascii().is_empty() => json!({}),
            Arguments::Text(text) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
            Arguments::None => json!({}),
        };
        if value.is_object() {
            return value;
        }
        self.note(place, "arguments that are no JSON object; they stand under `value`");
        json!({"value": value})
    }

    /// A tool result as text alone; what isn't text is listed.
    fn result_text(&mut self, result: &ToolResult<'_>) -> String {
        let mut pieces = Vec::new();
        for piece in &result.content {
            match &piece.body {
                ToolContentBody::Text(text) => pieces.push((*text).to_owned()),
                ToolContentBody::Json(value) => pieces.push(value.to_string()),
                ToolContentBody::Image(_) | ToolContentBody::File(_) => {
                    self.lose(&piece.place, "a picture or file in a tool result");
                    pieces.push("[a picture or file was here]".to_owned());
                }
                ToolContentBody::Other(kind) => {
                    self.lose(&piece.place, format!("content of the type `{kind}` in a tool result"));
                }
            }
        }
        pieces.join("\n")
    }

    /// The same, with an error marked in the text for formats that have no flag.
    fn marked_text(&mut self, result: &ToolResult<'_>) -> String {
        let text = self.result_text(result);
        let marked = text.trim_start().to_ascii_lowercase().starts_with("error");
        if result.is_error && !marked { format!("Error: {text}") } else { text }
    }

    /// Reasoning that the target can't replay.
    fn lose_reasoning(&mut self, place: &str) {
        self.lose(place, "reasoning: only the provider that made it can take it back");
    }
}

/// The joined text of a message that holds text alone; `None` otherwise.
fn plain(items: &[&Item<'_>]) -> Option<String> {
    let texts: Option<Vec<&str>> =
        items.iter().map(|item| if let ItemBody::Text(text) = &item.body { Some(text.as_ref()) } else { None }).collect();
    texts.map(|texts| texts.join("\n"))
}

/// Items of a message that aren't tool results.
fn spoken<'m, 'a>(message: &'m Message<'a>) -> Vec<&'m Item<'a>> {
    message.items.iter().filter(|item| !matches!(item.body, ItemBody::ToolResult(_))).collect()
}

/// All system and developer texts of a conversation as one, for formats that hold them outside the list.
fn system_text(conversation: &Conversation<'_>, out: &mut Out<'_>) -> Option<String> {
    let mut texts = Vec::new();
    let mut said = false;
    for message in &conversation.messages {
        if !matches!(message.role, Role::System | Role::Developer) {
            said = true;
            continue;
        }
        if said {
            out.note(&message.place, "a system message in mid-history; it moved to the front");
        }
        if message.name.is_some() {
            out.lose(&format!("{}/name", message.place), "the speaker's name");
        }
        for item in &message.items {
            match &item.body {
                ItemBody::Text(text) => texts.push(text.to_string()),
                _ => out.lose(&item.place, "something that isn't text in a system message"),
            }
        }
    }
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// Appends to the last message of the same role, or begins a new one: some formats want the roles to alternate.
fn join(list: &mut Vec<Value>, role: &str, key: &str, parts: Vec<Value>) {
    if parts.is_empty() {
        return;
    }
    let last = list.last_mut().filter(|last| last.get("role").and_then(Value::as_str) == Some(role));
    match last.and_then(|last| last.get_mut(key)).and_then(Value::as_array_mut) {
        Some(before) => before.extend(parts),
        None => list.push(json!({"role": role, (key): parts})),
    }
}

/// What a message says beside tool results, in a format without speakers' names whose roles alternate.
fn say<'a>(
    list: &mut Vec<Value>,
    message: &Message<'a>,
    assistant: &str,
    key: &str,
    write: fn(&Item<'a>, &mut Out<'_>) -> Option<Value>,
    out: &mut Out<'_>,
) {
    let role = if message.role == Role::Assistant { assistant } else { "user" };
    let parts = spoken(message).into_iter().filter_map(|item| write(item, out)).collect();
    join(list, role, key, parts);
    if message.name.is_some() && message.role != Role::Tool {
        out.lose(&format!("{}/name", message.place), "the speaker's name");
    }
}

#[cfg(test)]
mod tests;
