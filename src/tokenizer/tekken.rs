//! Mistral's `tekken.json`: ranks, split and special tokens in one JSON file.
//!
//! Called by the store. Ids are the ranks moved up by the number of special tokens, as mistral-common gives them;
//! only the first `default_vocab_size` less specials are in use (the file carries more).

use super::rank_file::Ranks;
use super::tokenizer_json::reason;
use crate::error::{Error, Kind, Result};
use base64::Engine as _;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(expecting = "an object with `config` and `vocab`")]
struct File {
    config: Config,
    vocab: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object of settings")]
struct Config {
    pattern: String,
    default_vocab_size: u32,
    default_num_special_tokens: u32,
}

#[derive(Deserialize)]
#[serde(expecting = "a token with its rank")]
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
        let file: File = serde_json::from_str(json).map_err(|e| bad(format!("line {} column {}: {}", e.line(), e.column(), reason(&e))))?;
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
}
