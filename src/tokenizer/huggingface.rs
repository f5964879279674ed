//! `tokenizer.json` files, served by the `tokenizers` crate.
//!
//! Called by the store for vocabularies that the hot core can't serve exactly. Gives ids as that crate gives them with
//! special tokens treated as text; added tokens that are not special (Gemma's runs of newlines, Qwen's `<think>`) are
//! matched as the published tokenizer does. Never panics on a file: what the crate refuses is an error of ours.

use super::engine::Engine;
use crate::error::{Error, Kind, Result};
use crate::limits;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tokenizers::pipeline::{EncodeOptions, Override, PipelineTokenizer};

/// One `tokenizer.json`, loaded.
pub(super) struct HuggingFace {
    name: String,
    inner: PipelineTokenizer,
    style: Style,
    /// Texts of the added tokens.
    added: Vec<String>,
    /// The tokenizer puts a blank before every text.
    prefixed: bool,
}

/// Text alone: nothing around it, and special tokens' look-alikes are text.
const OPTIONS: EncodeOptions =
    EncodeOptions { add_special_tokens: false, encode_special_tokens: true, padding: Override::Off, truncation: Override::Off };

/// How a token's written form maps to bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// GPT-2's printable stand-ins for bytes.
    ByteLevel,
    /// Sentencepiece: `▁` for a blank, `<0xAB>` for a byte.
    Sentencepiece,
}

/// The part of a file that names its added tokens.
#[derive(serde::Deserialize)]
struct File {
    #[serde(default)]
    added_tokens: Vec<Added>,
}

#[derive(serde::Deserialize)]
struct Added {
    content: String,
}

impl HuggingFace {
    /// Reads a `tokenizer.json` of the current canonical form, as [`canonical`] writes it.
    pub(super) fn from_canonical(name: &str, json: &str) -> Result<Self> {
        let inner = guarded(name, || {
            let inner = tokenizers::from_json(json).map_err(|e| refused(name, &e.to_string()))?;
            // Splits that it can't run are refused when they are first needed; so are characters where none may be unknown.
            for text in ["a 1", "\u{10FFFD}"] {
                inner.encode_into(text, &OPTIONS, &mut Vec::new()).map_err(|e| refused(name, &e.to_string()))?;
            }
            Ok(inner)
        })?;
        let style = if matches!(inner.get_model(), tokenizers::pipeline::PipelineModel::BPE(bpe) if bpe.is_byte_level()) {
            Style::ByteLevel
        } else {
            Style::Sentencepiece
        };
        // Before the model, where the normalizer stands; tokens named so don't matter, as they hold no quotes.
        let prefixed = style == Style::Sentencepiece
            && json.get(..json.find("\"model\"").unwrap_or(0)).is_some_and(|head| head.contains("\"Prepend\""));
        let file: File = serde_json::from_str(json).map_err(|e| refused(name, &e.to_string()))?;
        let added = file.added_tokens.into_iter().map(|added| added.content).collect();
        Ok(Self { name: name.to_owned(), inner, style, added, prefixed })
    }
}

/// Rewrites a `tokenizer.json` of any age into the form that loads fast. Costs a full parse: done once, when a vocabulary is added.
pub(super) fn canonical(name: &str, json: &str) -> Result<String> {
    let mut value: serde_json::Value =
        serde_json::from_str(json).map_err(|e| refused(name, &format!("not valid JSON at line {} column {}", e.line(), e.column())))?;
    let listed = value.pointer("/model/vocab").and_then(serde_json::Value::as_array).into_iter().flatten();
    if let Some(long) = listed.filter_map(|entry| entry.get(0)?.as_str()).find(|token| token.len() > limits::MAX_TOKEN_BYTES) {
        return Err(refused(name, &format!("a token has {} bytes; at most {} are taken", long.len(), limits::MAX_TOKEN_BYTES)));
    }
    guarded(name, || tokenizers::canonicalize_value(&mut value).map_err(|e| refused(name, &e.to_string())))?;
    complete_bytes(&mut value);
    Ok(value.to_string())
}

/// Lets the crate read a file: should it stop at one that nobody foresaw, the file is refused and the process goes on.
fn guarded<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(refused(name, "the `tokenizers` crate fails on it")))
}

/// Adds the byte tokens that a sentencepiece vocabulary leaves out because the byte is a piece itself (Gemma 2: the tab).
/// They are never produced; the crate only wants all 256 to be there.
fn complete_bytes(file: &mut serde_json::Value) {
    let Some(model) = file.get_mut("model").filter(|model| model.get("byte_fallback") == Some(&serde_json::Value::Bool(true))) else {
        return;
    };
    let Some(vocabulary) = model.get_mut("vocab").and_then(serde_json::Value::as_object_mut) else { return };
    let mut next = vocabulary.values().filter_map(serde_json::Value::as_u64).max().map_or(0, |largest| largest.saturating_add(1));
    for byte in 0..=255_u8 {
        if let serde_json::map::Entry::Vacant(free) = vocabulary.entry(format!("<0x{byte:02X}>")) {
            free.insert(next.into());
            next = next.saturating_add(1);
        }
    }
}

/// Our error for a file that the crate refuses; what it advises its own builders is left out.
fn refused(name: &str, why: &str) -> Error {
    let why = match why.strip_prefix("the slim JSON reader does not support ") {
        Some(what) => format!("the `tokenizers` crate does not take {}", what.split(". Convert").next().unwrap_or(what)),
        None if why.contains("system-regex") => {
            "it splits text by a pattern that neither the core nor the `tokenizers` crate runs".to_owned()
        }
        None => why.to_owned(),
    };
    let why = super::tokenizer_json::printable(&why, 300);
    Error::new(Kind::InvalidInput, format!("the tokenizer.json of `{name}` can't be used: {why}"))
}

impl Engine for HuggingFace {
    fn name(&self) -> &str {
        &self.name
    }

    fn count(&self, text: &str) -> usize {
        self.tokens(text).len()
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        self.tokens(text).into_iter().map(tokenizers::pipeline::PipelineToken::id).collect()
    }

    fn token_bytes(&self, id: u32) -> Option<Vec<u8>> {
        let token = self.inner.decode_tokens(&[id], false).pop()?;
        Some(match self.style {
            Style::ByteLevel => byte_level(&token),
            Style::Sentencepiece => sentencepiece(&token),
        })
    }

    fn special_tokens(&self) -> Vec<String> {
        self.added.clone()
    }

    fn decode(&self, ids: &[u32]) -> Result<Vec<u8>, u32> {
        let mut bytes = Vec::new();
        for &id in ids {
            bytes.extend(self.token_bytes(id).ok_or(id)?);
        }
        if self.prefixed && bytes.first() == Some(&b' ') {
            bytes.remove(0);
        }
        Ok(bytes)
    }

    fn token_starts(&self, text: &str) -> Vec<usize> {
        let mut at = 0_usize;
        let before = usize::from(self.prefixed);
        let starts = self.encode(text).into_iter().map(|id| {
            let start = at.saturating_sub(before);
            at += self.token_bytes(id).map_or(0, |bytes| bytes.len());
            start
        });
        starts.collect()
    }
}

impl HuggingFace {
    fn tokens(&self, text: &str) -> Vec<tokenizers::pipeline::PipelineToken> {
        let mut out = Vec::with_capacity(text.len() / 4 + 1);
        // What it refuses of a file it refuses for any text, which is tried at once; else only texts over 4 GiB, which no request reaches (`limits::MAX_BODY_BYTES`).
        if self.inner.encode_into(text, &OPTIONS, &mut out).is_err() {
            out.clear();
        }
        out
    }
}

/// The bytes behind GPT-2's printable stand-ins; characters outside that alphabet stand for themselves.
fn byte_level(token: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(token.len());
    for c in token.chars() {
        match c as u32 {
            plain @ (0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF) => bytes.push(u8::try_from(plain).unwrap_or_default()),
            moved @ 0x100..=0x120 => bytes.push(u8::try_from(moved - 0x100).unwrap_or_default()),
            moved @ 0x121..=0x142 => bytes.push(u8::try_from(moved - 0x121 + 0x7F).unwrap_or_default()),
            0x143 => bytes.push(0xAD),
            _ => bytes.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

/// The bytes behind a sentencepiece token.
fn sentencepiece(token: &str) -> Vec<u8> {
    if let Some(hex) = token.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'))
        && hex.len() == 2
        && let Ok(byte) = u8::from_str_radix(hex, 16)
    {
        return vec![byte];
    }
    token.replace('▁', " ").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A made-up byte-level vocabulary: all bytes, and two merges.
    fn small() -> String {
        let stand_ins = (0x21..=0x143_u32).filter(|c| !matches!(c, 0x7F..=0xA0 | 0xAD)).filter_map(char::from_u32);
        let mut vocabulary: serde_json::Map<_, _> = stand_ins.zip(0_u32..).map(|(c, id)| (c.to_string(), id.into())).collect();
        vocabulary.insert("ab".to_owned(), 256.into());
        vocabulary.insert("Ġab".to_owned(), 257.into());
        serde_json::json!({
            "version": "1.0",
            "added_tokens": [{"id": 258, "content": "<s>", "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false}],
            "normalizer": null,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
            "model": {"type": "BPE", "vocab": vocabulary, "merges": ["a b", "Ġ ab"]},
        })
        .to_string()
    }

    #[test]
    fn a_file_of_the_old_form_loads_and_counts() {
        let engine = HuggingFace::from_canonical("small", &canonical("small", &small()).unwrap()).unwrap();
        assert_eq!(engine.encode("ab ab"), [256, 257]);
        assert_eq!(engine.token_starts("ab ab"), [0, 2]);
        assert_eq!(engine.decode(&engine.encode("ab é你 ab")).unwrap(), "ab é你 ab".as_bytes());
    }

    #[test]
    fn broken_files_are_refused_with_the_reason() {
        for (broken, why) in [("{", "valid JSON"), ("{}", "model"), (r#"{"model":{"type":"BPE","vocab":{"a":0},"merges":["a zz"]}}"#, "")] {
            let error = canonical("x", broken).and_then(|json| HuggingFace::from_canonical("x", &json)).err().expect(broken);
            assert_eq!(error.kind(), Kind::InvalidInput);
            assert!(error.to_string().contains(why), "{error}");
        }
    }

    #[test]
    fn refusals_are_in_our_words_and_cut() {
        let why = |model: serde_json::Value, pre: serde_json::Value| {
            let file = serde_json::json!({"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": pre, "model": model});
            let error = canonical("x", &file.to_string()).and_then(|json| HuggingFace::from_canonical("x", &json)).err();
            error.map(|e| e.to_string()).unwrap_or_default()
        };
        let value: serde_json::Value = serde_json::from_str(&small()).unwrap();
        let said = why(value["model"].clone(), serde_json::json!({"type": "Odd\u{1b}"}));
        assert!(said.ends_with("the `tokenizers` crate does not take the `Odd\u{fffd}` pre-tokenizer"), "{said}");
        let split = serde_json::json!({"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": "(a|a)*b"}, "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]});
        let said = why(value["model"].clone(), split);
        assert!(said.contains("a pattern that neither the core nor"), "{said}");
        // Without an unknown token most texts would count as nothing.
        let unigram = serde_json::json!({"type": "Unigram", "unk_id": null, "vocab": [["a", -1.0], [" ", -1.0], ["1", -1.0], ["▁", -1.0]]});
        assert_ne!(why(unigram, serde_json::Value::Null), "");
        let long = serde_json::json!({"type": "Unigram", "unk_id": 0, "vocab": [["a".repeat(70_000), -1.0]]});
        assert!(why(long, serde_json::Value::Null).contains("70000 bytes"));
        // What stops the crate does not stop us.
        assert_eq!(guarded("x", || -> Result<()> { panic!("as the crate might") }).unwrap_err().kind(), Kind::InvalidInput);
    }

    #[test]
    fn written_forms_map_to_bytes() {
        let all: Vec<u8> = (0..=255).collect();
        let mut seen: Vec<u8> = (0x21..=0x143_u32)
            .filter(|c| !matches!(c, 0x7F..=0xA0 | 0xAD))
            .filter_map(char::from_u32)
            .flat_map(|c| byte_level(&c.to_string()))
            .collect();
        seen.sort_unstable();
        assert_eq!(seen, all);
        assert_eq!(sentencepiece("<0xE4>"), [0xE4]);
        assert_eq!(sentencepiece("▁a"), b" a");
    }
}
