//! Vocabularies inside GGUF files (llama.cpp, Ollama): the head's tokens, merges and template, rewritten as a `tokenizer.json`.
//!
//! Called by the store when a folder holds nothing better. Reads the head alone, however large the weights behind it are, and
//! trusts none of its sizes. What the head doesn't say (split, normalizer) follows from the make that it names; an unknown make is an error.

use super::deepseek;
use super::prepare::MOST_WORK;
use crate::error::{Error, Kind, Result};
use crate::limits;
use serde_json::{Map, Value, json};
use std::fmt;
use std::io::{BufReader, Read};
use std::path::Path;

/// What a head gave.
pub(super) struct Converted {
    /// A `tokenizer.json`.
    pub(super) tokenizer: String,
    /// A `tokenizer_config.json` with the names of the tokens that templates use.
    pub(super) config: String,
    pub(super) template: Option<String>,
}

/// Most entries of a list: twice the largest vocabulary seen (merges of Gemma).
const MOST_ENTRIES: u64 = 1 << 20;
/// Most keys of a head; real ones have some 50.
const MOST_KEYS: u64 = 4_096;
/// Longest string; chat templates reach some 30 kB.
const LONGEST: u64 = limits::MAX_TEMPLATE_BYTES as u64;

/// Deepest nesting of lists under keys that say nothing of a vocabulary; none is known to nest.
const DEEPEST: u32 = 4;

/// Reads the head of a GGUF file.
///
/// # Errors
/// [`Kind::InvalidInput`] when it is damaged or holds a vocabulary of no known make; [`Kind::NotFound`] or [`Kind::Unavailable`]
/// when it can't be read. `None` when it holds no vocabulary at all, as the files of picture encoders do.
pub(super) fn read(path: &Path) -> Result<Option<Converted>> {
    let file = super::folder::open(path)?;
    let head = parse(BufReader::new(file.take(limits::MAX_VOCABULARY_BYTES)))?;
    if head.model.is_empty() && head.tokens.is_empty() { Ok(None) } else { convert(head).map(Some) }
}

/// A name that a file gives, as it may be shown: short, and without characters that a terminal obeys.
fn shown(name: &str) -> String {
    name.chars().take(40).flat_map(char::escape_debug).collect()
}

fn bad(why: impl std::fmt::Display) -> Error {
    Error::new(Kind::InvalidInput, format!("the GGUF file can't be used: {why}"))
}

/// What counts of a head.
#[derive(Debug, Default)]
struct Head {
    model: String,
    pre: String,
    tokens: Vec<String>,
    types: Vec<i64>,
    scores: Vec<f64>,
    merges: Vec<String>,
    template: Option<String>,
    space_prefix: Option<bool>,
    bos: Option<usize>,
    eos: Option<usize>,
}

/// One value of a head; numbers as what they are used as.
enum Item {
    Number(f64),
    Text(String),
    Texts(Vec<String>),
    Numbers(Vec<f64>),
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Number(_) => "a number",
            Self::Text(_) => "a string",
            Self::Texts(_) => "a list of strings",
            Self::Numbers(_) => "a list of numbers",
        })
    }
}

/// Types of values that are no numbers.
const TEXT: u32 = 8;
const LIST: u32 = 9;

struct Reader<R> {
    from: R,
}

impl<R: Read> Reader<R> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.from.read_exact(&mut bytes).map_err(|_| bad("it ends inside its head"))?;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    fn length(&mut self, most: u64, what: &str) -> Result<usize> {
        let length = u64::from_le_bytes(self.bytes()?);
        usize::try_from(length).ok().filter(|_| length <= most).ok_or_else(|| bad(format!("{length} {what}; at most {most} are taken")))
    }

    fn text(&mut self) -> Result<String> {
        let length = self.length(LONGEST, "bytes of a string")?;
        let mut bytes = Vec::new();
        let read =
            (&mut self.from).take(length as u64).read_to_end(&mut bytes).map_err(|_| bad("it can't be read to the end of its head"))?;
        if read != length {
            return Err(bad("it ends inside its head"));
        }
        String::from_utf8(bytes).map_err(|_| bad("a string is not UTF-8"))
    }

    #[expect(clippy::cast_precision_loss, reason = "ids and flags, all far under 2^53")]
    fn number(&mut self, kind: u32) -> Result<f64> {
        Ok(match kind {
            0 | 7 => f64::from(u8::from_le_bytes(self.bytes()?)),
            1 => f64::from(i8::from_le_bytes(self.bytes()?)),
            2 => f64::from(u16::from_le_bytes(self.bytes()?)),
            3 => f64::from(i16::from_le_bytes(self.bytes()?)),
            4 => f64::from(self.u32()?),
            5 => f64::from(i32::from_le_bytes(self.bytes()?)),
            6 => f64::from(f32::from_le_bytes(self.bytes()?)),
            10 => u64::from_le_bytes(self.bytes()?) as f64,
            11 => i64::from_le_bytes(self.bytes()?) as f64,
            12 => f64::from_le_bytes(self.bytes()?),
            other => return Err(bad(format!("a value of the unknown type {other}"))),
        })
    }

    /// Passes over what a key that isn't known holds.
    fn skip(&mut self, kind: u32, depth: u32) -> Result<()> {
        let width = |kind: u32| match kind {
            0 | 1 | 7 => Some(1),
            2 | 3 => Some(2),
            4..=6 => Some(4),
            10..=12 => Some(8),
            _ => None,
        };
        let length = match (kind, width(kind)) {
            (_, Some(width)) => width,
            (TEXT, _) => u64::from_le_bytes(self.bytes()?),
            (LIST, _) if depth < DEEPEST => {
                let (kind, entries) = (self.u32()?, u64::from_le_bytes(self.bytes()?));
                if let Some(width) = width(kind) {
                    entries.saturating_mul(width)
                } else {
                    // Every entry takes bytes, so that a lie ends with the file.
                    for _ in 0..entries {
                        self.skip(kind, depth + 1)?;
                    }
                    0
                }
            }
            (LIST, _) => return Err(bad(format!("lists nest more than {DEEPEST} deep"))),
            (other, _) => return Err(bad(format!("a value of the unknown type {other}"))),
        };
        match std::io::copy(&mut (&mut self.from).take(length), &mut std::io::sink()) {
            Ok(read) if read == length => Ok(()),
            _ => Err(bad("it ends inside its head")),
        }
    }

    fn item(&mut self, kind: u32) -> Result<Item> {
        match kind {
            TEXT => Ok(Item::Text(self.text()?)),
            LIST => {
                let kind = self.u32()?;
                if kind == LIST {
                    return Err(bad("a list of lists"));
                }
                let length = self.length(MOST_ENTRIES, "entries of a list")?;
                // A list is never reserved for at once: its length may be a lie.
                if kind == TEXT {
                    return Ok(Item::Texts((0..length).map(|_| self.text()).collect::<Result<_>>()?));
                }
                Ok(Item::Numbers((0..length).map(|_| self.number(kind)).collect::<Result<_>>()?))
            }
            kind => Ok(Item::Number(self.number(kind)?)),
        }
    }
}

fn parse(from: impl Read) -> Result<Head> {
    let mut reader = Reader { from };
    if reader.bytes()? != *b"GGUF" {
        return Err(bad("it does not begin with GGUF"));
    }
    let version = reader.u32()?;
    if !(2..=3).contains(&version) {
        let swapped = if (2..=3).contains(&version.swap_bytes()) { " (it is big-endian; little-endian files are taken)" } else { "" };
        return Err(bad(format!("version {version}; 2 and 3 are known{swapped}")));
    }
    let _tensors: [u8; 8] = reader.bytes()?;
    let keys = reader.length(MOST_KEYS, "keys")?;
    let mut head = Head::default();
    let mut seen = Vec::new();
    for _ in 0..keys {
        let key = reader.text()?;
        let kind = reader.u32()?;
        let Some(known) = KEYS.iter().find(|known| **known == key) else {
            reader.skip(kind, 0)?;
            continue;
        };
        if seen.contains(known) {
            return Err(bad(format!("`{known}` is given twice")));
        }
        seen.push(known);
        let item = reader.item(kind).map_err(|e| e.context(format!("`{known}`")))?;
        head.take(known, item)?;
    }
    Ok(head)
}

/// What is read of a head.
const KEYS: [&str; 10] = [
    "tokenizer.ggml.model",
    "tokenizer.ggml.pre",
    "tokenizer.ggml.tokens",
    "tokenizer.ggml.merges",
    "tokenizer.ggml.scores",
    "tokenizer.ggml.token_type",
    "tokenizer.ggml.add_space_prefix",
    "tokenizer.ggml.bos_token_id",
    "tokenizer.ggml.eos_token_id",
    "tokenizer.chat_template",
];

impl Head {
    /// Puts one of [`KEYS`] into its place.
    fn take(&mut self, key: &str, item: Item) -> Result<()> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative; ones out of range find no token")]
        let id = |id: f64| (id >= 0.0).then_some(id as usize);
        match (key.strip_prefix("tokenizer.ggml.").unwrap_or(key), item) {
            ("model", Item::Text(text)) => self.model = text,
            ("pre", Item::Text(text)) => self.pre = text,
            ("tokens", Item::Texts(list)) => self.tokens = list,
            ("merges", Item::Texts(list)) => self.merges = list,
            // A list without entries has whatever type.
            ("tokens" | "merges", Item::Numbers(list)) if list.is_empty() => {}
            ("scores", Item::Numbers(list)) => self.scores = list,
            #[expect(clippy::cast_possible_truncation, reason = "small numbers; odd ones are of no known type")]
            ("token_type", Item::Numbers(list)) => self.types = list.into_iter().map(|kind| kind as i64).collect(),
            ("add_space_prefix", Item::Number(flag)) => self.space_prefix = Some(flag != 0.0),
            ("bos_token_id", Item::Number(number)) => self.bos = id(number),
            ("eos_token_id", Item::Number(number)) => self.eos = id(number),
            ("tokenizer.chat_template", Item::Text(text)) => self.template = Some(text),
            (of, item) => {
                let expected = match of {
                    "tokens" | "merges" => "a list of strings",
                    "scores" | "token_type" => "a list of numbers",
                    "add_space_prefix" | "bos_token_id" | "eos_token_id" => "a number",
                    _ => "a string",
                };
                return Err(bad(format!("`{key}` is {item}; {expected} was expected")));
            }
        }
        Ok(())
    }
}

/// Token types of GGUF.
mod types {
    pub(super) const CONTROL: i64 = 3;
    pub(super) const USER: i64 = 4;
    pub(super) const UNUSED: i64 = 5;
}

fn convert(head: Head) -> Result<Converted> {
    if head.tokens.is_empty() {
        return Err(bad("it holds no vocabulary"));
    }
    if !head.types.is_empty() && head.types.len() != head.tokens.len() {
        return Err(bad(format!("{} tokens and {} types of tokens", head.tokens.len(), head.types.len())));
    }
    let kind = |id: usize| head.types.get(id).copied().unwrap_or(1);
    // Tokens that pad the table stand apart in makers' files: they are in no vocabulary, and nobody writes them.
    let padding =
        |id: usize, token: &str| matches!(kind(id), types::USER | types::UNUSED | types::CONTROL) && token == format!("[PAD{id}]");
    let added: Vec<Value> = (head.tokens.iter().enumerate())
        .filter(|(id, token)| matches!(kind(*id), types::CONTROL | types::USER) && !padding(*id, token))
        .map(|(id, token)| {
            json!({"id": id, "content": token, "special": kind(id) == types::CONTROL, "single_word": false,
                "lstrip": false, "rstrip": false, "normalized": false})
        })
        .collect();
    let mut vocabulary = Map::new();
    for (id, token) in head.tokens.iter().enumerate().filter(|(id, token)| kind(*id) != types::UNUSED && !padding(*id, token)) {
        if vocabulary.insert(token.clone(), id.into()).is_some() {
            return Err(bad(format!("the token of id {id} is given twice")));
        }
    }
    check_merges(&head, &vocabulary)?;
    let (pre_tokenizer, normalizer, model) = match head.model.as_str() {
        "gpt2" => byte_level(&head, &vocabulary)?,
        "llama" => sentencepiece(&head, &vocabulary)?,
        "gemma4" => gemma(&head, &vocabulary),
        other => return Err(bad(format!("a vocabulary of the make `{}`; gpt2, llama and gemma4 are known", shown(other)))),
    };
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer, "post_processor": null, "decoder": null, "model": model,
    });
    let name = |id: Option<usize>| id.and_then(|id| head.tokens.get(id)).cloned();
    let config = json!({"bos_token": name(head.bos), "eos_token": name(head.eos)});
    Ok(Converted { tokenizer: tokenizer.to_string(), config: config.to_string(), template: head.template })
}

/// Whether each merge is two tokens with a blank between that make a third. A head of these makes without merges is half a head.
fn check_merges(head: &Head, vocabulary: &Map<String, Value>) -> Result<()> {
    if !matches!(head.model.as_str(), "gpt2" | "gemma4") {
        return Ok(());
    }
    if head.merges.is_empty() {
        return Err(bad("it holds no merges, without which its tokens can't be put together"));
    }
    let mut joined = String::new();
    for (number, merge) in head.merges.iter().enumerate() {
        let Some((left, right)) = merge.split_once(' ') else {
            return Err(bad(format!("its merge {number} is not two tokens with a blank between")));
        };
        joined.clear();
        joined.push_str(left);
        joined.push_str(right);
        if [left, right, joined.as_str()].into_iter().any(|token| !vocabulary.contains_key(token)) {
            return Err(bad(format!("its merge {number} names a token that it doesn't have")));
        }
    }
    Ok(())
}

/// Split, normalizer and model.
type Parts = (Value, Value, Value);

/// Byte pair encoding over bytes; the split is named.
fn byte_level(head: &Head, vocabulary: &Map<String, Value>) -> Result<Parts> {
    const LLAMA3: &str =
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    let named = |name| super::known::split(name).map(|pattern| vec![pattern]);
    let (patterns, nfc) = match head.pre.as_str() {
        "llama-bpe" | "llama3" | "llama-v3" | "dbrx" | "smaug-bpe" | "glm4" | "chatglm-bpe" => (vec![LLAMA3], false),
        "qwen2" | "deepseek-r1-qwen" => (named("qwen")?, true),
        "qwen35" => (named("qwen-marks")?, true),
        "gpt-4o" | "llama4" => (named("o200k")?, false),
        "kimi-k2" => (named("kimi")?, false),
        "deepseek-v3" => (deepseek::PASSES.to_vec(), false),
        "gpt-2" | "command-r" => (Vec::new(), head.pre == "command-r"),
        other => return Err(bad(format!("a split named `{}`, which is not known; give the model's tokenizer.json", shown(other)))),
    };
    let split = |pattern: &str| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
    let mut steps: Vec<Value> = patterns.iter().map(|pattern| split(pattern)).collect();
    if head.pre == "command-r" {
        steps.push(json!({"type": "Digits", "individual_digits": true}));
    }
    steps.push(json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": patterns.is_empty()}));
    let normalizer = if nfc { json!({"type": "NFC"}) } else { Value::Null };
    // Meta's ranks know no merges: a piece that is a token is that token.
    let whole = matches!(head.pre.as_str(), "llama-bpe" | "llama3" | "llama-v3" | "llama4" | "dbrx" | "smaug-bpe" | "gpt-4o" | "kimi-k2");
    let model = json!({"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
        "fuse_unk": false, "byte_fallback": false, "ignore_merges": whole, "vocab": vocabulary, "merges": head.merges});
    Ok((json!({"type": "Sequence", "pretokenizers": steps}), normalizer, model))
}

/// Sentencepiece's pairs: any two tokens that make a third, the better score first.
fn sentencepiece(head: &Head, vocabulary: &Map<String, Value>) -> Result<Parts> {
    if head.scores.len() != head.tokens.len() {
        return Err(bad(format!("{} tokens and {} scores", head.tokens.len(), head.scores.len())));
    }
    if let Some(id) = head.scores.iter().position(|score| score.is_nan()) {
        return Err(bad(format!("the score of token {id} is not a number")));
    }
    // Each token is looked at from its beginning and from its end at every border.
    let work: u64 = head.tokens.iter().map(|token| (token.len() as u64).saturating_pow(2)).fold(0, u64::saturating_add);
    if work > MOST_WORK {
        let longest = head.tokens.iter().map(String::len).max().unwrap_or(0);
        return Err(bad(format!("its tokens are too long (one has {longest} bytes): they would take minutes to prepare")));
    }
    let ids: rustc_hash::FxHashMap<&str, usize> = head.tokens.iter().enumerate().map(|(id, token)| (token.as_str(), id)).collect();
    let mut order: Vec<(usize, &String)> =
        head.tokens.iter().enumerate().filter(|(id, _)| head.types.get(*id).is_none_or(|kind| *kind == 1)).collect();
    // Equal scores keep the order of ids.
    order.sort_by(|(a, _), (b, _)| head.scores[*b].total_cmp(&head.scores[*a]));
    let mut merges = Vec::new();
    for (_, token) in order {
        let mut pairs: Vec<(usize, usize, usize)> =
            (token.char_indices().skip(1)).filter_map(|(at, _)| Some((*ids.get(&token[..at])?, *ids.get(&token[at..])?, at))).collect();
        pairs.sort_unstable();
        merges.extend(pairs.into_iter().map(|(_, _, at)| json!([&token[..at], &token[at..]])));
    }
    let mut steps = Vec::new();
    if head.space_prefix.unwrap_or(true) {
        steps.push(json!({"type": "Prepend", "prepend": "▁"}));
    }
    steps.push(json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"}));
    let model = json!({"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null, "end_of_word_suffix": null,
        "fuse_unk": true, "byte_fallback": true, "ignore_merges": false, "vocab": vocabulary, "merges": merges});
    Ok((Value::Null, json!({"type": "Sequence", "normalizers": steps}), model))
}

/// Gemma: sentencepiece's tokens with merges of its own.
fn gemma(head: &Head, vocabulary: &Map<String, Value>) -> Parts {
    // A merge is two tokens with a blank between (checked); blanks inside tokens are written `▁`.
    let merges: Vec<Value> = head.merges.iter().filter_map(|merge| merge.split_once(' ')).map(|(a, b)| json!([a, b])).collect();
    let model = json!({"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null, "end_of_word_suffix": null,
        "fuse_unk": true, "byte_fallback": true, "ignore_merges": false, "vocab": vocabulary, "merges": merges});
    let split = json!({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false});
    (split, json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"}), model)
}

#[cfg(test)]
#[path = "gguf_tests.rs"]
mod tests;
