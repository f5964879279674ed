//! `plimsoll check`: findings in a history, and the mended history on request.

use super::args::BodyArgs;
use super::input;
use super::output::{Output, Status};
use crate::check::{Finding, Severity, check, repair};
use crate::error::Result;
use clap::Args;
use serde_json::{Value, json};

/// Arguments of `check`.
#[derive(Args, Debug)]
#[command(after_help = "Exit codes: 0 the provider takes it (warnings or none), 1 it has errors, 2 bad input.")]
pub(super) struct CheckArgs {
    #[command(flatten)]
    body: BodyArgs,
    /// Model, for rules that differ by model; without it the one that the body names.
    #[arg(short, long)]
    model: Option<String>,
    /// Mend what can be mended without inventing content, and print the request.
    #[arg(long)]
    repair: bool,
}

fn list(findings: &[Finding]) -> Value {
    findings.iter().map(Finding::to_json).collect::<Vec<_>>().into()
}

pub(super) fn run(args: &CheckArgs, output: &mut Output) -> Result<Status> {
    let body = input::body(&args.body.file, args.body.format.0)?;
    let model = args.model.as_deref();
    let (findings, mended) = if args.repair {
        let repaired = repair(&body.request, model)?;
        (repaired.left, Some((repaired.request, repaired.mended)))
    } else {
        (check(&body.request, model), None)
    };
    let valid = findings.iter().all(|f| f.severity != Severity::Error);
    let status = if valid { Status::Done } else { Status::DoesNotFit };
    match (output.json(), mended) {
        (true, None) => output.value(&json!({"valid": valid, "findings": list(&findings)}))?,
        (true, Some((request, mended))) => output.line(&format!(
            "{{\"valid\":{valid},\"findings\":{},\"mended\":{},\"request\":{}}}",
            list(&findings),
            list(&mended),
            request.text().trim()
        ))?,
        (false, Some((request, _))) => output.line(request.text().trim_end())?,
        (false, None) => {
            for finding in &findings {
                let label = finding.severity.as_str();
                let label = if finding.severity == Severity::Error { output.paint().bad(label) } else { label.to_owned() };
                let fix = finding.fix.as_ref().map_or_else(String::new, |fix| format!(" (repair: {})", fix.what));
                output.line(&format!("{label}: {} at {}: {}{fix}", finding.rule, finding.path, finding.message))?;
            }
            output.line(if valid { "valid" } else { "not valid" })?;
        }
    }
    Ok(status)
}
