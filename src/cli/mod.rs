//! The command line: parses arguments, calls the library, prints. Decides nothing.
//!
//! One file a subcommand. Exit codes are a contract: 0 fits (or done), 1 does not fit, 2 bad input.
//! Results go to standard output, errors to standard error; with `--json` both go to standard output.

mod args;
mod batch;
mod budget;
mod check;
mod compact;
mod count;
mod endpoint;
mod eval;
mod input;
mod loadline;
mod models;
mod output;
mod page;
mod paint;
#[cfg(feature = "server")]
mod serve;
mod shell;
mod vocabularies;

mod classify;
mod mcp;
mod turn;

use clap::{CommandFactory as _, Parser, Subcommand};
use output::{Output, Status};
use std::process::ExitCode;

/// Token accounting and context management for language-model requests.
///
/// Counts a request as its provider will bill it, and says how much the model may still write.
#[derive(Parser, Debug)]
#[command(
    name = "plimsoll",
    version,
    max_term_width = 110,
    after_help = "Exit codes: 0 fits (or done), 1 does not fit, 2 bad input.\nColours follow NO_COLOR and the terminal; figures are tokens unless they say otherwise."
)]
struct Cli {
    /// Print JSON, errors included, for scripts.
    #[arg(long, global = true)]
    json: bool,
    /// When to colour.
    #[arg(long, global = true, value_enum, default_value_t = paint::When::Auto)]
    color: paint::When,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Count a request: total, parts, and the load line of its window.
    Count(count::CountArgs),
    /// Decide how much output to ask for, and which limit binds.
    Budget(budget::BudgetArgs),
    /// Compare counts with what a log's provider billed.
    Eval(eval::EvalArgs),
    /// Check a history by its provider's rules, and mend it.
    Check(check::CheckArgs),
    /// Compact a history to a target, or undo a compaction.
    Compact(compact::CompactArgs),
    /// Read and search what compaction cut.
    Page(page::PageArgs),
    /// List, show and import models.
    Models(models::ModelsArgs),
    /// Serve the gRPC API.
    #[cfg(feature = "server")]
    Serve(serve::ServeArgs),
    /// Print a completion script for a shell.
    Completions(shell::CompletionsArgs),
    /// Print the manual page (roff).
    Man,
    /// Judge a model's answer: finish reason, usage, and which of its calls may be run.
    Turn(turn::TurnArgs),
    /// Put a streamed answer (server-sent events) together and judge it.
    Stream(turn::TurnArgs),
    /// Weigh and map the tools of MCP servers.
    Mcp(mcp::McpArgs),
    /// Understand a provider's error: overflow, rate limit or something else, with its numbers.
    Classify(classify::ClassifyArgs),
}

/// Runs the command line of this process and returns its exit code.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { Status::BadInput.into() } else { Status::Done.into() };
        }
    };
    let mut output = Output::new(cli.json, cli.color);
    let result = match &cli.command {
        Command::Count(args) => count::run(args, &mut output),
        Command::Budget(args) => budget::run(args, &mut output),
        Command::Eval(args) => eval::run(args, &mut output),
        Command::Check(args) => check::run(args, &mut output),
        Command::Compact(args) => compact::run(args, &mut output),
        Command::Page(args) => page::run(args, &mut output),
        Command::Models(args) => models::run(args, &mut output),
        #[cfg(feature = "server")]
        Command::Serve(args) => serve::run(args, &mut output),
        Command::Completions(args) => shell::completions(args, &mut Cli::command(), &mut output),
        Command::Man => shell::man(Cli::command(), &mut output),
        Command::Turn(args) | Command::Stream(args) => turn::run(args, &mut output),
        Command::Mcp(args) => mcp::run(args, &mut output),
        Command::Classify(args) => classify::run(args, &mut output),
    };
    match result {
        Ok(status) => status.into(),
        Err(error) => output.fail(&error).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_consistent() {
        Cli::command().debug_assert();
    }
}
