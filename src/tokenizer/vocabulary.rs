//! A rank vocabulary as flat tables: the built-in ones embedded and read in place, a user's rank file prepared once.
//!
//! Read by the merge loop (`bpe.rs`) and the core. Starting costs nothing: pages of the tables arrive as they are touched.

#![allow(clippy::cast_possible_truncation, reason = "an id in a slot has 21 bits")]

use super::prepare::{self, BUCKET, ID_BITS, ID_LIMIT, JOIN_WORDS, Joins, NONE, Tables};
use crate::error::{Error, Kind, Result};
use std::borrow::Cow;
use std::collections::HashMap;

/// The tables of one vocabulary. See [`prepare::Tables`] for what each holds.
pub(crate) struct Vocabulary {
    bytes: Cow<'static, [[u8; 4]]>,
    pairs: Cow<'static, [[u8; 64]]>,
    filter: Cow<'static, [[u8; 8]]>,
    offsets: Cow<'static, [[u8; 4]]>,
    text: Cow<'static, [u8]>,
    joins: Cow<'static, [[u8; 8]]>,
    words: Cow<'static, [[u8; 64]]>,
    whole: HashMap<Vec<u8>, u32>,
    bucket_bits: u32,
}

/// Embedded tables must start on a cache line for a bucket to be one.
#[repr(C, align(64))]
struct Aligned<T: ?Sized>(T);

macro_rules! embed {
    ($name:literal, $part:literal) => {{
        static TABLE: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".", $part)));
        &TABLE.0
    }};
}

macro_rules! embedded {
    ($name:literal) => {
        Self {
            bytes: Cow::Borrowed(embed!($name, "bytes").as_chunks().0),
            pairs: Cow::Borrowed(embed!($name, "pairs").as_chunks().0),
            filter: Cow::Borrowed(embed!($name, "filter").as_chunks().0),
            offsets: Cow::Borrowed(embed!($name, "offsets").as_chunks().0),
            text: Cow::Borrowed(embed!($name, "text")),
            joins: Cow::Borrowed(embed!($name, "joins").as_chunks().0),
            words: Cow::Borrowed(embed!($name, "words").as_chunks().0),
            whole: HashMap::new(),
            bucket_bits: 0,
        }
        .with_whole(embed!($name, "whole").as_chunks().0)
    };
}

impl Vocabulary {
    pub(super) fn o200k() -> Self {
        embedded!("o200k")
    }

    pub(super) fn cl100k() -> Self {
        embedded!("cl100k")
    }

    pub(super) fn p50k() -> Self {
        embedded!("p50k")
    }

    pub(super) fn r50k() -> Self {
        embedded!("r50k")
    }

    /// Finishes what the flat tables say.
    fn with_whole(mut self, whole: &[[u8; 4]]) -> Self {
        self.bucket_bits = self.pairs.len().ilog2();
        self.whole = whole
            .iter()
            .filter_map(|id| {
                let id = u32::from_le_bytes(*id);
                Some((self.token(id)?.to_vec(), id))
            })
            .collect();
        self
    }

    /// Prepares a vocabulary from `(bytes, id)` tokens, a lower id merging first. Takes some 100 ms for 100,000 tokens.
    ///
    /// # Errors
    /// [`Kind::InvalidInput`] when a single byte is missing, an id or token is given twice, or an id is 2^21 or more.
    pub(crate) fn from_ranks(tokens: &[(Vec<u8>, u32)]) -> Result<Self> {
        let tables = prepare::prepare(tokens)
            .map_err(|what| Error::new(Kind::InvalidInput, format!("the rank vocabulary is not usable: {what}")))?;
        Ok(Self::from_tables(tables))
    }

    /// A vocabulary over tables that are prepared already.
    pub(super) fn from_tables(tables: Tables) -> Self {
        Self {
            bytes: Cow::Owned(tables.bytes),
            pairs: Cow::Owned(tables.pairs),
            filter: Cow::Owned(tables.filter),
            offsets: Cow::Owned(tables.offsets),
            text: Cow::Owned(tables.text),
            joins: Cow::Owned(tables.joins),
            words: Cow::Owned(tables.words),
            whole: HashMap::new(),
            bucket_bits: 0,
        }
        .with_whole(&tables.whole)
    }

    /// The tables again.
    pub(super) fn into_tables(self) -> Tables {
        let mut whole: Vec<u32> = self.whole.into_values().collect();
        whole.sort_unstable();
        Tables {
            bytes: self.bytes.into_owned(),
            pairs: self.pairs.into_owned(),
            filter: self.filter.into_owned(),
            offsets: self.offsets.into_owned(),
            text: self.text.into_owned(),
            whole: whole.into_iter().map(u32::to_le_bytes).collect(),
            joins: self.joins.into_owned(),
            words: self.words.into_owned(),
        }
    }

    /// The id of a single byte.
    #[inline(always)]
    pub(super) fn byte(&self, byte: u8) -> u32 {
        self.bytes.get(usize::from(byte)).map_or(NONE, |id| u32::from_le_bytes(*id))
    }

    /// The id of two bytes as one token, or [`NONE`].
    #[inline(always)]
    pub(super) fn byte_pair(&self, left: u8, right: u8) -> u32 {
        self.bytes.get(256 + (usize::from(left) << 8 | usize::from(right))).map_or(NONE, |id| u32::from_le_bytes(*id))
    }

    /// The id that `left` and `right` merge into, or [`NONE`].
    #[inline(always)]
    pub(super) fn pair(&self, left: u32, right: u32) -> u32 {
        let key = u64::from(left) << ID_BITS | u64::from(right);
        let mut at = prepare::bucket_of(left, right, self.bucket_bits);
        let filter = self.filter.get(at).map_or(0, |word| u64::from_le_bytes(*word));
        if filter & prepare::filter_bit(left, right, self.bucket_bits) == 0 {
            return NONE;
        }
        // A bucket is one cache line; nearly every search ends in the first. No bucket chain is longer than the table.
        for _ in 0..self.pairs.len() {
            let Some(bucket) = self.pairs.get(at) else { return NONE };
            let slots = bucket.as_chunks::<8>().0;
            let mut found = NONE;
            for slot in slots {
                let slot = u64::from_le_bytes(*slot);
                if slot >> ID_BITS == key {
                    found = (slot & u64::from(ID_LIMIT - 1)) as u32;
                }
            }
            if found != NONE || slots.get(BUCKET - 1).is_none_or(|slot| u64::from_le_bytes(*slot) == u64::MAX) {
                return found;
            }
            at = (at + 1) & (self.pairs.len() - 1);
        }
        NONE
    }

    /// Whether a piece of at most [`prepare::WORD_BYTES`] is a token, by the halves of its key with the top four bits set.
    #[inline(always)]
    pub(super) fn is_word(&self, low: u64, high: u64) -> bool {
        let key = (u128::from(high) << 64 | u128::from(low)) & (u128::MAX >> 4);
        let (_, mut at) = self.word_line(low, high);
        // Nearly every search ends in the first line. No chain is longer than the table.
        for _ in 0..self.words.len() {
            let Some(line) = self.words.get(at) else { return false };
            let slots = line.as_chunks::<16>().0;
            if slots.iter().any(|slot| u128::from_le_bytes(*slot) == key) {
                return true;
            }
            if slots.last().is_none_or(|slot| *slot == [0; 16]) {
                return false;
            }
            at = (at + 1) & (self.words.len() - 1);
        }
        false
    }

    /// The lines that [`Self::is_word`] reads, and the one it reads first.
    #[inline(always)]
    pub(super) fn word_line(&self, low: u64, high: u64) -> (&[[u8; 64]], usize) {
        (&self.words, prepare::line_of(low, high, self.words.len().trailing_zeros()) as usize)
    }

    /// Reads the tables of merging in order, a byte of each cache line, so that they are near when they are read here and there.
    /// Takes up to some 0.3 ms.
    #[inline(never)]
    pub(super) fn read_ahead(&self) {
        const CACHE_LINE: usize = 64;
        for table in [self.filter.as_flattened(), self.bytes.as_flattened(), self.pairs.as_flattened()] {
            std::hint::black_box(table.iter().step_by(CACHE_LINE).fold(0, |read, byte| read ^ byte));
        }
    }

    /// Where rows of wide characters can be cut.
    #[inline(always)]
    pub(super) fn joins(&self) -> Option<Joins<'_>> {
        self.joins.first_chunk::<JOIN_WORDS>().map(Joins)
    }

    /// The token that `piece` is as a whole although merging can't produce it.
    #[inline(always)]
    pub(super) fn whole(&self, piece: &[u8]) -> Option<u32> {
        if self.whole.is_empty() { None } else { self.whole.get(piece).copied() }
    }

    /// The bytes of a token.
    pub(super) fn token(&self, id: u32) -> Option<&[u8]> {
        let id = usize::try_from(id).ok()?;
        let at = |id: usize| Some(u32::from_le_bytes(*self.offsets.get(id)?) as usize);
        self.text.get(at(id)?..at(id + 1)?).filter(|bytes| !bytes.is_empty())
    }

    /// All tokens, by id.
    pub(super) fn tokens(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.limit()).filter_map(|id| self.token(id))
    }

    /// Ids run from 0 to below this; some may be unused.
    pub(super) fn limit(&self) -> u32 {
        u32::try_from(self.offsets.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }
}
