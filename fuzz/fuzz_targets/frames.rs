//! Binary event streams, whole and damaged, in any cut: the same frames and the same end, no panic, and nothing of a cut one runs.
//!
//! Frames are made with checksums that hold around any headers and payload, since random bytes would never get past them; then one byte may be
//! broken. Doesn't cover: that a payload's meaning is right.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll::Format;
use plimsoll::turn::{FrameReader, Stream};

fn frame(headers: &[u8], payload: &[u8]) -> Vec<u8> {
    let size = (16 + headers.len() + payload.len()) as u32;
    let mut bytes = [size.to_be_bytes(), (headers.len() as u32).to_be_bytes()].concat();
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
    bytes.extend_from_slice(headers);
    bytes.extend_from_slice(payload);
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
    bytes
}

fn event(name: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut headers = Vec::new();
    for (key, value) in [(&b":event-type"[..], name), (b":message-type", b"event")] {
        headers.push(key.len() as u8);
        headers.extend_from_slice(key);
        headers.push(7);
        headers.extend_from_slice(&(value.len() as u16).to_be_bytes());
        headers.extend_from_slice(value);
    }
    frame(&headers, payload)
}

type Seen = Vec<(String, Vec<u8>, u64)>;

fn read(bytes: &[u8], cut: usize) -> (Seen, Option<String>) {
    let (mut reader, mut seen) = (FrameReader::new(), Vec::new());
    for piece in bytes.chunks(cut.max(1)) {
        let fed = reader.feed(piece, |frame| {
            seen.push((frame.name.to_owned(), frame.payload.to_vec(), frame.offset));
            Ok(())
        });
        if let Err(fault) = fed {
            return (seen, Some(format!("{fault:?}")));
        }
    }
    (seen, reader.finish().err().map(|fault| format!("{fault:?}")))
}

const NAMES: [&[u8]; 8] = [
    b"messageStart", b"contentBlockStart", b"contentBlockDelta", b"contentBlockStop", b"messageStop", b"metadata", b"chunk", b"odd",
];

fuzz_target!(|input: (u8, Option<(u16, u8)>, Vec<(u8, Vec<u8>)>)| {
    let (cut, broken, frames) = input;
    let mut bytes: Vec<u8> = Vec::new();
    for (kind, content) in &frames {
        match kind % 10 {
            8 => bytes.extend(frame(content, b"{}")),
            9 => bytes.extend_from_slice(content),
            kind => bytes.extend(event(NAMES[usize::from(kind)], content)),
        }
    }
    if let Some((at, xor)) = broken {
        let at = usize::from(at) % bytes.len().max(1);
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= xor;
        }
    }
    assert_eq!(read(&bytes, usize::from(cut)), read(&bytes, usize::MAX));
    for format in [Format::Converse, Format::Anthropic] {
        let mut whole = Stream::new(format).unwrap();
        whole.feed(&bytes);
        let mut pieces = Stream::new(format).unwrap();
        for piece in bytes.chunks(usize::from(cut).max(1)) {
            pieces.feed(piece);
            assert!(!pieces.snapshot().ended_well);
        }
        assert_eq!(pieces.finish(), whole.finish());
    }
});
