//! Applying a plan: first everything that is cut is kept, then the new request is handed out; and the way back.
//!
//! One put of the store for all pages and the plan's own record, so that a request is handed out only when nothing
//! can be lost any more (invariant 9).

use super::plan::{Plan, PlannedEdit};
use crate::error::{Error, Kind, Result};
use crate::format::{Format, Request, quote};
use crate::pages::{Entry, Hit, Pages, reference};
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

/// What was done.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The new request.
    pub request: Request,
    /// Tokens before.
    pub before: u64,
    /// Tokens after.
    pub after: u64,
    /// What was edited.
    pub edits: Vec<PlannedEdit>,
    /// Id for [`undo`].
    pub undo: String,
    /// Tokens at the start of the prompt that a provider's cache still holds.
    pub cache_broken_from: u64,
    /// Tasks whose summary by a host or endpoint stands in the new request.
    pub summarized: Vec<usize>,
}

/// A plan as it is kept: this as JSON on the first line, the original request after it as it came. The first version held the request
/// as a string of its JSON.
#[derive(Serialize, Deserialize)]
struct Record {
    version: u32,
    format: String,
    #[serde(default, skip_serializing)]
    request: String,
    pages: Vec<String>,
}

impl Plan {
    /// Keeps what the plan cuts, then hands the new request out. `original` is what undo gives back: the request that was
    /// planned, or the one that it was mended from.
    ///
    /// # Errors
    /// As [`crate::PageStore::put`]; the request is then as it was, and nothing was cut.
    pub fn apply(self, original: &Request, pages: &Pages) -> Result<Outcome> {
        let record = Record {
            version: 2,
            format: original.format().to_string(),
            request: String::new(),
            pages: self.edits.iter().filter_map(|edit| edit.reference.clone()).collect(),
        };
        let planned = XxHash3_64::oneshot(original.text().as_bytes()) == self.planned;
        let id = if planned { self.id } else { reference("pl", pages.tenant(), &[&self.id, original.text()]) };
        let mut text =
            serde_json::to_string(&record).map_err(|e| Error::new(Kind::Internal, "a plan could not be written").caused_by(e))?;
        text.reserve_exact(original.text().len() + 1);
        text.push('\n');
        text.push_str(original.text());
        let mut entries = self.pages;
        entries.push(Entry { id: id.clone(), text });
        pages.keep_all(&entries).map_err(|e| e.context("keeping what the plan cuts"))?;
        Ok(Outcome {
            request: self.request,
            before: self.before,
            after: self.after,
            edits: self.edits,
            undo: id,
            cache_broken_from: self.cache_broken_from,
            summarized: self.summarized,
        })
    }
}

/// The request as it was before the plan with this id, byte for byte.
///
/// # Errors
/// [`Kind::NotFound`] when the plan is not in this tenant's store (any more), [`Kind::Corrupt`] when its record is damaged.
pub fn undo(pages: &Pages, plan: &str) -> Result<Request> {
    let record = record(pages, plan)?;
    let format = record.format.parse().map_err(|e: Error| e.context("reading a kept plan"))?;
    Request::parse(record.request.as_bytes(), format)
}

/// References of what a plan cut, in the order of its edits: for searching all of it.
///
/// # Errors
/// As [`undo`].
pub fn plan_pages(pages: &Pages, plan: &str) -> Result<Vec<String>> {
    let mut list = record(pages, plan)?.pages;
    list.dedup();
    Ok(list)
}

/// Searches a page, or with a plan's id all that the plan cut: the first `limit` matching lines with the reference of each,
/// and whether there are more.
///
/// # Errors
/// As [`undo`] and [`Pages::search`].
pub fn search_kept(pages: &Pages, reference: &str, pattern: &str, limit: usize) -> Result<(Vec<(String, Hit)>, bool)> {
    let references = if reference.starts_with("pl_") { plan_pages(pages, reference)? } else { vec![reference.to_owned()] };
    let (mut found, mut more) = (Vec::new(), false);
    for reference in references {
        let left = limit.saturating_sub(found.len());
        if left == 0 {
            more = true;
            break;
        }
        let (hits, rest) = pages.search(&reference, pattern, left)?;
        more |= rest;
        found.extend(hits.into_iter().map(|hit| (reference.clone(), hit)));
    }
    Ok((found, more))
}

fn record(pages: &Pages, plan: &str) -> Result<Record> {
    if !plan.starts_with("pl_") {
        return Err(Error::new(Kind::NotFound, "a plan's id starts with `pl_`"));
    }
    let text = pages.text(plan)?;
    let (head, request) = text.split_once('\n').unwrap_or((&text, ""));
    let record: Record = serde_json::from_str(head).map_err(|e| Error::new(Kind::Corrupt, "the plan's record is damaged").caused_by(e))?;
    Ok(if record.version == 1 { record } else { Record { request: request.to_owned(), ..record } })
}

/// A user's message that says `text`, in a format's JSON.
pub(super) fn user_message(format: Format, text: &str) -> String {
    let text = quote(text);
    match format {
        Format::Chat | Format::Mcp => format!("{{\"role\":\"user\",\"content\":{text}}}"),
        Format::Responses => {
            format!("{{\"type\":\"message\",\"role\":\"user\",\"content\":[{{\"type\":\"input_text\",\"text\":{text}}}]}}")
        }
        Format::Anthropic => format!("{{\"role\":\"user\",\"content\":[{{\"type\":\"text\",\"text\":{text}}}]}}"),
        Format::Gemini => format!("{{\"role\":\"user\",\"parts\":[{{\"text\":{text}}}]}}"),
        Format::Converse => format!("{{\"role\":\"user\",\"content\":[{{\"text\":{text}}}]}}"),
    }
}
