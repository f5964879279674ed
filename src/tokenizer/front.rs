//! The front: one cheap-to-clone handle over whichever engine serves a vocabulary.
//!
//! Every layer above counts text through it. Adds nothing to an engine's answers but errors and shares.

use super::append::AppendCounter;
use super::engine::Engine;
use super::store::VocabularyStore;
use super::{builtin, bundled, store};
use crate::error::{Error, Kind, Result};
use std::sync::Arc;

/// A text tokenizer: cheap to clone, `Send + Sync`.
///
/// ```
/// let o200k = plimsoll::Tokenizer::by_name("o200k_base")?;
/// assert_eq!(o200k.count("Hello world"), 2);
/// assert_eq!(o200k.count_within("Hello world", 1), None);
/// assert_eq!(o200k.decode(&o200k.encode("Hello world"))?, "Hello world");
/// # Ok::<(), plimsoll::Error>(())
/// ```
#[derive(Clone)]
pub struct Tokenizer {
    engine: Arc<dyn Engine>,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// What the store found, or where it has nothing what a feature builds in.
fn or_bundled(name: &str, found: Result<Tokenizer>) -> Result<Tokenizer> {
    match found {
        Err(e) if matches!(e.kind(), Kind::NotFound | Kind::Unavailable) => bundled::find(name).unwrap_or(Err(e)),
        found => found,
    }
}

impl Tokenizer {
    /// The tokenizer of a vocabulary: one of the built-in `o200k_base`, `o200k_harmony`, `cl100k_base`, `p50k_base`,
    /// `r50k_base`, or one that the store of further vocabularies holds.
    ///
    /// # Errors
    /// [`Kind::NotFound`] when the name is unknown.
    pub fn by_name(name: &str) -> Result<Self> {
        match builtin::find(name) {
            Some(engine) => Ok(Self { engine }),
            None => or_bundled(name, store::find(name)),
        }
    }

    /// Like [`Self::by_name`], with a store of the caller's for what isn't built in.
    ///
    /// # Errors
    /// [`Kind::NotFound`] when the name is neither built in nor in the store; those of [`VocabularyStore::load`].
    pub fn by_name_in(name: &str, store: &VocabularyStore) -> Result<Self> {
        match builtin::find(name) {
            Some(engine) => Ok(Self { engine }),
            None => or_bundled(name, store.load(name)),
        }
    }

    /// A tokenizer over an engine of this crate.
    #[allow(dead_code, reason = "optional engines plug in here")]
    pub(crate) fn from_engine(engine: Arc<dyn Engine>) -> Self {
        Self { engine }
    }

    pub(super) fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// Texts of the added tokens (`<|im_end|>`) that the vocabulary's file names; empty for files that name none.
    #[cfg_attr(not(feature = "templates"), allow(dead_code, reason = "asked for by templates alone"))]
    pub(crate) fn special_tokens(&self) -> Vec<String> {
        self.engine.special_tokens()
    }

    /// A counter for a text that grows at its end. Incremental for rank vocabularies; others recount at each step.
    pub fn appender(&self) -> AppendCounter {
        AppendCounter::new(self.clone())
    }

    /// The vocabulary's name.
    pub fn name(&self) -> &str {
        self.engine.name()
    }

    /// Number of tokens of `text` as ordinary text.
    pub fn count(&self, text: &str) -> usize {
        self.engine.count(text)
    }

    /// The count if it is at most `limit`, else `None`; may stop as soon as the answer is known.
    pub fn count_within(&self, text: &str, limit: usize) -> Option<usize> {
        self.engine.count_within(text, limit)
    }

    /// Token ids of `text` as ordinary text.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.engine.encode(text)
    }

    /// The text of a row of token ids.
    ///
    /// # Errors
    /// [`Kind::InvalidInput`] when an id is not in the vocabulary, or the bytes are not UTF-8 (a row that was cut inside a
    /// character: see [`Self::decode_bytes`]).
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        String::from_utf8(self.decode_bytes(ids)?)
            .map_err(|error| Error::new(Kind::InvalidInput, "the tokens' bytes are not UTF-8").caused_by(error.utf8_error()))
    }

    /// The bytes of a row of token ids.
    ///
    /// # Errors
    /// [`Kind::InvalidInput`] when an id is not in the vocabulary.
    pub fn decode_bytes(&self, ids: &[u32]) -> Result<Vec<u8>> {
        self.engine.decode(ids).map_err(|id| Error::new(Kind::InvalidInput, format!("token id {id} is not in `{}`", self.name())))
    }

    /// Counts `text` as a whole, shared out among the pieces between `borders` (byte offsets, ascending,
    /// the last one `text.len()`): each token belongs to the piece in which it starts. The shares sum to `count(text)`.
    pub fn count_shares(&self, text: &str, borders: &[usize]) -> Vec<usize> {
        let mut shares = vec![0; borders.len()];
        let mut piece = 0;
        for start in self.engine.token_starts(text) {
            while piece + 1 < borders.len() && start >= borders[piece] {
                piece += 1;
            }
            if let Some(share) = shares.get_mut(piece) {
                *share += 1;
            }
        }
        shares
    }
}
