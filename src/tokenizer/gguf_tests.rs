//! Heads of GGUF files: what they become, and that damaged or lying ones are errors that say where.

use super::*;

fn text(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text].concat()
}

fn string(value: &str) -> Vec<u8> {
    [&TEXT.to_le_bytes()[..], &text(value.as_bytes())].concat()
}

fn list(kind: u32, length: u64, entries: &[u8]) -> Vec<u8> {
    [&LIST.to_le_bytes()[..], &kind.to_le_bytes(), &length.to_le_bytes(), entries].concat()
}

fn strings(entries: &[&str]) -> Vec<u8> {
    list(TEXT, entries.len() as u64, &entries.iter().flat_map(|entry| text(entry.as_bytes())).collect::<Vec<u8>>())
}

fn floats(entries: &[f32]) -> Vec<u8> {
    list(6, entries.len() as u64, &entries.iter().flat_map(|entry| entry.to_le_bytes()).collect::<Vec<u8>>())
}

fn number(value: u32) -> Vec<u8> {
    [4_u32.to_le_bytes(), value.to_le_bytes()].concat()
}

fn file(keys: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let head = [&b"GGUF"[..], &3_u32.to_le_bytes(), &0_u64.to_le_bytes(), &(keys.len() as u64).to_le_bytes()].concat();
    let keys = keys.iter().flat_map(|(key, value)| [text(key.as_bytes()), value.clone()].concat());
    head.into_iter().chain(keys).collect()
}

/// A whole head, with `other` keys in place of its own or after them; an empty value leaves its key out.
fn head(other: &[(&'static str, Vec<u8>)]) -> Vec<u8> {
    let mut keys = vec![
        ("tokenizer.ggml.model", string("gpt2")),
        ("tokenizer.ggml.pre", string("qwen2")),
        ("tokenizer.chat_template", string("{{ x }}")),
        ("tokenizer.ggml.tokens", strings(&["a", "b", "ab"])),
        ("tokenizer.ggml.merges", strings(&["a b"])),
        ("tokenizer.ggml.bos_token_id", number(1)),
    ];
    for (key, value) in other {
        match keys.iter_mut().find(|(own, _)| own == key) {
            Some((_, own)) => own.clone_from(value),
            None => keys.push((key, value.clone())),
        }
    }
    keys.retain(|(_, value)| !value.is_empty());
    file(&keys)
}

fn converted(bytes: &[u8]) -> Result<Converted> {
    parse(bytes).and_then(convert)
}

fn refused(bytes: &[u8], why: &str) {
    let Err(error) = converted(bytes) else { panic!("taken: {why}") };
    assert_eq!(error.kind(), Kind::InvalidInput);
    assert!(error.to_string().contains(why), "{error}");
}

#[test]
fn a_head_becomes_a_tokenizer_json() {
    let converted = converted(&head(&[])).unwrap();
    let value: Value = serde_json::from_str(&converted.tokenizer).unwrap();
    assert_eq!(value["model"]["vocab"]["ab"], 2);
    assert_eq!(value["normalizer"]["type"], "NFC");
    assert_eq!(converted.template.as_deref(), Some("{{ x }}"));
    assert_eq!(serde_json::from_str::<Value>(&converted.config).unwrap()["bos_token"], "b");
}

#[test]
fn every_truncation_is_an_error() {
    let whole = head(&[("general.tags", strings(&["x", "y"])), ("general.counts", list(5, 2, &[0; 8]))]);
    for cut in 0..whole.len() {
        assert_eq!(parse(&whole[..cut]).unwrap_err().kind(), Kind::InvalidInput, "{cut}");
    }
}

#[test]
fn what_a_head_lacks_or_lies_about_is_said() {
    let tokens = |value| head(&[("tokenizer.ggml.tokens", value)]);
    refused(&tokens(list(TEXT, u64::MAX, &[])), "at most");
    refused(&tokens(list(TEXT, 1 << 20, &[])), "bytes of a string; at most");
    refused(&tokens(list(LIST, 1, &[])), "`tokenizer.ggml.tokens`: the GGUF file can't be used: a list of lists");
    refused(&tokens(list(TEXT, 1, &text(&[0xFF]))), "not UTF-8");
    refused(&tokens(strings(&[])), "no vocabulary");
    refused(&tokens(strings(&["a", "a"])), "twice");
    refused(&head(&[("tokenizer.ggml.pre", string("bl\u{1b}oom"))]), "`bl\\u{1b}oom`");
    refused(&head(&[("tokenizer.ggml.model", string("t5"))]), "`t5`");
    let mut big_endian = head(&[]);
    big_endian[4..8].reverse();
    refused(&big_endian, "big-endian");
}

#[test]
fn a_key_of_another_type_or_given_twice_is_not_passed_over() {
    refused(&head(&[("tokenizer.ggml.merges", floats(&[1.0]))]), "`tokenizer.ggml.merges` is a list of numbers; a list of strings");
    refused(&head(&[("tokenizer.ggml.token_type", strings(&["1", "1", "1"]))]), "a list of numbers was expected");
    refused(&head(&[("tokenizer.ggml.add_space_prefix", string("false"))]), "a number was expected");
    let key = ("tokenizer.ggml.merges", strings(&["a b"]));
    refused(&file(&[key.clone(), key]), "`tokenizer.ggml.merges` is given twice");
}

#[test]
fn merges_must_be_there_and_make_tokens() {
    refused(&head(&[("tokenizer.ggml.merges", Vec::new())]), "no merges");
    for model in ["gpt2", "gemma4"] {
        let with = |merges: &[&str]| head(&[("tokenizer.ggml.model", string(model)), ("tokenizer.ggml.merges", strings(merges))]);
        assert!(converted(&with(&["a b"])).is_ok());
        refused(&with(&["a b", "ab"]), "merge 1 is not two tokens");
        refused(&with(&["b a"]), "merge 0 names a token");
    }
}

#[test]
fn keys_that_say_nothing_of_a_vocabulary_are_passed_over_whatever_they_hold() {
    let nested = list(LIST, 1, &list(5, 1, &[0; 4])[4..]);
    let long = string(&"x".repeat(300_000));
    assert!(
        converted(&head(&[("a", nested), ("tokenizer.huggingface.json", long), ("b", list(0, 2_000_000, &vec![0; 2_000_000]))])).is_ok()
    );
    // Deeper and deeper.
    let lists = (0..100).fold(list(0, 0, &[]), |inner, _| list(LIST, 1, &inner[4..]));
    refused(&head(&[("a", lists)]), "lists nest");
    refused(&head(&[("a", list(0, u64::MAX, &[]))]), "ends inside");
}

#[test]
fn scores_are_numbers_one_for_each_token() {
    let with = |scores: &[f32]| {
        head(&[("tokenizer.ggml.model", string("llama")), ("tokenizer.ggml.merges", Vec::new()), ("tokenizer.ggml.scores", floats(scores))])
    };
    assert!(converted(&with(&[0.0, -1.0, -2.0])).is_ok());
    refused(&with(&[0.0]), "3 tokens and 1 scores");
    refused(&with(&[0.0, f32::NAN, 0.0]), "score of token 1");
}

#[test]
fn long_tokens_are_refused_before_they_take_hours() {
    let tokens: Vec<String> = (0..20).map(|more| "a".repeat(200_000 + more)).collect();
    let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
    let keys = [
        ("tokenizer.ggml.model", string("llama")),
        ("tokenizer.ggml.tokens", strings(&tokens)),
        ("tokenizer.ggml.scores", floats(&[0.0; 20])),
    ];
    refused(&head(&keys), "too long");
}

#[test]
fn ids_that_are_none_name_no_token() {
    for id in [number(u32::MAX), [&5_u32.to_le_bytes()[..], &(-1_i32).to_le_bytes()].concat()] {
        let converted = converted(&head(&[("tokenizer.ggml.bos_token_id", id)])).unwrap();
        assert!(serde_json::from_str::<Value>(&converted.config).unwrap()["bos_token"].is_null());
    }
}
