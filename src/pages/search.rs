//! Searching a kept text: a regular expression, line by line, with line numbers and the page of each hit.
//!
//! No pattern can hang it: patterns are capped in length and in compiled size, one match a line is looked for, and the
//! engine's states are made as they are met. A pattern that needs ever new ones (it would go on linearly, but with a factor of
//! thousands) is handed to the engine that needs none within a budget of work, and past that refused.

use super::cut::Cut;
use crate::error::{Error, Kind, Result};
use crate::limits;
use regex::{Regex, RegexBuilder};
use regex_automata::hybrid::{dfa, regex as hybrid};
use regex_automata::nfa::thompson;
use std::ops::Range;

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

/// Memory for the states of one search, in bytes, for each direction.
const STATES: usize = 4 << 20;
/// How often that memory may be filled before it must have been worth it.
const FILLS: usize = 8;
/// Bytes of text that each state must have served by then.
const BYTES_PER_STATE: usize = 10;

/// A pattern, ready to search with.
pub(super) struct Pattern {
    fast: hybrid::Regex,
    sure: Regex,
    /// Steps that one byte may take in the sure engine.
    steps: u64,
}

/// Compiles a pattern within the caps.
pub(super) fn compile(pattern: &str) -> Result<Pattern> {
    if pattern.len() > limits::MAX_PATTERN_BYTES {
        return Err(Error::invalid(
            "",
            format!("the search pattern has {} bytes; at most {} are taken", pattern.len(), limits::MAX_PATTERN_BYTES),
        ));
    }
    let refused = |why: &str| Error::invalid("", format!("the search pattern can't be used: {why}"));
    let sure = RegexBuilder::new(pattern)
        .size_limit(limits::MAX_PATTERN_COMPILED_BYTES)
        .dfa_size_limit(limits::MAX_PATTERN_COMPILED_BYTES)
        .build()
        .map_err(|e| match e {
            regex::Error::CompiledTooBig(_) => refused("it compiles to too large a machine"),
            _ => refused("its syntax is wrong"),
        })?;
    let states = dfa::Config::new()
        .unicode_word_boundary(true)
        .cache_capacity(STATES)
        .skip_cache_capacity_check(true)
        .minimum_cache_clear_count(Some(FILLS))
        .minimum_bytes_per_state(Some(BYTES_PER_STATE));
    let fast = hybrid::Regex::builder()
        .thompson(thompson::Config::new().nfa_size_limit(Some(limits::MAX_PATTERN_COMPILED_BYTES)))
        .dfa(states)
        .build(pattern)
        .map_err(|_| refused("it compiles to too large a machine"))?;
    let steps = fast.forward().get_nfa().states().len() as u64;
    Ok(Pattern { fast, sure, steps })
}

/// One search: the states met so far, and the work that the sure engine may still do.
struct Search<'p> {
    pattern: &'p Pattern,
    cache: hybrid::Cache,
    left: u64,
}

impl Search<'_> {
    fn find(&mut self, line: &str) -> Result<Option<Range<usize>>> {
        // It gives up on patterns that need too many states, and on Unicode word borders outside ASCII.
        if let Ok(found) = self.pattern.fast.try_search(&mut self.cache, &regex_automata::Input::new(line)) {
            return Ok(found.map(|found| found.range()));
        }
        let work = self.pattern.steps.saturating_mul(line.len() as u64);
        self.left = self.left.checked_sub(work).ok_or_else(|| {
            Error::new(Kind::LimitExceeded, "the search pattern takes too much work on this text; make it simpler, or anchor it")
        })?;
        Ok(self.pattern.sure.find(line).map(|found| found.range()))
    }
}

/// The first `limit` lines of `text` that match, and whether there are more.
pub(super) fn search(text: &str, pages: &[Cut], pattern: &Pattern, limit: usize) -> Result<(Vec<Hit>, bool)> {
    let mut search = Search { pattern, cache: pattern.fast.create_cache(), left: limits::MAX_SEARCH_WORK };
    let mut hits = Vec::new();
    let mut start = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let shown = line.trim_end_matches(['\n', '\r']);
        if let Some(found) = search.find(shown)? {
            if hits.len() == limit {
                return Ok((hits, true));
            }
            let at = start + found.start;
            let page = pages.partition_point(|page| page.bytes.start <= at).max(1);
            hits.push(Hit { line: number + 1, page, text: around(shown, found.start, found.end) });
        }
        start += line.len();
    }
    Ok((hits, false))
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
        let (hits, more) = search(&text, &pages, &compile("^row 3[05]0$").unwrap(), 9).unwrap();
        assert!(!more);
        assert_eq!(hits.iter().map(|h| h.line).collect::<Vec<_>>(), [300, 350]);
        for hit in &hits {
            assert!(text[pages[hit.page - 1].bytes.clone()].contains(&hit.text));
        }
        let (rows, more) = search(&text, &pages, &compile("row").unwrap(), 3).unwrap();
        assert!(rows.len() == 3 && more);
    }

    #[test]
    fn hostile_patterns_are_refused_or_run_linearly() {
        for pattern in ["(", "(?:a{1000}){1000}{1000}", &"a".repeat(1 << 20)] {
            assert!(compile(pattern).is_err());
        }
        let text = format!("{}b", "a".repeat(200_000));
        let all = |text: &str| [Cut { bytes: 0..text.len(), line: 1, tokens: 1 }];
        let find = |pattern: &str, text: &str| search(text, &all(text), &compile(pattern).unwrap(), 5);
        assert!(find("(a+)+$", &text).unwrap().0.is_empty());
        assert_eq!(find("(a|aa)+b", &text).unwrap().0.len(), 1);
        // Patterns whose states never end, on a long line that meets them all: refused, not worked off.
        let mut random = 7_u64;
        let noise: String = (0..1 << 20)
            .map(|_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if random >> 63 == 0 { 'a' } else { 'b' }
            })
            .collect();
        for pattern in ["[ab]*a[ab]{500}c", "(?:[ab]{1,100}a){1,40}c", "a[ab]{3000}c"] {
            assert_eq!(find(pattern, &noise).unwrap_err().kind(), Kind::LimitExceeded, "{pattern}");
        }
        // On a short text they are worked off.
        assert!(find("a[ab]{300}c", &noise[..5_000]).unwrap().0.is_empty());
    }

    #[test]
    fn both_engines_find_the_same() {
        let text = "naïve café 数字 row 12\nplain row 3\nRöw ß\n\n\u{1F600} end row\n";
        let pages = [Cut { bytes: 0..text.len(), line: 1, tokens: 1 }];
        for pattern in
            [r"\brow\b", r"\bcaf\w+\b", r"^plain", r"row$", r"(?i)RÖW", r"\p{Han}+", "", r"[^ ]+", r"\B", "a|ab|abc", r"ro*?w \d+"]
        {
            let (hits, _) = search(text, &pages, &compile(pattern).unwrap(), 9).unwrap();
            let sure = Regex::new(pattern).unwrap();
            let expected: Vec<usize> = text.lines().enumerate().filter(|(_, line)| sure.is_match(line)).map(|(n, _)| n + 1).collect();
            assert_eq!(hits.iter().map(|hit| hit.line).collect::<Vec<_>>(), expected, "{pattern}");
        }
    }
}
