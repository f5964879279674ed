//! A real FastMCP server asked for its tools over both transports. Skips, with the reason, where Python or FastMCP is absent.
//!
//! `PLIMSOLL_PYTHON` names an interpreter that has `fastmcp`; without it `python3` is tried.
#![cfg(feature = "mcp")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test binary")]

use plimsoll::Format;
use plimsoll::mcp::{Endpoint, Mapping, list_tools};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SERVER: &str = r#"
import sys
from fastmcp import FastMCP

mcp = FastMCP("harbour")

@mcp.tool(annotations={"readOnlyHint": True})
def depth(berth: str, tide: float | None = None) -> float:
    """Depth at a berth, in metres."""
    return 9.5

@mcp.tool
def moor(ship: str, berth: str, lines: list[str] = []) -> str:
    """Moor a ship."""
    return "moored"

if len(sys.argv) > 1:
    mcp.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)
else:
    mcp.run(show_banner=False)
"#;

struct Server {
    python: String,
    folder: tempfile::TempDir,
}

impl Server {
    fn new() -> Option<Self> {
        let python = std::env::var("PLIMSOLL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let has = Command::new(&python).args(["-c", "import fastmcp"]).stderr(Stdio::null()).status();
        if !has.is_ok_and(|status| status.success()) {
            println!("skipped: `{python}` has no fastmcp (pip install fastmcp, or set PLIMSOLL_PYTHON)");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("server.py"), SERVER).unwrap();
        Some(Self { python, folder })
    }

    fn script(&self) -> String {
        self.folder.path().join("server.py").display().to_string()
    }
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn check(tools: &plimsoll::mcp::ServerTools) {
    assert!(!tools.incomplete);
    for format in [Format::Chat, Format::Gemini, Format::Anthropic] {
        let mapping = Mapping::new(std::slice::from_ref(tools), format).unwrap();
        assert_eq!(mapping.resolve("harbour__depth"), Some(("harbour", "depth")));
        assert_eq!(mapping.resolve("harbour__moor"), Some(("harbour", "moor")));
        assert!(mapping.get("harbour__depth").unwrap().read_only);
        assert!(!mapping.get("harbour__moor").unwrap().read_only);
    }
}

#[test]
fn over_stdio() {
    let Some(server) = Server::new() else { return };
    let command = format!("'{}' '{}'", server.python, server.script());
    check(&list_tools("harbour", &Endpoint::Stdio(command), Duration::from_secs(120)).unwrap());
}

#[test]
fn over_streamable_http() {
    let Some(server) = Server::new() else { return };
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let started =
        Command::new(&server.python).args([server.script(), port.to_string()]).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let _server = Killed(started.unwrap());
    let endpoint = Endpoint::Url(format!("http://127.0.0.1:{port}/mcp"));
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        match list_tools("harbour", &endpoint, Duration::from_secs(30)) {
            Ok(tools) => return check(&tools),
            Err(error) if Instant::now() > until => panic!("{error}"),
            // Not up yet.
            Err(_) => std::thread::park_timeout(Duration::from_millis(200)),
        }
    }
}

#[test]
fn a_server_that_is_not_there_or_says_nothing() {
    let gone = list_tools("x", &Endpoint::Stdio("/no/such/program".into()), Duration::from_secs(5)).unwrap_err();
    assert_eq!(gone.kind(), plimsoll::Kind::Unavailable);
    let silent = list_tools("x", &Endpoint::Stdio("cat".into()), Duration::from_millis(300)).unwrap_err();
    assert_eq!(silent.kind(), plimsoll::Kind::Unavailable);
}
