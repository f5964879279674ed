//! What a model's folder holds: the vocabulary's file, and the templates and settings beside it.
//!
//! Read by the store when a vocabulary is added. Reads local files within the cap; writes nothing.

use super::gguf;
use super::store::VocabularyKind;
use crate::error::{Error, Kind, Result};
use crate::limits;
use std::path::{Path, PathBuf};

/// A vocabulary found in a folder.
pub(super) struct Found {
    /// The file that it was read from.
    pub(super) path: PathBuf,
    pub(super) kind: VocabularyKind,
    pub(super) text: String,
    /// The text is not the file's own but made of it, under this name.
    pub(super) made: Option<&'static str>,
    /// Templates and settings by file name.
    pub(super) companions: Vec<(String, String)>,
}

/// Reads a model's folder: a plain one, or a repository of a Hugging Face cache.
pub(super) fn read_folder(folder: &Path) -> Result<Found> {
    let folder = snapshot(folder);
    let entries = std::fs::read_dir(&folder).map_err(|e| unreadable(&folder, e))?;
    let mut names: Vec<String> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort_unstable();
    let has_ending = |name: &str, ending: &str| Path::new(name).extension().is_some_and(|e| e.eq_ignore_ascii_case(ending));
    let mut companions = Vec::new();
    for name in &names {
        if matches!(name.as_str(), "tokenizer_config.json" | "chat_template.json" | "special_tokens_map.json") || has_ending(name, "jinja")
        {
            companions.push((name.clone(), read(&folder.join(name))?));
        }
    }
    let tekken = names.iter().rfind(|name| name.starts_with("tekken") && has_ending(name, "json"));
    let found = tekken
        .map(|name| (name, VocabularyKind::Tekken))
        .or_else(|| names.iter().find(|name| *name == "tokenizer.json").map(|name| (name, VocabularyKind::TokenizerJson)))
        .or_else(|| names.iter().find(|name| has_ending(name, "tiktoken")).map(|name| (name, VocabularyKind::Ranks)))
        .or_else(|| names.iter().find(|name| *name == "tokenizer.model").map(|name| (name, VocabularyKind::Ranks)));
    if let Some((name, kind)) = found {
        let path = folder.join(name);
        let text = read(&path)?;
        return Ok(Found { path, kind, text, made: None, companions });
    }
    let Some(name) = names.iter().find(|name| has_ending(name, "gguf")) else {
        return Err(Error::new(Kind::NotFound, "no tokenizer.json, tekken*.json, *.tiktoken, tokenizer.model or *.gguf in the folder"));
    };
    let path = folder.join(name);
    let converted = gguf::read(&path)?;
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    if let Some(template) = converted.template.filter(|_| !names.iter().any(|name| has_ending(name, "jinja"))) {
        companions.push(("chat_template.jinja".to_owned(), template));
    }
    if !has("tokenizer_config.json") {
        companions.push(("tokenizer_config.json".to_owned(), converted.config));
    }
    companions.sort_unstable();
    Ok(Found { path, kind: VocabularyKind::TokenizerJson, text: converted.tokenizer, made: Some("tokenizer.json"), companions })
}

/// The snapshot behind a repository folder of a Hugging Face cache; any other folder as it is.
fn snapshot(from: &Path) -> PathBuf {
    let snapshots = from.join("snapshots");
    if let Ok(revision) = std::fs::read_to_string(from.join("refs/main"))
        && snapshots.join(revision.trim()).is_dir()
    {
        return snapshots.join(revision.trim());
    }
    match std::fs::read_dir(&snapshots).map(|entries| entries.filter_map(Result::ok).collect::<Vec<_>>()).as_deref() {
        Ok([only]) => only.path(),
        _ => from.to_owned(),
    }
}

#[cfg(test)]
thread_local! {
    /// Files that this thread has read.
    pub(super) static READS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// A vocabulary's file as text, within the cap.
pub(super) fn read(path: &Path) -> Result<String> {
    #[cfg(test)]
    READS.set(READS.get() + 1);
    let size = std::fs::metadata(path).map_err(|e| unreadable(path, e))?.len();
    if size > limits::MAX_VOCABULARY_BYTES {
        let cap = limits::MAX_VOCABULARY_BYTES;
        return Err(Error::new(Kind::LimitExceeded, format!("`{}` has {size} bytes; at most {cap} are taken", path.display())));
    }
    let bytes = std::fs::read(path).map_err(|e| unreadable(path, e))?;
    String::from_utf8(bytes).map_err(|_| {
        Error::new(Kind::InvalidInput, format!("`{}` is not text (a sentencepiece or other binary model is not taken)", path.display()))
    })
}

/// Our error for a file that can't be read or written.
pub(super) fn unreadable(path: &Path, error: std::io::Error) -> Error {
    let kind = if error.kind() == std::io::ErrorKind::NotFound { Kind::NotFound } else { Kind::Unavailable };
    Error::new(kind, format!("`{}` can't be read or written: {}", path.display(), error.kind())).caused_by(error)
}
