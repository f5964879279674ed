//! What texts were found to weigh, remembered while one history is weighed again and again.
//!
//! Made by the planner for the length of one plan: each try of a plan holds mostly the texts of the try before, so that a recount
//! costs a hash of what stayed. Keys are 128-bit hashes under a seed drawn for each memory, so that no text is kept and nobody
//! outside can prepare two texts with one hash; a hit gives the very number that counting gave (invariant 2). Grows with
//! the texts of one plan and goes with it.

use super::Confidence;
use super::claude::Kinds;
use crate::tokenizer::{Recollection, Tokenizer};
use rustc_hash::FxHashMap;
use serde_json::Value;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use twox_hash::XxHash3_128;

/// Weights of texts by vocabulary, Claude's kinds of text, Gemini's estimates without its vocabulary, and what calls' arguments weigh.
#[derive(Debug)]
pub(crate) struct TextMemory {
    seed: u64,
    counts: Arc<Recollection>,
    kinds: Texts<Kinds>,
    estimates: Texts<u64>,
    arguments: Texts<u64>,
    values: Texts<Weighed>,
}

type Texts<T> = Mutex<FxHashMap<u128, T>>;

/// Tokens, how sure they are, and their bound.
pub(super) type Weighed = (u64, Confidence, Option<u64>);

impl Default for TextMemory {
    fn default() -> Self {
        let seed = RandomState::new().hash_one(0_u64);
        Self {
            seed,
            counts: Arc::new(Recollection::new(seed)),
            kinds: Mutex::default(),
            estimates: Mutex::default(),
            arguments: Mutex::default(),
            values: Mutex::default(),
        }
    }
}

impl TextMemory {
    /// The tokenizer, with counts remembered here.
    pub(crate) fn tokenizer(&self, tokenizer: &Tokenizer) -> Tokenizer {
        tokenizer.remembering(&self.counts)
    }

    /// The kinds of a text, sorted once.
    pub(super) fn kinds(&self, text: &str, sort: impl FnOnce() -> Kinds) -> Kinds {
        self.once(&self.kinds, text, sort)
    }

    /// The tokens that a text is estimated to weigh, estimated once.
    pub(super) fn estimate(&self, text: &str, estimate: impl FnOnce() -> u64) -> u64 {
        self.once(&self.estimates, text, estimate)
    }

    /// The tokens of a function's arguments as the server prints them, by the text that was sent.
    pub(super) fn arguments(&self, text: &str, count: impl FnOnce() -> u64) -> u64 {
        self.once(&self.arguments, text, count)
    }

    /// What a JSON value weighs as what the labels say, weighed once: its text need not be written to know it again.
    pub(super) fn value(&self, labels: &[&str], value: &Value, weigh: impl FnOnce() -> Weighed) -> Weighed {
        let mut hash = XxHash3_128::with_seed(self.seed);
        for label in labels {
            hash_text(label, &mut hash);
        }
        hash_value(value, &mut hash);
        recall(&self.values, hash.finish_128(), weigh)
    }

    fn once<T: Copy>(&self, texts: &Texts<T>, text: &str, make: impl FnOnce() -> T) -> T {
        recall(texts, XxHash3_128::oneshot_with_seed(self.seed, text.as_bytes()), make)
    }
}

fn recall<T: Copy>(texts: &Texts<T>, key: u128, make: impl FnOnce() -> T) -> T {
    let known = texts.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
    known.unwrap_or_else(|| {
        let made = make();
        texts.lock().unwrap_or_else(PoisonError::into_inner).insert(key, made);
        made
    })
}

/// A text with its length before it, so that two texts one after the other are never those of another split.
fn hash_text(text: &str, hash: &mut XxHash3_128) {
    hash.write(&(text.len() as u64).to_le_bytes());
    hash.write(text.as_bytes());
}

/// Everything that tells a value from another, the order of keys among it.
fn hash_value(value: &Value, hash: &mut XxHash3_128) {
    match value {
        Value::Null => hash.write(b"0"),
        Value::Bool(flag) => hash.write(if *flag { b"t" } else { b"f" }),
        Value::Number(number) => {
            hash.write(b"n");
            hash_text(&number.to_string(), hash);
        }
        Value::String(text) => {
            hash.write(b"s");
            hash_text(text, hash);
        }
        Value::Array(list) => {
            hash.write(b"[");
            hash.write(&(list.len() as u64).to_le_bytes());
            for item in list {
                hash_value(item, hash);
            }
        }
        Value::Object(map) => {
            hash.write(b"{");
            hash.write(&(map.len() as u64).to_le_bytes());
            for (key, item) in map {
                hash_text(key, hash);
                hash_value(item, hash);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_told_apart_by_all_that_they_are() {
        let memory = TextMemory::default();
        let values = [
            json!({"a": 1, "b": 2}),
            json!({"b": 2, "a": 1}),
            json!({"a": 1, "b": 2.0}),
            json!({"a": 1, "b": "2"}),
            json!({"a": [1, "b", 2]}),
            json!(["ab", "c"]),
            json!(["a", "bc"]),
            json!([["a"], "b"]),
            json!([["a", "b"]]),
            json!(null),
            json!(false),
            json!(""),
            json!([]),
            json!({}),
            json!(0),
        ];
        let weighed = |labels: &[&str], value, tokens| memory.value(labels, value, || (tokens, Confidence::Exact, None)).0;
        for _ in 0..2 {
            for (at, value) in values.iter().enumerate() {
                assert_eq!(weighed(&["call", "x"], value, at as u64), at as u64);
                assert_eq!(weighed(&["callx"], value, 100 + at as u64), 100 + at as u64);
            }
        }
        assert_eq!(weighed(&["call", "x"], &values[3], 77), 3, "remembered");
    }
}
