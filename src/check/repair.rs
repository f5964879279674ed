//! Mending a history by its findings' own fixes, round after round, until nothing more can be mended.
//!
//! Fixes only remove, move, join, trim or name; none invents content. Those of one round never touch the same message,
//! because places are of the body before the round.

use super::{Finding, check};
use crate::error::Result;
use crate::format::Request;
use std::collections::HashSet;

/// Rounds at most: each mends at least one finding of every message that has one.
const ROUNDS: usize = 64;

/// What a repair did.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// The mended request; the same text when nothing was done.
    pub request: Request,
    /// What was mended, in order.
    pub mended: Vec<Finding>,
    /// What is left.
    pub left: Vec<Finding>,
}

/// Mends what can be mended without inventing content. The same input gives the same bytes.
///
/// # Errors
/// [`crate::Kind::Internal`] when a fix can't be applied (a defect of this crate).
pub fn repair(request: &Request, model: Option<&str>) -> Result<Repaired> {
    let mut request = request.clone();
    let mut mended = Vec::new();
    for _ in 0..ROUNDS {
        let mut touched = HashSet::new();
        let mut edits = Vec::new();
        for finding in check(&request, model) {
            let Some(fix) = &finding.fix else { continue };
            let messages: Vec<String> = fix.edits.iter().map(|edit| message_of(edit.place())).collect();
            if messages.iter().any(|m| touched.contains(m)) {
                continue;
            }
            touched.extend(messages);
            edits.extend(fix.edits.iter().cloned());
            mended.push(finding);
        }
        if edits.is_empty() {
            break;
        }
        request = request.edited(&edits).map_err(|e| e.context("mending the history"))?;
    }
    let left = check(&request, model);
    Ok(Repaired { request, mended, left })
}

/// The message that a place stands in: its first two keys.
fn message_of(place: &str) -> String {
    place.split('/').take(3).collect::<Vec<_>>().join("/")
}
