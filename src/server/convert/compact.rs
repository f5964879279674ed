//! Compaction's messages: policies in, findings, plans and outcomes out.
//!
//! As its parent: pure, exhaustive over the domain's enums. An absent field of a policy takes its default, as in a policy file.

use crate::check::{Finding, Severity};
use crate::compact::{Mark, Outcome, Pin, Plan, PlannedEdit, Policy, Step, Stuck, SummarizerKind, TrimTools};
use crate::error::{Error, Kind, Result};
use crate::format::Request;
use crate::proto::v1;

fn wrong(why: impl Into<String>) -> Error {
    Error::new(Kind::InvalidInput, why).context("reading the compaction policy")
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn mark_in(mark: &v1::TokenMark, name: &str) -> Result<Mark> {
    match mark.mark {
        Some(v1::token_mark::Mark::Tokens(tokens)) => Ok(Mark::Tokens(tokens)),
        Some(v1::token_mark::Mark::Share(share)) => Ok(Mark::Share(share)),
        None => Err(wrong(format!("`{name}` holds neither tokens nor a share"))),
    }
}

fn step_in(step: i32) -> Result<Step> {
    match v1::CompactionStep::try_from(step) {
        Ok(v1::CompactionStep::Shrink) => Ok(Step::Shrink),
        Ok(v1::CompactionStep::Clear) => Ok(Step::Clear),
        Ok(v1::CompactionStep::Superseded) => Ok(Step::Superseded),
        Ok(v1::CompactionStep::TrimTools) => Ok(Step::TrimTools),
        Ok(v1::CompactionStep::Summarize) => Ok(Step::Summarize),
        Ok(v1::CompactionStep::Drop) => Ok(Step::Drop),
        Ok(v1::CompactionStep::Unspecified) | Err(_) => Err(wrong(format!("step {step} is unknown to this version"))),
    }
}

fn step_out(step: Step) -> i32 {
    match step {
        Step::Shrink => v1::CompactionStep::Shrink,
        Step::Clear => v1::CompactionStep::Clear,
        Step::Superseded => v1::CompactionStep::Superseded,
        Step::TrimTools => v1::CompactionStep::TrimTools,
        Step::Summarize => v1::CompactionStep::Summarize,
        Step::Drop => v1::CompactionStep::Drop,
    }
    .into()
}

fn pin_in(pin: &v1::Pin) -> Pin {
    Pin { index: pin.index.map(size), id: pin.id.clone(), tag: pin.tag.clone(), role: pin.role.clone(), tool: pin.tool.clone() }
}

/// The policy that a message carries, if any.
pub(in crate::server) fn policy_in(message: &v1::PlanCompactionRequest) -> Result<Option<Policy>> {
    use v1::plan_compaction_request::How;
    let wire = match &message.how {
        None => return Ok(None),
        Some(How::PolicyJson(json)) => {
            // An array would be read as the fields in order.
            if json.trim_ascii_start().first() != Some(&b'{') {
                return Err(wrong("not a policy in JSON: expected an object"));
            }
            return serde_json::from_slice(json).map(Some).map_err(|e| wrong(format!("not a policy in JSON: {e}")).caused_by(e));
        }
        Some(How::Policy(wire)) => wire,
    };
    let usual = Policy::default();
    let mark = |mark: Option<&v1::TokenMark>, name: &str, usual: Mark| mark.map_or(Ok(usual), |mark| mark_in(mark, name));
    let steps = if wire.steps.is_empty() { usual.steps } else { wire.steps.iter().map(|s| step_in(*s)).collect::<Result<_>>()? };
    let summarizer = match v1::SummaryWriter::try_from(wire.summarizer) {
        Ok(v1::SummaryWriter::Unspecified | v1::SummaryWriter::Extractive) => SummarizerKind::Extractive,
        Ok(v1::SummaryWriter::Endpoint) => SummarizerKind::Endpoint,
        Ok(v1::SummaryWriter::Host) => SummarizerKind::Host,
        Err(_) => return Err(wrong(format!("summarizer {} is unknown to this version", wire.summarizer))),
    };
    let trim_tools = wire
        .trim_tools
        .as_ref()
        .map_or(usual.trim_tools, |trim| TrimTools { unused: trim.unused, description_chars: trim.description_chars.map(size) });
    Ok(Some(Policy {
        high: mark(wire.high.as_ref(), "high", usual.high)?,
        low: mark(wire.low.as_ref(), "low", usual.low)?,
        pins: wire.pins.iter().map(pin_in).collect(),
        keep_exchanges: wire.keep_exchanges.map_or(usual.keep_exchanges, size),
        steps,
        shrink_over: wire.shrink_over.unwrap_or(usual.shrink_over),
        shrink_to: wire.shrink_to.unwrap_or(usual.shrink_to),
        min_gain: mark(wire.min_gain.as_ref(), "min_gain", usual.min_gain)?,
        keep_tools: wire.keep_tools.clone(),
        summarizer,
        summary_tokens: wire.summary_tokens.unwrap_or(usual.summary_tokens),
        keep_identifiers: wire.keep_identifiers.clone(),
        trim_tools,
        cached_price: wire.cached_price.unwrap_or(usual.cached_price),
    }))
}

/// Findings as they go out.
pub(in crate::server) fn findings_out(findings: &[Finding]) -> Vec<v1::Finding> {
    let one = |finding: &Finding| v1::Finding {
        rule: finding.rule.to_owned(),
        path: finding.path.clone(),
        severity: match finding.severity {
            Severity::Warning => v1::Severity::Warning,
            Severity::Error => v1::Severity::Error,
        }
        .into(),
        message: finding.message.clone(),
        repair: finding.fix.as_ref().map(|fix| fix.what.to_owned()).unwrap_or_default(),
    };
    findings.iter().map(one).collect()
}

fn edit_out(edit: &PlannedEdit) -> v1::CompactionEdit {
    v1::CompactionEdit {
        step: step_out(edit.step),
        path: edit.place.clone(),
        what: edit.what.clone(),
        why: edit.why.to_owned(),
        messages: edit.messages as u64,
        before: edit.before,
        after: edit.after,
        r#ref: edit.reference.clone().unwrap_or_default(),
    }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// A plan as it goes out.
pub(in crate::server) fn plan_out(plan: &Plan) -> v1::CompactionPlan {
    let task = |task: &crate::compact::SummaryTask| v1::SummaryTask {
        index: number(task.index),
        text: task.text.clone(),
        bound: task.bound,
        keep: task.keep.clone(),
    };
    v1::CompactionPlan {
        id: plan.id.clone(),
        before: plan.before,
        after: plan.after,
        target: plan.target,
        edits: plan.edits.iter().map(edit_out).collect(),
        cache_broken_from: plan.cache_broken_from,
        break_even_turns: plan.break_even_turns,
        tasks: plan.tasks.iter().map(task).collect(),
        text: plan.to_string(),
    }
}

/// A shortfall as it goes out.
pub(in crate::server) fn cant_shrink_out(stuck: &Stuck) -> v1::CantShrink {
    v1::CantShrink {
        before: stuck.before,
        target: stuck.target,
        floor: stuck.floor,
        parts: stuck
            .parts
            .iter()
            .map(|part| v1::StuckPart {
                path: part.place.clone(),
                kind: part.kind.to_owned(),
                tokens: part.tokens,
                why: part.why.to_owned(),
            })
            .collect(),
        message: stuck.to_error().message().to_owned(),
    }
}

/// An outcome as it goes out.
pub(in crate::server) fn compacted_out(outcome: Outcome) -> v1::Compacted {
    v1::Compacted {
        body: outcome.request.text().as_bytes().to_vec(),
        before: outcome.before,
        after: outcome.after,
        edits: outcome.edits.iter().map(edit_out).collect(),
        undo: outcome.undo,
        cache_broken_from: outcome.cache_broken_from,
        summaries_taken: outcome.summarized.into_iter().map(number).collect(),
    }
}

/// A request as a payload.
pub(in crate::server) fn payload_out(request: &Request) -> v1::Payload {
    v1::Payload { format: super::format_out(request.format()).into(), body: request.text().as_bytes().to_vec() }
}
