//! What an engine must offer to serve behind [`super::Tokenizer`].
//!
//! Implemented by the hot core, by the `tokenizer.json` engine and by wrappers such as the message cache; called
//! by the front alone. An engine treats special-token look-alikes as ordinary text, never panics on any text, and
//! gives `count(t) == encode(t).len()` (invariant 4).

/// A vocabulary with its way of splitting. Shared between threads behind an `Arc`.
pub(crate) trait Engine: Send + Sync {
    /// The vocabulary's name, as [`super::Tokenizer::by_name`] takes it.
    fn name(&self) -> &str;

    /// Number of tokens of `text`.
    fn count(&self, text: &str) -> usize {
        self.encode(text).len()
    }

    /// The count if it is at most `limit`; may stop as soon as the answer is known.
    fn count_within(&self, text: &str, limit: usize) -> Option<usize> {
        let count = self.count(text);
        (count <= limit).then_some(count)
    }

    /// Token ids of `text`.
    fn encode(&self, text: &str) -> Vec<u32>;

    /// The bytes that one token stands for, or `None` when the id is unknown. Concatenated over `encode(text)` they
    /// give the text back where the vocabulary loses nothing.
    fn token_bytes(&self, id: u32) -> Option<Vec<u8>>;

    /// The bytes of a row of tokens, or the first unknown id. Engines whose tokens depend on their neighbours override it.
    fn decode(&self, ids: &[u32]) -> Result<Vec<u8>, u32> {
        let mut bytes = Vec::new();
        for &id in ids {
            bytes.extend(self.token_bytes(id).ok_or(id)?);
        }
        Ok(bytes)
    }

    /// Byte offset in `text` at which each token of `encode(text)` starts, ascending. Engines that normalize text override it.
    fn token_starts(&self, text: &str) -> Vec<usize> {
        let mut at = 0;
        self.encode(text)
            .into_iter()
            .map(|id| {
                let start = at;
                at += self.token_bytes(id).map_or(0, |bytes| bytes.len());
                start
            })
            .collect()
    }

    /// Texts of the tokens that stand for no text of their own (`<|im_end|>`), where the vocabulary's file names them.
    #[cfg_attr(not(feature = "templates"), allow(dead_code, reason = "asked for by templates alone"))]
    fn special_tokens(&self) -> Vec<String> {
        Vec::new()
    }

    /// The hot core, when this is one: the appendable counter works on its insides.
    fn core(&self) -> Option<&super::core::Core> {
        None
    }
}
