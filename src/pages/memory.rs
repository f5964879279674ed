//! Pages in memory: for tests, for one process, and for hosts that need no page after it.
//!
//! A plain map in order of age rather than a cache library: a cache may drop what it likes, and a page that was
//! acknowledged may not go before its time (invariant 9) unless the limits say `evict`.

use super::store::{Clock, Entry, PageStore, StoreLimits, StoreUsage, conflict, expired};
use crate::error::{Error, Kind, Result};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

/// A [`PageStore`] in memory.
pub struct MemoryStore {
    limits: StoreLimits,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: HashMap<(Arc<str>, Arc<str>), Kept>,
    order: BTreeMap<u64, (Arc<str>, Arc<str>)>,
    tenants: HashMap<Arc<str>, StoreUsage>,
    total: StoreUsage,
    next: u64,
}

struct Kept {
    text: Arc<str>,
    expires: u64,
    turn: u64,
}

impl MemoryStore {
    /// A store within `limits`, whose entries expire by `clock`.
    pub fn new(limits: StoreLimits, clock: Clock) -> Self {
        Self { limits, clock, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere can't leave the maps half changed: nothing between the changes can fail.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Default for MemoryStore {
    /// A cache of 256 MiB that lets the oldest pages go and never expires them.
    fn default() -> Self {
        let limits = StoreLimits { tenant_bytes: 256 << 20, total_bytes: 256 << 20, ttl_seconds: 0, evict: true, ..StoreLimits::default() };
        Self::new(limits, Arc::new(|| 0))
    }
}

impl State {
    fn drop_key(&mut self, key: &(Arc<str>, Arc<str>)) -> bool {
        let Some(kept) = self.entries.remove(key) else { return false };
        self.order.remove(&kept.turn);
        let bytes = kept.text.len() as u64;
        self.total.take(bytes);
        if let Some(usage) = self.tenants.get_mut(&key.0) {
            usage.take(bytes);
            if usage.entries == 0 {
                self.tenants.remove(&key.0);
            }
        }
        true
    }

    fn sweep(&mut self, now: u64) -> u64 {
        let gone: Vec<_> = self.entries.iter().filter(|(_, kept)| expired(kept.expires, now)).map(|(key, _)| key.clone()).collect();
        gone.iter().filter(|key| self.drop_key(key)).count() as u64
    }

    /// What a tenant and all would keep with `entries` added.
    fn with(&self, tenant: &Arc<str>, entries: &[Entry]) -> (StoreUsage, StoreUsage) {
        let (mut own, mut total) = (self.tenants.get(tenant).copied().unwrap_or_default(), self.total);
        for entry in entries {
            if !self.entries.contains_key(&(Arc::clone(tenant), Arc::from(entry.id.as_str()))) {
                own.add(entry.text.len() as u64);
                total.add(entry.text.len() as u64);
            }
        }
        (own, total)
    }

    /// Makes room by age, sparing some of the tenant's own ids; gives whose entry went and its size, nothing when none is left to let go.
    fn evict_one(&mut self, tenant: &Arc<str>, own_only: bool, spared: &HashSet<&str>) -> Option<(Arc<str>, u64)> {
        let may_go = |(owner, id): &&(Arc<str>, Arc<str>)| owner != tenant && !own_only || owner == tenant && !spared.contains(&**id);
        let key = self.order.values().find(may_go)?.clone();
        let bytes = self.entries.get(&key)?.text.len() as u64;
        self.drop_key(&key).then_some((key.0, bytes))
    }
}

impl PageStore for MemoryStore {
    fn put(&self, tenant: &str, entries: &[Entry]) -> Result<()> {
        let now = (self.clock)();
        let tenant: Arc<str> = Arc::from(tenant);
        let mut state = self.state();
        for entry in entries {
            self.limits.admit(entry)?;
            let key = (Arc::clone(&tenant), Arc::from(entry.id.as_str()));
            if state.entries.get(&key).is_some_and(|kept| !expired(kept.expires, now) && *kept.text != *entry.text) {
                return Err(conflict(&entry.id));
            }
        }
        state.sweep(now);
        let spared: HashSet<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
        let (mut own, mut total) = state.with(&tenant, entries);
        while let Some(error) = self.limits.full(own, total) {
            let own_only = own.bytes > self.limits.tenant_bytes;
            let gone = if self.limits.evict { state.evict_one(&tenant, own_only, &spared) } else { None };
            let (owner, bytes) = gone.ok_or(error)?;
            total.take(bytes);
            if owner == tenant {
                own.take(bytes);
            }
        }
        for entry in entries {
            let key = (Arc::clone(&tenant), Arc::from(entry.id.as_str()));
            state.drop_key(&key);
            let bytes = entry.text.len() as u64;
            state.total.add(bytes);
            state.tenants.entry(Arc::clone(&tenant)).or_default().add(bytes);
            let turn = state.next;
            state.next += 1;
            state.order.insert(turn, key.clone());
            state.entries.insert(key, Kept { text: Arc::from(entry.text.as_str()), expires: self.limits.expiry(now), turn });
        }
        Ok(())
    }

    fn get(&self, tenant: &str, id: &str) -> Result<Option<String>> {
        let now = (self.clock)();
        let state = self.state();
        let kept = state.entries.get(&(Arc::from(tenant), Arc::from(id))).filter(|kept| !expired(kept.expires, now));
        Ok(kept.map(|kept| kept.text.to_string()))
    }

    fn remove(&self, tenant: &str, id: &str) -> Result<bool> {
        Ok(self.state().drop_key(&(Arc::from(tenant), Arc::from(id))))
    }

    fn usage(&self, tenant: &str) -> Result<StoreUsage> {
        Ok(self.state().tenants.get(tenant).copied().unwrap_or_default())
    }

    fn sweep(&self) -> Result<u64> {
        let now = (self.clock)();
        Ok(self.state().sweep(now))
    }
}

/// The error for an absent, expired or foreign id: one and the same, so that nobody can probe.
pub(super) fn not_found(id: &str) -> Error {
    let short: String = id.chars().take(40).collect();
    Error::new(Kind::NotFound, format!("no page or plan `{short}` in this store"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn entry(id: &str, text: &str) -> Entry {
        Entry { id: id.into(), text: text.into() }
    }

    #[test]
    fn tenants_quotas_and_conflicts() {
        let limits = StoreLimits { entry_bytes: 8, tenant_bytes: 10, total_bytes: 15, ttl_seconds: 0, evict: false };
        let store = MemoryStore::new(limits, Arc::new(|| 0));
        store.put("a", &[entry("1", "12345678")]).unwrap();
        assert_eq!(store.get("b", "1").unwrap(), None);
        assert_eq!(store.put("a", &[entry("1", "other")]).unwrap_err().kind(), Kind::Conflict);
        assert_eq!(store.put("a", &[entry("2", "123456789")]).unwrap_err().kind(), Kind::LimitExceeded);
        assert_eq!(store.put("a", &[entry("2", "1"), entry("3", "12")]).unwrap_err().kind(), Kind::LimitExceeded);
        assert_eq!(store.get("a", "2").unwrap(), None, "all or none");
        assert_eq!(store.put("b", &[entry("1", "12345678")]).unwrap_err().kind(), Kind::LimitExceeded);
        store.put("a", &[entry("1", "12345678")]).unwrap();
        assert_eq!(store.usage("a").unwrap(), StoreUsage { entries: 1, bytes: 8 });
        assert!(store.remove("a", "1").unwrap());
        assert_eq!(store.usage("a").unwrap(), StoreUsage::default());
    }

    #[test]
    fn expiry_and_eviction_by_age() {
        let now = Arc::new(AtomicU64::new(0));
        let clock = Arc::clone(&now);
        let limits = StoreLimits { entry_bytes: 8, tenant_bytes: 10, total_bytes: 10, ttl_seconds: 5, evict: true };
        let store = MemoryStore::new(limits, Arc::new(move || clock.load(Ordering::Relaxed)));
        store.put("a", &[entry("1", "1234")]).unwrap();
        store.put("a", &[entry("2", "1234")]).unwrap();
        store.put("a", &[entry("3", "1234")]).unwrap();
        assert_eq!(store.get("a", "1").unwrap(), None);
        assert!(store.get("a", "2").unwrap().is_some());
        now.store(5, Ordering::Relaxed);
        assert_eq!(store.get("a", "2").unwrap(), None);
        assert_eq!(store.sweep().unwrap(), 2);
    }
}
