//! A conversation as chat templates see it: turns of plain text, calls and results, each with the part that owns it.
//!
//! Made from the neutral view for every wire format; items that stand alone (Responses) join the assistant's turn, results
//! inside user messages (Anthropic, Converse, Gemini) become tool turns. Media can't be put into text: they become parts of their own.

use super::pictures::Pictures;
use crate::count::{Confidence, Part, PartKind, media};
use crate::format::{Arguments, Conversation, Format, Item, ItemBody, Media, Message, Role, ToolContentBody};
use crate::json_text::{Style, dumps};
use serde_json::{Value, json};

/// One turn.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) role: Role,
    name: Option<String>,
    pub(super) text: String,
    owner: usize,
    reasoning: String,
    reasoning_owner: usize,
    calls: Vec<Call>,
    call_id: Option<String>,
    call_name: Option<String>,
}

#[derive(Debug)]
struct Call {
    id: Option<String>,
    name: String,
    /// Arguments as sent.
    text: String,
    owner: usize,
}

/// All turns, and the parts that own their texts. Part 0 is the framing.
#[derive(Debug)]
pub(super) struct Turns {
    pub(super) list: Vec<Turn>,
    pub(super) parts: Vec<Part>,
    /// Parts that no text stands for: pictures and files.
    pub(super) media: Vec<Part>,
    joiner: String,
    pictures: Pictures,
}

impl Turns {
    /// `joiner` goes between the text parts of one message.
    pub(super) fn of(conversation: &Conversation<'_>, joiner: &str, pictures: Pictures) -> Self {
        let parts = vec![Part::exact(PartKind::Overhead, "", 0)];
        let mut turns = Self { list: Vec::new(), parts, media: Vec::new(), joiner: joiner.to_owned(), pictures };
        for message in &conversation.messages {
            turns.add(message, conversation.format == Format::Responses);
        }
        turns
    }

    /// A new part of `kind`, as an owner.
    pub(super) fn part(&mut self, kind: PartKind, place: &str, message: Option<&Message<'_>>, name: Option<&str>) -> usize {
        let mut part = Part::exact(kind, place, 0);
        part.role = message.map(|message| message.role);
        part.message = message.filter(|message| message.listed).map(|message| message.index);
        part.name = name.map(str::to_owned);
        self.parts.push(part);
        self.parts.len() - 1
    }

    fn turn(&mut self, role: Role, message: &Message<'_>) -> usize {
        self.list.push(Turn {
            role,
            name: message.name.map(str::to_owned),
            text: String::new(),
            owner: 0,
            reasoning: String::new(),
            reasoning_owner: 0,
            calls: Vec::new(),
            call_id: None,
            call_name: None,
        });
        self.list.len() - 1
    }

    fn add(&mut self, message: &Message<'_>, joins: bool) {
        let role = if message.role == Role::Developer { Role::System } else { message.role };
        // Responses: reasoning, calls and text of one answer are items of their own; a new answer begins after anything else, or with reasoning after calls.
        // or with text after text.
        let begins = |turn: &Turn| {
            message.items.iter().any(|item| match item.body {
                ItemBody::Reasoning(_) => !turn.calls.is_empty(),
                ItemBody::Text(_) => !turn.text.is_empty() || !turn.calls.is_empty(),
                _ => false,
            })
        };
        let mut current =
            self.list.len().checked_sub(1).filter(|&last| {
                joins && role == Role::Assistant && self.list.get(last).is_some_and(|turn| turn.role == role && !begins(turn))
            });
        if message.items.is_empty() && matches!(role, Role::User | Role::Assistant) {
            self.turn(role, message);
            return;
        }
        for item in &message.items {
            if let ItemBody::ToolResult(result) = &item.body {
                let owner = self.part(PartKind::ToolResult, &item.place, Some(message), result.name);
                let mut text = String::new();
                for content in &result.content {
                    match &content.body {
                        ToolContentBody::Text(piece) => text.push_str(piece),
                        ToolContentBody::Json(value) => text.push_str(&dumps(value, Style::PYTHON)),
                        ToolContentBody::Image(picture) => self.media(PartKind::Image, &content.place, picture, message),
                        ToolContentBody::File(file) => self.media(PartKind::File, &content.place, file, message),
                        ToolContentBody::Other(_) => self.unknown(&content.place, message),
                    }
                }
                let at = self.turn(Role::Tool, message);
                if let Some(turn) = self.list.get_mut(at) {
                    turn.text = text;
                    turn.owner = owner;
                    turn.call_id = result.call_id.map(str::to_owned);
                    turn.call_name = result.name.map(str::to_owned);
                }
                continue;
            }
            let at = *current.get_or_insert_with(|| self.turn(role, message));
            self.item(at, item, message, role);
        }
    }

    fn item(&mut self, at: usize, item: &Item<'_>, message: &Message<'_>, role: Role) {
        let place = item.place.as_str();
        match &item.body {
            ItemBody::Text(text) => {
                let kind = match role {
                    Role::System | Role::Developer => PartKind::System,
                    Role::User => PartKind::User,
                    Role::Assistant => PartKind::Assistant,
                    Role::Tool => PartKind::ToolResult,
                };
                let owner = self.list.get(at).map_or(0, |turn| turn.owner);
                let owner = if owner == 0 { self.part(kind, place, Some(message), None) } else { owner };
                if let Some(turn) = self.list.get_mut(at) {
                    if !turn.text.is_empty() {
                        turn.text.push_str(&self.joiner);
                    }
                    turn.text.push_str(text);
                    turn.owner = owner;
                }
            }
            ItemBody::Reasoning(reasoning) => {
                let owner = self.part(PartKind::Reasoning, place, Some(message), None);
                if let Some(turn) = self.list.get_mut(at) {
                    match reasoning.text {
                        Some(text) => turn.reasoning.push_str(text),
                        // Mistral: a thinking part of several chunks.
                        None => turn.reasoning.push_str(&chunks(item.raw).collect::<Vec<_>>().join("\n\n")),
                    }
                    turn.reasoning_owner = owner;
                }
            }
            ItemBody::ToolCall(call) => {
                let owner = self.part(PartKind::ToolCall, place, Some(message), Some(call.name));
                let text = match call.arguments {
                    Arguments::Text(text) => text.to_owned(),
                    Arguments::Json(value) => dumps(value, Style::PYTHON),
                    Arguments::None => "{}".to_owned(),
                };
                if let Some(turn) = self.list.get_mut(at) {
                    turn.calls.push(Call { id: call.id.map(str::to_owned), name: call.name.to_owned(), text, owner });
                }
            }
            ItemBody::Image(picture) => self.media(PartKind::Image, place, picture, message),
            ItemBody::File(file) | ItemBody::Audio(file) | ItemBody::Video(file) => self.media(PartKind::File, place, file, message),
            ItemBody::Other(_) => self.unknown(place, message),
            ItemBody::ToolResult(_) => {}
        }
    }

    fn media(&mut self, kind: PartKind, place: &str, source: &Media<'_>, message: &Message<'_>) {
        let size = source.base64.and_then(media::dimensions);
        let mut part = Part::exact(kind, place, 0);
        part.role = Some(message.role);
        part.message = message.listed.then_some(message.index);
        if kind == PartKind::Image {
            let (tokens, bound) = self.pictures.tokens(size);
            part.tokens = tokens;
            part.confidence =
                if size.is_some() && self.pictures != Pictures::Unknown { Confidence::Calibrated } else { Confidence::Estimate };
            part.bound = Some(bound);
        } else {
            part.tokens = source.text.map_or(0, |text| text.len() as u64 / 4);
            part.confidence = Confidence::Unbounded;
            part.bound = None;
        }
        self.media.push(part);
    }

    fn unknown(&mut self, place: &str, message: &Message<'_>) {
        let mut part = Part::exact(PartKind::Overhead, place, 0);
        part.role = Some(message.role);
        part.message = message.listed.then_some(message.index);
        part.confidence = Confidence::Unbounded;
        part.bound = None;
        self.media.push(part);
    }

    /// The texts that go into a prompt, to see whether they hold a certain character.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.list.iter().flat_map(|turn| {
            let calls = turn.calls.iter().flat_map(|call| [call.name.as_str(), call.text.as_str()]);
            [turn.text.as_str(), turn.reasoning.as_str()].into_iter().chain(calls)
        })
    }

    /// Texts and their owners in the order in which prompts have them.
    #[cfg(feature = "templates")]
    pub(super) fn owned_texts(&self) -> impl Iterator<Item = (&str, usize)> {
        self.list.iter().flat_map(|turn| {
            let reasoning_owner = if turn.reasoning_owner == 0 { turn.owner } else { turn.reasoning_owner };
            let calls = turn.calls.iter().flat_map(|call| [(call.name.as_str(), call.owner), (call.text.as_str(), call.owner)]);
            [(turn.reasoning.as_str(), reasoning_owner), (turn.text.as_str(), turn.owner)].into_iter().chain(calls)
        })
    }

    /// The turns as published templates take them: chat messages with arguments as objects.
    #[cfg(feature = "templates")]
    pub(super) fn published(&self) -> Value {
        let turn = |turn: &Turn| {
            let mut message = serde_json::Map::new();
            message.insert("role".to_owned(), turn.role.as_str().into());
            message.insert("content".to_owned(), turn.text.clone().into());
            if !turn.reasoning.is_empty() {
                message.insert("reasoning_content".to_owned(), turn.reasoning.clone().into());
            }
            if !turn.calls.is_empty() {
                let calls = turn.calls.iter().map(|call| {
                    let arguments = serde_json::from_str(&call.text).unwrap_or_else(|_| Value::String(call.text.clone()));
                    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
                });
                message.insert("tool_calls".to_owned(), calls.collect());
            }
            for (key, value) in
                [("tool_call_id", &turn.call_id), ("name", if turn.role == Role::Tool { &turn.call_name } else { &turn.name })]
            {
                if let Some(value) = value {
                    message.insert(key.to_owned(), value.clone().into());
                }
            }
            Value::Object(message)
        };
        self.list.iter().map(turn).collect()
    }

    /// The turns as the templates of ours take them.
    pub(super) fn context(&self) -> Value {
        let last_user = self.list.iter().rposition(|turn| turn.role == Role::User);
        let mut number = 0_u64;
        let mut known: std::collections::HashMap<&str, (&str, u64)> = std::collections::HashMap::new();
        let mut out = Vec::with_capacity(self.list.len());
        for (index, turn) in self.list.iter().enumerate() {
            let (mut reasoning, mut answer) = (turn.reasoning.as_str(), turn.text.as_str());
            if turn.role == Role::Assistant
                && reasoning.is_empty()
                && let Some((before, _)) = answer.split_once("</think>")
            {
                reasoning = before.trim_end_matches('\n').rsplit("<think>").next().unwrap_or_default().trim_start_matches('\n');
                answer = answer.rsplit("</think>").next().unwrap_or_default().trim_start_matches('\n');
            }
            let mut calls = Vec::with_capacity(turn.calls.len());
            for call in &turn.calls {
                calls.push(call.context(number));
                if let Some(id) = call.id.as_deref() {
                    known.insert(id, (&call.name, number));
                }
                number += 1;
            }
            let (call_name, call_number) = turn
                .call_id
                .as_deref()
                .and_then(|id| known.get(id).copied())
                .unwrap_or((turn.call_name.as_deref().unwrap_or("unknown"), number));
            let is_tool = |at: Option<usize>| at.and_then(|at| self.list.get(at)).is_some_and(|turn| turn.role == Role::Tool);
            out.push(json!({
                "role": turn.role.as_str(),
                "name": turn.name,
                "content": turn.text,
                "answer": answer,
                "ref": turn.owner,
                "reasoning": reasoning,
                "own_reasoning": turn.reasoning,
                "reasoning_ref": if turn.reasoning_owner == 0 { turn.owner } else { turn.reasoning_owner },
                "in_loop": last_user.is_none_or(|last| index > last),
                "calls": calls,
                "call_name": call_name,
                "call_number": call_number,
                "first_result": !is_tool(index.checked_sub(1)),
                "last_result": !is_tool(index.checked_add(1)),
            }));
        }
        Value::Array(out)
    }
}

/// The texts of a thinking part's chunks.
fn chunks(part: &Value) -> impl Iterator<Item = &str> {
    part.get("thinking").and_then(Value::as_array).into_iter().flatten().filter_map(|chunk| chunk.get("text")?.as_str())
}

impl Call {
    fn context(&self, number: u64) -> Value {
        let parsed: Option<Value> = serde_json::from_str(&self.text).ok();
        let text_of = |value: &Value| value.as_str().map_or_else(|| dumps(value, Style::PYTHON), str::to_owned);
        let entries = parsed.as_ref().and_then(Value::as_object);
        let arguments: Vec<Value> = entries.into_iter().flatten().map(|(key, value)| json!([key, text_of(value)])).collect();
        let typed: Vec<Value> = entries.into_iter().flatten().map(|(key, value)| json!([key, text_of(value), value.is_string()])).collect();
        json!({
            "name": self.name,
            "text": self.text,
            "json": parsed.as_ref().map_or_else(|| self.text.clone(), |value| dumps(value, Style::PYTHON)),
            "arguments": arguments,
            "typed": typed,
            "number": number,
            "ref": self.owner,
        })
    }
}
