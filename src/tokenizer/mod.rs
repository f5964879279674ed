//! Text to token counts and ids. Knows nothing of chats; imports nothing of this crate but errors and limits.
//!
//! [`Tokenizer`] is the front that every layer above uses. Guards invariant 4: equal to the published
//! tokenizer on any text. Special-token look-alikes in text count as ordinary text.

mod builtin;
mod engine;
mod front;
#[cfg(feature = "huggingface")]
mod huggingface;
mod known;
mod rank_file;
mod store;
mod tekken;

pub use front::Tokenizer;
pub use store::{AddOptions, Vocabulary, VocabularyKind, VocabularyStore};
