//! Which files the core takes, and that it then merges as they say.

use super::*;
use crate::tokenizer::byte_level::ByteLevel;
use crate::tokenizer::engine::Engine as _;
use serde_json::json;

/// All bytes, then `extra` tokens in order.
fn file(extra: &[&str], merges: &Value) -> Value {
    let stand_ins = (0x21..=0x143_u32).filter(|c| !matches!(c, 0x7F..=0xA0 | 0xAD)).filter_map(char::from_u32);
    let names = stand_ins.map(String::from).chain(extra.iter().map(|token| (*token).to_owned()));
    let vocabulary: serde_json::Map<_, _> = names.zip(0_u32..).map(|(token, id)| (token, id.into())).collect();
    json!({
        "added_tokens": [],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": merges},
    })
}

fn encode(file: &Value, text: &str) -> Vec<u32> {
    match read("small", &file.to_string()).unwrap() {
        Reading::Core(tables, recipe) => ByteLevel::new("small", *tables, recipe).unwrap().encode(text),
        Reading::Other(why) => panic!("{why}"),
    }
}

fn refused(file: &Value) -> &'static str {
    match read("small", &file.to_string()).unwrap() {
        Reading::Core(..) => panic!("the core took it"),
        Reading::Other(why) => why,
    }
}

/// Index of a byte's stand-in: `a` is the 65th printable character after `!`.
const A: u32 = 64;

#[test]
fn merges_by_the_files_order_and_gives_the_files_ids() {
    // `bc` merges before `ab`, though its id is the larger.
    let file = file(&["ab", "bc"], &json!(["b c", ["a", "b"]]));
    assert_eq!(encode(&file, "abc"), [A, 257]);
    assert_eq!(encode(&file, "ab"), [256]);
}

#[test]
fn pairs_that_never_come_about_change_nothing() {
    // `abc` is always made of `ab` and `c`; the other pair is never met.
    let file = file(&["ab", "bc", "abc"], &json!(["a b", "b c", "a bc", "ab c"]));
    assert_eq!(encode(&file, "abc bc"), [258, 220, 257]);
}

#[test]
fn a_whole_piece_counts_only_where_the_file_says_so() {
    let mut file = file(&["ab", "xyz"], &json!(["a b"]));
    assert_eq!(encode(&file, "xyz"), [A + 23, A + 24, A + 25]);
    file["model"]["ignore_merges"] = json!(true);
    assert_eq!(encode(&file, "xyz"), [257]);
    assert_eq!(encode(&file, "xyzx").len(), 4);
}

#[test]
fn what_the_core_would_serve_otherwise_than_published_is_left_alone() {
    // Its own pair is listed late, after a merge that comes in between.
    assert!(refused(&file(&["ab", "bc", "abc", "cd"], &json!(["a b", "b c", "a bc", "c d", "ab c"]))).contains("order"));
    // A token that merging reaches by ranks, though no merge makes it.
    let mut reachable = file(&["ab", "abc"], &json!(["a b"]));
    reachable["model"]["ignore_merges"] = json!(true);
    assert!(refused(&reachable).contains("order"));
    let mut other = file(&[], &json!([]));
    other["normalizer"] = json!({"type": "NFKC"});
    assert!(refused(&other).contains("normalizer"));
    other["normalizer"] = json!({"type": "Sequence", "normalizers": [{"type": "NFC"}]});
    other["added_tokens"] = json!([{"id": 300, "content": "<x>", "special": false, "lstrip": true}]);
    assert!(refused(&other).contains("added"));
    let mut sentencepiece = file(&[], &json!([]));
    sentencepiece["model"]["byte_fallback"] = json!(true);
    assert!(refused(&sentencepiece).contains("model"));
}

#[test]
fn broken_files_are_errors_that_say_where() {
    let cases = [
        ("{", "line 1 column"),
        ("{}", "model"),
        (
            r#"{"model": {"vocab": {"a": 0, "a": 1}, "merges": []}, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}}"#,
            "twice",
        ),
        (
            r#"{"model": {"vocab": {"a": 0, "b": 0}, "merges": []}, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}}"#,
            "twice",
        ),
        (
            r#"{"model": {"vocab": {"a": 0}, "merges": ["a zz"]}, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}}"#,
            "merge 0",
        ),
        (r#"{"model": {"vocab": {"a": 0}, "merges": ["azz"]}}"#, "blank"),
        (r#"{"model": {"vocab": {"a": -1}, "merges": []}}"#, "-1"),
    ];
    for (text, why) in cases {
        let Err(error) = read("x", text) else { panic!("{text} was taken") };
        assert_eq!(error.kind(), Kind::InvalidInput);
        assert!(error.to_string().contains(why), "{text}: {error}");
    }
}
