//! The block splitter: piece starts of 64 bytes at once, by algebra on bit masks, without a branch a piece.
//!
//! A block begins on a piece start, so that nothing is carried from block to block: each is a pure function of its 64
//! bytes. The result holds only starts that are certain whatever follows; the last piece of a block has no certain
//! end and becomes the beginning of the next block. Characters beyond ASCII have their class looked up one by one and then take part
//! with all their bytes. Whatever the algebra does not cover (wide numbers and white space, marks that no letter precedes, a
//! capital behind a letter without case, a slash after line ends after punctuation, blank lines with spaces in them) ends the
//! certain part; the scalar automaton (`split.rs`) takes one piece there. Classification of bytes is the only part that
//! differs between machines (`simd.rs`).

#![allow(clippy::cast_possible_truncation, reason = "offsets in a block are under 64")]

use super::classes::{self, CASELESS, LOWER, MARK, NEWLINE, NUMBER, OTHER, SPACE, Table, UPPER};
use super::pieces::{self, Batch, HIGH_KEY, Line, Tiny, WAYS};
use super::prepare::Joins;
use super::split::{self, Family, Run, Source, View, Word};
use std::marker::PhantomData;

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
    /// Controls that are not in `blank`.
    pub(super) control: u64,
    /// Bytes of 0x80 and above.
    pub(super) wide: u64,
}

/// Which characters of a block are what beyond ASCII, bit 0 for the first byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wide {
    /// First bytes of characters by their length: two, three, four.
    pub(super) leads: [u64; 3],
    /// First bytes of characters of three bytes that are letters without case for sure: U+5000 to U+9FFF and U+B000 to U+CFFF.
    pub(super) caseless: u64,
}

/// Classifies the bytes of a block.
pub(super) trait Classify {
    /// Whether blocks pay at all; without, the automaton does everything.
    const BLOCKS: bool = true;
    fn masks(block: &[u8; BLOCK]) -> Masks;
    fn wide(block: &[u8; BLOCK]) -> Wide;
    /// The classes of the characters that start at the bits of `leads`. Of one that the block's end cuts off, any.
    fn classes(block: &[u8; BLOCK], leads: u64, table: &'static Table) -> ByClass {
        classify(block, leads, |code| table.of(code))
    }
    /// Those of the characters of three bytes, which start at the bits of `leads`, that some token may join with the character of three bytes
    /// before them. Of one with no such character before it, any.
    fn joined(block: &[u8; BLOCK], leads: u64, joins: Joins<'_>) -> u64 {
        let code = |at: usize| block.get(at..at + 3).map_or(0, |bytes| bytes.iter().fold(0, |code, byte| code << 8 | u32::from(*byte)));
        let (mut joined, mut rights) = (0, leads & leads << 3);
        while rights != 0 {
            let at = rights.trailing_zeros();
            rights &= rights - 1;
            let (left, right) = (code(at as usize - 3), code(at as usize));
            joined |= u64::from(joins.alone(left) | joins.alone(right) | joins.pair(left, right)) << at;
        }
        joined
    }
    /// The slot that holds `key` (low and high half) below its count, or [`WAYS`].
    fn find(line: &Line, key: (u64, u64)) -> usize;
    /// [`pieces::count_tiny`].
    fn tiny(text: &[u8], batch: &mut Batch, from: usize, table: Tiny<'_>) -> usize {
        pieces::count_tiny(text, batch, from, table)
    }
    /// Adds the pieces that end at the bits of `starts` in a block that starts at `base`, and does for them what [`Self::tiny`] does.
    fn tiny_of_block(text: &[u8], _block: &[u8; BLOCK], mut starts: u64, base: u32, batch: &mut Batch, table: Tiny<'_>) -> usize {
        let from = batch.pieces;
        while starts != 0 {
            batch.push(base + starts.trailing_zeros());
            starts &= starts - 1;
        }
        pieces::count_tiny(text, batch, from, table)
    }
    /// Asks for a line that will be read soon.
    fn prefetch<T>(lines: &[T], line: usize);
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
            set(&mut masks.control, byte.is_ascii_control() && !matches!(byte, 9..=13));
            set(&mut masks.wide, *byte >= 0x80);
        }
        masks
    }

    fn wide(block: &[u8; BLOCK]) -> Wide {
        let mut wide = Wide::default();
        for (at, byte) in block.iter().enumerate() {
            for (leads, range) in wide.leads.iter_mut().zip([0xC0..=0xDF, 0xE0..=0xEF, 0xF0..=0xFF]) {
                *leads |= u64::from(range.contains(byte)) << at;
            }
            wide.caseless |= u64::from(matches!(byte, 0xE5..=0xE9 | 0xEB..=0xEC)) << at;
        }
        wide
    }

    fn find(line: &Line, key: (u64, u64)) -> usize {
        let same = |[low, high]: &[u64; 2]| *low == key.0 && (high ^ key.1) & HIGH_KEY == 0;
        line.as_chunks().0.iter().position(same).unwrap_or(WAYS)
    }

    fn prefetch<T>(_lines: &[T], _line: usize) {}
}

/// The bits below `at` (0 to 64).
#[inline(always)]
const fn below(at: u32) -> u64 {
    if at >= 64 { u64::MAX } else { (1 << at) - 1 }
}

/// The wide characters of a block by class, each as the bit of its first byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ByClass {
    pub(super) upper: u64,
    pub(super) lower: u64,
    pub(super) caseless: u64,
    pub(super) mark: u64,
    /// Numbers and white space.
    pub(super) uncovered: u64,
    /// Characters that [`classes::APART`] keeps apart.
    pub(super) apart: u64,
}

/// Looks up the classes of the characters that start at the bits of `leads`, one by one.
#[inline(always)]
pub(super) fn classify(block: &[u8; BLOCK], mut leads: u64, class_of: impl Fn(u32) -> u8) -> ByClass {
    // By the place of the class's bit; twice, since one character after the other is mostly of the same class and would wait for its turn.
    let mut of = [[0_u64; 8]; 2];
    while leads != 0 {
        for of in &mut of {
            if leads == 0 {
                break;
            }
            let at = leads.trailing_zeros();
            leads &= leads - 1;
            let (code, _) = classes::decode(&block[at as usize..]);
            of[class_of(code).trailing_zeros() as usize & 7] |= 1 << at;
        }
    }
    let of = |class: u8| of[0][class.trailing_zeros() as usize] | of[1][class.trailing_zeros() as usize];
    ByClass {
        upper: of(UPPER),
        lower: of(LOWER),
        caseless: of(CASELESS),
        mark: of(MARK),
        uncovered: of(NUMBER) | of(SPACE),
        apart: of(NEWLINE),
    }
}

/// The classes of a block's wide characters, with all their bytes.
struct Classes {
    upper: u64,
    lower: u64,
    caseless: u64,
    mark: u64,
    apart: u64,
    /// First bytes of characters by their length: two, three, four.
    lengths: [u64; 3],
    /// Where the first character starts that the algebra does not cover.
    certain: u32,
}

/// Looks up the classes of the wide characters among the first `length` bytes of a block.
#[inline(always)]
fn classes_of<F: Family, C: Classify>(block: &[u8; BLOCK], length: usize) -> Classes {
    let wide = C::wide(block);
    let [two, three, four] = wide.leads;
    // Some of these are kept apart by DeepSeek and Kimi.
    let known = if F::PASSES || F::HAN { 0 } else { wide.caseless };
    let mut found = C::classes(block, (two | three | four) & !known, F::CLASSES);
    found.caseless |= known;
    if F::PASSES {
        found.uncovered |= found.caseless | found.mark;
        found.apart = std::mem::take(&mut found.upper);
    }
    // The last character may be cut off by the end of the block.
    let certain = length as u32;
    let cut_off = |leads: u64, bytes: u32| leads & !below(certain.saturating_sub(bytes - 1));
    found.uncovered |= cut_off(two, 2) | cut_off(three, 3) | cut_off(four, 4);
    let all = |leads: u64| leads | leads << 1 | (leads & !two) << 2 | (leads & four) << 3;
    Classes {
        upper: all(found.upper),
        lower: all(found.lower),
        caseless: all(found.caseless),
        mark: all(found.mark),
        apart: all(found.apart),
        lengths: wide.leads,
        certain: certain.min(found.uncovered.trailing_zeros()),
    }
}

/// Certain piece starts among the first `length` bytes of a block that itself begins on a start; bit 0 is left out.
#[inline(always)]
pub(super) fn starts<F: Family, C: Classify>(block: &[u8; BLOCK], length: usize, masks: &Masks) -> u64 {
    if masks.wide == 0 {
        let classes = Classes { upper: 0, lower: 0, caseless: 0, mark: 0, apart: 0, lengths: [0; 3], certain: length as u32 };
        return starts_of::<F>(block, masks, &classes);
    }
    starts_of::<F>(block, masks, &classes_of::<F, C>(block, length))
}

#[inline(always)]
fn starts_of<F: Family>(block: &[u8; BLOCK], masks: &Masks, classes: &Classes) -> u64 {
    let mut certain = classes.certain;
    let upper = masks.upper | classes.upper;
    let lower = masks.lower | classes.lower;
    // A row of these is a piece.
    let apart = if F::PASSES || F::HAN { classes.apart } else { 0 };
    let mut letter = upper | lower;
    if F::PASSES {
        certain = certain.min(masks.control.trailing_zeros());
    } else {
        letter |= classes.caseless;
    }
    if matches!(F::WORD, Word::Cased | Word::Marked) {
        // A mark belongs to the letters before it.
        letter |= classes.mark;
        certain = certain.min((letter & !(letter << 1) & classes.mark).trailing_zeros());
    }
    if matches!(F::WORD, Word::Cased) {
        certain = certain.min((upper & (classes.caseless | classes.mark) << 1).trailing_zeros());
    }
    let other = !(letter | masks.digit | masks.blank | apart) & below(certain);
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
        // The last byte of a character that may stand before a word.
        let [two, three, four] = classes.lengths;
        let one = other_starts & !masks.wide;
        let others = one | (other_starts & two) << 1 | (other_starts & three) << 2 | (other_starts & four) << 3;
        let joins = (blank & !masks.newline) | if F::PASSES { 0 } else { others };
        let rows = letter & !(letter << 1) & !(joins << 1);
        letter_starts = if F::PASSES {
            // Behind punctuation a row is of ASCII letters alone.
            let ascii = masks.upper | masks.lower;
            let joined = ascii & (one << 1);
            (rows & !joined) | (ascii.wrapping_add(joined) & !ascii & letter)
        } else if matches!(F::WORD, Word::Cased) {
            rows | (upper & (lower << 1))
        } else {
            rows
        };
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
        // Before numbers, kana and Chinese characters DeepSeek's third pass sees an end.
        let ends = if F::PASSES { (masks.digit | apart) >> 1 } else { 0 };
        blank_starts = blank_first | after_line | (blank_last & soft & !ends);
    }
    let mut found = letter_starts | other_starts | digit_starts | blank_starts | (apart & !(apart << 1));

    let opens = if F::SUFFIX { letter << 1 } else { other_starts };
    let quotes = masks.quote & opens & (letter >> 1) & below(certain);
    let edge = masks.quote & below(certain) & !below(certain.saturating_sub(1));
    if F::CONTRACTIONS && quotes | edge != 0 {
        certain = contractions::<F>(block, masks.quote, quotes, certain, &mut found);
    }
    found & below(certain) & !1
}

/// Borders before `end` between characters of three bytes that no token of the vocabulary lies across.
#[inline(always)]
pub(super) fn cuts<C: Classify>(block: &[u8; BLOCK], end: u32, joins: Joins<'_>) -> u64 {
    let leads = C::wide(block).leads[1] & below(end);
    leads & leads << 3 & !C::joined(block, leads, joins)
}

/// A text that will not grow, whose long runs of ASCII are followed a block at a time: what the automaton reads from where blocks gave up,
/// since a piece of a megabyte has no start in any block.
pub(super) struct Stretch<'a, C>(&'a [u8], PhantomData<C>);

impl<'a, C> Stretch<'a, C> {
    #[inline(always)]
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self(text, PhantomData)
    }
}

impl<C: Classify> Source for Stretch<'_, C> {
    #[inline(always)]
    fn byte(&mut self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }

    #[inline(always)]
    fn class_in(&mut self, at: usize, view: View) -> (u8, usize) {
        split::class_at(self.0, at, view)
    }

    #[inline(always)]
    fn run(&mut self, at: usize, set: u8, marked: u8, view: View) -> Run {
        /// Most runs are shorter.
        const ONE_BY_ONE: usize = 16;
        let text = self.0;
        let mut run = Run { end: at, ..Run::default() };
        if !C::BLOCKS || matches!(view, View::Kana | View::Rest) {
            return split::extend_run(text, run, set, marked, view);
        }
        loop {
            for _ in 0..ONE_BY_ONE {
                if !split::step(text, &mut run, set, marked, view) {
                    return run;
                }
            }
            while let Some(block) = text.get(run.end..).and_then(<[u8]>::first_chunk) {
                let masks = C::masks(block);
                let length = (!ascii_of(&masks, set)).trailing_zeros();
                let marks = ascii_of(&masks, marked) & below(length);
                if marks != 0 {
                    run.marked = run.end + BLOCK - marks.leading_zeros() as usize;
                }
                if length > 0 {
                    run.last = run.end + length as usize - 1;
                    run.end += length as usize;
                }
                if length < BLOCK as u32 {
                    break;
                }
            }
        }
    }

    #[inline(always)]
    fn han(&mut self, at: usize) -> usize {
        split::extend_han(self.0, at)
    }

    #[inline(always)]
    fn tail(&mut self, at: usize, slash: bool) -> usize {
        split::extend_tail(self.0, at, slash)
    }

    #[inline(always)]
    fn letters(&mut self, at: usize) -> usize {
        split::extend_letters(self.0, at)
    }
}

/// The ASCII characters of a block whose class is in `set`.
#[inline(always)]
fn ascii_of(masks: &Masks, set: u8) -> u64 {
    let Masks { upper, lower, digit, blank, newline, wide, .. } = *masks;
    let of = |class: u8, mask: u64| if set & class == 0 { 0 } else { mask };
    of(UPPER, upper)
        | of(LOWER, lower)
        | of(NUMBER, digit)
        | of(SPACE, blank & !newline)
        | of(NEWLINE, newline)
        | of(OTHER, !(upper | lower | digit | blank | wide))
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
            // It may be the long s, which is an s in any case.
            0xE5 if F::FOLD => {
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
