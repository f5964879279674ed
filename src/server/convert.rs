//! Wire to domain and back: the only place that sees both. Pure; runs on the blocking pool.
//!
//! Called by `rpc`. Every enum is matched exhaustively, so that a new variant of the domain can't be forgotten here.

pub(super) mod compact;
pub(super) mod turn;

use crate::budget::{self, Budget, BudgetPolicy, Limit, Margin, Remedy};
use crate::count::{Confidence, Count, CountOptions, Counter, Part, PartKind, PrefixStore, ReasoningMemory, RenderedPrompt};
use crate::error::{Error, Result};
use crate::format::{Format, Request};
use crate::models::{Choice, Models, Profile, Provider};
use crate::proto::v1;
use serde_json::Value;
use std::sync::Arc;

/// Counts what a message carries.
pub(super) fn count(counter: &Counter, prefixes: &PrefixStore, message: &v1::CountRequest) -> Result<v1::CountResponse> {
    weigh(counter, prefixes, message).map(|weighed| weighed.out(message))
}

/// Budgets what a message carries.
pub(super) fn budget(counter: &Counter, prefixes: &PrefixStore, message: &v1::BudgetRequest) -> Result<v1::BudgetResponse> {
    let inner = message.request.as_ref().ok_or_else(|| Error::invalid("", "the call carries no request"))?;
    let policy = policy_in(message)?;
    let weighed = weigh(counter, prefixes, inner)?;
    let view = weighed.request.conversation()?;
    let decided = budget::decide(&view, &weighed.count, &policy, counter.models(), weighed.provider.as_ref())?;
    Ok(budget_out(decided, weighed.out(inner)))
}

/// A body counted.
struct Weighed {
    request: Request,
    /// Its prefix id; empty when it was not to be kept.
    id: String,
    count: Count,
    prompt: Option<v1::Prompt>,
    provider: Option<Provider>,
}

impl Weighed {
    fn out(self, message: &v1::CountRequest) -> v1::CountResponse {
        let count = count_out(&self.count, self.request.format(), message.totals_only);
        v1::CountResponse { prefix_id: self.id, prompt: self.prompt, ..count }
    }
}

fn weigh(counter: &Counter, prefixes: &PrefixStore, message: &v1::CountRequest) -> Result<Weighed> {
    let (request, id) = match (message.keep_prefix, message.prefix_id.as_str()) {
        (false, _) => (body_in(prefixes, message)?, String::new()),
        (true, "") => {
            let request = payload_in(message.payload.as_ref())?;
            let id = prefixes.keep(&request);
            (request, id)
        }
        (true, prefix) => prefixes.extend(prefix, &payload_in(message.payload.as_ref())?)?,
    };
    let options = options_in(counter, message, &request)?;
    let prompt = message.show_prompt.then(|| counter.prompt(&request, &options)).transpose()?.map(prompt_out);
    let count = counter.count(&request, &options)?;
    Ok(Weighed { request, id, count, prompt, provider: options.provider })
}

/// The whole body of a counting call: its payload, behind its prefix if it names one.
pub(super) fn body_in(prefixes: &PrefixStore, message: &v1::CountRequest) -> Result<Request> {
    let given = payload_in(message.payload.as_ref())?;
    if message.prefix_id.is_empty() { Ok(given) } else { prefixes.join(&message.prefix_id, &given) }
}

/// How a message wants its body counted.
pub(super) fn options_in(counter: &Counter, message: &v1::CountRequest, request: &Request) -> Result<CountOptions> {
    let blank = v1::ModelChoice::default();
    let choice = message.model.as_ref().unwrap_or(&blank);
    let provider = provider_in(&choice.provider)?;
    let named = Some(choice.name.as_str()).filter(|name| !name.is_empty());
    let profile = if choice.nearest || choice.window.is_some() || choice.output_cap.is_some() {
        let name = match named {
            Some(name) => Some(name.to_owned()),
            None => request.conversation()?.model.map(str::to_owned),
        };
        let name = name.ok_or_else(|| Error::invalid("", "the body names no model; name one beside it"))?;
        let chosen = Choice { nearest: choice.nearest, window: choice.window, output_cap: choice.output_cap };
        Some(counter.choose(&name, provider.as_ref(), &chosen)?)
    } else {
        None
    };
    let mut memory = ReasoningMemory::default();
    for (signature, tokens) in &message.reasoning_tokens {
        memory.remember(signature, *tokens);
    }
    let as_of = Some(message.as_of.as_str()).filter(|day| !day.is_empty()).map(str::parse).transpose()?;
    Ok(CountOptions { model: named.map(str::to_owned), provider, profile, stream: message.stream, as_of, memory: Arc::new(memory) })
}

/// The body that a message carries.
pub(super) fn payload_in(payload: Option<&v1::Payload>) -> Result<Request> {
    let payload = payload.ok_or_else(|| Error::invalid("", "the call carries no payload"))?;
    match format_in(payload.format)? {
        Some(format) => Request::parse(&payload.body, format),
        None => Ok(Request::detect(&payload.body)?.0),
    }
}

/// A provider hint, if one is given.
pub(super) fn provider_in(text: &str) -> Result<Option<Provider>> {
    if text.is_empty() { Ok(None) } else { text.parse().map(Some) }
}

fn format_in(format: i32) -> Result<Option<Format>> {
    match v1::Format::try_from(format) {
        Ok(v1::Format::Unspecified | v1::Format::Auto) => Ok(None),
        Ok(v1::Format::Chat) => Ok(Some(Format::Chat)),
        Ok(v1::Format::Responses) => Ok(Some(Format::Responses)),
        Ok(v1::Format::Anthropic) => Ok(Some(Format::Anthropic)),
        Ok(v1::Format::Gemini) => Ok(Some(Format::Gemini)),
        Ok(v1::Format::Converse) => Ok(Some(Format::Converse)),
        Ok(v1::Format::Mcp) => Ok(Some(Format::Mcp)),
        Err(_) => Err(Error::invalid("", format!("format {format} is unknown to this version"))),
    }
}

/// A format that has to be named: what it is for is too little to tell it by.
pub(super) fn named_format(format: i32) -> Result<Format> {
    format_in(format)?.ok_or_else(|| Error::invalid("", "expected the format by name: it can't be told safely here"))
}

/// JSON that a host hands over as bytes, within the cap.
pub(super) fn json_in(bytes: &[u8]) -> Result<Value> {
    crate::format::json::cap_nodes(bytes)?;
    serde_json::from_slice(bytes).map_err(|e| Error::invalid("", format!("not valid JSON: {e}")))
}

fn format_out(format: Format) -> v1::Format {
    match format {
        Format::Chat => v1::Format::Chat,
        Format::Responses => v1::Format::Responses,
        Format::Anthropic => v1::Format::Anthropic,
        Format::Gemini => v1::Format::Gemini,
        Format::Converse => v1::Format::Converse,
        Format::Mcp => v1::Format::Mcp,
    }
}

fn policy_in(message: &v1::BudgetRequest) -> Result<BudgetPolicy> {
    use v1::budget_request::Margin as Wire;
    let margin = match message.margin {
        None | Some(Wire::MarginAuto(_)) => Margin::Auto,
        Some(Wire::MarginTokens(tokens)) => Margin::Fixed(tokens),
        Some(Wire::MarginPercent(share)) if (0.0..=100.0).contains(&share) => Margin::Percent(share),
        Some(Wire::MarginPercent(_)) => return Err(Error::invalid("", "expected a margin of 0 to 100 percent")),
    };
    let usual = BudgetPolicy::default();
    Ok(BudgetPolicy {
        requested: message.requested,
        margin,
        min_visible: message.min_visible.unwrap_or(usual.min_visible),
        require_whole: message.require_whole,
    })
}

fn confidence_out(confidence: Confidence) -> i32 {
    match confidence {
        Confidence::Exact => v1::Confidence::Exact,
        Confidence::Calibrated => v1::Confidence::Calibrated,
        Confidence::Estimate => v1::Confidence::Estimate,
        Confidence::Unbounded => v1::Confidence::Unbounded,
    }
    .into()
}

fn part_out(part: &Part) -> v1::Part {
    let kind = match part.kind {
        PartKind::System => v1::PartKind::System,
        PartKind::User => v1::PartKind::User,
        PartKind::Assistant => v1::PartKind::Assistant,
        PartKind::Reasoning => v1::PartKind::Reasoning,
        PartKind::ToolCall => v1::PartKind::ToolCall,
        PartKind::ToolResult => v1::PartKind::ToolResult,
        PartKind::ToolDefinition => v1::PartKind::ToolDefinition,
        PartKind::Image => v1::PartKind::Image,
        PartKind::File => v1::PartKind::File,
        PartKind::ResponseFormat => v1::PartKind::ResponseFormat,
        PartKind::Overhead => v1::PartKind::Overhead,
    };
    v1::Part {
        kind: kind.into(),
        path: part.place.clone(),
        role: part.role.map(|role| role.as_str().to_owned()).unwrap_or_default(),
        message: part.message.map(|index| index as u64),
        name: part.name.clone().unwrap_or_default(),
        server: part.server.clone().unwrap_or_default(),
        tokens: part.tokens,
        confidence: confidence_out(part.confidence),
        bound: part.bound,
    }
}

fn count_out(count: &Count, format: Format, totals_only: bool) -> v1::CountResponse {
    let breakdown = &count.breakdown;
    v1::CountResponse {
        total: breakdown.total(),
        confidence: confidence_out(breakdown.confidence()),
        bound: breakdown.bound(),
        model: count.profile.id.clone(),
        tokenizer: count.profile.tokenizer.clone(),
        renderer: count.profile.renderer.clone(),
        format: format_out(format).into(),
        parts: if totals_only { Vec::new() } else { breakdown.parts().iter().map(part_out).collect() },
        prefix_id: String::new(),
        prompt: None,
        notes: breakdown.notes().to_vec(),
    }
}

fn prompt_out(prompt: RenderedPrompt) -> v1::Prompt {
    let pieces = prompt.pieces.into_iter().map(|piece| v1::PromptPiece {
        start: piece.range.start as u64,
        end: piece.range.end as u64,
        part: piece.part.map(|part| part as u64),
    });
    v1::Prompt { pieces: pieces.collect(), text: prompt.text }
}

fn limit_out(limit: Limit) -> i32 {
    match limit {
        Limit::Requested => v1::Limit::Requested,
        Limit::OutputCap => v1::Limit::OutputCap,
        Limit::Window => v1::Limit::Window,
        Limit::InputCap => v1::Limit::InputCap,
        Limit::Thinking => v1::Limit::Thinking,
    }
    .into()
}

fn weights_out(list: Vec<(String, u64)>, available: u64) -> v1::Weights {
    v1::Weights { heaviest: list.into_iter().map(|(name, tokens)| v1::Weight { name, tokens }).collect(), available }
}

fn remedy_out(remedy: Remedy) -> v1::Remedy {
    use v1::remedy::Remedy as Wire;
    let wire = match remedy {
        Remedy::LowerRequest { to } => Wire::LowerRequestTo(to),
        Remedy::LowerThinking { by } => Wire::LowerThinkingBy(by),
        Remedy::ShrinkResults { results, available } => Wire::ShrinkResults(weights_out(results, available)),
        Remedy::DropTools { tools, available } => Wire::DropTools(weights_out(tools, available)),
        Remedy::Compact { available } => Wire::CompactAvailable(available),
        Remedy::LargerModel { models } => Wire::LargerModels(v1::Names { names: models }),
    };
    v1::Remedy { remedy: Some(wire) }
}

fn budget_out(budget: Budget, count: v1::CountResponse) -> v1::BudgetResponse {
    let shortfall = budget.shortfall.map(|s| v1::Shortfall {
        tokens: s.tokens,
        limit: limit_out(s.limit),
        remedies: s.remedies.into_iter().map(remedy_out).collect(),
    });
    v1::BudgetResponse {
        fits: budget.fits,
        granted: budget.granted,
        limit: limit_out(budget.limit),
        margin: budget.margin,
        reserve: budget.reserve,
        free: budget.free,
        window: budget.window,
        requested: budget.requested,
        choices: budget.choices,
        field: budget.field,
        json_patch: budget.patch.to_string().into_bytes(),
        shortfall,
        notes: budget.notes,
        count: Some(count),
    }
}

/// A profile and the other names of its model.
pub(super) fn model_out(models: &Models, profile: &Profile) -> v1::Model {
    v1::Model {
        id: profile.id.clone(),
        maker: profile.maker.clone(),
        window: profile.window,
        input_cap: profile.input_cap,
        output_cap: profile.output_cap,
        tokenizer: profile.tokenizer.clone(),
        proxy: profile.proxy,
        renderer: profile.renderer.clone(),
        image_rule: profile.image_rule.clone().unwrap_or_default(),
        reasoning: profile.reasoning,
        source: profile.source.clone(),
        date: profile.date.clone(),
        notes: profile.notes.clone().unwrap_or_default(),
        aliases: models.aliases(&profile.id).map(str::to_owned).collect(),
    }
}

/// The vocabularies that a counter finds.
pub(super) fn vocabularies(counter: &Counter) -> Result<v1::ListVocabulariesResponse> {
    let vocabularies = counter.vocabularies()?.into_iter().map(|vocabulary| v1::Vocabulary {
        name: vocabulary.name,
        built_in: vocabulary.built_in,
        in_use: vocabulary.in_use,
        fingerprint: vocabulary.fingerprint,
        source: vocabulary.source,
        licence: vocabulary.licence.unwrap_or_default(),
        templates: vocabulary.templates,
    });
    Ok(v1::ListVocabulariesResponse { vocabularies: vocabularies.collect() })
}
