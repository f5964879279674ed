//! What a host answers to calls: tool outcomes as messages in each format.
//!
//! Hosts make one [`Outcome`] a call; the gate makes them for refused calls. An error is always marked as one: by the
//! format's own flag where it has one, in the text where it hasn't. Results keep the order of the calls.

use super::answer::{Call, CallKind};
use crate::format::Format;
use serde_json::{Map, Value, json};

/// What came of one call.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The id of the call, if it had one.
    pub call_id: Option<String>,
    /// The tool's name, for formats that match by name.
    pub name: String,
    /// What sort of call it answers.
    pub kind: CallKind,
    /// What to tell the model.
    pub content: Vec<Content>,
    /// The call failed, or wasn't run.
    pub is_error: bool,
}

/// One piece of an outcome.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Content {
    /// Text.
    Text(String),
    /// Structured data.
    Json(Value),
    /// A picture, as base64 with its MIME type.
    Image {
        /// Base64, without a `data:` prefix.
        base64: String,
        /// For example `image/png`.
        mime: String,
    },
}

impl Outcome {
    /// A success with text.
    pub fn text(call: &Call, text: impl Into<String>) -> Self {
        Self::of(call, vec![Content::Text(text.into())], false)
    }

    /// A failure; `text` tells the model what went wrong.
    pub fn error(call: &Call, text: impl Into<String>) -> Self {
        Self::of(call, vec![Content::Text(text.into())], true)
    }

    /// An outcome of pieces.
    pub fn of(call: &Call, content: Vec<Content>, is_error: bool) -> Self {
        Self { call_id: call.id.clone(), name: call.name.clone(), kind: call.kind, content, is_error }
    }

    /// All text and data as one text, an error marked as such; pictures are named, not shown.
    fn marked_text(&self) -> String {
        let text = self.plain_text();
        // Formats without a flag: the mark is in the text, once.
        if self.is_error && !text.trim_start().to_ascii_lowercase().starts_with("error") { format!("Error: {text}") } else { text }
    }

    fn plain_text(&self) -> String {
        let pieces = self.content.iter().map(|piece| match piece {
            Content::Text(text) => text.clone(),
            Content::Json(value) => value.to_string(),
            Content::Image { mime, .. } => format!("[{mime}]"),
        });
        pieces.collect::<Vec<_>>().join("\n")
    }

    fn has_images(&self) -> bool {
        self.content.iter().any(|piece| matches!(piece, Content::Image { .. }))
    }
}

/// The messages (for Responses: input items) that answer calls, ready to be appended to the history after the assistant's
/// message. All outcomes of one turn belong into one call of this: Anthropic, Gemini and Converse want them in one message.
///
/// ```
/// use plimsoll::{Format, turn::{reply, Call, CallKind, Outcome}};
/// let call = Call { id: Some("c1".into()), name: "read".into(), arguments: "{}".into(), kind: CallKind::Function };
/// let sent = reply::messages(Format::Anthropic, &[Outcome::error(&call, "no such file")]);
/// assert_eq!(sent[0]["content"][0]["is_error"], true);
/// assert_eq!(reply::messages(Format::Chat, &[Outcome::error(&call, "no such file")])[0]["content"], "Error: no such file");
/// ```
pub fn messages(format: Format, outcomes: &[Outcome]) -> Vec<Value> {
    if outcomes.is_empty() {
        return Vec::new();
    }
    match format {
        Format::Chat => {
            let mut sent: Vec<Value> = outcomes.iter().map(chat).collect();
            sent.extend(chat_images(outcomes));
            sent
        }
        Format::Responses => outcomes.iter().map(responses).collect(),
        Format::Anthropic => vec![json!({"role": "user", "content": outcomes.iter().map(anthropic).collect::<Vec<_>>()})],
        Format::Gemini => vec![json!({"role": "user", "parts": outcomes.iter().flat_map(gemini).collect::<Vec<_>>()})],
        Format::Converse => vec![json!({"role": "user", "content": outcomes.iter().map(converse).collect::<Vec<_>>()})],
        // MCP carries one result at a time; a list of them is the nearest.
        Format::Mcp => outcomes.iter().map(mcp).collect(),
    }
}

fn chat(outcome: &Outcome) -> Value {
    if outcome.kind == CallKind::Legacy {
        return json!({"role": "function", "name": outcome.name, "content": outcome.marked_text()});
    }
    json!({"role": "tool", "tool_call_id": outcome.call_id, "content": outcome.marked_text()})
}

/// Chat's tool messages carry text alone, so that pictures follow in a user message that says whose they are.
fn chat_images(outcomes: &[Outcome]) -> Option<Value> {
    let mut parts = Vec::new();
    for outcome in outcomes.iter().filter(|outcome| outcome.has_images()) {
        parts.push(json!({"type": "text", "text": format!("Pictures returned by {} ({}):", outcome.name, outcome.call_id.as_deref().unwrap_or("no id"))}));
        parts.extend(outcome.content.iter().filter_map(|piece| match piece {
            Content::Image { base64, mime } => {
                Some(json!({"type": "image_url", "image_url": {"url": format!("data:{mime};base64,{base64}")}}))
            }
            _ => None,
        }));
    }
    (!parts.is_empty()).then(|| json!({"role": "user", "content": parts}))
}

fn responses(outcome: &Outcome) -> Value {
    let kind = if outcome.kind == CallKind::Custom { "custom_tool_call_output" } else { "function_call_output" };
    if !outcome.has_images() {
        return json!({"type": kind, "call_id": outcome.call_id, "output": outcome.marked_text()});
    }
    let mut output: Vec<Value> = if outcome.is_error { vec![json!({"type": "input_text", "text": "Error:"})] } else { Vec::new() };
    output.extend(outcome.content.iter().map(|piece| match piece {
        Content::Text(text) => json!({"type": "input_text", "text": text}),
        Content::Json(value) => json!({"type": "input_text", "text": value.to_string()}),
        Content::Image { base64, mime } => json!({"type": "input_image", "image_url": format!("data:{mime};base64,{base64}")}),
    }));
    json!({"type": kind, "call_id": outcome.call_id, "output": output})
}

fn anthropic(outcome: &Outcome) -> Value {
    let content: Vec<Value> = outcome
        .content
        .iter()
        .map(|piece| match piece {
            Content::Text(text) => json!({"type": "text", "text": text}),
            Content::Json(value) => json!({"type": "text", "text": value.to_string()}),
            Content::Image { base64, mime } => json!({"type": "image", "source": {"type": "base64", "media_type": mime, "data": base64}}),
        })
        .collect();
    let mut block = json!({"type": "tool_result", "tool_use_id": outcome.call_id, "content": content});
    if let (true, Some(map)) = (outcome.is_error, block.as_object_mut()) {
        map.insert("is_error".to_owned(), json!(true));
    }
    block
}

fn gemini(outcome: &Outcome) -> Vec<Value> {
    let response = match outcome.content.as_slice() {
        [Content::Json(Value::Object(map))] if !outcome.is_error => Value::Object(map.clone()),
        [Content::Json(value)] if !outcome.is_error => json!({"output": value}),
        _ => json!({(if outcome.is_error { "error" } else { "output" }): outcome.plain_text()}),
    };
    let mut call = Map::new();
    if let Some(id) = &outcome.call_id {
        call.insert("id".to_owned(), json!(id));
    }
    call.insert("name".to_owned(), json!(outcome.name));
    call.insert("response".to_owned(), response);
    let images = outcome.content.iter().filter_map(|piece| match piece {
        Content::Image { base64, mime } => Some(json!({"inlineData": {"mimeType": mime, "data": base64}})),
        _ => None,
    });
    std::iter::once(json!({"functionResponse": call})).chain(images).collect()
}

fn converse(outcome: &Outcome) -> Value {
    let content: Vec<Value> = outcome
        .content
        .iter()
        .map(|piece| match piece {
            Content::Text(text) => json!({"text": text}),
            // Only objects may stand under `json`.
            Content::Json(value) if value.is_object() => json!({"json": value}),
            Content::Json(value) => json!({"text": value.to_string()}),
            Content::Image { base64, mime } => {
                json!({"image": {"format": mime.rsplit('/').next().unwrap_or(mime), "source": {"bytes": base64}}})
            }
        })
        .collect();
    let status = if outcome.is_error { "error" } else { "success" };
    json!({"toolResult": {"toolUseId": outcome.call_id, "content": content, "status": status}})
}

fn mcp(outcome: &Outcome) -> Value {
    let content: Vec<Value> = outcome
        .content
        .iter()
        .map(|piece| match piece {
            Content::Text(text) => json!({"type": "text", "text": text}),
            Content::Json(value) => json!({"type": "text", "text": value.to_string()}),
            Content::Image { base64, mime } => json!({"type": "image", "data": base64, "mimeType": mime}),
        })
        .collect();
    json!({"content": content, "isError": outcome.is_error})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_an_error_in_every_format() {
        let call = Call { id: Some("c1".into()), name: "read".into(), arguments: String::new(), kind: CallKind::Function };
        let outcome = [Outcome::error(&call, "gone"), Outcome::text(&call, "fine")];
        let chat = messages(Format::Chat, &outcome);
        assert_eq!((chat.len(), &chat[0]["content"], &chat[1]["content"]), (2, &json!("Error: gone"), &json!("fine")));
        assert_eq!(messages(Format::Responses, &outcome)[0]["output"], "Error: gone");
        let anthropic = &messages(Format::Anthropic, &outcome)[0]["content"];
        assert_eq!((&anthropic[0]["is_error"], anthropic[1].get("is_error")), (&json!(true), None));
        let gemini = &messages(Format::Gemini, &outcome)[0]["parts"];
        assert_eq!(gemini[0]["functionResponse"]["response"], json!({"error": "gone"}));
        assert_eq!(gemini[1]["functionResponse"]["response"], json!({"output": "fine"}));
        let converse = &messages(Format::Converse, &outcome)[0]["content"];
        assert_eq!((&converse[0]["toolResult"]["status"], &converse[1]["toolResult"]["status"]), (&json!("error"), &json!("success")));
        assert!(messages(Format::Chat, &[]).is_empty());
    }

    #[test]
    fn pictures_go_where_a_format_can_hold_them() {
        let call = Call { id: Some("c1".into()), name: "shot".into(), arguments: String::new(), kind: CallKind::Function };
        let image = Content::Image { base64: "aGk=".into(), mime: "image/png".into() };
        let outcome = [Outcome::of(&call, vec![Content::Text("see".into()), image], false)];
        let chat = messages(Format::Chat, &outcome);
        assert_eq!((&chat[0]["role"], &chat[1]["role"]), (&json!("tool"), &json!("user")));
        assert_eq!(chat[1]["content"][1]["image_url"]["url"], "data:image/png;base64,aGk=");
        assert_eq!(messages(Format::Responses, &outcome)[0]["output"][1]["type"], "input_image");
        assert_eq!(messages(Format::Anthropic, &outcome)[0]["content"][0]["content"][1]["source"]["data"], "aGk=");
        assert_eq!(messages(Format::Gemini, &outcome)[0]["parts"][1]["inlineData"]["data"], "aGk=");
        assert_eq!(messages(Format::Converse, &outcome)[0]["content"][0]["toolResult"]["content"][1]["image"]["format"], "png");
    }
}
