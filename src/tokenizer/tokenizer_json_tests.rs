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
        Reading::Core(tables, recipe) => ByteLevel::new("small", *tables, recipe).encode(text),
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
    let mut prefixed = sentencepiece(&[], &json!([]));
    prefixed["normalizer"] = json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, prefixed["normalizer"]]});
    assert!(refused(&prefixed).contains("normalizer"));
    // A byte that merges, a blank in a token, a byte without a token.
    assert!(refused(&sentencepiece(&["a", "a<0x80>"], &json!([["a", "<0x80>"]]))).contains("bytes"));
    assert!(refused(&sentencepiece(&["a", " ", "a "], &json!([["a", " "]]))).contains("bytes"));
    let mut without = sentencepiece(&[], &json!([]));
    without["model"]["vocab"].as_object_mut().unwrap().remove("<0x80>");
    assert!(refused(&without).contains("bytes"));
    // The own pair of `abc` is not listed, and the core would merge it.
    assert!(refused(&sentencepiece(&["a", "b", "c", "ab", "bc", "abc"], &json!(["b c", "a b", "ab c"]))).contains("order"));
}

/// A byte's token each, then `extra` tokens in order, without a split.
fn sentencepiece(extra: &[&str], merges: &Value) -> Value {
    let names = (0..=255_u8).map(|byte| format!("<0x{byte:02X}>")).chain(extra.iter().map(|token| (*token).to_owned()));
    let vocabulary: serde_json::Map<_, _> = names.zip(0_u32..).map(|(token, id)| (token, id.into())).collect();
    json!({
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false},
        "model": {"type": "BPE", "byte_fallback": true, "fuse_unk": true, "unk_token": "<0x00>", "vocab": vocabulary, "merges": merges},
    })
}

/// Tokens of which `abcd` is listed with a pair that never meets, as `b` and `c` merge first.
fn characters() -> Value {
    let tokens = ["▁", "a", "b", "c", "d", "é", "你", "▁a", "ab", "bc", "cd", "abcd", "é你", "▁▁"];
    sentencepiece(&tokens, &json!(["▁ ▁", "▁ a", "b c", "a b", "c d", "ab cd", "é 你"]))
}

#[test]
fn characters_merge_where_they_are_tokens_and_are_bytes_where_not() {
    let file = characters();
    assert_eq!(encode(&file, " ab"), [263, 258]);
    assert_eq!(encode(&file, "ab é你"), [264, 256, 268]);
    assert_eq!(encode(&file, "你好z"), [262, 0xE5, 0xA5, 0xBD, 0x7A]);
    assert_eq!(encode(&file, "▁a   "), [263, 269, 256]);
    assert_eq!(encode(&file, "abcd"), [257, 265, 260]);
    let Reading::Core(tables, recipe) = read("small", &file.to_string()).unwrap() else { panic!("not the core's") };
    let engine = ByteLevel::new("small", *tables, recipe);
    let text = "a 你好 é你 z";
    assert_eq!(engine.decode(&engine.encode(text)).unwrap(), text.as_bytes());
    assert_eq!((engine.count(text), engine.count_within(text, 3)), (engine.encode(text).len(), None));
}

#[cfg(feature = "huggingface")]
#[test]
fn rows_without_a_split_are_as_the_tokenizers_crate_has_them() {
    use crate::tokenizer::core_tests::Random;
    use crate::tokenizer::huggingface::{HuggingFace, canonical};
    let file = characters().to_string();
    let theirs = HuggingFace::from_canonical("small", &canonical("small", &file).unwrap()).unwrap();
    let Reading::Core(tables, recipe) = read("small", &file).unwrap() else { panic!("not the core's") };
    let ours = ByteLevel::new("small", *tables, recipe);
    let seed = 0x5EED_0020;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    let atoms = ["a", "b", "c", "d", " ", "  ", "é", "你", "好", "你", "▁", "z", "\n", "<0x61>", "😀", "\u{7f}", "abcd"];
    for _ in 0..3_000 {
        let text: String = (0..random.below(30)).map(|_| random.pick(&atoms)).collect();
        let expected = theirs.encode(&text);
        assert_eq!(ours.encode(&text), expected, "{text:?}");
        assert_eq!(ours.count(&text), expected.len(), "{text:?}");
    }
}

/// Added tokens that begin each other in long chains, on texts that go far into them and fall out again.
#[cfg(feature = "huggingface")]
#[test]
fn chains_of_added_tokens_are_found_as_the_tokenizers_crate_finds_them() {
    use crate::tokenizer::core_tests::Random;
    use crate::tokenizer::huggingface::{HuggingFace, canonical};
    let mut file = file(&[], &json!([]));
    let chain = |from: usize, to: usize| (from..=to).map(|length| "a".repeat(length)).collect::<Vec<_>>();
    // Every length, none under a hundred, gaps, and chains that end in another letter at every depth.
    let sets = [
        chain(1, 700),
        chain(100, 300),
        chain(2, 1_000).into_iter().step_by(7).collect(),
        chain(1, 300).into_iter().flat_map(|run| [format!("{run}b"), format!("{run}ca")]).collect(),
    ];
    let seed = 0x5EED_0021;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    for set in sets {
        // One that is a token of the model anyway has its id, the others have those after it: the crate numbers them so whatever is written.
        let ids = (256_u32..).scan(set.contains(&"a".to_owned()), |named, id| Some(if *named { id - 1 } else { id }));
        let tokens = set.iter().zip(ids).map(|(text, id)| {
            let id = if text == "a" { A } else { id };
            json!({"id": id, "content": text, "special": false, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false})
        });
        file["added_tokens"] = tokens.collect();
        file["version"] = json!("1.0");
        let json = file.to_string();
        let theirs = HuggingFace::from_canonical("small", &canonical("small", &json).unwrap()).unwrap();
        let Reading::Core(tables, recipe) = read("small", &json).unwrap() else { panic!("not the core's") };
        let ours = ByteLevel::new("small", *tables, recipe);
        let mut found = 0;
        for _ in 0..40 {
            let mut text = String::new();
            for _ in 0..random.below(12) {
                let run = [1, 2, 3, 7, 50, 99, 100, 299, 301, 700, 1_500][random.below(11)];
                text.push_str(&"a".repeat(run));
                text.push_str(random.pick(&["b", "ca", "cab", " ", "x", ""]));
            }
            let expected = theirs.encode(&text);
            found += expected.iter().filter(|id| **id >= 256).count();
            assert_eq!(ours.encode(&text), expected, "{text:?}");
            assert_eq!(ours.count(&text), expected.len(), "{text:?}");
        }
        assert!(found > 100, "only {found} added tokens were met");
    }
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

#[test]
fn tokens_that_no_table_holds_are_refused_by_name() {
    let why = |file: &Value| read("small", &file.to_string()).err().map(|e| e.to_string()).unwrap_or_default();
    let mut far = file(&["ab"], &json!(["a b"]));
    far["model"]["vocab"]["ab"] = u32::MAX.into();
    assert!(why(&far).contains("a token's id is 4294967295; ids under 2097152"), "{}", why(&far));
    let mut far = file(&["ab"], &json!(["a b"]));
    far["added_tokens"] = json!([{"id": 1 << 21, "content": "<x>"}]);
    assert!(why(&far).contains("id is 2097152"), "{}", why(&far));
    let long = "a".repeat(70_000);
    assert!(why(&file(&[&long], &json!([]))).contains("has 70000 bytes; at most"));
    let mut added = file(&[], &json!([]));
    added["added_tokens"] = json!([{"id": 300, "content": long}]);
    assert!(why(&added).contains("token of id 300 has 70000 bytes"), "{}", why(&added));
    // One that is found in text has a bound of its own, as each place in a text is compared with it.
    for (length, special, taken) in [(1_024, false, true), (1_025, false, false), (1_025, true, true)] {
        added["added_tokens"] = json!([{"id": 300, "content": "a".repeat(length), "special": special}]);
        let why = why(&added);
        assert_eq!(why.is_empty(), taken, "{length} {special}: {why}");
        assert!(taken || why.contains("added token of id 300 has 1025 bytes; at most 1024"), "{why}");
    }
    assert!(why(&json!([])).contains("an object with a `model`"), "{}", why(&json!([])));
}
