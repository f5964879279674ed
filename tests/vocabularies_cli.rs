//! `models add | vocabularies` as a person meets them: what is listed.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "a test that can't set up must stop")]

use base64::Engine as _;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn plimsoll(home: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_plimsoll")).args(arguments).env("PLIMSOLL_HOME", home).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn parsed(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}{}", out(output), err(output)))
}

/// A folder with a rank file of all bytes, whose ids begin with `first`.
fn model(home: &Path, first: u8) -> PathBuf {
    let folder = home.join(format!("model-{first}"));
    std::fs::create_dir_all(&folder).unwrap();
    let line = |rank: u8| format!("{} {rank}\n", base64::engine::general_purpose::STANDARD.encode([rank.wrapping_add(first)]));
    std::fs::write(folder.join("x.tiktoken"), (0..=255).map(line).collect::<String>()).unwrap();
    folder
}

/// `models add NAME --dir FOLDER` and what else is said.
fn adding<'a>(name: &'a str, folder: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    [&["models", "add", name, "--dir", folder.to_str().unwrap(), "--split", "llama3"], more].concat()
}

#[test]
fn vocabularies_are_listed_whether_built_in_or_installed() {
    let home = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| plimsoll(home.path(), arguments);
    let text = out(&run(&["models", "vocabularies"]));
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("  built in: ")).collect();
    assert!(rows.len() >= 5 && rows.iter().all(|row| row.ends_with(')')), "{text}");
    assert!(rows[0].starts_with("o200k_base       ") && rows[0].ends_with("  built in: OpenAI's o200k_base.tiktoken (MIT)"), "{text}");
    assert!(text.lines().last().unwrap().starts_with("none installed in "), "{text}");

    // One with a name of its own, and one whose name a built-in one has.
    let folder = model(home.path(), 0);
    for name in ["mine", "o200k_base"] {
        let added = run(&adding(name, &folder, &["--licence", "CC0-1.0"]));
        assert!(added.status.success(), "{}", err(&added));
    }
    let listed = parsed(&run(&["models", "vocabularies", "--json"]));
    let find = |name: &str, built_in: bool| {
        let mut all = listed.as_array().unwrap().iter();
        all.find(|one| one["name"] == name && one["built_in"] == built_in).unwrap_or_else(|| panic!("no {name}: {listed}"))
    };
    let own = find("o200k_base", true);
    assert_eq!((&own["licence"], &own["in_use"], &own["file"], &own["templates"]), (&json!("MIT"), &json!(true), &Value::Null, &json!([])));
    let mine = find("mine", false);
    assert_eq!((&mine["licence"], &mine["in_use"], &mine["file"]), (&json!("CC0-1.0"), &json!(true), &json!("x.tiktoken")));
    assert_eq!(mine["source"], folder.to_str().unwrap());
    assert_eq!(find("o200k_base", false)["in_use"], false);
    assert!(listed.as_array().unwrap().iter().all(|one| one["fingerprint"].as_str().is_some_and(|hex| hex.len() == 32)), "{listed}");
    let text = out(&run(&["models", "vocabularies"]));
    assert!(text.contains(" (CC0-1.0); not used: the built-in one is") && !text.contains("none installed"), "{text}");
}
