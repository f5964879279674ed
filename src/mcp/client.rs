//! A live MCP server asked for its tools: initialize, every page of `tools/list`, good-bye.
//!
//! Behind the feature `mcp`, called by the command line. The only code of the crate that starts a process or opens a connection for
//! MCP, and only because a person named the server. One deadline covers it all; pages are capped.

use super::tools::ServerTools;
use crate::error::{Error, Kind, Result};
use crate::limits;
use rmcp::model::PaginatedRequestParams;
use rmcp::service::RunningService;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{RoleClient, ServiceExt as _};
use serde_json::json;
use std::time::Duration;

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A program and its arguments, which speaks over its standard input and output. Quotes group, nothing is expanded.
    Stdio(String),
    /// A URL that speaks streamable HTTP.
    Url(String),
}

/// Asks a server for all its tools. Blocks until it has them, or the deadline passes.
///
/// # Errors
/// [`Kind::InvalidInput`] for a command that can't be read; [`Kind::Unavailable`] when the server can't be started or reached, answers
/// with an error, or not in time; [`Kind::LimitExceeded`] for more pages than [`limits::MAX_TOOL_PAGES`].
pub fn list_tools(server: &str, endpoint: &Endpoint, within: Duration) -> Result<ServerTools> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Error::new(Kind::Internal, "no async runtime could be made").caused_by(e))?;
    let asked = runtime.block_on(async { tokio::time::timeout(within, ask(server, endpoint)).await });
    // A server that hangs must not keep us from leaving.
    runtime.shutdown_timeout(Duration::from_secs(1));
    asked
        .unwrap_or_else(|_| Err(Error::new(Kind::Unavailable, format!("the server did not answer within {} seconds", within.as_secs()))))
        .map_err(|e| e.context(format!("asking the MCP server `{server}`")))
}

async fn ask(server: &str, endpoint: &Endpoint) -> Result<ServerTools> {
    match endpoint {
        Endpoint::Stdio(command) => {
            let mut words = words(command)?.into_iter();
            let program = words.next().ok_or_else(|| Error::new(Kind::InvalidInput, "the command is empty"))?;
            let mut process = tokio::process::Command::new(program);
            process.args(words);
            // The server's own log would mix with our output.
            let started = TokioChildProcess::builder(process).stderr(std::process::Stdio::null()).spawn();
            let (transport, _) = started.map_err(|e| unavailable("it can't be started", e))?;
            let client = ().serve(transport).await.map_err(|e| unavailable("it did not initialize", e))?;
            pages(server, client).await
        }
        Endpoint::Url(url) => {
            let transport = StreamableHttpClientTransport::from_uri(url.as_str());
            let client = ().serve(transport).await.map_err(|e| unavailable("it did not initialize", e))?;
            pages(server, client).await
        }
    }
}

async fn pages(server: &str, client: RunningService<RoleClient, ()>) -> Result<ServerTools> {
    let (mut found, mut cursor) = (Vec::new(), None);
    for page in 0.. {
        if page == limits::MAX_TOOL_PAGES {
            return Err(Error::new(Kind::LimitExceeded, format!("more than {} pages of tools", limits::MAX_TOOL_PAGES)));
        }
        let asked = PaginatedRequestParams::default().with_cursor(cursor.take());
        let listed = client.list_tools(Some(asked)).await.map_err(|e| unavailable("it did not list its tools", e))?;
        cursor = listed.next_cursor.clone().filter(|next| !next.is_empty());
        found.push(json!({"tools": listed.tools, "nextCursor": cursor}));
        if cursor.is_none() {
            break;
        }
    }
    // Whether it takes its leave well doesn't matter: the list is here.
    let _ = client.cancel().await;
    ServerTools::read(server, &found)
}

fn unavailable(what: &str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(Kind::Unavailable, what).caused_by(error)
}

/// A command's words: blanks part them, quotes of either kind group.
fn words(command: &str) -> Result<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in command.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            Some(_) | None => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(Error::new(Kind::InvalidInput, "a quote in the command is never closed"));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn commands_are_split_and_not_expanded() {
        assert_eq!(words("python 'my server.py' --x=\"a b\" $HOME").unwrap(), ["python", "my server.py", "--x=a b", "$HOME"]);
        assert_eq!(words("a ''").unwrap(), ["a", ""]);
        assert!(words("a 'b").is_err());
    }
}
