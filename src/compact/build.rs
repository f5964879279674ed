//! A draft's decisions as edits: what is put where, what is kept as pages, and what a person is told of it.
//!
//! Called by the planner once a draft has reached its aim; decides nothing more. Every text that an edit takes out is among
//! the pages (invariant 9); texts and places follow from the draft alone (invariant 10).

use super::apply::user_message;
use super::draft::{Draft, STAND_IN};
use super::history::Unit;
use super::plan::{PlannedEdit, Step, SummaryTask};
use super::policy::SummarizerKind;
use super::standin;
use super::summary::Digest;
use crate::error::{Error, Kind, Result};
use crate::format::{Edit, Format, ItemBody, Message, Role, quote};
use crate::pages::Entry;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

impl<'h, 'a> Draft<'_, 'h, 'a> {
    /// The edits of all that is decided.
    pub(super) fn build(&self) -> Result<Built> {
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
            if change.keep {
                built.keep(&change.reference, || history.kept_text(kept.result).into_owned());
            }
            built.texts.entry(change.reference.clone()).or_insert_with(|| change.text.clone());
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
            built.keep(&reference, || text);
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
        built.planned.sort_by(|a, b| natural(&a.place, &b.place));
        Ok(built)
    }

    fn remove(&self, unit: &Unit, built: &mut Built) {
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
        let task = (!note && self.policy.summarizer != SummarizerKind::Extractive).then(|| text.clone());
        built.keep(&reference, || text);
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
        built.texts.entry(reference.clone()).or_insert(said);
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
        if let Some(text) = task {
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
        if self.history.conversation.format != Format::Converse {
            return None;
        }
        let (before, next) = self.around(run, gone);
        let theirs = |m: &&Message<'_>| m.role != Role::Assistant;
        next.filter(theirs).map(|m| (m, 0)).or_else(|| before.filter(theirs).map(|m| (m, m.items.len())))
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
    pub(super) edits: Vec<Edit>,
    pub(super) planned: Vec<PlannedEdit>,
    /// New texts by the reference that they name.
    pub(super) texts: HashMap<String, String>,
    pub(super) pages: Vec<Entry>,
    kept: HashSet<String>,
    pub(super) tasks: Vec<(SummaryTask, String, u64)>,
}

impl Built {
    fn keep(&mut self, reference: &str, text: impl FnOnce() -> String) {
        if self.kept.insert(reference.to_owned()) {
            self.pages.push(Entry { id: reference.to_owned(), text: text() });
        }
    }
}

/// The order of two places: tools first where they come first in the prompt, then by index.
fn natural(a: &str, b: &str) -> Ordering {
    let list = |place: &str| !place.starts_with("/tools") && !place.starts_with("/toolConfig") && !place.starts_with("/functions");
    let keys = |place| str::split(place, '/').map(|key| (key.parse().unwrap_or(0_usize), key));
    list(a).cmp(&list(b)).then_with(|| keys(a).cmp(keys(b)))
}
