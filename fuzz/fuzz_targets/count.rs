//! The core against the slow twin: ids, counts, limits and the way back, on any text.
//!
//! Run with `cargo fuzz run count`. Does not cover texts of many kilobytes (the twin is quadratic in a piece), nor threads.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll::{Reference, Tokenizer};
use std::sync::LazyLock;

static BOTH: LazyLock<Vec<(Tokenizer, Reference)>> = LazyLock::new(|| {
    ["o200k_base", "cl100k_base", "p50k_base", "r50k_base"]
        .into_iter()
        .map(|name| {
            let ours = Tokenizer::by_name(name).expect("built in");
            let tokens: Vec<(Vec<u8>, u32)> = (0..200_000).filter_map(|id| Some((ours.decode_bytes(&[id]).ok()?, id))).collect();
            let reference = Reference::new(name, tokens).expect("a published split");
            (ours, reference)
        })
        .collect()
});

fuzz_target!(|text: &str| {
    for (ours, reference) in BOTH.iter() {
        let expected = reference.encode(text);
        assert_eq!(ours.encode(text), expected);
        assert_eq!(ours.count(text), expected.len());
        assert_eq!(ours.count_within(text, expected.len()), Some(expected.len()));
        if let Some(less) = expected.len().checked_sub(1) {
            assert_eq!(ours.count_within(text, less), None);
        }
        assert_eq!(ours.decode_bytes(&expected).expect("its own ids"), text.as_bytes());
    }
});
