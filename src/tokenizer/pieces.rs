//! The exact piece cache: token counts of pieces, by the pieces' own bytes.
//!
//! Four tables by length, since most pieces are short: up to 15 bytes in 16-byte slots, up to 30 in 32, 62 in 64, 126 in
//! 128. A slot holds the piece itself, its length and its count, so that a hit is a comparison and never a guess. A
//! piece may lie in any of four neighbouring slots (one cache line of short ones); a hit moves it one forward, so that
//! common pieces are found at the first look, and a new one takes the place of the last. Belongs to one call at a time
//! (see `core.rs`). Memory: 2 + 2 + 2 + 0.5 MiB, touched as it fills.

#![allow(clippy::cast_possible_truncation, reason = "halves of words and masked indexes are meant")]

/// Slots by length class, as powers of two.
const SHORT_BITS: u32 = 17;
const MIDDLE_BITS: u32 = 16;
const LARGE_BITS: u32 = 15;
const HUGE_BITS: u32 = 12;
/// Slots that may hold a piece.
const WAYS: usize = 4;
/// Longest piece that is kept.
pub(super) const LONGEST: usize = 126;
const SHORT: usize = 15;
const MIDDLE: usize = 30;
const LARGE: usize = 62;

type Table<const WORDS: usize> = Box<[[[u128; WORDS]; WAYS]]>;

fn table<const WORDS: usize>(bits: u32) -> Table<WORDS> {
    vec![[[0; WORDS]; WAYS]; (1 << bits) / WAYS].into_boxed_slice()
}

/// Counts of pieces seen before.
pub(super) struct PieceCache {
    short: Table<1>,
    middle: Table<2>,
    large: Table<4>,
    huge: Table<8>,
}

impl PieceCache {
    pub(super) fn new() -> Self {
        Self { short: table(SHORT_BITS), middle: table(MIDDLE_BITS), large: table(LARGE_BITS), huge: table(HUGE_BITS) }
    }

    /// The count of `text[at..end]`, a piece of 1 to [`LONGEST`] bytes, found or made by `make` (which must give at most its length).
    #[inline(always)]
    pub(super) fn count(&mut self, text: &[u8], at: usize, end: usize, make: impl FnOnce(&[u8]) -> usize) -> usize {
        match end - at {
            0..=SHORT => lookup::<1, SHORT_BITS>(&mut self.short, text, at, end, make),
            16..=MIDDLE => lookup::<2, MIDDLE_BITS>(&mut self.middle, text, at, end, make),
            31..=LARGE => lookup::<4, LARGE_BITS>(&mut self.large, text, at, end, make),
            _ => lookup::<8, HUGE_BITS>(&mut self.huge, text, at, end, make),
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
    let index = (hash(&key) >> (64 - BITS)) as usize / WAYS;
    let matches = |slot: &[u128; WORDS]| {
        let mut difference = (slot[WORDS - 1] ^ key[WORDS - 1]) << (128 - shift);
        for word in 0..WORDS - 1 {
            difference |= slot[word] ^ key[word];
        }
        difference == 0
    };
    let Some(slots) = table.get_mut(index) else { return make(&text[at..end]) };
    if matches(&slots[0]) {
        return (slots[0][WORDS - 1] >> shift) as usize;
    }
    if let Some(way) = (1..WAYS).find(|way| matches(&slots[*way])) {
        slots.swap(way - 1, way);
        return (slots[way - 1][WORDS - 1] >> shift) as usize;
    }
    let count = make(&text[at..end]);
    // The first slot that is free, else the last.
    let way = slots.iter().position(|slot| slot[WORDS - 1] == 0).unwrap_or(WAYS - 1);
    slots[way] = key;
    slots[way][WORDS - 1] |= (count as u128) << shift;
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
        let text: Vec<u8> = (0..200_u8).chain([0; 160]).collect();
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
