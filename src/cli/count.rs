//! `plimsoll count`: what a request weighs, and the load line of its window.

use super::args::{BodyArgs, ModelArgs};
use super::output::{Output, Status};
use super::{batch, budget, input, loadline};
use crate::budget::{BudgetPolicy, decide};
use crate::count::{Confidence, Count, RenderedPrompt};
use crate::error::Result;
use clap::Args;
use serde_json::{Value, json};

/// Arguments of `count`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0 the request fits with room for an answer, 1 it does not fit, 2 bad input.\nWith --batch: 0 when every line was answered (an error is an answer), 2 when the input can't be read."
)]
pub(super) struct CountArgs {
    #[command(flatten)]
    body: BodyArgs,
    #[command(flatten)]
    model: ModelArgs,
    /// Read JSON Lines `{"id","format","model","provider"?,"request"}` and answer each with one line.
    #[arg(long)]
    batch: bool,
    /// Print the prompt as the model gets it, with the borders of its parts (open-weight models: their prompts are public).
    #[arg(long, conflicts_with = "batch")]
    show_prompt: bool,
    /// List every part, not the ten heaviest.
    #[arg(long)]
    all: bool,
}

/// How many parts a person is shown.
const HEAVIEST: usize = 10;

pub(super) fn run(args: &CountArgs, output: &mut Output) -> Result<Status> {
    if args.batch {
        return batch::run(&args.body, &args.model, output);
    }
    let counter = args.model.counter()?;
    let body = input::body(&args.body.file, args.body.format.0)?;
    let conversation = body.request.conversation()?;
    let options = args.model.options(&counter, &conversation)?;
    let prompt = args.show_prompt.then(|| counter.prompt(&body.request, &options)).transpose()?;
    let count = counter.count(&body.request, &options)?;
    // A tool list alone has no output to budget.
    let decided = if body.request.format() == crate::format::Format::Mcp {
        None
    } else {
        decide(&conversation, &count, &BudgetPolicy::default(), counter.models(), options.provider.as_ref()).ok()
    };
    let status = if decided.as_ref().is_none_or(|b| b.fits) { Status::Done } else { Status::DoesNotFit };
    if output.json() {
        let mut out = count.to_json();
        if let Value::Object(map) = &mut out {
            map.insert("format".into(), body.request.format().as_str().into());
            if let Some(told) = body.detection {
                map.insert("detected".into(), told.because.into());
            }
            if let Some(provider) = &options.provider {
                map.insert("provider".into(), provider.as_str().into());
            }
            if let Some(prompt) = &prompt {
                map.insert("prompt".into(), prompt_json(prompt));
            }
            map.insert("budget".into(), decided.map_or(Value::Null, |b| json!(b)));
        }
        output.value(&out)?;
        return Ok(status);
    }
    let paint = output.paint();
    output.line(&head(&count, body.request.format().as_str(), body.detection.map(|d| d.because), paint))?;
    if let Some(prompt) = &prompt {
        output.line("")?;
        show(prompt, output)?;
    }
    if let Some(decided) = &decided {
        output.line("")?;
        output.line(&loadline::draw(&count, decided, paint, output.width()))?;
    }
    output.line("")?;
    parts(&count, if args.all { usize::MAX } else { HEAVIEST }, output)?;
    if let Some(decided) = &decided {
        output.line("")?;
        budget::print(decided, output)?;
    }
    Ok(status)
}

/// A prompt and its pieces; `part` is the index in `parts`, absent for framing.
fn prompt_json(prompt: &RenderedPrompt) -> Value {
    let pieces: Vec<Value> = (prompt.pieces.iter())
        .map(|piece| match piece.part {
            Some(part) => json!({"start": piece.range.start, "end": piece.range.end, "part": part}),
            None => json!({"start": piece.range.start, "end": piece.range.end}),
        })
        .collect();
    json!({"text": prompt.text, "pieces": pieces})
}

/// The prompt, each part's text under a line that names it. The border lines are not part of the prompt.
fn show(prompt: &RenderedPrompt, output: &mut Output) -> Result<()> {
    let paint = output.paint();
    for piece in &prompt.pieces {
        let label = match piece.part.and_then(|part| prompt.breakdown.parts().get(part)) {
            Some(part) => {
                let name = part.name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
                let tokens = loadline::grouped(part.tokens);
                format!("{}{name} · {} · {tokens} tokens", part.kind.as_str().replace('_', " "), part.place)
            }
            None => "framing".to_owned(),
        };
        output.line(&paint.dim(&format!("──── {label}")))?;
        // Characters that would act on a terminal are shown, not sent.
        let text: String = (prompt.text.get(piece.range.clone()).unwrap_or_default().chars())
            .map(|c| if c.is_control() && !matches!(c, '\n' | '\t') { '\u{fffd}' } else { c })
            .collect();
        output.line(&text)?;
    }
    output.line(&paint.dim("────"))
}

/// The first lines: what was counted, by which rules, and how sure the total is.
pub(super) fn head(count: &Count, format: &str, because: Option<&str>, paint: super::paint::Paint) -> String {
    let profile = &count.profile;
    let told = because.map(|b| format!(" (told by: {b})")).unwrap_or_default();
    let total = paint.bold(&loadline::grouped(count.breakdown.total()));
    let notes: String = count.breakdown.notes().iter().map(|note| format!("\n{note}")).collect();
    format!(
        "{total} prompt tokens, {}\n{}{notes}",
        sure(count),
        paint.dim(&format!("{} · {format}{told} · {} · {}", profile.id, profile.renderer, profile.tokenizer))
    )
}

/// How sure a total is, in words.
pub(super) fn sure(count: &Count) -> String {
    let breakdown = &count.breakdown;
    match (breakdown.confidence(), breakdown.bound()) {
        (Confidence::Exact, _) => "exact".to_owned(),
        (level, Some(bound)) => format!("{} ±{}", level.as_str(), loadline::grouped(bound)),
        (level, None) => format!("{}: at least part of it can't be known from the request", level.as_str()),
    }
}

/// The heaviest parts, heaviest first.
fn parts(count: &Count, most: usize, output: &mut Output) -> Result<()> {
    let mut parts: Vec<_> = count.breakdown.parts().iter().filter(|p| p.tokens > 0).collect();
    let all = parts.len();
    parts.sort_by_key(|part| std::cmp::Reverse(part.tokens));
    parts.truncate(most);
    let total = count.breakdown.total().max(1);
    for part in &parts {
        let share = u128::from(part.tokens) * 1000 / u128::from(total);
        let owner = part.name.as_deref().map(|n| format!(" {n}")).unwrap_or_default();
        let place = if part.place.is_empty() { String::new() } else { format!("  {}", output.paint().dim(&part.place)) };
        let bound = match (part.confidence, part.bound) {
            (Confidence::Exact, _) => String::new(),
            (_, Some(bound)) => format!(" ±{}", loadline::grouped(bound)),
            (_, None) => " or more".to_owned(),
        };
        output.line(&format!(
            "{:>10}  {:>3}.{}%  {}{owner}{bound}{place}",
            loadline::grouped(part.tokens),
            share / 10,
            share % 10,
            part.kind.as_str().replace('_', " ")
        ))?;
    }
    if all > parts.len() {
        let rest = all - parts.len();
        let parts = if rest == 1 { "lighter part (--all lists it)" } else { "lighter parts (--all lists them)" };
        output.line(&output.paint().dim(&format!("{:>10}  {rest} {parts}", "")))?;
    }
    Ok(())
}
