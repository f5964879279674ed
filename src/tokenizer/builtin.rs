//! The vocabularies that are built into the crate, each made once per process.
//!
//! Making one costs nothing but a few pointers: the tables are read in place. Called by the front, and by the listing of what is present.

use super::core::Core;
use super::engine::Engine;
use super::split::Split;
use super::vocabulary::Vocabulary;
use std::sync::{Arc, OnceLock};

/// One built-in vocabulary.
pub(super) struct BuiltIn {
    pub(super) name: &'static str,
    /// Its tables, read in place.
    pub(super) tables: fn() -> Vocabulary,
    split: Split,
    /// Where it comes from. The licence is [`LICENCE`] for all.
    pub(super) source: &'static str,
    made: OnceLock<Arc<Core>>,
}

/// Licence of OpenAI's library, which publishes the files, and of the crate that the build script takes them from.
pub(super) const LICENCE: &str = "MIT";

/// All of them.
pub(super) static ALL: [BuiltIn; 5] = [
    BuiltIn::new("o200k_base", Vocabulary::o200k, Split::O200k, "OpenAI's o200k_base.tiktoken"),
    // The same ranks and split; only its special tokens differ, and text has none.
    BuiltIn::new("o200k_harmony", Vocabulary::o200k, Split::O200k, "OpenAI's o200k_base.tiktoken, with gpt-oss's special tokens"),
    BuiltIn::new("cl100k_base", Vocabulary::cl100k, Split::Cl100k, "OpenAI's cl100k_base.tiktoken"),
    BuiltIn::new("p50k_base", Vocabulary::p50k, Split::Gpt2, "OpenAI's p50k_base.tiktoken"),
    BuiltIn::new("r50k_base", Vocabulary::r50k, Split::Gpt2, "OpenAI's r50k_base.tiktoken"),
];

impl BuiltIn {
    const fn new(name: &'static str, tables: fn() -> Vocabulary, split: Split, source: &'static str) -> Self {
        Self { name, tables, split, source, made: OnceLock::new() }
    }
}

/// The engine of a built-in vocabulary.
pub(super) fn find(name: &str) -> Option<Arc<dyn Engine>> {
    let found = ALL.iter().find(|built_in| built_in.name == name)?;
    Some(Arc::clone(found.made.get_or_init(|| Arc::new(Core::new(found.name, (found.tables)(), found.split)))) as Arc<dyn Engine>)
}
