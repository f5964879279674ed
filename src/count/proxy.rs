//! Families counted by a vocabulary that is not their own: Grok and Nova, with frames read off recorded usage.
//!
//! One walk over the neutral view for both; what differs stands in a dated table (`data/proxy-frames.tsv`). Called by the
//! families' own files. Never claims to be exact: text is calibrated with a share of itself as bound, what no bill has shown
//! is an estimate, and documents and films are unbounded.

use super::media;
use super::render::RenderContext;
use super::{Breakdown, Confidence, Part, PartKind};
use crate::error::{Error, Kind, Result};
use crate::format::{
    Arguments, Item, ItemBody, Media, Message, Reasoning, ResponseFormat, Role, Tool, ToolCall, ToolContentBody, ToolKind, ToolResult,
};
use crate::json_text::spaced;
use crate::models::Provider;
use crate::tokenizer::Tokenizer;
use serde_json::Value;
use std::sync::OnceLock;

const TABLE: &str = include_str!("../../data/proxy-frames.tsv");

/// Pixels a token, by which the pictures of Nova 2 that were billed at two sizes agree; and the price of one of unknown size.
const PIXELS_PER_TOKEN: u64 = 800;
const UNKNOWN_IMAGE: u64 = 1300;
/// A word of three or more capitals costs this many thousandths of a token more than the public vocabulary has it (Nova; one text).
const CAPITALS_MILLI: u64 = 280;

/// One row of the table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Frame {
    renderer: &'static str,
    host: &'static str,
    plain: u64,
    system: u64,
    further: u64,
    tools: u64,
    form: &'static str,
    call: u64,
    json_object: u64,
    image: u64,
    plain_spread: u64,
    tools_spread: u64,
    call_spread: u64,
    text_percent: u64,
    reasoning_milli: u64,
}

fn row(line: &'static str) -> Option<Frame> {
    if line.starts_with('#') {
        return None;
    }
    let cells: Vec<&'static str> = line.split('\t').collect();
    let number = |at: usize| cells.get(at)?.parse::<u64>().ok();
    Some(Frame {
        renderer: cells.first()?,
        host: cells.get(1)?,
        plain: number(2)?,
        system: number(3)?,
        further: number(4)?,
        tools: number(5)?,
        form: cells.get(6)?,
        call: number(7)?,
        json_object: number(8)?,
        image: number(9)?,
        plain_spread: number(10)?,
        tools_spread: number(11)?,
        call_spread: number(12)?,
        text_percent: number(13)?,
        reasoning_milli: number(14)?,
    })
}

impl Frame {
    /// The frame of a renderer at a host; a host's own row wins.
    pub(super) fn of(renderer: &str, provider: Option<&Provider>) -> Result<&'static Self> {
        static ROWS: OnceLock<Vec<Frame>> = OnceLock::new();
        let rows = ROWS.get_or_init(|| TABLE.lines().filter_map(row).collect());
        let host = provider.map_or("-", Provider::as_str);
        let find = |host: &str| rows.iter().find(|row| row.renderer == renderer && row.host == host);
        find(host)
            .or_else(|| find("-"))
            .ok_or_else(|| Error::new(Kind::Unsupported, format!("renderer `{renderer}` has no frame in the table")))
    }
}

struct Walk<'a> {
    context: &'a RenderContext<'a>,
    frame: &'static Frame,
    tokenizer: Tokenizer,
    out: Breakdown,
    capitals: bool,
}

/// Counts by the frame of the profile's renderer. `capitals`: words in capitals cost more than in the public vocabulary.
pub(super) fn render(context: &RenderContext<'_>, capitals: bool) -> Result<Breakdown> {
    let frame = Frame::of(&context.profile.renderer, context.provider)?;
    let tokenizer = (context.tokenizer)(if context.profile.tokenizer.is_empty() { "o200k_base" } else { &context.profile.tokenizer })?;
    let mut walk = Walk { context, frame, tokenizer, out: Breakdown::default(), capitals };
    walk.overhead();
    for tool in &context.conversation.tools {
        walk.tool(tool);
    }
    for message in &context.conversation.messages {
        walk.message(message);
    }
    for unbounded in &context.conversation.unbounded {
        walk.out.push(Part {
            confidence: Confidence::Unbounded,
            bound: None,
            ..Part::exact(PartKind::Overhead, unbounded.place.clone(), 0)
        });
    }
    Ok(walk.out)
}

impl Walk<'_> {
    fn push(&mut self, part: Part, tokens: u64, spread: u64) {
        let confidence = part.confidence.max(Confidence::Calibrated);
        self.out.push(Part { tokens, bound: (confidence != Confidence::Unbounded).then_some(spread), confidence, ..part });
    }

    fn unbounded(&mut self, part: Part, tokens: u64) {
        self.push(Part { confidence: Confidence::Unbounded, ..part }, tokens, 0);
    }

    fn text(&mut self, part: Part, text: &str, more: u64, spread: u64) {
        let tokens = self.tokenizer.count(text) as u64;
        let capitals = if self.capitals { capital_words(text).saturating_mul(CAPITALS_MILLI) / 1000 } else { 0 };
        let share = tokens.saturating_mul(self.frame.text_percent).div_ceil(100);
        let bound = share.saturating_add(capitals).saturating_add(spread);
        self.push(part, tokens.saturating_add(capitals).saturating_add(more), bound);
    }

    fn overhead(&mut self) {
        let conversation = self.context.conversation;
        let functions = conversation.tools.iter().any(|tool| tool.kind == ToolKind::Function);
        if conversation.messages.is_empty() {
            return;
        }
        let (base, spread) =
            if functions { (self.frame.tools, self.frame.tools_spread) } else { (self.frame.plain, self.frame.plain_spread) };
        let systems = conversation.messages.iter().filter(|m| matches!(m.role, Role::System | Role::Developer)).count() as u64;
        let further = (conversation.messages.iter().filter(|m| m.listed).count() as u64).saturating_sub(1);
        let tokens =
            base.saturating_add(self.frame.system.saturating_mul(systems)).saturating_add(self.frame.further.saturating_mul(further));
        let confidence = if spread >= 60 { Confidence::Estimate } else { Confidence::Calibrated };
        self.push(Part { confidence, ..Part::exact(PartKind::Overhead, "", 0) }, tokens, spread.saturating_add(further));
        let format = Part::exact(PartKind::ResponseFormat, "", 0);
        match conversation.response_format {
            ResponseFormat::Text => {}
            ResponseFormat::JsonObject => {
                let tokens = self.frame.json_object;
                self.push(format, tokens, tokens.saturating_add(10));
            }
            ResponseFormat::JsonSchema { schema, .. } => {
                let text = schema.as_str().map_or_else(|| spaced(schema), str::to_owned);
                let size = self.tokenizer.count(&text) as u64;
                self.text(Part { confidence: Confidence::Estimate, ..format }, &text, 30, size.saturating_add(60));
            }
            ResponseFormat::Other(_) => self.push(Part { confidence: Confidence::Estimate, ..format }, 30, 100),
        }
    }

    fn tool(&mut self, tool: &Tool<'_>) {
        let part = Part {
            name: Some(tool.name.to_owned()),
            server: tool.server().map(str::to_owned),
            ..Part::exact(PartKind::ToolDefinition, tool.place.clone(), 0)
        };
        if tool.kind == ToolKind::Server {
            return self.unbounded(part, 0);
        }
        let definition = definition(tool);
        let text = match self.frame.form {
            "spec" => spaced(&spec(tool)),
            "list" => spaced(&wrapped(definition)),
            _ => definition.to_string(),
        };
        self.text(part, &text, 0, 1);
    }

    fn message(&mut self, message: &Message<'_>) {
        let owner = |kind: PartKind, place: &str| Part {
            role: Some(message.role),
            message: message.listed.then_some(message.index),
            ..Part::exact(kind, place, 0)
        };
        let said = match message.role {
            Role::System | Role::Developer => PartKind::System,
            Role::User => PartKind::User,
            Role::Assistant => PartKind::Assistant,
            Role::Tool => PartKind::ToolResult,
        };
        for Item { place, raw, body } in &message.items {
            match body {
                ItemBody::Text(text) => self.text(owner(said, place), text, 0, 0),
                ItemBody::Reasoning(reasoning) => self.reasoning(owner(PartKind::Reasoning, place), reasoning),
                ItemBody::ToolCall(call) => self.call(owner(PartKind::ToolCall, place), call),
                ItemBody::ToolResult(result) => self.result(&owner(PartKind::ToolResult, place), result),
                ItemBody::Image(media) => self.image(owner(PartKind::Image, place), media),
                ItemBody::File(_) | ItemBody::Audio(_) | ItemBody::Video(_) => self.unbounded(owner(PartKind::File, place), 0),
                ItemBody::Other(_) => {
                    let text = spaced(raw);
                    let size = self.tokenizer.count(&text) as u64;
                    self.text(Part { confidence: Confidence::Estimate, ..owner(said, place) }, &text, 0, size.saturating_add(50));
                }
            }
        }
    }

    /// Replayed reasoning: what the response that made it reported, else its text, else a share of its base64.
    fn reasoning(&mut self, part: Part, reasoning: &Reasoning<'_>) {
        match (reasoning.signature, reasoning.text) {
            (Some(signature), _) if self.context.memory.recall(signature).is_some() => {
                let tokens = self.context.memory.recall(signature).unwrap_or_default();
                self.push(part, tokens, 10);
            }
            (Some(signature), _) if self.frame.reasoning_milli > 0 => {
                let tokens = (signature.len() as u64).saturating_mul(self.frame.reasoning_milli) / 1000;
                self.push(part, tokens, (tokens / 6).saturating_add(12));
            }
            (_, Some(text)) => {
                let size = self.tokenizer.count(text) as u64;
                self.text(Part { confidence: Confidence::Estimate, ..part }, text, 0, size);
            }
            _ => self.push(Part { confidence: Confidence::Estimate, ..part }, 0, 500),
        }
    }

    fn call(&mut self, part: Part, call: &ToolCall<'_>) {
        let arguments = match call.arguments {
            Arguments::Text(text) => text.to_owned(),
            Arguments::Json(value) => spaced(value),
            Arguments::None => String::new(),
        };
        let text = format!("{}{arguments}", call.name);
        self.text(Part { name: Some(call.name.to_owned()), ..part }, &text, self.frame.call, self.frame.call_spread);
    }

    fn result(&mut self, owner: &Part, result: &ToolResult<'_>) {
        for content in &result.content {
            let part = |kind: PartKind| Part { kind, place: content.place.clone(), name: result.name.map(str::to_owned), ..owner.clone() };
            match &content.body {
                ToolContentBody::Text(text) => self.text(part(PartKind::ToolResult), text, 0, 1),
                ToolContentBody::Json(json) => self.text(part(PartKind::ToolResult), &spaced(json), 0, 3),
                ToolContentBody::Image(media) => self.image(part(PartKind::Image), media),
                ToolContentBody::File(_) => self.unbounded(part(PartKind::File), 0),
                ToolContentBody::Other(_) => self.push(Part { confidence: Confidence::Estimate, ..part(PartKind::ToolResult) }, 50, 200),
            }
        }
    }

    fn image(&mut self, part: Part, media: &Media<'_>) {
        let part = Part { confidence: Confidence::Estimate, ..part };
        if self.frame.image > 0 {
            return self.push(part, self.frame.image, self.frame.image.saturating_mul(4));
        }
        match media.base64.and_then(media::dimensions) {
            Some((width, height)) if self.frame.renderer == "nova-2" => {
                let tokens = u64::from(width).saturating_mul(u64::from(height)) / PIXELS_PER_TOKEN;
                self.push(part, tokens, (tokens / 2).saturating_add(60));
            }
            _ => self.push(part, UNKNOWN_IMAGE, UNKNOWN_IMAGE),
        }
    }
}

/// The function object of a definition: name, description, parameters, whatever the format called them.
fn definition(tool: &Tool<'_>) -> Value {
    // Chat wraps it; Responses mixes it with a `type`.
    if let Some(inner) = tool.raw.get("function").filter(|inner| inner.is_object()) {
        return inner.clone();
    }
    let mut map = serde_json::Map::new();
    for (key, value) in tool.raw.as_object().into_iter().flatten() {
        if key != "type" {
            map.insert(key.clone(), value.clone());
        }
    }
    Value::Object(map)
}

fn wrapped(function: Value) -> Value {
    Value::Object([("type".to_owned(), Value::from("function")), ("function".to_owned(), function)].into_iter().collect())
}

/// A Converse `toolSpec`, made where the request came in another format.
fn spec(tool: &Tool<'_>) -> Value {
    if let Some(spec) = tool.raw.get("toolSpec") {
        return spec.clone();
    }
    let schema = tool.parameters.cloned().unwrap_or(Value::Null);
    serde_json::json!({"name": tool.name, "description": tool.description, "inputSchema": {"json": schema}})
}

/// Words of three and more capitals.
fn capital_words(text: &str) -> u64 {
    let mut words = 0;
    let mut run = 0_usize;
    let mut lower = false;
    for c in text.chars().chain([' ']) {
        if c.is_alphabetic() {
            run += 1;
            lower |= !c.is_uppercase();
        } else {
            words += u64::from(run >= 3 && !lower);
            (run, lower) = (0, false);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::{Count, CountOptions, Counter};
    use crate::format::{Format, Request};
    use serde_json::json;

    fn count(format: Format, model: &str, provider: Option<Provider>, body: &Value) -> Count {
        let request = Request::parse(body.to_string().as_bytes(), format).expect("valid JSON");
        let options = CountOptions { model: Some(model.to_owned()), provider, ..CountOptions::default() };
        Counter::new().count(&request, &options).expect("counted")
    }

    #[test]
    fn every_row_is_read() {
        let rows = TABLE.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(TABLE.lines().filter_map(row).count(), rows);
    }

    #[test]
    fn nova_text_has_no_frame_and_three_a_further_message() {
        let one = json!({"messages": [{"role": "user", "content": [{"text": "Say hello"}]}]});
        assert_eq!(count(Format::Converse, "us.amazon.nova-micro-v1:0", None, &one).breakdown.total(), 2);
        let three = json!({"messages": [{"role": "user", "content": [{"text": "Say hello"}]}, {"role": "assistant", "content": [{"text": "hello"}]}, {"role": "user", "content": [{"text": "Say hello"}]}]});
        assert_eq!(count(Format::Converse, "amazon.nova-micro-v1:0", None, &three).breakdown.total(), 2 + 1 + 2 + 6);
        assert_eq!(count(Format::Converse, "amazon.nova-2-lite-v1:0", None, &one).breakdown.total(), 48);
    }

    #[test]
    fn capitals_cost_nova_more() {
        assert_eq!(capital_words("YOU ARE a B NATO-Member 12 ÄÖÜ"), 4);
        let shout = json!({"messages": [{"role": "user", "content": [{"text": "YOU MUST WRITE THIS TEXT NOW ".repeat(10)}]}]});
        let total = count(Format::Converse, "amazon.nova-lite-v1:0", None, &shout).breakdown.total();
        assert!(total > Tokenizer::by_name("o200k_base").unwrap().count(&"YOU MUST WRITE THIS TEXT NOW ".repeat(10)) as u64);
    }

    #[test]
    fn grok_hides_text_that_azure_does_not_bill() {
        let body = json!({"messages": [{"role": "system", "content": "Brief"}, {"role": "user", "content": "Say hello"}]});
        let own = count(Format::Chat, "grok-4.3", None, &body).breakdown;
        assert_eq!(own.total(), 192 + 2 + 3);
        let azure = count(Format::Chat, "grok-4-1-fast-non-reasoning", Some(Provider::Azure), &body).breakdown;
        assert_eq!(azure.total(), 3);
        assert!(own.bound().is_some_and(|bound| bound < 10));
    }

    #[test]
    fn replayed_reasoning_is_remembered_or_judged_by_its_length() {
        let body = json!({"model": "grok-4.3", "input": [{"role": "user", "content": "hi"}, {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "A".repeat(1000)}, {"role": "user", "content": "more"}]});
        let request = Request::parse(body.to_string().as_bytes(), Format::Responses).expect("valid JSON");
        let plain = Counter::new().count(&request, &CountOptions::default()).expect("counted").breakdown;
        let mut memory = crate::count::ReasoningMemory::default();
        memory.remember(&"A".repeat(1000), 150);
        let options = CountOptions { memory: std::sync::Arc::new(memory), ..CountOptions::default() };
        let known = Counter::new().count(&request, &options).expect("counted").breakdown;
        assert_eq!(plain.total() - known.total(), 168 - 150);
        assert!(known.bound() < plain.bound());
    }

    #[test]
    fn documents_are_unbounded() {
        let body =
            json!({"messages": [{"role": "user", "content": [{"document": {"format": "pdf", "name": "d", "source": {"bytes": "AA=="}}}]}]});
        assert_eq!(count(Format::Converse, "amazon.nova-lite-v1:0", None, &body).breakdown.bound(), None);
    }
}
