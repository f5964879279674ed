//! `plimsoll budget`: how much output to ask for, which limit binds, and what to send.

use super::args::{BodyArgs, ModelArgs};
use super::output::{Output, Status};
use super::{count, input, loadline};
use crate::budget::{Budget, BudgetPolicy, Margin, Remedy, decide};
use crate::error::Result;
use clap::Args;
use serde_json::{Value, json};

/// Arguments of `budget`.
#[derive(Args, Debug)]
#[command(after_help = "Exit codes: 0 fits, 1 does not fit, 2 bad input.")]
pub(super) struct BudgetArgs {
    #[command(flatten)]
    body: BodyArgs,
    #[command(flatten)]
    model: ModelArgs,
    /// Output wanted, in tokens; without it what the body asks for, else all that the model gives.
    #[arg(short, long, value_name = "TOKENS")]
    request: Option<u64>,
    /// Tokens held back: `auto` (the count's own bound), tokens (`500`) or a share of the input (`2%`).
    #[arg(long, default_value = "auto", value_parser = clap::value_parser!(Margin))]
    margin: Margin,
    /// Least output beside reasoning that is of any use, in tokens.
    #[arg(long, default_value_t = 1, value_name = "TOKENS")]
    min_visible: u64,
    /// Nothing less than the requested output will do.
    #[arg(long)]
    whole: bool,
}

pub(super) fn run(args: &BudgetArgs, output: &mut Output) -> Result<Status> {
    let counter = args.model.counter()?;
    let body = input::body(&args.body.file, args.body.format.0)?;
    let conversation = body.request.conversation()?;
    let options = args.model.options(&counter, &conversation)?;
    let count = counter.count(&body.request, &options)?;
    let policy = BudgetPolicy { requested: args.request, margin: args.margin, min_visible: args.min_visible, require_whole: args.whole };
    let budget = decide(&conversation, &count, &policy, counter.models(), options.provider.as_ref())?;
    let status = if budget.fits { Status::Done } else { Status::DoesNotFit };
    if output.json() {
        let mut out = json!(budget);
        if let Value::Object(map) = &mut out {
            map.insert("model".into(), count.profile.id.as_str().into());
            map.insert("format".into(), body.request.format().as_str().into());
            map.insert("confidence".into(), count.breakdown.confidence().as_str().into());
            map.insert("bound".into(), count.breakdown.bound().into());
        }
        output.value(&out)?;
        return Ok(status);
    }
    output.line(&count::head(&count, body.request.format().as_str(), body.detection.map(|d| d.because), output.paint()))?;
    output.line("")?;
    output.line(&loadline::draw(&count, &budget, output.paint(), output.width()))?;
    output.line("")?;
    print(&budget, output)?;
    Ok(status)
}

/// The decision in words.
pub(super) fn print(budget: &Budget, output: &mut Output) -> Result<()> {
    let paint = output.paint();
    let number = loadline::grouped;
    match &budget.shortfall {
        None => {
            let reserve =
                if budget.reserve > 0 { format!(", of which reasoning may take {}", number(budget.reserve)) } else { String::new() };
            output.line(&format!(
                "{} up to {} output tokens (limit: {}){reserve}",
                paint.good("fits:"),
                paint.bold(&number(budget.granted)),
                budget.limit.as_str().replace('_', " ")
            ))?;
            output.line(&format!("send {} = {}", budget.field, budget.granted))?;
        }
        Some(short) => {
            output.line(&format!(
                "{} {} tokens short (limit: {}); at most {} output tokens could be granted",
                paint.bad("does not fit:"),
                paint.bold(&number(short.tokens)),
                short.limit.as_str().replace('_', " "),
                number(budget.granted)
            ))?;
            for remedy in &short.remedies {
                output.line(&format!("  - {}", in_words(remedy)))?;
            }
        }
    }
    for note in &budget.notes {
        output.line(&format!("note: {note}"))?;
    }
    Ok(())
}

fn in_words(remedy: &Remedy) -> String {
    let number = loadline::grouped;
    let list =
        |owners: &[(String, u64)]| owners.iter().map(|(name, tokens)| format!("{name} {}", number(*tokens))).collect::<Vec<_>>().join(", ");
    match remedy {
        Remedy::LowerRequest { to } => format!("ask for no more than {}", number(*to)),
        Remedy::LowerThinking { by } => format!("lower the thinking budget by at least {}", number(*by)),
        Remedy::ShrinkResults { results, available } => format!("shrink tool results ({} in all): {}", number(*available), list(results)),
        Remedy::DropTools { tools, available } => format!("leave out tools ({} in all): {}", number(*available), list(tools)),
        Remedy::Compact { available } => format!("compact the history ({} before the newest user message)", number(*available)),
        Remedy::LargerModel { models } => format!("use a larger model: {}", models.join(", ")),
    }
}
