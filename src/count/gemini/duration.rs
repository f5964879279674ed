//! How long sounds and films last, from their headers, in milliseconds.
//!
//! Called by the media rules. WAV, MP3 and MP4 alone; anything else, or damaged, is `None`. Never panics.

/// Bit rates of MPEG audio layer 3 in kbit/s, for MPEG 1 and for MPEG 2 and 2.5.
const RATES: [[u64; 15]; 2] =
    [[0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320], [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160]];

/// Length of a WAV or MP3 sound.
pub(super) fn sound(file: &[u8]) -> Option<u64> {
    if file.starts_with(b"RIFF") { wav(file) } else { mp3(file) }
}

/// Length of an MP4 film, and whether it has a sound track.
pub(super) fn film(file: &[u8]) -> Option<(u64, bool)> {
    let at = memchr::memmem::find(file, b"mvhd")?;
    let wide = *file.get(at + 4)? == 1;
    let (scale, length) = if wide {
        (be32(file, at + 24)?, be32(file, at + 28)?.checked_shl(32)? | be32(file, at + 32)?)
    } else {
        (be32(file, at + 16)?, be32(file, at + 20)?)
    };
    let ms = length.checked_mul(1000)?.checked_div(scale)?;
    Some((ms, memchr::memmem::find(file, b"soun").is_some()))
}

fn be32(file: &[u8], at: usize) -> Option<u64> {
    let bytes = file.get(at..at.checked_add(4)?)?;
    Some(bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)))
}

fn wav(file: &[u8]) -> Option<u64> {
    let format = memchr::memmem::find(file, b"fmt ")?;
    let rate = file.get(format + 16..format + 20)?.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
    let data = memchr::memmem::find(file, b"data")?;
    let claimed = file.get(data + 4..data + 8)?.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
    // A streamed file claims no length or the largest.
    let bytes = claimed.min((file.len() - data).saturating_sub(8) as u64);
    bytes.checked_mul(1000)?.checked_div(rate)
}

fn mp3(file: &[u8]) -> Option<u64> {
    let mut at = 0;
    if file.starts_with(b"ID3") {
        let size = file.get(6..10)?.iter().fold(0_usize, |n, byte| n << 7 | usize::from(byte & 0x7f));
        at = size.checked_add(10)?;
    }
    let frame = file.get(at..)?;
    let [0xff, second, third, _] = *frame.first_chunk::<4>()? else { return None };
    if second & 0xe0 != 0xe0 {
        return None;
    }
    let old = usize::from(second & 0x18 != 0x18);
    let kbits = *RATES[old].get(usize::from(third >> 4))?;
    let hertz = [44_100, 48_000, 32_000].get(usize::from(third >> 2 & 3))? / if old == 1 { 2 } else { 1 };
    let head = &frame[..frame.len().min(200)];
    // A variable-rate file says its number of frames in the first one.
    if let Some(tag) = memchr::memmem::find(head, b"Xing").or_else(|| memchr::memmem::find(head, b"Info"))
        && be32(head, tag + 4)? & 1 == 1
    {
        let samples = if old == 1 { 576 } else { 1152 };
        return be32(head, tag + 8)?.checked_mul(samples * 1000)?.checked_div(hertz);
    }
    (frame.len() as u64).checked_mul(8)?.checked_div(kbits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wav_by_its_byte_rate() {
        let mut file = b"RIFF____WAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
        file.extend(8000_u32.to_le_bytes());
        file.extend(16_000_u32.to_le_bytes());
        file.extend(b"\x02\0\x10\0data");
        file.extend(8000_u32.to_le_bytes());
        file.extend([0; 8000]);
        assert_eq!(sound(&file), Some(500));
        assert_eq!(sound(&file[..30]), None);
    }

    #[test]
    fn mp3_by_its_bit_rate() {
        let mut file = vec![0xff, 0xfb, 0x74, 0xc4];
        file.resize(12_000, 0);
        assert_eq!(sound(&file), Some(1000));
    }

    #[test]
    fn film_by_its_header() {
        let mut file = b"....moov....mvhd\0\0\0\0".to_vec();
        file.extend([0; 8]);
        file.extend(1000_u32.to_be_bytes());
        file.extend(5000_u32.to_be_bytes());
        assert_eq!(film(&file), Some((5000, false)));
        file.extend(b"hdlrsoun");
        assert_eq!(film(&file), Some((5000, true)));
        assert_eq!(film(b"mvhd"), None);
    }
}
