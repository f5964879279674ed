//! The turn service's messages to the domain and back. Pure; runs on the blocking pool.
//!
//! Called by `server/turn`. Every enum is matched exhaustively. Provider JSON stays bytes on the wire, whatever its format.

use super::{confidence_out, format_out, json_in, named_format, payload_in, provider_in};
use crate::convert::convert as convert_request;
use crate::count::{CountOptions, Counter};
use crate::error::{Error, Kind, Result};
use crate::format::{Format, Request};
use crate::limits;
use crate::mcp::{Mapping, ServerTools, call_outcome};
use crate::pages::Pages;
use crate::proto::v1;
use crate::tokenizer::Tokenizer;
use crate::turn::{
    Action, AuditRecord, Call, CallKind, Choice, Content, Continuation, Delta, ErrorClass, Fault, FaultKind, Finish, InspectOptions,
    Inspection, JudgedCall, Lane, Outcome, Policy, Progress, Reason, Remedy, Risk, Rule, Verdict, Why, classify, inspect, reply,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::collections::HashMap;

/// Judges a whole answer.
pub(in crate::server) fn inspect_turn(counter: &Counter, message: &v1::InspectTurnRequest) -> Result<v1::TurnReport> {
    let format = named_format(message.format)?;
    let options = judging_in(message.judging.as_ref(), format)?;
    inspect(&message.answer, format, counter.models(), &options).map(report_out)
}

/// What to judge an answer by.
pub(in crate::server) fn judging_in(judging: Option<&v1::Judging>, format: Format) -> Result<InspectOptions> {
    let blank = v1::Judging::default();
    let judging = judging.unwrap_or(&blank);
    let request = match judging.request.as_slice() {
        [] => None,
        body => {
            let request = Request::parse(body, format);
            // Looked at before a stream is followed for an hour to no end.
            let looked = request.and_then(|request| request.conversation().map(drop).map(|()| request));
            Some(looked.map_err(|e| e.context("reading the request that was answered"))?)
        }
    };
    Ok(InspectOptions {
        request,
        policy: judging.policy.as_ref().map_or_else(|| Ok(Policy::default()), policy_in)?,
        choice: judging.choice as usize,
        now_ms: judging.time_ms,
        model: Some(judging.model.clone()).filter(|model| !model.is_empty()),
        earlier: judging.earlier.iter().map(record_in).collect::<Result<_>>()?,
        earlier_turns: judging.earlier_turns.unwrap_or(0),
    })
}

fn policy_in(policy: &v1::GatePolicy) -> Result<Policy> {
    let usual = Policy::default();
    let rule = |rule: &v1::GateRule| {
        let verdict = verdict_in(rule.verdict)?.unwrap_or(Verdict::Run);
        Ok(Rule::new(rule.pattern.as_str(), risk_in(rule.risk)?, verdict))
    };
    Ok(Policy {
        rules: policy.rules.iter().map(rule).collect::<Result<_>>()?,
        otherwise: verdict_in(policy.otherwise)?.unwrap_or(usual.otherwise),
        calls_per_turn: policy.calls_per_turn.map_or(usual.calls_per_turn, |calls| calls as usize),
        turns: policy.turns.unwrap_or(usual.turns),
        repeats: policy.repeats.unwrap_or(usual.repeats),
        on_repeat: verdict_in(policy.on_repeat)?.unwrap_or(usual.on_repeat),
        argument_bytes: policy.argument_bytes.map_or(usual.argument_bytes, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
        run_before_cut: policy.run_before_cut,
    })
}

/// An enum's number that this version doesn't know must not pass for its default.
fn unknown(what: &str, number: i32) -> Error {
    Error::new(Kind::InvalidInput, format!("{what} {number} is unknown to this version"))
}

fn verdict_in(verdict: i32) -> Result<Option<Verdict>> {
    match v1::Verdict::try_from(verdict) {
        Ok(v1::Verdict::Unspecified) => Ok(None),
        Ok(v1::Verdict::Run) => Ok(Some(Verdict::Run)),
        Ok(v1::Verdict::Ask) => Ok(Some(Verdict::Ask)),
        Ok(v1::Verdict::Refuse) => Ok(Some(Verdict::Refuse)),
        Err(_) => Err(unknown("verdict", verdict)),
    }
}

fn verdict_out(verdict: Verdict) -> i32 {
    match verdict {
        Verdict::Run => v1::Verdict::Run,
        Verdict::Ask => v1::Verdict::Ask,
        Verdict::Refuse => v1::Verdict::Refuse,
    }
    .into()
}

fn risk_in(risk: i32) -> Result<Risk> {
    match v1::Risk::try_from(risk) {
        Ok(v1::Risk::Unspecified) => Ok(Risk::Unlabelled),
        Ok(v1::Risk::ReadOnly) => Ok(Risk::ReadOnly),
        Ok(v1::Risk::Write) => Ok(Risk::Write),
        Ok(v1::Risk::High) => Ok(Risk::HighRisk),
        Err(_) => Err(unknown("risk", risk)),
    }
}

fn risk_out(risk: Risk) -> i32 {
    match risk {
        Risk::Unlabelled => v1::Risk::Unspecified,
        Risk::ReadOnly => v1::Risk::ReadOnly,
        Risk::Write => v1::Risk::Write,
        Risk::HighRisk => v1::Risk::High,
    }
    .into()
}

/// Both ways of a reason, from one table.
const REASONS: [(Why, v1::VerdictReason); 21] = [
    (Why::Allowed, v1::VerdictReason::Allowed),
    (Why::Policy, v1::VerdictReason::Policy),
    (Why::ToolsUnknown, v1::VerdictReason::ToolsUnknown),
    (Why::UnknownTool, v1::VerdictReason::UnknownTool),
    (Why::TurnIncomplete, v1::VerdictReason::TurnIncomplete),
    (Why::CutByLength, v1::VerdictReason::CutByLength),
    (Why::Filtered, v1::VerdictReason::Filtered),
    (Why::FinishUnknown, v1::VerdictReason::FinishUnknown),
    (Why::Malformed, v1::VerdictReason::Malformed),
    (Why::OtherChoice, v1::VerdictReason::OtherChoice),
    (Why::BadJson, v1::VerdictReason::BadJson),
    (Why::DuplicateKey, v1::VerdictReason::DuplicateKey),
    (Why::BySchema, v1::VerdictReason::Schema),
    (Why::SchemaUnusable, v1::VerdictReason::SchemaUnusable),
    (Why::IdMissing, v1::VerdictReason::IdMissing),
    (Why::IdRepeated, v1::VerdictReason::IdRepeated),
    (Why::Duplicate, v1::VerdictReason::Duplicate),
    (Why::Loop, v1::VerdictReason::Loop),
    (Why::TooLarge, v1::VerdictReason::TooLarge),
    (Why::TooManyCalls, v1::VerdictReason::TooManyCalls),
    (Why::TooManyTurns, v1::VerdictReason::TooManyTurns),
];

fn why_out(why: Why) -> i32 {
    REASONS.iter().find(|(own, _)| *own == why).map_or(v1::VerdictReason::Unspecified, |(_, wire)| *wire).into()
}

fn record_in(record: &v1::AuditRecord) -> Result<AuditRecord> {
    let reason = v1::VerdictReason::try_from(record.reason).map_err(|_| unknown("reason", record.reason))?;
    let why = REASONS.iter().find(|(_, wire)| *wire == reason).map(|(own, _)| *own);
    let bad = |what: &str| Error::new(Kind::InvalidInput, format!("an earlier record has no {what}; expected it as it was given"));
    if u64::from_str_radix(&record.hash, 16).is_err() {
        return Err(bad("valid hash"));
    }
    Ok(AuditRecord {
        time_ms: record.time_ms,
        turn: record.turn,
        tool: record.tool.clone(),
        call_id: record.call_id.clone(),
        hash: record.hash.clone(),
        argument_bytes: usize::try_from(record.argument_bytes).unwrap_or(usize::MAX),
        risk: risk_in(record.risk)?,
        verdict: verdict_in(record.verdict)?.ok_or_else(|| bad("verdict"))?,
        why: why.ok_or_else(|| bad("reason"))?,
    })
}

fn record_out(record: AuditRecord) -> v1::AuditRecord {
    v1::AuditRecord {
        time_ms: record.time_ms,
        turn: record.turn,
        tool: record.tool,
        call_id: record.call_id,
        hash: record.hash,
        argument_bytes: record.argument_bytes as u64,
        risk: risk_out(record.risk),
        verdict: verdict_out(record.verdict),
        reason: why_out(record.why),
    }
}

fn json(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn jsons(values: &[Value]) -> Vec<Vec<u8>> {
    values.iter().map(json).collect()
}

fn action_out(action: Action) -> i32 {
    match action {
        Action::Show => v1::TurnAction::Show,
        Action::RunTools => v1::TurnAction::RunTools,
        Action::ContinueText => v1::TurnAction::ContinueText,
        Action::RefusePartialCall => v1::TurnAction::RefusePartialCall,
        Action::TellUser => v1::TurnAction::TellUser,
        Action::CompactAndRetry => v1::TurnAction::CompactAndRetry,
        Action::Resume => v1::TurnAction::Resume,
        Action::Retry => v1::TurnAction::Retry,
    }
    .into()
}

fn finish_out(finish: Finish) -> v1::Finish {
    let reason = match finish.reason {
        Reason::Stop => v1::FinishReason::Stop,
        Reason::ToolCalls => v1::FinishReason::ToolCalls,
        Reason::Length => v1::FinishReason::Length,
        Reason::ContentFilter => v1::FinishReason::ContentFilter,
        Reason::Unknown => v1::FinishReason::Unknown,
    };
    v1::Finish { reason: reason.into(), raw: finish.raw, known: finish.known, action: action_out(finish.action) }
}

fn fault_out(fault: Fault) -> v1::Fault {
    let kind = match fault.kind {
        FaultKind::Truncated => v1::FaultKind::Truncated,
        FaultKind::Provider => v1::FaultKind::Provider,
        FaultKind::Malformed => v1::FaultKind::Malformed,
        FaultKind::Encoding => v1::FaultKind::Encoding,
        FaultKind::TooLarge => v1::FaultKind::TooLarge,
        FaultKind::DuplicateIndex => v1::FaultKind::DuplicateIndex,
        FaultKind::OutOfOrder => v1::FaultKind::OutOfOrder,
        FaultKind::AfterEnd => v1::FaultKind::AfterEnd,
        FaultKind::UsageMissing => v1::FaultKind::UsageMissing,
        FaultKind::FinishMissing => v1::FaultKind::FinishMissing,
        FaultKind::UnknownEvent => v1::FaultKind::UnknownEvent,
        FaultKind::Checksum => v1::FaultKind::Checksum,
    };
    let detail_json = fault.detail.as_ref().map(json).unwrap_or_default();
    v1::Fault { kind: kind.into(), message: fault.message, offset: fault.offset, fatal: fault.fatal, detail_json }
}

fn kind_out(kind: CallKind) -> i32 {
    match kind {
        CallKind::Function => v1::CallKind::Function,
        CallKind::Legacy => v1::CallKind::Legacy,
        CallKind::Custom => v1::CallKind::Custom,
    }
    .into()
}

fn kind_in(kind: i32) -> Result<CallKind> {
    match v1::CallKind::try_from(kind) {
        Ok(v1::CallKind::Function) => Ok(CallKind::Function),
        Ok(v1::CallKind::Legacy) => Ok(CallKind::Legacy),
        Ok(v1::CallKind::Custom) => Ok(CallKind::Custom),
        Err(_) => Err(unknown("call kind", kind)),
    }
}

fn call_out(judged: JudgedCall) -> v1::JudgedCall {
    v1::JudgedCall {
        id: judged.call.id,
        name: judged.call.name,
        arguments: judged.call.arguments,
        kind: kind_out(judged.call.kind),
        choice: judged.choice,
        verdict: verdict_out(judged.verdict),
        reason: why_out(judged.why),
        detail: judged.detail,
        risk: risk_out(judged.risk),
        repeat: judged.repeat,
    }
}

fn choice_out(choice: Choice, format: Format) -> v1::TurnChoice {
    let history_json = jsons(&choice.history(format));
    v1::TurnChoice {
        index: choice.index,
        message_json: json(&choice.message),
        text: choice.text,
        reasoning: choice.reasoning,
        refusal: choice.refusal,
        finish: Some(finish_out(choice.finish)),
        history_json,
    }
}

/// A judged answer on the wire.
pub(in crate::server) fn report_out(inspection: Inspection) -> v1::TurnReport {
    let Inspection { turn, judgement, counted_output } = inspection;
    let format = turn.format;
    let refusals_json = jsons(&judgement.refusals(format));
    let (counted_output, counted_by) = counted_output.map_or((None, String::new()), |(count, by)| (Some(count), by));
    v1::TurnReport {
        format: format_out(format).into(),
        id: turn.id.unwrap_or_default(),
        model: turn.model.unwrap_or_default(),
        ended_well: turn.ended_well,
        choices: turn.choices.into_iter().map(|choice| choice_out(choice, format)).collect(),
        usage: turn.usage.map(|usage| v1::BilledUsage {
            input: usage.input,
            output: usage.output,
            reasoning: usage.reasoning,
            cache_read: usage.cache_read,
            cache_write: usage.cache_write,
            total: usage.total,
            raw_json: json(&usage.raw),
        }),
        faults: turn.faults.into_iter().map(fault_out).collect(),
        action: action_out(judgement.action),
        choice: u32::try_from(judgement.choice).unwrap_or(u32::MAX),
        calls: judgement.calls.into_iter().map(call_out).collect(),
        audit: judgement.audit.into_iter().map(record_out).collect(),
        refusals_json,
        counted_output,
        counted_by,
    }
}

/// How far a stream has come, with the pieces assembled since the last one.
pub(in crate::server) fn progress_out(progress: Progress, deltas: Vec<Delta>) -> v1::StreamProgress {
    let delta = |delta: Delta| {
        let (kind, call) = match delta.lane {
            Lane::Text => (v1::DeltaKind::Text, None),
            Lane::Reasoning => (v1::DeltaKind::Reasoning, None),
            Lane::Call(call) => (v1::DeltaKind::Arguments, Some(call)),
        };
        v1::StreamDelta { choice: delta.choice, kind: kind.into(), call, text: delta.text }
    };
    v1::StreamProgress {
        bytes: progress.bytes,
        events: progress.events,
        output_tokens: progress.output_tokens,
        granted: progress.granted,
        nearly_used: progress.nearly_used,
        failed: progress.failed,
        deltas: deltas.into_iter().map(delta).collect(),
    }
}

/// Outcomes to messages. `pages`: where what is cut is kept, if it is to be.
pub(in crate::server) fn tool_results(
    counter: &Counter,
    message: &v1::ToolResultsRequest,
    pages: Option<&Pages>,
) -> Result<v1::ToolResultsResponse> {
    let format = named_format(message.format)?;
    let tokenizer = match message.max_tokens {
        Some(tokens) => Some((usize::try_from(tokens).unwrap_or(usize::MAX), tokenizer(counter, &message.model)?)),
        None => None,
    };
    let mut answer = v1::ToolResultsResponse::default();
    let mut masked: HashMap<String, u64> = HashMap::new();
    let mut outcomes = Vec::with_capacity(message.outcomes.len());
    for (at, wire) in (0_u32..).zip(&message.outcomes) {
        let (mut outcome, left_out) = outcome_in(wire).map_err(|e| e.context(format!("reading outcome {at}")))?;
        answer.left_out.extend(left_out.into_iter().map(|what| v1::LeftOut { outcome: at, what }));
        if message.mask_secrets {
            for (rule, found) in outcome.mask_secrets() {
                *masked.entry(rule).or_default() += found;
            }
        }
        if let Some((tokens, tokenizer)) = &tokenizer {
            let mut failed = None;
            let cut = outcome.limit(*tokens, tokenizer, |whole| match pages?.keep(whole) {
                Ok(reference) => {
                    answer.pages.push(reference.clone());
                    Some(reference)
                }
                Err(error) => {
                    failed = Some(error);
                    None
                }
            });
            // What can't be kept must not be cut.
            if let Some(error) = failed {
                return Err(error.context(format!("keeping the whole of outcome {at}")));
            }
            if cut {
                answer.cut.push(at);
            }
        }
        if outcome.is_error {
            answer.errors.push(at);
        }
        outcomes.push(outcome);
    }
    answer.messages_json = jsons(&reply::messages(format, &outcomes));
    answer.masked = masked;
    Ok(answer)
}

/// The tokenizer of a model, or one of the usual size when none is named.
fn tokenizer(counter: &Counter, model: &str) -> Result<Tokenizer> {
    if model.is_empty() {
        return Tokenizer::by_name("o200k_base");
    }
    Tokenizer::by_name(&counter.profile(model, None)?.tokenizer)
}

fn outcome_in(wire: &v1::ToolOutcome) -> Result<(Outcome, Vec<String>)> {
    use v1::outcome_piece::Piece;
    use v1::tool_outcome::Result as Wire;
    let call = Call { id: wire.call_id.clone(), name: wire.name.clone(), arguments: String::new(), kind: kind_in(wire.kind)? };
    let content = match &wire.result {
        None => return Err(Error::new(Kind::InvalidInput, "the outcome is empty; expected a text, pieces or an MCP result")),
        Some(Wire::McpJson(bytes)) => {
            let (mut outcome, left_out) = call_outcome(&call, &json_in(bytes)?);
            outcome.is_error |= wire.is_error;
            return Ok((outcome, left_out));
        }
        Some(Wire::Text(text)) => vec![Content::Text(text.clone())],
        Some(Wire::Pieces(pieces)) => {
            let piece = |piece: &v1::OutcomePiece| match &piece.piece {
                Some(Piece::Text(text)) => Ok(Content::Text(text.clone())),
                Some(Piece::Json(bytes)) => json_in(bytes).map(Content::Json),
                Some(Piece::Image(image)) => Ok(Content::Image { base64: STANDARD.encode(&image.data), mime: image.mime.clone() }),
                None => Err(Error::new(Kind::InvalidInput, "a piece is empty; expected text, JSON or an image")),
            };
            pieces.pieces.iter().map(piece).collect::<Result<_>>()?
        }
    };
    Ok((Outcome::of(&call, content, wire.is_error), Vec::new()))
}

/// Tools of servers to a provider's tools.
pub(in crate::server) fn map_tools(counter: &Counter, message: &v1::MapToolsRequest) -> Result<v1::MapToolsResponse> {
    let format = named_format(message.format)?;
    let mut servers = Vec::with_capacity(message.lists.len());
    for list in &message.lists {
        let reading = |e: Error| e.context(format!("reading the tools of `{}`", list.server));
        let pages = list.pages_json.iter().map(|page| json_in(page)).collect::<Result<Vec<_>>>().map_err(reading)?;
        servers.push(ServerTools::read(list.server.as_str(), &pages).map_err(reading)?);
    }
    let tools = servers.iter().map(|server| server.tools.len()).fold(0_usize, usize::saturating_add);
    if tools > limits::MAX_TOOLS {
        return Err(Error::new(Kind::LimitExceeded, format!("{tools} tools; at most {} are taken", limits::MAX_TOOLS)));
    }
    let mapping = Mapping::new(&servers, format)?;
    let costs = match message.model.as_ref().filter(|model| !model.name.is_empty()) {
        None => None,
        Some(model) => {
            let provider = provider_in(&model.provider)?;
            let choice = crate::models::Choice { nearest: model.nearest, window: model.window, output_cap: model.output_cap };
            let profile = Some(counter.choose(&model.name, provider.as_ref(), &choice)?);
            Some(mapping.costs(counter, &CountOptions { provider, profile, ..CountOptions::default() })?)
        }
    };
    let used: Vec<&str> = message.used.iter().map(String::as_str).collect();
    let weights = costs.as_ref().map(|costs| v1::ToolWeights {
        servers: costs
            .servers
            .iter()
            .map(|server| v1::ServerWeight { server: server.server.clone(), tools: server.tools as u64, tokens: server.tokens })
            .collect(),
        overhead: costs.overhead,
        total: costs.total,
        confidence: confidence_out(costs.confidence),
        leave_out: message.budget.map(|budget| {
            let leave = costs.leave_out(budget, &used);
            v1::LeaveOut { names: leave.names, tokens: leave.tokens, fits: leave.fits }
        }),
    });
    // Both lists keep the mapping's order.
    let tokens = |at: usize| costs.as_ref().and_then(|costs| costs.tools.get(at)).map(|cost| cost.tokens);
    let tool = |(at, tool): (usize, &crate::mcp::MappedTool)| v1::MappedTool {
        name: tool.name.clone(),
        server: tool.server.clone(),
        tool: tool.tool.clone(),
        definition_json: json(&tool.definition),
        dropped: tool.dropped.iter().map(|lost| v1::SchemaLoss { place: lost.place.clone(), what: lost.what.clone() }).collect(),
        read_only: tool.read_only,
        tokens: tokens(at),
    };
    Ok(v1::MapToolsResponse {
        tools: mapping.tools().enumerate().map(tool).collect(),
        definitions_json: jsons(&mapping.definitions()),
        weights,
        incomplete: servers.iter().filter(|server| server.incomplete).map(|server| server.server.clone()).collect(),
    })
}

/// A provider's error, and what is learned from it when asked.
pub(in crate::server) fn classify_error(counter: &Counter, message: &v1::ClassifyErrorRequest) -> Result<v1::ClassifyErrorResponse> {
    let status = u16::try_from(message.status)
        .map_err(|_| Error::new(Kind::InvalidInput, format!("{} is no HTTP status; expected at most 999", message.status)))?;
    let outcome = classify(status, &message.body);
    let correction = if message.model.is_empty() {
        if message.learn {
            return Err(Error::new(Kind::InvalidInput, "to learn a limit the model has to be named"));
        }
        None
    } else {
        let provider = provider_in(&message.provider)?;
        let found = outcome.correction(&*counter.profile(&message.model, provider.as_ref())?);
        found.map(|correction| v1::LimitCorrection {
            learned: message.learn && counter.correct(&correction, provider.as_ref()),
            model: correction.model,
            field: correction.field.as_str().to_owned(),
            was: correction.was,
            now: correction.now,
        })
    };
    let class = match outcome.class {
        ErrorClass::Overflow => v1::ErrorClass::Overflow,
        ErrorClass::OutputCap => v1::ErrorClass::OutputCap,
        ErrorClass::RateLimit => v1::ErrorClass::RateLimit,
        ErrorClass::RateTooSmall => v1::ErrorClass::RateTooSmall,
        ErrorClass::Quota => v1::ErrorClass::Quota,
        ErrorClass::PayloadTooLarge => v1::ErrorClass::PayloadTooLarge,
        ErrorClass::Overloaded => v1::ErrorClass::Overloaded,
        ErrorClass::ContentFilter => v1::ErrorClass::ContentFilter,
        ErrorClass::Auth => v1::ErrorClass::Auth,
        ErrorClass::NotFound => v1::ErrorClass::NotFound,
        ErrorClass::Server => v1::ErrorClass::Server,
        ErrorClass::BadRequest => v1::ErrorClass::BadRequest,
        ErrorClass::Unknown => v1::ErrorClass::Unknown,
    };
    let remedy = match outcome.remedy {
        Remedy::Compact => v1::ErrorRemedy::Compact,
        Remedy::LowerOutput => v1::ErrorRemedy::LowerOutput,
        Remedy::Wait => v1::ErrorRemedy::Wait,
        Remedy::Retry => v1::ErrorRemedy::Retry,
        Remedy::ShrinkMedia => v1::ErrorRemedy::ShrinkMedia,
        Remedy::Fix => v1::ErrorRemedy::Fix,
        Remedy::TellUser => v1::ErrorRemedy::TellUser,
    };
    Ok(v1::ClassifyErrorResponse {
        class: class.into(),
        remedy: remedy.into(),
        code: outcome.code.unwrap_or_default(),
        message: outcome.message,
        limit: outcome.limit,
        output_cap: outcome.output_cap,
        requested: outcome.requested,
        input: outcome.input,
        output: outcome.output,
        fitting_output: outcome.fitting_output,
        excess: outcome.excess,
        wait_seconds: outcome.wait_seconds,
        correction,
    })
}

/// Parts of a text put together, and the request for the rest.
pub(in crate::server) fn continue_text(_: &Counter, message: &v1::ContinueTextRequest) -> Result<v1::ContinueTextResponse> {
    let Some((first, rest)) = message.parts.split_first() else {
        return Err(Error::new(Kind::InvalidInput, "no part was given; expected the text so far"));
    };
    if rest.len() > limits::MAX_CONTINUATIONS {
        let most = limits::MAX_CONTINUATIONS + 1;
        return Err(Error::new(Kind::LimitExceeded, format!("{} parts; at most {most} are taken", message.parts.len())));
    }
    let mut text = Continuation::new(first.as_str());
    let dropped = rest.iter().map(|part| text.push(part) as u64).collect();
    let body = match &message.request {
        Some(_) => json(&text.request(&payload_in(message.request.as_ref())?)?),
        None => Vec::new(),
    };
    Ok(v1::ContinueTextResponse { text: text.text().to_owned(), dropped, body })
}

/// A request in another format.
pub(in crate::server) fn convert(_: &Counter, message: &v1::ConvertRequest) -> Result<v1::ConvertResponse> {
    let request = payload_in(message.request.as_ref())?;
    let converted = convert_request(&request, named_format(message.to)?)?;
    let lost = converted.lost.into_iter().map(|lost| v1::ConversionLoss { place: lost.place, what: lost.what }).collect();
    Ok(v1::ConvertResponse { body: json(&converted.body), lost })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_row_and_name() {
        for (own, wire) in REASONS {
            assert_eq!(wire.as_str_name(), format!("VERDICT_REASON_{}", own.as_str().to_uppercase()));
        }
        let last = REASONS.iter().map(|(_, wire)| i32::from(*wire)).max();
        assert_eq!(last, Some(i32::try_from(REASONS.len()).unwrap()), "no row is missing");
        assert!(v1::VerdictReason::try_from(i32::try_from(REASONS.len()).unwrap() + 1).is_err(), "no row is missing");
    }

    #[test]
    fn a_record_comes_back_as_it_went() {
        let record = AuditRecord {
            time_ms: 7,
            turn: 2,
            tool: "read".into(),
            call_id: Some("c".into()),
            hash: "00000000deadbeef".into(),
            argument_bytes: 9,
            risk: Risk::HighRisk,
            verdict: Verdict::Ask,
            why: Why::Duplicate,
        };
        assert_eq!(record_in(&record_out(record.clone())).unwrap(), record);
        let broken = v1::AuditRecord { hash: "x".into(), ..record_out(record.clone()) };
        assert_eq!(record_in(&broken).unwrap_err().kind(), Kind::InvalidInput);
        let newer = v1::AuditRecord { verdict: 99, ..record_out(record) };
        assert_eq!(record_in(&newer).unwrap_err().kind(), Kind::InvalidInput);
    }
}
