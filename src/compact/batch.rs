//! Edits of single tool results: shrinking, clearing, and the JSON they become in each format.
//!
//! Used by the planner. A result that is edited keeps its id, its error flag and its place; only what it says changes.
//! The text that leaves is kept under the reference that the stand-in names (invariant 9).

use super::history::{History, Kept};
use super::shrink;
use super::standin::{self, StandIn};
use crate::format::{Edit, Format, ToolContentBody, ToolResult, quote};
use crate::pages::Pages;
use serde_json::Value;

/// What is done to one result.
#[derive(Clone, Debug)]
pub(super) struct Change {
    /// The edits, in the original's places.
    pub(super) edits: Vec<Edit>,
    /// Bytes of what it says afterwards.
    pub(super) bytes: usize,
    /// Where the original can be read.
    pub(super) reference: String,
    /// Whether the original is to be kept there: it is not yet.
    pub(super) keep: bool,
    /// What it says afterwards.
    pub(super) text: String,
}

/// Bytes of what a result says.
pub(super) fn bytes(kept: &Kept<'_, '_>) -> usize {
    *kept.bytes.get_or_init(|| bytes_of(kept.result))
}

fn bytes_of(result: &ToolResult<'_>) -> usize {
    result
        .content
        .iter()
        .map(|piece| match &piece.body {
            ToolContentBody::Text(text) => text.len(),
            ToolContentBody::Json(value) => value.to_string().len(),
            ToolContentBody::Image(media) | ToolContentBody::File(media) => media.base64.map_or(64, str::len),
            ToolContentBody::Other(_) => 64,
        })
        .sum()
}

/// Whether a result stands in for something already.
pub(super) fn stand_in<'h>(kept: &Kept<'h, '_>) -> Option<StandIn<'h>> {
    let find = || {
        kept.result.content.iter().rev().find_map(|piece| match &piece.body {
            ToolContentBody::Text(text) => standin::recognize(text),
            ToolContentBody::Json(value) => json_texts(value).find_map(standin::recognize),
            _ => None,
        })
    };
    *kept.stand_in.get_or_init(find)
}

fn json_texts(value: &Value) -> impl Iterator<Item = &str> {
    value.as_object().into_iter().flat_map(|map| map.values()).filter_map(Value::as_str)
}

/// Where the original is, and whether it is to be kept there: it is not yet.
fn page(history: &History<'_, '_>, kept: &Kept<'_, '_>, pages: &Pages) -> (String, bool) {
    if let Some(StandIn::Shrunk(reference)) = stand_in(kept) {
        // A stand-in that this store made names the original; a look-alike in some tool's output does not.
        if pages.holds(reference) {
            return (reference.to_owned(), false);
        }
    }
    (pages.reference(&history.kept_text(kept.result)), true)
}

/// Replaces all that a result says by one line. `shrunk` is what was to be done to it before, and says already where the original is.
pub(super) fn clear(history: &History<'_, '_>, kept: &Kept<'_, '_>, shrunk: Option<&Change>, pages: &Pages) -> Option<Change> {
    let (reference, keep) = match shrunk {
        Some(change) => (change.reference.clone(), change.keep),
        None => page(history, kept, pages),
    };
    let text = standin::cleared(kept.result.is_error, kept.tokens, &reference, kept.superseded);
    if bytes(kept) <= text.len() {
        return None;
    }
    let mut edits = Vec::new();
    for (at, piece) in kept.result.content.iter().enumerate() {
        if at == 0 {
            edits.push(write(history, &piece.place, &piece.body, &text)?);
        } else {
            edits.push(Edit::Remove { place: piece.place.clone() });
        }
    }
    Some(Change { edits, bytes: text.len(), reference, keep, text })
}

/// Shrinks what a result says to about `budget` bytes, piece by piece.
pub(super) fn shrink(history: &History<'_, '_>, kept: &Kept<'_, '_>, budget: usize, pages: &Pages) -> Option<Change> {
    if stand_in(kept).is_some() {
        return None;
    }
    let (reference, keep) = page(history, kept, pages);
    let note = standin::shrunk(kept.result.is_error, kept.tokens, &reference);
    let whole = bytes(kept).max(1);
    let (mut edits, mut left, mut said) = (Vec::new(), 0, String::new());
    for piece in &kept.result.content {
        let share = |len: usize| budget.saturating_mul(len) / whole;
        let (edit, text) = match &piece.body {
            ToolContentBody::Text(text) => match shrink::shrink(text, share(text.len()), &note) {
                Some(short) => (Some(write(history, &piece.place, &piece.body, &short)?), short),
                None => (None, (*text).to_owned()),
            },
            ToolContentBody::Json(_) => {
                let raw = history.raw(&json_place(history, &piece.place))?;
                match shrink::shrink_json(raw, share(raw.len()), &note) {
                    Some(short) => (Some(Edit::Set { place: json_place(history, &piece.place), json: short.clone() }), short),
                    None => (None, raw.to_owned()),
                }
            }
            ToolContentBody::Image(media) | ToolContentBody::File(media) if media.base64.is_some_and(|b| b.len() > 256) => {
                let what = if matches!(piece.body, ToolContentBody::Image(_)) { "image" } else { "file" };
                let mime = media.mime.unwrap_or("unknown type");
                let text = format!("[{what} left out: {}, {} bytes of base64]\n{note}", prefix(mime), media.base64.map_or(0, str::len));
                (Some(write(history, &piece.place, &piece.body, &text)?), text)
            }
            _ => (None, String::new()),
        };
        left += text.len();
        said.push_str(&text);
        edits.extend(edit);
    }
    (!edits.is_empty() && left < whole).then_some(Change { edits, bytes: left, reference, keep, text: said })
}

fn prefix(mime: &str) -> &str {
    shrink::prefix(mime, 64)
}

/// The place of the JSON itself: Converse wraps it in `{"json": …}`.
fn json_place(history: &History<'_, '_>, place: &str) -> String {
    let wrapped = history.request.value().pointer(place).and_then(|v| v.get("json")).is_some();
    if wrapped && history.conversation.format == Format::Converse { format!("{place}/json") } else { place.to_owned() }
}

/// The edit that makes one piece of a result say `text`.
fn write(history: &History<'_, '_>, place: &str, body: &ToolContentBody<'_>, text: &str) -> Option<Edit> {
    let value = history.request.value().pointer(place)?;
    let format = history.conversation.format;
    if value.is_string() {
        return Some(Edit::set_text(place, text));
    }
    if matches!(body, ToolContentBody::Text(_)) && value.get("text").is_some_and(Value::is_string) {
        return Some(Edit::set_text(format!("{place}/text"), text));
    }
    let json = match (format, body) {
        (Format::Gemini, ToolContentBody::Json(_)) => format!("{{\"output\":{}}}", quote(text)),
        (Format::Chat | Format::Anthropic, _) => format!("{{\"type\":\"text\",\"text\":{}}}", quote(text)),
        (Format::Responses, _) => format!("{{\"type\":\"input_text\",\"text\":{}}}", quote(text)),
        _ => format!("{{\"text\":{}}}", quote(text)),
    };
    // A Converse piece may be named by the JSON inside it.
    let place = match format {
        Format::Converse => place.strip_suffix("/json").unwrap_or(place),
        _ => place,
    };
    Some(Edit::Set { place: place.to_owned(), json })
}
