//! Pages on disk, in one redb file: the default of the service and of `--store`.
//!
//! Every put is one transaction, synced before it returns, so that what was acknowledged is there after a kill.
//! Each entry carries its own checksum: a damaged entry is a typed error and the rest stays readable. Assumes
//! that a sync is a sync, and that one process opens the file at a time (a second one is told so).

use super::store::{Clock, Entry, PageStore, StoreLimits, StoreUsage, conflict, expired};
use crate::error::{Error, Kind, Result};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{PoisonError, RwLock};
use twox_hash::XxHash3_64;

/// (tenant, id) to expiry, checksum and text.
const ENTRIES: TableDefinition<'_, (&str, &str), &[u8]> = TableDefinition::new("entries.v1");
/// Tenant to entries and bytes; the empty name holds the totals.
const USAGE: TableDefinition<'_, &str, (u64, u64)> = TableDefinition::new("usage.v1");
/// Turn to (tenant, id): the order of age, for eviction and sweeps.
const ORDER: TableDefinition<'_, u64, (&str, &str)> = TableDefinition::new("order.v1");

const HEADER: usize = 24;
const TOTAL: &str = "";

/// Opens the file; again after an error of the disk, since redb then refuses everything until it is opened anew.
type Open = Box<dyn Fn() -> Result<Database, Failure> + Send + Sync>;

/// A [`PageStore`] in a folder on disk.
pub struct DiskStore {
    file: RwLock<OpenFile>,
    open: Open,
    limits: StoreLimits,
    clock: Clock,
}

/// The open file, and how often it was opened.
struct OpenFile {
    db: Option<Database>,
    times: u64,
}

impl DiskStore {
    /// Opens or makes `pages.redb` in `folder`, which is made when absent.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when the folder can't be written or another process has the store open;
    /// [`Kind::Corrupt`] when the file is damaged.
    pub fn open(folder: &Path, limits: StoreLimits, clock: Clock) -> Result<Self> {
        std::fs::create_dir_all(folder)
            .map_err(|e| Error::new(Kind::Unavailable, format!("the page store's folder can't be made: {e}")).caused_by(e))?;
        let file = folder.join("pages.redb");
        Self::over(Box::new(move || Ok(Database::create(&file)?)), limits, clock)
    }

    /// A store over whatever `open` opens.
    fn over(open: Open, limits: StoreLimits, clock: Clock) -> Result<Self> {
        let db = guard(|| opened(&open))?;
        Ok(Self { file: RwLock::new(OpenFile { db: Some(db), times: 1 }), open, limits, clock })
    }

    /// Checks the file's own checksums; gives whether it was clean (it is mended as far as possible when not).
    ///
    /// # Errors
    /// As [`PageStore::get`].
    pub fn verify(&mut self) -> Result<bool> {
        let file = self.file.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(db) = &mut file.db else { return Err(Error::new(Kind::Unavailable, "the page store is not open")) };
        guard(|| Ok(db.check_integrity()?))
    }

    /// Runs an operation on the open file. After an error of the disk (it was full, say) the file is opened anew, once, so that
    /// what is in it can be read and, when there is room again, written.
    fn run<T>(&self, operation: impl Fn(&Database) -> Result<T, Failure>) -> Result<T> {
        let (first, times) = {
            let file = self.file.read().unwrap_or_else(PoisonError::into_inner);
            (file.db.as_ref().map(|db| caught(|| operation(db))), file.times)
        };
        match first {
            Some(Err(Failure::Store(error))) if matches!(*error, redb::Error::PreviousIo) => {}
            Some(result) => return result.map_err(Failure::into_error),
            None => {}
        }
        let mut file = self.file.write().unwrap_or_else(PoisonError::into_inner);
        if file.times == times {
            file.db = None;
            file.db = Some(guard(|| opened(&self.open))?);
            file.times += 1;
        }
        match &file.db {
            Some(db) => guard(|| operation(db)),
            None => Err(Error::new(Kind::Unavailable, "the page store can't be opened again")),
        }
    }
}

/// Opens the file and makes the tables that are missing. Writes nothing when none is, so that a full disk can be read.
fn opened(open: &Open) -> Result<Database, Failure> {
    let db = open()?;
    let read = db.begin_read()?;
    let there = read.open_table(ENTRIES).is_ok() && read.open_table(USAGE).is_ok() && read.open_table(ORDER).is_ok();
    drop(read);
    if !there {
        let write = db.begin_write()?;
        write.open_table(ENTRIES)?;
        write.open_table(USAGE)?;
        write.open_table(ORDER)?;
        write.commit()?;
    }
    Ok(db)
}

/// Runs a store operation; redb's errors, and its panics on damaged files, become this crate's errors.
fn guard<T>(run: impl FnOnce() -> Result<T, Failure>) -> Result<T> {
    caught(run).map_err(Failure::into_error)
}

fn caught<T>(run: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(Failure::Own(Error::new(Kind::Corrupt, "the page store's file is damaged"))))
}

enum Failure {
    Own(Error),
    Store(Box<redb::Error>),
}

impl Failure {
    fn into_error(self) -> Error {
        match self {
            Self::Own(error) => error,
            Self::Store(error) => convert(*error),
        }
    }
}

impl<E: Into<redb::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Store(Box::new(error.into()))
    }
}

fn convert(error: redb::Error) -> Error {
    let kind = match &error {
        redb::Error::Corrupted(_) | redb::Error::UpgradeRequired(_) | redb::Error::TableTypeMismatch { .. } => Kind::Corrupt,
        redb::Error::ValueTooLarge(_) => Kind::LimitExceeded,
        redb::Error::Io(io) if io.kind() == std::io::ErrorKind::InvalidData => Kind::Corrupt,
        _ => Kind::Unavailable,
    };
    let what = if kind == Kind::Corrupt { "the page store's file is damaged" } else { "the page store can't be used" };
    Error::new(kind, format!("{what}: {error}")).caused_by(error)
}

/// Expiry, turn and checksum before the text. The checksum covers all three others.
fn pack(expires: u64, turn: u64, text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + text.len());
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&expires.to_le_bytes());
    out.extend_from_slice(&turn.to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    let sum = XxHash3_64::oneshot(&out[8..]);
    out[..8].copy_from_slice(&sum.to_le_bytes());
    out
}

struct Unpacked<'a> {
    expires: u64,
    turn: u64,
    text: &'a str,
}

fn unpack<'a>(id: &str, bytes: &'a [u8]) -> Result<Unpacked<'a>> {
    let damaged = || Error::new(Kind::Corrupt, format!("page `{id}` is damaged"));
    let number = |at: usize| bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes).ok_or_else(damaged);
    let sum = number(0)?;
    if XxHash3_64::oneshot(&bytes[8..]) != sum {
        return Err(damaged());
    }
    let text = std::str::from_utf8(bytes.get(HEADER..).ok_or_else(damaged)?).map_err(|_| damaged())?;
    Ok(Unpacked { expires: number(8)?, turn: number(16)?, text })
}

/// The tables of one write.
struct Tables<'t> {
    entries: redb::Table<'t, (&'static str, &'static str), &'static [u8]>,
    usage: redb::Table<'t, &'static str, (u64, u64)>,
    order: redb::Table<'t, u64, (&'static str, &'static str)>,
}

impl<'t> Tables<'t> {
    fn open(write: &'t redb::WriteTransaction) -> Result<Self, Failure> {
        Ok(Self { entries: write.open_table(ENTRIES)?, usage: write.open_table(USAGE)?, order: write.open_table(ORDER)? })
    }

    fn usage(&self, tenant: &str) -> Result<StoreUsage, Failure> {
        Ok(self.usage.get(tenant)?.map_or_else(StoreUsage::default, |u| StoreUsage { entries: u.value().0, bytes: u.value().1 }))
    }

    fn set_usage(&mut self, tenant: &str, usage: StoreUsage) -> Result<(), Failure> {
        self.usage.insert(tenant, (usage.entries, usage.bytes))?;
        Ok(())
    }

    /// Removes an entry, readable or not.
    fn drop_key(&mut self, tenant: &str, id: &str) -> Result<bool, Failure> {
        let Some((turn, bytes)) = self.entries.remove((tenant, id))?.map(|old| {
            let bytes = old.value().len().saturating_sub(HEADER) as u64;
            (unpack(id, old.value()).ok().map(|u| u.turn), bytes)
        }) else {
            return Ok(false);
        };
        if let Some(turn) = turn {
            self.order.remove(turn)?;
        }
        for name in [tenant, TOTAL] {
            let mut usage = self.usage(name)?;
            usage.take(bytes);
            self.set_usage(name, usage)?;
        }
        Ok(true)
    }

    fn sweep(&mut self, now: u64) -> Result<u64, Failure> {
        let mut gone = Vec::new();
        for row in self.entries.iter()? {
            let (key, value) = row?;
            let (tenant, id) = key.value();
            if unpack(id, value.value()).is_ok_and(|u| expired(u.expires, now)) {
                gone.push((tenant.to_owned(), id.to_owned()));
            }
        }
        for (tenant, id) in &gone {
            self.drop_key(tenant, id)?;
        }
        Ok(gone.len() as u64)
    }

    fn oldest(&self, tenant: Option<&str>, spared: &[Entry], own: &str) -> Result<Option<(u64, String, String)>, Failure> {
        for row in self.order.iter()? {
            let (turn, key) = row?;
            let (owner, id) = key.value();
            if tenant.is_none_or(|t| t == owner) && !(owner == own && spared.iter().any(|e| e.id == id)) {
                return Ok(Some((turn.value(), owner.to_owned(), id.to_owned())));
            }
        }
        Ok(None)
    }
}

impl PageStore for DiskStore {
    fn put(&self, tenant: &str, entries: &[Entry]) -> Result<()> {
        if tenant.is_empty() {
            return Err(Error::new(Kind::InvalidInput, "the tenant's name is empty"));
        }
        entries.iter().try_for_each(|entry| self.limits.admit(entry))?;
        let now = (self.clock)();
        self.run(|db| {
            let write = db.begin_write()?;
            {
                let mut tables = Tables::open(&write)?;
                for entry in entries {
                    // A damaged entry of the same id is mended by the new text; a differing one is refused.
                    let differs = match tables.entries.get((tenant, entry.id.as_str()))? {
                        Some(old) => unpack(&entry.id, old.value()).is_ok_and(|u| !expired(u.expires, now) && u.text != entry.text),
                        None => false,
                    };
                    if differs {
                        return Err(Failure::Own(conflict(&entry.id)));
                    }
                    tables.drop_key(tenant, &entry.id)?;
                    let turn = tables.order.last()?.map_or(0, |(turn, _)| turn.value().saturating_add(1));
                    tables.entries.insert((tenant, entry.id.as_str()), pack(self.limits.expiry(now), turn, &entry.text).as_slice())?;
                    tables.order.insert(turn, (tenant, entry.id.as_str()))?;
                    for name in [tenant, TOTAL] {
                        let mut usage = tables.usage(name)?;
                        usage.add(entry.text.len() as u64);
                        tables.set_usage(name, usage)?;
                    }
                }
                let mut swept = false;
                while let Some(error) = self.limits.full(tables.usage(tenant)?, tables.usage(TOTAL)?) {
                    if !std::mem::replace(&mut swept, true) && tables.sweep(now)? > 0 {
                        continue;
                    }
                    let own_only = tables.usage(tenant)?.bytes > self.limits.tenant_bytes;
                    let oldest = if self.limits.evict { tables.oldest(own_only.then_some(tenant), entries, tenant)? } else { None };
                    let Some((turn, owner, id)) = oldest else { return Err(Failure::Own(error)) };
                    tables.order.remove(turn)?;
                    tables.drop_key(&owner, &id)?;
                }
            }
            write.commit()?;
            Ok(())
        })
    }

    fn get(&self, tenant: &str, id: &str) -> Result<Option<String>> {
        let now = (self.clock)();
        self.run(|db| {
            let table = db.begin_read()?.open_table(ENTRIES)?;
            let Some(found) = table.get((tenant, id))? else { return Ok(None) };
            let kept = unpack(id, found.value()).map_err(Failure::Own)?;
            Ok((!expired(kept.expires, now)).then(|| kept.text.to_owned()))
        })
    }

    fn remove(&self, tenant: &str, id: &str) -> Result<bool> {
        self.run(|db| {
            let write = db.begin_write()?;
            let removed = Tables::open(&write)?.drop_key(tenant, id)?;
            write.commit()?;
            Ok(removed)
        })
    }

    fn usage(&self, tenant: &str) -> Result<StoreUsage> {
        self.run(|db| {
            let table = db.begin_read()?.open_table(USAGE)?;
            Ok(table.get(tenant)?.map_or_else(StoreUsage::default, |u| StoreUsage { entries: u.value().0, bytes: u.value().1 }))
        })
    }

    fn sweep(&self) -> Result<u64> {
        let now = (self.clock)();
        self.run(|db| {
            let write = db.begin_write()?;
            let gone = Tables::open(&write)?.sweep(now)?;
            write.commit()?;
            Ok(gone)
        })
    }
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
