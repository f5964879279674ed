//! `plimsoll compact`: plan, apply, undo; one request or JSON Lines of them.

use super::args::{BodyArgs, ModelArgs};
use super::output::{Output, Status};
use super::page::StoreArgs;
use super::{input, loadline};
use crate::budget::{BudgetPolicy, decide};
use crate::compact::{self, Decision, Plan, PlannedEdit, Policy, plan};
use crate::count::{CountOptions, Counter};
use crate::error::{Error, Kind, Result};
use crate::format::{Format, Request, slice};
use crate::limits;
use crate::pages::Pages;
use clap::Args;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

/// Arguments of `compact`.
#[derive(Args, Debug)]
#[command(after_help = "Exit codes: 0 it fits now (or already did), 1 it can't be made to fit, 2 bad input.")]
pub(super) struct CompactArgs {
    #[command(flatten)]
    body: BodyArgs,
    #[command(flatten)]
    model: ModelArgs,
    /// Bring the request to at most this many tokens; without it the policy's marks decide.
    #[arg(short, long, value_name = "TOKENS")]
    target: Option<u64>,
    /// Policy (TOML or JSON); without it a sound default for the model.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Print the plan and do nothing: what, why, tokens before and after, and what the broken cache costs.
    #[arg(long)]
    plan: bool,
    /// Summaries for the plan's tasks: a JSON array of texts (null keeps the built-in one).
    #[arg(long, value_name = "FILE")]
    summaries: Option<PathBuf>,
    /// Mend an invalid history first.
    #[arg(long)]
    repair: bool,
    /// Read JSON Lines `{"id","format","model","target","request"}` and answer each with one line.
    #[arg(long)]
    batch: bool,
    /// Print the request as it was before the compaction with this id.
    #[arg(long, value_name = "ID", conflicts_with_all = ["batch", "plan", "target"])]
    undo: Option<String>,
    #[command(flatten)]
    store: StoreArgs,
}

pub(super) fn run(args: &CompactArgs, output: &mut Output) -> Result<Status> {
    if let Some(id) = &args.undo {
        let request = compact::undo(&args.store.open()?, id)?;
        if output.json() {
            output.line(&format!("{{\"request\":{},\"undone\":{}}}", request.text().trim(), crate::format::quote(id)))?;
        } else {
            output.bytes(request.text().as_bytes())?;
        }
        return Ok(Status::Done);
    }
    let counter = args.model.counter()?;
    let policy = args.policy.as_deref().map(policy).transpose()?;
    if args.batch {
        return batch(args, &counter, policy.as_ref(), output);
    }
    let mut request = input::body(&args.body.file, args.body.format.0)?.request;
    if args.repair {
        request = crate::check::repair(&request, args.model.model.as_deref())?.request;
    }
    let options = args.model.options(&counter, &request.conversation()?)?;
    let policy = policy_for(policy.as_ref(), args.target, &counter, &request, &options)?;
    // A dry run needs no store; the references are the same.
    let pages = if args.plan { Pages::in_memory() } else { args.store.open()? };
    match decided(args, &request, &counter, &options, &policy, &pages)? {
        Decision::Stuck(stuck) => {
            if output.json() {
                output.value(&json!({"error": stuck.to_json()}))?;
                return Ok(Status::DoesNotFit);
            }
            Err(stuck.to_error())
        }
        Decision::Nothing { before } => {
            if output.json() {
                output.line(&untouched(&request, before))?;
            } else if args.plan {
                output.line(&format!("nothing to do: {before} tokens fit"))?;
            } else {
                output.bytes(request.text().as_bytes())?;
            }
            Ok(Status::Done)
        }
        Decision::Plan(plan) if args.plan => {
            show(&request, &plan, &counter, &options, output)?;
            Ok(Status::Done)
        }
        Decision::Plan(plan) => {
            let outcome = plan.apply(&request, &pages)?;
            if output.json() {
                output.line(&outcome.to_json_text())?;
            } else {
                output.bytes(outcome.request.text().as_bytes())?;
            }
            Ok(Status::Done)
        }
    }
}

/// The plan, with the host's summaries when there are any.
fn decided(
    args: &CompactArgs,
    request: &Request,
    counter: &Counter,
    options: &CountOptions,
    policy: &Policy,
    pages: &Pages,
) -> Result<Decision> {
    let decision = plan(request, counter, options, policy, pages)?;
    match (&args.summaries, decision) {
        (Some(file), Decision::Plan(plan)) => {
            let texts: Vec<Option<String>> = serde_json::from_slice(&input::bytes(file)?)
                .map_err(|e| Error::new(Kind::InvalidInput, "the summaries are not a JSON array of texts").caused_by(e))?;
            Ok(Decision::Plan(plan.with_summaries(&texts, counter, options, pages)?))
        }
        (_, decision) => Ok(decision),
    }
}

/// Reads a policy: JSON when it starts like JSON, TOML otherwise.
fn policy(path: &Path) -> Result<Policy> {
    let bytes = input::bytes(path)?;
    let wrong = |why: String| Error::new(Kind::InvalidInput, why).context(format!("reading the policy {}", input::shown(path)));
    let text = std::str::from_utf8(&bytes).map_err(|_| wrong("it is not UTF-8".to_owned()))?;
    if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(|e| wrong(e.to_string()))
    } else {
        toml::from_str(text).map_err(|e| wrong(e.message().to_owned()))
    }
}

/// The policy given, or a sound one for the model; a target takes the place of its marks.
fn policy_for(given: Option<&Policy>, target: Option<u64>, counter: &Counter, request: &Request, options: &CountOptions) -> Result<Policy> {
    Ok(match (given, target) {
        (Some(policy), Some(target)) => policy.clone().with_target(target),
        (Some(policy), None) => policy.clone(),
        (None, Some(target)) => Policy::for_room(target).with_target(target),
        (None, None) => {
            let profile = match &options.profile {
                Some(profile) => std::sync::Arc::clone(profile),
                None => counter.count(request, options)?.profile,
            };
            Policy::for_model(&profile)
        }
    })
}

fn untouched(request: &Request, before: u64) -> String {
    format!(
        "{{\"request\":{},\"before\":{before},\"after\":{before},\"edits\":[],\"undo\":null,\"cache_broken_from\":{before}}}",
        request.text().trim()
    )
}

/// Prints a plan: for a person with the load line before and after, for a script as JSON.
fn show(request: &Request, plan: &Plan, counter: &Counter, options: &CountOptions, output: &mut Output) -> Result<()> {
    if output.json() {
        let tasks: Vec<Value> =
            plan.tasks.iter().map(|t| json!({"index": t.index, "text": t.text, "bound": t.bound, "keep": t.keep})).collect();
        return output.value(&json!({
            "plan": plan.id, "before": plan.before, "after": plan.after, "target": plan.target,
            "edits": plan.edits.iter().map(PlannedEdit::to_json).collect::<Vec<_>>(),
            "cache_broken_from": plan.cache_broken_from, "break_even_turns": plan.break_even_turns, "tasks": tasks,
        }));
    }
    output.line(plan.to_string().trim_end())?;
    for (name, request) in [("before", request), ("after", plan.preview())] {
        let conversation = request.conversation()?;
        let count = counter.count(request, options)?;
        if let Ok(budget) = decide(&conversation, &count, &BudgetPolicy::default(), counter.models(), options.provider.as_ref()) {
            output.line(&format!("\n{name}"))?;
            output.line(&loadline::draw(&count, &budget, output.paint(), output.width()))?;
        }
    }
    Ok(())
}

/// JSON Lines in, JSON Lines out: each answered under its id, errors included.
fn batch(args: &CompactArgs, counter: &Counter, policy: Option<&Policy>, output: &mut Output) -> Result<Status> {
    let pages = args.store.open()?;
    let mut reader = BufReader::new(input::open(&args.body.file)?);
    let mut line = String::new();
    loop {
        line.clear();
        let read = reader
            .by_ref()
            .take(limits::MAX_BODY_BYTES as u64 + 1)
            .read_line(&mut line)
            .map_err(|e| Error::new(Kind::Unavailable, format!("{} can't be read", input::shown(&args.body.file))).caused_by(e))?;
        if read == 0 {
            return Ok(Status::Done);
        }
        if line.trim().is_empty() {
            continue;
        }
        let id = slice(&line, "/id").unwrap_or("null").to_owned();
        let answer = match one(&line, args, counter, policy, &pages) {
            Ok(answer) => answer,
            Err(error) => json!({"error": error.to_json()}).to_string(),
        };
        output.line(&format!("{{\"id\":{id},{}", answer.strip_prefix('{').unwrap_or(&answer)))?;
    }
}

/// Answers one line of a batch.
fn one(line: &str, args: &CompactArgs, counter: &Counter, policy: Option<&Policy>, pages: &Pages) -> Result<String> {
    let entry: Value = serde_json::from_str(line).map_err(|e| Error::new(Kind::InvalidInput, "the line is not valid JSON").caused_by(e))?;
    let raw = slice(line, "/request").map_err(|_| Error::invalid("", "`request` is missing; expected a request body"))?;
    let format = match (entry["format"].as_str(), args.body.format.0) {
        (Some(name), _) => Some(name.parse::<Format>().map_err(|e| e.at("/format"))?),
        (None, format) => format,
    };
    let request = match format {
        Some(format) => Request::parse(raw.as_bytes(), format)?,
        None => Request::detect(raw.as_bytes())?.0,
    };
    let options = args.model.options_for(counter, &request.conversation()?, entry["model"].as_str(), args.model.provider()?)?;
    let policy = policy_for(policy, entry["target"].as_u64().or(args.target), counter, &request, &options)?;
    match plan(&request, counter, &options, &policy, pages)? {
        Decision::Nothing { before } => Ok(untouched(&request, before)),
        Decision::Plan(plan) => Ok(plan.apply(&request, pages)?.to_json_text()),
        Decision::Stuck(stuck) => Ok(json!({"error": stuck.to_json()}).to_string()),
    }
}
