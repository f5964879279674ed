//! The store on a disk that fills up, fails and recovers: errors are typed, what was acknowledged is there, the rest goes on.

use super::*;
use crate::pages::Pages;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A disk in memory with a size, and a number of writes and syncs after which each further one fails.
#[derive(Debug, Default)]
struct Disk {
    bytes: Mutex<Vec<u8>>,
    size: AtomicU64,
    left: AtomicI64,
}

#[derive(Clone, Debug)]
struct Handle(Arc<Disk>);

impl Handle {
    fn spend(&self) -> std::io::Result<()> {
        if self.0.left.fetch_sub(1, Ordering::Relaxed) <= 0 {
            return Err(std::io::Error::other("the disk fails"));
        }
        Ok(())
    }

    /// What lies past the end is a defect of the caller.
    fn outside() -> std::io::Error {
        std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "past the end")
    }
}

impl redb::StorageBackend for Handle {
    fn len(&self) -> std::io::Result<u64> {
        Ok(self.0.bytes.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        let bytes = self.0.bytes.lock().unwrap();
        let at = usize::try_from(offset).unwrap();
        out.copy_from_slice(bytes.get(at..at + out.len()).ok_or_else(Self::outside)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> std::io::Result<()> {
        if len > self.0.size.load(Ordering::Relaxed) {
            return Err(std::io::Error::new(std::io::ErrorKind::StorageFull, "no space left on device"));
        }
        self.spend()?;
        self.0.bytes.lock().unwrap().resize(usize::try_from(len).unwrap(), 0);
        Ok(())
    }

    fn sync_data(&self) -> std::io::Result<()> {
        self.spend()
    }

    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.spend()?;
        let at = usize::try_from(offset).unwrap();
        self.0.bytes.lock().unwrap().get_mut(at..at + data.len()).ok_or_else(Self::outside)?.copy_from_slice(data);
        Ok(())
    }
}

fn disk(size: u64) -> Arc<Disk> {
    Arc::new(Disk { size: AtomicU64::new(size), left: AtomicI64::new(i64::MAX), ..Disk::default() })
}

fn store(disk: &Arc<Disk>) -> Result<DiskStore> {
    let disk = Arc::clone(disk);
    let open = move || Ok(redb::Builder::new().create_with_backend(Handle(Arc::clone(&disk)))?);
    DiskStore::over(Box::new(open), StoreLimits::default(), Arc::new(|| 1))
}

fn entry(n: usize) -> Entry {
    Entry { id: format!("pg_{n:016x}"), text: format!("entry {n} of the log\n").repeat(200) }
}

fn holds(store: &DiskStore, n: usize) -> bool {
    match store.get("t", &entry(n).id).unwrap() {
        Some(text) => {
            assert_eq!(text, entry(n).text, "entry {n} is whole");
            true
        }
        None => false,
    }
}

#[test]
fn a_full_disk_is_an_error_and_what_was_kept_is_read_on() {
    let disk = disk(3 << 20);
    let store = store(&disk).unwrap();
    let mut kept = 0;
    let error = loop {
        match store.put("t", &[entry(kept)]) {
            Ok(()) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 10_000, "the disk never fills");
    };
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    assert!(kept > 20, "{kept}");
    for round in 0..3 {
        for n in 0..kept {
            assert!(holds(&store, n), "entry {n} of {kept} in round {round}");
        }
        assert!(!holds(&store, kept), "what was refused is not there");
        let large = Entry { id: "pg_large".into(), text: "x".repeat(2 << 20) };
        assert_eq!(store.put("t", &[large]).unwrap_err().kind(), Kind::Unavailable);
    }
    assert_eq!(store.usage("t").unwrap().entries, kept as u64);
    // Room again, without a restart.
    disk.size.store(64 << 20, Ordering::Relaxed);
    store.put("t", &[entry(kept)]).unwrap();
    assert!((0..=kept).all(|n| holds(&store, n)));
}

#[test]
fn a_disk_that_fails_at_any_point_loses_nothing_that_was_acknowledged() {
    let (mut failed, mut whole) = (0, 0);
    for point in 0..300 {
        let disk = disk(64 << 20);
        let store = store(&disk).unwrap();
        for n in 0..3 {
            store.put("t", &[entry(n)]).unwrap();
        }
        disk.left.store(point, Ordering::Relaxed);
        let results: Vec<Result<()>> = (3..9).map(|n| store.put("t", &[entry(n), entry(n + 100)])).collect();
        for error in results.iter().filter_map(|result| result.as_ref().err()) {
            assert_eq!(error.kind(), Kind::Unavailable, "{error}");
            failed += 1;
        }
        // The disk works again: through the same store, and through one opened anew.
        disk.left.store(i64::MAX, Ordering::Relaxed);
        let check = |store: &DiskStore| {
            assert!((0..3).all(|n| holds(store, n)), "point {point}");
            for (n, result) in (3..9).zip(&results) {
                let (one, other) = (holds(store, n), holds(store, n + 100));
                assert_eq!(one, other, "all entries of a put or none, point {point}");
                assert!(one || result.is_err(), "entry {n} was acknowledged, point {point}");
            }
        };
        check(&store);
        store.put("t", &[entry(50)]).unwrap();
        drop(store);
        let again = self::store(&disk).unwrap();
        check(&again);
        assert!(holds(&again, 50));
        whole += 1;
    }
    assert!(failed > 200 && whole == 300, "{failed} puts failed");
}

#[test]
fn a_compaction_on_a_full_disk_hands_nothing_out() {
    let disk = disk(1_200_000);
    let pages = Pages::new(Arc::new(store(&disk).unwrap()), "t").unwrap();
    let big: String = (0..60_000).map(|n| format!("{n} ")).collect();
    let body = serde_json::json!({"model": "gpt-4o", "messages": [{"role": "user", "content": "go"},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": big},
        {"role": "assistant", "content": "1"}, {"role": "user", "content": "2"}, {"role": "assistant", "content": "3"}, {"role": "user", "content": "4"}]});
    let request = crate::Request::parse(body.to_string().as_bytes(), crate::Format::Chat).unwrap();
    let policy = crate::Policy::for_room(1_000).with_target(1_000);
    let make = || {
        crate::plan(&request, &crate::Counter::new(), &crate::CountOptions::default(), &policy, &pages)
            .unwrap()
            .into_plan()
            .unwrap()
            .unwrap()
    };
    let (plan, id) = (make(), make().id);
    assert_eq!(plan.apply(&request, &pages).unwrap_err().kind(), Kind::Unavailable);
    assert_eq!(crate::undo(&pages, &id).unwrap_err().kind(), Kind::NotFound);
    disk.size.store(64 << 20, Ordering::Relaxed);
    assert_eq!(make().apply(&request, &pages).unwrap().undo, id);
    assert_eq!(crate::undo(&pages, &id).unwrap().text(), request.text());
}
