//! Frames: published bytes, any cut, every broken byte.

use super::*;
use crate::format::Format;
use crate::turn::{Stream, Turn};
use serde_json::{Value, json};

/// A frame with text headers.
pub(crate) fn encode(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut heads = Vec::new();
    for (name, value) in headers {
        heads.push(u8::try_from(name.len()).unwrap());
        heads.extend_from_slice(name.as_bytes());
        heads.push(7);
        heads.extend_from_slice(&u16::try_from(value.len()).unwrap().to_be_bytes());
        heads.extend_from_slice(value.as_bytes());
    }
    raw(&heads, payload)
}

fn raw(heads: &[u8], payload: &[u8]) -> Vec<u8> {
    let size = u32::try_from(PRELUDE + heads.len() + payload.len() + TRAILER).unwrap();
    let mut bytes = [size.to_be_bytes(), u32::try_from(heads.len()).unwrap().to_be_bytes()].concat();
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
    bytes.extend_from_slice(heads);
    bytes.extend_from_slice(payload);
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
    bytes
}

fn event(name: &str, payload: &Value) -> Vec<u8> {
    let headers = [(":event-type", name), (":content-type", "application/json"), (":message-type", "event")];
    encode(&headers, payload.to_string().as_bytes())
}

fn answer() -> Vec<u8> {
    [
        event("messageStart", &json!({"role": "assistant", "p": "abcd"})),
        event("contentBlockDelta", &json!({"contentBlockIndex": 0, "delta": {"text": "Größe "}, "p": "ab"})),
        event("contentBlockDelta", &json!({"contentBlockIndex": 0, "delta": {"text": "zählt"}, "p": "a"})),
        event("contentBlockStop", &json!({"contentBlockIndex": 0})),
        event("contentBlockStart", &json!({"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "t1", "name": "read"}}})),
        event("contentBlockDelta", &json!({"contentBlockIndex": 1, "delta": {"toolUse": {"input": "{\"path\":"}}})),
        event("contentBlockDelta", &json!({"contentBlockIndex": 1, "delta": {"toolUse": {"input": "\"a\"}"}}})),
        event("contentBlockStop", &json!({"contentBlockIndex": 1})),
        event("messageStop", &json!({"stopReason": "tool_use", "p": "abc"})),
        event("metadata", &json!({"usage": {"inputTokens": 3, "outputTokens": 9}, "metrics": {"latencyMs": 1}, "p": "x"})),
    ]
    .concat()
}

fn assemble(bytes: &[u8], cut: usize) -> Turn {
    let mut stream = Stream::new(Format::Converse).unwrap();
    for piece in bytes.chunks(cut) {
        stream.feed(piece);
    }
    stream.finish()
}

#[test]
fn published_frames_read() {
    // Two of the vectors that Amazon's SDKs are tested with: nothing at all, and a payload without headers.
    let empty = [0, 0, 0, 16, 0, 0, 0, 0, 0x05, 0xc2, 0x48, 0xeb, 0x7d, 0x98, 0xc8, 0xff];
    let bare = [&[0, 0, 0, 0x1d, 0, 0, 0, 0, 0xfd, 0x52, 0x8c, 0x5a][..], b"{'foo':'bar'}", &[0xc3, 0x65, 0x39, 0x36]].concat();
    let mut seen = Vec::new();
    let mut reader = FrameReader::new();
    reader
        .feed(&[&empty[..], &bare].concat(), |frame| {
            seen.push((frame.payload.to_vec(), frame.offset));
            Ok(())
        })
        .unwrap();
    assert_eq!(seen, [(Vec::new(), 0), (b"{'foo':'bar'}".to_vec(), 16)]);
    assert_eq!(raw(&[], b""), empty);
}

#[test]
fn any_cut_gives_the_same_turn() {
    let bytes = answer();
    let whole = assemble(&bytes, usize::MAX);
    assert!(whole.ended_well, "{:?}", whole.faults);
    assert_eq!((whole.choices[0].text.as_str(), whole.choices[0].calls[0].arguments.as_str()), ("Größe zählt", "{\"path\":\"a\"}"));
    assert_eq!(whole.usage.as_ref().and_then(|usage| usage.output), Some(9));
    assert!(!whole.to_json().to_string().contains("\"p\""), "padding is no part of an answer");
    for cut in [1, 2, 3, 5, 7, 11, 12, 13, 64, 1000] {
        assert_eq!(assemble(&bytes, cut), whole, "cut at {cut}");
    }
    for end in 0..bytes.len() {
        let cut = assemble(&bytes[..end], 50);
        assert!(!cut.ended_well && cut.error().is_some_and(|fault| fault.kind == FaultKind::Truncated), "the first {end} bytes");
    }
}

#[test]
fn no_broken_bit_passes() {
    let bytes = answer();
    for at in 0..bytes.len() {
        let mut broken = bytes.clone();
        broken[at] ^= 1 << (at % 8);
        let turn = assemble(&broken, usize::MAX);
        let fault = turn.error().unwrap_or_else(|| panic!("byte {at} broken and nothing said"));
        // A first byte of 2 or more is no frame at all, but text.
        assert!(at == 0 || fault.kind == FaultKind::Checksum, "{at}: {fault:?}");
        assert!(fault.offset.is_some_and(|offset| offset <= at as u64) || at == 0, "{at}: {fault:?}");
    }
}

#[test]
fn lengths_and_headers_that_cannot_be() {
    let fault = |bytes: &[u8]| FrameReader::new().feed(bytes, |_| Ok(())).unwrap_err();
    let prelude = |size: u32, headers: u32| {
        let mut bytes = [size.to_be_bytes(), headers.to_be_bytes()].concat();
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
        bytes
    };
    for (bytes, kind) in [
        (prelude(u32::MAX, 0), FaultKind::TooLarge),
        (prelude(1 << 20, u32::MAX), FaultKind::TooLarge),
        (prelude(15, 0), FaultKind::Malformed),
        (prelude(0, 0), FaultKind::Malformed),
        (prelude(100, 90), FaultKind::Malformed),
        (raw(&[5, b'a'], b""), FaultKind::Malformed),
        (raw(&[1, b'a', 77], b""), FaultKind::Malformed),
        (raw(&[1, b'a', 7, 0xff, 0xff, 1], b""), FaultKind::Malformed),
        (encode(&[(":message-type", "event"), (":message-type", "event")], b""), FaultKind::Malformed),
        (encode(&[(":message-type", "song")], b""), FaultKind::Malformed),
        (raw(&[[13].as_slice(), b":message-type", &[7, 0, 1, 0xff]].concat(), b""), FaultKind::Encoding),
    ] {
        let found = fault(&bytes);
        assert_eq!((found.kind, found.offset), (kind, Some(0)), "{bytes:?}: {found:?}");
    }
    // Other types of headers are passed over.
    let others = [&[1, b'a', 0, 1, b'b', 2, 9, 1, b'c', 4, 0, 0, 0, 1, 1, b'd', 6, 0, 2, 1, 2, 1, b'e', 9][..], &[0; 16]].concat();
    let mut seen = 0;
    FrameReader::new()
        .feed(&raw(&others, b"x"), |frame| {
            seen += frame.payload.len();
            Ok(())
        })
        .unwrap();
    assert_eq!(seen, 1);
}

#[test]
fn errors_in_frames_are_the_providers() {
    let exception = [(":exception-type", "throttlingException"), (":message-type", "exception")];
    let error = [(":error-code", "InternalFailure"), (":error-message", "It broke"), (":message-type", "error")];
    for (frame, said) in [(encode(&exception, br#"{"message":"Slow down"}"#), "Slow down"), (encode(&error, b""), "It broke")] {
        let bytes = [&event("messageStart", &json!({"role": "assistant"}))[..], &frame].concat();
        for format in [Format::Converse, Format::Anthropic] {
            let mut stream = Stream::new(format).unwrap();
            stream.feed(&bytes);
            let turn = stream.finish();
            let fault = turn.error().unwrap();
            assert_eq!((fault.kind, fault.message.as_str()), (FaultKind::Provider, said), "{format}");
            assert!(fault.detail.is_some() && fault.offset.is_some());
        }
    }
    let broken = event("metadata", &json!([1]));
    let fault = assemble(&broken, 9).error().cloned().unwrap();
    assert_eq!((fault.kind, fault.offset), (FaultKind::Malformed, Some(0)));
}

#[test]
fn other_formats_ride_in_chunks() {
    use base64::Engine as _;
    let chunk = |value: Value| {
        let bytes = base64::engine::general_purpose::STANDARD.encode(value.to_string());
        event("chunk", &json!({"bytes": bytes, "p": "abc"}))
    };
    let bytes = [
        chunk(json!({"type": "message_start", "message": {"id": "m", "role": "assistant", "usage": {"input_tokens": 3}}})),
        chunk(json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})),
        chunk(json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}})),
        chunk(json!({"type": "content_block_stop", "index": 0})),
        chunk(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}})),
        chunk(json!({"type": "message_stop"})),
    ]
    .concat();
    let mut stream = Stream::new(Format::Anthropic).unwrap();
    for piece in bytes.chunks(17) {
        stream.feed(piece);
    }
    let turn = stream.finish();
    assert!(turn.ended_well && turn.choices[0].text == "Hello", "{turn:?}");
    let mut stream = Stream::new(Format::Anthropic).unwrap();
    stream.feed(&event("chunk", &json!({"bytes": "no base64!"})));
    assert_eq!(stream.finish().error().map(|fault| fault.kind), Some(FaultKind::Malformed));
}
