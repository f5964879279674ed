//! Open-weight vocabularies that cargo features build in, from data crates that others publish (features `vocab-qwen`, `vocab-glm`).
//!
//! Asked by the front when neither the built-in vocabularies nor the store have a name. Prepared at first use, once per process.
//! The crates' content is proven as a file's would be; a crate that changed its format or its content is an error, not a wrong count.

use super::Tokenizer;
use crate::error::Result;

/// One vocabulary that a feature builds in.
pub(super) struct Bundled {
    /// Canonical name.
    pub(super) name: &'static str,
    /// Where it comes from.
    pub(super) source: &'static str,
    /// The makers' licence, which the data crate carries on.
    pub(super) licence: &'static str,
    /// As the data crate packs it.
    #[cfg_attr(not(any(feature = "vocab-qwen", feature = "vocab-glm")), expect(dead_code, reason = "there is none to read"))]
    packed: &'static [u8],
}

/// Those that this build has.
pub(super) const ALL: &[Bundled] = &[
    #[cfg(feature = "vocab-qwen")]
    Bundled {
        name: "qwen3",
        source: "Qwen/Qwen3-8B, by the crate splintr-vocab-qwen",
        licence: "Apache-2.0",
        packed: splintr_vocab_qwen::QWEN3_VOCAB_PACKED,
    },
    #[cfg(feature = "vocab-glm")]
    Bundled {
        name: "glm4",
        source: "zai-org/GLM-4.5, by the crate splintr-vocab-glm",
        licence: "MIT",
        packed: splintr_vocab_glm::GLM4_VOCAB_PACKED,
    },
];

impl Bundled {
    /// Its tokens and ranks, in the crate's order.
    ///
    /// # Errors
    /// [`crate::Kind::Corrupt`] for a form that is unknown to this version.
    #[cfg(any(feature = "vocab-qwen", feature = "vocab-glm"))]
    pub(super) fn ranks(&self) -> Result<super::rank_file::Ranks> {
        packed::ranks(self.name, self.packed)
    }
}

/// The tokenizer of a bundled vocabulary, when a feature builds it in.
#[cfg(any(feature = "vocab-qwen", feature = "vocab-glm"))]
pub(super) fn find(name: &str) -> Option<Result<Tokenizer>> {
    use super::engine::Engine;
    use std::collections::HashMap;
    use std::sync::{Arc, LazyLock, Mutex, PoisonError};
    static MADE: LazyLock<Mutex<HashMap<String, Arc<dyn Engine>>>> = LazyLock::new(Mutex::default);

    let name = super::known::canonical(name);
    let bundled = ALL.iter().find(|bundled| bundled.name == name)?;
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(engine) = made.get(name) {
        return Some(Ok(Tokenizer::from_engine(Arc::clone(engine))));
    }
    let engine = bundled.ranks().and_then(|ranks| super::make::bundled(name, &ranks));
    Some(engine.map(|engine| {
        made.insert(name.to_owned(), Arc::clone(&engine));
        Tokenizer::from_engine(engine)
    }))
}

#[cfg(not(any(feature = "vocab-qwen", feature = "vocab-glm")))]
pub(super) fn find(_name: &str) -> Option<Result<Tokenizer>> {
    None
}

/// The form in which the data crates hold ranks: a magic word, the number of entries, then rank, length and bytes of each.
#[cfg(any(feature = "vocab-qwen", feature = "vocab-glm"))]
mod packed {
    use crate::error::{Error, Kind, Result};
    use crate::tokenizer::rank_file::Ranks;

    const MAGIC: &[u8] = b"SPLNTRV1";

    pub(super) fn ranks(name: &str, file: &[u8]) -> Result<Ranks> {
        let tokens =
            read(file).ok_or_else(|| Error::new(Kind::Corrupt, format!("the built-in vocabulary `{name}` has an unknown form")))?;
        Ranks::checked(name, tokens)
    }

    fn read(file: &[u8]) -> Option<Vec<(Vec<u8>, u32)>> {
        let (count, mut rest) = file.strip_prefix(MAGIC)?.split_first_chunk::<4>()?;
        let count = usize::try_from(u32::from_le_bytes(*count)).ok()?;
        let mut tokens = Vec::with_capacity(count.min(1 << 20));
        for _ in 0..count {
            let rank = varint(&mut rest)?;
            let length = usize::try_from(varint(&mut rest)?).ok()?;
            let (token, after) = rest.split_at_checked(length)?;
            rest = after;
            tokens.push((token.to_vec(), rank));
        }
        rest.is_empty().then_some(tokens)
    }

    /// Seven bits a byte, the lowest first.
    fn varint(rest: &mut &[u8]) -> Option<u32> {
        let mut value = 0_u32;
        for shift in (0..32).step_by(7) {
            let (byte, after) = rest.split_first()?;
            *rest = after;
            value |= u32::from(byte & 0x7F).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn reads_whole_files_and_nothing_else() {
            let mut file = [MAGIC, &2_u32.to_le_bytes()].concat();
            file.extend([0xAC, 0x02, 2, b'a', b'b', 1, 1, b'c']);
            assert_eq!(read(&file).unwrap(), [(b"ab".to_vec(), 300), (b"c".to_vec(), 1)]);
            for cut in 0..file.len() {
                assert_eq!(read(&file[..cut]), None, "{cut}");
            }
            assert_eq!(read(&[&file[..], b"x"].concat()), None);
        }
    }
}

#[cfg(all(test, feature = "vocab-qwen", feature = "vocab-glm"))]
mod tests {
    use super::*;

    #[test]
    fn bundled_vocabularies_give_their_known_ids() {
        for (name, ids) in [("qwen2.5", [9707, 1879, 220, 108_386]), ("glm4", [9703, 1879, 101_726, 98384])] {
            assert_eq!(find(name).unwrap().unwrap().encode("Hello world 你好"), ids, "{name}");
        }
        assert!(find("llama3").is_none());
    }
}
