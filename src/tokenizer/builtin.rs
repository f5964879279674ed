//! The vocabularies that are built into the crate, each made once per process.
//!
//! Making one costs nothing but a few pointers: the tables are read in place. Called by the front.

use super::core::Core;
use super::engine::Engine;
use super::split::Split;
use super::vocabulary::Vocabulary;
use std::sync::{Arc, OnceLock};

/// The engine of a built-in vocabulary.
pub(super) fn find(name: &str) -> Option<Arc<dyn Engine>> {
    static O200K: OnceLock<Arc<Core>> = OnceLock::new();
    static HARMONY: OnceLock<Arc<Core>> = OnceLock::new();
    static CL100K: OnceLock<Arc<Core>> = OnceLock::new();
    static P50K: OnceLock<Arc<Core>> = OnceLock::new();
    static R50K: OnceLock<Arc<Core>> = OnceLock::new();
    let (cell, vocabulary, split): (_, fn() -> Vocabulary, _) = match name {
        "o200k_base" => (&O200K, Vocabulary::o200k, Split::O200k),
        // The same ranks and split; only its special tokens differ, and text has none.
        "o200k_harmony" => (&HARMONY, Vocabulary::o200k, Split::O200k),
        "cl100k_base" => (&CL100K, Vocabulary::cl100k, Split::Cl100k),
        "p50k_base" => (&P50K, Vocabulary::p50k, Split::Gpt2),
        "r50k_base" => (&R50K, Vocabulary::r50k, Split::Gpt2),
        _ => return None,
    };
    Some(Arc::clone(cell.get_or_init(|| Arc::new(Core::new(name, vocabulary(), split)))) as Arc<dyn Engine>)
}
