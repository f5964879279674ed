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
