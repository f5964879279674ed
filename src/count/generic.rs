//! A fallback for chat-shaped models whose prompt layout nobody has published: an estimate with a wide, honest bound.
//!
//! Called by the dispatch for every renderer name that no family owns. Counts all visible text with the profile's
//! vocabulary (or a common one in its place), a few tokens of framing a message, and tools as their JSON. Never exact.

use super::openai::text_of_arguments;
use super::render::RenderContext;
use super::{Breakdown, Confidence, Part, PartKind};
use crate::error::Result;
use crate::format::{ItemBody, Message, ResponseFormat, Role, Tool, ToolContentBody, ToolKind};
use crate::tokenizer::Tokenizer;

/// Vocabulary that stands in where the profile's own is absent.
const STAND_IN: &str = "o200k_base";
/// Framing of a message in common templates: two to six markers.
const FRAME: u64 = 4;
/// Vocabularies differ from the stand-in by up to a third on ordinary text.
const TEXT_BOUND_PERCENT: u64 = 35;
/// A picture of unknown price: what hosts charge lies between some 60 and some 1,500 tokens.
const PICTURE: (u64, u64) = (780, 780);

pub(super) fn render(context: &RenderContext<'_>) -> Result<Breakdown> {
    let tokenizer = (context.tokenizer)(&context.profile.tokenizer).or_else(|_| (context.tokenizer)(STAND_IN))?;
    let mut sheet = Guess { tokenizer, out: Breakdown::default() };
    let conversation = context.conversation;
    for tool in &conversation.tools {
        let part = named(Part::exact(PartKind::ToolDefinition, tool.place.as_str(), 0), tool.name);
        match tool.kind {
            ToolKind::Function => sheet.text(part, &tool.raw.to_string(), 4),
            ToolKind::BuiltIn | ToolKind::Server => sheet.unknown(part),
        }
    }
    if let ResponseFormat::JsonSchema { schema, .. } = conversation.response_format {
        sheet.text(Part::exact(PartKind::ResponseFormat, "", 0), &schema.to_string(), 8);
    }
    for message in &conversation.messages {
        sheet.message(message);
    }
    for unbounded in &conversation.unbounded {
        sheet.unknown(Part::exact(PartKind::Overhead, unbounded.place.as_str(), 0));
    }
    sheet.rough(Part::exact(PartKind::Overhead, "", 4), 30 + if conversation.tools.is_empty() { 0 } else { 400 });
    Ok(sheet.out)
}

struct Guess {
    tokenizer: Tokenizer,
    out: Breakdown,
}

impl Guess {
    fn rough(&mut self, part: Part, bound: u64) {
        self.out.push(Part { confidence: Confidence::Estimate, bound: Some(bound), ..part });
    }

    fn text(&mut self, part: Part, text: &str, extra: u64) {
        let tokens = self.tokenizer.count(text) as u64;
        self.rough(Part { tokens, ..part }, extra + tokens * TEXT_BOUND_PERCENT / 100);
    }

    fn unknown(&mut self, part: Part) {
        self.out.push(Part { confidence: Confidence::Unbounded, bound: None, ..part });
    }

    fn message(&mut self, message: &Message<'_>) {
        let owned = |kind, place: &str| Part { role: Some(message.role), message: Some(message.index), ..Part::exact(kind, place, 0) };
        self.rough(Part { tokens: FRAME, ..owned(PartKind::Overhead, &message.place) }, FRAME);
        let kind = match message.role {
            Role::System | Role::Developer => PartKind::System,
            Role::Assistant => PartKind::Assistant,
            _ => PartKind::User,
        };
        for item in &message.items {
            match &item.body {
                ItemBody::Text(text) => self.text(owned(kind, &item.place), text, 1),
                ItemBody::Reasoning(reasoning) => {
                    // Whether a host replays reasoning isn't known: none of it to all of it.
                    let all = self.tokenizer.count(reasoning.text.unwrap_or_default()) as u64
                        + reasoning.signature.map_or(0, |s| s.len() as u64 / 6);
                    self.rough(Part { tokens: all / 2, ..owned(PartKind::Reasoning, &item.place) }, all.div_ceil(2) + all / 4);
                }
                ItemBody::ToolCall(call) => {
                    let text = format!("{} {}", call.name, text_of_arguments(call));
                    self.text(named(owned(PartKind::ToolCall, &item.place), call.name), &text, 30);
                }
                ItemBody::ToolResult(result) => {
                    for content in &result.content {
                        match &content.body {
                            ToolContentBody::Text(text) => self.text(owned(PartKind::ToolResult, &content.place), text, 10),
                            ToolContentBody::Json(value) => self.text(owned(PartKind::ToolResult, &content.place), &value.to_string(), 10),
                            ToolContentBody::Image(_) => {
                                self.rough(Part { tokens: PICTURE.0, ..owned(PartKind::Image, &content.place) }, PICTURE.1);
                            }
                            ToolContentBody::File(_) | ToolContentBody::Other(_) => self.unknown(owned(PartKind::File, &content.place)),
                        }
                    }
                }
                ItemBody::Image(_) => self.rough(Part { tokens: PICTURE.0, ..owned(PartKind::Image, &item.place) }, PICTURE.1),
                ItemBody::File(_) | ItemBody::Audio(_) | ItemBody::Video(_) => self.unknown(owned(PartKind::File, &item.place)),
                ItemBody::Other(_) => self.unknown(owned(PartKind::Overhead, &item.place)),
            }
        }
    }
}

fn named(part: Part, name: &str) -> Part {
    Part { name: Some(name.to_owned()), server: Tool::server_of(name).map(str::to_owned), ..part }
}

#[cfg(test)]
mod tests {
    use crate::{CountOptions, Counter, Format, Profile, Request};
    use std::sync::Arc;

    #[test]
    fn is_an_estimate_whose_bound_covers_other_layouts() {
        let body = br#"{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Good morning, how are you?"}]}"#;
        let request = Request::parse(body, Format::Chat).unwrap();
        let profile = Profile { tokenizer: "o200k_base".into(), renderer: "generic".into(), ..Profile::default() };
        let options = CountOptions { profile: Some(Arc::new(profile)), ..CountOptions::default() };
        let count = Counter::new().count(&request, &options).unwrap();
        assert_eq!(count.breakdown.confidence(), crate::Confidence::Estimate);
        // A bare template bills 3 + 7 words and some markers; a wordy one adds a system text of its own.
        let (total, bound) = (count.breakdown.total(), count.breakdown.bound().unwrap());
        assert!(total > 10 && total < 40 && bound > 30, "{total} ± {bound}");
    }
}
