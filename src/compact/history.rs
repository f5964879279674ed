//! A request as compaction sees it: exchanges, user messages, results, what each weighs, and what may not be touched.
//!
//! Built once a plan from the view and its count; read by every step. Groups messages so that calls and results can't be
//! parted (invariant 7) and marks what is locked: system, pins, the newest user message, the newest exchanges.

use super::policy::{Pin, Policy};
use super::standin::{self, StandIn};
use crate::check::{Queues, carries_results};
use crate::count::Breakdown;
use crate::format::{
    Arguments, Conversation, Format, Item, ItemBody, Message, Request, Role, Spans, ToolContent, ToolContentBody, ToolResult,
};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::ops::Range;

/// What a group of messages is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnitKind {
    /// System or developer text in the list: always kept.
    Standing,
    /// A user's message.
    User,
    /// An assistant message with its calls and all their results.
    Exchange,
}

/// The atom that may be summarized or dropped.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub(super) kind: UnitKind,
    /// Indices into the conversation's messages.
    pub(super) messages: Range<usize>,
    pub(super) tokens: u64,
    /// Why it stays as it is.
    pub(super) locked: Option<&'static str>,
    /// It is nothing but a summary or note of this crate.
    pub(super) summary: bool,
}

/// One tool result.
pub(super) struct Kept<'h, 'a> {
    pub(super) unit: usize,
    pub(super) item: &'h Item<'a>,
    pub(super) result: &'h ToolResult<'a>,
    pub(super) tokens: u64,
    /// Tool name, if known.
    pub(super) tool: &'a str,
    /// A later call of the same tool with the same arguments has a result too.
    pub(super) superseded: bool,
    /// May be shrunk or cleared by itself.
    pub(super) free: bool,
    /// Bytes of what it says, once somebody asks.
    pub(super) bytes: OnceCell<usize>,
    /// What it stands in for already, once somebody asks.
    pub(super) stand_in: OnceCell<Option<StandIn<'h>>>,
}

/// The history of one request.
pub(super) struct History<'h, 'a> {
    pub(super) request: &'h Request,
    pub(super) conversation: &'h Conversation<'a>,
    pub(super) units: Vec<Unit>,
    pub(super) results: Vec<Kept<'h, 'a>>,
    /// Tokens by message.
    pub(super) weights: Vec<u64>,
    /// Where the messages stand in the text, once somebody asks: looking a place up in the whole text costs a scan each time.
    spans: OnceCell<Option<Spans<'h>>>,
}

impl<'h, 'a> History<'h, 'a> {
    pub(super) fn of(request: &'h Request, conversation: &'h Conversation<'a>, breakdown: &Breakdown, policy: &Policy) -> Self {
        let (weights, items) = weigh(conversation, breakdown);
        let mut units = group(conversation, &weights);
        lock(conversation, &mut units, policy);
        let results = results(conversation, &units, &items, policy);
        Self { request, conversation, units, results, weights, spans: OnceCell::new() }
    }

    /// Where the listed messages stand; `None` when they are no list.
    pub(super) fn spans(&self) -> Option<&Spans<'h>> {
        let find = || {
            let (list, _) = self.conversation.messages.iter().find(|m| m.listed)?.place.rsplit_once('/')?;
            Spans::of(self.request.text(), list).ok()
        };
        self.spans.get_or_init(find).as_ref()
    }

    /// The bytes at a place inside the message list.
    pub(super) fn raw(&self, place: &str) -> Option<&'h str> {
        self.spans()?.slice(place).ok()
    }

    /// The results of a unit: their places in `results`, which stand in the order of units.
    pub(super) fn results_of(&self, unit: usize) -> Range<usize> {
        let until = |unit: usize| self.results.partition_point(|kept| kept.unit < unit);
        until(unit)..until(unit + 1)
    }

    /// The messages of a unit.
    pub(super) fn messages(&self, unit: &Unit) -> &'h [Message<'a>] {
        self.conversation.messages.get(unit.messages.clone()).unwrap_or_default()
    }

    /// The text kept for a result: its text as it is, everything else as its JSON.
    pub(super) fn kept_text<'r>(&self, result: &'r ToolResult<'_>) -> Cow<'r, str> {
        if let [ToolContent { body: ToolContentBody::Text(text), .. }] = result.content.as_slice() {
            return Cow::Borrowed(text);
        }
        let mut out = String::new();
        for (at, piece) in result.content.iter().enumerate() {
            if at > 0 {
                out.push('\n');
            }
            match piece.body {
                ToolContentBody::Text(text) => out.push_str(text),
                _ => out.push_str(self.raw(&piece.place).unwrap_or_default()),
            }
        }
        Cow::Owned(out)
    }

    /// Everything in some messages, as text to keep, search and sum up.
    pub(super) fn transcript(&self, units: &[usize]) -> String {
        // Some four bytes a token, but no more than there are.
        let tokens = units.iter().map(|unit| self.units[*unit].tokens).fold(0, u64::saturating_add);
        let bytes = usize::try_from(tokens.saturating_mul(4)).unwrap_or(usize::MAX);
        let mut out = String::with_capacity(bytes.min(self.request.text().len()));
        for unit in units {
            for message in self.messages(&self.units[*unit]) {
                let _ = writeln!(out, "## {}", if carries_results(message) { "tool" } else { message.role.as_str() });
                for item in &message.items {
                    self.write_item(item, &mut out);
                }
            }
        }
        out
    }

    fn write_item(&self, item: &Item<'_>, out: &mut String) {
        match &item.body {
            ItemBody::Text(text) => out.push_str(text),
            ItemBody::Reasoning(reasoning) => out.push_str(reasoning.text.unwrap_or("[reasoning]")),
            ItemBody::ToolCall(call) => {
                let _ = write!(out, "{}(", call.name);
                match call.arguments {
                    Arguments::Text(text) => out.push_str(text),
                    Arguments::Json(value) => {
                        let _ = write!(out, "{value}");
                    }
                    Arguments::None => {}
                }
                out.push(')');
            }
            ItemBody::ToolResult(result) => out.push_str(&self.kept_text(result)),
            _ => out.push_str(self.raw(&item.place).unwrap_or_default()),
        }
        out.push('\n');
    }
}

/// Tokens by message and by item, from the places of the parts.
fn weigh<'c>(conversation: &'c Conversation<'_>, breakdown: &Breakdown) -> (Vec<u64>, FxHashMap<&'c str, u64>) {
    let count = conversation.messages.len();
    let all = conversation.messages.iter().map(|message| message.items.len()).sum();
    let mut messages: FxHashMap<&str, usize> = FxHashMap::with_capacity_and_hasher(count, FxBuildHasher);
    let mut by_index: FxHashMap<usize, usize> = FxHashMap::with_capacity_and_hasher(count, FxBuildHasher);
    let mut items: FxHashMap<&str, u64> = FxHashMap::with_capacity_and_hasher(all, FxBuildHasher);
    for (at, message) in conversation.messages.iter().enumerate() {
        messages.insert(message.place.as_str(), at);
        if message.listed {
            by_index.insert(message.index, at);
        }
        for item in &message.items {
            items.insert(item.place.as_str(), 0);
        }
    }
    let mut weights = vec![0_u64; conversation.messages.len()];
    for part in breakdown.parts() {
        let mut place = part.place.as_str();
        let (mut item_done, mut message_done) = (false, false);
        loop {
            if !item_done && let Some(tokens) = items.get_mut(place) {
                *tokens = tokens.saturating_add(part.tokens);
                item_done = true;
            }
            if let Some(at) = messages.get(place) {
                weights[*at] = weights[*at].saturating_add(part.tokens);
                message_done = true;
                break;
            }
            match place.rfind('/') {
                Some(slash) => place = &place[..slash],
                None => break,
            }
        }
        if !message_done
            && part.place.is_empty()
            && let Some(at) = part.message.and_then(|index| by_index.get(&index))
        {
            weights[*at] = weights[*at].saturating_add(part.tokens);
        }
    }
    (weights, items)
}

fn group(conversation: &Conversation<'_>, weights: &[u64]) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    // Whether the last unit is an exchange that may still grow, whether it has results already, and calls.
    let (mut growing, mut answered, mut calls) = (false, false, false);
    for (at, message) in conversation.messages.iter().enumerate().filter(|(_, m)| m.listed) {
        let results = carries_results(message);
        let kind = match message.role {
            Role::System | Role::Developer if !results => UnitKind::Standing,
            Role::Assistant => UnitKind::Exchange,
            _ if results => UnitKind::Exchange,
            _ => UnitKind::User,
        };
        let joins = growing
            && match kind {
                UnitKind::Exchange if results => true,
                // Responses gives each piece its own item; elsewhere calls may wait for the next assistant message.
                UnitKind::Exchange => !answered && (conversation.format == Format::Responses || calls),
                _ => false,
            };
        if let Some(unit) = units.last_mut().filter(|_| joins) {
            unit.messages.end = at + 1;
            calls |= has_calls(message);
            unit.tokens = unit.tokens.saturating_add(weights[at]);
            answered |= results;
        } else {
            units.push(Unit { kind, messages: at..at + 1, tokens: weights[at], locked: None, summary: is_summary(message) });
            growing = kind == UnitKind::Exchange;
            answered = results;
            calls = has_calls(message);
        }
    }
    units
}

fn has_calls(message: &Message<'_>) -> bool {
    message.items.iter().any(|item| matches!(&item.body, ItemBody::ToolCall(call) if call.other_type.is_none()))
}

/// A message that holds nothing but a summary.
fn is_summary(message: &Message<'_>) -> bool {
    message.role == Role::User
        && !message.items.is_empty()
        && message.items.iter().all(|item| matches!(&item.body, ItemBody::Text(text) if standin::summary_parts(text).is_some()))
}

/// Whether a unit holds words of the user.
fn speaks(messages: &[Message<'_>]) -> bool {
    messages.iter().any(|m| {
        !matches!(m.role, Role::Assistant | Role::System | Role::Developer)
            && m.items.iter().any(|item| match &item.body {
                ItemBody::ToolResult(_) => false,
                ItemBody::Text(text) => standin::summary_parts(text).is_none(),
                _ => true,
            })
    })
}

fn lock(conversation: &Conversation<'_>, units: &mut [Unit], policy: &Policy) {
    let messages = |unit: &Unit| &conversation.messages[unit.messages.clone()];
    let newest_user = units.iter().rposition(|unit| speaks(messages(unit)));
    let exchanges: Vec<usize> = units.iter().enumerate().filter(|(_, unit)| unit.kind == UnitKind::Exchange).map(|(at, _)| at).collect();
    let newest: HashSet<usize> = exchanges.iter().rev().take(policy.keep_exchanges).copied().collect();
    let last_exchange = exchanges.last().copied();
    for (at, unit) in units.iter_mut().enumerate() {
        let why = if unit.kind == UnitKind::Standing {
            Some("system text")
        } else if Some(at) == newest_user {
            Some("newest user message")
        } else if newest.contains(&at) {
            Some("one of the newest exchanges")
        } else if last_exchange.is_none_or(|last| at > last) && !unit.summary {
            Some("not answered yet")
        } else if messages(unit).iter().any(|m| policy.pins.iter().any(|pin| pinned(pin, m))) {
            Some("pinned")
        } else {
            None
        };
        unit.locked = why;
    }
}

fn pinned(pin: &Pin, message: &Message<'_>) -> bool {
    let raw = |key: &str| message.raw.get(key).and_then(serde_json::Value::as_str);
    let any = |test: &dyn Fn(&ItemBody<'_>) -> bool| message.items.iter().any(|item| test(&item.body));
    let by_id = |id: &str| {
        raw("id") == Some(id)
            || any(&|body| match body {
                ItemBody::ToolCall(call) => call.id == Some(id) || call.item_id == Some(id),
                ItemBody::ToolResult(result) => result.call_id == Some(id),
                _ => false,
            })
    };
    let by_tag = |tag: &str| {
        any(&|body| match body {
            ItemBody::Text(text) => text.contains(tag),
            ItemBody::ToolResult(result) => {
                result.content.iter().any(|piece| matches!(piece.body, ToolContentBody::Text(text) if text.contains(tag)))
            }
            _ => false,
        })
    };
    let by_role = |role: &str| match role {
        "tool" => carries_results(message),
        "model" => message.role == Role::Assistant,
        role => message.role.as_str() == role && !carries_results(message),
    };
    let by_tool = |tool: &str| {
        any(&|body| match body {
            ItemBody::ToolCall(call) => call.name == tool,
            ItemBody::ToolResult(result) => result.name == Some(tool),
            _ => false,
        })
    };
    *pin != Pin::default()
        && pin.index.is_none_or(|index| index == message.index)
        && pin.id.as_deref().is_none_or(by_id)
        && pin.tag.as_deref().is_none_or(by_tag)
        && pin.role.as_deref().is_none_or(by_role)
        && pin.tool.as_deref().is_none_or(by_tool)
}

/// A call by what decides whether it reads the same thing again: its tool and arguments.
type CallKey<'a> = (&'a str, Cow<'a, str>);

/// The calls of an exchange that are not answered yet.
#[derive(Default)]
struct Calls<'a> {
    all: Vec<Option<CallKey<'a>>>,
    by_id: Queues<&'a str>,
    by_name: Queues<&'a str>,
    /// Calls before this one stand in `by_name`, which only results without an id need.
    queued: usize,
    /// Those without an id.
    bare: Queues<&'a str>,
    /// Calls before this one are answered.
    first: usize,
}

impl<'a> Calls<'a> {
    fn push(&mut self, id: Option<&'a str>, key: CallKey<'a>) {
        let at = self.all.len();
        match id {
            Some(id) => self.by_id.push(id, at),
            None => self.bare.push(key.0, at),
        }
        self.all.push(Some(key));
    }

    /// Takes the call that a result answers: the first of its id, else (results without an id) the first of its name.
    fn take(&mut self, result: &ToolResult<'a>) -> Option<CallKey<'a>> {
        if result.call_id.is_none() {
            for (at, key) in self.all.iter().enumerate().skip(self.queued) {
                if let Some((name, _)) = key {
                    self.by_name.push(name, at);
                }
            }
            self.queued = self.all.len();
        }
        let calls = &self.all;
        let gone = |at: usize| calls[at].is_none();
        let found = match (result.call_id, result.name) {
            (Some(id), name) => self.by_id.first(&id, gone).or_else(|| self.bare.first(&name?, gone)),
            (None, Some(name)) => self.by_name.first(&name, gone),
            (None, None) => {
                while self.all.get(self.first).is_some_and(Option::is_none) {
                    self.first += 1;
                }
                Some(self.first)
            }
        };
        self.all.get_mut(found?)?.take()
    }
}

fn results<'h, 'a>(conversation: &'h Conversation<'a>, units: &[Unit], items: &FxHashMap<&str, u64>, policy: &Policy) -> Vec<Kept<'h, 'a>> {
    let mut out: Vec<Kept<'h, 'a>> = Vec::new();
    let mut keys: Vec<Option<CallKey<'a>>> = Vec::new();
    for (at, unit) in units.iter().enumerate().filter(|(_, unit)| unit.kind == UnitKind::Exchange) {
        let mut calls = Calls::default();
        for message in &conversation.messages[unit.messages.clone()] {
            let results = carries_results(message);
            for item in &message.items {
                match &item.body {
                    ItemBody::ToolCall(call) => {
                        let arguments = match call.arguments {
                            Arguments::Text(text) => Cow::Borrowed(text),
                            Arguments::Json(value) => Cow::Owned(value.to_string()),
                            Arguments::None => Cow::Borrowed(""),
                        };
                        calls.push(call.id, (call.name, arguments));
                    }
                    ItemBody::ToolResult(result) if results => {
                        let key = calls.take(result);
                        let tool = key.as_ref().map_or(result.name.unwrap_or_default(), |(name, _)| name);
                        let free = unit.locked.is_none()
                            && result.other_type.is_none()
                            && !result.content.is_empty()
                            && !policy.keep_tools.iter().any(|kept| kept == tool);
                        let tokens = items.get(item.place.as_str()).copied().unwrap_or(0);
                        out.push(Kept {
                            unit: at,
                            item,
                            result,
                            tokens,
                            tool,
                            superseded: false,
                            free,
                            bytes: OnceCell::new(),
                            stand_in: OnceCell::new(),
                        });
                        keys.push(key);
                    }
                    _ => {}
                }
            }
        }
    }
    let mut later: HashSet<&CallKey<'a>> = HashSet::new();
    for (kept, key) in out.iter_mut().zip(&keys).rev() {
        // A failed read supersedes nothing.
        if let Some(key) = key {
            kept.superseded = later.contains(key);
            if !kept.result.is_error {
                later.insert(key);
            }
        }
    }
    out
}
