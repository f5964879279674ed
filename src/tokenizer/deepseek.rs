//! DeepSeek's split: three passes, each over the pieces of the one before, as the published `tokenizer.json` states them.
//!
//! Readers of vocabularies know the split by [`PASSES`]; the core has it as `split::DeepSeek`. What else is here is the slow twin that tests
//! hold the core against, as the published text reads: passes one (digits by threes) and two (kana and Chinese characters) are runs
//! of characters; the third is the published pattern but its look-ahead, which is done by hand. The passes don't see beyond their
//! piece, so white space before a digit is at the end of its text.

#[cfg(test)]
use super::classes;
#[cfg(test)]
use regex::Regex;
#[cfg(test)]
use std::sync::LazyLock;

/// The patterns of the three passes, as they stand in the file.
pub(super) const PASSES: [&str; 3] = [
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
];

/// The third pass without its look-ahead.
#[cfg(test)]
static THIRD: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(&PASSES[2].replace(r"|\s+(?!\S)", "")).ok());

/// Which of the first two passes takes a character.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    Digits,
    Ideographs,
    Rest,
}

#[cfg(test)]
fn run_of(c: char) -> Run {
    if classes::of(c as u32) == classes::NUMBER {
        Run::Digits
    } else if matches!(c, '一'..='龥' | '\u{3040}'..='\u{30FF}') {
        Run::Ideographs
    } else {
        Run::Rest
    }
}

/// Calls `each` with every piece, in order.
#[cfg(test)]
pub(super) fn for_pieces(text: &str, mut each: impl FnMut(&str)) {
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let run = run_of(first);
        let most = if run == Run::Digits { 3 } else { usize::MAX };
        let end = rest.char_indices().enumerate().find(|(number, (_, c))| *number >= most || run_of(*c) != run);
        let (piece, after) = rest.split_at(end.map_or(rest.len(), |(_, (at, _))| at));
        rest = after;
        if run == Run::Digits { each(piece) } else { third(piece, &mut each) }
    }
}

/// The third pass: matches, and what lies between them.
#[cfg(test)]
fn third(text: &str, each: &mut impl FnMut(&str)) {
    // The pattern is a constant that a test compiles.
    let Some(pattern) = THIRD.as_ref() else { return each(text) };
    // Where pieces end so far, and where the search goes on.
    let mut at = 0;
    let mut from = 0;
    while let Some(found) = pattern.find_at(text, from).filter(|found| !found.is_empty()) {
        if found.start() > at {
            each(&text[at..found.start()]);
        }
        let mut end = found.end();
        // `\s+(?!\S)`: before anything else white space gives its last character back, unless it is the only one.
        if end < text.len() && found.as_str().chars().all(char::is_whitespace) && !found.as_str().ends_with(['\r', '\n']) {
            let last = found.as_str().chars().next_back().map_or(0, char::len_utf8);
            if last < found.len() {
                end -= last;
            }
        }
        each(&text[found.start()..end]);
        (at, from) = (end, end);
    }
    if at < text.len() {
        each(&text[at..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<String> {
        let mut out = Vec::new();
        for_pieces(text, |piece| out.push(piece.to_owned()));
        out
    }

    #[test]
    fn cuts_as_published() {
        assert!(THIRD.is_some());
        assert_eq!(pieces("a  b1234  5"), ["a", " ", " b", "123", "4", "  ", "5"]);
        assert_eq!(pieces("日本語で、x.y() \n\n z"), ["日本語で", "、", "x", ".y", "()", " \n\n", " z"]);
        assert_eq!(pieces("\u{0}\u{1}é\u{0}"), ["\u{0}", "\u{1}é", "\u{0}"]);
        assert_eq!(pieces("x \t\u{3000}"), ["x", " \t\u{3000}"]);
        for text in ["", " ", "12345678", "ー・ン゛x", "a\r\nb"] {
            assert_eq!(pieces(text).concat(), text);
        }
    }
}
