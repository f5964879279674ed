//! Messages, calls, results and replayed reasoning, each in its family's frame.
//!
//! Called by the renderer of this family, message by message in prompt order. Keeps what a later message needs of an earlier
//! one: which call a result answers, and which calls were shown as one.

use super::images::Rule;
use super::rules::{Family, Parallel, Rules};
use super::sheet::{Piece, Sheet, of_message, of_tool};
use super::{RenderContext, header, schema};
use crate::count::{Confidence, Part, PartKind};
use crate::error::Result;
use crate::format::{
    Arguments, Item, ItemBody, Media, Message, Reasoning, Role, ToolCall, ToolContent, ToolContentBody, ToolResult, brought_tools,
};
use crate::json_text::{Style, dumps, spaced};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Around the wrapped results of parallel calls.
const WRAPPED_RESULT: u64 = 10;
/// Around replayed reasoning.
const REASONING_FRAME: u64 = 4;
/// Characters of encrypted reasoning that hold no tokens.
const ENCRYPTED_HEAD: u64 = 900;
/// What is left of dropped reasoning in a turn with calls, and how far that may be off.
const DROPPED: u64 = 2;
const DROPPED_BOUND: u64 = 4;
/// The provider's own words around tools that arrive in the middle of a conversation.
const ARRIVING_TOOLS: u64 = 82;
/// How far those may be off.
const ARRIVING_BOUND: u64 = 14;

/// The walk over a history.
pub(super) struct History<'c, 'a> {
    context: &'c RenderContext<'a>,
    rules: &'c Rules,
    images: Option<Rule>,
    /// Cost of the format's name in the header of assistant texts.
    answer_header: u64,
    /// Names of calls by id.
    names: HashMap<&'a str, String>,
    /// Name of the latest call, for results without an id.
    latest: Option<String>,
    /// Ids of calls that were shown as one, by id: the number of their group.
    groups: HashMap<&'a str, usize>,
    group_count: usize,
    /// The group whose results are being gathered, its first message, and the results so far.
    open: Option<(usize, Part, Vec<Value>)>,
    last_user: Option<usize>,
    /// Of each message, whether a call without an id of its own follows before the next message of a user.
    called_later: Vec<bool>,
    /// Names of the tools that the request defines.
    defined: HashSet<&'a str>,
    /// Tokens of the header of a call by the full name in it.
    heads: HashMap<String, u64>,
    /// Results that follow in the same message list, to know where a group of results ends.
    total: usize,
}

impl<'c, 'a> History<'c, 'a> {
    pub(super) fn new(context: &'c RenderContext<'a>, rules: &'c Rules, _family: Family, answer_header: u64) -> Self {
        let messages = &context.conversation.messages;
        Self {
            context,
            rules,
            images: context.profile.image_rule.as_deref().and_then(Rule::parse),
            answer_header,
            names: HashMap::new(),
            latest: None,
            groups: HashMap::new(),
            group_count: 0,
            open: None,
            last_user: messages.iter().rposition(|m| m.role == Role::User),
            called_later: called_later(messages),
            defined: context.conversation.tools.iter().map(|tool| tool.name).collect(),
            heads: HashMap::new(),
            total: messages.len(),
        }
    }

    /// Counts one message; `tail` is text that joins it.
    pub(super) fn message(&mut self, at: usize, message: &'c Message<'a>, tail: Vec<Piece<'_>>, sheet: &mut Sheet) -> Result<()> {
        let calls: Vec<(&'c Item<'a>, &'c ToolCall<'a>)> = message
            .items
            .iter()
            .filter_map(|item| match &item.body {
                ItemBody::ToolCall(call) => Some((item, call)),
                _ => None,
            })
            .collect();
        let results = message.items.iter().any(|item| matches!(item.body, ItemBody::ToolResult(_)));
        if !results {
            self.close(sheet);
        }
        let alone = calls.is_empty() && !results && !only_reasoning(message);
        if alone || has_text(message) {
            self.text(message, tail, sheet);
        }
        for item in &message.items {
            match &item.body {
                ItemBody::Reasoning(reasoning) => self.reasoning(at, message, &item.place, reasoning, sheet),
                ItemBody::ToolResult(result) => self.result(message, &item.place, result, sheet),
                ItemBody::Other("additional_tools") => Self::arriving(message, item, sheet)?,
                ItemBody::Other(_) if !has_text(message) => sheet.unknown(of_message(PartKind::Overhead, message, &item.place)),
                _ => {}
            }
        }
        if !calls.is_empty() {
            self.calls(at, message, &calls, sheet);
        }
        if at + 1 == self.total {
            self.close(sheet);
        }
        Ok(())
    }

    /// A message of text and media.
    fn text(&mut self, message: &Message<'_>, tail: Vec<Piece<'_>>, sheet: &mut Sheet) {
        let mut frame = self.rules.message + sheet.n(&header(message));
        if message.role == Role::Assistant {
            frame += self.rules.assistant_channel + self.answer_header;
        }
        sheet.message_frame(message, frame);
        let kind = match message.role {
            Role::System | Role::Developer => PartKind::System,
            Role::Assistant => PartKind::Assistant,
            _ => PartKind::User,
        };
        let mut run: Vec<Piece<'_>> = Vec::new();
        for item in &message.items {
            match &item.body {
                ItemBody::Text(text) => run.push(Piece::new(of_message(kind, message, &item.place), text.as_ref())),
                ItemBody::Image(media) => {
                    flush(&mut run, sheet);
                    self.picture(of_message(PartKind::Image, message, &item.place), media, sheet);
                }
                ItemBody::File(media) | ItemBody::Audio(media) | ItemBody::Video(media) => {
                    flush(&mut run, sheet);
                    file(of_message(PartKind::File, message, &item.place), media, sheet);
                }
                ItemBody::Other(_) => {
                    flush(&mut run, sheet);
                    sheet.unknown(of_message(PartKind::Overhead, message, &item.place));
                }
                _ => {}
            }
        }
        if !tail.is_empty() {
            run.push(Piece::new(of_message(PartKind::Overhead, message, &message.place), "\n\n"));
            run.extend(tail);
        }
        flush(&mut run, sheet);
    }

    /// Whether a user's message follows the results of the call at once.
    fn interrupted(&self, at: usize) -> bool {
        self.context.conversation.messages.iter().skip(at + 1).find(|m| m.role != Role::Tool).is_some_and(|m| m.role == Role::User)
    }

    /// Tools that an item brings in the middle of a conversation, each shown in a namespace of its own name.
    fn arriving(message: &Message<'_>, item: &Item<'_>, sheet: &mut Sheet) -> Result<()> {
        for tool in brought_tools(item.raw, &item.place) {
            let (name, text) = (tool.name, schema::function(tool.name, tool.description, tool.parameters)?);
            let text = format!("# Tools\n\n## {name}\n\nnamespace {name} {{\n\n{text}}} // namespace {name}");
            let part = of_tool(of_message(PartKind::ToolDefinition, message, &tool.place), name);
            sheet.block(vec![Piece::new(Part { confidence: Confidence::Calibrated, bound: Some(ARRIVING_BOUND), ..part }, text)]);
        }
        let hidden = Part {
            confidence: Confidence::Calibrated,
            bound: Some(ARRIVING_BOUND),
            ..of_message(PartKind::Overhead, message, &item.place)
        };
        sheet.out.push(Part { tokens: ARRIVING_TOOLS, ..hidden });
        Ok(())
    }

    fn picture(&self, part: Part, media: &Media<'_>, sheet: &mut Sheet) {
        match self.images {
            Some(rule) => {
                let weight = rule.weigh(media);
                let confidence = if weight.bound == 0 { Confidence::Exact } else { Confidence::Estimate };
                sheet.out.push(Part { tokens: weight.tokens, confidence, bound: Some(weight.bound), ..part });
            }
            None => sheet.unknown(part),
        }
    }

    fn calls(&mut self, at: usize, message: &'c Message<'a>, calls: &[(&'c Item<'a>, &'c ToolCall<'a>)], sheet: &mut Sheet) {
        let wrapped = calls.len() > 1 && self.rules.parallel == Parallel::Wrapped;
        let interrupted = !wrapped && calls.iter().any(|(_, call)| call.item_id.is_some()) && self.interrupted(at);
        for (item, call) in calls {
            let name = full_name(item, call);
            if !wrapped {
                self.call(message, (item, call, calls.len()), &name, interrupted, sheet);
            }
            if let Some(id) = call.id {
                self.names.insert(id, name.clone());
            }
            self.latest = Some(name);
        }
        if wrapped {
            self.wrapped(message, calls, sheet);
        }
    }

    /// One call of `calls` in its message.
    fn call(
        &mut self,
        message: &'c Message<'a>,
        (item, call, calls): (&Item<'a>, &ToolCall<'a>, usize),
        name: &str,
        interrupted: bool,
        sheet: &mut Sheet,
    ) {
        let head = match self.heads.get(name) {
            Some(tokens) => *tokens,
            None => *self.heads.entry(name.to_owned()).or_insert(sheet.n(&format!("assistant to={name}"))),
        };
        let id = match call.item_id {
            None => 0,
            Some(_) if interrupted => self.rules.call_item_id + self.rules.interrupted_item_id,
            Some(_) => self.rules.call_item_id,
        };
        let mut bound = match call.item_id {
            None => 0,
            // Few bills show calls of tools that the request no longer defines.
            Some(_) if !self.defined.contains(call.name) => self.rules.item_id_bound.max(self.rules.call_item_id),
            Some(_) => self.rules.item_id_bound,
        };
        if calls > 1 {
            bound += self.rules.parallel_bound;
        }
        bound += self.rules.gateway_call;
        let confidence = if bound > 0 { Confidence::Calibrated } else { Confidence::Exact };
        let tokens = self.rules.call + head + id + self.rules.gateway_call;
        let part = of_tool(of_message(PartKind::ToolCall, message, &item.place), call.name);
        sheet.out.push(Part { kind: PartKind::Overhead, tokens, confidence, bound: Some(bound), ..part.clone() });
        let count = || sheet.n(&arguments(call));
        let tokens = match (self.context.known, call.arguments) {
            (Some(known), Arguments::Text(text)) if call.other_type.is_none() => known.arguments(text, count),
            _ => count(),
        };
        sheet.out.push(Part { tokens, ..part });
    }

    /// Several calls as one call of the wrapper tool.
    fn wrapped(&mut self, message: &'c Message<'a>, calls: &[(&'c Item<'a>, &'c ToolCall<'a>)], sheet: &mut Sheet) {
        self.group_count += 1;
        let head = sheet.n("assistant to=multi_tool_use.parallel");
        sheet.message_frame(message, self.rules.call + head);
        let mut pieces = Vec::with_capacity(calls.len() + 1);
        for (index, (item, call)) in calls.iter().enumerate() {
            if let Some(id) = call.id {
                self.groups.insert(id, self.group_count);
            }
            let text = arguments(call);
            let parameters: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
            let one = dumps(&json!({"recipient_name": format!("functions.{}", call.name), "parameters": parameters}), Style::COMPACT);
            let open = if index == 0 { "{\"tool_uses\":[" } else { "," };
            let close = if index + 1 == calls.len() { "]}" } else { "" };
            let part = of_tool(of_message(PartKind::ToolCall, message, &item.place), call.name);
            pieces.push(Piece::new(part, format!("{open}{one}{close}")));
        }
        sheet.block(pieces);
    }

    fn result(&mut self, message: &Message<'a>, place: &str, result: &ToolResult<'a>, sheet: &mut Sheet) {
        let full = result.call_id.and_then(|id| self.names.get(id)).or(self.latest.as_ref()).map(String::as_str);
        let full = full.or(result.name).unwrap_or_default().to_owned();
        let name = full.strip_prefix("functions.").unwrap_or(&full);
        let part = of_tool(of_message(PartKind::ToolResult, message, place), name);
        if let Some(group) = result.call_id.and_then(|id| self.groups.get(id).copied()) {
            if self.open.as_ref().is_some_and(|(open, ..)| *open != group) {
                self.close(sheet);
            }
            let text = self.result_text(result, &part, sheet);
            let value = serde_json::from_str(&text).unwrap_or_else(|_| Value::from(text));
            match &mut self.open {
                Some((_, _, values)) => values.push(value),
                None => self.open = Some((group, part, vec![value])),
            }
            return;
        }
        self.close(sheet);
        let frame = if result.legacy { 3 } else { self.rules.result } + sheet.n(name);
        sheet.out.push(Part { kind: PartKind::Overhead, tokens: frame, ..part.clone() });
        let text = self.result_text(result, &part, sheet);
        sheet.block(vec![Piece::new(part, text)]);
    }

    /// Text of a result; media in it are counted at once.
    fn result_text<'r>(&self, result: &ToolResult<'r>, part: &Part, sheet: &mut Sheet) -> Cow<'r, str> {
        if let [ToolContent { body: ToolContentBody::Text(text), .. }] = result.content.as_slice() {
            return Cow::Borrowed(text);
        }
        let mut text = String::new();
        for content in &result.content {
            let owner = |kind| Part { kind, place: content.place.clone(), ..part.clone() };
            match &content.body {
                ToolContentBody::Text(piece) => text.push_str(piece),
                ToolContentBody::Json(value) => text.push_str(&spaced(value)),
                ToolContentBody::Image(media) => self.picture(owner(PartKind::Image), media, sheet),
                ToolContentBody::File(media) => file(owner(PartKind::File), media, sheet),
                ToolContentBody::Other(_) => sheet.unknown(owner(PartKind::Overhead)),
            }
        }
        Cow::Owned(text)
    }

    /// Ends a group of wrapped results.
    fn close(&mut self, sheet: &mut Sheet) {
        let Some((_, part, values)) = self.open.take() else { return };
        sheet.out.push(Part { kind: PartKind::Overhead, tokens: WRAPPED_RESULT, name: None, server: None, ..part.clone() });
        let values = Value::Array(values);
        let text = spaced(&values);
        let mut bound = 0;
        if !text.is_ascii() {
            // Bills of 2025 show non-ASCII characters escaped here, those of 2026 don't.
            let escaped = dumps(&values, Style { ascii: true, ..Style::PYTHON });
            bound = sheet.n(&escaped).abs_diff(sheet.n(&text));
        }
        let confidence = if bound > 0 { Confidence::Calibrated } else { Confidence::Exact };
        sheet.block(vec![Piece::new(Part { confidence, bound: Some(bound), ..part }, text)]);
    }

    /// Reasoning that the request replays: dropped once a user message follows, else billed as it was made.
    fn reasoning(&self, at: usize, message: &Message<'_>, place: &str, reasoning: &Reasoning<'_>, sheet: &mut Sheet) {
        let part = of_message(PartKind::Reasoning, message, place);
        let Some(signature) = reasoning.signature else { return };
        if self.last_user.is_some_and(|user| at < user) && !self.rules.keeps_reasoning {
            // Dropped, but a turn with calls keeps a little of it.
            if self.called_later.get(at).is_some_and(|called| *called) {
                sheet.out.push(Part { tokens: DROPPED, confidence: Confidence::Calibrated, bound: Some(DROPPED_BOUND), ..part });
            } else {
                sheet.out.push(part);
            }
            return;
        }
        // Encrypted text: a fixed head, then some six or seven characters a token.
        let guess = (signature.len() as u64).saturating_sub(ENCRYPTED_HEAD) * 10 / 65;
        if let Some(tokens) = self.context.memory.recall(signature) {
            // Some models report reasoning rounded down to a multiple of 64; then its length says where in between it was.
            let rounded = tokens % 64 == 0;
            let likely = if rounded { guess.clamp(tokens, tokens.saturating_add(63)) } else { tokens };
            let bound = if rounded { (likely - tokens).max(tokens.saturating_add(63) - likely) } else { 2 };
            sheet.out.push(Part {
                tokens: likely.saturating_add(REASONING_FRAME),
                confidence: Confidence::Calibrated,
                bound: Some(bound),
                ..part
            });
            return;
        }
        sheet.out.push(Part { tokens: guess, confidence: Confidence::Estimate, bound: Some(40 + guess * 9 / 20), ..part });
    }
}

/// The name by which a call is addressed: in the namespace of functions, or in the one it names.
fn full_name(item: &Item<'_>, call: &ToolCall<'_>) -> String {
    let space = item.raw.get("namespace").and_then(Value::as_str).unwrap_or("functions");
    [space, ".", call.name].concat()
}

/// Of each message, whether a call without an id of its own follows before the next message of a user.
fn called_later(messages: &[Message<'_>]) -> Vec<bool> {
    let bare = |item: &Item<'_>| matches!(&item.body, ItemBody::ToolCall(call) if call.item_id.is_none());
    let mut later = vec![false; messages.len()];
    for at in (1..messages.len()).rev() {
        let next = &messages[at];
        later[at - 1] = next.role != Role::User && (later[at] || next.items.iter().any(bare));
    }
    later
}

fn only_reasoning(message: &Message<'_>) -> bool {
    !message.items.is_empty() && message.items.iter().all(|item| matches!(item.body, ItemBody::Reasoning(_) | ItemBody::Other(_)))
}

fn has_text(message: &Message<'_>) -> bool {
    message.items.iter().any(|item| match &item.body {
        ItemBody::Text(text) => !text.is_empty(),
        ItemBody::Image(_) | ItemBody::File(_) | ItemBody::Audio(_) | ItemBody::Video(_) => true,
        _ => false,
    })
}

fn flush(run: &mut Vec<Piece<'_>>, sheet: &mut Sheet) {
    if !run.is_empty() {
        sheet.block(std::mem::take(run));
    }
}

/// A document or sound: only plain text has a weight that the body tells.
fn file(part: Part, media: &Media<'_>, sheet: &mut Sheet) {
    match media.text {
        Some(text) => {
            let tokens = sheet.n(text);
            sheet.out.push(Part { tokens, confidence: Confidence::Estimate, bound: Some(50 + tokens / 4), ..part });
        }
        None => sheet.unknown(part),
    }
}

/// Arguments as the server prints them: compact JSON, or the text itself where it isn't JSON.
pub(in crate::count) fn arguments(call: &ToolCall<'_>) -> String {
    match call.arguments {
        Arguments::None => String::new(),
        Arguments::Json(value) => dumps(value, Style::COMPACT),
        Arguments::Text(text) => match serde_json::from_str(text) {
            Ok(value) if call.other_type.is_none() => dumps(&value, Style::COMPACT),
            _ => text.to_owned(),
        },
    }
}
