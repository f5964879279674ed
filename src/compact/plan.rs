//! The planner: which edits, in order of harm, bring a request to its target; proved by a whole count before it is handed out.
//!
//! Pure: reads the request, the count, the policy and (only to know its own stand-ins) the page store; writes nothing.
//! Estimates by the parts' weights while it decides, counts whole to prove, tightens and goes on when the proof misses.
//! Same input, same policy, same plan, byte for byte (invariant 10).

use super::build::Built;
use super::draft::Draft;
use super::floor::{self, Stuck};
use super::history::History;
use super::policy::Policy;
use super::standin;
use super::summary::Summarizer;
use crate::check;
use crate::count::{Breakdown, Count, CountOptions, Counter, TextMemory};
use crate::error::{Error, Kind, Result};
use crate::format::{Conversation, Edit, Edited, Item, ItemBody, Place, Request};
use crate::pages::{Entry, Pages, reference};
use crate::tokenizer::Tokenizer;
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, VecDeque};
use twox_hash::XxHash3_64;

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
    /// Tasks whose summary by a host or endpoint was taken.
    pub summarized: Vec<usize>,
    /// Hash of the request that was planned.
    pub(super) planned: u64,
    pub(super) request: Request,
    pub(super) pages: Vec<Entry>,
    pub(super) slots: Vec<Slot>,
}

/// Where a task's summary stands in the new request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) task: usize,
    /// The item that holds it.
    pub(super) item: Place,
    /// Its text.
    pub(super) place: Place,
    pub(super) head: String,
    pub(super) extractive: u64,
    pub(super) replaced: u64,
}

/// What a policy comes to for a request.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "made once a request and taken apart at once")]
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
    // The tries hold mostly the same texts: each is weighed once.
    let known = TextMemory::default();
    let weighing = Weighing {
        count: &|_, conversation| counter.count_view(conversation, options, Some(&known)),
        tokenizer: &|name| counter.tokenizer(name, Some(&known)).ok(),
    };
    plan_with(request, &weighing, model, policy, pages)
}

/// How the planner weighs.
struct Weighing<'w> {
    /// A whole request, by its view.
    count: &'w dyn Fn(&Request, &Conversation<'_>) -> Result<Count>,
    /// The tokenizer of a vocabulary, for texts by themselves.
    tokenizer: &'w dyn Fn(&str) -> Option<Tokenizer>,
}

/// As [`plan`], by any way of counting.
#[cfg(test)]
pub(super) fn plan_by(
    request: &Request,
    counting: &dyn Fn(&Request) -> Result<Count>,
    model: Option<&str>,
    policy: &Policy,
    pages: &Pages,
) -> Result<Decision> {
    plan_with(request, &Weighing { count: &|request, _| counting(request), tokenizer: &|_| None }, model, policy, pages)
}

fn plan_with(request: &Request, weighing: &Weighing<'_>, model: Option<&str>, policy: &Policy, pages: &Pages) -> Result<Decision> {
    let conversation = request.conversation()?;
    let count = (weighing.count)(request, &conversation)?;
    let marks = policy.resolve(&count.profile)?;
    let before = count.breakdown.total();
    if before <= marks.high {
        return Ok(Decision::Nothing { before });
    }
    if let Some(error) = check::refusal(&check::check_conversation(request, &conversation, model)) {
        return Err(error);
    }
    let history = History::of(request, &conversation, &count.breakdown, policy);
    let tokenizer = (weighing.tokenizer)(&count.profile.tokenizer);
    let mut floor = before;
    // The low mark first; when that can't be reached, as little as gets under the high one.
    let targets = if marks.low == marks.high { vec![marks.low] } else { vec![marks.low, marks.high] };
    for target in targets {
        let mut draft = Draft::new(&history, &count.breakdown, policy, marks, pages, before).by(tokenizer.as_ref());
        // A little lower at once: a try that misses by a few tokens costs as much as one that holds.
        let mut aim = target - target / 400;
        for round in 0..12 {
            let reached = draft.reach(aim);
            let built = draft.build()?;
            if built.edits.is_empty() {
                break;
            }
            let new = Edited::of(request, &conversation, history.spans(), &built.edits)?;
            let view = new.view().map_err(|e| e.context("reading the compacted history"))?;
            let after = (weighing.count)(new.request(), &view)?.breakdown.total();
            floor = floor.min(after);
            if after <= target && after < before {
                let proof =
                    Proof { new: &new, view: &view, after, target, tokenizer: tokenizer.as_ref(), vocabulary: &count.profile.tokenizer };
                let mut plan = finish(&draft, built, &proof, &count.breakdown, policy, model)?;
                drop(view);
                plan.request = new.into_request();
                return Ok(Decision::Plan(plan));
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

/// A request that fits, as it was weighed.
struct Proof<'r> {
    new: &'r Edited<'r>,
    view: &'r Conversation<'r>,
    after: u64,
    target: u64,
    tokenizer: Option<&'r Tokenizer>,
    vocabulary: &'r str,
}

/// Packs a proved draft. The plan's request is still the old one.
fn finish(
    draft: &Draft<'_, '_, '_>,
    built: Built,
    proof: &Proof<'_>,
    breakdown: &Breakdown,
    policy: &Policy,
    model: Option<&str>,
) -> Result<Plan> {
    let new = proof.new.request();
    if let Some(error) = check::broken_by_edits(new, proof.view, model, proof.new.untouched()) {
        return Err(Error::new(Kind::Internal, format!("compaction would break the history: {error}")));
    }
    let mut slots = slots(new, proof.view, &built.tasks);
    // Two runs may say the same.
    let mut by_head: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, slot) in slots.iter().enumerate() {
        by_head.entry(slot.head.clone()).or_default().push(at);
    }
    let mut edits = built.planned;
    if let Some(tokenizer) = proof.tokenizer.cloned().or_else(|| Tokenizer::by_name(proof.vocabulary).ok()) {
        for edit in &mut edits {
            let Some(text) = edit.reference.as_ref().and_then(|reference| built.texts.get(reference)) else { continue };
            edit.after = tokenizer.count(text) as u64;
            for at in standin::head_of(text).and_then(|head| by_head.get(head)).into_iter().flatten() {
                slots[*at].extractive = edit.after;
            }
        }
    }
    let cache_broken_from = unbroken(breakdown, &built.edits);
    let original = draft.history.request;
    let id = reference("pl", draft.pages.tenant(), &[original.text(), new.text()]);
    let mut plan = Plan {
        id,
        before: draft.before,
        after: proof.after,
        target: proof.target,
        edits,
        cache_broken_from,
        break_even_turns: None,
        tasks: built.tasks.into_iter().map(|(task, _, _)| task).collect(),
        summarized: Vec::new(),
        planned: XxHash3_64::oneshot(original.text().as_bytes()),
        request: Request::empty(),
        pages: built.pages,
        slots,
    };
    plan.break_even_turns = plan.break_even(policy.cached_price);
    Ok(plan)
}

/// Where the summaries to be written elsewhere stand in the new request: each in the first text that starts with its head and is no
/// earlier one's.
pub(super) fn slots(request: &Request, conversation: &Conversation<'_>, tasks: &[(SummaryTask, String, u64)]) -> Vec<Slot> {
    let mut items: HashMap<&str, VecDeque<&Item<'_>>> = tasks.iter().map(|(_, head, _)| (head.as_str(), VecDeque::new())).collect();
    for item in conversation.messages.iter().filter(|_| !tasks.is_empty()).flat_map(|m| &m.items) {
        if let ItemBody::Text(text) = &item.body
            && let Some(found) = standin::head_of(text).and_then(|head| items.get_mut(head))
        {
            found.push_back(item);
        }
    }
    let slot = |(task, head, replaced): &(SummaryTask, String, u64)| {
        let item = items.get_mut(head.as_str())?.pop_front()?;
        // A text stands as a string itself, as the content of a message, or as the text of a block.
        let place = ["", "/text", "/content"]
            .into_iter()
            .map(|tail| format!("{}{tail}", item.place))
            .find(|place| request.value().pointer(place).is_some_and(serde_json::Value::is_string))?;
        Some(Slot { task: task.index, item: item.place.clone(), place, head: head.clone(), extractive: 0, replaced: *replaced })
    };
    tasks.iter().filter_map(slot).collect()
}

/// Tokens before the first edited part, in prompt order.
fn unbroken(breakdown: &Breakdown, edits: &[Edit]) -> u64 {
    let touched: FxHashSet<&str> = edits.iter().map(Edit::place).collect();
    // What holds an edited place.
    let mut above: FxHashSet<&str> = FxHashSet::default();
    for edit in edits {
        let mut up = edit.place();
        while let Some(slash) = up.rfind('/') {
            up = &up[..slash];
            if !above.insert(up) {
                break;
            }
        }
    }
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
        !place.is_empty() && above.contains(place)
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
    /// its bound or without an identifier that it must keep is passed over: the built-in summary stands. Costs a few counts, however
    /// many tasks there are.
    ///
    /// # Errors
    /// Whatever counting errs with.
    pub fn with_summaries(self, texts: &[Option<String>], counter: &Counter, options: &CountOptions, pages: &Pages) -> Result<Self> {
        let known = TextMemory::default();
        self.with_summaries_by(texts, &|request| counter.count_view(&request.conversation()?, options, Some(&known)), pages)
    }

    pub(super) fn with_summaries_by(
        mut self,
        texts: &[Option<String>],
        counting: &dyn Fn(&Request) -> Result<Count>,
        pages: &Pages,
    ) -> Result<Self> {
        let offer = |slot| {
            let Slot { task, place, head, .. }: &Slot = slot;
            let text = texts.get(*task)?.as_deref().map(str::trim).filter(|text| !text.is_empty())?;
            let sound = self.tasks.get(*task)?.keep.iter().all(|word| text.contains(word.as_str()));
            sound.then(|| (slot, Edit::set_text(place.as_str(), &format!("{head}\n{text}"))))
        };
        let offered: Vec<(&Slot, Edit)> = self.slots.iter().filter_map(offer).collect();
        if offered.is_empty() {
            return Ok(self);
        }
        let with = |chosen: &[&(&Slot, Edit)]| self.request.edited(&chosen.iter().map(|(_, edit)| edit.clone()).collect::<Vec<_>>());
        // One count of all tells what each weighs: the parts of a count add up to it.
        let weigh = |request: &Request| Ok::<_, Error>(tokens_in(&counting(request)?.breakdown, &offered));
        let (old, new) = (weigh(&self.request)?, weigh(&with(&offered.iter().collect::<Vec<_>>())?)?);
        let fits = |total: u64| total <= self.target && total < self.before;
        let mut total = self.after;
        let mut chosen = Vec::new();
        for ((offer, old), new) in offered.iter().zip(old).zip(new) {
            let next = total.saturating_sub(old).saturating_add(new);
            if fits(next) && offer.0.extractive.saturating_add(new.saturating_sub(old)) < offer.0.replaced {
                total = next;
                chosen.push(offer);
            }
        }
        // The whole has the last word; what it holds against them, it holds against the last ones.
        while !chosen.is_empty() {
            let request = with(&chosen)?;
            let after = counting(&request)?.breakdown.total();
            if fits(after) {
                self.summarized.extend(chosen.iter().map(|(slot, _)| slot.task));
                self.id = reference("pl", pages.tenant(), &[&self.id, request.text()]);
                (self.request, self.after) = (request, after);
                break;
            }
            chosen.truncate(chosen.len() / 2);
        }
        Ok(self)
    }
}

/// Tokens of the parts that stand in the item of each offered summary.
fn tokens_in(breakdown: &Breakdown, offered: &[(&Slot, Edit)]) -> Vec<u64> {
    let by_item: HashMap<&str, usize> = offered.iter().enumerate().map(|(at, (slot, _))| (slot.item.as_str(), at)).collect();
    let mut tokens = vec![0_u64; offered.len()];
    for part in breakdown.parts() {
        let mut up = part.place.as_str();
        while !up.is_empty() {
            if let Some(at) = by_item.get(up) {
                tokens[*at] = tokens[*at].saturating_add(part.tokens);
                break;
            }
            up = up.rfind('/').map_or("", |slash| &up[..slash]);
        }
    }
    tokens
}
