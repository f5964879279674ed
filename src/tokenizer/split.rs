//! The published splits without a regex: where the piece that starts at a byte ends.
//!
//! Each family is a set of constants over one automaton that follows its regex alternative by alternative, so that a
//! reader can hold the two side by side. This is the scalar truth: the block splitter (`blocks.rs`) must agree with it,
//! and it is compared with the regexes themselves in the tests. Called by the core for whatever is not plain ASCII.

use super::classes::{self, CASELESS, LETTER, LOWER, MARK, NEWLINE, NUMBER, OTHER, SPACE, UPPER};

/// A family of splits: vocabularies of one family differ in nothing but their ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(dead_code, reason = "the families of rank files that a user brings")]
pub(crate) enum Split {
    /// `r50k_base`, `p50k_base`, GPT-2.
    Gpt2,
    /// `cl100k_base`.
    Cl100k,
    /// `o200k_base`, `o200k_harmony`, Llama 4.
    O200k,
    /// Llama 3, GLM 4: like `cl100k_base`, but a row of line ends wins over the end of the text.
    Llama3,
    /// Qwen 2, 2.5, 3: like Llama 3 with single digits.
    Qwen,
    /// Qwen 3.5: like Qwen, with marks as part of words.
    QwenMarks,
    /// Kimi K2: like `o200k_base`, Han runs apart.
    Kimi,
    /// Mistral's tekken: like `o200k_base` with single digits and no contractions.
    Tekken,
    /// DeepSeek: three passes over the text, see `deepseek.rs`.
    DeepSeek,
}

/// How words are cut.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// ` ?\p{L}+`
    Spaced,
    /// `[^\r\n\p{L}\p{N}]?\p{L}+`
    Prefixed,
    /// The same, with marks as letters.
    Marked,
    /// Upper before lower, lower or caseless to the end: the two long alternatives of `o200k_base`.
    Cased,
}

/// The constants of a family.
pub(super) trait Family {
    const WORD: Word;
    /// Contractions end a word (`don't` is one piece) instead of standing alone.
    const SUFFIX: bool = false;
    /// There are contractions at all.
    const CONTRACTIONS: bool = true;
    /// Contractions in any case.
    const FOLD: bool = true;
    /// Most digits in a piece; 0 for any number, with a space before.
    const DIGITS: usize = 3;
    /// Line ends after punctuation belong to it.
    const TAIL: bool = true;
    /// So do slashes after them.
    const SLASH: bool = false;
    /// White space that ends the text is one piece, whatever is in it.
    const END_FIRST: bool = false;
    /// White space is cut after its last line end.
    const LINES: bool = true;
    /// Han runs stand alone.
    const HAN: bool = false;
    /// The three passes of DeepSeek.
    const PASSES: bool = false;
    /// What letters of words are looked up in.
    const VIEW: View = if Self::HAN { View::NoHan } else { View::Plain };
    /// What the block splitter looks characters up in.
    const CLASSES: &'static classes::Table = if Self::PASSES {
        &classes::PASSES
    } else if Self::HAN {
        &classes::APART
    } else {
        &classes::PLAIN
    };
}

macro_rules! family {
    ($name:ident { $($constant:ident: $type:ty = $value:expr;)* }) => {
        pub(super) struct $name;
        impl Family for $name { $(const $constant: $type = $value;)* }
    };
}
// '(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s
family!(Gpt2 { WORD: Word = Word::Spaced; FOLD: bool = false; DIGITS: usize = 0; TAIL: bool = false; END_FIRST: bool = true; LINES: bool = false; });
// '(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s
family!(Cl100k { WORD: Word = Word::Prefixed; END_FIRST: bool = true; });
// [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
// |[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
// |\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
family!(O200k { WORD: Word = Word::Cased; SUFFIX: bool = true; SLASH: bool = true; });
// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
family!(Llama3 { WORD: Word = Word::Prefixed; });
// the same with \p{N}
family!(Qwen { WORD: Word = Word::Prefixed; DIGITS: usize = 1; });
// (?i:…)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
family!(QwenMarks { WORD: Word = Word::Marked; DIGITS: usize = 1; });
// [\p{Han}]+, then o200k's with &&[^\p{Han}] in the letter sets and [\r\n]* after punctuation
family!(Kimi { WORD: Word = Word::Cased; SUFFIX: bool = true; HAN: bool = true; });
// o200k's without contractions, \p{N} alone
family!(Tekken { WORD: Word = Word::Cased; SUFFIX: bool = true; CONTRACTIONS: bool = false; DIGITS: usize = 1; SLASH: bool = true; });
// \p{N}{1,3}, then [一-龥぀-ゟ゠-ヿ]+, then the pattern that `deepseek.rs` has
family!(DeepSeek { WORD: Word = Word::Prefixed; CONTRACTIONS: bool = false; PASSES: bool = true; });

impl Split {
    /// The family of a published pattern, as rank files' makers spell it; `None` for any other pattern.
    pub(super) fn of_pattern(pattern: &str) -> Option<Self> {
        const CONTRACTION: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)";
        const UPPER: &str = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]";
        const LOWER: &str = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]";
        const REST: &str = r"|\s*[\r\n]+|\s+(?!\S)|\s+";
        let any = r"[^\r\n\p{L}\p{N}]?";
        let punctuation = r"| ?[^\s\p{L}\p{N}]+[\r\n]*";
        let apart = |set: &str| set.replace(']', r"&&[^\p{Han}]]");
        let cased = |upper: &str, lower: &str, end: &str| format!("{any}{upper}*{lower}+{end}|{any}{upper}+{lower}*{end}");
        let suffix = format!("{CONTRACTION}?");
        [
            (Self::Llama3, format!(r"{CONTRACTION}|{any}\p{{L}}+|\p{{N}}{{1,3}}{punctuation}{REST}")),
            (Self::Qwen, format!(r"{CONTRACTION}|{any}\p{{L}}+|\p{{N}}{punctuation}{REST}")),
            (Self::QwenMarks, format!(r"{CONTRACTION}|{any}[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*{REST}")),
            (Self::O200k, format!(r"{}|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*{REST}", cased(UPPER, LOWER, &suffix))),
            (Self::Tekken, format!(r"{}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*{REST}", cased(UPPER, LOWER, ""))),
            (Self::Kimi, format!(r"[\p{{Han}}]+|{}|\p{{N}}{{1,3}}{punctuation}{REST}", cased(&apart(UPPER), &apart(LOWER), &suffix))),
        ]
        .into_iter()
        .find_map(|(split, known)| (known == pattern).then_some(split))
    }
}

/// How characters are classed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// As they are.
    Plain,
    /// Han characters have no class.
    NoHan,
    /// DeepSeek's third pass over kana and Chinese characters: [`LOWER`] letters and marks, [`OTHER`] punctuation and symbols, [`MARK`]
    /// the rest; what doesn't belong to such a row has no class.
    Kana,
    /// The same elsewhere, with white space: numbers, kana and Chinese characters have no class.
    Rest,
}

/// A run of characters: where it ends, and what the rules for white space and caseless letters ask of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    /// Byte after the last character.
    pub(super) end: usize,
    /// Byte at which the last character starts; 0 when the run is empty.
    pub(super) last: usize,
    /// Byte after the last character of the marked classes; 0 when there is none.
    pub(super) marked: usize,
}

/// Where the automaton reads from. The appendable counter wraps one that remembers how far it looked.
pub(super) trait Source {
    /// The byte at `at`, if the text reaches that far.
    fn byte(&mut self, at: usize) -> Option<u8>;
    /// Class bits and length of the character at `at`; `(0, 0)` at the end of the text.
    fn class_in(&mut self, at: usize, view: View) -> (u8, usize);
    /// The same as [`View::Plain`] has it.
    #[inline(always)]
    fn class(&mut self, at: usize) -> (u8, usize) {
        self.class_in(at, View::Plain)
    }
    /// The longest run from `at` of characters whose class is in `set`.
    fn run(&mut self, at: usize, set: u8, marked: u8, view: View) -> Run;
    /// The longest run of Han characters.
    fn han(&mut self, at: usize) -> usize;
    /// The longest run of `\r`, `\n` and, when `slash`, `/`.
    fn tail(&mut self, at: usize, slash: bool) -> usize;
    /// The longest run of ASCII letters.
    fn letters(&mut self, at: usize) -> usize;
}

/// Class bits of the character at `at` with its length.
#[inline(always)]
pub(super) fn class_at(text: &[u8], at: usize, view: View) -> (u8, usize) {
    if matches!(view, View::Kana | View::Rest) {
        return passes_at(text, at, view);
    }
    let no_han = view == View::NoHan;
    match text.get(at) {
        None => (0, 0),
        Some(&byte) if byte < 0x80 => (classes::of_ascii(byte), 1),
        // U+5000 to U+9FFF are Han letters, U+B000 to U+CFFF Hangul syllables.
        Some(0xE5..=0xE9) => (if no_han { 0 } else { CASELESS }, 3),
        Some(0xEB..=0xEC) => (CASELESS, 3),
        Some(_) => {
            let (code, length) = classes::decode(&text[at..]);
            if no_han && classes::is_han(code) { (0, length) } else { (classes::of(code), length) }
        }
    }
}

/// [`class_at`] for the two views of DeepSeek's third pass.
#[inline(always)]
fn passes_at(text: &[u8], at: usize, view: View) -> (u8, usize) {
    let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) else { return (0, 0) };
    let (code, length) = classes::decode(rest);
    let class = classes::PASSES.of(code);
    let seen = match (view, class) {
        (View::Kana, UPPER) => LOWER,
        (View::Kana, CASELESS) => OTHER,
        (View::Kana, _) if class & CASELESS != 0 => MARK,
        (View::Rest, LOWER | OTHER | MARK | SPACE | NEWLINE) => class,
        _ => 0,
    };
    (seen, length)
}

/// Extends `run` (empty, or ended where the text did) by a character, if it is of the run's.
#[inline(always)]
pub(super) fn step(text: &[u8], run: &mut Run, set: u8, marked: u8, view: View) -> bool {
    let (class, length) = class_at(text, run.end, view);
    if class & set == 0 {
        return false;
    }
    run.last = run.end;
    run.end += length;
    if class & marked != 0 {
        run.marked = run.end;
    }
    true
}

/// Extends `run` as far as it goes.
#[inline(always)]
pub(super) fn extend_run(text: &[u8], mut run: Run, set: u8, marked: u8, view: View) -> Run {
    while step(text, &mut run, set, marked, view) {}
    run
}

/// Extends a run of Han characters.
#[inline(always)]
pub(super) fn extend_han(text: &[u8], mut at: usize) -> usize {
    while at < text.len() {
        let (code, length) = classes::decode(&text[at..]);
        if !classes::is_han(code) {
            break;
        }
        at += length;
    }
    at
}

/// Extends a run of line ends and slashes.
#[inline(always)]
pub(super) fn extend_tail(text: &[u8], mut at: usize, slash: bool) -> usize {
    while text.get(at).is_some_and(|byte| matches!(byte, b'\r' | b'\n') || (slash && *byte == b'/')) {
        at += 1;
    }
    at
}

/// Extends a run of ASCII letters.
#[inline(always)]
pub(super) fn extend_letters(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(u8::is_ascii_alphabetic) {
        at += 1;
    }
    at
}

/// Where the piece that starts at `start` ends; `start` at the end of the text.
#[inline(always)]
pub(super) fn next<F: Family>(source: &mut impl Source, start: usize) -> usize {
    let (class, length) = source.class(start);
    if length == 0 {
        return start;
    }
    if F::PASSES && class != NUMBER {
        return third_pass::<F>(source, start);
    }
    if F::HAN {
        let end = source.han(start);
        if end > start {
            return end;
        }
    }
    if !F::SUFFIX && class == OTHER {
        let end = contraction::<F>(source, start);
        if end > start {
            return end;
        }
    }
    if class & (NUMBER | NEWLINE) == 0
        && let Some(end) = word::<F>(source, start, class, length)
    {
        return end;
    }
    let space = source.byte(start) == Some(b' ');
    let spaced_class = if space && (F::DIGITS == 0 || class == SPACE) { source.class(start + 1).0 } else { 0 };
    if F::DIGITS == 0 && (class | spaced_class) & NUMBER != 0 {
        let from = if space { start + 1 } else { start };
        return source.run(from, NUMBER, 0, View::Plain).end;
    }
    if class == NUMBER {
        let mut end = start + length;
        for _ in 1..F::DIGITS {
            let (class, length) = source.class(end);
            if class != NUMBER {
                break;
            }
            end += length;
        }
        return end;
    }
    let punctuation = if F::WORD as u8 == Word::Marked as u8 { OTHER } else { OTHER | MARK };
    if (class | spaced_class) & punctuation != 0 {
        let from = if space { start + 1 } else { start };
        let end = source.run(from, punctuation, 0, View::Plain).end;
        return if F::TAIL { source.tail(end, F::SLASH) } else { end };
    }
    white_space::<F>(source, start)
}

/// DeepSeek's pieces but numbers, which are no part of any: the third pass sees no further than the row that the first two left it.
#[inline(always)]
fn third_pass<F: Family>(source: &mut impl Source, start: usize) -> usize {
    let view = if source.class_in(start, View::Kana).0 == 0 { View::Rest } else { View::Kana };
    let (class, length) = source.class_in(start, view);
    let first = source.byte(start).unwrap_or(0);
    if class == OTHER && first < 0x80 {
        let end = source.letters(start + 1);
        if end > start + 1 {
            return end;
        }
    }
    if class & (OTHER | NEWLINE) == 0 {
        let from = if class == LOWER { start } else { start + length };
        let end = source.run(from, LOWER, 0, view).end;
        if end > from {
            return end;
        }
    }
    let from = start + usize::from(first == b' ');
    let end = source.run(from, OTHER, 0, view).end;
    if end > from {
        return if view == View::Rest { source.tail(end, false) } else { end };
    }
    if class != MARK {
        return white_space::<F>(source, start);
    }
    // No alternative takes these, but each takes one before a letter.
    let run = source.run(start, MARK, 0, view);
    if source.class_in(run.end, view).0 == LOWER { run.last } else { run.end }
}

#[inline(always)]
fn white_space<F: Family>(source: &mut impl Source, start: usize) -> usize {
    let run = source.run(start, SPACE | NEWLINE, NEWLINE, View::Plain);
    let at_end = if F::PASSES { source.class_in(run.end, View::Rest).0 == 0 } else { source.class(run.end).1 == 0 };
    if F::END_FIRST && at_end {
        return run.end;
    }
    if F::LINES && run.marked > start {
        return run.marked;
    }
    if at_end || run.last <= start { run.end } else { run.last }
}

/// The word alternatives: `None` when none matches.
#[inline(always)]
fn word<F: Family>(source: &mut impl Source, start: usize, class: u8, length: usize) -> Option<usize> {
    let after = start + length;
    match F::WORD {
        Word::Spaced => {
            let from = if source.byte(start) == Some(b' ') { after } else { start };
            let end = source.run(from, LETTER, 0, View::Plain).end;
            (end > from).then_some(end)
        }
        Word::Prefixed => {
            let from = if class & LETTER == 0 { after } else { start };
            let end = source.run(from, LETTER, 0, View::Plain).end;
            (end > from).then_some(end)
        }
        Word::Marked => {
            if class & LETTER == 0 {
                let end = source.run(after, LETTER | MARK, 0, View::Plain).end;
                if end > after {
                    return Some(end);
                }
            }
            let end = source.run(start, LETTER | MARK, 0, View::Plain).end;
            (end > start).then_some(end)
        }
        Word::Cased => {
            let prefix = class & LETTER == 0;
            let plain = class & (LETTER | MARK) != 0;
            let mut end = None;
            if prefix {
                end = ends_lower::<F>(source, after);
            }
            if end.is_none() && plain {
                end = ends_lower::<F>(source, start);
            }
            if end.is_none() && prefix {
                end = ends_upper::<F>(source, after);
            }
            if end.is_none() && plain {
                end = ends_upper::<F>(source, start);
            }
            let end = end?;
            Some(if F::SUFFIX { contraction::<F>(source, end) } else { end })
        }
    }
}

/// `[upper caseless mark]*[lower caseless mark]+` with the regex's giving back.
#[inline(always)]
fn ends_lower<F: Family>(source: &mut impl Source, from: usize) -> Option<usize> {
    let head = source.run(from, UPPER | CASELESS | MARK, CASELESS | MARK, F::VIEW);
    let body = source.run(head.end, LOWER | CASELESS | MARK, 0, F::VIEW);
    if body.end > head.end {
        return Some(body.end);
    }
    (head.marked > from).then_some(head.marked)
}

/// `[upper caseless mark]+[lower caseless mark]*`, asked only when [`ends_lower`] found nothing: so no lower follows.
#[inline(always)]
fn ends_upper<F: Family>(source: &mut impl Source, from: usize) -> Option<usize> {
    let head = source.run(from, UPPER | CASELESS | MARK, CASELESS | MARK, F::VIEW);
    (head.end > from).then_some(head.end)
}

/// Where an English contraction that starts at `at` ends; `at` when there is none.
#[inline(always)]
fn contraction<F: Family>(source: &mut impl Source, at: usize) -> usize {
    if !F::CONTRACTIONS || source.byte(at) != Some(b'\'') {
        return at;
    }
    let fold = |byte: Option<u8>| byte.map_or(0, |byte| if F::FOLD { byte | 0x20 } else { byte });
    match fold(source.byte(at + 1)) {
        b's' | b'd' | b'm' | b't' => at + 2,
        b'l' if fold(source.byte(at + 2)) == b'l' => at + 3,
        b'v' | b'r' if fold(source.byte(at + 2)) == b'e' => at + 3,
        // U+017F, the long s, is an s in any case.
        0xE5 if F::FOLD && source.byte(at + 1) == Some(0xC5) && source.byte(at + 2) == Some(0xBF) => at + 3,
        _ => at,
    }
}
