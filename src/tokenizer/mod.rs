//! Text to token counts and ids. Knows nothing of chats; imports nothing of this crate but errors and limits.
//!
//! [`Tokenizer`] is the front that every layer above uses. Guards invariant 4: equal to the published
//! tokenizer on any text. Special-token look-alikes in text count as ordinary text.

#![allow(
    clippy::inline_always,
    reason = "the hot loops are compiled once a kind of machine, and only what is inlined gets its instructions"
)]

mod added;
mod append;
mod blocks;
mod bpe;
mod builtin;
mod bundled;
mod byte_level;
#[cfg(feature = "cache")]
mod cached;
mod classes;
mod core;
#[cfg(test)]
mod core_tests;
mod deepseek;
mod engine;
mod folder;
mod front;
mod gguf;
#[cfg(feature = "huggingface")]
mod huggingface;
mod kept;
mod known;
mod make;
mod nfc;
mod pieces;
mod prepare;
mod prepared;
mod present;
mod rank_file;
#[cfg(any(test, fuzzing))]
#[allow(unreachable_pub, reason = "public to fuzz targets alone")]
pub mod reference;
mod remembering;
mod sentencepiece;
mod simd;
mod split;
mod store;
mod tekken;
mod tokenizer_json;
mod vocabulary;

pub use append::{AppendCounter, TextMark};
#[cfg(feature = "cache")]
pub use cached::MessageCache;
pub use front::Tokenizer;
pub use present::PresentVocabulary;
pub(crate) use remembering::Recollection;
pub use store::{AddOptions, Vocabulary, VocabularyKind, VocabularyStore};
