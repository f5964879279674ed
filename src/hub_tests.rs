//! What is refused before a hub is asked, and transfers that come too slowly. All else is tried on the command line: `tests/hub.rs`.

use super::*;

#[test]
fn ids_are_checked_before_anything_is_asked() {
    for id in ["", "name", "a/b/c", "../b", "a/../b", "/b", "a/b?c", "a/b#c", "a/b%2f", "a/ b", "a/b\n", "a--b/c", "é/b"] {
        let error = fetch(&HubRequest { id: id.to_owned(), offline: true, ..HubRequest::default() }).unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidInput, "{id}");
    }
}

#[test]
fn revisions_are_no_paths() {
    for revision in ["", "..", "../../x", "/tmp/x", "a//b", "a\n", "refs/../../x"] {
        let request = HubRequest { id: "a/b".to_owned(), revision: Some(revision.to_owned()), offline: true, ..HubRequest::default() };
        assert_eq!(fetch(&request).unwrap_err().kind(), Kind::InvalidInput, "{revision}");
    }
}

#[test]
fn offline_and_not_cached_is_not_found() {
    let id = "nobody-of-this-name/nothing-of-this-name".to_owned();
    let error = fetch(&HubRequest { id, offline: true, ..HubRequest::default() }).unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound, "{error}");
}

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A hub with one file of 10 KiB without a checksum, of which each connection gets `chunk` bytes every `every`. Tells the ranges that it was
/// asked for.
#[allow(clippy::disallowed_methods, reason = "slowness is what is tried: the server sleeps, the test waits for nothing")]
fn drips(chunk: usize, every: Duration) -> (String, std::sync::Arc<std::sync::Mutex<Vec<String>>>) {
    use std::io::{BufRead as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let asked = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let ranges = std::sync::Arc::clone(&asked);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let ranges = std::sync::Arc::clone(&ranges);
            std::thread::spawn(move || {
                let lines: Vec<String> = std::io::BufReader::new(stream.try_clone().unwrap())
                    .lines()
                    .map_while(|line| line.ok().filter(|line| !line.is_empty()))
                    .collect();
                let Some(first) = lines.first() else { return };
                let range = lines.iter().find_map(|line| line.to_lowercase().strip_prefix("range: bytes=").map(str::to_owned));
                let from = range.as_deref().and_then(|range| range.split('-').next()?.parse::<usize>().ok());
                ranges.lock().unwrap().extend(range);
                let there = first.contains("/tokenizer.json");
                let status = if !there {
                    "404 Not Found"
                } else if from.is_some() {
                    "206 Partial Content"
                } else {
                    "200 OK"
                };
                let body = vec![b' '; if there { (10 << 10) - from.unwrap_or(0) } else { 0 }];
                let head = format!(
                    "HTTP/1.1 {status}\r\nContent-Length: {}\r\nETag: \"unnamed\"\r\nX-Repo-Commit: {COMMIT}\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                if stream.write_all(head.as_bytes()).is_err() || first.starts_with("HEAD") {
                    return;
                }
                for piece in body.chunks(chunk) {
                    if stream.write_all(piece).and_then(|()| stream.flush()).is_err() {
                        return;
                    }
                    std::thread::sleep(every);
                }
            });
        }
    });
    (endpoint, asked)
}

fn fetch_at(endpoint: &str, cache: &Path, pace: Pace) -> Result<HubFiles> {
    let request = HubRequest { id: "org/name".to_owned(), ..HubRequest::default() };
    fetch_from(&request, HFClient::builder().endpoint(endpoint).cache_dir(cache), pace)
}

#[test]
fn a_transfer_that_brings_next_to_nothing_ends_and_the_next_try_goes_on() {
    let cache = tempfile::tempdir().unwrap();
    // Never silent for long, and 400 bytes in a time that should bring 1,024.
    let (endpoint, _) = drips(100, Duration::from_millis(50));
    let error = fetch_at(&endpoint, cache.path(), Pace { wait: Duration::from_millis(200), least: 1 << 10 }).unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
    // On a machine that stands still for a while it is silence.
    assert!(error.to_string().contains("sends next to nothing") || error.to_string().contains("fell silent"), "{error}");
    let partial = cache.path().join("models--org--name/blobs/unnamed.incomplete");
    let have = std::fs::metadata(&partial).unwrap().len();
    assert!((1..10 << 10).contains(&have), "{have}");

    let (endpoint, asked) = drips(10 << 10, Duration::ZERO);
    let fetched = fetch_at(&endpoint, cache.path(), Pace::usual()).unwrap();
    assert_eq!(std::fs::read(fetched.folder().join("tokenizer.json")).unwrap(), vec![b' '; 10 << 10]);
    assert!(asked.lock().unwrap().iter().any(|range| range.starts_with(&format!("{have}-"))), "{:?}", asked.lock().unwrap());
}

#[test]
fn a_slow_transfer_that_brings_enough_is_waited_for() {
    let cache = tempfile::tempdir().unwrap();
    // Longer in all than the time after which it is judged.
    let (endpoint, _) = drips(1 << 10, Duration::from_millis(150));
    let fetched = fetch_at(&endpoint, cache.path(), Pace { wait: Duration::from_secs(1), least: 1 << 10 }).unwrap();
    assert_eq!(std::fs::metadata(fetched.folder().join("tokenizer.json")).unwrap().len(), 10 << 10);
}

#[test]
fn only_what_was_brought_and_has_no_checksum_is_taken_back_and_only_when_it_is_of_no_use() {
    let pace = Pace::usual();
    let (endpoint, _) = drips(10 << 10, Duration::ZERO);
    let cache = tempfile::tempdir().unwrap();
    let blob = cache.path().join("models--org--name/blobs/unnamed");
    // A disk that is full says nothing of the file.
    let kept = fetch_at(&endpoint, cache.path(), pace).unwrap().refused(Error::new(Kind::Unavailable, "full"));
    assert_eq!(kept.to_string(), "full");
    assert!(blob.is_file());
    // In the cache before: named, and left.
    let error = fetch_at(&endpoint, cache.path(), pace).unwrap().refused(Error::new(Kind::InvalidInput, "junk"));
    assert!(error.to_string().contains("blobs/unnamed`: junk"), "{error}");
    assert!(blob.is_file());
    std::fs::remove_file(&blob).unwrap();
    let fetched = fetch_at(&endpoint, cache.path(), pace).unwrap();
    let link = fetched.folder().join("tokenizer.json");
    let error = fetched.refused(Error::new(Kind::InvalidInput, "junk"));
    assert!(error.to_string().contains("is not kept: junk"), "{error}");
    assert!(!blob.exists() && !link.is_symlink());
}
