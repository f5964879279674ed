//! Claude, in whichever format and behind whichever host: what a request weighs.
//!
//! Recovered frame (recorded bills to 2026-11-30): 4 + 3 a turn + hidden tool prompt + 30 a call + 5 an argument + 30 a message
//! of several calls + thinking + pictures + output schema, and the text of system, messages, tools, calls and results.
//! The frame is known; the text is priced by kind ([`text`]), so every count here is calibrated at best. Each part carries
//! its own share and bound; shares are rounded so that they sum to the rounded total (invariant 1).

mod image;
mod models;
mod prompt;
mod text;

use super::render::RenderContext;
use super::{Breakdown, Confidence, Part, PartKind};
use crate::error::{Error, Kind, Result};
use crate::format::{
    Format, Item, ItemBody, Media, Message, Place, Reasoning, ResponseFormat, Role, Tool, ToolCall, ToolContent, ToolContentBody, ToolKind,
    ToolResult,
};
use crate::json_text::{indented, spaced};
use crate::models::{Models, Provider};
use crate::tokenizer::Tokenizer;
use base64::Engine as _;
use models::Habits;
use prompt::Thinking;
use serde_json::Value;
pub use text::{ClaudePrices, KIND_NAMES, KINDS, Kinds};

/// Start of the prompt and the reply's own marker.
const PROMPT: u64 = 4;
const TURN: u64 = 3;
/// A user turn that the provider puts before an assistant's first one.
const USER_BEFORE_ASSISTANT: u64 = 11;
/// A call with its result; an argument; a message that holds several calls.
const CALL: u64 = 30;
const ARGUMENT: u64 = 5;
const SEVERAL_CALLS: u64 = 30;
/// Beside an output schema's own text.
const SCHEMA: u64 = 97;
/// Beside the pictures of a tool result that holds some.
const PICTURES_IN_RESULT: u64 = 10;
/// Beside a text document's own text.
const TEXT_DOCUMENT: u64 = 38;
/// Beside a deferred definition that a reference loads.
const LOADED_TOOL: u64 = 10;
/// A PDF of one or two pages, seen between 650 and 4,230: what can be seen of it is nothing.
const PDF: u64 = 1600;
/// Instructions on citing, once a document asks for it (two bills of haiku-4-5, 2026-11-30: 558 and 560).
const CITATIONS: u64 = 559;
/// A task budget named in the body.
const TASK_BUDGET: u64 = 35;

/// Definitions of tools that the host runs and the provider describes: type prefix, tokens, how far off.
/// computer and memory from bills (2026-11-30); the others from the maker's documentation, not confirmed.
const BUILT_IN: [(&str, u64, f64); 4] =
    [("bash_", 245, 60.0), ("text_editor_", 700, 200.0), ("computer_", 1323, 25.0), ("memory_", 1069, 25.0)];

/// One part before it is rounded.
struct Piece {
    part: Part,
    kinds: Kinds,
    fixed: u64,
    spread: f64,
}

/// A request taken apart: what of it is text of which kind, and what is fixed.
struct Weighing<'a> {
    context: &'a RenderContext<'a>,
    habits: &'static Habits,
    cl100k: Tokenizer,
    pieces: Vec<Piece>,
}

/// What the fit needs of a request: see `examples/fit_claude.rs`.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct ClaudeDesign {
    /// Tokens of the frame.
    pub fixed: u64,
    /// Tokens of each kind in all text.
    pub kinds: Kinds,
    /// How far off the frame may be.
    pub spread: f64,
    /// The renderer of the model's generation.
    pub renderer: String,
    /// Every part can be bounded by the frame and the text.
    pub settled: bool,
}

pub(super) fn render(context: &RenderContext<'_>) -> Result<Breakdown> {
    let prices = ClaudePrices::of(&context.profile.renderer)?;
    let pieces = weigh(context)?;
    Ok(rounded(pieces, prices, context.conversation.messages.is_empty()))
}

/// Takes a request apart for the fit.
///
/// # Errors
/// As a count of it would.
#[doc(hidden)]
pub fn claude_design(
    request: &crate::format::Request,
    model: Option<&str>,
    provider: Option<&Provider>,
    models: &Models,
) -> Result<ClaudeDesign> {
    let conversation = request.conversation()?;
    let name = model.or(conversation.model).ok_or_else(|| Error::new(Kind::InvalidInput, "no model is named"))?;
    let profile = models.find(name, provider)?;
    let pieces = weigh(&RenderContext {
        conversation: &conversation,
        store: None,
        as_of: None,
        profile: &profile,
        provider,
        memory: &super::ReasoningMemory::default(),
        stream: None,
        known: None,
        tokenizer: &Tokenizer::by_name,
    })?;
    let mut design = ClaudeDesign { fixed: 0, kinds: Kinds::default(), spread: 0.0, renderer: profile.renderer.clone(), settled: true };
    for piece in &pieces {
        design.fixed = design.fixed.saturating_add(piece.fixed);
        design.kinds += piece.kinds;
        design.spread += piece.spread;
        design.settled &= piece.part.confidence == Confidence::Calibrated;
    }
    Ok(design)
}

/// Takes a request apart by the model's habits.
fn weigh(context: &RenderContext<'_>) -> Result<Vec<Piece>> {
    let habits = Habits::of(&context.profile.id)
        .or_else(|| Habits::of("claude"))
        .ok_or_else(|| Error::new(Kind::Internal, "the table of Claude models can't be read"))?;
    let mut weighing = Weighing { context, habits, cl100k: (context.tokenizer)("cl100k_base")?, pieces: Vec::new() };
    weighing.all();
    Ok(weighing.pieces)
}

/// Rounds the running sum, so that the parts sum to the rounded whole.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "sums of counts, far below 2^52")]
fn rounded(pieces: Vec<Piece>, prices: &ClaudePrices, tools_alone: bool) -> Breakdown {
    let mut breakdown = Breakdown::default();
    let (mut sum, mut given, mut bound) = (0.0_f64, 0_u64, if tools_alone { 0.0 } else { prices.floor });
    for mut piece in pieces {
        let text = prices.tokens(&piece.kinds);
        let spread = piece.spread + prices.spread(&piece.kinds);
        sum += piece.fixed as f64 + text;
        bound += spread;
        piece.part.tokens = (sum.round() as u64).saturating_sub(given);
        given += piece.part.tokens;
        piece.part.bound = (piece.part.confidence != Confidence::Unbounded).then_some((spread + 1.0).ceil() as u64);
        breakdown.push(piece.part);
    }
    breakdown.tighten(bound.ceil() as u64);
    breakdown
}

impl<'a> Weighing<'a> {
    fn all(&mut self) {
        let conversation = self.context.conversation;
        self.overhead();
        for message in &conversation.messages {
            if !message.listed {
                self.message(message, 0, usize::MAX);
            }
        }
        for tool in &conversation.tools {
            self.tool(tool);
        }
        let said = prompt::turns(conversation).last_said;
        for (at, message) in conversation.messages.iter().enumerate() {
            if message.listed {
                self.message(message, at, said);
            }
        }
        self.response_format();
        for unbounded in &conversation.unbounded {
            self.push(Part { confidence: Confidence::Unbounded, ..part(PartKind::Overhead, unbounded.place.clone()) }, "", 0, 0.0);
        }
    }

    fn push(&mut self, part: Part, text: &str, fixed: u64, spread: f64) {
        let sort = || Kinds::of(text, &self.cl100k);
        let kinds = match self.context.known {
            Some(known) if !text.is_empty() => known.kinds(text, sort),
            _ => sort(),
        };
        self.pieces.push(Piece { part, kinds, fixed, spread });
    }

    /// Turns, hidden tool prompt, thinking.
    fn overhead(&mut self) {
        let conversation = self.context.conversation;
        let turns = prompt::turns(conversation);
        if !conversation.messages.is_empty() {
            let first = if turns.assistant_first { USER_BEFORE_ASSISTANT } else { 0 };
            let tokens = PROMPT.saturating_add(TURN.saturating_mul(turns.count)).saturating_add(first);
            self.push(part(PartKind::Overhead, ""), "", tokens, 0.0);
        }
        if conversation.tools.iter().any(|tool| !tool.deferred && tool.kind != ToolKind::Server) && !conversation.messages.is_empty() {
            let tokens = self.habits.hidden(conversation.tool_choice);
            self.push(part(PartKind::Overhead, "/tools"), "", tokens, self.habits.spread);
        }
        if self.habits.deferred > 0 && conversation.tools.iter().any(|tool| tool.deferred) {
            self.push(part(PartKind::Overhead, "/tools"), "", self.habits.deferred, 40.0);
        }
        let thinking = match prompt::thinking(conversation) {
            Thinking::Enabled => self.habits.thinking_enabled,
            Thinking::Adaptive if conversation.tools.is_empty() => self.habits.thinking_adaptive,
            Thinking::Off | Thinking::Adaptive => 0,
        };
        if thinking > 0 {
            // One gateway sends neither the switch nor the old thinking once a call has been made.
            let replayed = !conversation_is_native(self.context) && turns.count > 1;
            self.push(part(PartKind::Overhead, "/thinking"), "", thinking, if replayed { 40.0 } else { 2.0 });
        }
        if self.cites() {
            self.push(Part { confidence: Confidence::Estimate, ..part(PartKind::Overhead, "") }, "", CITATIONS, 60.0);
        }
        if conversation.body.get("output_config").is_some_and(|config| config.get("task_budget").is_some()) {
            self.push(part(PartKind::Overhead, "/output_config/task_budget"), "", TASK_BUDGET, 8.0);
        }
    }

    fn tool(&mut self, tool: &Tool<'_>) {
        if tool.deferred {
            return;
        }
        let part = Part {
            name: Some(tool.name.to_owned()),
            server: tool.server().map(str::to_owned),
            ..part(PartKind::ToolDefinition, tool.place.clone())
        };
        match tool.kind {
            ToolKind::Function => self.push(part, &prompt::tool(tool), 0, 0.0),
            ToolKind::BuiltIn => {
                let known = BUILT_IN.iter().find(|(prefix, ..)| tool.name.starts_with(prefix));
                let (tokens, spread) = known.map_or((700, 700.0), |&(_, tokens, spread)| (tokens, spread));
                self.push(Part { confidence: Confidence::Estimate, ..part }, "", tokens, spread);
            }
            ToolKind::Server => self.push(Part { confidence: Confidence::Unbounded, ..part }, "", 0, 0.0),
        }
    }

    fn message(&mut self, message: &Message<'a>, at: usize, last_said: usize) {
        let of = |kind: PartKind, place: &Place| Part {
            role: Some(message.role),
            message: message.listed.then_some(message.index),
            ..part(kind, place.clone())
        };
        let calls = message.items.iter().filter(|item| matches!(item.body, ItemBody::ToolCall(_))).count();
        if calls > 1 {
            self.push(of(PartKind::Overhead, &message.place), "", SEVERAL_CALLS, 0.0);
        }
        for item in &message.items {
            let said = of(kind_of(message.role), &item.place);
            match &item.body {
                ItemBody::Text(text) => self.push(said, text, 0, 0.0),
                ItemBody::Reasoning(reasoning) => {
                    // Chat formats can carry reasoning that no provider signed: it can't be replayed.
                    let signed = reasoning.signature.is_some() || conversation_is_native(self.context);
                    if signed && (self.habits.keeps_thinking || at > last_said) {
                        self.reasoning(of(PartKind::Reasoning, &item.place), reasoning);
                    }
                }
                ItemBody::ToolCall(call) => self.call(of(PartKind::ToolCall, &item.place), call),
                ItemBody::ToolResult(result) => self.result(&of(PartKind::ToolResult, &item.place), result),
                ItemBody::Image(media) => self.image(of(PartKind::Image, &item.place), media),
                ItemBody::File(media) => self.document(of(PartKind::File, &item.place), media, Some(item)),
                ItemBody::Audio(_) | ItemBody::Video(_) => {
                    self.push(Part { confidence: Confidence::Unbounded, ..of(PartKind::File, &item.place) }, "", 0, 0.0);
                }
                ItemBody::Other(_) => self.other(said, item.raw),
            }
        }
    }

    /// Thinking that stays in the prompt. Hidden thinking costs what the response that made it reported, else a share of its bytes.
    fn reasoning(&mut self, part: Part, reasoning: &Reasoning<'_>) {
        match (reasoning.text, reasoning.signature) {
            (Some(text), _) if !text.is_empty() => self.push(part, text, 0, 4.0),
            (_, Some(signature)) => {
                if let Some(tokens) = self.context.memory.recall(signature) {
                    self.push(part, "", tokens, 8.0);
                } else {
                    let guess = super::media::byte_len(signature) / 5;
                    self.push(Part { confidence: Confidence::Estimate, ..part }, "", guess, as_spread(guess) + 20.0);
                }
            }
            _ => {}
        }
    }

    fn call(&mut self, part: Part, call: &ToolCall<'_>) {
        let (text, arguments) = prompt::call(call);
        let part = Part { name: Some(call.name.to_owned()), ..part };
        self.push(part, &text, CALL.saturating_add(ARGUMENT.saturating_mul(arguments)), 2.0);
    }

    fn result(&mut self, owner: &Part, result: &ToolResult<'_>) {
        let part =
            |place: &Place, kind: PartKind| Part { name: result.name.map(str::to_owned), place: place.clone(), kind, ..owner.clone() };
        if result.content.iter().any(|piece| matches!(piece.body, ToolContentBody::Image(_))) {
            self.push(owner.clone(), "", PICTURES_IN_RESULT, 10.0);
        }
        for ToolContent { place, body } in &result.content {
            match body {
                ToolContentBody::Text(text) => self.push(part(place, PartKind::ToolResult), text, 0, 0.0),
                ToolContentBody::Json(json) => match json.get("tool_name").and_then(Value::as_str) {
                    Some(name) if json.get("type").and_then(Value::as_str) == Some("tool_reference") => self.loaded(owner, place, name),
                    _ => self.push(part(place, PartKind::ToolResult), &spaced(json), 0, 0.0),
                },
                ToolContentBody::Image(media) => self.image(part(place, PartKind::Image), media),
                ToolContentBody::File(media) => self.document(part(place, PartKind::File), media, None),
                ToolContentBody::Other(_) => {
                    self.push(Part { confidence: Confidence::Estimate, ..part(place, PartKind::ToolResult) }, "", 50, 200.0);
                }
            }
        }
    }

    /// A deferred definition enters the prompt where a result refers to it.
    fn loaded(&mut self, owner: &Part, place: &Place, name: &str) {
        let definition = self.context.conversation.tools.iter().find(|tool| tool.deferred && tool.name == name).map(prompt::tool);
        let part = Part { name: Some(name.to_owned()), place: place.clone(), kind: PartKind::ToolDefinition, ..owner.clone() };
        self.push(part, &definition.unwrap_or_default(), LOADED_TOOL, 15.0);
    }

    fn image(&mut self, part: Part, media: &Media<'_>) {
        let (tokens, spread) = image::tokens(media, self.context.profile.image_rule.as_deref());
        let confidence = if media.base64.is_some() { Confidence::Calibrated } else { Confidence::Estimate };
        self.push(Part { confidence, ..part }, "", tokens, spread);
    }

    /// Whether any document of the conversation asks for citations.
    fn cites(&self) -> bool {
        let enabled = |raw: &Value| {
            raw.pointer("/citations/enabled").or_else(|| raw.pointer("/document/citations/enabled")) == Some(&Value::Bool(true))
        };
        self.context.conversation.messages.iter().flat_map(|message| &message.items).any(|item| enabled(item.raw))
    }

    /// Text documents cost their text; what a PDF's pages hold can't be seen in its bytes.
    fn document(&mut self, part: Part, media: &Media<'_>, item: Option<&Item<'_>>) {
        let plain = media.mime.is_some_and(|mime| mime.starts_with("text/"));
        let decoded = match (media.text, media.base64) {
            (Some(text), _) => Some(text.to_owned()),
            (None, Some(data)) if plain => decode(data),
            _ => item.and_then(|item| item.raw.pointer("/source/content")).filter(|content| content.is_array()).map(texts),
        };
        match decoded {
            Some(text) => self.push(Part { confidence: Confidence::Estimate, ..part }, &text, TEXT_DOCUMENT, 30.0),
            None => self.push(Part { confidence: Confidence::Unbounded, ..part }, "", PDF, 0.0),
        }
    }

    /// A block of an unknown kind: about its JSON.
    fn other(&mut self, part: Part, raw: &Value) {
        let text = spaced(raw);
        let spread = as_spread(self.cl100k.count(&text) as u64) + 50.0;
        self.push(Part { confidence: Confidence::Estimate, ..part }, &text, 0, spread);
    }

    fn response_format(&mut self) {
        let conversation = self.context.conversation;
        let ResponseFormat::JsonSchema { schema, .. } = conversation.response_format else { return };
        let (place, native) = match conversation.format {
            Format::Anthropic => ("/output_config/format", true),
            Format::Converse => ("/outputConfig/textFormat", true),
            _ => ("/response_format", false),
        };
        // Converse carries the schema as text.
        let parsed = schema.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let schema = parsed.as_ref().unwrap_or(schema);
        let part = part(PartKind::ResponseFormat, place);
        if native {
            self.push(part, &indented(schema), SCHEMA, 14.0);
        } else {
            // Gateways translate it: into the native field, or into a hidden tool (657 tokens at one of them).
            let tokens = SCHEMA.saturating_add(280);
            self.push(Part { confidence: Confidence::Estimate, ..part }, &indented(schema), tokens, 340.0);
        }
    }
}

/// The maker's own block format, in which thinking is sent as it came.
fn conversation_is_native(context: &RenderContext<'_>) -> bool {
    matches!(context.conversation.format, Format::Anthropic | Format::Converse)
}

/// A calibrated part without tokens yet.
fn part(kind: PartKind, place: impl Into<Place>) -> Part {
    Part { confidence: Confidence::Calibrated, ..Part::exact(kind, place, 0) }
}

fn kind_of(role: Role) -> PartKind {
    match role {
        Role::System | Role::Developer => PartKind::System,
        Role::User => PartKind::User,
        Role::Assistant => PartKind::Assistant,
        Role::Tool => PartKind::ToolResult,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a bound")]
fn as_spread(tokens: u64) -> f64 {
    tokens as f64
}

/// Base64 to text, if it is text.
fn decode(data: &str) -> Option<String> {
    base64::engine::general_purpose::STANDARD.decode(data).ok().and_then(|bytes| String::from_utf8(bytes).ok())
}

/// The text blocks of a document's content, joined.
fn texts(content: &Value) -> String {
    content.as_array().into_iter().flatten().filter_map(|block| block.get("text").and_then(Value::as_str)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
