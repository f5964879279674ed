//! `plimsoll models`: what the table knows, and merging a public price file into it.

use super::args::TableArgs;
use super::input;
use super::loadline::grouped;
use super::output::{Output, Status};
use crate::error::{Error, Kind, Result};
use crate::models::{Models, Profile, Provider};
use crate::tokenizer::VocabularyStore;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// Arguments of `models`.
#[derive(Args, Debug)]
pub(super) struct ModelsArgs {
    #[command(flatten)]
    table: TableArgs,
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Install a vocabulary (and the chat templates beside it) for open-weight models.
    Add(super::vocabularies::AddArgs),
    /// Remove an installed vocabulary.
    Remove {
        /// The vocabulary's name.
        name: String,
    },
    /// List the vocabularies, built in and installed: where they came from, their licences and fingerprints.
    Vocabularies,
    /// List the models that are known.
    List {
        /// Only ids and makers that contain this.
        filter: Option<String>,
    },
    /// Show one model: limits, tokenizer, renderer, source and date.
    Show {
        /// The model, in any usual spelling.
        name: String,
        /// Whose endpoint serves it.
        #[arg(short, long)]
        provider: Option<String>,
        /// For an unknown model, show the nearest known one.
        #[arg(long)]
        nearest: bool,
    },
    /// Merge LiteLLM's public price file (model_prices_and_context_window.json); hand-checked rows and your own table stay.
    Import {
        /// The file; `-` reads standard input.
        file: PathBuf,
        /// Date of the file's figures (ISO), kept with each row.
        #[arg(long, value_name = "DATE", default_value = "undated")]
        date: String,
    },
}

pub(super) fn run(args: &ModelsArgs, output: &mut Output) -> Result<Status> {
    match &args.command {
        Action::Add(args) => super::vocabularies::add(args, output)?,
        Action::Remove { name } => super::vocabularies::remove(name, output)?,
        Action::Vocabularies => super::vocabularies::list(output)?,
        Action::List { filter } => list(&*args.table.load()?, filter.as_deref(), output)?,
        Action::Show { name, provider, nearest } => {
            let models = args.table.load()?;
            let provider = provider.as_deref().map(str::parse::<Provider>).transpose()?;
            let profile = if *nearest { models.find_nearest(name, provider.as_ref()) } else { models.find(name, provider.as_ref()) }?;
            show(&models, &profile, output)?;
        }
        Action::Import { file, date } => import(file, date, output)?,
    }
    Ok(Status::Done)
}

fn list(models: &Models, filter: Option<&str>, output: &mut Output) -> Result<()> {
    let filter = filter.unwrap_or("").to_lowercase();
    let chosen = models.list().filter(|p| p.id.to_lowercase().contains(&filter) || p.maker.contains(&filter));
    if output.json() {
        return output.value(&Value::Array(chosen.map(to_json).collect()));
    }
    let mut lines = vec![format!("{:<44} {:<11} {:>10} {:>10} {:>9}  {}", "MODEL", "MAKER", "WINDOW", "INPUT", "OUTPUT", "RENDERER")];
    let cell = |tokens: Option<u64>| tokens.map_or_else(|| "-".to_owned(), grouped);
    lines.extend(chosen.map(|p| {
        format!("{:<44} {:<11} {:>10} {:>10} {:>9}  {}", p.id, p.maker, cell(p.window), cell(p.input_cap), cell(p.output_cap), p.renderer)
    }));
    if lines.len() == 1 {
        return Err(Error::new(Kind::NotFound, format!("no model's id or maker contains `{filter}`")));
    }
    lines.push(format!("{} models", lines.len() - 1));
    output.line(&lines.join("\n"))
}

fn show(models: &Models, profile: &Profile, output: &mut Output) -> Result<()> {
    let aliases: Vec<&str> = models.aliases(&profile.id).collect();
    if output.json() {
        let mut out = to_json(profile);
        if let Value::Object(map) = &mut out {
            map.insert("aliases".into(), aliases.into());
        }
        return output.value(&out);
    }
    let tokens = |tokens: Option<u64>| tokens.map_or_else(|| "not known, or none".to_owned(), grouped);
    let mut rows = vec![
        ("model", profile.id.clone()),
        ("maker", profile.maker.clone()),
        ("window", tokens(profile.window)),
        ("input cap", tokens(profile.input_cap)),
        ("output cap", tokens(profile.output_cap)),
        (
            "tokenizer",
            format!("{}{}", profile.tokenizer, if profile.proxy { " (a stand-in: the model's own is not published)" } else { "" }),
        ),
        ("renderer", profile.renderer.clone()),
        ("images", profile.image_rule.clone().unwrap_or_else(|| "no rule known".to_owned())),
        ("reasons", if profile.reasoning { "yes" } else { "no" }.to_owned()),
        ("source", format!("{}, {}", profile.source, profile.date)),
    ];
    if let Some(notes) = &profile.notes {
        rows.push(("notes", notes.clone()));
    }
    if !aliases.is_empty() {
        rows.push(("also", aliases.join(", ")));
    }
    for (name, value) in rows {
        output.line(&format!("{:<11} {value}", output.paint().dim(name)))?;
    }
    Ok(())
}

fn to_json(profile: &Profile) -> Value {
    json!({
        "id": profile.id,
        "maker": profile.maker,
        "window": profile.window,
        "input_cap": profile.input_cap,
        "output_cap": profile.output_cap,
        "tokenizer": profile.tokenizer,
        "proxy": profile.proxy,
        "renderer": profile.renderer,
        "image_rule": profile.image_rule,
        "reasoning": profile.reasoning,
        "source": profile.source,
        "date": profile.date,
        "notes": profile.notes,
    })
}

fn import(file: &std::path::Path, date: &str, output: &mut Output) -> Result<()> {
    let bytes = input::bytes(file)?;
    let mut models = Models::builtin();
    let table = Arc::make_mut(&mut models);
    if let Some(earlier) = imported()? {
        table.merge_text(&earlier)?;
    }
    let report =
        table.import_litellm(&bytes, "LiteLLM price file", date).map_err(|e| e.context(format!("reading {}", input::shown(file))))?;
    let path = imported_path()?;
    write_whole(&path, &table.to_text())?;
    if output.json() {
        return output.value(&json!({
            "added": report.added, "updated": report.updated, "known": report.known, "skipped": report.skipped, "file": path.display().to_string()
        }));
    }
    output.line(&format!(
        "{} added, {} updated, {} known already, {} passed over; kept in {}",
        report.added,
        report.updated,
        report.known,
        report.skipped,
        path.display()
    ))
}

/// What an earlier import kept, if there was one.
pub(super) fn imported() -> Result<Option<String>> {
    // Without any home folder there can be no import; the built-in table serves.
    let Ok(path) = imported_path() else { return Ok(None) };
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        // A home that is no folder (services run with `HOME=/dev/null`) holds none.
        Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => Ok(None),
        Err(e) => Err(Error::new(Kind::Unavailable, format!("the imported models in `{}` can't be read", path.display())).caused_by(e)),
    }
}

fn imported_path() -> Result<PathBuf> {
    Ok(VocabularyStore::user()?.root().with_file_name("imported-models.tsv"))
}

/// Writes beside and renames, so that a reader never sees half a file.
fn write_whole(path: &std::path::Path, text: &str) -> Result<()> {
    let beside = path.with_extension("tsv.new");
    let written = path
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(&beside, text))
        .and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written.map_err(|e| Error::new(Kind::Unavailable, format!("`{}` can't be written", path.display())).caused_by(e))
}
