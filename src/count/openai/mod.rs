//! OpenAI's own models: what the provider puts around a request, counted as it bills it.
//!
//! Called by the dispatch in [`super::render`]. The layout of each family is data ([`rules`]); this file walks the
//! view in prompt order and hands texts to the [`sheet`]. Pure: no clock, no cache (invariant 2). What the body
//! doesn't tell becomes a bounded or unbounded part, never a silent guess.

mod history;
mod images;
mod rules;
mod schema;
mod sheet;
mod structured;
mod tools;

pub(super) use history::arguments as text_of_arguments;

use super::render::RenderContext;
use super::{Breakdown, Confidence, Part, PartKind};
use crate::error::Result;
use crate::format::{Format, Message, ResponseFormat, Role, ToolChoice, ToolKind};
use crate::models::Provider;
use rules::{AnswerHeader, Family, Placement, Rules};
use sheet::{Piece, Sheet};

/// Tokens by which the first reasoning models' own text is known to vary.
const EARLY_REASONING_BOUND: u64 = 10;
/// What one host adds beside any tools: seen with one pair of tools alone (gpt-5.5, 5.6; November 2026).
const MANTLE_TOOLS: u64 = 6;
/// What a gateway's rewriting adds to each call with its result: two bills, November 2026.
const GATEWAY_CALL: u64 = 8;

pub(super) fn render(context: &RenderContext<'_>) -> Result<Breakdown> {
    let conversation = context.conversation;
    let tokenizer = (context.tokenizer)(&context.profile.tokenizer)?;
    let family = Family::of(&context.profile.renderer);
    let rules = rules_of(family, context);
    let mut sheet = Sheet::new(tokenizer);
    sheet.frame(rules.priming);

    let tools = tools::block(context, &rules, &mut sheet)?;
    let format = format_block(context, &rules, !tools.is_empty(), &mut sheet);
    let mut apart = Vec::new();
    let mut joined = Vec::new();
    for (pieces, placement, frame) in [(tools, rules.tools, 4), (format.pieces, format.placement, format.frame)] {
        if pieces.is_empty() {
            continue;
        }
        match placement {
            Placement::Joined => {
                if !joined.is_empty() {
                    joined.push(Piece::new(Part::exact(PartKind::Overhead, "", 0), "\n\n"));
                }
                joined.extend(pieces);
            }
            Placement::Apart => apart.push((pieces, frame)),
        }
    }
    for (pieces, frame) in apart {
        sheet.frame(frame);
        sheet.block(pieces);
    }
    let host = conversation.messages.iter().position(|m| matches!(m.role, Role::System | Role::Developer));
    if host.is_none() && !joined.is_empty() {
        sheet.frame(4);
        sheet.block(std::mem::take(&mut joined));
    }
    let mut history = history::History::new(context, &rules, family, format.answer_header);
    for (at, message) in conversation.messages.iter().enumerate() {
        let tail = if Some(at) == host { std::mem::take(&mut joined) } else { Vec::new() };
        history.message(at, message, tail, &mut sheet)?;
    }
    if rules.choice {
        choice(conversation.tool_choice, &mut sheet);
    }
    for unbounded in &conversation.unbounded {
        sheet.unknown(Part::exact(PartKind::Overhead, unbounded.place.as_str(), 0));
    }
    let mut out = sheet.finish();
    grade(family, context, &mut out);
    Ok(out)
}

/// The rules of a family, as this host applies them.
fn rules_of(family: Family, context: &RenderContext<'_>) -> Rules {
    let format = context.conversation.format;
    // Gateways that take Chat Completions but ask the provider through Responses: seen on bills of both.
    let by_responses = matches!(context.provider, Some(Provider::Other(slug)) if matches!(slug.as_str(), "openrouter" | "vercel"));
    let five = matches!(family, Family::Five | Family::FiveSix);
    if five && format != Format::Responses && by_responses && !context.conversation.tools.is_empty() {
        let openrouter = matches!(context.provider, Some(Provider::Other(slug)) if slug == "openrouter");
        return Rules { gateway_call: if openrouter { GATEWAY_CALL } else { 0 }, ..family.rules(Format::Responses) };
    }
    let rules = family.rules(format);
    let all_turns = context.conversation.body.get("reasoning").and_then(|r| r.get("context")).and_then(serde_json::Value::as_str);
    Rules { keeps_reasoning: rules.keeps_reasoning || all_turns == Some("all_turns"), ..rules }
}

/// Parts of a prompt whose layout or vocabulary is not known are no longer exact.
fn grade(family: Family, context: &RenderContext<'_>, out: &mut Breakdown) {
    if family == Family::EarlyReasoning {
        let part = Part::exact(PartKind::Overhead, "", 0);
        out.push(Part { confidence: Confidence::Calibrated, bound: Some(EARLY_REASONING_BOUND), ..part });
    }
    if context.provider == Some(&Provider::BedrockMantle) && has_functions(context) {
        let part = Part::exact(PartKind::Overhead, "/tools", MANTLE_TOOLS);
        out.push(Part { confidence: Confidence::Calibrated, bound: Some(MANTLE_TOOLS), ..part });
    }
    if context.profile.proxy {
        for part in out.parts_mut() {
            if part.confidence == Confidence::Exact && part.tokens > 0 {
                part.confidence = Confidence::Estimate;
                part.bound = Some(2 + part.tokens / 5);
            }
        }
    }
}

fn choice(choice: ToolChoice<'_>, sheet: &mut Sheet) {
    match choice {
        ToolChoice::None => sheet.frame(1),
        ToolChoice::Named(name) => {
            let named = sheet.n(&format!(" to=functions.{name}"));
            sheet.frame(4_i64.saturating_add_unsigned(named));
        }
        _ => {}
    }
}

/// The block of the answer's format, where it goes, and what the answer's header costs.
struct FormatBlock {
    pieces: Vec<Piece<'static>>,
    placement: Placement,
    frame: i64,
    answer_header: u64,
}

fn format_block(context: &RenderContext<'_>, rules: &Rules, with_tools: bool, sheet: &mut Sheet) -> FormatBlock {
    let none = FormatBlock { pieces: Vec::new(), placement: rules.schema, frame: 0, answer_header: 0 };
    let ResponseFormat::JsonSchema { name, description, schema } = context.conversation.response_format else { return none };
    let name = name.unwrap_or("response");
    let place = if context.conversation.format == Format::Responses { "/text/format" } else { "/response_format" };
    let answer_header = match rules.answer_header {
        AnswerHeader::WithoutTools if !with_tools => 2 + sheet.n(name),
        _ => 0,
    };
    sheet.frame(0_i64.saturating_add_unsigned(answer_header));
    FormatBlock {
        pieces: vec![Piece::new(Part::exact(PartKind::ResponseFormat, place, 0), structured::block(name, description, schema))],
        frame: 0_i64.saturating_add_unsigned(rules.schema_frame),
        answer_header,
        ..none
    }
}

/// Whether the host's tools include any that are shown to the model as text.
fn has_functions(context: &RenderContext<'_>) -> bool {
    context.conversation.tools.iter().any(|tool| tool.kind == ToolKind::Function)
}

/// The header of a message: its role, and the speaker's name behind a colon.
fn header(message: &Message<'_>) -> String {
    let role = if message.role == Role::Tool { "tool" } else { message.role.as_str() };
    message.name.map_or_else(|| role.to_owned(), |name| format!("{role}:{name}"))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
