//! `plimsoll models add | remove | vocabularies`: the vocabularies that are built in, and those installed with their templates.
//!
//! Hands over to the store and to the hub client; decides nothing. Progress goes to standard error, results to the output.

use super::output::Output;
use crate::error::{Error, Kind, Result};
use crate::tokenizer::{AddOptions, PresentVocabulary, Vocabulary, VocabularyStore};
use clap::Args;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Arguments of `models add`.
#[derive(Args, Debug)]
pub(super) struct AddArgs {
    /// The vocabulary's name, as models name it: gemma3, qwen3, llama3, tekken, kimi, glm4, deepseek-v3 …
    name: String,
    /// A folder with the model's files (tokenizer.json, *.tiktoken, tekken.json, *.gguf …), one of those files, or a repository in a Hugging Face
    /// cache.
    #[arg(long, value_name = "PATH", required_unless_present = "hub", conflicts_with = "hub")]
    dir: Option<PathBuf>,
    /// Fetch the files of this repository (owner/name) from the hub.
    #[arg(long, value_name = "ID")]
    hub: Option<String>,
    /// Branch, tag or commit of the repository.
    #[arg(long, requires = "hub")]
    revision: Option<String>,
    /// Ask nobody: take what the hub's cache holds.
    #[arg(long, requires = "hub")]
    offline: bool,
    /// Refer to the file where it lies instead of copying it.
    #[arg(long)]
    by_reference: bool,
    /// Licence of the files, to be listed with them.
    #[arg(long)]
    licence: Option<String>,
    /// How a rank file splits text, for vocabularies that aren't known by name: llama3, qwen, qwen-marks, o200k, kimi.
    #[arg(long)]
    split: Option<String>,
}

pub(super) fn add(args: &AddArgs, output: &mut Output) -> Result<()> {
    let added = match (&args.dir, &args.hub) {
        (Some(folder), _) => add_folder(args, folder, folder.display().to_string())?,
        (None, Some(id)) => add_from_hub(args, id)?,
        (None, None) => return Err(Error::new(Kind::InvalidInput, "name a folder (--dir) or a hub repository (--hub)")),
    };
    if output.json() {
        return output.value(&to_json(&added));
    }
    output.line(&format!("{}: {}, fingerprint {}", added.name, added.file.display(), added.fingerprint))
}

fn add_folder(args: &AddArgs, folder: &Path, source: String) -> Result<Vocabulary> {
    let options = AddOptions { source, licence: args.licence.clone(), by_reference: args.by_reference, split: args.split.clone() };
    VocabularyStore::user()?.add(&args.name, folder, &options)
}

#[cfg(feature = "hub")]
fn add_from_hub(args: &AddArgs, id: &str) -> Result<Vocabulary> {
    use std::io::Write as _;
    let tell = |file: &str, done: u64, all: u64| {
        // Progress is a courtesy: where standard error is closed there is nobody to tell.
        let _ = write!(std::io::stderr(), "\r{file}: {done} of {all} bytes   ");
        if done >= all {
            let _ = writeln!(std::io::stderr());
        }
    };
    let files = crate::hub::fetch(&crate::hub::HubRequest {
        id: id.to_owned(),
        revision: args.revision.clone(),
        offline: args.offline,
        progress: Some(std::sync::Arc::new(tell)),
    })?;
    add_folder(args, files.folder(), format!("hub: {id}")).map_err(|error| files.refused(error))
}

#[cfg(not(feature = "hub"))]
fn add_from_hub(args: &AddArgs, _id: &str) -> Result<Vocabulary> {
    let _ = (&args.revision, args.offline);
    Err(Error::new(Kind::Unsupported, "this build can't reach a hub: the feature `hub` is off; fetch the files yourself and use --dir"))
}

pub(super) fn remove(name: &str, output: &mut Output) -> Result<()> {
    VocabularyStore::user()?.remove(name)?;
    if output.json() {
        return output.value(&json!({ "removed": name }));
    }
    output.line(&format!("{name}: removed"))
}

pub(super) fn list(output: &mut Output) -> Result<()> {
    // Without any home folder what is built in serves all the same.
    let store = VocabularyStore::user();
    let present = PresentVocabulary::all(store.as_ref().ok())?;
    if output.json() {
        return output.value(&Value::Array(present.iter().map(present_to_json).collect()));
    }
    for vocabulary in &present {
        let PresentVocabulary { name, fingerprint, source, .. } = vocabulary;
        let built_in = if vocabulary.built_in { "built in: " } else { "" };
        let licence = vocabulary.licence.as_ref().map(|licence| format!(" ({licence})")).unwrap_or_default();
        let unused = match (vocabulary.in_use, vocabulary.built_in) {
            (true, _) => "",
            (false, true) => "; not used: the installed one is",
            (false, false) => "; not used: the built-in one is",
        };
        output.line(&format!("{name:<16} {fingerprint}  {built_in}{source}{licence}{unused}"))?;
    }
    if present.iter().all(|vocabulary| vocabulary.built_in) {
        let why = store.map_or_else(|e| e.to_string(), |store| format!("none installed in {}", store.root().display()));
        return output.line(&format!("{why}; see `plimsoll models add --help`"));
    }
    Ok(())
}

fn present_to_json(vocabulary: &PresentVocabulary) -> Value {
    json!({
        "name": vocabulary.name,
        "built_in": vocabulary.built_in,
        "in_use": vocabulary.in_use,
        "file": vocabulary.file.as_ref().map(|file| file.display().to_string()),
        "fingerprint": vocabulary.fingerprint,
        "source": vocabulary.source,
        "licence": vocabulary.licence,
        "templates": vocabulary.templates,
    })
}

fn to_json(vocabulary: &Vocabulary) -> Value {
    json!({
        "name": vocabulary.name,
        "file": vocabulary.file.display().to_string(),
        "fingerprint": vocabulary.fingerprint,
        "source": vocabulary.source,
        "licence": vocabulary.licence,
        "templates": vocabulary.templates,
    })
}
