//! The planner: which edits, in order of harm, bring a request to its target; proved by a whole count before it is handed out.
//!
//! Pure: reads the request, the count, the policy and (only to know its own stand-ins) the page store; writes nothing.
//! Estimates by the parts' weights while it decides, counts whole to prove, tightens and goes on when the proof misses.
//! Same input, same policy, same plan, byte for byte (invariant 10).

use super::apply::user_message;
use super::batch::{self, Change};
use super::floor::{self, Stuck};
use super::history::{History, UnitKind};
use super::policy::{Marks, Policy, SummarizerKind};
use super::summary::Digest;
use super::tools::{self, Trim};
use super::{standin, summary::Summarizer};
use crate::check;
use crate::count::{Breakdown, Count, CountOptions, Counter};
use crate::error::{Error, Kind, Result};
use crate::format::{Conversation, Edit, Format, ItemBody, Message, Place, Request, Role, quote};
use crate::pages::{Entry, Pages, reference};
use crate::tokenizer::Tokenizer;
use serde::{Deserialize, Serialize};

/// A step of compaction, in order of harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Shrink large tool results by their structure.
    Shrink,
    /// Clear stale tool results, oldest first.
    Clear,
    /// Drop exchanges that only read what was read again later.
    Superseded,
    /// Trim tool definitions; does nothing unless the policy says what to trim.
    TrimTools,
    /// Summarize the oldest exchanges.
    Summarize,
    /// Drop the oldest exchanges, leaving a note.
    Drop,
}

impl Step {
    /// All steps, the least harmful first.
    pub const ALL: [Self; 6] = [Self::Shrink, Self::Clear, Self::Superseded, Self::TrimTools, Self::Summarize, Self::Drop];

    /// The name used on the wire and in JSON output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Shrink => "shrink",
            Self::Clear => "clear",
            Self::Superseded => "superseded",
            Self::TrimTools => "trim_tools",
            Self::Summarize => "summarize",
            Self::Drop => "drop",
        }
    }
}

/// One edit of a plan, for a person and for logs; the bytes are in the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedEdit {
    /// The step that makes it.
    pub step: Step,
    /// Where, in the original request.
    pub place: Place,
    /// What is done.
    pub what: String,
    /// Why here.
    pub why: &'static str,
    /// Messages that go.
    pub messages: usize,
    /// Tokens of what is edited, before.
    pub before: u64,
    /// Tokens of what stands there afterwards (counted by itself).
    pub after: u64,
    /// Where the original can be read.
    pub reference: Option<String>,
}

/// What a host is to summarize in place of an extractive summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryTask {
    /// Which task of the plan, from 0.
    pub index: usize,
    /// What to summarize, as text.
    pub text: String,
    /// Most tokens that the summary may take.
    pub bound: u64,
    /// Identifiers that it must keep.
    pub keep: Vec<String>,
}

/// A proved plan: what is cut, what is kept, and the new request.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Stable id: by request, result and tenant; [`super::undo`] takes it.
    pub id: String,
    /// Tokens before.
    pub before: u64,
    /// Tokens after, counted whole.
    pub after: u64,
    /// What it had to reach.
    pub target: u64,
    /// What is done, in order of place.
    pub edits: Vec<PlannedEdit>,
    /// Tokens at the start of the prompt that stay as they were: a provider's cache holds up to here.
    pub cache_broken_from: u64,
    /// Turns after which the smaller prompt has paid for the broken cache; `None` when it never does at this price.
    pub break_even_turns: Option<f64>,
    /// What a host or endpoint may summarize better; empty for the built-in summarizer.
    pub tasks: Vec<SummaryTask>,
    pub(super) request: Request,
    pub(super) pages: Vec<Entry>,
    pub(super) slots: Vec<Slot>,
}

/// Where a task's summary stands in the new request.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) place: Place,
    pub(super) head: String,
    pub(super) extractive: u64,
    pub(super) replaced: u64,
}

/// What a policy comes to for a request.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "made once a request and taken apart at once")]
pub enum Decision {
    /// It fits: nothing is done.
    Nothing {
        /// Tokens.
        before: u64,
    },
    /// A plan that fits.
    Plan(Plan),
    /// No allowed edit makes it fit.
    Stuck(Stuck),
}

impl Decision {
    /// The plan if there is one, nothing if none is needed.
    ///
    /// # Errors
    /// [`Kind::OverBudget`] with the floor and the largest parts that can't shrink.
    pub fn into_plan(self) -> Result<Option<Plan>> {
        match self {
            Self::Nothing { .. } => Ok(None),
            Self::Plan(plan) => Ok(Some(plan)),
            Self::Stuck(shortfall) => Err(shortfall.to_error()),
        }
    }
}

/// Plans a compaction.
///
/// # Errors
/// [`Kind::InvalidInput`] for a history that `check` refuses or a policy that contradicts itself; whatever counting errs with.
pub fn plan(request: &Request, counter: &Counter, options: &CountOptions, policy: &Policy, pages: &Pages) -> Result<Decision> {
    let model = options.model.as_deref().or(options.profile.as_ref().map(|profile| profile.id.as_str()));
    plan_by(request, &|request| counter.count(request, options), model, policy, pages)
}

/// As [`plan`], by any way of counting.
pub(super) fn plan_by(
    request: &Request,
    counting: &dyn Fn(&Request) -> Result<Count>,
    model: Option<&str>,
    policy: &Policy,
    pages: &Pages,
) -> Result<Decision> {
    let count = counting(request)?;
    let marks = policy.resolve(&count.profile)?;
    let before = count.breakdown.total();
    if before <= marks.high {
        return Ok(Decision::Nothing { before });
    }
    let conversation = request.conversation()?;
    if let Some(error) = check::refusal(&check::check_conversation(request, &conversation, model)) {
        return Err(error);
    }
    let history = History::of(request, &conversation, &count.breakdown, policy);
    let mut floor = before;
    // The low mark first; when that can't be reached, as little as gets under the high one.
    let targets = if marks.low == marks.high { vec![marks.low] } else { vec![marks.low, marks.high] };
    for target in targets {
        let mut draft = Draft::new(&history, &count.breakdown, policy, marks, pages, before);
        let mut aim = target;
        for round in 0..12 {
            let reached = draft.reach(aim);
            let built = draft.build()?;
            if built.edits.is_empty() {
                break;
            }
            let new = request.edited(&built.edits)?;
            let after = counting(&new)?.breakdown.total();
            floor = floor.min(after);
            if after <= target && after < before {
                return finish(&draft, built, new, after, target, &count, policy, model).map(Decision::Plan);
            }
            if !reached {
                break;
            }
            // The estimate was too rosy: aim lower by the miss and a little more, and in the end at nothing.
            let miss = after.saturating_sub(target);
            aim = if round > 8 { 0 } else { aim.min(draft.estimate()).saturating_sub(miss.saturating_add(miss / 8).saturating_add(8)) };
        }
    }
    let target = marks.high;
    Ok(Decision::Stuck(floor::shortfall(&history, &count.breakdown, before, target, floor)))
}

/// What is decided so far. Steps only ever add to it, so that reaching a lower aim goes on where it stopped.
pub(super) struct Draft<'p, 'h, 'a> {
    history: &'p History<'h, 'a>,
    breakdown: &'p Breakdown,
    policy: &'p Policy,
    marks: Marks,
    pages: &'p Pages,
    before: u64,
    changes: Vec<Option<(Step, Change, u64)>>,
    dropped_reads: Vec<bool>,
    trims: Vec<Trim>,
    trims_left: Option<Vec<Trim>>,
    /// How many of the units that may go are gone, oldest first.
    cut: usize,
    /// Summaries are this fraction (1/2^n) of their bound; past the last they are notes.
    squeeze: u32,
    free_units: Vec<usize>,
}

/// After this many halvings a summary becomes a note.
const NOTE: u32 = 3;
/// Tokens that a stand-in, a note and a summary's head are thought to take.
const STAND_IN: u64 = 48;

impl<'p, 'h, 'a> Draft<'p, 'h, 'a> {
    fn new(
        history: &'p History<'h, 'a>,
        breakdown: &'p Breakdown,
        policy: &'p Policy,
        marks: Marks,
        pages: &'p Pages,
        before: u64,
    ) -> Self {
        let free_units = (0..history.units.len()).filter(|at| history.units[*at].locked.is_none()).collect();
        Self {
            history,
            breakdown,
            policy,
            marks,
            pages,
            before,
            changes: vec![None; history.results.len()],
            dropped_reads: vec![false; history.units.len()],
            trims: Vec::new(),
            trims_left: None,
            cut: 0,
            squeeze: 0,
            free_units,
        }
    }

    /// What the request is thought to count with all that is decided.
    fn estimate(&self) -> u64 {
        let mut saved: u64 = self.trims.iter().map(|trim| trim.gain).sum();
        let gone = self.gone();
        for (kept, change) in self.history.results.iter().zip(&self.changes) {
            if let Some((_, _, after)) = change.as_ref().filter(|_| !gone[kept.unit]) {
                saved = saved.saturating_add(kept.tokens.saturating_sub(*after));
            }
        }
        for (unit, _) in self.history.units.iter().zip(&gone).filter(|(_, gone)| **gone) {
            saved = saved.saturating_add(unit.tokens);
        }
        for run in self.runs() {
            saved = saved.saturating_sub(self.bound(&run));
        }
        self.before.saturating_sub(saved)
    }

    /// Units that go, summarized or not.
    fn gone(&self) -> Vec<bool> {
        let mut gone = self.dropped_reads.clone();
        for at in self.runs().into_iter().flatten() {
            gone[at] = true;
        }
        gone
    }

    /// Stretches of units that one summary stands for. A kept user message or exchange parts two; system text does not.
    fn runs(&self) -> Vec<Vec<usize>> {
        let mut gone = vec![false; self.history.units.len()];
        for at in &self.free_units[..self.cut] {
            gone[*at] = true;
        }
        let mut runs: Vec<Vec<usize>> = Vec::new();
        let mut open = false;
        for (at, unit) in self.history.units.iter().enumerate() {
            if gone[at] {
                match runs.last_mut().filter(|_| open) {
                    Some(run) => run.push(at),
                    None => runs.push(vec![at]),
                }
                open = true;
            } else if unit.kind != UnitKind::Standing && !self.dropped_reads[at] {
                open = false;
            }
        }
        // What is a summary alone already stays as it is.
        runs.retain(|run| !run.iter().all(|at| self.history.units[*at].summary) || self.squeeze > 0);
        runs
    }

    fn weight(&self, run: &[usize]) -> u64 {
        run.iter().map(|at| self.history.units[*at].tokens).fold(0, u64::saturating_add)
    }

    /// Tokens that a run's summary may take.
    fn bound(&self, run: &[usize]) -> u64 {
        let weight = self.weight(run);
        let full = self.policy.summary_tokens.min(weight / 2);
        let bound = full >> self.squeeze.min(NOTE);
        let summarize = self.policy.steps.contains(&Step::Summarize);
        if self.squeeze >= NOTE || bound <= STAND_IN * 3 / 2 || !summarize { STAND_IN.min(weight) } else { bound }
    }

    /// Takes steps until the estimate is at most `aim`; `false` when none is left.
    fn reach(&mut self, aim: u64) -> bool {
        let steps: Vec<Step> = Step::ALL.into_iter().filter(|step| self.policy.steps.contains(step)).collect();
        for step in steps {
            if self.estimate() <= aim {
                return true;
            }
            match step {
                Step::Shrink => self.shrink(aim),
                Step::Clear => self.clear(aim),
                Step::Superseded => self.drop_superseded(aim),
                Step::TrimTools => self.trim(aim),
                Step::Summarize => self.cut_oldest(aim),
                Step::Drop => self.drop_oldest(aim),
            }
        }
        self.estimate() <= aim
    }

    /// Tokens of `text` where `kept` weighs what it does: by its own bytes a token.
    #[expect(clippy::cast_possible_truncation, reason = "a share of a weight in tokens")]
    fn tokens_of(&self, at: usize, change: &Change) -> u64 {
        let kept = &self.history.results[at];
        let bytes = batch::bytes(kept).max(1) as u128;
        let own = (u128::from(kept.tokens) * change.bytes as u128).div_ceil(bytes) as u64;
        // Stand-ins hold a reference, which is dearer than prose.
        own.max(STAND_IN).min(kept.tokens)
    }

    fn shrink(&mut self, aim: u64) {
        let mut estimate = self.estimate();
        for at in 0..self.history.results.len() {
            if estimate <= aim {
                return;
            }
            let kept = &self.history.results[at];
            if !kept.free || self.changes[at].is_some() || kept.tokens <= self.policy.shrink_over {
                continue;
            }
            let bytes = batch::bytes(kept) as u128;
            let budget = bytes * u128::from(self.policy.shrink_to) / u128::from(kept.tokens.max(1));
            let Some(change) = batch::shrink(self.history, kept, usize::try_from(budget).unwrap_or(usize::MAX), self.pages) else {
                continue;
            };
            let after = self.tokens_of(at, &change);
            if after.saturating_mul(2) > kept.tokens {
                continue;
            }
            estimate = estimate.saturating_sub(kept.tokens - after);
            self.changes[at] = Some((Step::Shrink, change, after));
        }
    }

    fn clear(&mut self, aim: u64) {
        let mut estimate = self.estimate();
        let mut gain = 0_u64;
        for at in 0..self.history.results.len() {
            if estimate <= aim && gain >= self.marks.min_gain {
                return;
            }
            let kept = &self.history.results[at];
            let stands = matches!(batch::stand_in(kept), Some(standin::StandIn::Cleared));
            let done = self.changes[at].as_ref().map(|(step, _, after)| (*step, *after));
            if !kept.free || stands || matches!(done, Some((Step::Clear, _))) {
                continue;
            }
            let now = done.map_or(kept.tokens, |(_, after)| after);
            if now <= STAND_IN * 3 / 2 {
                continue;
            }
            let Some(change) = batch::clear(self.history, kept, self.pages) else { continue };
            gain = gain.saturating_add(now - STAND_IN);
            estimate = estimate.saturating_sub(now - STAND_IN);
            self.changes[at] = Some((Step::Clear, change, STAND_IN));
        }
    }

    fn drop_superseded(&mut self, aim: u64) {
        for at in self.free_units.clone() {
            if self.estimate() <= aim {
                return;
            }
            let unit = &self.history.units[at];
            let mut results = self.history.results.iter().filter(|kept| kept.unit == at).peekable();
            let superseded = results.peek().is_some() && results.all(|kept| kept.superseded && kept.free);
            // Only calls and their results: what was said meanwhile is not superseded.
            let silent = self.history.messages(unit).iter().flat_map(|m| &m.items).all(|item| match &item.body {
                ItemBody::Text(text) => text.trim().is_empty(),
                ItemBody::ToolCall(call) => call.other_type.is_none(),
                ItemBody::Reasoning(_) | ItemBody::ToolResult(_) => true,
                _ => false,
            });
            if superseded && silent {
                self.dropped_reads[at] = true;
                self.free_units.retain(|free| *free != at);
            }
        }
    }

    fn trim(&mut self, aim: u64) {
        let (history, breakdown, wanted) = (self.history, self.breakdown, self.policy.trim_tools);
        let mut left = self.trims_left.take().unwrap_or_else(|| {
            let mut all = tools::trims(history, breakdown, wanted);
            all.reverse();
            all
        });
        while self.estimate() > aim {
            let Some(trim) = left.pop() else { break };
            self.trims.push(trim);
        }
        self.trims_left = Some(left);
    }

    fn cut_oldest(&mut self, aim: u64) {
        // By bisection: each try costs a walk over the units.
        while self.estimate() > aim && self.cut < self.free_units.len() {
            let (mut low, mut high) = (self.cut + 1, self.free_units.len());
            while low < high {
                self.cut = usize::midpoint(low, high);
                if self.estimate() <= aim { high = self.cut } else { low = self.cut + 1 }
            }
            self.cut = high;
        }
    }

    fn drop_oldest(&mut self, aim: u64) {
        self.cut_oldest(aim);
        while self.estimate() > aim && self.squeeze < NOTE {
            self.squeeze += 1;
        }
    }

    /// The edits of all that is decided.
    fn build(&self) -> Result<Built> {
        let history = self.history;
        let gone = self.gone();
        let mut built = Built::default();
        for trim in &self.trims {
            built.edits.push(trim.edit.clone());
            built.planned.push(PlannedEdit {
                step: Step::TrimTools,
                place: trim.edit.place().to_owned(),
                what: format!("{}: {}", trim.name, trim.what),
                why: "the policy asks for it",
                messages: 0,
                before: trim.before,
                after: trim.before.saturating_sub(trim.gain),
                reference: None,
            });
        }
        for (kept, change) in history.results.iter().zip(&self.changes) {
            let Some((step, change, after)) = change.as_ref().filter(|_| !gone[kept.unit]) else { continue };
            built.edits.extend(change.edits.iter().cloned());
            built.keep(&change.reference, change.keep.as_deref());
            built.texts.push((built.planned.len(), change.text.clone()));
            let tool: String = kept.tool.chars().take(64).collect();
            built.planned.push(PlannedEdit {
                step: *step,
                place: kept.item.place.clone(),
                what: format!("{} the result of {tool}", if *step == Step::Shrink { "shrink" } else { "clear" }),
                why: match step {
                    Step::Shrink => "larger than the policy lets results be",
                    _ if kept.superseded => "stale: the same call was made again later",
                    _ => "stale: older than the newest exchanges",
                },
                messages: 0,
                before: kept.tokens,
                after: *after,
                reference: Some(change.reference.clone()),
            });
        }
        for (at, unit) in history.units.iter().enumerate().filter(|(at, _)| self.dropped_reads[*at]) {
            let text = history.transcript(&[at]);
            let reference = self.pages.reference(&text);
            built.keep(&reference, Some(&text));
            self.remove(unit, &mut built);
            built.planned.push(PlannedEdit {
                step: Step::Superseded,
                place: history.messages(unit).first().map(|m| m.place.clone()).unwrap_or_default(),
                what: "drop the exchange".to_owned(),
                why: "the same calls were made again later",
                messages: unit.messages.len(),
                before: unit.tokens,
                after: 0,
                reference: Some(reference),
            });
        }
        for run in self.runs() {
            self.build_run(&run, &gone, &mut built)?;
        }
        built.planned.sort_by_cached_key(|edit| natural(&edit.place));
        Ok(built)
    }

    fn remove(&self, unit: &super::history::Unit, built: &mut Built) {
        built.edits.extend(self.history.messages(unit).iter().map(|m| Edit::Remove { place: m.place.clone() }));
    }

    /// Removes a run of units and puts their summary, or a note, in their place.
    fn build_run(&self, run: &[usize], gone: &[bool], built: &mut Built) -> Result<()> {
        let history = self.history;
        let mut text = history.transcript(run);
        let mut digest = Digest::of(history, run, &self.policy.keep_identifiers);
        let host = self.host(run, gone);
        // A summary that stands in that message already is merged into the new one.
        let standing = host.and_then(|(message, _)| standing_summary(message));
        if let Some((_, old)) = standing {
            text = format!("{old}\n{text}");
            digest = digest.after(old);
        }
        let reference = self.pages.reference(&text);
        let bound = self.bound(run);
        let note = bound <= STAND_IN;
        // Three bytes a token is under what prose takes, so that the bound holds as a rule; the proof sees to the rest.
        let room = usize::try_from(bound.saturating_mul(3)).unwrap_or(usize::MAX);
        let mut said = if note { standin::dropped(digest.left, &reference) } else { digest.render(&reference, room) };
        if note && !digest.must_keep().is_empty() {
            said.push_str(&format!("\nKeep: {}", digest.must_keep().join(", ")));
        }
        built.keep(&reference, Some(&text));
        for at in run {
            self.remove(&history.units[*at], built);
        }
        let first = run.first().and_then(|at| history.messages(&history.units[*at]).first());
        let first = first.ok_or_else(|| Error::new(Kind::Internal, "a run of no messages"))?;
        built.edits.push(match (host, standing) {
            (_, Some((place, _))) => Edit::set_text(format!("{place}/text"), &said),
            (Some((message, at)), None) => {
                Edit::Insert { place: format!("{}/content/{at}", message.place), json: format!("{{\"text\":{}}}", quote(&said)) }
            }
            (None, None) => Edit::Insert { place: first.place.clone(), json: user_message(history.conversation.format, &said) },
        });
        let step = if note { Step::Drop } else { Step::Summarize };
        built.texts.push((built.planned.len(), said));
        let messages = run.iter().map(|at| history.units[*at].messages.len()).sum();
        built.planned.push(PlannedEdit {
            step,
            place: first.place.clone(),
            what: format!("{} {messages} messages", if note { "drop" } else { "summarize" }),
            why: "the oldest that may go",
            messages,
            before: self.weight(run),
            after: bound,
            reference: Some(reference.clone()),
        });
        if !note && self.policy.summarizer != SummarizerKind::Extractive {
            built.tasks.push((
                SummaryTask { index: built.tasks.len(), text, bound, keep: digest.must_keep() },
                standin::summary_head(digest.left, &reference),
                self.weight(run),
            ));
        }
        Ok(())
    }

    /// The user's message that a summary joins. Only Converse needs one: it wants the roles to alternate.
    fn host(&self, run: &[usize], gone: &[bool]) -> Option<(&'h Message<'a>, usize)> {
        let history = self.history;
        if history.conversation.format != Format::Converse {
            return None;
        }
        let (first, last) = (run.first()?, run.last()?);
        let next = (last + 1..history.units.len()).find(|at| !gone[*at]).and_then(|at| history.messages(&history.units[at]).first());
        if let Some(next) = next.filter(|m| m.role != Role::Assistant) {
            return Some((next, 0));
        }
        let before = (0..*first).rev().find(|at| !gone[*at]).and_then(|at| history.messages(&history.units[at]).last());
        before.filter(|m| m.role != Role::Assistant).map(|m| (m, m.items.len()))
    }
}

/// The summary that a message holds already.
fn standing_summary<'m>(message: &'m Message<'_>) -> Option<(&'m str, &'m str)> {
    message.items.iter().find_map(|item| match &item.body {
        ItemBody::Text(text) if standin::summary_parts(text).is_some() => Some((item.place.as_str(), text.as_ref())),
        _ => None,
    })
}

/// The edits and what goes with them.
#[derive(Default)]
pub(super) struct Built {
    edits: Vec<Edit>,
    planned: Vec<PlannedEdit>,
    /// New texts by planned edit, before those were sorted.
    texts: Vec<(usize, String)>,
    pages: Vec<Entry>,
    tasks: Vec<(SummaryTask, String, u64)>,
}

impl Built {
    fn keep(&mut self, reference: &str, text: Option<&str>) {
        if let Some(text) = text.filter(|_| !self.pages.iter().any(|entry| entry.id == reference)) {
            self.pages.push(Entry { id: reference.to_owned(), text: text.to_owned() });
        }
    }
}

/// Sort key of a place: tools first where they come first in the prompt, then by index.
fn natural(place: &str) -> (bool, Vec<(usize, String)>) {
    let list = !place.starts_with("/tools") && !place.starts_with("/toolConfig") && !place.starts_with("/functions");
    (list, place.split('/').map(|key| (key.parse().unwrap_or(0), key.to_owned())).collect())
}

/// Packs a proved draft.
#[expect(clippy::too_many_arguments, reason = "one caller; all are facts of one planning")]
fn finish(
    draft: &Draft<'_, '_, '_>,
    built: Built,
    new: Request,
    after: u64,
    target: u64,
    count: &Count,
    policy: &Policy,
    model: Option<&str>,
) -> Result<Plan> {
    let conversation = new.conversation().map_err(|e| e.context("reading the compacted history"))?;
    if let Some(error) = check::refusal(&check::check_conversation(&new, &conversation, model)) {
        return Err(Error::new(Kind::Internal, format!("compaction would break the history: {error}")));
    }
    let mut slots = slots(&new, &conversation, &built);
    let mut edits = built.planned;
    if let Ok(tokenizer) = Tokenizer::by_name(&count.profile.tokenizer) {
        let by_reference =
            |reference: &Option<String>| built.texts.iter().find(|(_, text)| reference.as_deref().is_some_and(|r| text.contains(r)));
        for edit in &mut edits {
            if let Some((_, text)) = by_reference(&edit.reference) {
                edit.after = tokenizer.count(text) as u64;
                for slot in slots.iter_mut().filter(|slot| text.starts_with(&slot.head)) {
                    slot.extractive = edit.after;
                }
            }
        }
    }
    let cache_broken_from = unbroken(&count.breakdown, &built.edits);
    let original = draft.history.request.text();
    let id = reference("pl", draft.pages.tenant(), &format!("{original}\u{0}{}", new.text()));
    let mut plan = Plan {
        id,
        before: draft.before,
        after,
        target,
        edits,
        cache_broken_from,
        break_even_turns: None,
        tasks: built.tasks.into_iter().map(|(task, _, _)| task).collect(),
        request: new,
        pages: built.pages,
        slots,
    };
    plan.break_even_turns = plan.break_even(policy.cached_price);
    Ok(plan)
}

/// Where the summaries to be written elsewhere stand in the new request.
fn slots(request: &Request, conversation: &Conversation<'_>, built: &Built) -> Vec<Slot> {
    let items = || conversation.messages.iter().flat_map(|m| &m.items);
    built
        .tasks
        .iter()
        .filter_map(|(_, head, replaced)| {
            let item = items().find(|item| matches!(&item.body, ItemBody::Text(text) if text.starts_with(head.as_str())))?;
            // A text stands as a string itself, as the content of a message, or as the text of a block.
            let place = ["", "/text", "/content"]
                .into_iter()
                .map(|tail| format!("{}{tail}", item.place))
                .find(|place| request.value().pointer(place).is_some_and(serde_json::Value::is_string))?;
            Some(Slot { place, head: head.clone(), extractive: 0, replaced: *replaced })
        })
        .collect()
}

/// Tokens before the first edited part, in prompt order.
fn unbroken(breakdown: &Breakdown, edits: &[Edit]) -> u64 {
    let touched: std::collections::HashSet<&str> = edits.iter().map(Edit::place).collect();
    let hit = |place: &str| {
        // An edit of a part, of something inside it, or of the message or definition that holds it.
        let mut up = place;
        loop {
            if touched.contains(up) {
                return true;
            }
            match up.rfind('/') {
                Some(slash) => up = &up[..slash],
                None => break,
            }
        }
        !place.is_empty() && touched.iter().any(|edit| edit.strip_prefix(place).is_some_and(|rest| rest.starts_with('/')))
    };
    breakdown.parts().iter().take_while(|part| !hit(&part.place)).map(|part| part.tokens).fold(0, u64::saturating_add)
}

impl Plan {
    /// The new request, as [`Plan::apply`] will hand it out: for looking at, since nothing is kept yet.
    pub fn preview(&self) -> &Request {
        &self.request
    }

    /// Texts that will be kept: (reference, text).
    pub fn kept(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pages.iter().map(|entry| (entry.id.as_str(), entry.text.as_str()))
    }

    /// Turns until the smaller prompt has paid for the tokens billed again at the full price.
    #[expect(clippy::cast_precision_loss, reason = "a ratio of token counts")]
    fn break_even(&self, cached_price: f64) -> Option<f64> {
        let again = self.after.saturating_sub(self.cache_broken_from) as f64 * (1.0 - cached_price);
        let saved = self.before.saturating_sub(self.after) as f64 * cached_price;
        (saved > 0.0).then(|| (again / saved * 10.0).round() / 10.0)
    }

    /// The same plan with summaries by `summarizer` where they are sound; the built-in ones stand where not.
    ///
    /// # Errors
    /// Whatever counting errs with; a summarizer that fails is no error.
    pub fn summarized_by(self, summarizer: &dyn Summarizer, counter: &Counter, options: &CountOptions, pages: &Pages) -> Result<Self> {
        let texts: Vec<Option<String>> = self.tasks.iter().map(|task| summarizer.summarize(task).ok()).collect();
        self.with_summaries(&texts, counter, options, pages)
    }

    /// The same plan with the host's summaries, by task. One that is missing, empty, not smaller than what it replaces, over
    /// its bound or without an identifier that it must keep is passed over: the built-in summary stands.
    ///
    /// # Errors
    /// Whatever counting errs with.
    pub fn with_summaries(self, texts: &[Option<String>], counter: &Counter, options: &CountOptions, pages: &Pages) -> Result<Self> {
        self.with_summaries_by(texts, &|request| counter.count(request, options), pages)
    }

    pub(super) fn with_summaries_by(
        mut self,
        texts: &[Option<String>],
        counting: &dyn Fn(&Request) -> Result<Count>,
        pages: &Pages,
    ) -> Result<Self> {
        let mut request = self.request.clone();
        let mut after = self.after;
        for ((task, slot), text) in self.tasks.iter().zip(&self.slots).zip(texts) {
            let Some(text) = text.as_deref().map(str::trim).filter(|text| !text.is_empty()) else { continue };
            if !task.keep.iter().all(|word| text.contains(word.as_str())) {
                continue;
            }
            let said = format!("{}\n{text}", slot.head);
            let candidate = request.edited(&[Edit::set_text(slot.place.as_str(), &said)])?;
            let total = counting(&candidate)?.breakdown.total();
            let grown = total.saturating_sub(after);
            let smaller = slot.extractive.saturating_add(grown) < slot.replaced;
            if total <= self.target && total < self.before && smaller {
                request = candidate;
                after = total;
            }
        }
        if after != self.after || request.text() != self.request.text() {
            self.id = reference("pl", pages.tenant(), &format!("{}\u{0}{}", self.id, request.text()));
            self.request = request;
            self.after = after;
        }
        Ok(self)
    }
}
