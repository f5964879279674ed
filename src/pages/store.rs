//! The seam between pages and wherever they are kept: a trait, its entries, its limits.
//!
//! Implemented by the memory and disk stores here and by shared stores elsewhere; tests put failing stores behind it.
//! A store may refuse, never lose: what `put` acknowledged is there until it expires or is removed.

use crate::error::{Error, Kind, Result};
use crate::limits;
use std::sync::Arc;

/// Seconds since the Unix epoch, as the edge tells them; stores never read a clock of their own.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// One kept text under its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its id within the tenant: `pg_…` for a page's text, `pl_…` for a plan.
    pub id: String,
    /// Its text.
    pub text: String,
}

/// What a store may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// Largest single text, in bytes.
    pub entry_bytes: u64,
    /// Most that one tenant may keep, in bytes.
    pub tenant_bytes: u64,
    /// Most that all tenants together may keep, in bytes.
    pub total_bytes: u64,
    /// How long an entry is kept after it was last put, in seconds; 0 keeps it until it is removed.
    pub ttl_seconds: u64,
    /// When full: make room by letting the oldest entries go (a cache), or refuse (a record).
    pub evict: bool,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self {
            entry_bytes: limits::MAX_PAGE_ENTRY_BYTES,
            tenant_bytes: 4 << 30,
            total_bytes: 64 << 30,
            ttl_seconds: 30 * 24 * 3600,
            evict: false,
        }
    }
}

/// What is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreUsage {
    /// Number of entries.
    pub entries: u64,
    /// Their texts, in bytes.
    pub bytes: u64,
}

impl StoreUsage {
    pub(super) fn add(&mut self, bytes: u64) {
        self.entries = self.entries.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    pub(super) fn take(&mut self, bytes: u64) {
        self.entries = self.entries.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// Where texts are kept. Tenants never see each other's.
pub trait PageStore: Send + Sync {
    /// Keeps all entries or none; on return they survive the process (for stores that outlive it).
    /// An id that is there with the same text only has its expiry renewed.
    ///
    /// # Errors
    /// [`Kind::LimitExceeded`] over a limit, [`Kind::Conflict`] for an id that holds another text,
    /// [`Kind::Unavailable`] when the store can't be written.
    fn put(&self, tenant: &str, entries: &[Entry]) -> Result<()>;

    /// The text under an id, unless absent or expired.
    ///
    /// # Errors
    /// [`Kind::Corrupt`] for a damaged entry (others stay readable), [`Kind::Unavailable`] when the store can't be read.
    fn get(&self, tenant: &str, id: &str) -> Result<Option<String>>;

    /// Removes an entry; tells whether it was there.
    ///
    /// # Errors
    /// As [`PageStore::put`].
    fn remove(&self, tenant: &str, id: &str) -> Result<bool>;

    /// What a tenant keeps, expired entries included until they are swept.
    ///
    /// # Errors
    /// As [`PageStore::get`].
    fn usage(&self, tenant: &str) -> Result<StoreUsage>;

    /// Removes what has expired; gives the number of entries removed.
    ///
    /// # Errors
    /// As [`PageStore::put`].
    fn sweep(&self) -> Result<u64>;
}

impl StoreLimits {
    /// Refuses what can never be kept.
    pub(super) fn admit(&self, entry: &Entry) -> Result<()> {
        let bytes = entry.text.len() as u64;
        if bytes > self.entry_bytes {
            return Err(Error::new(Kind::LimitExceeded, format!("a text of {bytes} bytes; at most {} are kept", self.entry_bytes)));
        }
        Ok(())
    }

    /// When an entry put at `now` expires (0: never).
    pub(super) fn expiry(&self, now: u64) -> u64 {
        if self.ttl_seconds == 0 { 0 } else { now.saturating_add(self.ttl_seconds) }
    }

    /// The refusal for a full store.
    pub(super) fn full(&self, tenant: StoreUsage, total: StoreUsage) -> Option<Error> {
        let (name, cap) = if tenant.bytes > self.tenant_bytes {
            ("the tenant's quota", self.tenant_bytes)
        } else if total.bytes > self.total_bytes {
            ("the store's size", self.total_bytes)
        } else {
            return None;
        };
        Some(Error::new(Kind::LimitExceeded, format!("the page store is full: {name} is {cap} bytes")))
    }
}

/// Whether an expiry has passed.
pub(super) fn expired(expires: u64, now: u64) -> bool {
    expires != 0 && expires <= now
}

/// The refusal for one id with two texts.
pub(super) fn conflict(id: &str) -> Error {
    Error::new(Kind::Conflict, format!("page `{id}` already holds another text"))
}
