//! The vocabularies that are built into the crate, each made once per process.

use super::engine::Engine;
use std::sync::Arc;

struct Published {
    name: &'static str,
    bpe: &'static tiktoken_rs::CoreBPE,
}

impl Engine for Published {
    fn name(&self) -> &str {
        self.name
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        self.bpe.encode_ordinary(text)
    }

    fn token_bytes(&self, id: u32) -> Option<Vec<u8>> {
        self.bpe.decode_bytes(&[id]).ok()
    }
}

/// The engine of a built-in vocabulary.
pub(super) fn find(name: &str) -> Option<Arc<dyn Engine>> {
    let (name, bpe) = match name {
        "o200k_base" => ("o200k_base", tiktoken_rs::o200k_base_singleton()),
        "o200k_harmony" => ("o200k_harmony", tiktoken_rs::o200k_harmony_singleton()),
        "cl100k_base" => ("cl100k_base", tiktoken_rs::cl100k_base_singleton()),
        "p50k_base" => ("p50k_base", tiktoken_rs::p50k_base_singleton()),
        "r50k_base" => ("r50k_base", tiktoken_rs::r50k_base_singleton()),
        _ => return None,
    };
    Some(Arc::new(Published { name, bpe }))
}
