//! `plimsoll classify`: a provider's error, understood: overflow, rate limit or something else, with its numbers and the remedy.

use super::args::TableArgs;
use super::input;
use super::output::{Output, Status};
use crate::error::Result;
use crate::turn::classify;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

/// Arguments of `classify`.
#[derive(Args, Debug)]
pub(super) struct ClassifyArgs {
    /// The error's body, JSON or text; `-` reads standard input.
    #[arg(default_value = "-", value_name = "FILE")]
    file: PathBuf,
    /// The HTTP status.
    #[arg(short, long, value_name = "N")]
    status: u16,
    /// The model that was asked: tells whether the provider's limit differs from the table's.
    #[arg(short, long)]
    model: Option<String>,
    #[command(flatten)]
    table: TableArgs,
}

pub(super) fn run(args: &ClassifyArgs, output: &mut Output) -> Result<Status> {
    let outcome = classify(args.status, &input::bytes(&args.file)?);
    let correction = match &args.model {
        Some(model) => outcome.correction(&*args.table.load()?.find(model, None)?),
        None => None,
    };
    let mut report = outcome.to_json();
    if let (Some(correction), Some(map)) = (&correction, report.as_object_mut()) {
        let said = json!({"model": correction.model, "field": correction.field.as_str(), "was": correction.was, "now": correction.now});
        map.insert("correction".to_owned(), said);
    }
    if output.json() {
        output.value(&report)?;
        return Ok(Status::Done);
    }
    let paint = output.paint();
    for (name, value) in report.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        output.line(&format!("{:<14} {shown}", paint.dim(name)))?;
    }
    Ok(Status::Done)
}
