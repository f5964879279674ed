//! Who owns which stretch of a rendered prompt.
//!
//! Templates of ours pass each text of a request through the filter `own(reference)`, after everything else is done to
//! it. The filter puts marks of Unicode's private planes around it; [`split`] takes them out again. A request that holds these
//! characters itself is rendered without marks: its count stays right, only its breakdown is coarse.

use std::fmt::Write as _;
use std::ops::Range;

const OPEN: char = '\u{F1B01}';
const REFERENCE_END: char = '\u{F1B02}';
const CLOSE: char = '\u{F1B03}';

/// A prompt and who owns its stretches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spanned {
    /// The text as the model gets it.
    pub(crate) text: String,
    /// Stretches and their owners, ascending and apart; what lies between is framing.
    pub(crate) spans: Vec<(Range<usize>, usize)>,
}

/// Whether `text` holds characters that the marks use.
pub(crate) fn clashes(text: &str) -> bool {
    // All three begin with the same three bytes.
    text.contains(['\u{F1B01}', '\u{F1B02}', '\u{F1B03}'])
}

/// `text` with marks that say that `owner` owns it.
pub(crate) fn marked(text: &str, owner: usize) -> String {
    let mut out = String::with_capacity(text.len() + 24);
    let _ = write!(out, "{OPEN}{owner}{REFERENCE_END}{text}{CLOSE}");
    out
}

/// The filter `own`: an undefined or absent owner leaves the text as it is.
#[cfg(feature = "templates")]
pub(crate) fn own(text: minijinja::Value, owner: minijinja::Value) -> minijinja::Value {
    match (text.as_str(), usize::try_from(owner).ok()) {
        (Some(text), Some(owner)) if !text.is_empty() => marked(text, owner).into(),
        _ => text,
    }
}

/// Takes the marks out. Marks inside marks belong to the outer owner.
pub(crate) fn split(rendered: &str) -> Spanned {
    let mut out = Spanned { text: String::with_capacity(rendered.len()), spans: Vec::new() };
    let mut rest = rendered;
    let mut owners: Vec<(usize, usize)> = Vec::new();
    while let Some(at) = rest.find([OPEN, CLOSE]) {
        out.text.push_str(&rest[..at]);
        let after = &rest[at..];
        if let Some(after) = after.strip_prefix(OPEN) {
            let (owner, text) = after.split_once(REFERENCE_END).unwrap_or(("", after));
            owners.push((owner.parse().unwrap_or(0), out.text.len()));
            rest = text;
        } else {
            if let Some((owner, start)) = owners.pop()
                && owners.is_empty()
                && start < out.text.len()
            {
                out.spans.push((start..out.text.len(), owner));
            }
            rest = &after[CLOSE.len_utf8()..];
        }
    }
    out.text.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_go_and_owners_stay() {
        let rendered = format!("a{}b{}{}c", marked("x", 3), marked(&format!("y{}", marked("z", 9)), 4), marked("", 5));
        assert_eq!(split(&rendered), Spanned { text: "axbyzc".to_owned(), spans: vec![(1..2, 3), (3..5, 4)] });
        assert!(clashes("\u{F1B02}") && !clashes("\u{F1B04}é"));
    }
}
