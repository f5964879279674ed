//! `plimsoll serve` as a process: it says where it listens, gives the command line's numbers, and ends when told to.
#![cfg(all(feature = "server", feature = "cli", unix))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use plimsoll::client::Client;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

const BODY: &str = r#"{"model":"gpt-4o","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"你好, world"}],
    "tools":[{"type":"function","function":{"name":"read_file","description":"Reads.","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}}]}"#;

fn plimsoll() -> Command {
    Command::new(env!("CARGO_BIN_EXE_plimsoll"))
}

/// A server that does not outlive its test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn serves_the_command_lines_numbers_and_stops_when_told() {
    let mut served = Served(
        plimsoll().args(["serve", "--json", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap(),
    );
    let mut line = String::new();
    BufReader::new(served.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = serde_json::from_str::<Value>(&line).unwrap()["listening"].as_str().unwrap().to_owned();

    let mut client = Client::connect(&format!("http://{address}")).await.unwrap();
    let wire = client.count(Client::request(BODY.as_bytes().to_vec())).await.unwrap();

    let mut counted = plimsoll().args(["count", "--json", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    counted.stdin.take().unwrap().write_all(BODY.as_bytes()).unwrap();
    let printed: Value = serde_json::from_slice(&counted.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(printed["total"], json!(wire.total), "{printed}");
    assert_eq!(printed["bound"], json!(wire.bound), "{printed}");

    // Off this thread, so that the client's connection can end meanwhile.
    let ended = tokio::task::spawn_blocking(move || {
        assert!(Command::new("kill").args(["-TERM", &served.0.id().to_string()]).status().unwrap().success());
        served.0.wait().unwrap()
    });
    assert!(ended.await.unwrap().success(), "a server that is told to stop ends well");
    drop(client);
}

#[test]
fn an_address_that_is_taken_is_an_error() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = plimsoll().args(["serve", "--listen", &address]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains(&address));
}
