//! Renderer family of Google's Gemini models.
//!
//! Two counting modes, by host more than by model: Vertex (and every host for 1.5 and 2.0) bills the sum of the
//! strings in the body; AI Studio bills 2.5 and later by the prompt as the model reads it. Called by the
//! dispatch in [`super::render`]; reads the view alone, so that a gateway's chat body takes the same path.
//! Without a hint for the host both modes are counted, and the bound covers the one not chosen.

mod calls;
mod declarations;
mod duration;
mod family;
mod media;
mod schema;
mod signature;
mod text;
mod values;

use super::render::RenderContext;
use super::{Breakdown, Confidence, Part, PartKind, TextMemory};
use crate::error::Result;
use crate::format::{Format, Item, ItemBody, Message, ResponseFormat, Role, ToolKind};
use family::{Generation, Mode};
use std::collections::HashMap;
use text::{Measure, Weight};

/// Most tokens of thoughts that a gateway was seen to give back for one call.
const HIDDEN_THOUGHTS: u64 = 80;

pub(super) fn render(context: &RenderContext<'_>) -> Result<Breakdown> {
    let generation = Generation::of(context.profile);
    // Both modes weigh the same texts: each is weighed once.
    let own = TextMemory::default();
    let tokenizer = |name: &str| {
        let tokenizer = (context.tokenizer)(name)?;
        Ok(if context.known.is_some() { tokenizer } else { own.tokenizer(&tokenizer) })
    };
    let measure = Measure::new(&tokenizer, generation, (context.known.unwrap_or(&own), context.known.is_some()))?;
    let names = calls::names(&context.conversation.messages);
    let hint = family::mode(generation, context.provider);
    let render = |mode| Renderer { context, generation, mode, measure: &measure, names: &names, out: Breakdown::default() }.run();
    let mut breakdown = render(hint.unwrap_or(Mode::Prompt))?;
    if hint.is_none() {
        let other = render(Mode::Strings)?;
        let apart = breakdown.total().abs_diff(other.total());
        if apart > 0 {
            // Which of Google's hosts answers is unknown: the bound reaches to the other one's count.
            let mut part = Part::exact(PartKind::Overhead, "", 0);
            (part.confidence, part.bound) = (Confidence::Estimate, Some(apart));
            breakdown.push(part);
        }
    }
    Ok(breakdown)
}

/// One count in one mode.
struct Renderer<'a> {
    context: &'a RenderContext<'a>,
    generation: Generation,
    mode: Mode,
    measure: &'a Measure<'a>,
    /// Names of calls by id.
    names: &'a HashMap<&'a str, &'a str>,
    out: Breakdown,
}

impl Renderer<'_> {
    fn run(mut self) -> Result<Breakdown> {
        let conversation = self.context.conversation;
        self.tools()?;
        self.response_format();
        let turn = signature::current_turn(&conversation.messages);
        let attachments = media::attachments(&conversation.messages);
        for (at, message) in conversation.messages.iter().enumerate() {
            self.framing(message);
            for item in &message.items {
                self.item(message, item, at >= turn, attachments);
            }
        }
        for why in &conversation.unbounded {
            let mut part = Part::exact(PartKind::Overhead, why.place.clone(), 0);
            (part.confidence, part.bound) = (Confidence::Unbounded, None);
            self.out.push(part);
        }
        Ok(self.out)
    }

    /// Declarations, each as its mode renders it; tools that the provider runs are named in the view's unbounded list.
    fn tools(&mut self) -> Result<()> {
        for tool in self.context.conversation.tools.iter().filter(|tool| tool.kind == ToolKind::Function) {
            let weight = declarations::weigh(tool, self.context.conversation.format, self.generation, self.mode, self.measure)?;
            let mut part = Part::exact(PartKind::ToolDefinition, tool.place.clone(), 0);
            part.name = Some(tool.name.to_owned());
            part.server = tool.server().map(str::to_owned);
            self.push(part, weight);
        }
        Ok(())
    }

    /// Structured output: only the older string-counting hosts bill `responseSchema`, by its strings.
    fn response_format(&mut self) {
        let ResponseFormat::JsonSchema { schema, .. } = self.context.conversation.response_format else { return };
        if self.mode != Mode::Strings || self.context.conversation.format != Format::Gemini {
            return;
        }
        let config = ["generationConfig", "generation_config"].iter().find_map(|key| self.context.conversation.body.get(*key));
        let billed = config.is_some_and(|c| c.get("responseSchema").or_else(|| c.get("response_schema")).is_some_and(|v| !v.is_null()));
        if billed {
            let weight = schema::strings(schema, true, self.measure);
            self.push(Part::exact(PartKind::ResponseFormat, "/generationConfig", 0), weight);
        }
    }

    /// One token for each content where the prompt itself is counted; the system's only when it names a role.
    fn framing(&mut self, message: &Message<'_>) {
        let system = matches!(message.role, Role::System | Role::Developer);
        if self.mode == Mode::Strings {
            if system && message.listed && message.index > 0 {
                // A gateway joins system messages by a blank line.
                self.push(owned(Part::exact(PartKind::Overhead, message.place.clone(), 0), message), Weight::exact(1));
            }
            return;
        }
        let framed = if system { message.listed || message.raw.get("role").is_some_and(|r| !r.is_null()) } else { true };
        if framed {
            let part = Part::exact(PartKind::Overhead, message.place.clone(), 0);
            self.push(owned(part, message), Weight::exact(1));
        }
    }

    fn item(&mut self, message: &Message<'_>, item: &Item<'_>, current: bool, attachments: usize) {
        let kind = match message.role {
            Role::System | Role::Developer => PartKind::System,
            Role::User | Role::Tool => PartKind::User,
            Role::Assistant => PartKind::Assistant,
        };
        let part = |kind| owned(Part::exact(kind, item.place.clone(), 0), message);
        match &item.body {
            ItemBody::Text(text) => {
                let weight = self.measure.text(text);
                self.push(part(kind), weight);
            }
            ItemBody::Reasoning(reasoning) => {
                // Readable thoughts that are replayed count as what they are, text, in every turn.
                let mut weight = reasoning.text.map_or(Weight::exact(0), |text| self.measure.text(text));
                weight += reasoning.signature.map_or(Weight::exact(0), |s| self.signature(s, current));
                self.push(part(PartKind::Reasoning), weight);
            }
            ItemBody::ToolCall(call) => {
                let weight = calls::call(call, self.generation, self.mode, self.measure);
                let named = Part { name: Some(call.name.to_owned()), ..part(PartKind::ToolCall) };
                self.push(named, weight);
                let gateway = self.context.conversation.format != Format::Gemini;
                if let Some(signature) = call.signature {
                    let weight = self.signature(signature, current);
                    self.push(part(PartKind::Reasoning), weight);
                } else if gateway && current && self.generation > Generation::Two {
                    // A gateway may give back thoughts that it kept for the call (two of six recorded turns).
                    self.push(part(PartKind::Reasoning), Weight::estimate(0, HIDDEN_THOUGHTS));
                }
            }
            ItemBody::ToolResult(result) => {
                let name = result.name.or_else(|| self.names.get(result.call_id?).copied());
                let weight =
                    calls::result(result, name.unwrap_or_default(), self.context.provider, (self.generation, self.mode), self.measure);
                let named = Part { name: name.map(str::to_owned), ..part(PartKind::ToolResult) };
                self.push(named, weight);
                for (place, kind, weight) in media::of_result(result, self.generation, self.mode, attachments) {
                    self.push(owned(Part::exact(kind, place, 0), message), weight);
                }
            }
            ItemBody::Image(file) | ItemBody::File(file) | ItemBody::Audio(file) | ItemBody::Video(file) => {
                let (kind, weight) = match media::plain_text(file) {
                    Some(text) => (PartKind::File, self.measure.text(&text)),
                    None => media::weigh(&item.body, file, self.generation, self.mode, attachments),
                };
                self.push(part(kind), weight);
            }
            // Code that the provider ran and what it gave back: billed by rules of its own.
            ItemBody::Other(_) => self.push(part(PartKind::Overhead), Weight::unbounded(0)),
        }
    }

    fn signature(&self, signature: &str, current: bool) -> Weight {
        signature::weigh(signature, current, self.generation, self.mode, self.context)
    }

    fn push(&mut self, part: Part, weight: Weight) {
        self.out.push(Part { tokens: weight.tokens, confidence: weight.confidence, bound: weight.bound, ..part });
    }
}

/// `part` with the message that owns it.
fn owned(mut part: Part, message: &Message<'_>) -> Part {
    part.role = Some(message.role);
    part.message = message.listed.then_some(message.index);
    part
}

#[cfg(test)]
mod tests;
