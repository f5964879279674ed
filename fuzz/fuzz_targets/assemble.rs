//! Any events through each assembler, the readers and the gate: no panic, the same turn in any cut, and nothing of a cut stream runs.
//!
//! The first byte picks the format, the second the size of the pieces; the rest is the stream, so recorded ones serve as seeds.
//! Doesn't cover: that the assembled text is right (the tests over recorded streams do).
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll::Format;
use plimsoll::turn::{Gate, Stream, Verdict, read_answer};

const FORMATS: [Format; 5] = [Format::Chat, Format::Responses, Format::Anthropic, Format::Gemini, Format::Converse];

fuzz_target!(|data: &[u8]| {
    let [format, cut, bytes @ ..] = data else { return };
    let format = FORMATS[usize::from(*format) % FORMATS.len()];
    let whole = {
        let mut stream = Stream::new(format).unwrap();
        stream.feed(bytes);
        stream.finish()
    };
    let mut stream = Stream::new(format).unwrap();
    let pieces = bytes.chunks(usize::from(*cut).max(1));
    // A look at each piece of a long stream would be all that time is spent on.
    let every = pieces.len() / 32 + 1;
    for (at, piece) in pieces.enumerate() {
        stream.feed(piece);
        stream.progress();
        if at % every != 0 {
            continue;
        }
        let snapshot = stream.snapshot();
        assert!(!snapshot.ended_well);
        assert!(Gate::default().judge(&snapshot, 0, 0).calls.iter().all(|call| call.verdict == Verdict::Refuse));
    }
    assert_eq!(stream.finish(), whole);
    if let Ok(turn) = read_answer(bytes, format) {
        let judged = Gate::default().judge(&turn, 0, 0);
        assert!(judged.calls.iter().all(|call| call.verdict != Verdict::Run), "no tools were named");
        turn.to_json();
    }
});
