//! The page store on disk: what was acknowledged survives a kill, damage is a typed error, tenants and limits hold.
#![cfg(feature = "pages-disk")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use plimsoll::{DiskStore, Entry, Kind, PageStore, Pages, StoreLimits, plan_pages, undo};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn open(folder: &Path) -> DiskStore {
    DiskStore::open(folder, StoreLimits::default(), Arc::new(|| 1)).unwrap()
}

fn entry(n: usize) -> Entry {
    Entry { id: format!("pg_{n:016x}"), text: format!("entry {n}\n").repeat(50) }
}

/// Not a test by itself: the process that `acknowledged_entries_survive_a_kill` kills.
#[test]
fn child_that_writes_until_killed() {
    let Some(folder) = std::env::var_os("PLIMSOLL_TEST_STORE") else { return };
    let store = open(Path::new(&folder));
    for n in 0.. {
        store.put("t", &[entry(n)]).unwrap();
        println!("kept {n}");
        std::io::stdout().flush().unwrap();
    }
}

#[test]
fn acknowledged_entries_survive_a_kill() {
    for round in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_writes_until_killed", "--nocapture", "--test-threads=1"])
            .env("PLIMSOLL_TEST_STORE", folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut kept = None;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            // The harness prints the test's name on the same line as the first.
            if let Some(n) = line.rsplit("kept ").next().filter(|_| line.contains("kept ")).and_then(|n| n.parse::<usize>().ok()) {
                kept = Some(n);
                if n == 20 + round * 17 {
                    break;
                }
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let store = open(folder.path());
        let kept = kept.unwrap();
        for n in 0..=kept {
            assert_eq!(store.get("t", &entry(n).id).unwrap().as_deref(), Some(entry(n).text.as_str()), "entry {n} of {kept}");
        }
        // At most one more, whole, that was never acknowledged.
        assert!(store.usage("t").unwrap().entries <= kept as u64 + 2);
    }
}

#[test]
fn a_second_process_is_told_and_entries_outlive_the_handle() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store.put("t", &[entry(1)]).unwrap();
    assert_eq!(DiskStore::open(folder.path(), StoreLimits::default(), Arc::new(|| 1)).err().map(|e| e.kind()), Some(Kind::Unavailable));
    drop(store);
    assert!(open(folder.path()).get("t", &entry(1).id).unwrap().is_some());
}

#[test]
fn damage_is_an_error_and_the_rest_stays_readable() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for n in 0..40 {
        store.put("t", &[Entry { id: entry(n).id, text: format!("entry {n} ").repeat(900) }]).unwrap();
    }
    drop(store);
    let file = folder.path().join("pages.redb");
    let mut bytes = std::fs::read(&file).unwrap();
    let needle = b"entry 17 entry 17 ";
    let mut flipped = 0;
    for at in 0..bytes.len() - needle.len() {
        if bytes[at..].starts_with(needle) {
            bytes[at] = b'X';
            flipped += 1;
        }
    }
    assert!(flipped > 0);
    std::fs::write(&file, &bytes).unwrap();
    let store = open(folder.path());
    let (mut bad, mut good) = (0, 0);
    for n in 0..40 {
        match store.get("t", &entry(n).id) {
            Ok(Some(text)) => {
                assert_eq!(text, format!("entry {n} ").repeat(900));
                good += 1;
            }
            Ok(None) => panic!("entry {n} vanished"),
            Err(error) => {
                assert_eq!(error.kind(), Kind::Corrupt);
                bad += 1;
            }
        }
    }
    assert!(bad == 1 && good == 39, "{bad} bad, {good} good");
    drop(store);
    // A file that is no store at all.
    std::fs::write(&file, vec![7; 50_000]).unwrap();
    let error = DiskStore::open(folder.path(), StoreLimits::default(), Arc::new(|| 1)).err().unwrap();
    assert!(matches!(error.kind(), Kind::Corrupt | Kind::Unavailable), "{error}");
}

#[test]
fn tenants_quotas_expiry_and_eviction() {
    let folder = tempfile::tempdir().unwrap();
    let now = Arc::new(AtomicU64::new(10));
    let clock = Arc::clone(&now);
    let limits = StoreLimits { entry_bytes: 100, tenant_bytes: 250, total_bytes: 400, ttl_seconds: 60, evict: false };
    let store: Arc<dyn PageStore> =
        Arc::new(DiskStore::open(folder.path(), limits, Arc::new(move || clock.load(Ordering::Relaxed))).unwrap());
    let text = |n: u8| Entry { id: format!("pg_{n:016x}"), text: char::from(b'a' + n).to_string().repeat(100) };
    store.put("a", &[text(0), text(1)]).unwrap();
    assert_eq!(store.put("a", &[text(2)]).unwrap_err().kind(), Kind::LimitExceeded);
    assert_eq!(store.usage("a").unwrap().bytes, 200, "a refused put leaves nothing behind");
    assert_eq!(store.get("b", &text(0).id).unwrap(), None, "tenants are apart");
    store.put("b", &[text(0), text(1)]).unwrap();
    assert_eq!(store.put("c", &[text(0)]).unwrap_err().kind(), Kind::LimitExceeded);
    let oversized = Entry { id: "pg_x".into(), text: "x".repeat(101) };
    assert_eq!(store.put("a", &[oversized]).unwrap_err().kind(), Kind::LimitExceeded);
    let conflict = Entry { id: text(0).id, text: "other".into() };
    assert_eq!(store.put("a", &[conflict]).unwrap_err().kind(), Kind::Conflict);
    now.store(70, Ordering::Relaxed);
    assert_eq!(store.get("a", &text(0).id).unwrap(), None, "expired");
    store.put("c", &[text(0)]).unwrap();
    assert_eq!(store.usage("a").unwrap().entries, 0, "expired entries make room");

    let folder = tempfile::tempdir().unwrap();
    let cache = DiskStore::open(folder.path(), StoreLimits { evict: true, ..limits }, Arc::new(|| 1)).unwrap();
    for n in 0..6 {
        cache.put("a", &[text(n)]).unwrap();
    }
    assert_eq!(cache.get("a", &text(0).id).unwrap(), None);
    assert!(cache.get("a", &text(5).id).unwrap().is_some());
    assert_eq!(cache.usage("a").unwrap().entries, 2);

    let pages = Pages::new(store, "a").unwrap();
    for id in ["pl_0000000000000000", "pg_0", "nonsense", ""] {
        assert_eq!(undo(&pages, id).unwrap_err().kind(), Kind::NotFound);
        assert_eq!(plan_pages(&pages, id).unwrap_err().kind(), Kind::NotFound);
    }
}
