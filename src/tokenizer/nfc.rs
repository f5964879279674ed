//! Normalization to NFC, for vocabularies whose makers ask for it: nearly all texts are in NFC, and to see that must cost less than to count.
//!
//! Two bytes of a character, or all three, say whether it may be passed over, 32 bytes at a time; what may not is looked at, normalized
//! between the characters on both sides that nothing composes with, and copied only where that changes it. The rules are
//! `unicode-normalization`'s, which every answer is tested against.

use super::blocks::Classify;
use super::simd::{self, Job};
use std::borrow::Cow;
use std::sync::LazyLock;
use unicode_normalization::char::{canonical_combining_class, compose};
use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfc_quick};

/// Starts a character and composes with nothing before it, so that what stands on its two sides is normalized by itself.
const STANDS: u8 = 0;
/// Is no mark, and composes with some characters before it, and with none else. No combining class is as high.
const COMPOSES: u8 = u8::MAX - 1;
/// May have to change.
const UNSETTLED: u8 = u8::MAX;

/// What a character means for NFC: one of these, or the combining class of a mark that stays as it is in order of classes.
fn kind_of(character: char) -> u8 {
    match (is_nfc_quick(std::iter::once(character)), canonical_combining_class(character)) {
        (IsNormalized::Yes, class) => class,
        (IsNormalized::Maybe, 0) => COMPOSES,
        _ => UNSETTLED,
    }
}

/// Bytes that are looked at together.
const BLOCK: usize = 32;

struct Kinds {
    /// [`kind_of`] of the code points under 2^16.
    kinds: Box<[u8; 1 << 16]>,
    /// A bit for each two bytes that some character starts with which is not [`STANDS`], or is beyond the planes that are looked through;
    /// by the first byte's value times 256, plus the second's.
    look: Box<[u64; 1 << 10]>,
}

impl Kinds {
    /// Made in one or two milliseconds when the first text beyond ASCII comes.
    fn get() -> &'static Self {
        static KINDS: LazyLock<Kinds> = LazyLock::new(|| {
            let mut look = Box::new([0; 1 << 10]);
            let mut kinds = Box::new([UNSETTLED; 1 << 16]);
            // From the third plane on one of each 4096, which start with the same two bytes.
            let beyond = (0x2_0000..=0x10_FFFF).step_by(1 << 12).map(|code| (code, UNSETTLED));
            let looked_through = (0..0x2_0000).map(|code| (code, char::from_u32(code).map_or(STANDS, kind_of)));
            for (code, kind) in looked_through.chain(beyond) {
                let Some(character) = char::from_u32(code) else { continue };
                if let Some(known) = kinds.get_mut(character as usize) {
                    *known = kind;
                }
                let mut bytes = [0; 4];
                character.encode_utf8(&mut bytes);
                let two = usize::from(bytes[0]) << 8 | usize::from(bytes[1]);
                look[two / 64] |= u64::from(kind != STANDS) << (two % 64);
            }
            Kinds { kinds, look }
        });
        &KINDS
    }

    fn of(&self, character: char) -> u8 {
        self.kinds.get(character as usize).copied().unwrap_or_else(|| kind_of(character))
    }

    /// The bytes of a block, bit 0 for the first, where a character starts that does not stand, or may not if it has four bytes. No branch
    /// depends on a character, so that it compiles to vectors.
    #[inline(always)]
    fn looks(&self, block: &[u8; BLOCK + 2]) -> u32 {
        let mut by_two = (0..BLOCK).fold(0, |looks, at| {
            let two = usize::from(block[at]) << 8 | usize::from(block[at + 1]);
            looks | u32::from(self.look[two / 64] >> (two % 64) & 1 == 1) << at
        });
        let mut looks = by_two;
        while by_two != 0 {
            let at = by_two.trailing_zeros() as usize;
            by_two &= by_two - 1;
            let [first, second, third] = [block[at], block[at + 1], block[at + 2]];
            let six = |byte: u8| usize::from(byte & 0x3F);
            let code = usize::from(first & 0x0F) << 12 | six(second) << 6 | six(third);
            let stands = u32::from(first & 0xF0 == 0xE0) & u32::from(self.kinds[code] == STANDS);
            looks &= !(stands << at);
        }
        looks
    }
}

/// The text in NFC, in time proportional to its length.
pub(super) fn nfc(text: &str) -> Cow<'_, str> {
    let at = ascii(text.as_bytes());
    if at == text.len() { Cow::Borrowed(text) } else { simd::run(simd::level(), Normalizing { text, at, kinds: Kinds::get() }) }
}

/// Normalizes a text that is ASCII up to `at`.
struct Normalizing<'t> {
    text: &'t str,
    at: usize,
    kinds: &'static Kinds,
}

impl<'t> Job for Normalizing<'t> {
    type Answer = Cow<'t, str>;

    #[inline(always)]
    fn run<C: Classify>(self) -> Cow<'t, str> {
        let Self { text, mut at, kinds } = self;
        let mut changed = String::new();
        // Up to here the text stands in `changed`.
        let mut copied = 0;
        // Where the last mark ended, and its combining class.
        let (mut mark_end, mut class) = (0, STANDS);
        while at < text.len() {
            let rest = &text.as_bytes()[at..];
            let end;
            let block = if let Some(block) = rest.first_chunk() {
                block
            } else {
                end = padded(rest);
                &end
            };
            let mut looks = kinds.looks(block);
            let mut next = at + BLOCK;
            while looks != 0 {
                let place = at + looks.trailing_zeros() as usize;
                looks &= looks - 1;
                let Some(character) = text[place..].chars().next() else { break };
                let kind = kinds.of(character);
                if kind == STANDS {
                    continue;
                }
                // Behind a character that is no mark only the two can compose.
                let before = || text[copied..place].chars().next_back().filter(|before| matches!(kinds.of(*before), STANDS | COMPOSES));
                if kind == COMPOSES && before().is_some_and(|before| compose(before, character).is_none()) {
                    continue;
                }
                if kind < COMPOSES && (mark_end != place || kind >= class) {
                    (mark_end, class) = (place + character.len_utf8(), kind);
                    continue;
                }
                let stands = |(_, character): &(usize, char)| kinds.of(*character) == STANDS;
                let start = text[copied..place].char_indices().rfind(stands).map_or(copied, |(offset, _)| copied + offset);
                let end = text[place..].char_indices().skip(1).find(stands).map_or(text.len(), |(offset, _)| place + offset);
                let unsettled = &text[start..end];
                if !unsettled.nfc().eq(unsettled.chars()) {
                    changed.push_str(&text[copied..start]);
                    changed.extend(unsettled.nfc());
                    copied = end;
                }
                next = end;
                break;
            }
            at = next + text.as_bytes().get(next..).map_or(0, ascii);
        }
        if copied == 0 {
            return Cow::Borrowed(text);
        }
        changed.push_str(&text[copied..]);
        Cow::Owned(changed)
    }
}

/// The end of a text with zeros behind.
#[cold]
fn padded(rest: &[u8]) -> [u8; BLOCK + 2] {
    let mut block = [0; BLOCK + 2];
    for (byte, from) in block.iter_mut().zip(rest) {
        *byte = *from;
    }
    block
}

/// How many bytes of ASCII there are: all of them, or as many whole blocks as there are for sure.
fn ascii(bytes: &[u8]) -> usize {
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    let whole = blocks.iter().take_while(|block| block.is_ascii()).count();
    BLOCK * whole + if whole == blocks.len() && rest.is_ascii() { rest.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn same(text: &str) {
        let ours = nfc(text);
        assert!(ours.chars().eq(text.nfc()), "{text:?}");
        assert_eq!(matches!(ours, Cow::Borrowed(_)), text.nfc().eq(text.chars()), "{text:?}");
    }

    #[test]
    fn every_character_among_others() {
        let mut borrowed = 0;
        for character in (0..=0x10_FFFF).filter_map(char::from_u32) {
            for text in [
                format!("{character}"),
                format!("a\u{1100}{character}"),
                format!("e{character}\u{301}x{character}\u{323}"),
                format!("e\u{301}{character}\u{ac00}; plain text"),
                format!("12345678{character}\u{94d}"),
            ] {
                same(&text);
                borrowed += usize::from(matches!(nfc(&text), Cow::Borrowed(_)));
            }
        }
        assert!(borrowed > 2_000_000, "{borrowed}");
    }

    #[test]
    fn marks_in_any_order_and_rows_of_any_length() {
        // Marks of several classes, letters that they compose with, Hangul in parts, and characters that compose with nothing.
        let parts = [
            "e",
            "a",
            "\u{301}",
            "\u{323}",
            "\u{94d}",
            "\u{93c}",
            "\u{1100}",
            "\u{1161}",
            "\u{11a8}",
            "가",
            "数",
            "é",
            "\u{344}",
            "ड",
            "😀",
            "\u{1d165}",
            "ক",
            "\u{9be}",
            "\u{9c7}",
            "\u{bc6}",
            "\u{bbe}",
            "\u{1025}",
            "\u{102e}",
        ];
        let mut state = 1_u64;
        for length in (0..400).flat_map(|length| [length % 9, length % 9, length]) {
            let mut text = String::new();
            for _ in 0..length {
                state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
                text.push_str(parts[(state >> 33) as usize % parts.len()]);
                if state >> 60 == 0 {
                    text.push_str(&"plain ".repeat((state >> 50) as usize % 16));
                }
            }
            same(&text);
        }
        same(&"\u{301}\u{323}".repeat(10_000));
        assert!(matches!(nfc("naïve 数字 한국어 😀 हिन्दी ड़"), Cow::Borrowed(_)));
    }
}
