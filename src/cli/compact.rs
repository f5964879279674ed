//! `plimsoll compact`: plan, apply, undo; one request or JSON Lines of them.

use super::args::{BodyArgs, ModelArgs};
use super::batch::{lines, parse};
use super::endpoint::EndpointArgs;
use super::output::{Output, Status};
use super::page::StoreArgs;
use super::{input, loadline};
use crate::budget::{BudgetPolicy, decide};
use crate::compact::{self, Decision, Plan, PlannedEdit, Policy, Summarizer, SummarizerKind, plan};
use crate::count::{CountOptions, Counter};
use crate::error::{Error, Kind, Result};
use crate::format::{Format, Request, slice};
use crate::pages::Pages;
use clap::Args;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    #[arg(long, value_name = "FILE", conflicts_with = "batch")]
    summaries: Option<PathBuf>,
    /// Mend an invalid history first.
    #[arg(long)]
    repair: bool,
    /// Read JSON Lines `{"id","format","model","target","request"}` and answer each with one line.
    #[arg(long, conflicts_with = "plan")]
    batch: bool,
    /// Print the request as it was before the compaction with this id.
    #[arg(long, value_name = "ID", conflicts_with_all = ["batch", "plan", "target"])]
    undo: Option<String>,
    /// Who writes summaries, instead of the policy's: extractive (built in), endpoint or host.
    #[arg(long, value_parser = summarizer, value_name = "WHO")]
    summarizer: Option<SummarizerKind>,
    #[command(flatten)]
    endpoint: EndpointArgs,
    #[command(flatten)]
    store: StoreArgs,
}

fn summarizer(name: &str) -> std::result::Result<SummarizerKind, String> {
    match name {
        "extractive" => Ok(SummarizerKind::Extractive),
        "endpoint" => Ok(SummarizerKind::Endpoint),
        "host" => Ok(SummarizerKind::Host),
        _ => Err("expected extractive, endpoint or host".to_owned()),
    }
}

/// What all requests of one run share.
struct Job<'a> {
    args: &'a CompactArgs,
    counter: Counter,
    policy: Option<Policy>,
    writer: Option<Arc<dyn Summarizer + Send + Sync>>,
}

impl Job<'_> {
    /// The policy for one request; whoever is to write its summaries must be there.
    fn policy(&self, target: Option<u64>, request: &Request, options: &CountOptions) -> Result<Policy> {
        let mut policy = Policy::choose(self.policy.as_ref(), target, || self.counter.profile_for(&request.conversation()?, options))?;
        policy.summarizer = self.args.summarizer.unwrap_or(policy.summarizer);
        if policy.summarizer == SummarizerKind::Endpoint && self.writer.is_none() && !self.args.plan {
            return Err(Error::new(
                Kind::InvalidInput,
                "the endpoint is to write summaries; name it with --endpoint-url and --endpoint-model",
            ));
        }
        Ok(policy)
    }

    /// What is decided, with the host's or the endpoint's summaries. A dry run asks no endpoint.
    fn decide(&self, request: &Request, options: &CountOptions, policy: &Policy, pages: &Pages, output: &mut Output) -> Result<Decision> {
        let plan = match plan(request, &self.counter, options, policy, pages)? {
            Decision::Plan(plan) => plan,
            other => return Ok(other),
        };
        let asks = policy.summarizer == SummarizerKind::Endpoint && !self.args.plan;
        Ok(Decision::Plan(match (&self.args.summaries, &self.writer) {
            (Some(file), _) => {
                let texts: Vec<Option<String>> = serde_json::from_slice(&input::bytes(file)?)
                    .map_err(|e| Error::new(Kind::InvalidInput, "the summaries are not a JSON array of texts").caused_by(e))?;
                plan.with_summaries(&texts, &self.counter, options, pages)?
            }
            (None, Some(writer)) if asks => {
                let ask = |task| match writer.summarize(task) {
                    Ok(text) => Some(text),
                    Err(error) => {
                        output.note(&format!("{error}; the built-in summary stands"));
                        None
                    }
                };
                let texts: Vec<Option<String>> = plan.tasks.iter().map(ask).collect();
                plan.with_summaries(&texts, &self.counter, options, pages)?
            }
            _ => plan,
        }))
    }

    /// The request, mended first if that was asked for.
    fn mended(&self, request: &Request, model: Option<&str>) -> Result<Request> {
        if !self.args.repair {
            return Ok(request.clone());
        }
        Ok(crate::check::repair(request, model.or(self.args.model.model.as_deref()))?.request)
    }
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
    let job = Job {
        args,
        counter: args.model.counter()?,
        policy: args.policy.as_deref().map(policy).transpose()?,
        writer: args.endpoint.summarizer()?,
    };
    if args.batch {
        return batch(&job, output);
    }
    let original = input::body(&args.body.file, args.body.format.0)?.request;
    let request = job.mended(&original, None)?;
    let options = args.model.options(&job.counter, &request.conversation()?)?;
    let policy = job.policy(args.target, &request, &options)?;
    // A dry run needs no store; the references are the same.
    let pages = if args.plan { Pages::in_memory() } else { args.store.open()? };
    match job.decide(&request, &options, &policy, &pages, output)? {
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
            show(&request, &plan, &job.counter, &options, output)?;
            Ok(Status::Done)
        }
        Decision::Plan(plan) => {
            let outcome = plan.apply(&original, &pages)?;
            if output.json() {
                output.line(&outcome.to_json_text())?;
            } else {
                output.bytes(outcome.request.text().as_bytes())?;
            }
            Ok(Status::Done)
        }
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
fn batch(job: &Job<'_>, output: &mut Output) -> Result<Status> {
    let pages = job.args.store.open()?;
    lines(&job.args.body.file, |line| {
        let id =
            std::str::from_utf8(line).ok().and_then(|line| slice(line, "/id").ok()).filter(|id| serde_json::from_str::<Value>(id).is_ok());
        let id = id.unwrap_or("null");
        let answer = one(line, job, &pages, output).unwrap_or_else(|error| json!({"error": error.to_json()}).to_string());
        output.line(&format!("{{\"id\":{id},{}", answer.strip_prefix('{').unwrap_or(&answer)))
    })?;
    Ok(Status::Done)
}

/// Answers one line of a batch.
fn one(line: &[u8], job: &Job<'_>, pages: &Pages, output: &mut Output) -> Result<String> {
    let args = job.args;
    let entry = parse(line)?;
    let line = std::str::from_utf8(line).map_err(|_| Error::new(Kind::InvalidInput, "the line is not UTF-8"))?;
    let raw = slice(line, "/request").map_err(|_| Error::invalid("", "`request` is missing; expected a request body"))?;
    let text = |key: &str| match entry.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(Error::invalid(format!("/{key}"), "expected a string")),
    };
    let format = match (text("format")?, args.body.format.0) {
        (Some("auto"), _) => None,
        (Some(name), _) => Some(name.parse::<Format>().map_err(|e| e.at("/format"))?),
        (None, format) => format,
    };
    let original = match format {
        Some(format) => Request::parse(raw.as_bytes(), format)?,
        None => Request::detect(raw.as_bytes())?.0,
    };
    let target = match entry.get("target") {
        None | Some(Value::Null) => args.target,
        Some(value) => Some(value.as_u64().ok_or_else(|| Error::invalid("/target", "expected a whole number of tokens"))?),
    };
    let model = text("model")?;
    let request = job.mended(&original, model)?;
    let options = args.model.options_for(&job.counter, &request.conversation()?, model, args.model.provider()?)?;
    let policy = job.policy(target, &request, &options)?;
    match job.decide(&request, &options, &policy, pages, output)? {
        Decision::Nothing { before } => Ok(untouched(&request, before)),
        Decision::Plan(plan) => Ok(plan.apply(&original, pages)?.to_json_text()),
        Decision::Stuck(stuck) => Ok(json!({"error": stuck.to_json()}).to_string()),
    }
}
