//! What replayed reasoning cost, as the response that made it reported: per signature.
//!
//! Thought signatures (Gemini) and encrypted reasoning (Responses) can't be tokenized; their cost is known
//! only from the usage of the response that produced them. Filled by hosts or from earlier responses in a
//! log; read by renderers. Keeps hashes, never content.

use std::collections::HashMap;
use twox_hash::XxHash3_128;

/// Tokens per signature or encrypted reasoning text.
#[derive(Clone, Debug, Default)]
pub struct ReasoningMemory {
    tokens: HashMap<u128, u64>,
}

impl ReasoningMemory {
    /// Remembers that the reasoning behind `signature` (as sent, base64) cost `tokens`.
    pub fn remember(&mut self, signature: &str, tokens: u64) {
        self.tokens.insert(key(signature), tokens);
    }

    /// Tokens of the reasoning behind `signature`, if remembered.
    pub fn recall(&self, signature: &str) -> Option<u64> {
        self.tokens.get(&key(signature)).copied()
    }
}

/// Hash of a signature in one spelling: client libraries replay base64 in the URL-safe alphabet and without padding.
fn key(signature: &str) -> u128 {
    let signature = signature.trim_end_matches('=');
    if signature.contains(['-', '_']) {
        return XxHash3_128::oneshot(signature.replace('-', "+").replace('_', "/").as_bytes());
    }
    XxHash3_128::oneshot(signature.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_signature_in_two_spellings() {
        let mut memory = ReasoningMemory::default();
        memory.remember("AY89a1+O/w==", 42);
        assert_eq!(memory.recall("AY89a1-O_w"), Some(42));
        assert_eq!(memory.recall("AY89a1-O_x"), None);
    }
}
