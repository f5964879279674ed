//! `tokenizer.json` files that the hot core can serve: byte-level pair encoding whose split it knows, and sentencepiece's without one.
//!
//! Called by the store when a vocabulary is added or its prepared tables are gone. The core merges by one order of tokens, the
//! file lists pairs; they are the same exactly when the pair that each token arises from stands where the token first does, and once.
//! That is checked for every token, so that a file is either served as published or left to the `tokenizers` crate ([`Reading::Other`]).

use super::byte_level::{Added, Pieces, Recipe};
use super::deepseek;
use super::prepare::{self, NONE, Tables};
use super::split::Split;
use super::vocabulary::Vocabulary;
use crate::error::{Error, Kind, Result};
use crate::limits;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;

/// What a file turned out to be.
pub(super) enum Reading {
    /// The core serves it.
    Core(Box<Tables>, Recipe),
    /// It doesn't, and why.
    Other(&'static str),
}

#[derive(serde::Deserialize)]
#[serde(expecting = "an object with a `model`")]
struct File<'a> {
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    #[serde(default)]
    normalizer: Option<Value>,
    #[serde(default)]
    pre_tokenizer: Option<Value>,
    #[serde(borrow)]
    model: Model<'a>,
}

#[derive(serde::Deserialize)]
#[serde(expecting = "an added token with `id` and `content`")]
struct AddedToken {
    id: u32,
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default)]
    normalized: bool,
    #[serde(default)]
    special: bool,
}

#[derive(serde::Deserialize)]
#[serde(expecting = "a model: an object")]
struct Model<'a> {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    dropout: Option<Value>,
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
    #[serde(default)]
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    byte_fallback: Option<bool>,
    #[serde(default)]
    ignore_merges: Option<bool>,
    #[serde(borrow, default)]
    vocab: Tokens<'a>,
    #[serde(borrow, default)]
    merges: Merges<'a>,
}

/// A file's text, borrowed where it has no escapes.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Tokens and their ids; none for models that don't give them by name.
#[derive(Default)]
struct Tokens<'a>(Option<Vec<(Text<'a>, u32)>>);

impl<'de: 'a, 'a> Deserialize<'de> for Tokens<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Tokens<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("tokens with their ids")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut tokens = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    tokens.push(entry);
                }
                Ok(Tokens(Some(tokens)))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                while list.next_element::<de::IgnoredAny>()?.is_some() {}
                Ok(Tokens(None))
            }
        }
        deserializer.deserialize_any(Read)
    }
}

/// One merge: `"a b"`, or `["a", "b"]` in newer files.
struct Merge<'a>(Cow<'a, str>, Cow<'a, str>);

type Merges<'a> = Vec<Merge<'a>>;

impl<'de: 'a, 'a> Deserialize<'de> for Merge<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Merge<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a merge of two tokens")
            }
            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                let (left, right) = text.split_once(' ').ok_or_else(|| E::custom("a merge without a blank between its two tokens"))?;
                Ok(Merge(Cow::Borrowed(left), Cow::Borrowed(right)))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                let (left, right) = text.split_once(' ').ok_or_else(|| E::custom("a merge without a blank between its two tokens"))?;
                Ok(Merge(Cow::Owned(left.to_owned()), Cow::Owned(right.to_owned())))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let (left, right) = (list.next_element::<Text<'de>>()?, list.next_element::<Text<'de>>()?);
                match (left, right, list.next_element::<de::IgnoredAny>()?) {
                    (Some(left), Some(right), None) => Ok(Merge(left.0, right.0)),
                    _ => Err(de::Error::custom("a merge is not of two tokens")),
                }
            }
        }
        deserializer.deserialize_any(Read)
    }
}

/// Reads a `tokenizer.json`.
///
/// # Errors
/// [`Kind::InvalidInput`] when it isn't one, or its merges name tokens that it doesn't have.
pub(super) fn read(name: &str, json: &str) -> Result<Reading> {
    let bad = |why: &str| Error::new(Kind::InvalidInput, format!("the tokenizer.json of `{name}` can't be used: {why}"));
    let file: File<'_> =
        serde_json::from_str(json).map_err(|e| bad(&format!("line {} column {}: {}", e.line(), e.column(), reason(&e))))?;
    for token in &file.added_tokens {
        check_token(&token.content, token.id).map_err(|why| bad(&why))?;
        let (length, cap) = (token.content.len(), limits::MAX_ADDED_TOKEN_BYTES);
        if !token.special && length > cap {
            return Err(bad(&format!(
                "the added token of id {} has {length} bytes; at most {cap} are taken of one that is found in text",
                token.id
            )));
        }
    }
    for (token, id) in file.model.vocab.0.iter().flatten() {
        check_token(&token.0, *id).map_err(|why| bad(&why))?;
    }
    let other = |why| Ok(Reading::Other(why));
    let style = if file.model.byte_fallback == Some(true) { Style::Sentencepiece } else { Style::ByteLevel };
    let (pieces, nfc) = match style {
        Style::Sentencepiece => {
            if !blanks_are_letters(file.normalizer.as_ref(), file.pre_tokenizer.as_ref()) {
                return other("its normalizer is not one that the core knows");
            }
            (Pieces::Sentencepiece, false)
        }
        Style::ByteLevel => {
            let Some(pieces) = pieces(file.pre_tokenizer.as_ref()) else { return other("its split is not one that the core knows") };
            let Some(nfc) = normalizer(file.normalizer.as_ref()) else { return other("its normalizer is not one that the core knows") };
            (pieces, nfc)
        }
    };
    // Those that are found in normalized text are found last.
    if style == Style::Sentencepiece && file.added_tokens.iter().any(|token| token.normalized) {
        return other("its added tokens are found in normalized text");
    }
    let Some(added) = added(file.added_tokens, nfc) else { return other("its added tokens take white space with them") };
    let model = file.model;
    let empty = |text: &Option<String>| text.as_ref().is_none_or(String::is_empty);
    let plain = model.kind.as_deref().is_none_or(|kind| kind == "BPE")
        && model.dropout.is_none_or(|dropout| dropout.is_null())
        && empty(&model.continuing_subword_prefix)
        && empty(&model.end_of_word_suffix);
    let Some(vocabulary) = model.vocab.0.filter(|_| plain) else { return other("its model is not plain byte pair encoding") };
    let whole = model.ignore_merges == Some(true);
    if whole && style == Style::Sentencepiece {
        return other("its model is not plain byte pair encoding");
    }
    let Some(ordered) = order(&vocabulary, &model.merges, whole, style).map_err(|why| bad(&why))? else {
        return other("its tokens are not bytes");
    };
    let Ok(tables) = prepare::prepare(&ordered.tokens) else { return other("its tokens don't fit the core") };
    let Some(tables) = proven(tables, &ordered, whole) else { return other("its merges are not in the order of its tokens") };
    let ids = ordered.ids;
    let same = (0_u32..).zip(&ids).all(|(inner, outer)| inner == *outer);
    Ok(Reading::Core(Box::new(tables), Recipe { pieces, nfc, shift: 0, ids: if same { Vec::new() } else { ids }, added }))
}

/// Whether a token is one that tables can be made for: every id up to the largest takes memory.
fn check_token(token: &str, id: u32) -> Result<(), String> {
    if id >= limits::MAX_TOKEN_IDS {
        return Err(format!("a token's id is {id}; ids under {} are taken", limits::MAX_TOKEN_IDS));
    }
    if token.len() > limits::MAX_TOKEN_BYTES {
        return Err(format!("the token of id {id} has {} bytes; at most {} are taken", token.len(), limits::MAX_TOKEN_BYTES));
    }
    Ok(())
}

/// The first `most` characters of what somebody else says, without those that a terminal obeys.
pub(super) fn printable(text: &str, most: usize) -> String {
    text.chars().take(most).map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// What serde_json says, without its place, cut to a line, and without characters that a terminal obeys.
pub(super) fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
    printable(text, 200)
}

/// How the file cuts text, when the core can do it.
fn pieces(pre: Option<&Value>) -> Option<Pieces> {
    let kind = |value: &Value| value.get("type").and_then(Value::as_str).map(str::to_owned);
    let byte_level = |value: &Value, splits: bool| {
        kind(value).as_deref() == Some("ByteLevel")
            && value.get("add_prefix_space").and_then(Value::as_bool) == Some(false)
            && value.get("use_regex").and_then(Value::as_bool).unwrap_or(true) == splits
    };
    let pre = pre?;
    if byte_level(pre, true) {
        return Some(Pieces::Gpt2);
    }
    let steps = pre.get("pretokenizers").filter(|_| kind(pre).as_deref() == Some("Sequence"))?.as_array()?;
    let (last, splits) = steps.split_last()?;
    if !byte_level(last, false) {
        let digits =
            |step: &Value| kind(step).as_deref() == Some("Digits") && step.get("individual_digits").and_then(Value::as_bool) == Some(true);
        return match splits {
            _ if !byte_level(last, true) => None,
            [] => Some(Pieces::Gpt2),
            [step] if digits(step) => Some(Pieces::Gpt2Digits),
            _ => None,
        };
    }
    let patterns = splits
        .iter()
        .map(|step| {
            let plain = kind(step).as_deref() == Some("Split")
                && step.get("behavior").and_then(Value::as_str) == Some("Isolated")
                && step.get("invert").and_then(Value::as_bool) != Some(true);
            step.get("pattern").filter(|_| plain)?.get("Regex")?.as_str()
        })
        .collect::<Option<Vec<&str>>>()?;
    if patterns == deepseek::PASSES {
        return Some(Pieces::DeepSeek);
    }
    match patterns[..] {
        [pattern] => Split::of_pattern(pattern).and_then(Pieces::of),
        _ => None,
    }
}

/// Whether text is brought to NFC; `None` for normalizers that do anything else.
fn normalizer(value: Option<&Value>) -> Option<bool> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Some(false) };
    match value.get("type").and_then(Value::as_str)? {
        "NFC" => Some(true),
        "Sequence" => value.get("normalizers")?.as_array()?.iter().try_fold(false, |any, one| Some(any | normalizer(Some(one))?)),
        _ => None,
    }
}

/// Whether all that is done to text is to write blanks as `▁`: a split at blanks then finds none.
fn blanks_are_letters(normalizer: Option<&Value>, split: Option<&Value>) -> bool {
    let at_blanks = |value: &Value| value.get("pattern").and_then(|pattern| pattern.get("String")).and_then(Value::as_str) == Some(" ");
    let kind = |value: &Value| value.get("type").and_then(Value::as_str).map(str::to_owned);
    normalizer.is_some_and(|value| {
        kind(value).as_deref() == Some("Replace") && at_blanks(value) && value.get("content").and_then(Value::as_str) == Some("▁")
    }) && split.is_none_or(|value| {
        value.is_null()
            || (kind(value).as_deref() == Some("Split") && at_blanks(value) && value.get("invert").and_then(Value::as_bool) != Some(true))
    })
}

/// How a vocabulary writes its tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Style {
    /// GPT-2's printable stand-ins for bytes.
    #[default]
    ByteLevel,
    /// As they are, but `▁` for a blank and `<0xAB>` for a byte of a character that is no token.
    Sentencepiece,
}

impl Style {
    /// The bytes behind a token; `None` when it is not of this style.
    fn bytes_of(self, token: &str) -> Option<Vec<u8>> {
        match self {
            Self::ByteLevel => bytes_of(token),
            Self::Sentencepiece => (!token.contains(' ')).then(|| token.replace('▁', " ").into_bytes()),
        }
    }
}

/// Added tokens, when all that are found in text are found as they stand.
fn added(tokens: Vec<AddedToken>, nfc: bool) -> Option<Vec<Added>> {
    tokens
        .into_iter()
        .map(|token| {
            let odd = token.single_word || token.lstrip || token.rstrip || (nfc && token.normalized);
            (token.special || !odd).then_some(Added { text: token.content, id: token.id, matched: !token.special })
        })
        .collect()
}

/// Tokens as the core takes them.
#[derive(Default)]
struct Ordered {
    /// Bytes and the core's id, which is the place in this list.
    tokens: Vec<(Vec<u8>, u32)>,
    /// The file's id of each.
    ids: Vec<u32>,
    /// The core's id of each of the file's; [`NONE`] for tokens that are never made.
    inner: Vec<u32>,
    /// Left, right and joined token of every merge, by the file's ids.
    merges: Vec<[u32; 3]>,
    style: Style,
    /// How many of the tokens, the first ones, need no merge of the file: bytes, and characters put together of them.
    given: usize,
}

impl Ordered {
    /// Gives a token the next place, unless it has one. `false` when it isn't byte-level.
    fn place(&mut self, token: &str, id: u32) -> bool {
        let Some(slot) = usize::try_from(id).ok().and_then(|id| self.inner.get_mut(id)) else { return false };
        if *slot == NONE {
            let Some(bytes) = self.style.bytes_of(token) else { return false };
            let Ok(at) = u32::try_from(self.tokens.len()) else { return false };
            *slot = at;
            self.tokens.push((bytes, at));
            self.ids.push(id);
        }
        true
    }

    /// Gives bytes that the file has no token for a place.
    fn place_part(&mut self, bytes: &[u8]) -> bool {
        let Ok(at) = u32::try_from(self.tokens.len()) else { return false };
        self.tokens.push((bytes.to_vec(), at));
        self.ids.push(NONE);
        true
    }

    /// Places what sentencepiece starts from: characters, after the bytes and the beginnings that they are put together of. A byte is its
    /// character where that is a token. `false` when a byte has no token.
    fn place_characters(&mut self, ids: &FxHashMap<&str, u32>, by_id: &[(u32, &str)]) -> bool {
        for byte in 0..=255_u8 {
            let written = match byte {
                b' ' => "▁".to_owned(),
                0..0x80 => char::from(byte).to_string(),
                _ => String::new(),
            };
            let Some(id) = ids.get(written.as_str()).or_else(|| ids.get(format!("<0x{byte:02X}>").as_str())) else { return false };
            let Some((slot, at)) = self.inner.get_mut(*id as usize).zip(u32::try_from(self.tokens.len()).ok()) else { return false };
            *slot = at;
            self.tokens.push((vec![byte], at));
            self.ids.push(*id);
        }
        let mut beginnings: FxHashSet<&[u8]> = FxHashSet::default();
        for (id, token) in by_id.iter().filter(|(_, token)| token.len() > 1 && token.chars().nth(1).is_none() && *token != "▁") {
            for length in 2..token.len() {
                let beginning = &token.as_bytes()[..length];
                if beginnings.insert(beginning) && !self.place_part(beginning) {
                    return false;
                }
            }
            if !self.place(token, *id) {
                return false;
            }
        }
        true
    }

    /// Whether the file's merges, in their order, make any of these tokens of its characters. `None` when that can't be told.
    fn any_made(&self, tokens: &[u32]) -> Option<bool> {
        let mut ranks: FxHashMap<(u32, u32), (usize, u32)> = FxHashMap::with_capacity_and_hasher(self.merges.len(), FxBuildHasher);
        for (rank, [left, right, token]) in self.merges.iter().enumerate() {
            ranks.entry((self.inner(*left)?, self.inner(*right)?)).or_insert((rank, self.inner(*token)?));
        }
        let characters: FxHashMap<&[u8], u32> = self.tokens.iter().take(self.given).map(|(bytes, id)| (bytes.as_slice(), *id)).collect();
        for token in tokens {
            let text = std::str::from_utf8(&self.tokens.get(*token as usize)?.0).ok()?;
            let mut parts = Vec::new();
            for c in text.chars() {
                match characters.get(c.encode_utf8(&mut [0; 4]).as_bytes()) {
                    Some(id) => parts.push(*id),
                    // Its bytes merge with nothing.
                    None => break,
                }
            }
            if parts.len() < text.chars().count() {
                continue;
            }
            while let Some((_, made, at)) = parts
                .iter()
                .zip(parts.iter().skip(1))
                .enumerate()
                .filter_map(|(at, (left, right))| ranks.get(&(*left, *right)).map(|(rank, made)| (*rank, *made, at)))
                .min_by_key(|(rank, _, at)| (*rank, *at))
            {
                parts[at] = made;
                parts.remove(at + 1);
            }
            if parts.len() == 1 {
                return Some(true);
            }
        }
        Some(false)
    }

    fn inner(&self, id: u32) -> Option<u32> {
        self.inner.get(usize::try_from(id).ok()?).copied().filter(|inner| *inner != NONE)
    }
}

/// The tokens in the order in which the core must merge them: single bytes, then each where a merge first makes it, then (where a
/// piece that is a token needs no merges) the rest. `None` when a token that counts isn't byte-level.
fn order(vocabulary: &[(Text<'_>, u32)], merges: &[Merge<'_>], whole: bool, style: Style) -> Result<Option<Ordered>, String> {
    let mut ids: FxHashMap<&str, u32> = FxHashMap::with_capacity_and_hasher(vocabulary.len(), FxBuildHasher);
    let mut by_id: Vec<(u32, &str)> = Vec::with_capacity(vocabulary.len());
    for (token, id) in vocabulary {
        if ids.insert(&token.0, *id).is_some() {
            return Err(format!("the token of id {id} is given twice"));
        }
        by_id.push((*id, &token.0));
    }
    by_id.sort_unstable();
    if let Some((twice, _)) = by_id.iter().zip(by_id.iter().skip(1)).find(|(a, b)| a.0 == b.0) {
        return Err(format!("the id {} is given twice", twice.0));
    }
    let Some(limit) = by_id.last().and_then(|(id, _)| usize::try_from(*id).ok()).filter(|last| *last < prepare::ID_LIMIT as usize) else {
        return Ok(None);
    };
    let mut out = Ordered { inner: vec![NONE; limit + 1], merges: Vec::with_capacity(merges.len()), style, ..Ordered::default() };
    match style {
        Style::ByteLevel => {
            // A single character that stands for no byte (Command-R has a rocket) is never met in byte-level text.
            for (id, token) in by_id.iter().filter(|(_, token)| token.chars().nth(1).is_none() && bytes_of(token).is_some()) {
                if !out.place(token, *id) {
                    return Ok(None);
                }
            }
        }
        Style::Sentencepiece => {
            if !out.place_characters(&ids, &by_id) {
                return Ok(None);
            }
        }
    }
    out.given = out.tokens.len();
    // A byte stands for a part of a character that is no token: it merges with nothing.
    let is_byte = |token: &str| style == Style::Sentencepiece && token.len() == 6 && token.starts_with("<0x") && token.ends_with('>');
    let mut joined = String::new();
    for (number, Merge(left, right)) in merges.iter().enumerate() {
        joined.clear();
        joined.push_str(left);
        joined.push_str(right);
        let bytes = [&**left, &**right, joined.as_str()].into_iter().any(is_byte);
        let (Some(left), Some(right), Some(id)) = (ids.get(&**left), ids.get(&**right), ids.get(joined.as_str())) else {
            return Err(format!("its merge {number} names a token that it doesn't have"));
        };
        if bytes || !out.place(&joined, *id) {
            return Ok(None);
        }
        out.merges.push([*left, *right, *id]);
    }
    if whole {
        for (id, token) in by_id {
            // One that isn't byte-level is never a piece.
            out.place(token, id);
        }
    }
    Ok(Some(out))
}

/// The tables, if the core's merging by them is the file's: see the head of this file.
fn proven(tables: Tables, ordered: &Ordered, whole_pieces: bool) -> Option<Tables> {
    let mut whole = tables.whole.iter().map(|id| u32::from_le_bytes(*id)).collect::<Vec<_>>().into_iter().peekable();
    let vocabulary = Vocabulary::from_tables(tables);
    let mut unmade = Vec::new();
    let given = u32::try_from(ordered.given).ok()?;
    // How often each token's own pair was seen, and whether any merge makes it.
    let mut seen = vec![(0_u8, false); ordered.tokens.len()];
    let mut last = None;
    for [left, right, token] in &ordered.merges {
        let (left, right, token) = (ordered.inner(*left)?, ordered.inner(*right)?, ordered.inner(*token)?);
        let (own_seen, merged) = seen.get_mut(usize::try_from(token).ok()?)?;
        let own = vocabulary.pair(left, right) == token;
        // A token that comes up again, later: its own pair must have been in its first group.
        if *merged && last != Some(token) && own {
            return None;
        }
        *merged = true;
        *own_seen = own_seen.saturating_add(u8::from(own));
        last = Some(token);
    }
    for ((token, id), (seen, merged)) in ordered.tokens.iter().zip(seen) {
        let is_whole = whole.next_if_eq(id).is_some();
        if *id < given {
            // A character must come of its bytes.
            if is_whole {
                return None;
            }
            continue;
        }
        if is_whole && !whole_pieces && ordered.style == Style::Sentencepiece {
            unmade.push(*id);
            continue;
        }
        // A token within merging's reach is made by its own pair, which is listed once. One out of reach may be listed with pairs that
        // never meet; it counts where a whole piece needs no merges.
        let fine = if is_whole { whole_pieces && seen == 0 } else { merged && seen == 1 };
        if token.len() > 1 && !fine {
            return None;
        }
    }
    if !unmade.is_empty() && ordered.any_made(&unmade)? {
        return None;
    }
    let mut tables = vocabulary.into_tables();
    if !whole_pieces {
        tables.whole.clear();
    }
    Some(tables)
}

/// The bytes behind GPT-2's printable stand-ins; `None` when a character is none of them.
fn bytes_of(token: &str) -> Option<Vec<u8>> {
    token
        .chars()
        .map(|c| match c as u32 {
            plain @ (0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF) => u8::try_from(plain).ok(),
            moved @ 0x100..=0x120 => u8::try_from(moved - 0x100).ok(),
            moved @ 0x121..=0x142 => u8::try_from(moved - 0x121 + 0x7F).ok(),
            0x143 => Some(0xAD),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
#[path = "tokenizer_json_tests.rs"]
mod tests;
