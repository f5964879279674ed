//! Sentencepiece's byte pair encoding (Gemma) on the core: texts cut where the core's merging and the maker's can't differ.
//!
//! The maker merges characters, and takes a character that is no token as its bytes, which never merge. The core merges bytes: its tables
//! put each known character together first (`tokenizer_json.rs`), and what they would make of an unknown one is kept from it
//! here. There is no split; but no token lies across most borders of words, so that rows are cut there, which changes nothing.

use super::vocabulary::Vocabulary;

/// Bits of all code points.
const POINTS: usize = 0x11_0000;

/// What cutting a text asks of a vocabulary. 142 KiB.
pub(super) struct Rows {
    /// A bit for each code point that is a token.
    known: Box<[u64]>,
    /// A bit for each two bytes that are neighbours in some token.
    joined: Box<[u64]>,
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row<'a> {
    /// To be merged.
    Merged(&'a [u8]),
    /// Each byte a token.
    Bytes(&'a [u8]),
}

const fn bit(at: usize) -> u64 {
    1 << (at & 63)
}

impl Rows {
    /// Reads all tokens: some milliseconds for 260,000.
    pub(super) fn of(vocabulary: &Vocabulary) -> Self {
        let mut rows = Self { known: vec![0; POINTS / 64].into(), joined: Box::default() };
        // Bytes first: setting a bit waits for the one that was set before it.
        let mut joined = vec![false; 65_536];
        for token in vocabulary.tokens() {
            for pair in token.windows(2) {
                joined[usize::from(pair[0]) << 8 | usize::from(pair[1])] = true;
            }
            if token.len() <= 4
                && let Ok(text) = std::str::from_utf8(token)
                && let Some(single) = text.chars().next().filter(|c| c.len_utf8() == token.len())
            {
                rows.known[single as usize >> 6] |= bit(single as usize);
            }
        }
        let word = |flags: &[bool]| flags.iter().zip(0..).fold(0, |word, (flag, at)| word | u64::from(*flag) << at);
        rows.joined = joined.chunks(64).map(word).collect();
        rows
    }

    fn known(&self, c: char) -> bool {
        self.known.get(c as usize >> 6).is_some_and(|word| word & bit(c as usize) != 0)
    }

    fn joined(&self, left: u8, right: u8) -> bool {
        let at = usize::from(left) << 8 | usize::from(right);
        self.joined.get(at >> 6).is_some_and(|word| word & bit(at) != 0)
    }

    /// Calls `each` with the parts of a text, in order.
    pub(super) fn for_each<'t>(&self, text: &'t str, mut each: impl FnMut(Row<'t>)) {
        let bytes = text.as_bytes();
        let mut from = 0;
        for (at, c) in text.char_indices() {
            let known = self.known(c);
            let cut = !known || at.checked_sub(1).is_some_and(|before| !self.joined(bytes[before], bytes[at]));
            if cut && at > from {
                each(Row::Merged(&bytes[from..at]));
                from = at;
            }
            if !known {
                from = at + c.len_utf8();
                each(Row::Bytes(&bytes[at..from]));
            }
        }
        if from < bytes.len() {
            each(Row::Merged(&bytes[from..]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_where_no_token_lies_and_around_what_is_unknown() {
        let tokens = (0..=255_u8).map(|byte| vec![byte]).chain(["é", "ab", " a", "bé"].map(|token| token.as_bytes().to_vec()));
        let tokens: Vec<(Vec<u8>, u32)> = tokens.zip(0..).collect();
        let rows = Rows::of(&Vocabulary::from_ranks(&tokens).unwrap());
        let parts = |text| {
            let mut parts = Vec::new();
            rows.for_each(text, |row| parts.push(row));
            parts
        };
        let merged = |text: &'static str| Row::Merged(text.as_bytes());
        assert_eq!(parts(" abé x"), [merged(" abé"), merged(" "), merged("x")]);
        assert_eq!(parts("你ab好"), [Row::Bytes("你".as_bytes()), merged("ab"), Row::Bytes("好".as_bytes())]);
        assert_eq!(parts(""), []);
    }
}
