//! What integration tests share: where the recorded data lies, and how to read it.
//!
//! The data is optional: a test that needs it calls [`shared`], prints why it skips when it gets `None`, and passes.
#![allow(dead_code, unreachable_pub, clippy::print_stdout, clippy::expect_used, reason = "each test crate uses its own part")]

use std::io::Read as _;
use std::path::PathBuf;

/// A file or folder of recorded data, beside the checkout (or where `PLIMSOLL_SHARED` points); `None`, with the reason printed, when absent.
pub fn shared(path: &str) -> Option<PathBuf> {
    let root =
        std::env::var_os("PLIMSOLL_SHARED").map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared")), PathBuf::from);
    let found = root.join(path);
    if found.exists() {
        return Some(found);
    }
    println!("skipped: no recorded data at {path}");
    None
}

/// The text of a gzip file.
pub fn gunzip(path: &std::path::Path) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).expect("the file was seen to exist"))
        .read_to_string(&mut text)
        .expect("recorded data is gzip of UTF-8");
    text
}

/// The recorded exchanges of one wire format, one JSON value a line.
pub fn exchanges(name: &str) -> Option<Vec<serde_json::Value>> {
    let path = shared(&format!("ground-truth/{name}.jsonl.gz"))?;
    Some(gunzip(&path).lines().map(|line| serde_json::from_str(line).expect("one exchange a line")).collect())
}

/// Input tokens by the provider's own count, cache reads and writes included, whichever format's field names it uses.
pub fn billed_input(usage: &serde_json::Value) -> Option<u64> {
    let field = |name: &str| usage.get(name).and_then(serde_json::Value::as_u64);
    let sum = |first: &str, more: [&str; 2]| Some(field(first)? + more.iter().filter_map(|name| field(name)).sum::<u64>());
    sum("input_tokens", ["cache_creation_input_tokens", "cache_read_input_tokens"])
        .or_else(|| sum("inputTokens", ["cacheWriteInputTokens", "cacheReadInputTokens"]))
        .or_else(|| field("prompt_tokens"))
        .or_else(|| field("promptTokenCount"))
}

/// One frame of Amazon's binary event stream, as Bedrock sends it.
pub fn frame(event: &str, payload: &serde_json::Value) -> Vec<u8> {
    let mut headers = Vec::new();
    for (name, value) in [(":event-type", event), (":content-type", "application/json"), (":message-type", "event")] {
        headers.push(u8::try_from(name.len()).expect("short"));
        headers.extend_from_slice(name.as_bytes());
        headers.push(7);
        headers.extend_from_slice(&u16::try_from(value.len()).expect("short").to_be_bytes());
        headers.extend_from_slice(value.as_bytes());
    }
    let payload = payload.to_string();
    let size = u32::try_from(16 + headers.len() + payload.len()).expect("small");
    let mut bytes = [size.to_be_bytes(), u32::try_from(headers.len()).expect("small").to_be_bytes()].concat();
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
    bytes.extend_from_slice(&headers);
    bytes.extend_from_slice(payload.as_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
    bytes
}

/// A whole Converse response as the frames that a stream of it would be: text and arguments in small pieces.
pub fn converse_frames(response: &serde_json::Value) -> Vec<u8> {
    use serde_json::json;
    let pieces = |text: &str| -> Vec<String> {
        let letters: Vec<char> = text.chars().collect();
        letters.chunks(5).map(|piece| piece.iter().collect()).collect()
    };
    let text = |value: &serde_json::Value| pieces(value.as_str().unwrap_or_default());
    let message = &response["output"]["message"];
    let mut bytes = frame("messageStart", &json!({"role": message["role"], "p": "abcdef"}));
    for (at, block) in message["content"].as_array().into_iter().flatten().enumerate() {
        let mut deltas: Vec<serde_json::Value> = text(&block["text"]).iter().map(|piece| json!({"text": piece})).collect();
        if let Some(call) = block["toolUse"].as_object() {
            let mut begun = call.clone();
            begun.remove("input");
            let begun = json!({"toolUse": begun});
            bytes.extend(frame("contentBlockStart", &json!({"contentBlockIndex": at, "start": begun})));
            deltas.extend(pieces(&call["input"].to_string()).iter().map(|piece| json!({"toolUse": {"input": piece}})));
        }
        let reasoning = &block["reasoningContent"]["reasoningText"];
        deltas.extend(text(&reasoning["text"]).iter().map(|piece| json!({"reasoningContent": {"text": piece}})));
        deltas.extend(reasoning.get("signature").map(|signature| json!({"reasoningContent": {"signature": signature}})));
        let cited = &block["citationsContent"];
        for part in cited["content"].as_array().into_iter().flatten() {
            deltas.extend(text(&part["text"]).iter().map(|piece| json!({"text": piece})));
        }
        deltas.extend(cited["citations"].as_array().into_iter().flatten().map(|citation| json!({"citation": citation})));
        for delta in deltas {
            bytes.extend(frame("contentBlockDelta", &json!({"contentBlockIndex": at, "delta": delta, "p": "ab"})));
        }
        bytes.extend(frame("contentBlockStop", &json!({"contentBlockIndex": at})));
    }
    bytes.extend(frame("messageStop", &json!({"stopReason": response["stopReason"], "p": "abcd"})));
    bytes.extend(frame("metadata", &json!({"usage": response["usage"], "metrics": response["metrics"], "p": "a"})));
    bytes
}
