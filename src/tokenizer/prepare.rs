//! Turns a rank vocabulary into the flat tables that the merge loop reads. Plain `std` code, compiled twice: into the
//! build script for the built-in vocabularies, and into the crate for rank files that a user brings.
//!
//! In byte pair encoding by ranks each token that can arise at all arises from exactly one pair: inside a token the
//! merges run in the same order whatever stands around it. So one pair a token is all that the merge loop must know;
//! any other pair with the same bytes is always broken up by an earlier merge. Tokens that can't arise by merging are
//! kept apart: they are used only when they are a whole piece.

#![allow(clippy::cast_possible_truncation, reason = "ids are checked to be under 2^21, and a vocabulary's bytes are far under 4 GiB")]

use std::collections::HashMap;

/// Bits of an id in a slot of the pair table.
pub(crate) const ID_BITS: u32 = 21;
/// Largest id that the pair table can hold, plus one.
pub(crate) const ID_LIMIT: u32 = 1 << ID_BITS;
/// Most work of preparing: the sum of the squares of the tokens' lengths. The largest vocabularies of 2026 take 2^25.
pub(crate) const MOST_WORK: u64 = 1 << 31;
/// No token; also an empty slot of the byte pair table.
pub(crate) const NONE: u32 = u32::MAX;
/// Slots in a bucket: one cache line.
pub(crate) const BUCKET: usize = 8;

/// A vocabulary's tables, each little-endian and flat so that they can be written to a file and read in place.
pub(crate) struct Tables {
    /// 256 ids of the single bytes, then 65,536 ids of byte pairs ([`NONE`] where no token).
    pub(crate) bytes: Vec<[u8; 4]>,
    /// Buckets of `left << 42 | right << 21 | merged`, all ones where empty.
    pub(crate) pairs: Vec<[u8; 64]>,
    /// 64 bits a bucket: which of its hashes some pair has, so that most pairs that don't merge never touch `pairs`.
    pub(crate) filter: Vec<[u8; 8]>,
    /// Where each id's bytes start in `text`, one entry more than ids; equal neighbours where there is no such id.
    pub(crate) offsets: Vec<[u8; 4]>,
    /// The bytes of all tokens, by id.
    pub(crate) text: Vec<u8>,
    /// Ids of tokens that merging can't produce, ascending.
    pub(crate) whole: Vec<[u8; 4]>,
    /// Which neighbours some token may join: see [`Joins`].
    pub(crate) joins: Vec<[u8; 8]>,
    /// Lines of four keys (see [`word_key`]): the tokens of at most [`WORD_BYTES`]; zero where empty.
    pub(crate) words: Vec<[u8; 64]>,
}

/// Longest token in [`Tables::words`].
pub(crate) const WORD_BYTES: usize = 15;

/// A token of 1 to [`WORD_BYTES`] bytes as a number: its bytes, and ones behind, which no text has; the top four bits are left free.
pub(crate) fn word_key(token: &[u8]) -> u128 {
    let mut bytes = [0xFF; 16];
    bytes[..token.len()].copy_from_slice(token);
    u128::from_le_bytes(bytes) & (u128::MAX >> 4)
}

/// The line, of `2^bits`, of a key's halves (the top four bits set). Made of what vectors can do.
#[inline(always)]
pub(crate) const fn line_of(low: u64, high: u64, bits: u32) -> u32 {
    let mixed = low ^ high.rotate_left(23);
    let halves = (mixed & 0xFFFF_FFFF).wrapping_mul(HASH[0]) ^ (mixed >> 32).wrapping_mul(HASH[1]);
    ((halves ^ halves >> 32) as u32).wrapping_mul(HASH[2] as u32) >> (32 - bits)
}

/// Odd factors of the hashes, of 32 bits.
pub(crate) const HASH: [u64; 3] = [0x9E37_79B1, 0x85EB_CA77, 0xC2B2_AE3D];

/// The table of tokens that may be whole pieces.
fn words(tokens: &[&[u8]]) -> Vec<[u8; 64]> {
    let short = || tokens.iter().filter(|token| (1..=WORD_BYTES).contains(&token.len()));
    let mut bits = 2;
    // An eighth is left free, so that searches end soon.
    while (4 << bits) * 7 / 8 < short().count() {
        bits += 1;
    }
    let mut lines = vec![[0_u128; 4]; 1 << bits];
    for token in short() {
        let key = word_key(token);
        let mut line = line_of(key as u64, (key >> 64) as u64 | 0xF << 60, bits) as usize;
        loop {
            if let Some(slot) = lines[line].iter_mut().find(|slot| **slot == 0) {
                *slot = key;
                break;
            }
            line = (line + 1) & (lines.len() - 1);
        }
    }
    lines
        .into_iter()
        .map(|line| {
            let mut bytes = [0; 64];
            for (place, key) in bytes.chunks_exact_mut(16).zip(line) {
                place.copy_from_slice(&key.to_le_bytes());
            }
            bytes
        })
        .collect()
}

/// Bits of the table of pairs of characters, as a power of two.
pub(crate) const JOIN_BITS: u32 = 18;
/// Words of [`Tables::joins`]: the pairs' bits, then one bit a code point under 2^16.
pub(crate) const JOIN_WORDS: usize = (1 << (JOIN_BITS - 6)) + (1 << 10);

/// Where a row of characters of three bytes can be cut without changing its tokens.
///
/// Merging never joins the bytes on two sides of a border that no token of the vocabulary lies across. So the row's tokens are
/// those of its parts. A pair's bit is set when some token holds the two characters, or the first and the beginning of
/// the second; a character's own bit when some token joins it to a part of a character whose rest is not known, or when it is in a
/// token that merging can't produce: only a whole piece is such a token, never a part. Bits are shared, by hash: one that is
/// set for another pair costs a cut and nothing else.
#[derive(Clone, Copy)]
pub(crate) struct Joins<'a>(pub(crate) &'a [[u8; 8]; JOIN_WORDS]);

impl Joins<'_> {
    /// Whether a token may lie across the border of two neighbours, each as its three bytes, the first one highest.
    #[inline(always)]
    pub(crate) const fn pair(self, left: u32, right: u32) -> bool {
        self.bit(pair_bit(left, right))
    }

    /// Whether a character must not be cut off on either side.
    #[inline(always)]
    pub(crate) const fn alone(self, character: u32) -> bool {
        self.bit(alone_bit(character))
    }

    #[inline(always)]
    const fn bit(self, bit: usize) -> bool {
        u64::from_le_bytes(self.0[bit >> 6]) >> (bit & 63) & 1 == 1
    }
}

/// Factors of the hash of a pair. Vectors make it as well.
pub(crate) const JOIN_FACTORS: [u32; 2] = [0x85EB_CA77, 0x9E37_79B1];

#[inline(always)]
const fn pair_bit(left: u32, right: u32) -> usize {
    ((left.wrapping_mul(JOIN_FACTORS[0]) ^ right).wrapping_mul(JOIN_FACTORS[1]) >> (32 - JOIN_BITS)) as usize
}

#[inline(always)]
const fn alone_bit(character: u32) -> usize {
    (1 << JOIN_BITS) | ((character >> 4 & 0xF000) | (character >> 2 & 0xFC0) | (character & 0x3F)) as usize
}

/// Bytes as a number, the first one highest.
fn code_of(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |code, byte| code << 8 | u32::from(*byte))
}

/// The bits of [`Joins`] for the borders inside a token.
fn join(token: &[u8], set: &mut impl FnMut(usize)) {
    let lead = |byte: u8| byte & 0xC0 != 0x80;
    for border in 1..token.len() {
        let (before, after) = token.split_at(border);
        if after[0] & 0xF0 != 0xE0 {
            continue;
        }
        // The characters on the right, as far as the token tells.
        let known = &after[..after.len().min(3)];
        let first = code_of(known) << (8 * (3 - known.len()));
        let free = 64_u32.pow(3 - known.len() as u32);
        let rights = (0..free).map(|low| match known.len() {
            3 => first,
            2 => first | 0x80 | low,
            _ => first | 0x8080 | (low >> 6) << 8 | (low & 63),
        });
        // The character on the left: its bytes from its lead on, if the token has that.
        let left = (1..=before.len().min(4)).find(|length| lead(before[before.len() - length]));
        match left {
            Some(3) if before[before.len() - 3] & 0xF0 == 0xE0 => {
                let left = code_of(&before[before.len() - 3..]);
                if known.len() == 1 {
                    set(alone_bit(left));
                } else {
                    rights.for_each(|right| set(pair_bit(left, right)));
                }
            }
            // The end of a character of three bytes or four.
            None if before.len() < 3 => rights.for_each(|right| set(alone_bit(right))),
            // Some other character, which is never cut off, or bytes that are no text.
            _ => {}
        }
    }
}

/// Which bucket a pair belongs to, of `2^bits`.
#[inline]
pub(crate) const fn bucket_of(left: u32, right: u32, bits: u32) -> usize {
    (hash(left, right) >> (64 - bits)) as usize
}

/// Which bit of its bucket's filter a pair has.
#[inline]
pub(crate) const fn filter_bit(left: u32, right: u32, bits: u32) -> u64 {
    1 << ((hash(left, right) >> (58 - bits)) & 63)
}

#[inline]
const fn hash(left: u32, right: u32) -> u64 {
    let key = ((left as u64) << ID_BITS) | right as u64;
    key.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Prepares the tables of `(bytes, id)` tokens, where a lower id merges first.
///
/// # Errors
/// What is wrong with the vocabulary: a missing single byte, an id or token given twice, an id out of range.
pub(crate) fn prepare(tokens: &[(Vec<u8>, u32)]) -> Result<Tables, String> {
    let mut ids: HashMap<&[u8], u32, Fold> = HashMap::with_capacity_and_hasher(tokens.len(), Fold);
    let mut work = 0_u64;
    let mut limit = 0;
    for (bytes, id) in tokens {
        if *id >= ID_LIMIT - 1 {
            return Err(format!("id {id} is over the {ID_LIMIT} that the tables hold"));
        }
        if bytes.is_empty() {
            return Err(format!("id {id} has no bytes"));
        }
        if ids.insert(bytes, *id).is_some() {
            return Err(format!("id {id} has the same bytes as another"));
        }
        // Finding how a token arises takes time by the square of its length.
        work = work.saturating_add((bytes.len() as u64).saturating_pow(2));
        if work > MOST_WORK {
            return Err(format!("its tokens are too long: those up to id {id}, {} bytes, would take minutes to prepare", bytes.len()));
        }
        limit = limit.max(*id as usize + 1);
    }
    let mut by_id: Vec<&[u8]> = vec![&[]; limit];
    for (bytes, id) in tokens {
        if !std::mem::replace(&mut by_id[*id as usize], bytes.as_slice()).is_empty() {
            return Err(format!("id {id} is given twice"));
        }
    }

    let mut single = vec![NONE; 256 + 65_536];
    for byte in 0..=255_u8 {
        let id = ids.get([byte].as_slice());
        single[usize::from(byte)] = *id.ok_or_else(|| format!("no token for the single byte {byte:#04x}"))?;
    }

    let mut pairs = Vec::with_capacity(tokens.len());
    let mut whole = Vec::new();
    for ((id, bytes), split) in (0_u32..).zip(&by_id).zip(splits(&by_id, &ids)).filter(|((_, bytes), _)| bytes.len() > 1) {
        match split {
            Some(at) => {
                let (left, right) = (ids[&bytes[..at]], ids[&bytes[at..]]);
                if bytes.len() == 2 {
                    single[256 + usize::from(bytes[0]) * 256 + usize::from(bytes[1])] = id;
                }
                pairs.push((left, right, id));
            }
            None => whole.push(id.to_le_bytes()),
        }
    }

    let mut bits = 3;
    while (BUCKET << bits) * 4 < pairs.len() * 5 {
        bits += 1;
    }
    let mut buckets = vec![[u64::MAX; BUCKET]; 1 << bits];
    let mut filter = vec![0_u64; 1 << bits];
    for (left, right, id) in pairs {
        let mut bucket = bucket_of(left, right, bits);
        filter[bucket] |= filter_bit(left, right, bits);
        loop {
            if let Some(slot) = buckets[bucket].iter_mut().find(|slot| **slot == u64::MAX) {
                *slot = u64::from(left) << (2 * ID_BITS) | u64::from(right) << ID_BITS | u64::from(id);
                break;
            }
            bucket = (bucket + 1) % buckets.len();
        }
    }

    let mut joins = vec![0_u64; JOIN_WORDS];
    let mut set = |bit: usize| joins[bit >> 6] |= 1 << (bit & 63);
    for bytes in &by_id {
        join(bytes, &mut set);
    }
    // A part of a row must not be taken for a token that only a whole piece can be.
    for id in &whole {
        let token = by_id[u32::from_le_bytes(*id) as usize];
        for character in token.windows(3).filter(|bytes| bytes[0] & 0xF0 == 0xE0) {
            set(alone_bit(code_of(character)));
        }
    }

    let words = words(&by_id);
    let mut offsets = Vec::with_capacity(limit + 1);
    let mut text = Vec::new();
    for bytes in by_id {
        offsets.push((text.len() as u32).to_le_bytes());
        text.extend_from_slice(bytes);
    }
    offsets.push((text.len() as u32).to_le_bytes());
    Ok(Tables {
        bytes: single.into_iter().map(u32::to_le_bytes).collect(),
        pairs: buckets
            .into_iter()
            .map(|bucket| {
                let mut line = [0; 64];
                for (place, slot) in line.chunks_exact_mut(8).zip(bucket) {
                    place.copy_from_slice(&slot.to_le_bytes());
                }
                line
            })
            .collect(),
        filter: filter.into_iter().map(u64::to_le_bytes).collect(),
        offsets,
        text,
        whole,
        joins: joins.into_iter().map(u64::to_le_bytes).collect(),
        words,
    })
}

/// [`last_split`] of all tokens: most of the time that preparing takes, so that it is shared out among threads.
fn splits(by_id: &[&[u8]], ids: &HashMap<&[u8], u32, Fold>) -> Vec<Option<usize>> {
    /// What a thread is worth.
    const TOKENS: usize = 8_192;
    let of = |tokens: &[&[u8]]| -> Vec<Option<usize>> {
        let mut parts = Vec::new();
        tokens.iter().map(|bytes| last_split(bytes, ids, &mut parts)).collect()
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(by_id.len().div_ceil(TOKENS));
    if threads < 2 {
        return of(by_id);
    }
    std::thread::scope(|scope| {
        let others: Vec<_> = by_id.chunks(by_id.len().div_ceil(threads)).map(|tokens| (tokens, scope.spawn(move || of(tokens)))).collect();
        // A thread can't fail but by a defect; doing its part here then shows it.
        others.into_iter().flat_map(|(tokens, other)| other.join().unwrap_or_else(|_| of(tokens))).collect()
    })
}

/// Where the last merge joins the two parts of `bytes`, or `None` when merging does not end in one token.
fn last_split(bytes: &[u8], ids: &HashMap<&[u8], u32, Fold>, parts: &mut Vec<(usize, u32)>) -> Option<usize> {
    if bytes.len() <= 2 {
        return (bytes.len() == 2).then_some(1);
    }
    let rank = |from: usize, to: usize| ids.get(&bytes[from..to]).copied().unwrap_or(NONE);
    // Each part: where it starts, and the rank of the pair that it opens.
    parts.clear();
    parts.extend((0..bytes.len()).map(|at| (at, if at + 2 <= bytes.len() { rank(at, at + 2) } else { NONE })));
    while parts.len() > 2 {
        let (at, &(_, lowest)) = parts.iter().enumerate().min_by_key(|(_, part)| part.1)?;
        if lowest == NONE {
            return None;
        }
        parts.remove(at + 1);
        let end = |part: usize, parts: &Vec<(usize, u32)>| parts.get(part).map_or(bytes.len(), |part| part.0);
        parts[at].1 = if at + 1 < parts.len() { rank(parts[at].0, end(at + 2, parts)) } else { NONE };
        if at > 0 {
            parts[at - 1].1 = rank(parts[at - 1].0, end(at + 1, parts));
        }
    }
    parts.get(1).map(|part| part.0)
}

/// A short multiply hash: the build script runs unoptimized, where the standard one takes seconds.
#[derive(Clone, Copy, Default)]
struct Fold;

struct Folded(u64);

impl std::hash::BuildHasher for Fold {
    type Hasher = Folded;
    fn build_hasher(&self) -> Folded {
        Folded(0)
    }
}

impl std::hash::Hasher for Folded {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }
    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}
