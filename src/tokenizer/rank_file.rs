//! Vocabularies given as ranks: `*.tiktoken` files (one `base64 rank` pair a line).
//!
//! Called by the store and by the tekken reader. Checks everything the byte-pair merge relies on (all 256 bytes
//! present, no rank and no token twice) before an engine is built, so that a damaged file is an error, never a panic.

use crate::error::{Error, Kind, Result};
use base64::Engine as _;
use rustc_hash::{FxBuildHasher, FxHashSet};

/// Tokens and their ranks, checked.
#[derive(Debug)]
pub(super) struct Ranks {
    /// Token bytes and rank, as the file orders them.
    pub(super) tokens: Vec<(Vec<u8>, u32)>,
}

impl Ranks {
    /// Reads a rank file.
    pub(super) fn parse(name: &str, text: &str) -> Result<Self> {
        let mut tokens = Vec::with_capacity(text.len() / 16);
        for (number, line) in text.lines().enumerate() {
            if line.is_empty() {
                continue;
            }
            let pair = line.split_once(' ').and_then(|(token, rank)| {
                Some((base64::engine::general_purpose::STANDARD.decode(token).ok()?, rank.trim_end().parse::<u32>().ok()?))
            });
            let Some(pair) = pair else {
                return Err(damaged(name, &format!("line {} is not `base64 rank`", number + 1)));
            };
            tokens.push(pair);
        }
        Self::checked(name, tokens)
    }

    /// Checks a list of tokens.
    pub(super) fn checked(name: &str, tokens: Vec<(Vec<u8>, u32)>) -> Result<Self> {
        let mut bytes = [false; 256];
        let mut ranks: Vec<u32> = tokens.iter().map(|(_, rank)| *rank).collect();
        ranks.sort_unstable();
        if let Some((twice, _)) = ranks.iter().zip(ranks.iter().skip(1)).find(|(a, b)| a == b) {
            return Err(damaged(name, &format!("rank {twice} is given twice")));
        }
        let mut seen = FxHashSet::with_capacity_and_hasher(tokens.len(), FxBuildHasher);
        for (token, rank) in &tokens {
            if token.is_empty() {
                return Err(damaged(name, &format!("the token of rank {rank} is empty")));
            }
            if !seen.insert(token.as_slice()) {
                return Err(damaged(name, &format!("the token of rank {rank} is given twice")));
            }
            if let [byte] = token[..] {
                bytes[usize::from(byte)] = true;
            }
        }
        match bytes.iter().position(|present| !present) {
            Some(missing) => Err(damaged(name, &format!("no token for the byte {missing}"))),
            None => Ok(Self { tokens }),
        }
    }
}

fn damaged(name: &str, why: &str) -> Error {
    Error::new(Kind::InvalidInput, format!("the vocabulary file of `{name}` is damaged: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All bytes, then `ab`.
    fn small() -> String {
        let encode = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
        let mut lines: Vec<String> = (0..=255_u8).map(|byte| format!("{} {byte}", encode(&[byte]))).collect();
        lines.push(format!("{} 256\n", encode(b"ab")));
        lines.join("\n")
    }

    #[test]
    fn damage_is_named_and_never_a_panic() {
        let whole = small();
        for (broken, why) in [
            (whole.replace("YWI= 256", "YWI= 255"), "rank 255 is given twice"),
            (format!("{whole}YWI= 300\n"), "is given twice"),
            (whole.lines().skip(1).collect::<Vec<_>>().join("\n"), "no token for the byte 0"),
            (whole[..whole.len() - 5].to_owned(), "is not `base64 rank`"),
            (format!("{whole} 300\n"), "is empty"),
            (String::new(), "no token for the byte 0"),
        ] {
            let error = Ranks::parse("small", &broken).unwrap_err();
            assert_eq!(error.kind(), Kind::InvalidInput);
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
