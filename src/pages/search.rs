//! Searching a kept text: a regular expression, line by line, with line numbers and the page of each hit.
//!
//! The engine is linear in text times pattern, and one match a line is looked for, so that no pattern can hang it;
//! patterns are capped in length and in compiled size.

use super::cut::Cut;
use crate::error::{Error, Result};
use crate::limits;
use regex::{Regex, RegexBuilder};

/// A line that matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Line number, from 1.
    pub line: usize,
    /// Page that the match starts on, from 1.
    pub page: usize,
    /// The line, or the surroundings of the match when the line is long.
    pub text: String,
}

/// Bytes of a long line shown on either side of a match.
const AROUND: usize = 160;

/// Compiles a pattern within the caps.
pub(super) fn compile(pattern: &str) -> Result<Regex> {
    if pattern.len() > limits::MAX_PATTERN_BYTES {
        return Err(Error::invalid(
            "",
            format!("the search pattern has {} bytes; at most {} are taken", pattern.len(), limits::MAX_PATTERN_BYTES),
        ));
    }
    RegexBuilder::new(pattern)
        .size_limit(limits::MAX_PATTERN_COMPILED_BYTES)
        .dfa_size_limit(limits::MAX_PATTERN_COMPILED_BYTES)
        .build()
        .map_err(|e| {
            let short = match e {
                regex::Error::CompiledTooBig(_) => "it compiles to too large a machine",
                _ => "its syntax is wrong",
            };
            Error::invalid("", format!("the search pattern can't be used: {short}"))
        })
}

/// The first `limit` lines of `text` that match, and whether there are more.
pub(super) fn search(text: &str, pages: &[Cut], pattern: &Regex, limit: usize) -> (Vec<Hit>, bool) {
    let mut hits = Vec::new();
    let mut start = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let shown = line.trim_end_matches(['\n', '\r']);
        if let Some(found) = pattern.find(shown) {
            if hits.len() == limit {
                return (hits, true);
            }
            let at = start + found.start();
            let page = pages.partition_point(|page| page.bytes.start <= at).max(1);
            hits.push(Hit { line: number + 1, page, text: around(shown, found.start(), found.end()) });
        }
        start += line.len();
    }
    (hits, false)
}

/// The line, or a window around the match.
fn around(line: &str, from: usize, to: usize) -> String {
    if line.len() <= 3 * AROUND {
        return line.to_owned();
    }
    let floor = |mut at: usize| {
        while !line.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let start = floor(from.saturating_sub(AROUND));
    let end = floor(to.min(from + 2 * AROUND).saturating_add(AROUND).min(line.len()));
    let (left, right) = (if start > 0 { "…" } else { "" }, if end < line.len() { "…" } else { "" });
    format!("{left}{}{right}", &line[start..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::Tokenizer;

    #[test]
    fn hits_carry_line_and_page() {
        let text: String = (1..=400).map(|i| format!("row {i}\n")).collect();
        let pages = super::super::cut::cut(&text, 50, &Tokenizer::by_name("o200k_base").unwrap());
        let (hits, more) = search(&text, &pages, &compile("^row 3[05]0$").unwrap(), 9);
        assert!(!more);
        assert_eq!(hits.iter().map(|h| h.line).collect::<Vec<_>>(), [300, 350]);
        for hit in &hits {
            assert!(text[pages[hit.page - 1].bytes.clone()].contains(&hit.text));
        }
        assert_eq!(search(&text, &pages, &compile("row").unwrap(), 3), (search(&text, &pages, &compile("row").unwrap(), 3).0, true));
    }

    #[test]
    fn hostile_patterns_are_refused_or_run_linearly() {
        for pattern in ["(", "(?:a{1000}){1000}{1000}", &"a".repeat(1 << 20)] {
            assert!(compile(pattern).is_err());
        }
        let text = format!("{}b", "a".repeat(200_000));
        let pages = [Cut { bytes: 0..text.len(), line: 1, tokens: 1 }];
        assert!(search(&text, &pages, &compile("(a+)+$").unwrap(), 5).0.is_empty());
        assert_eq!(search(&text, &pages, &compile("(a|aa)+b").unwrap(), 5).0.len(), 1);
    }
}
