//! `plimsoll turn` and `plimsoll stream`: what a model answered, whether it is whole, and which calls may be run.
//!
//! Both take a whole JSON response, raw server-sent events, binary frames, or recorded events; the two names say what is expected. With
//! `--progress`, `stream` also reports while it reads. The exit code is 1 when the answer isn't whole.

use super::args::TableArgs;
use super::input;
use super::output::{Output, Status};
use crate::error::{Error, Result};
use crate::format::{Format, Request};
use crate::turn::{InspectOptions, Inspection, Policy, Risk, Rule, Stream, Verdict, inspect};
use clap::Args;
use serde_json::json;
use std::io::Read as _;
use std::path::PathBuf;

/// Arguments of `turn` and `stream`.
#[derive(Args, Debug)]
pub(super) struct TurnArgs {
    /// The answer: a JSON response, server-sent events, Bedrock's binary frames, or recorded events; `-` reads standard input.
    #[arg(default_value = "-", value_name = "FILE")]
    file: PathBuf,
    /// Wire format of the answer: chat, responses, anthropic, gemini or converse.
    #[arg(short, long)]
    format: Format,
    /// The request that was answered: its tools decide which calls are valid.
    #[arg(short, long, value_name = "FILE")]
    request: Option<PathBuf>,
    /// Model, for the tokenizer; without it the one that the answer names.
    #[arg(short, long)]
    model: Option<String>,
    /// Which choice is used, counted from 0; the calls of others are refused.
    #[arg(long, default_value_t = 0)]
    choice: usize,
    /// Ask before calls of tools whose name matches (`*` stands for anything); may be repeated.
    #[arg(long, value_name = "PATTERN")]
    ask: Vec<String>,
    /// Refuse calls of tools whose name matches; may be repeated, and wins over --ask.
    #[arg(long, value_name = "PATTERN")]
    deny: Vec<String>,
    /// Print progress as the stream is read: one JSON line for each 4 kB.
    #[arg(long)]
    progress: bool,
    /// Output tokens granted: progress warns when they are nearly used.
    #[arg(long, value_name = "TOKENS")]
    granted: Option<u64>,
    #[command(flatten)]
    table: TableArgs,
}

pub(super) fn run(args: &TurnArgs, output: &mut Output) -> Result<Status> {
    let models = args.table.load()?;
    let bytes = input::bytes(&args.file)?;
    let request = match &args.request {
        Some(path) => {
            let body = input::bytes(path)?;
            Some(Request::parse(&body, args.format).map_err(|e| e.context(format!("reading {}", input::shown(path))))?)
        }
        None => None,
    };
    if args.progress {
        progress(args, &bytes, output)?;
    }
    let rule = |verdict| move |pattern: &String| Rule::new(pattern.as_str(), Risk::Unlabelled, verdict);
    let rules = args.deny.iter().map(rule(Verdict::Refuse)).chain(args.ask.iter().map(rule(Verdict::Ask))).collect();
    let options = InspectOptions {
        request,
        policy: Policy { rules, ..Policy::default() },
        choice: args.choice,
        now_ms: now_ms(),
        model: args.model.clone(),
        ..InspectOptions::default()
    };
    let inspection =
        inspect(&bytes, args.format, &models, &options).map_err(|e| e.context(format!("reading {}", input::shown(&args.file))))?;
    if output.json() {
        output.value(&inspection.to_json())?;
    } else {
        print(&inspection, output)?;
    }
    Ok(if inspection.turn.ended_well { Status::Done } else { Status::DoesNotFit })
}

fn progress(args: &TurnArgs, mut bytes: &[u8], output: &mut Output) -> Result<()> {
    let mut stream = Stream::new(args.format)?;
    if let Some(granted) = args.granted {
        stream = stream.with_granted(granted);
    }
    let mut piece = [0; 4096];
    loop {
        let read = bytes.read(&mut piece).map_err(|e| Error::new(crate::Kind::Internal, "a buffer can't be read").caused_by(e))?;
        if read == 0 {
            return Ok(());
        }
        stream.feed(&piece[..read]);
        let seen = stream.progress();
        output.value(&json!({"progress": {"bytes": seen.bytes, "events": seen.events, "output_tokens": seen.output_tokens,
            "granted": seen.granted, "nearly_used": seen.nearly_used, "failed": seen.failed}}))?;
    }
}

fn print(inspection: &Inspection, output: &mut Output) -> Result<()> {
    let turn = &inspection.turn;
    let paint = output.paint();
    let row = |name: &str, value: String| format!("{:<9} {value}", paint.dim(name));
    if let Some(choice) = turn.choices.get(inspection.judgement.choice) {
        let raw = choice.finish.raw.as_deref().unwrap_or("none given");
        let flag = if choice.finish.known { "" } else { ", not a known reason" };
        output
            .line(&row("finish", format!("{} ({raw}{flag}): {}", choice.finish.reason.as_str(), inspection.judgement.action.as_str())))?;
        if !choice.text.is_empty() {
            output.line(&row("text", format!("{} characters", choice.text.chars().count())))?;
        }
        if !choice.reasoning.is_empty() {
            output.line(&row("reasoning", format!("{} characters", choice.reasoning.chars().count())))?;
        }
    }
    if let Some(usage) = &turn.usage {
        let tokens = |tokens: Option<u64>| tokens.map_or_else(|| "?".to_owned(), super::loadline::grouped);
        output.line(&row("billed", format!("{} in, {} out", tokens(usage.input), tokens(usage.output))))?;
    }
    if let Some((counted, by)) = &inspection.counted_output {
        output.line(&row("counted", format!("{} out, by {by}", super::loadline::grouped(*counted))))?;
    }
    for call in &inspection.judgement.calls {
        let verdict = call.verdict.as_str();
        let shown = if call.verdict == Verdict::Refuse { paint.bad(verdict) } else { verdict.to_owned() };
        let id = call.call.id.as_deref().unwrap_or("no id");
        output.line(&row("call", format!("{shown} {} ({id}): {}", call.call.name, call.detail)))?;
    }
    for fault in &turn.faults {
        output.line(&row(if fault.fatal { "fault" } else { "note" }, fault.to_error().to_string()))?;
    }
    Ok(())
}

/// The clock of this process, for audit records.
#[expect(clippy::disallowed_methods, reason = "an edge: time is passed in from here")]
fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
