//! Claude text without Claude's vocabulary: kinds of text, and how many tokens each kind costs.
//!
//! No vocabulary newer than Claude 2's is published, so the text is cut by a public one (`cl100k_base`) and its tokens are
//! sorted into kinds that Claude treats differently: words by how common they are, words in pieces, capitals, digits,
//! punctuation, line ends after punctuation, scripts. A token of each kind has a price fitted on recorded usage
//! (`data/claude-weights.json`, made by `cargo run --example fit_claude`). Called by the renderer beside it and by the fit.
//! One flat factor was rejected: common English costs 1.05 tokens a token, rare words 1.7, capitals almost 2.

use crate::error::{Error, Kind, Result};
use crate::tokenizer::Tokenizer;
use regex::Regex;
use serde::Deserialize;
use std::ops::AddAssign;
use std::sync::{LazyLock, OnceLock};

/// Number of kinds.
pub const KINDS: usize = 15;

/// Names of the kinds, in order, as the weights file spells them.
pub const KIND_NAMES: [&str; KINDS] = [
    "common_word",
    "known_word",
    "uncommon_word",
    "rare_word",
    "word_in_pieces",
    "capitals",
    "short_capitals",
    "cjk",
    "other_script",
    "symbol",
    "digits",
    "whitespace",
    "punctuation",
    "line_end",
    "underscore",
];

/// Tokens (of the public vocabulary) of each kind in some text.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Kinds(pub [f64; KINDS]);

impl AddAssign for Kinds {
    fn add_assign(&mut self, other: Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
    }
}

/// The pieces that the public vocabulary splits text into before it merges, but for trailing blanks (see [`pieces`]).
static PIECE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+").ok()
});

/// Cuts text into pieces. A run of blanks before a word leaves its last blank to the word, which the vocabulary's own
/// pattern says with a look-ahead that this regex engine does not have.
fn pieces(text: &str, mut take: impl FnMut(&str)) {
    let Some(pattern) = PIECE.as_ref() else { return };
    let mut at = 0;
    while let Some(found) = pattern.find_at(text, at) {
        let mut end = found.end();
        let piece = found.as_str();
        if end < text.len()
            && !piece.ends_with(['\n', '\r'])
            && let Some((last, _)) = piece.char_indices().next_back()
            && last > 0
            && piece.chars().all(char::is_whitespace)
        {
            end = found.start() + last;
        }
        take(&text[found.start()..end]);
        at = end;
    }
}

impl Kinds {
    /// Sorts the tokens of `text`. Linear in the text; about a microsecond a word.
    pub fn of(text: &str, cl100k: &Tokenizer) -> Self {
        let mut kinds = Self::default();
        pieces(text, |piece| kinds.sort(piece, &cl100k.encode(piece)));
        kinds
    }

    fn sort(&mut self, piece: &str, ids: &[u32]) {
        #[expect(clippy::cast_precision_loss, reason = "a piece has far fewer than 2^52 tokens")]
        let tokens = ids.len() as f64;
        let [
            common,
            known,
            uncommon,
            rare,
            in_pieces,
            capitals,
            short_capitals,
            cjk,
            other_script,
            symbol,
            digits,
            whitespace,
            punctuation,
            line_end,
            underscore,
        ] = &mut self.0;
        if piece.chars().any(char::is_alphabetic) {
            if piece.starts_with('_') {
                *underscore += 1.0;
            }
            if !piece.is_ascii() {
                *(if piece.chars().any(is_cjk) { cjk } else { other_script }) += tokens;
                return;
            }
            let letters = piece.bytes().filter(u8::is_ascii_alphabetic).count();
            if letters >= 2 && !piece.bytes().any(|b| b.is_ascii_lowercase()) {
                *capitals += tokens;
                if letters >= 3 && ids.len() == 1 {
                    *short_capitals += 1.0;
                }
                return;
            }
            // A rank in the public vocabulary is a measure of how common a word is.
            let kind = match ids {
                [0..5000] => common,
                [5000..30_000] => known,
                [30_000..45_000] => uncommon,
                [_] => rare,
                _ => in_pieces,
            };
            *kind += tokens;
        } else if piece.chars().any(char::is_numeric) {
            *digits += tokens;
        } else if piece.chars().all(char::is_whitespace) {
            *whitespace += tokens;
        } else {
            if piece.ends_with('\n') {
                *line_end += 1.0;
            }
            *(if piece.is_ascii() { punctuation } else { symbol }) += tokens;
        }
    }
}

/// Han, kana and hangul.
fn is_cjk(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{1100}'..='\u{11ff}' | '\u{20000}'..='\u{3ffff}')
}

/// What a token of each kind costs a generation of Claude, and how far off that may be.
#[derive(Clone, Debug, Deserialize)]
pub struct ClaudePrices {
    /// The renderer's name, e.g. `claude-4.6`.
    pub renderer: String,
    /// Claude tokens a token of each kind.
    pub weights: Kinded,
    /// Most that the cost of each kind may be off, in Claude tokens a token.
    pub spreads: Kinded,
    /// Most that a whole request may be off beside that, in tokens.
    pub floor: f64,
}

/// A number for each kind.
type Kinded = [f64; KINDS];

#[derive(Deserialize)]
struct File {
    generations: Vec<ClaudePrices>,
}

impl ClaudePrices {
    /// The prices of a renderer's generation.
    ///
    /// # Errors
    /// [`Kind::Internal`] when the built-in file doesn't hold it.
    pub fn of(renderer: &str) -> Result<&'static Self> {
        static FILE: OnceLock<Option<File>> = OnceLock::new();
        let file = FILE.get_or_init(|| serde_json::from_str(include_str!("../../../data/claude-weights.json")).ok());
        let generations = file.as_ref().map_or(&[][..], |file| &file.generations);
        generations
            .iter()
            .find(|prices| prices.renderer == renderer)
            .or_else(|| generations.last())
            .ok_or_else(|| Error::new(Kind::Internal, "the weights of Claude text can't be read"))
    }

    /// Expected tokens.
    pub fn tokens(&self, kinds: &Kinds) -> f64 {
        dot(&self.weights, &kinds.0)
    }

    /// Most that [`Self::tokens`] may be off, in tokens, beside the floor.
    pub fn spread(&self, kinds: &Kinds) -> f64 {
        dot(&self.spreads, &kinds.0)
    }
}

fn dot(a: &Kinded, b: &Kinded) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(&'static str, f64)> {
        let cl100k = Tokenizer::by_name("cl100k_base").unwrap();
        let found = Kinds::of(text, &cl100k);
        KIND_NAMES.into_iter().zip(found.0).filter(|(_, n)| *n > 0.0).collect()
    }

    #[test]
    fn pieces_tokenize_to_the_same_count_as_the_whole() {
        let cl100k = Tokenizer::by_name("cl100k_base").unwrap();
        for text in ["Hello  world,\n\n  it's 12345 — “quoted” 你好 ok\t\tx ", "fn a() {\n    b(1);\n}\n", "   ", "\n \n x", ""] {
            let mut tokens = 0;
            pieces(text, |piece| tokens += cl100k.count(piece));
            assert_eq!(tokens, cl100k.count(text), "{text:?}");
        }
    }

    #[test]
    fn sorts_by_kind() {
        assert_eq!(kinds("the cat"), [("common_word", 1.0), ("known_word", 1.0)]);
        assert_eq!(kinds("12345"), [("digits", 2.0)]);
        assert_eq!(kinds("YES"), [("capitals", 1.0), ("short_capitals", 1.0)]);
        assert_eq!(kinds("{\n"), [("punctuation", 1.0), ("line_end", 1.0)]);
        assert!(kinds("数据").iter().all(|(kind, _)| *kind == "cjk"));
        assert!(kinds("дом").iter().all(|(kind, _)| *kind == "other_script"));
        assert!(kinds("get_weather").contains(&("underscore", 1.0)));
    }

    #[test]
    fn every_generation_has_prices() {
        for renderer in ["claude-4.6", "claude-4.7", "claude-5"] {
            let prices = ClaudePrices::of(renderer).unwrap();
            assert_eq!(prices.renderer, renderer);
            assert!(prices.weights.iter().zip(prices.spreads).all(|(w, s)| *w > 0.0 && s > 0.0));
        }
    }
}
