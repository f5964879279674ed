//! Mistral's `tekken.json`: ranks, split and special tokens in one JSON file.
//!
//! Called by the store. Ids are the ranks moved up by the number of special tokens, as mistral-common gives them;
//! only the first `default_vocab_size` less specials are in use (the file carries more).

use super::engine::Engine;
use super::rank_file::{RankEngine, Ranks};
use crate::error::{Error, Kind, Result};
use base64::Engine as _;
use serde::Deserialize;

#[derive(Deserialize)]
struct File {
    config: Config,
    vocab: Vec<Entry>,
}

#[derive(Deserialize)]
struct Config {
    pattern: String,
    default_vocab_size: u32,
    default_num_special_tokens: u32,
}

#[derive(Deserialize)]
struct Entry {
    rank: u32,
    token_bytes: String,
}

/// What a `tekken.json` holds.
pub(super) struct Tekken {
    pub(super) ranks: Ranks,
    pub(super) pattern: String,
    /// Special tokens, which stand before all others.
    pub(super) specials: u32,
}

impl Tekken {
    /// Reads a `tekken.json`.
    pub(super) fn parse(name: &str, json: &str) -> Result<Self> {
        let bad = |why: String| Error::new(Kind::InvalidInput, format!("the tekken file of `{name}` can't be used: {why}"));
        let file: File = serde_json::from_str(json).map_err(|e| bad(format!("line {} column {}: {e}", e.line(), e.column())))?;
        let specials = file.config.default_num_special_tokens;
        let used = file.config.default_vocab_size.checked_sub(specials).ok_or_else(|| bad("more special tokens than tokens".to_owned()))?;
        let tokens = file
            .vocab
            .into_iter()
            .filter(|entry| entry.rank < used)
            .map(|entry| {
                let bytes = base64::engine::general_purpose::STANDARD.decode(&entry.token_bytes);
                bytes.map(|bytes| (bytes, entry.rank)).map_err(|_| bad(format!("the token of rank {} is not base64", entry.rank)))
            })
            .collect::<Result<Vec<_>>>()?;
        if tokens.len() != used as usize {
            return Err(bad(format!("{} tokens where the file itself announces {used}", tokens.len())));
        }
        Ok(Self { ranks: Ranks::checked(name, tokens)?, pattern: file.config.pattern, specials })
    }

    /// An engine for a pattern that the hot core doesn't know.
    pub(super) fn with_pattern(self, name: &str) -> Result<TekkenEngine> {
        Ok(TekkenEngine { ranks: RankEngine::with_pattern(name, self.ranks, &self.pattern, false)?, specials: self.specials })
    }
}

/// A tekken vocabulary with a split by a regex.
pub(super) struct TekkenEngine {
    ranks: RankEngine,
    specials: u32,
}

impl Engine for TekkenEngine {
    fn name(&self) -> &str {
        self.ranks.name()
    }

    fn count(&self, text: &str) -> usize {
        self.ranks.count(text)
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        let mut ids = self.ranks.encode(text);
        for id in &mut ids {
            *id = id.saturating_add(self.specials);
        }
        ids
    }

    fn token_bytes(&self, id: u32) -> Option<Vec<u8>> {
        self.ranks.token_bytes(id.checked_sub(self.specials)?)
    }

    fn token_starts(&self, text: &str) -> Vec<usize> {
        self.ranks.token_starts(text)
    }
}
