//! Type and size of inline media, read from file headers in base64 text without decoding pixels.
//!
//! Called by the image rules of every family. Decodes only the few bytes that it looks at, wherever they lie in
//! the file, so that a 20 MB photograph costs as little as an icon. Never panics and never allocates more than
//! the header bytes; anything odd is `None`, which the image rules answer with a bound instead of a size.
#![allow(dead_code, reason = "image rules of the families arrive one by one")]

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::borrow::Cow;

/// Takes both padded and bare text, and stray bits in the last group: only whole groups are read here.
const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent).with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Base64 text looked at when it is broken into lines: more would have to be copied to drop the breaks.
const WRAPPED_PREFIX_CHARS: usize = 1 << 20;

/// Width and height in pixels of a PNG, JPEG, GIF or WebP picture; `None` for anything else or a damaged header.
///
/// Cost: a few dozen bytes are decoded, and for JPEG one short read per segment before the frame header.
pub(crate) fn dimensions(base64: &str) -> Option<(u32, u32)> {
    let bytes = Bytes::new(base64);
    let size = match bytes.sniff()? {
        "image/png" => {
            let head = bytes.at::<24>(0)?;
            (be32(&head[16..20]), be32(&head[20..24]))
        }
        "image/gif" => {
            let head = bytes.at::<10>(0)?;
            (le16(&head[6..8]), le16(&head[8..10]))
        }
        "image/jpeg" => jpeg(&bytes)?,
        "image/webp" => webp(&bytes)?,
        _ => return None,
    };
    (size.0 > 0 && size.1 > 0).then_some(size)
}

/// MIME type by magic number: the pictures of [`dimensions`], `application/pdf`, WAV, MP3, Ogg, FLAC and MP4; `None` when unknown.
pub(crate) fn sniff(base64: &str) -> Option<&'static str> {
    Bytes::new(base64).sniff()
}

/// Size of the decoded file in bytes, from the text's length alone (line breaks count as data: an upper bound).
pub(crate) fn byte_len(base64: &str) -> u64 {
    let bare = base64.trim_end_matches(['=', '\n', '\r', ' ']).len() as u64;
    bare / 4 * 3 + (bare % 4).saturating_sub(1)
}

/// Decoded bytes of base64 text, by offset.
struct Bytes<'a> {
    text: Cow<'a, [u8]>,
    engine: &'static GeneralPurpose,
}

impl<'a> Bytes<'a> {
    fn new(base64: &'a str) -> Self {
        let text = base64.trim_ascii().as_bytes();
        let prefix = &text[..text.len().min(WRAPPED_PREFIX_CHARS)];
        let wrapped = memchr::memchr2(b'\n', b' ', &prefix[..prefix.len().min(200)]).is_some();
        let text =
            if wrapped { Cow::Owned(prefix.iter().copied().filter(|b| !b.is_ascii_whitespace()).collect()) } else { Cow::Borrowed(text) };
        let url_safe = memchr::memchr2(b'-', b'_', prefix).is_some();
        Self { text, engine: if url_safe { &URL_SAFE } else { &STANDARD } }
    }

    /// `N` bytes from `offset` on, if they are all there.
    fn at<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        let first = offset / 3;
        let last = offset.checked_add(N)?.div_ceil(3);
        let from = first.checked_mul(4)?;
        let upto = last.checked_mul(4)?.min(self.text.len());
        let decoded = self.engine.decode(self.text.get(from..upto)?).ok()?;
        decoded.get(offset % 3..)?.first_chunk::<N>().copied()
    }

    fn sniff(&self) -> Option<&'static str> {
        let head = self.at::<12>(0).or_else(|| {
            let short = self.at::<6>(0)?;
            let mut head = [0; 12];
            head[..6].copy_from_slice(&short);
            Some(head)
        })?;
        Some(match &head {
            [0x89, b'P', b'N', b'G', ..] => "image/png",
            [0xFF, 0xD8, 0xFF, ..] => "image/jpeg",
            [b'G', b'I', b'F', b'8', ..] => "image/gif",
            [b'R', b'I', b'F', b'F', .., b'W', b'E', b'B', b'P'] => "image/webp",
            [b'R', b'I', b'F', b'F', .., b'W', b'A', b'V', b'E'] => "audio/wav",
            [b'%', b'P', b'D', b'F', ..] => "application/pdf",
            [b'I', b'D', b'3', ..] | [0xFF, 0xF2 | 0xF3 | 0xFA | 0xFB, ..] => "audio/mp3",
            [b'O', b'g', b'g', b'S', ..] => "audio/ogg",
            [b'f', b'L', b'a', b'C', ..] => "audio/flac",
            [_, _, _, _, b'f', b't', b'y', b'p', b'a', b'v', b'i', b'f'] => "image/avif",
            [_, _, _, _, b'f', b't', b'y', b'p', b'h', b'e', b'i', _] => "image/heic",
            [_, _, _, _, b'f', b't', b'y', b'p', ..] => "video/mp4",
            _ => return None,
        })
    }
}

/// Walks the segments to the frame header. Each step moves on by at least two bytes, so the walk ends with the text.
fn jpeg(bytes: &Bytes<'_>) -> Option<(u32, u32)> {
    let mut at = 2_usize;
    loop {
        let [mark, kind, high, low] = bytes.at::<4>(at)?;
        if mark != 0xFF {
            return None;
        }
        match kind {
            // Fill bytes and markers without a length.
            0xFF => at += 1,
            0x01 | 0xD0..=0xD8 => at += 2,
            // Frame headers: all SOFn, without DHT (C4), JPG (C8) and DAC (CC).
            0xC0..=0xC3 | 0xC5..=0xC7 | 0xC9..=0xCB | 0xCD..=0xCF => {
                let [_, h1, h0, w1, w0] = bytes.at::<5>(at + 4)?;
                return Some((u32::from(w1) << 8 | u32::from(w0), u32::from(h1) << 8 | u32::from(h0)));
            }
            // The picture's data or its end before any frame header.
            0xD9 | 0xDA => return None,
            _ => at = at.checked_add(2)?.checked_add((usize::from(high) << 8 | usize::from(low)).max(2))?,
        }
    }
}

/// Lossy, lossless and extended layouts.
fn webp(bytes: &Bytes<'_>) -> Option<(u32, u32)> {
    let head = bytes.at::<30>(0).or_else(|| {
        // The smallest lossless files end before byte 30.
        let short = bytes.at::<25>(0)?;
        let mut head = [0; 30];
        head[..25].copy_from_slice(&short);
        Some(head)
    })?;
    match &head[12..16] {
        b"VP8 " => Some((le16(&head[26..28]) & 0x3FFF, le16(&head[28..30]) & 0x3FFF)),
        b"VP8L" => {
            let bits = u32::from_le_bytes([head[21], head[22], head[23], head[24]]);
            Some(((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1))
        }
        b"VP8X" => {
            let le24 = |b: &[u8]| u32::from(b[0]) | u32::from(b[1]) << 8 | u32::from(b[2]) << 16;
            Some((le24(&head[24..27]) + 1, le24(&head[27..30]) + 1))
        }
        _ => None,
    }
}

fn be32(b: &[u8]) -> u32 {
    b.iter().fold(0, |n, byte| n << 8 | u32::from(*byte))
}

fn le16(b: &[u8]) -> u32 {
    u32::from(b[0]) | u32::from(b[1]) << 8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> String {
        STANDARD.encode(bytes)
    }

    fn png(width: u32, height: u32) -> Vec<u8> {
        [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(), &width.to_be_bytes(), &height.to_be_bytes(), b"\x08\x06\0\0\0"].concat()
    }

    #[test]
    fn reads_each_format() {
        assert_eq!(dimensions(&text(&png(597, 566))), Some((597, 566)));
        assert_eq!(dimensions(&text(b"GIF89a\x20\x03\x58\x02\0\0\0")), Some((800, 600)));

        let mut jpeg = b"\xFF\xD8\xFF\xE0\x00\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0\xFF\xE1\x4E\x22".to_vec();
        jpeg.extend(vec![7; 20_000]);
        jpeg.extend(b"\xFF\xFF\xC2\x00\x11\x08\x02\x58\x03\x20\x03\x01\x22\0");
        assert_eq!(dimensions(&text(&jpeg)), Some((800, 600)));

        let lossy = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\x30\x01\0\x9d\x01\x2a\x20\x03\x58\x02\0\0";
        assert_eq!(dimensions(&text(lossy)), Some((800, 600)));
        let bits = (799_u32 + (599 << 14)).to_le_bytes();
        let lossless = [b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f".as_slice(), &bits].concat();
        assert_eq!(dimensions(&text(&lossless)), Some((800, 600)));
        let extended = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x1f\x03\0\x57\x02\0";
        assert_eq!(dimensions(&text(extended)), Some((800, 600)));
    }

    #[test]
    fn takes_wrapped_padded_bare_and_url_safe_text() {
        let plain = text(&png(1024, 16_444));
        let wrapped: String = plain.as_bytes().chunks(20).map(|line| std::str::from_utf8(line).unwrap()).collect::<Vec<_>>().join("\r\n");
        for form in [plain.clone(), wrapped, plain.trim_end_matches('=').to_owned(), plain.replace('+', "-").replace('/', "_")] {
            assert_eq!(dimensions(&form), Some((1024, 16_444)), "{form}");
        }
    }

    #[test]
    fn damage_is_none() {
        let whole = text(&png(10, 10));
        for end in 0..32 {
            assert_eq!(dimensions(&whole[..end]), None);
        }
        assert_eq!(dimensions(&text(&png(0, 10))), None);
        assert_eq!(dimensions("not base64 at all, é"), None);
        assert_eq!(dimensions(&text(b"\xFF\xD8\xFF\xE0\0\0\xFF\xDA\0\0\0\0")), None);
        assert_eq!(dimensions(&text(&[0xFF; 5000])), None);
    }

    #[test]
    fn names_types_and_lengths() {
        assert_eq!(sniff(&text(b"%PDF-1.7\n12345")), Some("application/pdf"));
        assert_eq!(sniff(&text(b"%PDF-1")), Some("application/pdf"));
        assert_eq!(sniff(&text(b"hello world, hello")), None);
        for n in 0..9 {
            assert_eq!(byte_len(&text(&vec![1; n])), n as u64);
        }
    }
}
