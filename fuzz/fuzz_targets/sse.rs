//! Any bytes, in any cut, through the event reader: the same events and the same end, and no panic.
//!
//! The first byte is the size of the pieces, the rest the stream.
//! Doesn't cover: what the events mean.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll::turn::SseReader;

fn read(bytes: &[u8], cut: usize) -> (Vec<(String, String, u64)>, Option<String>) {
    let (mut reader, mut seen) = (SseReader::new(), Vec::new());
    for piece in bytes.chunks(cut.max(1)) {
        let fed = reader.feed(piece, |event| {
            seen.push((event.name.to_owned(), event.data.to_owned(), event.offset));
            Ok(())
        });
        if let Err(fault) = fed {
            return (seen, Some(format!("{fault:?}")));
        }
    }
    (seen, reader.finish().err().map(|fault| format!("{fault:?}")))
}

fuzz_target!(|data: &[u8]| {
    let [cut, bytes @ ..] = data else { return };
    assert_eq!(read(bytes, usize::from(*cut)), read(bytes, usize::MAX));
});
