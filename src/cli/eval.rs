//! `plimsoll eval`: how far counts are from what a log's provider billed.

use super::args::TableArgs;
use super::input;
use super::output::{Output, Status};
use crate::count::Counter;
use crate::error::{Error, Kind, Result};
use crate::eval::{Apart, evaluate, read_log};
use clap::Args;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Arguments of `eval`.
#[derive(Args, Debug)]
pub(super) struct EvalArgs {
    /// Logs, one exchange a line, plain or gzip: this project's fields, or a proxy's request and response pairs.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Also show this many of the largest residuals, part by part.
    #[arg(long, value_name = "N", default_value_t = 0)]
    worst: usize,
    /// Leave out the exchanges that this file lists: an id, a tab and a reason a line.
    #[arg(long, value_name = "FILE")]
    apart: Option<PathBuf>,
    /// Write the report as Markdown.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    #[command(flatten)]
    table: TableArgs,
}

pub(super) fn run(args: &EvalArgs, output: &mut Output) -> Result<Status> {
    let mut apart = Apart::builtin();
    if let Some(path) = &args.apart {
        apart.add(&String::from_utf8_lossy(&input::bytes(path)?));
    }
    let (mut exchanges, mut skipped) = (Vec::new(), Vec::new());
    for path in &args.files {
        let (read, broken) = read_log(open(path)?).map_err(|e| e.context(format!("reading {}", input::shown(path))))?;
        exchanges.extend(read);
        skipped.extend(broken.into_iter().map(|s| (format!("{}:{}", path.display(), s.line), s.error.to_string())));
    }
    let mut report = evaluate(&exchanges, &Counter::with_models(args.table.load()?), &apart)?;
    report.failed.extend(skipped);
    if let Some(path) = &args.markdown {
        std::fs::write(path, report.to_markdown())
            .map_err(|e| Error::new(Kind::Unavailable, format!("{} can't be written", input::shown(path))).caused_by(e))?;
    }
    if output.json() {
        output.value(&report.to_json(args.worst))?;
        return Ok(Status::Done);
    }
    output.line(report.to_text(args.worst).trim_end())?;
    for (id, why) in report.failed.iter().take(20) {
        output.line(&format!("not counted: {id}: {why}"))?;
    }
    Ok(Status::Done)
}

/// Opens a log, unpacking it when it starts with gzip's magic number.
fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    let mut reader = BufReader::new(input::open(path)?);
    let packed = reader.fill_buf().is_ok_and(|head| head.starts_with(&[0x1f, 0x8b]));
    Ok(if packed { Box::new(BufReader::new(unpack(reader))) } else { Box::new(reader) })
}

fn unpack(reader: impl BufRead + 'static) -> Box<dyn Read> {
    Box::new(flate2::bufread::MultiGzDecoder::new(reader))
}
