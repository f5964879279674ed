//! The front: one cheap-to-clone handle over whichever engine serves a vocabulary.

use crate::error::{Error, Kind, Result};

/// A text tokenizer: cheap to clone, `Send + Sync`.
///
/// ```
/// let o200k = plimsoll::Tokenizer::by_name("o200k_base")?;
/// assert_eq!(o200k.count("Hello world"), 2);
/// assert_eq!(o200k.count_within("Hello world", 1), None);
/// # Ok::<(), plimsoll::Error>(())
/// ```
#[derive(Clone)]
pub struct Tokenizer {
    name: &'static str,
    engine: &'static tiktoken_rs::CoreBPE,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Tokenizer {
    /// The tokenizer of a published vocabulary.
    ///
    /// # Errors
    /// [`Kind::NotFound`] when the name is unknown.
    pub fn by_name(name: &str) -> Result<Self> {
        let (name, engine) = match name {
            "o200k_base" => ("o200k_base", tiktoken_rs::o200k_base_singleton()),
            "o200k_harmony" => ("o200k_harmony", tiktoken_rs::o200k_harmony_singleton()),
            "cl100k_base" => ("cl100k_base", tiktoken_rs::cl100k_base_singleton()),
            "p50k_base" => ("p50k_base", tiktoken_rs::p50k_base_singleton()),
            "r50k_base" => ("r50k_base", tiktoken_rs::r50k_base_singleton()),
            _ => return Err(Error::new(Kind::NotFound, format!("unknown tokenizer `{name}`"))),
        };
        Ok(Self { name, engine })
    }

    /// The vocabulary's name.
    pub fn name(&self) -> &str {
        self.name
    }

    /// Number of tokens of `text` as ordinary text.
    pub fn count(&self, text: &str) -> usize {
        self.engine.encode_ordinary(text).len()
    }

    /// The count if it is at most `limit`, else `None`; may stop as soon as the answer is known.
    pub fn count_within(&self, text: &str, limit: usize) -> Option<usize> {
        let count = self.count(text);
        (count <= limit).then_some(count)
    }

    /// Token ids of `text` as ordinary text.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.engine.encode_ordinary(text)
    }

    /// Counts `text` as a whole, shared out among the pieces between `borders` (byte offsets, ascending,
    /// the last one `text.len()`): each token belongs to the piece in which it starts. The shares sum to `count(text)`.
    pub fn count_shares(&self, text: &str, borders: &[usize]) -> Vec<usize> {
        let mut shares = vec![0; borders.len()];
        let (mut piece, mut at) = (0, 0);
        for id in self.encode(text) {
            while piece + 1 < borders.len() && at >= borders[piece] {
                piece += 1;
            }
            if let Some(share) = shares.get_mut(piece) {
                *share += 1;
            }
            at += self.engine.decode_bytes(&[id]).map_or(0, |bytes| bytes.len());
        }
        shares
    }
}
