//! A bounded cache of whole texts' counts, so that a history that grows by one message costs a hash of the old ones.
//!
//! Wraps any engine ([`Tokenizer::cached`]), so that renderers need not know of it. Keys are 128-bit hashes of the
//! vocabulary's name and the text under a seed drawn at random for each cache: texts are never kept, and nobody outside
//! can prepare two texts with one hash. A hit gives the number that counting gave before, so that no count depends on the
//! cache's state (invariant 2).

use super::Tokenizer;
use super::kept::Keep;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What an entry takes with the cache's own records, in bytes.
const ENTRY_BYTES: u32 = 160;

/// A bounded cache of text counts, shared by any number of tokenizers and threads. Cheap to clone.
///
/// ```
/// let cache = plimsoll::MessageCache::new(1 << 20);
/// let o200k = plimsoll::Tokenizer::by_name("o200k_base")?.cached(&cache);
/// let message = "a long message ".repeat(100);
/// assert_eq!(o200k.count(&message), o200k.count(&message));
/// assert_eq!((cache.hits(), cache.misses()), (1, 1));
/// # Ok::<(), plimsoll::Error>(())
/// ```
#[derive(Clone)]
pub struct MessageCache {
    shared: Arc<Shared>,
}

struct Shared {
    counts: moka::sync::Cache<u128, usize, Passed>,
    latest: Latest,
    seed: u64,
    tally: Tally,
}

/// Lookups by outcome. A number that all threads add to makes each lookup wait for the one before, which costs as much as a fifth of the
/// hashes of a history: so the first threads of a process have numbers of their own, and the others share the last.
struct Tally(Box<[Lookups]>);

#[derive(Default)]
#[repr(align(64))]
struct Lookups {
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Tally {
    const THREADS: usize = 32;

    fn new() -> Self {
        Self((0..=Self::THREADS).map(|_| Lookups::default()).collect())
    }

    #[inline]
    fn add(&self, hit: bool) {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed));
        let number = NUMBER.try_with(|number| *number).unwrap_or(usize::MAX);
        let Some(lookups) = self.0.get(number.min(Self::THREADS)) else { return };
        let tally = if hit { &lookups.hits } else { &lookups.misses };
        if number < Self::THREADS {
            tally.store(tally.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        } else {
            tally.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn sum(&self, of: fn(&Lookups) -> &AtomicU64) -> u64 {
        self.0.iter().map(|lookups| of(lookups).load(Ordering::Relaxed)).sum()
    }
}

/// What was asked for lately, before the cache proper: a history's old messages are looked up again at each of its turns, and the cache's
/// own records of use cost more than the hash of a message. Four entries a place, in one line of the processor's cache; whoever comes later
/// takes the oldest's room.
struct Latest(Box<[Place]>);

#[derive(Default)]
#[repr(align(64))]
struct Place([Slot; 4]);

/// One entry: half of its key mixed with the count, and the count beside 32 more bits of the key, so that an entry of which two threads
/// wrote parts belongs to no key.
#[derive(Default)]
struct Slot {
    mixed: AtomicU64,
    count: AtomicU64,
}

/// A count's bits over a whole word.
fn spread(count: u64) -> u64 {
    count.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Latest {
    const PLACES: usize = 1 << 11;

    fn new() -> Self {
        Self((0..Self::PLACES).map(|_| Place::default()).collect())
    }

    #[allow(clippy::cast_possible_truncation, reason = "halves of a hash")]
    fn place(&self, key: u128) -> Option<(&Place, u64, u64)> {
        let (low, high) = (key as u64, (key >> 64) as u64);
        self.0.get((high >> 32) as usize % Self::PLACES).map(|place| (place, low, high))
    }

    fn find(&self, key: u128) -> Option<usize> {
        let (Place(slots), low, high) = self.place(key)?;
        // All four are looked at: no branch could guess which it is.
        let found = slots.iter().fold(u64::MAX, |found, slot| {
            let count = slot.count.load(Ordering::Relaxed) ^ (high << 32);
            let kept = u64::from(slot.mixed.load(Ordering::Relaxed) ^ spread(count) == low) & u64::from(count >> 32 == 0);
            if kept == 1 { count } else { found }
        });
        usize::try_from(found).ok().filter(|_| found != u64::MAX)
    }

    /// Counts that do not fit half a word are not kept here.
    fn put(&self, key: u128, count: usize) {
        let (Some((Place(slots), low, high)), Ok(count)) = (self.place(key), u32::try_from(count)) else { return };
        let mut next = (low ^ spread(count.into()), u64::from(count) ^ (high << 32));
        for slot in slots {
            next = (slot.mixed.swap(next.0, Ordering::Relaxed), slot.count.swap(next.1, Ordering::Relaxed));
        }
    }
}

/// Keys are hashes already: their low half serves as it is.
#[derive(Clone, Copy, Default)]
struct Passed(u64);

impl BuildHasher for Passed {
    type Hasher = Self;
    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl std::hash::Hasher for Passed {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
    fn write_u128(&mut self, key: u128) {
        #[allow(clippy::cast_possible_truncation, reason = "half of a hash is a hash")]
        let half = key as u64;
        self.0 = half;
    }
}

impl std::fmt::Debug for MessageCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MessageCache").field("hits", &self.hits()).field("misses", &self.misses()).finish_non_exhaustive()
    }
}

impl MessageCache {
    /// A cache that takes at most about `bytes` of memory, and 128 KiB; an entry takes some 160, whatever the text's length.
    pub fn new(bytes: u64) -> Self {
        let counts = moka::sync::Cache::builder().max_capacity(bytes).weigher(|_, _| ENTRY_BYTES).build_with_hasher(Passed(0));
        let seed = RandomState::new().hash_one(0_u64);
        let latest = Latest::new();
        Self { shared: Arc::new(Shared { counts, latest, seed, tally: Tally::new() }) }
    }

    /// Lookups that found a count.
    pub fn hits(&self) -> u64 {
        self.shared.tally.sum(|lookups| &lookups.hits)
    }

    /// Lookups that found none, so that the text was counted.
    pub fn misses(&self) -> u64 {
        self.shared.tally.sum(|lookups| &lookups.misses)
    }

    /// Entries now held; recent ones may not be in it yet.
    pub fn entries(&self) -> u64 {
        self.shared.counts.entry_count()
    }

    /// Memory that the entries take, in bytes; recent ones may not be in it yet.
    pub fn bytes(&self) -> u64 {
        self.shared.counts.weighted_size()
    }
}

impl Keep for Shared {
    const SHORTEST: usize = 512;

    fn find(&self, key: u128) -> Option<usize> {
        let found = self.latest.find(key).or_else(|| {
            let found = self.counts.get(&key)?;
            self.latest.put(key, found);
            Some(found)
        });
        self.tally.add(found.is_some());
        found
    }

    fn put(&self, key: u128, count: usize) {
        self.latest.put(key, count);
        self.counts.insert(key, count);
    }
}

impl Tokenizer {
    /// The same tokenizer with whole texts' counts kept in `cache`. Ids and appended texts go past the cache.
    #[must_use]
    pub fn cached(&self, cache: &MessageCache) -> Self {
        self.kept(&cache.shared, cache.shared.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cached_count_is_the_count_and_vocabularies_are_told_apart() {
        let cache = MessageCache::new(1 << 20);
        let text = "héllo, wörld 你好 ".repeat(80);
        for name in ["o200k_base", "cl100k_base", "r50k_base"] {
            let plain = Tokenizer::by_name(name).unwrap();
            let cached = plain.cached(&cache);
            for _ in 0..3 {
                assert_eq!(cached.count(&text), plain.count(&text), "{name}");
                let count = plain.count(&text);
                assert_eq!(cached.count_within(&text, count), Some(count), "{name}");
                assert_eq!(cached.count_within(&text, count - 1), None, "{name}");
            }
        }
        assert_eq!((cache.misses(), cache.hits()), (3, 24));
    }

    #[test]
    fn every_lookup_of_every_thread_is_told() {
        let cache = MessageCache::new(1 << 20);
        let tokenizer = Tokenizer::by_name("o200k_base").unwrap().cached(&cache);
        let text = "a word ".repeat(100);
        tokenizer.count(&text);
        // More threads than have numbers of their own, at the same time.
        std::thread::scope(|scope| {
            for _ in 0..2 * Tally::THREADS {
                scope.spawn(|| (0..500).for_each(|_| assert!(tokenizer.count(&text) > 100)));
            }
        });
        assert_eq!((cache.misses(), cache.hits()), (1, 2 * Tally::THREADS as u64 * 500));
    }

    #[test]
    fn it_stays_within_its_bound() {
        let cache = MessageCache::new(10 * u64::from(ENTRY_BYTES));
        let tokenizer = Tokenizer::by_name("o200k_base").unwrap().cached(&cache);
        for number in 0..200 {
            tokenizer.count(&format!("{number} {}", "word ".repeat(200)));
        }
        cache.shared.counts.run_pending_tasks();
        assert!(cache.entries() <= 10 && cache.bytes() <= 10 * u64::from(ENTRY_BYTES), "{} entries", cache.entries());
    }

    #[test]
    fn threads_that_write_one_place_never_make_an_entry_of_both() {
        let latest = Latest::new();
        // Counts told by their keys; all keys have the same place.
        let key = |n: usize| (n as u128) << 70 | (n as u128).wrapping_mul(0x9E37_79B9_7F4A_7C15) & u128::from(u64::MAX);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let latest = &latest;
                scope.spawn(move || {
                    for n in (0..20_000).map(|n| 128 * (3 * (n % 5) + thread)) {
                        latest.put(key(n), n + 1);
                        for other in (0..15).map(|m| 128 * m) {
                            assert!(latest.find(key(other)).is_none_or(|count| count == other + 1));
                        }
                    }
                });
            }
        });
        assert!((0..15).any(|m| latest.find(key(128 * m)).is_some()), "the last one written is found");
    }
}
