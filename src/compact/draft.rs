//! What a plan has decided so far: the steps, in order of harm, each going only as far as the aim needs.
//!
//! Made and driven by the planner. Pure: estimates by the parts' weights, writes nothing, counts nothing whole. Steps only
//! ever add, so that a lower aim goes on where the last one stopped (invariants 8 and 10).

use super::batch::{self, Change};
use super::history::{History, UnitKind};
use super::plan::Step;
use super::policy::{Marks, Policy};
use super::standin;
use super::tools::{self, Trim};
use crate::count::Breakdown;
use crate::format::{Format, ItemBody, Message, Role, ToolContent, ToolContentBody};
use crate::pages::Pages;
use crate::tokenizer::Tokenizer;

/// What is decided so far. Steps only ever add to it, so that reaching a lower aim goes on where it stopped.
pub(super) struct Draft<'p, 'h, 'a> {
    pub(super) history: &'p History<'h, 'a>,
    breakdown: &'p Breakdown,
    pub(super) policy: &'p Policy,
    marks: Marks,
    pub(super) pages: &'p Pages,
    pub(super) before: u64,
    pub(super) changes: Vec<Option<(Step, Change, u64)>>,
    pub(super) dropped_reads: Vec<bool>,
    pub(super) trims: Vec<Trim>,
    trims_left: Option<Vec<Trim>>,
    /// How many of the units that may go are gone, oldest first.
    cut: usize,
    /// Summaries are this fraction (1/2^n) of their bound; past the last they are notes.
    squeeze: u32,
    free_units: Vec<usize>,
    tokenizer: Option<&'p Tokenizer>,
}

/// After this many halvings a summary becomes a note.
const NOTE: u32 = 3;
/// Tokens that a stand-in, a note and a summary's head are thought to take.
pub(super) const STAND_IN: u64 = 48;

impl<'p, 'h, 'a> Draft<'p, 'h, 'a> {
    pub(super) fn new(
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
            tokenizer: None,
        }
    }

    /// The same draft with texts weighed by a tokenizer instead of by their bytes.
    pub(super) fn by(mut self, tokenizer: Option<&'p Tokenizer>) -> Self {
        self.tokenizer = tokenizer;
        self
    }

    /// What the request is thought to count with all that is decided.
    pub(super) fn estimate(&self) -> u64 {
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
    pub(super) fn gone(&self) -> Vec<bool> {
        let mut gone = self.dropped_reads.clone();
        for at in self.runs().into_iter().flatten() {
            gone[at] = true;
        }
        gone
    }

    /// Stretches of units that one summary stands for. A kept user message or exchange parts two; system text does not.
    pub(super) fn runs(&self) -> Vec<Vec<usize>> {
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
        if self.history.conversation.format == Format::Converse {
            // Of what parts two messages of the user its last answer stays: the roles must alternate.
            gone.iter_mut().zip(&self.dropped_reads).for_each(|(gone, dropped)| *gone |= dropped);
            for run in &mut runs {
                if let (Some(before), Some(next)) = self.around(run, &gone)
                    && before.role != Role::Assistant
                    && next.role != Role::Assistant
                {
                    run.pop();
                }
            }
            runs.retain(|run| !run.is_empty());
        }
        // What is a summary alone already stays as it is.
        runs.retain(|run| !run.iter().all(|at| self.history.units[*at].summary) || self.squeeze > 0);
        runs
    }

    /// The messages that stay right before and after a run.
    pub(super) fn around(&self, run: &[usize], gone: &[bool]) -> (Option<&'h Message<'a>>, Option<&'h Message<'a>>) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return (None, None) };
        let messages = |at: usize| self.history.messages(&self.history.units[at]);
        let before = (0..*first).rev().find(|at| !gone[*at]).and_then(|at| messages(at).last());
        let next = (last + 1..gone.len()).find(|at| !gone[*at]).and_then(|at| messages(at).first());
        (before, next)
    }

    pub(super) fn weight(&self, run: &[usize]) -> u64 {
        run.iter().map(|at| self.history.units[*at].tokens).fold(0, u64::saturating_add)
    }

    /// Tokens that a run's summary may take.
    pub(super) fn bound(&self, run: &[usize]) -> u64 {
        let weight = self.weight(run);
        let full = self.policy.summary_tokens.min(weight / 2);
        let bound = full >> self.squeeze.min(NOTE);
        let summarize = self.policy.steps.contains(&Step::Summarize);
        if self.squeeze >= NOTE || bound <= STAND_IN * 3 / 2 || !summarize { STAND_IN.min(weight) } else { bound }
    }

    /// Takes steps until the estimate is at most `aim`; `false` when none is left.
    pub(super) fn reach(&mut self, aim: u64) -> bool {
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

    /// Tokens of a change where the result weighs what it does: by the ratio of what a tokenizer counts, or of the bytes.
    #[expect(clippy::cast_possible_truncation, reason = "a share of a weight in tokens")]
    fn tokens_of(&self, at: usize, change: &Change) -> u64 {
        let kept = &self.history.results[at];
        let (old, new) = match (self.tokenizer, kept.result.content.as_slice()) {
            (Some(tokenizer), [ToolContent { body: ToolContentBody::Text(text), .. }]) => {
                (tokenizer.count(text), tokenizer.count(&change.text))
            }
            _ => (batch::bytes(kept), change.bytes),
        };
        let own = (u128::from(kept.tokens) * new as u128).div_ceil(old.max(1) as u128) as u64;
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
        // Gemini's stand in an object, and pay for each digit of the reference.
        let stand_in = if self.history.conversation.format == Format::Gemini { STAND_IN * 4 / 3 } else { STAND_IN };
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
            let shrunk = self.changes[at].as_ref().map(|(_, change, _)| change);
            let Some(change) = batch::clear(self.history, kept, shrunk, self.pages) else { continue };
            let freed = now.saturating_sub(stand_in);
            gain = gain.saturating_add(freed);
            estimate = estimate.saturating_sub(freed);
            self.changes[at] = Some((Step::Clear, change, stand_in));
        }
    }

    fn drop_superseded(&mut self, aim: u64) {
        let mut estimate = self.estimate();
        for at in &self.free_units {
            if estimate <= aim {
                break;
            }
            let unit = &self.history.units[*at];
            let results = self.history.results_of(*at);
            let superseded = !results.is_empty() && self.history.results[results.clone()].iter().all(|kept| kept.superseded && kept.free);
            // Only calls and their results: what was said meanwhile is not superseded.
            let silent = self.history.messages(unit).iter().flat_map(|m| &m.items).all(|item| match &item.body {
                ItemBody::Text(text) => text.trim().is_empty(),
                ItemBody::ToolCall(call) => call.other_type.is_none(),
                ItemBody::Reasoning(_) | ItemBody::ToolResult(_) => true,
                _ => false,
            });
            if superseded && silent {
                self.dropped_reads[*at] = true;
                // What its results would have saved by themselves goes with them.
                let saved = results
                    .filter_map(|at| self.changes[at].as_ref().map(|(_, _, after)| self.history.results[at].tokens.saturating_sub(*after)));
                estimate = estimate.saturating_sub(unit.tokens.saturating_sub(saved.sum()));
            }
        }
        let dropped = &self.dropped_reads;
        self.free_units.retain(|at| !dropped[*at]);
    }

    fn trim(&mut self, aim: u64) {
        let (history, breakdown, wanted) = (self.history, self.breakdown, self.policy.trim_tools);
        let mut left = self.trims_left.take().unwrap_or_else(|| {
            let mut all = tools::trims(history, breakdown, wanted);
            all.reverse();
            all
        });
        let mut estimate = self.estimate();
        while estimate > aim {
            let Some(trim) = left.pop() else { break };
            estimate = estimate.saturating_sub(trim.gain);
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
}
