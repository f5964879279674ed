//! What texts were found to weigh, remembered while one history is weighed again and again.
//!
//! Made by the planner for the length of one plan: each try of a plan holds mostly the texts of the try before, so that a recount
//! costs a hash of what stayed. Keys are 128-bit hashes under a seed drawn for each memory, so that no text is kept and nobody
//! outside can prepare two texts with one hash; a hit gives the very number that counting gave (invariant 2). Grows with
//! the texts of one plan and goes with it.

use super::claude::Kinds;
use crate::tokenizer::{Recollection, Tokenizer};
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Weights of texts by vocabulary, and Claude's kinds of text.
#[derive(Debug)]
pub(crate) struct TextMemory {
    seed: u64,
    counts: Arc<Recollection>,
    kinds: Mutex<HashMap<u128, Kinds>>,
}

impl Default for TextMemory {
    fn default() -> Self {
        let seed = RandomState::new().hash_one(0_u64);
        Self { seed, counts: Arc::new(Recollection::new(seed)), kinds: Mutex::default() }
    }
}

impl TextMemory {
    /// The tokenizer, with counts remembered here.
    pub(crate) fn tokenizer(&self, tokenizer: &Tokenizer) -> Tokenizer {
        tokenizer.remembering(&self.counts)
    }

    /// The kinds of a text, sorted once.
    pub(super) fn kinds(&self, text: &str, sort: impl FnOnce() -> Kinds) -> Kinds {
        let key = xxh3_128_with_seed(text.as_bytes(), self.seed);
        let known = self.kinds.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
        known.unwrap_or_else(|| {
            let kinds = sort();
            self.kinds.lock().unwrap_or_else(PoisonError::into_inner).insert(key, kinds);
            kinds
        })
    }
}
