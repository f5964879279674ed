//! `plimsoll mcp tools`: what the tools of MCP servers become for a provider, what they weigh, and which to leave out.
//!
//! Reads saved `tools/list` results; with the feature `mcp` it also asks live servers.

use super::args::TableArgs;
use super::input;
use super::output::{Output, Status};
use crate::count::{CountOptions, Counter};
use crate::error::{Error, Kind, Result};
use crate::format::Format;
use crate::mcp::{Mapping, ServerTools, ToolCosts};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Arguments of `mcp`.
#[derive(Args, Debug)]
pub(super) struct McpArgs {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Map the tools of one or more servers to a provider's tools, and weigh them.
    Tools(ToolsArgs),
}

#[derive(Args, Debug)]
struct ToolsArgs {
    /// Saved tools/list results, one file a server (the file's name is the server's, unless given as NAME=FILE).
    #[arg(value_name = "[NAME=]LIST.json")]
    lists: Vec<String>,
    /// Ask a live server that is started by this command and speaks over its standard input and output; [NAME=]CMD.
    #[cfg(feature = "mcp")]
    #[arg(long, value_name = "[NAME=]CMD")]
    stdio: Vec<String>,
    /// Ask a live server at this URL (streamable HTTP); [NAME=]URL.
    #[cfg(feature = "mcp")]
    #[arg(long, value_name = "[NAME=]URL")]
    url: Vec<String>,
    /// How long to wait for each live server, in seconds.
    #[cfg(feature = "mcp")]
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    timeout: u64,
    /// Wire format of the provider: chat, responses, anthropic, gemini, converse (or mcp, which weighs nothing).
    #[arg(short, long)]
    format: Format,
    /// The model whose bill is asked for; without it a common one of the format.
    #[arg(short, long)]
    model: Option<String>,
    /// Suggest which tools to leave out so that the rest weighs at most this many tokens.
    #[arg(long, value_name = "TOKENS")]
    budget: Option<u64>,
    #[command(flatten)]
    table: TableArgs,
}

pub(super) fn run(args: &McpArgs, output: &mut Output) -> Result<Status> {
    match &args.command {
        Action::Tools(args) => tools(args, output),
    }
}

fn tools(args: &ToolsArgs, output: &mut Output) -> Result<Status> {
    #[cfg_attr(not(feature = "mcp"), expect(unused_mut, reason = "live servers add to it"))]
    let mut servers = args.lists.iter().map(|list| saved(list)).collect::<Result<Vec<_>>>()?;
    #[cfg(feature = "mcp")]
    live(args, &mut servers)?;
    if servers.is_empty() {
        return Err(Error::new(Kind::InvalidInput, "no tool list was given; expected files or live servers"));
    }
    let mapping = Mapping::new(&servers, args.format)?;
    let costs = match args.format {
        Format::Mcp => None,
        format => {
            let counter = Counter::with_models(args.table.load()?);
            let model = args.model.clone().unwrap_or_else(|| common(format).to_owned());
            Some((mapping.costs(&counter, &CountOptions { model: Some(model.clone()), ..CountOptions::default() })?, model))
        }
    };
    let mut report = json!({
        "tools": mapping.definitions(),
        "map": mapping.map_json(),
        "cost": costs.as_ref().map_or_else(|| json!([]), |(costs, _)| costs.to_json()),
        "dropped": mapping.dropped_json(),
        "incomplete": servers.iter().filter(|server| server.incomplete).map(|server| server.server.as_str()).collect::<Vec<_>>(),
    });
    let mut status = Status::Done;
    if let (Some((costs, model)), Some(map)) = (&costs, report.as_object_mut()) {
        map.insert("servers".to_owned(), costs.servers_json());
        map.insert("overhead".to_owned(), json!(costs.overhead));
        map.insert("total".to_owned(), json!(costs.total));
        map.insert("model".to_owned(), json!(model));
        map.insert("confidence".to_owned(), json!(costs.confidence.as_str()));
        if let Some(budget) = args.budget {
            let leave = costs.leave_out(budget, &[]);
            status = if leave.fits { Status::Done } else { Status::DoesNotFit };
            map.insert("leave_out".to_owned(), json!({"names": leave.names, "tokens": leave.tokens, "fits": leave.fits}));
        }
    }
    if output.json() {
        output.value(&report)?;
    } else {
        print(&mapping, costs.as_ref().map(|(costs, _)| costs), &report, output)?;
    }
    Ok(status)
}

fn print(mapping: &Mapping, costs: Option<&ToolCosts>, report: &Value, output: &mut Output) -> Result<()> {
    for tool in mapping.tools() {
        let tokens = costs.and_then(|costs| costs.tools.iter().find(|cost| cost.name == tool.name)).map_or(0, |cost| cost.tokens);
        output.line(&format!("{tokens:>7}  {}", tool.name))?;
    }
    for lost in report["dropped"].as_array().into_iter().flatten() {
        let word = |key: &str| lost[key].as_str().unwrap_or_default().to_owned();
        output.line(&format!("{} {}{}: {}", output.paint().dim("dropped"), word("tool"), word("place"), word("what")))?;
    }
    if let Some(costs) = costs {
        for server in &costs.servers {
            output.line(&format!("{:>7}  {} ({} tools)", server.tokens, server.server, server.tools))?;
        }
        output.line(&format!(
            "{:>7}  in all, {} of it for having tools at all ({})",
            costs.total,
            costs.overhead,
            costs.confidence.as_str()
        ))?;
    }
    if let Some(names) = report["leave_out"]["names"].as_array() {
        let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
        let said = if names.is_empty() { "nothing; all fit".to_owned() } else { names.join(", ") };
        output.line(&format!("{} {said}", output.paint().dim("leave out")))?;
    }
    Ok(())
}

/// A saved list: one result, a JSON-RPC reply, an array of tools, or an array of pages.
fn saved(argument: &str) -> Result<ServerTools> {
    let (name, path) = named(argument, Path::new(argument).exists());
    let path = PathBuf::from(path);
    let bytes = input::bytes(&path)?;
    let doing = |e: Error| e.context(format!("reading {}", input::shown(&path)));
    let value = serde_json::from_slice::<Value>(&bytes);
    let value = value.map_err(|e| doing(Error::new(Kind::InvalidInput, format!("not valid JSON: {e}"))))?;
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let server = name.map_or(stem, str::to_owned);
    let is_page = |page: &Value| page.get("tools").is_some() || page.get("result").is_some();
    match value.as_array() {
        Some(pages) if !pages.is_empty() && pages.iter().all(is_page) => ServerTools::read(server, pages),
        _ => ServerTools::read(server, std::slice::from_ref(&value)),
    }
    .map_err(doing)
}

/// `NAME=REST`, unless the whole is meant.
fn named(argument: &str, whole: bool) -> (Option<&str>, &str) {
    match argument.split_once('=') {
        Some((name, rest)) if !whole && !name.is_empty() && !name.contains(['/', ' ', ':', '.']) => (Some(name), rest),
        _ => (None, argument),
    }
}

/// A common model of each format, for a bill when none is named.
const fn common(format: Format) -> &'static str {
    match format {
        Format::Chat | Format::Responses | Format::Mcp => "gpt-4o",
        Format::Anthropic => "claude-sonnet-4-5",
        Format::Gemini => "gemini-2.5-flash",
        Format::Converse => "amazon.nova-lite-v1:0",
    }
}

#[cfg(feature = "mcp")]
fn live(args: &ToolsArgs, servers: &mut Vec<ServerTools>) -> Result<()> {
    use crate::mcp::{Endpoint, list_tools};
    let stdio = args.stdio.iter().map(|argument| {
        let (name, command) = named(argument, false);
        (name.unwrap_or("server"), Endpoint::Stdio(command.to_owned()))
    });
    let url = args.url.iter().map(|argument| {
        let (name, url) = named(argument, argument.starts_with("http"));
        (name.unwrap_or("server"), Endpoint::Url(url.to_owned()))
    });
    for (name, endpoint) in stdio.chain(url) {
        servers.push(list_tools(name, &endpoint, std::time::Duration::from_secs(args.timeout))?);
    }
    Ok(())
}
