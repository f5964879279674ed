//! Character classes: what the published splits ask of a character, as one byte of bits.
//!
//! The table is made by `build.rs` from the Unicode tables of `regex-syntax`. Used by the splitter alone.

/// Uppercase or titlecase letter.
pub(super) const UPPER: u8 = 1;
/// Lowercase letter.
pub(super) const LOWER: u8 = 2;
/// Letter without case: modifier or other.
pub(super) const CASELESS: u8 = 4;
/// Combining mark.
pub(super) const MARK: u8 = 8;
/// Number of any kind.
pub(super) const NUMBER: u8 = 16;
/// White space but `\r` and `\n`.
pub(super) const SPACE: u8 = 32;
/// `\r` or `\n`.
pub(super) const NEWLINE: u8 = 64;
/// Everything else: punctuation, symbols, controls, unassigned.
pub(super) const OTHER: u8 = 128;
/// Any letter.
pub(super) const LETTER: u8 = UPPER | LOWER | CASELESS;

/// The class bits of all code points.
pub(super) struct Table {
    /// Those under 2^16, and three bytes behind them, so that four can be read at each.
    pub(super) low: &'static [u8; 65_536 + 3],
    index: &'static [u8; 4352],
    pages: &'static [u8],
}

macro_rules! table {
    ($name:literal) => {
        Table {
            low: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".low")),
            index: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".index")),
            pages: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".pages")),
        }
    };
}

/// The classes named above; exactly one bit is set.
pub(super) static PLAIN: Table = table!("class");
/// The same for splits that keep Han runs apart: [`NEWLINE`] Han letters (no other character beyond ASCII has it), [`NUMBER`] the rest of
/// the script, which the block splitter leaves to the automaton.
pub(super) static APART: Table = table!("apart");
/// What DeepSeek's three passes ask, in the same bits. Kana and Chinese characters, as its second pass has them: [`UPPER`] letters
/// and marks, [`CASELESS`] punctuation and symbols, with [`MARK`] neither of these. Elsewhere: [`LOWER`] letters and marks,
/// [`OTHER`] punctuation and symbols, [`MARK`] controls and unassigned ones. Numbers and white space as ever.
pub(super) static PASSES: Table = table!("passes");
static HAN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/class.han"));

impl Table {
    /// The class bits of a code point.
    #[inline(always)]
    pub(super) fn of(&self, code: u32) -> u8 {
        if let Some(class) = self.low.get(code as usize).filter(|_| code < 0x1_0000) {
            return *class;
        }
        let page = self.index.get((code >> 8) as usize).map_or(0, |page| usize::from(*page));
        self.pages.get(page << 8 | (code & 255) as usize).copied().unwrap_or(OTHER)
    }
}

/// The class bits of a code point; exactly one is set.
#[inline(always)]
pub(super) fn of(code: u32) -> u8 {
    PLAIN.of(code)
}

/// The class bits of an ASCII byte.
#[inline(always)]
pub(super) fn of_ascii(byte: u8) -> u8 {
    const TABLE: [u8; 256] = {
        let mut table = [OTHER; 256];
        let mut byte = 0;
        while byte < 128 {
            #[allow(clippy::cast_possible_truncation, reason = "under 128")]
            let value = byte as u8;
            table[byte] = match value {
                b'A'..=b'Z' => UPPER,
                b'a'..=b'z' => LOWER,
                b'0'..=b'9' => NUMBER,
                b'\r' | b'\n' => NEWLINE,
                b' ' | b'\t' | 0x0B | 0x0C => SPACE,
                _ => OTHER,
            };
            byte += 1;
        }
        table
    };
    TABLE[usize::from(byte)]
}

/// Whether a code point is of the Han script.
#[inline(always)]
pub(super) fn is_han(code: u32) -> bool {
    (0x4E00..0xA000).contains(&code) || in_han(code)
}

/// By the list of ranges.
fn in_han(code: u32) -> bool {
    HAN.as_chunks::<8>()
        .0
        .iter()
        .any(|[a, b, c, d, e, f, g, h]| (u32::from_le_bytes([*a, *b, *c, *d])..=u32::from_le_bytes([*e, *f, *g, *h])).contains(&code))
}

/// The code point at the start of `bytes` and its length in bytes. `bytes` is not empty and starts on a character of valid UTF-8.
#[inline(always)]
pub(super) fn decode(bytes: &[u8]) -> (u32, usize) {
    let low = |at: usize| bytes.get(at).map_or(0, |byte| u32::from(byte & 0x3F));
    let lead = bytes.first().map_or(0, |byte| u32::from(*byte));
    match lead {
        0..0x80 => (lead, 1),
        0x80..0xE0 => ((lead & 0x1F) << 6 | low(1), 2),
        0xE0..0xF0 => ((lead & 0x0F) << 12 | low(1) << 6 | low(2), 3),
        _ => ((lead & 0x07) << 18 | low(1) << 12 | low(2) << 6 | low(3), 4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_point_has_one_class_and_ascii_agrees() {
        for code in 0..=0x10_FFFF {
            assert_eq!(of(code).count_ones(), 1, "U+{code:04X}");
        }
        for byte in 0..128_u8 {
            assert_eq!(of(u32::from(byte)), of_ascii(byte), "{byte:#04x}");
        }
        assert!(is_han(0x4F60) && is_han(0x3007) && !is_han(0x3042));
        for code in 0..=0x10_FFFF {
            assert_eq!(is_han(code), in_han(code), "U+{code:04X}");
            let apart = if !in_han(code) {
                of(code)
            } else if of(code) == CASELESS {
                NEWLINE
            } else {
                NUMBER
            };
            assert_eq!(APART.of(code), apart, "U+{code:04X}");
        }
    }
}
