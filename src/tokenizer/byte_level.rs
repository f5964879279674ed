//! Vocabularies on the hot core, with what their makers put around it: normalization, added tokens, ids of their own.
//!
//! Built by the store from a [`Recipe`] and prepared tables, whatever file they came from (`tokenizer.json`, tekken, ranks).
//! Merging and splitting are the core's, but for the digits that Command-R takes out first and for texts without a split. Guards
//! invariant 4; the text between added tokens is never copied unless normalization changes it.

use super::added::Finder;
use super::bpe::Scratch;
use super::classes;
use super::core::Core;
use super::engine::Engine;
use super::nfc;
use super::prepare::{NONE, Tables};
use super::sentencepiece::{Row, Rows};
use super::split::Split;
use super::vocabulary::Vocabulary;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

/// How text is cut into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Pieces {
    Gpt2,
    Llama3,
    Qwen,
    QwenMarks,
    O200k,
    Kimi,
    Tekken,
    /// Every digit alone, then GPT-2's split (Command-R).
    Gpt2Digits,
    /// Three passes: digits, kana and Chinese characters, the rest.
    DeepSeek,
    /// None; blanks are written `▁` (Gemma).
    Sentencepiece,
}

impl Pieces {
    /// The form of a split of the core; `None` for the families that no file names.
    pub(super) fn of(split: Split) -> Option<Self> {
        Some(match split {
            Split::Gpt2 => Self::Gpt2,
            Split::Llama3 => Self::Llama3,
            Split::Qwen => Self::Qwen,
            Split::QwenMarks => Self::QwenMarks,
            Split::O200k => Self::O200k,
            Split::Kimi => Self::Kimi,
            Split::Tekken => Self::Tekken,
            Split::DeepSeek => Self::DeepSeek,
            Split::Cl100k => return None,
        })
    }

    fn split(self) -> Split {
        match self {
            // Sentencepiece's texts are cut here, and only merged by the core.
            Self::Gpt2 | Self::Gpt2Digits | Self::Sentencepiece => Split::Gpt2,
            Self::Llama3 => Split::Llama3,
            Self::DeepSeek => Split::DeepSeek,
            Self::Qwen => Split::Qwen,
            Self::QwenMarks => Split::QwenMarks,
            Self::O200k => Split::O200k,
            Self::Kimi => Split::Kimi,
            Self::Tekken => Split::Tekken,
        }
    }
}

/// A token that is no product of merging.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Added {
    pub(super) text: String,
    pub(super) id: u32,
    /// Found in ordinary text. Tokens marked as special are not: look-alikes in a text are text.
    pub(super) matched: bool,
}

/// All that an engine needs beside the tables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Recipe {
    pub(super) pieces: Pieces,
    /// Text is brought to NFC first.
    pub(super) nfc: bool,
    /// The maker's ids are the tables' moved up by this.
    pub(super) shift: u32,
    /// The maker's id of each of the tables' ids, where a shift does not say it. Kept beside the tables.
    #[serde(skip)]
    pub(super) ids: Vec<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) added: Vec<Added>,
}

impl Recipe {
    /// Pieces alone: the maker's ids are the ranks.
    pub(super) fn plain(pieces: Pieces, nfc: bool) -> Self {
        Self { pieces, nfc, shift: 0, ids: Vec::new(), added: Vec::new() }
    }
}

/// The engine.
pub(super) struct ByteLevel {
    name: String,
    core: Core,
    recipe: Recipe,
    /// The tables' ids of the maker's, where `recipe.ids` maps them. Made when it is first asked for.
    back: OnceLock<HashMap<u32, u32>>,
    /// Finds added tokens.
    finder: Option<Finder>,
    /// What added tokens say, by id. Made when it is first asked for.
    added_text: OnceLock<HashMap<u32, String>>,
    /// How texts without a split are cut.
    rows: Option<Rows>,
}

impl ByteLevel {
    /// An engine over tables that [`super::prepare::prepare`] made or [`super::prepared`] checked.
    pub(super) fn new(name: &str, tables: Tables, recipe: Recipe) -> Self {
        let core = Core::new(name, Vocabulary::from_tables(tables), recipe.pieces.split());
        let finder = Finder::of(&recipe.added);
        let rows = (recipe.pieces == Pieces::Sentencepiece).then(|| Rows::of(core.vocabulary()));
        Self { name: name.to_owned(), core, recipe, back: OnceLock::new(), finder, added_text: OnceLock::new(), rows }
    }

    /// Calls `each` with every stretch of ordinary text (normalized) and every added token, in order, until it answers `false`.
    fn stretches(&self, text: &str, mut each: impl FnMut(Stretch<'_>) -> bool) {
        let mut at = 0;
        for found in self.finder.iter().flat_map(|finder| finder.find_in(text)) {
            let before = &text[at..found.start];
            if (!before.is_empty() && !each(Stretch::Text(&self.normal(before)))) || !each(Stretch::Added(found.id)) {
                return;
            }
            at = found.end;
        }
        if at < text.len() {
            each(Stretch::Text(&self.normal(&text[at..])));
        }
    }

    /// The text as it is split: normalized if need be.
    fn normal<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let text = if self.recipe.nfc { nfc::nfc(text) } else { Cow::Borrowed(text) };
        // To the vocabulary a blank and its stand-in are one.
        if self.rows.is_some() && text.contains('▁') { Cow::Owned(text.replace('▁', " ")) } else { text }
    }

    fn count_plain(&self, text: &str) -> usize {
        if self.whole_texts() {
            return self.core.count(text);
        }
        let mut count = 0_usize;
        if let Some(rows) = &self.rows {
            rows.for_each(text, |row| match row {
                Row::Bytes(bytes) => count += bytes.len(),
                Row::Merged(piece) if piece.len() <= super::bpe::WINDOW => count += self.core.count_piece(piece),
                Row::Merged(piece) => self.core.encode_long(piece, |ids, _| count += ids.len()),
            });
            return count;
        }
        for_digits(text, |stretch| count += self.core.count(stretch));
        count
    }

    fn encode_plain(&self, text: &str, ids: &mut Vec<u32>) {
        let from = ids.len();
        if self.whole_texts() {
            ids.extend(self.core.encode(text));
        } else if let Some(rows) = &self.rows {
            let mut scratch = Scratch::default();
            rows.for_each(text, |row| match row {
                Row::Bytes(bytes) => ids.extend(bytes.iter().map(|byte| self.core.vocabulary().byte(*byte))),
                Row::Merged(piece) => self.core.encode_piece(piece, &mut scratch, ids),
            });
        } else {
            for_digits(text, |stretch| ids.extend(self.core.encode(stretch)));
        }
        for id in ids.iter_mut().skip(from) {
            *id = self.outer(*id);
        }
    }

    /// Whether the core cuts texts by itself.
    fn whole_texts(&self) -> bool {
        !matches!(self.recipe.pieces, Pieces::Gpt2Digits | Pieces::Sentencepiece)
    }

    /// What an added token says.
    fn added_text(&self, id: u32) -> Option<&str> {
        // A row of stand-ins for blanks may be an added token as well as what blanks merge into: either way it says blanks.
        let said = |text: &str| if self.rows.is_some() { text.replace('▁', " ") } else { text.to_owned() };
        let texts = || self.recipe.added.iter().map(|added| (added.id, said(&added.text))).collect();
        self.added_text.get_or_init(texts).get(&id).map(String::as_str)
    }

    /// The tables' id of one of the maker's.
    fn inner(&self, id: u32) -> Option<u32> {
        let ids = || (0_u32..).zip(&self.recipe.ids).filter(|(_, outer)| **outer != NONE);
        self.back.get_or_init(|| ids().map(|(inner, outer)| (*outer, inner)).collect()).get(&id).copied()
    }

    /// The maker's id.
    fn outer(&self, id: u32) -> u32 {
        match usize::try_from(id).ok().and_then(|at| self.recipe.ids.get(at)) {
            Some(outer) => *outer,
            None => id.saturating_add(self.recipe.shift),
        }
    }
}

/// Calls `each` with every digit (a number character of any kind) alone, and with what lies between them.
fn for_digits(text: &str, mut each: impl FnMut(&str)) {
    let mut rest = text;
    while let Some((at, digit)) = rest.char_indices().find(|(_, c)| classes::of(*c as u32) == classes::NUMBER) {
        let (before, after) = rest.split_at(at);
        let (digit, after) = after.split_at(digit.len_utf8());
        if !before.is_empty() {
            each(before);
        }
        each(digit);
        rest = after;
    }
    if !rest.is_empty() {
        each(rest);
    }
}

enum Stretch<'a> {
    Text(&'a str),
    Added(u32),
}

impl Engine for ByteLevel {
    fn name(&self) -> &str {
        &self.name
    }

    fn count(&self, text: &str) -> usize {
        let mut count = 0;
        self.stretches(text, |stretch| {
            count += match stretch {
                Stretch::Text(text) => self.count_plain(text),
                Stretch::Added(_) => 1,
            };
            true
        });
        count
    }

    fn count_within(&self, text: &str, limit: usize) -> Option<usize> {
        let mut count = 0;
        self.stretches(text, |stretch| {
            count += match stretch {
                Stretch::Text(text) if self.whole_texts() => {
                    self.core.count_within(text, limit.saturating_sub(count)).unwrap_or(usize::MAX - limit)
                }
                Stretch::Text(text) => self.count_plain(text),
                Stretch::Added(_) => 1,
            };
            count <= limit
        });
        (count <= limit).then_some(count)
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::with_capacity(text.len() / 4 + 1);
        self.stretches(text, |stretch| {
            match stretch {
                Stretch::Text(text) => self.encode_plain(text, &mut ids),
                Stretch::Added(id) => ids.push(id),
            }
            true
        });
        ids
    }

    fn token_bytes(&self, id: u32) -> Option<Vec<u8>> {
        if let Some(text) = self.added_text(id) {
            return Some(text.as_bytes().to_vec());
        }
        let inner = if self.recipe.ids.is_empty() { id.checked_sub(self.recipe.shift)? } else { self.inner(id)? };
        self.core.token_bytes(inner)
    }

    fn special_tokens(&self) -> Vec<String> {
        self.recipe.added.iter().map(|added| added.text.clone()).collect()
    }

    fn core(&self) -> Option<&Core> {
        // The appendable counter sees the core alone: only where nothing stands around it.
        (!self.recipe.nfc && self.finder.is_none() && self.whole_texts()).then_some(&self.core)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::prepare;

    fn engine(recipe: Recipe) -> ByteLevel {
        let mut tokens: Vec<(Vec<u8>, u32)> = (0..=255_u8).map(|byte| (vec![byte], u32::from(byte))).collect();
        tokens.push((b"ab".to_vec(), 256));
        tokens.push(("é".as_bytes().to_vec(), 257));
        ByteLevel::new("small", prepare::prepare(&tokens).unwrap(), recipe)
    }

    #[test]
    fn added_tokens_the_longest_first_and_special_ones_as_text() {
        let added = |text: &str, id, matched| Added { text: text.to_owned(), id, matched };
        let added = vec![added("<t>", 300, true), added("<t>>", 301, true), added("<s>", 302, false)];
        let engine = engine(Recipe { added, ..Recipe::plain(Pieces::Llama3, false) });
        assert_eq!(engine.encode("ab<t>>ab<t><s>"), [256, 301, 256, 300, 60, 115, 62]);
        assert_eq!(engine.decode(&[302, 256, 301]).unwrap(), b"<s>ab<t>>");
        for limit in 0..10 {
            assert_eq!(engine.count_within("ab<t>>ab<t><s>", limit), (limit >= 7).then_some(7), "{limit}");
        }
    }

    #[test]
    fn normalizes_shifts_and_maps_ids() {
        let nfc = engine(Recipe { shift: 10, ..Recipe::plain(Pieces::Llama3, true) });
        assert_eq!(nfc.encode("e\u{301}"), [267]);
        assert_eq!(nfc.token_bytes(267).unwrap(), "é".as_bytes());
        let ids = (0..258).map(|id| 1000 - id).collect();
        let mapped = engine(Recipe { ids, ..Recipe::plain(Pieces::Llama3, false) });
        assert_eq!(mapped.encode("ab"), [744]);
        assert_eq!(mapped.token_bytes(744).unwrap(), b"ab");
        assert_eq!(mapped.token_bytes(256), None);
    }
}
