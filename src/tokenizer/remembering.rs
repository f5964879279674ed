//! A tokenizer that remembers the counts of the texts it has seen: for counting almost the same texts a few times over.
//!
//! Unbounded, for the length of one task; the bounded cache for a service is `cached`. Like it, keys are 128-bit hashes under a
//! seed drawn at random, and ids and appended texts go past it.

use super::Tokenizer;
use super::core::Core;
use super::engine::Engine;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, PoisonError};
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

/// Texts shorter than this, in bytes, are counted: that is as fast as looking them up.
const SHORTEST: usize = 48;

/// Counts by vocabulary and text.
#[derive(Debug)]
pub(crate) struct Recollection {
    seed: u64,
    counts: Mutex<FxHashMap<u128, usize>>,
}

impl Recollection {
    /// An empty one; `seed` is drawn at random.
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, counts: Mutex::default() }
    }
}

impl Tokenizer {
    /// The same tokenizer with counts kept in `recollection`.
    pub(crate) fn remembering(&self, recollection: &Arc<Recollection>) -> Self {
        let seed = xxh3_64_with_seed(self.name().as_bytes(), recollection.seed);
        Self::from_engine(Arc::new(Remembering { tokenizer: self.clone(), seed, recollection: Arc::clone(recollection) }))
    }
}

struct Remembering {
    tokenizer: Tokenizer,
    seed: u64,
    recollection: Arc<Recollection>,
}

impl Engine for Remembering {
    fn name(&self) -> &str {
        self.tokenizer.name()
    }

    fn count(&self, text: &str) -> usize {
        if text.len() < SHORTEST {
            return self.tokenizer.count(text);
        }
        let key = xxh3_128_with_seed(text.as_bytes(), self.seed);
        let known = self.recollection.counts.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
        known.unwrap_or_else(|| {
            let count = self.tokenizer.count(text);
            self.recollection.counts.lock().unwrap_or_else(PoisonError::into_inner).insert(key, count);
            count
        })
    }

    fn count_within(&self, text: &str, limit: usize) -> Option<usize> {
        self.tokenizer.count_within(text, limit)
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        self.tokenizer.encode(text)
    }

    fn token_bytes(&self, id: u32) -> Option<Vec<u8>> {
        self.tokenizer.engine().token_bytes(id)
    }

    fn decode(&self, ids: &[u32]) -> Result<Vec<u8>, u32> {
        self.tokenizer.engine().decode(ids)
    }

    fn token_starts(&self, text: &str) -> Vec<usize> {
        self.tokenizer.engine().token_starts(text)
    }

    fn core(&self) -> Option<&Core> {
        self.tokenizer.engine().core()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_by_vocabulary_and_answers_as_before() {
        let recollection = Arc::new(Recollection::new(7));
        let text = "the load line of a ship, drawn at midsummer, naïve 数字. ".repeat(3);
        for name in ["o200k_base", "cl100k_base", "o200k_base"] {
            let plain = Tokenizer::by_name(name).unwrap();
            let remembering = plain.remembering(&recollection);
            for text in [text.as_str(), "short", ""] {
                assert_eq!(remembering.count(text), plain.count(text), "{name}");
                assert_eq!(remembering.count(text), plain.count(text), "{name}");
                assert_eq!(remembering.encode(text), plain.encode(text));
            }
        }
        assert_eq!(recollection.counts.lock().unwrap().len(), 2);
    }
}
