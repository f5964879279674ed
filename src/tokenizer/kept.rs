//! A tokenizer whose texts' counts are kept somewhere: the one wrapper behind the bounded cache and a plan's memory.
//!
//! Used by `cached` and `remembering`, which say where counts are kept and for how long. Keys are 128-bit hashes of the text under a seed
//! mixed with the vocabulary's name: texts are never kept. Ids and appended texts go past it, as does all that is not a count.

use super::Tokenizer;
use super::core::Core;
use super::engine::Engine;
use std::sync::Arc;
use twox_hash::{XxHash3_64, XxHash3_128};

/// Where counts are kept.
pub(super) trait Keep: Send + Sync + 'static {
    /// Texts shorter than this, in bytes, are counted: that is as fast as looking them up.
    const SHORTEST: usize;
    fn find(&self, key: u128) -> Option<usize>;
    fn put(&self, key: u128, count: usize);
}

struct Kept<K> {
    tokenizer: Tokenizer,
    seed: u64,
    keep: Arc<K>,
}

impl Tokenizer {
    /// The same tokenizer with counts kept in `keep`; `seed` should be drawn at random for each keep.
    pub(super) fn kept<K: Keep>(&self, keep: &Arc<K>, seed: u64) -> Self {
        let seed = XxHash3_64::oneshot_with_seed(seed, self.name().as_bytes());
        Self::from_engine(Arc::new(Kept { tokenizer: self.clone(), seed, keep: Arc::clone(keep) }))
    }
}

impl<K: Keep> Engine for Kept<K> {
    fn name(&self) -> &str {
        self.tokenizer.name()
    }

    fn count(&self, text: &str) -> usize {
        if text.len() < K::SHORTEST {
            return self.tokenizer.count(text);
        }
        let key = XxHash3_128::oneshot_with_seed(self.seed, text.as_bytes());
        self.keep.find(key).unwrap_or_else(|| {
            let count = self.tokenizer.count(text);
            self.keep.put(key, count);
            count
        })
    }

    fn count_within(&self, text: &str, limit: usize) -> Option<usize> {
        if text.len() < K::SHORTEST {
            return self.tokenizer.count_within(text, limit);
        }
        let key = XxHash3_128::oneshot_with_seed(self.seed, text.as_bytes());
        if let Some(count) = self.keep.find(key) {
            return (count <= limit).then_some(count);
        }
        let count = self.tokenizer.count_within(text, limit)?;
        self.keep.put(key, count);
        Some(count)
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

    fn special_tokens(&self) -> Vec<String> {
        self.tokenizer.engine().special_tokens()
    }

    fn core(&self) -> Option<&Core> {
        self.tokenizer.engine().core()
    }
}
