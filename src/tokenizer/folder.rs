//! What a model's folder holds: the vocabulary's file, and the templates and settings beside it.
//!
//! Read by the store when a vocabulary is added. Reads local files within the cap; writes nothing.

use super::gguf;
use super::store::VocabularyKind;
use crate::error::{Error, Kind, Result};
use crate::limits;
use std::fs::File;
use std::io::Read as _;
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

/// Reads a model's folder: a plain one, a repository of a Hugging Face cache, or one file of a folder with what lies beside it.
pub(super) fn read_folder(from: &Path) -> Result<Found> {
    let only = from.is_file().then(|| from.file_name().unwrap_or_default().to_owned());
    let folder = match (&only, from.parent()) {
        (None, _) => snapshot(from),
        (_, Some(parent)) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let entries = std::fs::read_dir(&folder).map_err(|e| unreadable(&folder, e))?;
    let entries = entries.filter_map(std::io::Result::ok).filter(|entry| !entry.path().is_dir());
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    let has_ending = |name: &str, ending: &str| Path::new(name).extension().is_some_and(|e| e.eq_ignore_ascii_case(ending));
    let mut companions = Vec::new();
    for name in &names {
        if matches!(name.as_str(), "tokenizer_config.json" | "chat_template.json" | "special_tokens_map.json") || has_ending(name, "jinja")
        {
            companions.push((name.clone(), read(&folder.join(name))?));
        }
    }
    let asked: Vec<&String> = names.iter().filter(|name| only.as_ref().is_none_or(|only| only == name.as_str())).collect();
    let tekken = asked.iter().rfind(|name| name.starts_with("tekken") && has_ending(name, "json"));
    let found = tekken
        .map(|name| (name, VocabularyKind::Tekken))
        .or_else(|| asked.iter().find(|name| **name == "tokenizer.json").map(|name| (name, VocabularyKind::TokenizerJson)))
        .or_else(|| asked.iter().find(|name| has_ending(name, "tiktoken")).map(|name| (name, VocabularyKind::Ranks)))
        .or_else(|| asked.iter().find(|name| **name == "tokenizer.model").map(|name| (name, VocabularyKind::Ranks)));
    if let Some((name, kind)) = found {
        let path = folder.join(name);
        let text = read(&path)?;
        return Ok(Found { path, kind, text, made: None, companions });
    }
    let mut empty = None;
    for name in asked.into_iter().filter(|name| has_ending(name, "gguf")) {
        let path = folder.join(name);
        let Some(converted) = gguf::read(&path)? else {
            empty.get_or_insert(path);
            continue;
        };
        let has = |wanted: &str| names.iter().any(|name| name == wanted);
        if let Some(template) = converted.template.filter(|_| !names.iter().any(|name| has_ending(name, "jinja"))) {
            companions.push(("chat_template.jinja".to_owned(), template));
        }
        if !has("tokenizer_config.json") {
            companions.push(("tokenizer_config.json".to_owned(), converted.config));
        }
        companions.sort_unstable();
        return Ok(Found {
            path,
            kind: VocabularyKind::TokenizerJson,
            text: converted.tokenizer,
            made: Some("tokenizer.json"),
            companions,
        });
    }
    let wanted = "tokenizer.json, tekken*.json, *.tiktoken, tokenizer.model or *.gguf";
    Err(match (empty, only) {
        (Some(path), _) => Error::new(Kind::InvalidInput, format!("`{}` holds no vocabulary", path.display())),
        (_, Some(_)) => Error::new(Kind::InvalidInput, format!("`{}` is no vocabulary's file by its name: {wanted}", from.display())),
        _ => Error::new(Kind::NotFound, format!("no {wanted} in `{}`", folder.display())),
    })
}

/// The snapshot behind a repository folder of a Hugging Face cache; any other folder as it is.
fn snapshot(from: &Path) -> PathBuf {
    let snapshots = from.join("snapshots");
    if let Ok(revision) = read(&from.join("refs/main"))
        && !revision.trim().is_empty()
        && revision.trim().bytes().all(|b| b.is_ascii_alphanumeric())
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

/// Opens a file to be read. A pipe or a device, on which reading may never end, is refused.
pub(super) fn open(path: &Path) -> Result<File> {
    let seen = std::fs::metadata(path).map_err(|e| unreadable(path, e))?;
    if !seen.is_file() && !seen.is_dir() {
        return Err(Error::new(Kind::InvalidInput, format!("`{}` is no plain file but a pipe, a device or the like", path.display())));
    }
    File::open(path).map_err(|e| unreadable(path, e))
}

/// A vocabulary's file as text, within the cap.
pub(super) fn read(path: &Path) -> Result<String> {
    #[cfg(test)]
    READS.set(READS.get() + 1);
    let cap = limits::MAX_VOCABULARY_BYTES;
    let file = open(path)?;
    let size = file.metadata().map_err(|e| unreadable(path, e))?.len();
    let mut bytes = Vec::with_capacity(usize::try_from(size.min(cap)).unwrap_or_default());
    // What grows while it is read ends at the cap all the same.
    let read = file.take(cap + 1).read_to_end(&mut bytes).map_err(|e| unreadable(path, e))?;
    if read as u64 > cap {
        let size = size.max(read as u64);
        return Err(Error::new(Kind::LimitExceeded, format!("`{}` has {size} bytes; at most {cap} are taken", path.display())));
    }
    String::from_utf8(bytes).map_err(|_| {
        Error::new(
            Kind::InvalidInput,
            format!("`{}` is not text in UTF-8 (a sentencepiece or other binary model is not taken)", path.display()),
        )
    })
}

/// Our error for a file that can't be read or written.
pub(super) fn unreadable(path: &Path, error: std::io::Error) -> Error {
    let kind = if error.kind() == std::io::ErrorKind::NotFound { Kind::NotFound } else { Kind::Unavailable };
    Error::new(kind, format!("`{}` can't be read or written: {}", path.display(), error.kind())).caused_by(error)
}
