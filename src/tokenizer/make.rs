//! From a vocabulary's file to its engine: the hot core where it serves the file exactly, else the `tokenizers` crate.
//!
//! Called by the store, which keeps the files. Decides who serves; says why where nobody can.

use super::byte_level::{ByteLevel, Pieces, Recipe};
use super::engine::Engine;
use super::known;
use super::prepare::Tables;
use super::prepared::{self, Source};
use super::rank_file::Ranks;
use super::split::Split;
use super::store::VocabularyKind;
use super::tekken::Tekken;
use super::tokenizer_json::{self, Reading};
use crate::error::{Error, Kind, Result};
use crate::limits;
use std::sync::Arc;

/// An engine, and the form of it that loads fast.
pub(super) struct Made {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) prepared: Option<Form>,
}

/// A form that loads fast.
pub(super) enum Form {
    /// Tables of the hot core.
    Tables(Vec<u8>),
    /// For the `tokenizers` crate, because the core can't serve it.
    #[cfg_attr(not(feature = "huggingface"), expect(dead_code, reason = "made by that crate alone"))]
    Canonical { json: String, why: &'static str },
}

/// Goes up when the core learns to serve files that it left to the `tokenizers` crate.
pub(super) const READING: u32 = 1;
/// Whether this build has that crate.
pub(super) const HAS_CRATE: bool = cfg!(feature = "huggingface");

/// What a build without that crate says of a file that the core can't serve.
pub(super) fn needs_crate(name: &str, why: &str) -> Error {
    let message = format!("the tokenizer.json of `{name}` needs the feature `huggingface`, which this build lacks: {why}");
    Error::new(Kind::Unsupported, message)
}

/// The engine over a file's text. `proven` says that a `tokenizer.json` has been compared with the `tokenizers` crate before;
/// without a `source` nothing is prepared for later.
pub(super) fn make(
    name: &str,
    kind: VocabularyKind,
    text: &str,
    split: Option<&str>,
    proven: bool,
    source: Option<&Source>,
) -> Result<Made> {
    if kind != VocabularyKind::Ranks {
        check_size(name, text)?;
    }
    match kind {
        VocabularyKind::Tekken => {
            let tekken = Tekken::parse(name, text)?;
            // A pattern that nobody knows might run without end on some text, or leave parts of it out.
            let pieces = Split::of_pattern(&tekken.pattern).and_then(Pieces::of).ok_or_else(|| {
                Error::new(Kind::Unsupported, format!("the tekken file of `{name}` splits text by a pattern that is not a published one"))
            })?;
            Ok(hot(name, tables(&tekken.ranks)?, Recipe { shift: tekken.specials, ..Recipe::plain(pieces, false) }, source))
        }
        VocabularyKind::Ranks => {
            let split = split.ok_or_else(|| {
                Error::new(
                    Kind::InvalidInput,
                    format!(
                        "a rank file says nothing of how text is split, and `{name}` is not known; name its split ({}), or give a tokenizer.json",
                        known::splits().collect::<Vec<_>>().join(", ")
                    ),
                )
            })?;
            let nfc = known::find(name).is_some_and(known::Known::nfc);
            let ranks = Ranks::parse(name, text)?;
            // All splits that have a name are the core's.
            let pieces = known::core_split(split).and_then(Pieces::of);
            let pieces = pieces.ok_or_else(|| {
                Error::new(Kind::InvalidInput, format!("unknown split `{split}`")).suggest(known::splits().map(str::to_owned))
            })?;
            Ok(hot(name, tables(&ranks)?, Recipe::plain(pieces, nfc), source))
        }
        VocabularyKind::TokenizerJson => match tokenizer_json::read(name, text)? {
            Reading::Core(tables, recipe) => {
                let made = hot(name, *tables, recipe, source);
                if proven || agrees(name, made.engine.as_ref(), text)? {
                    Ok(made)
                } else {
                    crate_engine(name, text, "the core gives other ids")
                }
            }
            Reading::Other(why) => crate_engine(name, text, why),
        },
    }
}

/// The core over ranks that a feature builds in, proven by the known ids.
#[cfg(any(feature = "vocab-qwen", feature = "vocab-glm"))]
pub(super) fn bundled(name: &str, ranks: &Ranks) -> Result<Arc<dyn Engine>> {
    let known = known::find(name);
    let split = known.and_then(|known| known.split.as_deref()).and_then(known::core_split).and_then(Pieces::of);
    let pieces = split.ok_or_else(|| Error::new(Kind::Internal, format!("no split is known for `{name}`")))?;
    let engine = engine(name, tables(ranks)?, Recipe::plain(pieces, known.is_some_and(known::Known::nfc)));
    super::store::prove(name, engine.as_ref())?;
    Ok(engine)
}

/// The core over prepared tables.
pub(super) fn engine(name: &str, tables: Tables, recipe: Recipe) -> Arc<dyn Engine> {
    Arc::new(ByteLevel::new(name, tables, recipe))
}

/// An engine of the hot core with its prepared tables.
fn hot(name: &str, tables: Tables, recipe: Recipe, source: Option<&Source>) -> Made {
    let prepared = source.and_then(|source| prepared::write(source, &recipe, &tables)).map(Form::Tables);
    Made { engine: engine(name, tables, recipe), prepared }
}

/// Whether a JSON text's values fit into memory, by its commas.
fn check_size(name: &str, text: &str) -> Result<()> {
    let cap = limits::MAX_VOCABULARY_VALUES;
    let commas = memchr::memchr_iter(b',', text.as_bytes()).count();
    if commas > cap {
        return Err(Error::new(Kind::LimitExceeded, format!("the file of `{name}` holds some {commas} values; at most {cap} are taken")));
    }
    Ok(())
}

fn tables(ranks: &Ranks) -> Result<Tables> {
    super::prepare::prepare(&ranks.tokens)
        .map_err(|what| Error::new(Kind::InvalidInput, format!("the rank vocabulary is not usable: {what}")))
}

/// The `tokenizers` crate over a file that the core can't serve, for the reason given.
#[cfg(feature = "huggingface")]
fn crate_engine(name: &str, text: &str, why: &'static str) -> Result<Made> {
    let json = super::huggingface::canonical(name, text)?;
    Ok(Made { engine: from_canonical(name, &json)?, prepared: Some(Form::Canonical { json, why }) })
}

#[cfg(not(feature = "huggingface"))]
fn crate_engine(name: &str, _text: &str, why: &'static str) -> Result<Made> {
    Err(needs_crate(name, why))
}

/// The `tokenizers` crate over the form that [`Form::Canonical`] holds.
#[cfg(feature = "huggingface")]
pub(super) fn from_canonical(name: &str, json: &str) -> Result<Arc<dyn Engine>> {
    Ok(Arc::new(super::huggingface::HuggingFace::from_canonical(name, json)?))
}

#[cfg(not(feature = "huggingface"))]
pub(super) fn from_canonical(name: &str, json: &str) -> Result<Arc<dyn Engine>> {
    let _ = json;
    Err(needs_crate(name, "it was prepared for that crate"))
}

/// Texts on which two engines are compared: each part of the published splits, added tokens and what looks like them.
#[cfg(feature = "huggingface")]
const TRIALS: &[&str] = &[
    "Hello world 你好",
    "fn main() {\n\tlet größe = 12345678.9e-10; // don't, DON'T, I'LL\r\n}\n\n\n  end  ",
    "日本語のテキスト、カタカナー゛と漢字。한국어 ไทย नमस्ते العربية עברית",
    "  \t \u{a0}\u{3000}\u{2028} x\u{0}\u{1}\u{7f}\u{ad}\u{200d}\u{feff}\u{85}y",
    "e\u{301}e\u{301} Å \u{212b} ﬁ 각 \u{1100}\u{1161}",
    "<think>\n</think><tool_call>{\"a\": 1}</tool_call><|im_start|>user<|im_end|><|endoftext|><s></s><bos>",
    "<｜User｜>hi<｜Assistant｜></think><｜tool▁calls▁begin｜>",
    "😀👩‍👩‍👧‍👦🇩🇪 ½²③ ٣٤٥ Ⅷ ǅ ſ'ſ x'ſt",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "=====-----_____/////*****\n#### \\\\\\\\ ''' \"\"\" ``` ;;;;{{{}}}((()))[[[]]]<<<>>>",
];

/// Whether the core gives the ids that the `tokenizers` crate gives. A file that the crate refuses is refused.
#[cfg(feature = "huggingface")]
fn agrees(name: &str, engine: &dyn Engine, text: &str) -> Result<bool> {
    let theirs = from_canonical(name, &super::huggingface::canonical(name, text)?)?;
    Ok(TRIALS.iter().all(|trial| engine.encode(trial) == theirs.encode(trial)))
}

/// Without the crate the structural proof stands alone.
#[cfg(not(feature = "huggingface"))]
#[expect(clippy::unnecessary_wraps, reason = "fails only where there is something to compare with")]
fn agrees(_name: &str, _engine: &dyn Engine, _text: &str) -> Result<bool> {
    Ok(true)
}
