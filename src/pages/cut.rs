//! Cutting a kept text into pages: on line or record borders, each page under a bound in tokens.
//!
//! Pure: the same text and bound give the same pages, so that a page number stays good. A line longer than a
//! page is cut at record borders (`},` and the like), then at blanks, then between characters.

use crate::error::Result;
use crate::limits;
use crate::tokenizer::Tokenizer;
use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use twox_hash::XxHash3_128;

/// One page's place in its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Bytes.
    pub(super) bytes: Range<usize>,
    /// Number of the first line on it, from 1.
    pub(super) line: usize,
    /// Its size in tokens.
    pub(super) tokens: usize,
}

/// Cuts `text` into pages of at most `bound` tokens (at least one character a page).
pub(super) fn cut(text: &str, bound: usize, tokenizer: &Tokenizer) -> Vec<Cut> {
    let bound = bound.max(16);
    let mut pages = Vec::new();
    let (mut start, mut line) = (0, 1);
    while start < text.len() {
        let (end, tokens) = page_end(text, start, bound, tokenizer);
        pages.push(Cut { bytes: start..end, line, tokens });
        line += memchr::memchr_iter(b'\n', &text.as_bytes()[start..end]).count();
        start = end;
    }
    if pages.is_empty() {
        pages.push(Cut { bytes: 0..0, line: 1, tokens: 0 });
    }
    pages
}

/// As [`cut`] by the vocabulary of a name; where the pages of texts cut lately end is remembered for the whole process, so that
/// reading on costs a hash of the text.
///
/// # Errors
/// Those of [`Tokenizer::by_name`].
pub(super) fn cut_lately(text: &str, bound: usize, vocabulary: &str) -> Result<Arc<[Cut]>> {
    static LATELY: LazyLock<Mutex<Lately>> = LazyLock::new(|| Mutex::new(Lately::new(limits::MAX_REMEMBERED_CUTS)));
    let lately = || LATELY.lock().unwrap_or_else(PoisonError::into_inner);
    let seed = lately().seed;
    let key = Key::of(seed, text, bound, vocabulary);
    if let Some(pages) = lately().find(&key) {
        return Ok(pages);
    }
    // Others go on reading meanwhile.
    let pages: Arc<[Cut]> = cut(text, bound, &Tokenizer::by_name(vocabulary)?).into();
    lately().keep(key, &pages);
    Ok(pages)
}

/// A text by its hash and length, and how it was cut. No text is kept; the hash's seed is drawn for each process, so that nobody outside
/// can prepare two texts with one key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    hash: u128,
    bytes: usize,
    bound: usize,
    vocabulary: Box<str>,
}

impl Key {
    fn of(seed: u64, text: &str, bound: usize, vocabulary: &str) -> Self {
        Self { hash: XxHash3_128::oneshot_with_seed(seed, text.as_bytes()), bytes: text.len(), bound, vocabulary: vocabulary.into() }
    }
}

/// The cuts of some texts, the least recently read first; bounded in pages.
struct Lately {
    seed: u64,
    most: usize,
    cuts: VecDeque<(Key, Arc<[Cut]>)>,
    held: usize,
}

impl Lately {
    fn new(most: usize) -> Self {
        Self { seed: RandomState::new().hash_one(0_u64), most, cuts: VecDeque::new(), held: 0 }
    }

    fn find(&mut self, key: &Key) -> Option<Arc<[Cut]>> {
        let at = self.cuts.iter().rposition(|(known, _)| known == key)?;
        let entry = self.cuts.remove(at)?;
        let pages = Arc::clone(&entry.1);
        self.cuts.push_back(entry);
        Some(pages)
    }

    /// Texts of one page are cut as fast as they are looked up; of those too long, all that is known would have to go.
    fn keep(&mut self, key: Key, pages: &Arc<[Cut]>) {
        if pages.len() < 2 || pages.len() > self.most || self.find(&key).is_some() {
            return;
        }
        self.held += pages.len();
        self.cuts.push_back((key, Arc::clone(pages)));
        while self.held > self.most || self.cuts.len() > limits::MAX_REMEMBERED_TEXTS {
            let Some((_, old)) = self.cuts.pop_front() else { break };
            self.held -= old.len();
        }
    }
}

/// The pieces of a text that is cut as pages are; empty for an empty text.
#[cfg(feature = "endpoint")]
pub(crate) fn cut_text<'t>(text: &'t str, bound: usize, tokenizer: &Tokenizer) -> Vec<&'t str> {
    cut(text, bound, tokenizer).into_iter().map(|piece| &text[piece.bytes]).filter(|piece| !piece.is_empty()).collect()
}

/// Where the page that starts at `start` ends: the longest stretch to a border that holds within the bound.
fn page_end(text: &str, start: usize, bound: usize, tokenizer: &Tokenizer) -> (usize, usize) {
    // Guess by four bytes a token, then let the count correct the guess.
    let rest = text.len() - start;
    let mut bytes = bound.saturating_mul(4).min(rest);
    let mut best = None;
    for _ in 0..12 {
        let end = border(text, start, start + bytes);
        match tokenizer.count_within(&text[start..end], bound) {
            Some(tokens) => {
                let roomy = tokens.saturating_mul(8) < bound.saturating_mul(7);
                if best.is_none_or(|(b, _)| end > b) {
                    best = Some((end, tokens));
                }
                if end == text.len() || !roomy {
                    break;
                }
                let grown = (bytes.saturating_mul(bound) / tokens.max(1)).min(bytes.saturating_mul(4)).min(rest);
                if grown <= bytes {
                    break;
                }
                bytes = grown;
            }
            None if best.is_some() => break,
            None => bytes = (end - start).saturating_mul(2) / 3,
        }
    }
    best.unwrap_or_else(|| {
        let end = char_end(text, start, start + 16.min(rest));
        (end, tokenizer.count(&text[start..end]))
    })
}

/// The last good border in `start..=end`, always past `start`.
fn border(text: &str, start: usize, end: usize) -> usize {
    if end >= text.len() {
        return text.len();
    }
    let end = char_end(text, start, end);
    let window = &text.as_bytes()[start..end];
    // A border in the first half would waste the page.
    let half = window.len() / 2;
    if let Some(at) = memchr::memrchr(b'\n', window).filter(|at| *at + 1 >= half.min(1))
        && (at + 1 >= half || !window[at + 1..].contains(&b' '))
    {
        return start + at + 1;
    }
    let record = window.windows(2).rposition(|pair| matches!(pair, b"}," | b"];" | b"}\t" | b"],")).map(|at| at + 2);
    let blank = memchr::memrchr3(b' ', b'\t', b',', window).map(|at| at + 1);
    let newline = memchr::memrchr(b'\n', window).map(|at| at + 1);
    for found in [newline, record, blank].into_iter().flatten() {
        if found >= half {
            return start + found;
        }
    }
    end
}

/// The nearest character border at or before `end`, but past `start`.
fn char_end(text: &str, start: usize, end: usize) -> usize {
    let mut end = end.min(text.len());
    while end > start && !text.is_char_boundary(end) {
        end -= 1;
    }
    if end == start {
        end = start + text[start..].chars().next().map_or(0, char::len_utf8);
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_cover_the_text_within_the_bound_and_break_at_lines() {
        let tokenizer = Tokenizer::by_name("o200k_base").unwrap();
        let lines: String = (0..500).map(|i| format!("line {i} says something about {}\n", i * 7919)).collect();
        let long = "x,y;".repeat(4000);
        let wide = "名字😀".repeat(900);
        for text in [lines.as_str(), long.as_str(), wide.as_str(), "", "\n\n\n"] {
            let pages = cut(text, 100, &tokenizer);
            let mut at = 0;
            for page in &pages {
                assert_eq!(page.bytes.start, at);
                at = page.bytes.end;
                assert!(page.tokens <= 100 && page.tokens == tokenizer.count(&text[page.bytes.clone()]));
            }
            assert_eq!(at, text.len());
        }
        let pages = cut(&lines, 100, &tokenizer);
        assert!(pages.iter().all(|p| lines[p.bytes.clone()].ends_with('\n')));
        assert_eq!(pages[1].line, 1 + lines[pages[0].bytes.clone()].lines().count());
    }

    #[test]
    fn cuts_are_remembered_and_stay_those_that_cutting_gives() {
        let tokenizer = Tokenizer::by_name("o200k_base").unwrap();
        let texts: Vec<String> = (0..6).map(|i| format!("text {i}: ünï 名字 {}\n", i * 31).repeat(40 + 30 * i)).collect();
        let mut lately = Lately::new(90);
        let mut read = |text: &str, bound: usize| {
            let key = Key::of(lately.seed, text, bound, "o200k_base");
            let slow = cut(text, bound, &tokenizer);
            let known = lately.find(&key);
            if let Some(known) = &known {
                assert_eq!(**known, *slow);
            }
            lately.keep(key, &slow.into());
            assert_eq!(lately.held, lately.cuts.iter().map(|(_, pages)| pages.len()).sum::<usize>());
            assert!(lately.held <= 90);
            known.is_some()
        };
        // One after the other, again and again: the first time is new, the same text at another bound too.
        assert!(!read(&texts[0], 50) && read(&texts[0], 50) && !read(&texts[0], 100) && read(&texts[0], 50));
        for _ in 0..3 {
            for text in &texts {
                read(text, 50);
                assert!(read(text, 50), "just read");
            }
        }
        assert!(!read(&texts[0], 50), "pushed out by the others");
        assert!(!read("one page", 50) && !read("one page", 50));
        for text in &texts {
            for _ in 0..2 {
                assert_eq!(*cut_lately(text, 50, "o200k_base").unwrap(), *cut(text, 50, &tokenizer));
            }
        }
    }
}
