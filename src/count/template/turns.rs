//! A conversation as chat templates see it: turns of plain text, calls and results, each with the part that owns it.
//!
//! Made from the neutral view for every wire format; items that stand alone (Responses) join the assistant's turn, results
//! inside user messages (Anthropic, Converse, Gemini) become tool turns. Media can't be put into text: they become parts of their own.

use crate::count::{Confidence, Part, PartKind, media};
use crate::format::{Arguments, Conversation, Format, ItemBody, Media, Message, Role, ToolContentBody};
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
}

impl Turns {
    pub(super) fn of(conversation: &Conversation<'_>) -> Self {
        let mut turns = Self { list: Vec::new(), parts: vec![Part::exact(PartKind::Overhead, "", 0)], media: Vec::new() };
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
        let begins = |turn: &Turn| !turn.calls.is_empty() && message.items.iter().any(|item| matches!(item.body, ItemBody::Reasoning(_)));
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
            self.item(at, item.place.as_str(), &item.body, message, role);
        }
    }

    fn item(&mut self, at: usize, place: &str, body: &ItemBody<'_>, message: &Message<'_>, role: Role) {
        match body {
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
                    turn.text.push_str(text);
                    turn.owner = owner;
                }
            }
            ItemBody::Reasoning(reasoning) => {
                let owner = self.part(PartKind::Reasoning, place, Some(message), None);
                if let Some(turn) = self.list.get_mut(at) {
                    turn.reasoning.push_str(reasoning.text.unwrap_or_default());
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
            // Mistral's rule, which the others stay near: patches of 28 pixels after shrinking to 1,540, one token a row more.
            part.tokens = size.map_or(1_000, |(width, height)| picture_tokens(width, height));
            // Other families tile, and bill up to 2.5 times as much for the same picture: a bound, until each has its rule.
            part.confidence = Confidence::Estimate;
            part.bound = Some(if size.is_some() { part.tokens.saturating_mul(2) } else { 2_100 });
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

/// Tokens of a picture by Mistral's rule (recorded bills, 2026-11-30).
fn picture_tokens(width: u32, height: u32) -> u64 {
    const LONGEST: u64 = 1_540;
    const PATCH: u64 = 28;
    let (width, height) = (u64::from(width), u64::from(height));
    let longer = width.max(height).max(1);
    let shrink = |side: u64| if longer > LONGEST { (side * LONGEST).div_ceil(longer) } else { side };
    let (columns, rows) = (shrink(width).div_ceil(PATCH), shrink(height).div_ceil(PATCH));
    rows * (columns + 1)
}
