//! `models add --hub` against a hub made up here: whole transfers, broken ones, wrong content, refusals, no hub at all.
//!
//! The server listens on the loopback and speaks as much of the hub's protocol as the client asks for. Nothing leaves the machine.
#![cfg(all(feature = "hub", feature = "cli"))]
#![allow(clippy::unwrap_used, reason = "a test that can't set up must stop")]

use serde_json::json;
use sha2::Digest as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A byte-level vocabulary without merges.
fn vocabulary() -> Vec<u8> {
    let stand_ins = (0x21..=0x143_u32).filter(|c| !matches!(c, 0x7F..=0xA0 | 0xAD)).filter_map(char::from_u32);
    let tokens: serde_json::Map<_, _> = stand_ins.zip(0_u32..).map(|(c, id)| (c.to_string(), id.into())).collect();
    let pre = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    json!({"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": pre, "model": {"type": "BPE", "vocab": tokens, "merges": []}})
        .to_string()
        .into_bytes()
}

/// How the hub behaves.
#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Well,
    /// The first answer ends after half of the file.
    BreaksOff,
    /// The same, and ranges are not understood.
    BreaksOffWithoutRanges,
    /// Other bytes than the checksum announces.
    Garbles,
    /// 401 without the right token.
    Gated,
    Empty,
    /// Checksums that lead out of the cache.
    EtagLeadsOut,
    /// Commits that do.
    CommitLeadsOut,
    /// Sizes that are not told, of a file without end.
    Endless,
    /// Half of the file and then nothing, without hanging up.
    FallsSilent,
    /// Sends on to another place of the same host for ever.
    Redirects,
    /// A page that is no hub's.
    Page,
    /// Names no checksum and sends what is no vocabulary, the first time.
    JunkWithoutChecksum,
}

/// Method, path and range of every request.
type Log = Mutex<Vec<(String, String, Option<String>)>>;

struct Hub {
    endpoint: String,
    seen: Arc<Log>,
}

/// Starts a hub that knows `tokenizer.json` and `tokenizer_config.json` of any repository.
fn hub(mood: Mood) -> Hub {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let log = Arc::clone(&log);
            std::thread::spawn(move || serve(stream, mood, &log));
        }
    });
    Hub { endpoint, seen }
}

fn head_of(status: &str, length: usize, etag: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nETag: \"{etag}\"\r\nX-Repo-Commit: {COMMIT}\r\n\r\n")
}

fn serve(mut stream: TcpStream, mood: Mood, log: &Log) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let line = line.trim_end().to_owned();
            if line.is_empty() {
                break;
            }
            lines.push(line);
        }
        let header = |name: &str| {
            let found = lines.iter().skip(1).filter_map(|line| line.split_once(':')).find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.trim().to_owned())
        };
        let mut request = lines[0].split(' ');
        let (method, path) = (request.next().unwrap().to_owned(), request.next().unwrap().to_owned());
        let range = header("range");
        let broken_before = log.lock().unwrap().iter().any(|(method, path, _)| method == "GET" && path.ends_with("tokenizer.json"));
        log.lock().unwrap().push((method.clone(), path.clone(), range.clone()));
        let content = match path.rsplit('/').next() {
            _ if mood == Mood::Empty => None,
            Some("tokenizer.json") => Some(vocabulary()),
            Some("tokenizer_config.json") => Some(b"{\"bos_token\": \"<s>\"}".to_vec()),
            _ => None,
        };
        let denied = mood == Mood::Gated && header("authorization").as_deref() != Some("Bearer right");
        let (status, body) = match content {
            _ if denied => ("401 Unauthorized", Vec::new()),
            None => ("404 Not Found", Vec::new()),
            Some(content) => ("200 OK", content),
        };
        let etag: String = sha2::Sha256::digest(&body).iter().map(|byte| format!("{byte:02x}")).collect();
        let from = range
            .filter(|_| mood != Mood::BreaksOffWithoutRanges && status == "200 OK")
            .and_then(|range| range.strip_prefix("bytes=")?.split('-').next()?.parse::<usize>().ok());
        let status = if from.is_some() { "206 Partial Content" } else { status };
        let mut sent = body[from.unwrap_or(0)..].to_vec();
        let length = sent.len();
        let breaks = matches!(mood, Mood::BreaksOff | Mood::BreaksOffWithoutRanges) && method == "GET" && !broken_before;
        if breaks {
            sent.truncate(length / 2);
        }
        if mood == Mood::FallsSilent && method == "GET" {
            let _ = stream.write_all(head_of(status, length, &etag).as_bytes()).and_then(|()| stream.write_all(&sent[..length / 2]));
            // Until the other side gives up.
            let _ = reader.read(&mut [0; 64]);
            return;
        }
        if mood == Mood::JunkWithoutChecksum && path.ends_with("tokenizer.json") && !broken_before {
            sent.fill(b'?');
        }
        if mood == Mood::Garbles && path.ends_with("tokenizer.json") {
            sent[10] ^= 1;
        }
        let (etag, commit) = match mood {
            Mood::EtagLeadsOut => ("../../../../../leads-out".to_owned(), COMMIT),
            Mood::JunkWithoutChecksum => (format!("version-{}", &etag[..8]), COMMIT),
            Mood::CommitLeadsOut => (etag, "../../../../../leads-out"),
            _ => (etag, COMMIT),
        };
        if mood == Mood::Redirects || mood == Mood::Page {
            let status = if mood == Mood::Page { "200 OK" } else { "302 Found" };
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nLocation: {path}\r\n\r\n");
            if stream.write_all(head.as_bytes()).is_err() {
                return;
            }
            continue;
        }
        if mood == Mood::Endless && status == "200 OK" {
            let head = format!("HTTP/1.1 {status}\r\nETag: \"abc\"\r\nX-Repo-Commit: {COMMIT}\r\nConnection: close\r\n\r\n");
            let mut written = stream.write_all(head.as_bytes());
            while method != "HEAD" && written.is_ok() {
                written = stream.write_all(&vec![b' '; 1 << 20]);
            }
            return;
        }
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nETag: \"{etag}\"\r\nX-Repo-Commit: {commit}\r\n\r\n");
        let mut written = stream.write_all(head.as_bytes());
        if method != "HEAD" {
            written = written.and_then(|()| stream.write_all(&sent));
        }
        if written.is_err() || breaks {
            let _ = stream.shutdown(std::net::Shutdown::Both);
            let _ = reader.read(&mut [0; 64]);
            return;
        }
    }
}

/// Runs `plimsoll models add mine --hub org/name` with homes in `home`.
fn add(endpoint: &str, home: &Path, more: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["models", "add", "mine", "--hub", "org/name"])
        .args(more)
        .env("HF_ENDPOINT", endpoint)
        .env("HF_HOME", home.join("hf"))
        .env("PLIMSOLL_HOME", home.join("own"))
        .env_remove("HF_TOKEN")
        .env_remove("HF_HUB_CACHE")
        .env_remove("HF_HUB_OFFLINE")
        .env("NO_PROXY", "127.0.0.1")
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Files of the cache that have a name of their own, and those that are still in transfer.
fn blobs(home: &Path) -> (usize, usize) {
    let names: Vec<String> = std::fs::read_dir(home.join("hf/hub/models--org--name/blobs"))
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let partial = names.iter().filter(|name| name.ends_with(".incomplete")).count();
    (names.len() - partial, partial)
}

#[test]
fn a_whole_repository_is_fetched_checked_and_added_and_later_taken_offline() {
    let hub = hub(Mood::Well);
    let home = tempfile::tempdir().unwrap();
    let output = add(&hub.endpoint, home.path(), &[], &[]);
    assert!(output.status.success(), "{}", told(&output));
    assert!(told(&output).contains("tokenizer.json:"), "no progress: {}", told(&output));
    // HF_HOME is where it went.
    assert_eq!(blobs(home.path()), (2, 0));
    assert!(home.path().join("own/models/mine/tokenizer_config.json").is_file());
    // The cache serves without the hub, by flag or by variable.
    for (more, variables) in [(&["--offline"][..], &[][..]), (&[], &[("HF_HUB_OFFLINE", "1")])] {
        let before = hub.seen.lock().unwrap().len();
        let output = add(&hub.endpoint, home.path(), more, variables);
        assert!(output.status.success(), "{}", told(&output));
        assert_eq!(hub.seen.lock().unwrap().len(), before, "the hub was asked");
    }
    // Nothing is transferred twice.
    let gets = || hub.seen.lock().unwrap().iter().filter(|(method, ..)| method == "GET").count();
    let before = gets();
    assert!(add(&hub.endpoint, home.path(), &[], &[]).status.success());
    assert_eq!(gets(), before);
}

#[test]
fn a_broken_transfer_leaves_nothing_whole_and_goes_on_where_it_ended() {
    for mood in [Mood::BreaksOff, Mood::BreaksOffWithoutRanges] {
        let hub = hub(mood);
        let home = tempfile::tempdir().unwrap();
        let output = add(&hub.endpoint, home.path(), &[], &[]);
        assert_eq!(output.status.code(), Some(2), "{}", told(&output));
        assert_eq!(blobs(home.path()), (0, 1), "{}", told(&output));
        assert!(!home.path().join("own/models/mine").exists());
        // Offline, half a file is no file.
        let output = add(&hub.endpoint, home.path(), &["--offline"], &[]);
        assert!(!output.status.success());
        assert!(told(&output).contains("cache holds no vocabulary"), "{}", told(&output));
        let output = add(&hub.endpoint, home.path(), &[], &[]);
        assert!(output.status.success(), "{}", told(&output));
        assert_eq!(blobs(home.path()), (2, 0));
        let half = vocabulary().len() / 2;
        let asked = hub.seen.lock().unwrap().iter().any(|(.., asked)| {
            asked
                .as_deref()
                .and_then(|asked| asked.strip_prefix("bytes=")?.split('-').next()?.parse::<usize>().ok())
                .is_some_and(|at| at > 0 && at <= half)
        });
        assert!(asked, "no range was asked for");
        assert_eq!(std::fs::read(home.path().join("own/models/mine/tokenizer.json")).unwrap(), vocabulary());
    }
}

#[test]
fn content_of_another_checksum_is_refused_and_not_kept() {
    let hub = hub(Mood::Garbles);
    let home = tempfile::tempdir().unwrap();
    let output = add(&hub.endpoint, home.path(), &[], &[]);
    assert!(!output.status.success());
    assert!(told(&output).contains("checksum"), "{}", told(&output));
    assert_eq!(blobs(home.path()), (0, 0));
    assert!(!home.path().join("own/models/mine").exists());
}

#[test]
fn refusals_say_what_is_missing() {
    let home = tempfile::tempdir().unwrap();
    let output = add(&hub(Mood::Empty).endpoint, home.path(), &[], &[]);
    assert!(!output.status.success());
    assert!(told(&output).contains("no vocabulary file in `org/name`"), "{}", told(&output));

    let gated = hub(Mood::Gated);
    let output = add(&gated.endpoint, home.path(), &[], &[]);
    assert!(!output.status.success());
    assert!(told(&output).contains("HF_TOKEN"), "{}", told(&output));
    let output = add(&gated.endpoint, home.path(), &[], &[("HF_TOKEN", "right")]);
    assert!(output.status.success(), "{}", told(&output));
    assert!(!told(&output).contains("right"), "the token is told");
}

#[test]
fn a_hub_that_is_not_there_is_unavailable() {
    // A port that was free a moment ago.
    let endpoint = format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    let home = tempfile::tempdir().unwrap();
    let output = add(&endpoint, home.path(), &[], &[]);
    assert!(!output.status.success());
    assert!(told(&output).contains("can't be reached"), "{}", told(&output));
    assert!(!home.path().join("own/models/mine").exists());
}

/// Every file and link under a folder, with sizes left out.
fn everything(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for path in std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()) {
        if path.is_dir() && !path.is_symlink() { found.extend(everything(&path)) } else { found.push(path) }
    }
    found
}

#[test]
fn what_a_hub_says_never_names_a_place_outside_the_cache() {
    for mood in [Mood::EtagLeadsOut, Mood::CommitLeadsOut] {
        let home = tempfile::tempdir().unwrap();
        let inner = home.path().join("a/b/c");
        std::fs::create_dir_all(&inner).unwrap();
        let output = add(&hub(mood).endpoint, &inner, &[], &[]);
        assert_eq!(output.status.code(), Some(2));
        assert!(told(&output).contains("no usable checksum"), "{}", told(&output));
        assert_eq!(everything(home.path()), Vec::<std::path::PathBuf>::new());
    }
    // Nor does a revision.
    let home = tempfile::tempdir().unwrap();
    let output = add(&hub(Mood::Well).endpoint, home.path(), &["--revision=../../../../../leads-out"], &[]);
    assert!(told(&output).contains("a revision is"), "{}", told(&output));
    assert_eq!(everything(home.path()), Vec::<std::path::PathBuf>::new());
}

#[test]
fn endless_files_and_redirects_and_pages_that_are_no_hubs_end_with_a_reason() {
    for (mood, why) in
        [(Mood::Endless, "does not end after"), (Mood::Redirects, "redirects without end"), (Mood::Page, "what answers is no hub")]
    {
        let home = tempfile::tempdir().unwrap();
        let output = add(&hub(mood).endpoint, home.path(), &[], &[]);
        assert_eq!(output.status.code(), Some(2));
        assert!(told(&output).contains(why), "{}", told(&output));
        assert_eq!(blobs(home.path()), (0, 0));
    }
}

#[test]
fn a_hub_that_falls_silent_is_left_and_gone_back_to() {
    let home = tempfile::tempdir().unwrap();
    let output = add(&hub(Mood::FallsSilent).endpoint, home.path(), &[], &[("HF_HUB_DOWNLOAD_TIMEOUT", "1")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(told(&output).contains("after") || told(&output).contains("fell silent"), "{}", told(&output));
    assert_eq!(blobs(home.path()), (0, 1));
    assert!(add(&hub(Mood::Well).endpoint, home.path(), &[], &[]).status.success());
    assert_eq!(blobs(home.path()), (2, 0));
}

#[test]
fn junk_without_a_checksum_does_not_stay_in_the_cache() {
    let home = tempfile::tempdir().unwrap();
    let hub = hub(Mood::JunkWithoutChecksum);
    let output = add(&hub.endpoint, home.path(), &[], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(told(&output).contains("the hub named no checksum, and what it sent is not kept"), "{}", told(&output));
    assert_eq!(blobs(home.path()), (0, 0));
    let output = add(&hub.endpoint, home.path(), &[], &[]);
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(blobs(home.path()), (2, 0));

    // What was in the cache before is the user's.
    let blobs_folder = home.path().join("hf/hub/models--org--name/blobs");
    let names: Vec<_> = std::fs::read_dir(&blobs_folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    for blob in &names {
        std::fs::write(blob, "junk").unwrap();
    }
    for more in [&[][..], &["--offline"]] {
        let output = add(&hub.endpoint, home.path(), more, &[]);
        assert_eq!(output.status.code(), Some(2));
        assert!(names.iter().all(|blob| blob.is_file() && told(&output).contains(blob.to_str().unwrap())), "{}", told(&output));
    }
    // Nor is the vocabulary that was added from it gone.
    assert!(home.path().join("own/models/mine/tokenizer.json").is_file());
}
