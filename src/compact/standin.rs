//! The words that stand in for what was cut, and how to know them again.
//!
//! A stand-in always says that the call succeeded (or failed), how large the result was, and how to read it. Made by the
//! steps, recognized by later compactions so that a stand-in is never cut again and references stay good.
//! All wording that models read is here.

use crate::pages::READ_TOOL;

const CLEARED: &str = "[Tool result cleared: ";
const SHRUNK: &str = "[Shortened: ";
/// Key of the note inside JSON that stays JSON.
pub(super) const NOTE_KEY: &str = "_shortened";
/// How every summary begins.
pub(super) const SUMMARY: &str = "[Summary of earlier conversation: ";
/// How every note about dropped messages begins.
pub(super) const DROPPED: &str = "[Earlier conversation left out: ";

/// In place of a whole result.
pub(super) fn cleared(failed: bool, tokens: u64, reference: &str, superseded: bool) -> String {
    let how = if failed { "the call failed" } else { "the call succeeded" };
    let why = if superseded { "; the same call was made again later" } else { "" };
    format!("{CLEARED}{how}, {tokens} tokens{why}. {READ_TOOL} ref={reference}]")
}

/// After a shortened text.
pub(super) fn shrunk(failed: bool, tokens: u64, reference: &str) -> String {
    let how = if failed { "the call failed" } else { "the call succeeded" };
    format!("{SHRUNK}{how}, {tokens} tokens in full. {READ_TOOL} ref={reference}]")
}

/// The words before a summary. `left` counts messages.
pub(super) fn summary_head(left: u64, reference: &str) -> String {
    format!("{SUMMARY}{left} messages. {READ_TOOL} ref={reference}]")
}

/// The words before the summary that a text holds, as [`summary_head`] makes them.
pub(super) fn head_of(text: &str) -> Option<&str> {
    let close = text.strip_prefix(SUMMARY)?.find(']')?;
    Some(&text[..=SUMMARY.len() + close])
}

/// In place of dropped messages.
pub(super) fn dropped(left: u64, reference: &str) -> String {
    format!("{DROPPED}{left} messages. {READ_TOOL} ref={reference}]")
}

/// What a text that stands in for something says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StandIn<'a> {
    /// The whole result is elsewhere.
    Cleared,
    /// The original of this shortened text is at the reference.
    Shrunk(&'a str),
}

/// Recognizes a stand-in, exactly as this file makes them.
pub(super) fn recognize(text: &str) -> Option<StandIn<'_>> {
    if text.starts_with(CLEARED) && text.len() < 200 && text.ends_with(']') {
        return Some(StandIn::Cleared);
    }
    // Nearly no text has any, and looking forward is quicker than looking back.
    memchr::memmem::find(text.as_bytes(), SHRUNK.as_bytes())?;
    let tail = memchr::memmem::rfind(text.as_bytes(), SHRUNK.as_bytes()).map(|at| &text[at..])?;
    let reference = reference_in(tail)?;
    // At the end of a text, or inside the note of a JSON text.
    (tail.len() < 200 || text.contains(NOTE_KEY)).then_some(StandIn::Shrunk(reference))
}

/// Number of messages and rest of a summary or note of this crate.
pub(super) fn summary_parts(text: &str) -> Option<(u64, &str)> {
    let rest = text.strip_prefix(SUMMARY).or_else(|| text.strip_prefix(DROPPED))?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let left = rest[..digits].parse().ok()?;
    let close = rest.find(']')?;
    Some((left, rest[close + 1..].trim_start_matches('\n')))
}

/// The first page reference in a text.
pub(super) fn reference_in(text: &str) -> Option<&str> {
    let at = text.find("ref=pg_")? + 4;
    let rest = &text[at..];
    let end = rest.bytes().position(|b| !(b.is_ascii_alphanumeric() || b == b'_')).unwrap_or(rest.len());
    (end == 19).then(|| &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stand_ins_are_known_again() {
        let id = "pg_0123456789abcdef";
        let cleared = cleared(false, 12_345, id, true);
        assert_eq!(recognize(&cleared), Some(StandIn::Cleared));
        assert!(cleared.contains("succeeded") && cleared.contains("12345 tokens") && cleared.contains("read_tool_result"));
        let text = format!("head\n{}", shrunk(true, 7, id));
        assert_eq!(recognize(&text), Some(StandIn::Shrunk(id)));
        assert_eq!(recognize("plain"), None);
        assert_eq!(recognize(&format!("{}\n{}", shrunk(true, 7, id), "x".repeat(300))), None);
        let summary = format!("{}\nTask: x", summary_head(12, id));
        assert_eq!(summary_parts(&summary), Some((12, "Task: x")));
        assert_eq!(head_of(&summary), Some(summary_head(12, id).as_str()));
        assert_eq!((head_of("plain ]"), head_of(SUMMARY)), (None, None));
        assert_eq!(summary_parts(&dropped(3, id)), Some((3, "")));
    }
}
