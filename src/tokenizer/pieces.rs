//! The exact piece cache: token counts of pieces, by the pieces' own bytes.
//!
//! Three tables by length, since most pieces are short: up to 15 bytes in 16-byte slots, up to 30 in 32, up to 62 in 64.
//! A slot holds the piece itself, its length and its count, so that a hit is a comparison and never a guess; a piece
//! that hashes to a taken slot moves the older one to the neighbour. Belongs to one call at a time (see `core.rs`).
//! Memory: 1 MiB + 1 MiB + 1 MiB, touched as it fills.

#![allow(clippy::cast_possible_truncation, reason = "halves of words and masked indexes are meant")]

/// Slots by length class, as powers of two.
const SHORT_BITS: u32 = 16;
const MIDDLE_BITS: u32 = 15;
const LARGE_BITS: u32 = 14;
/// Longest piece that is kept.
pub(super) const LONGEST: usize = 62;
const SHORT: usize = 15;
const MIDDLE: usize = 30;

type Table<const WORDS: usize> = Box<[[u128; WORDS]]>;

/// Counts of pieces seen before.
pub(super) struct PieceCache {
    short: Table<1>,
    middle: Table<2>,
    large: Table<4>,
}

impl PieceCache {
    pub(super) fn new() -> Self {
        Self {
            short: vec![[0; 1]; 1 << SHORT_BITS].into_boxed_slice(),
            middle: vec![[0; 2]; 1 << MIDDLE_BITS].into_boxed_slice(),
            large: vec![[0; 4]; 1 << LARGE_BITS].into_boxed_slice(),
        }
    }

    /// The count of `text[at..end]`, a piece of 1 to [`LONGEST`] bytes, found or made by `make` (which must give at most its length).
    #[inline(always)]
    pub(super) fn count(&mut self, text: &[u8], at: usize, end: usize, make: impl FnOnce(&[u8]) -> usize) -> usize {
        match end - at {
            0..=SHORT => lookup::<1, SHORT_BITS>(&mut self.short, text, at, end, make),
            16..=MIDDLE => lookup::<2, MIDDLE_BITS>(&mut self.middle, text, at, end, make),
            _ => lookup::<4, LARGE_BITS>(&mut self.large, text, at, end, make),
        }
    }
}

/// Bits of a slot's last word that are not key: the count. One byte, or half a byte beside the length in a 15-byte slot.
const fn count_shift(words: usize) -> u32 {
    if words == 1 { 124 } else { 120 }
}

#[inline(always)]
fn lookup<const WORDS: usize, const BITS: u32>(
    table: &mut Table<WORDS>,
    text: &[u8],
    at: usize,
    end: usize,
    make: impl FnOnce(&[u8]) -> usize,
) -> usize {
    let key = key::<WORDS>(text, at, end);
    let shift = count_shift(WORDS);
    let index = hash(&key) >> (64 - BITS);
    let index = index as usize & ((1 << BITS) - 1);
    let matches = |slot: &[u128; WORDS]| {
        let mut difference = (slot[WORDS - 1] ^ key[WORDS - 1]) << (128 - shift);
        for word in 0..WORDS - 1 {
            difference |= slot[word] ^ key[word];
        }
        difference == 0
    };
    let Some(slot) = table.get(index) else { return make(&text[at..end]) };
    if matches(slot) {
        return (slot[WORDS - 1] >> shift) as usize;
    }
    second(table, index, matches, key, shift, || make(&text[at..end]))
}

/// The neighbouring slot, else the merge loop.
#[inline(always)]
fn second<const WORDS: usize>(
    table: &mut Table<WORDS>,
    index: usize,
    matches: impl Fn(&[u128; WORDS]) -> bool,
    mut key: [u128; WORDS],
    shift: u32,
    make: impl FnOnce() -> usize,
) -> usize {
    let neighbour = index ^ 1;
    if let Some(slot) = table.get(neighbour)
        && matches(slot)
    {
        return (slot[WORDS - 1] >> shift) as usize;
    }
    let count = make();
    key[WORDS - 1] |= (count as u128) << shift;
    if index < table.len() && neighbour < table.len() {
        table.swap(index, neighbour);
        table[index] = key;
    }
    count
}

/// The piece's bytes, zeros behind, and its length above them.
#[inline(always)]
fn key<const WORDS: usize>(text: &[u8], at: usize, end: usize) -> [u128; WORDS] {
    let length = end - at;
    let mut key = [0; WORDS];
    let from = (WORDS / 2) * 16;
    if let Some(bytes) = text.get(at..at + WORDS * 16) {
        for (word, bytes) in key.iter_mut().zip(bytes.as_chunks::<16>().0) {
            *word = u128::from_le_bytes(*bytes);
        }
    } else {
        let mut padded = [[0; 16]; WORDS];
        padded.as_flattened_mut()[..length].copy_from_slice(&text[at..end]);
        key = padded.map(u128::from_le_bytes);
    }
    for (word, value) in key.iter_mut().enumerate() {
        let start = word * 16;
        if start + 16 > from {
            *value &= MASKS[length.saturating_sub(start).min(16)];
        }
    }
    key[WORDS - 1] |= (length as u128) << if WORDS == 1 { 120 } else { 112 };
    key
}

/// The low `n` bytes of a word.
static MASKS: [u128; 17] = {
    let mut masks = [u128::MAX; 17];
    let mut bytes = 0;
    while bytes < 16 {
        masks[bytes] = (1 << (8 * bytes)) - 1;
        bytes += 1;
    }
    masks
};

#[inline(always)]
fn hash<const WORDS: usize>(key: &[u128; WORDS]) -> u64 {
    let mut state = 0;
    for word in key {
        let product = u128::from(*word as u64 ^ 0x9E37_79B9_7F4A_7C15 ^ state) * u128::from((*word >> 64) as u64 ^ 0xD6E8_FEB8_6659_FD93);
        state = (product >> 64) as u64 ^ product as u64;
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_is_never_a_guess() {
        let mut cache = PieceCache::new();
        let text: Vec<u8> = (0..200_u8).chain([0; 80]).collect();
        for _ in 0..2 {
            for at in 0..200 {
                for length in 1..=LONGEST {
                    // Pieces of zeros differ in nothing but their length.
                    let expected = (at * 7 + length) % length.min(15) + 1;
                    let made = cache.count(&text, at, at + length, |piece| {
                        assert_eq!(piece, &text[at..at + length]);
                        if piece.iter().all(|byte| *byte == 0) { length.min(15) } else { expected }
                    });
                    let zeros = text[at..at + length].iter().all(|byte| *byte == 0);
                    assert_eq!(made, if zeros { length.min(15) } else { expected }, "{at} {length}");
                }
            }
        }
    }
}
