//! The block splitter: piece starts of 64 ASCII bytes at once, by algebra on bit masks, without a branch a piece.
//!
//! A block begins on a piece start, so that nothing is carried from block to block: each is a pure function of its 64
//! bytes. The result holds only starts that are certain whatever follows; the last piece of a block has no certain
//! end and becomes the beginning of the next block. Whatever the algebra does not cover (non-ASCII, a slash after line
//! ends after punctuation, blank lines with spaces in them) ends the certain part; the scalar automaton (`split.rs`)
//! takes one piece there. Classification of bytes is the only part that differs between machines (`simd.rs`).

#![allow(clippy::cast_possible_truncation, reason = "offsets in a block are under 64")]

use super::split::{Family, Word};

/// Bytes of a block, one bit each.
pub(super) const BLOCK: usize = 64;

/// Which bytes of a block are what, bit 0 for the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Masks {
    pub(super) upper: u64,
    pub(super) lower: u64,
    pub(super) digit: u64,
    /// `\t`, `\n`, `\x0b`, `\x0c`, `\r` and the space.
    pub(super) blank: u64,
    /// The space alone.
    pub(super) space: u64,
    /// `\r` and `\n`.
    pub(super) newline: u64,
    /// `'`.
    pub(super) quote: u64,
    /// `/`.
    pub(super) slash: u64,
    /// Bytes of 0x80 and above.
    pub(super) wide: u64,
}

/// Classifies the bytes of a block.
pub(super) trait Classify {
    /// Whether blocks pay at all; without, the automaton does everything.
    const BLOCKS: bool = true;
    fn masks(block: &[u8; BLOCK]) -> Masks;
}

/// Byte by byte: what the others must equal.
pub(super) struct Scalar;

impl Classify for Scalar {
    const BLOCKS: bool = false;

    fn masks(block: &[u8; BLOCK]) -> Masks {
        let mut masks = Masks::default();
        for (at, byte) in block.iter().enumerate() {
            let set = |mask: &mut u64, is: bool| *mask |= u64::from(is) << at;
            set(&mut masks.upper, byte.is_ascii_uppercase());
            set(&mut masks.lower, byte.is_ascii_lowercase());
            set(&mut masks.digit, byte.is_ascii_digit());
            set(&mut masks.blank, matches!(byte, 9..=13 | b' '));
            set(&mut masks.space, *byte == b' ');
            set(&mut masks.newline, matches!(byte, b'\r' | b'\n'));
            set(&mut masks.quote, *byte == b'\'');
            set(&mut masks.slash, *byte == b'/');
            set(&mut masks.wide, *byte >= 0x80);
        }
        masks
    }
}

/// The bits below `at` (0 to 64).
#[inline(always)]
const fn below(at: u32) -> u64 {
    if at >= 64 { u64::MAX } else { (1 << at) - 1 }
}

/// Certain piece starts among the first `length` bytes of a block that itself begins on a start; bit 0 is left out.
#[inline(always)]
pub(super) fn starts<F: Family>(block: &[u8; BLOCK], length: usize, masks: &Masks) -> u64 {
    let mut certain = masks.wide.trailing_zeros().min(length as u32);
    let letter = masks.upper | masks.lower;
    let other = !(letter | masks.digit | masks.blank) & below(certain);
    // Line ends that belong to the punctuation before them: the rows of line ends that start right behind some.
    let tail = if F::TAIL {
        let seed = masks.newline & (other << 1);
        masks.newline & !masks.newline.wrapping_add(seed)
    } else {
        0
    };
    if F::SLASH {
        certain = certain.min((masks.slash & (tail << 1)).trailing_zeros());
    }
    let mut blank = masks.blank & !tail & below(certain);
    if certain > 0 && blank >> (certain - 1) & 1 == 1 {
        // White space up to the edge: what follows decides where it is cut. Its first byte is a start in any case.
        let first = 64 - (!blank & below(certain)).leading_zeros();
        certain = first + 1;
        blank &= below(certain);
    }
    let blank_first = blank & !(blank << 1);
    let blank_last = blank & !(blank >> 1);

    let (letter_starts, other_starts, digit_starts, blank_starts);
    if F::DIGITS == 0 {
        // Only a space joins what follows, and it joins anything.
        letter_starts = letter & !(letter << 1) & !(masks.space << 1);
        other_starts = other & !(other << 1) & !(masks.space << 1);
        digit_starts = masks.digit & !(masks.digit << 1) & !(masks.space << 1);
        blank_starts = blank_first | blank_last;
    } else {
        other_starts = other & !(other << 1) & !(masks.space << 1);
        let joins = (blank & !masks.newline) | other_starts;
        let rows = letter & !(letter << 1) & !(joins << 1);
        letter_starts = if matches!(F::WORD, Word::Cased) { rows | (masks.upper & (masks.lower << 1)) } else { rows };
        digit_starts = if F::DIGITS == 1 {
            masks.digit
        } else {
            let mut starts = masks.digit & !(masks.digit << 1);
            let fourth = masks.digit & (masks.digit << 1) & (masks.digit << 2) & (masks.digit << 3);
            if fourth != 0 {
                let mut step = (starts << 3) & fourth;
                while step != 0 {
                    starts |= step;
                    step = (step << 3) & fourth;
                }
            }
            starts
        };
        let soft = blank & !masks.newline;
        let after_line = soft & ((blank & masks.newline) << 1);
        // A row of spaces between two line ends belongs to the piece that ends with the later one.
        let landing = soft.wrapping_add(after_line) & !soft & blank & masks.newline;
        if landing != 0 {
            let edge = landing.trailing_zeros();
            let first = 64 - (!soft & below(edge)).leading_zeros();
            certain = certain.min(first);
        }
        blank_starts = blank_first | after_line | (blank_last & soft);
    }
    let mut found = letter_starts | other_starts | digit_starts | blank_starts;

    let opens = if F::SUFFIX { letter << 1 } else { other_starts };
    let quotes = masks.quote & opens & (letter >> 1) & below(certain);
    let edge = masks.quote & below(certain) & !below(certain.saturating_sub(1));
    if F::CONTRACTIONS && quotes | edge != 0 {
        certain = contractions::<F>(block, masks.quote, quotes, certain, &mut found);
    }
    found & below(certain) & !1
}

/// Corrects the starts around contractions, and gives the new certain length.
#[inline(always)]
fn contractions<F: Family>(block: &[u8; BLOCK], all: u64, mut quotes: u64, mut certain: u32, found: &mut u64) -> u32 {
    let mut last_end = 0;
    while quotes != 0 {
        let at = quotes.trailing_zeros();
        quotes &= quotes - 1;
        if at >= certain {
            break;
        }
        // A word takes one contraction; one more right behind it is a new word.
        if F::SUFFIX && at == last_end && at > 0 {
            continue;
        }
        let fold = |at: u32| block.get(at as usize).map_or(0, |byte| if F::FOLD { byte | 0x20 } else { *byte });
        let long = match fold(at + 1) {
            b's' | b'd' | b'm' | b't' => false,
            b'l' | b'v' | b'r' if at + 2 >= certain => {
                certain = at;
                break;
            }
            b'l' if fold(at + 2) == b'l' => true,
            b'v' | b'r' if fold(at + 2) == b'e' => true,
            _ => continue,
        };
        let end = at + if long { 3 } else { 2 };
        if F::SUFFIX {
            *found &= !(below(end) & !below(at));
        } else {
            *found &= !(below(end) & !below(at + 1));
        }
        if end >= certain {
            certain = certain.min(end);
            break;
        }
        *found |= 1 << end;
        last_end = end;
    }
    // A quote on the edge: whether a contraction starts is not known yet.
    if certain > 0 && all >> (certain - 1) & 1 == 1 { certain - 1 } else { certain }
}
