//! A tokenizer that remembers the counts of the texts it has seen: for counting almost the same texts a few times over.
//!
//! Unbounded, for the length of one task; the bounded cache for a service is `cached`. Both stand behind `kept`.

use super::Tokenizer;
use super::kept::Keep;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, PoisonError};

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

impl Keep for Recollection {
    const SHORTEST: usize = 48;

    fn find(&self, key: u128) -> Option<usize> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied()
    }

    fn put(&self, key: u128, count: usize) {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).insert(key, count);
    }
}

impl Tokenizer {
    /// The same tokenizer with counts kept in `recollection`.
    pub(crate) fn remembering(&self, recollection: &Arc<Recollection>) -> Self {
        self.kept(recollection, recollection.seed)
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
