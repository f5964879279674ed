//! The slow twin: a published split as regexes, and byte pair encoding as its definition reads.
//!
//! Never used to serve a count: tests and fuzz targets hold the core against it. It shares no code and no table with
//! the core but the tokens themselves, and is written to be seen to be right, not to be fast (quadratic in a piece).

use regex::Regex;
use std::collections::HashMap;

/// Ranks by bytes, and the split around the one alternative that a plain regex can't say.
pub struct Reference {
    ranks: HashMap<Vec<u8>, u32>,
    before: Regex,
}

impl Reference {
    /// A reference for a published vocabulary's split, by the vocabulary's name, over `(bytes, id)` tokens.
    pub fn new(name: &str, tokens: impl IntoIterator<Item = (Vec<u8>, u32)>) -> Option<Self> {
        // Each is the published pattern up to `\s+(?!\S)`; possessive marks, which change no match here, are left out.
        let before = match name {
            "o200k_base" | "o200k_harmony" => concat!(
                r"^(?:[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+)"
            ),
            "cl100k_base" => r"^(?:'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+$|\s*[\r\n])",
            "p50k_base" | "r50k_base" => r"^(?:'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+$)",
            _ => return None,
        };
        Some(Self { ranks: tokens.into_iter().collect(), before: Regex::new(before).ok()? })
    }

    /// Length of the first piece of a text that is not empty.
    pub fn first_piece(&self, text: &str) -> usize {
        if let Some(found) = self.before.find(text) {
            return found.end();
        }
        // `\s+(?!\S)`: all white space if it ends the text, else all but its last character; then `\s+` for a single one.
        let white: Vec<usize> = text.char_indices().take_while(|(_, c)| c.is_whitespace()).map(|(at, c)| at + c.len_utf8()).collect();
        match white[..] {
            [.., end] if end == text.len() => end,
            [.., before_last, _] => before_last,
            [single] => single,
            [] => text.len(),
        }
    }

    /// Token ids of a text.
    pub fn encode(&self, mut text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        while !text.is_empty() {
            let (piece, rest) = text.split_at(self.first_piece(text));
            ids.extend(self.merge(piece.as_bytes()));
            text = rest;
        }
        ids
    }

    /// Merges the neighbours of lowest rank, the leftmost first, until none can be.
    fn merge(&self, piece: &[u8]) -> Vec<u32> {
        if let Some(id) = self.ranks.get(piece) {
            return vec![*id];
        }
        let mut parts: Vec<Vec<u8>> = piece.iter().map(|byte| vec![*byte]).collect();
        loop {
            let lowest = (1..parts.len())
                .filter_map(|at| Some((*self.ranks.get(&[parts[at - 1].as_slice(), parts[at].as_slice()].concat())?, at)))
                .min();
            let Some((_, at)) = lowest else { break };
            let right = parts.remove(at);
            parts[at - 1].extend(right);
        }
        parts.iter().filter_map(|part| self.ranks.get(part).copied()).collect()
    }
}
