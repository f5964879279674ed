//! What a server is told before it starts. Plain values; opens nothing.
//!
//! Filled by `plimsoll serve` from flags and by embedding hosts; taken apart by [`super::run`].

use crate::compact::Summarizer;
use crate::count::{Counter, PrefixStore};
use crate::limits;
use crate::pages::{MemoryStore, PageStore};
use crate::tokenizer::MessageCache;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

/// A server's settings. [`ServerConfig::default`] suits a machine of its own.
#[derive(Clone)]
pub struct ServerConfig {
    /// Counts; carries the model table, and by default a cache of texts' counts ([`limits::DEFAULT_CACHE_BYTES`]).
    pub counter: Counter,
    /// Bodies behind prefix ids ([`limits::DEFAULT_PREFIX_BYTES`]).
    pub prefixes: PrefixStore,
    /// Largest message taken, in bytes (64 MiB).
    pub message_bytes: usize,
    /// Counts that run at a time (the machine's cores).
    pub workers: usize,
    /// Calls that may wait for a worker before further ones are refused with RESOURCE_EXHAUSTED (16 for each worker).
    pub queue: usize,
    /// How long calls under way may take to end after shutdown is asked for (10 s).
    pub drain: Duration,
    /// Longest time a call may take, whatever deadline it brings (none).
    pub call_limit: Option<Duration>,
    /// Calls at a time on one connection (128).
    pub streams: u32,
    /// Where compaction keeps what it cuts (256 MiB in memory, the oldest go first).
    pub store: Arc<dyn PageStore>,
    /// Who writes summaries for policies that name the endpoint (nobody: such a policy is refused).
    pub summarizer: Option<Arc<dyn Summarizer + Send + Sync>>,
}

impl std::fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerConfig")
            .field("message_bytes", &self.message_bytes)
            .field("workers", &self.workers)
            .field("queue", &self.queue)
            .field("drain", &self.drain)
            .field("call_limit", &self.call_limit)
            .field("streams", &self.streams)
            .finish_non_exhaustive()
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        let workers = std::thread::available_parallelism().map_or(2, NonZeroUsize::get);
        Self {
            counter: Counter::new().with_cache(MessageCache::new(limits::DEFAULT_CACHE_BYTES)),
            prefixes: PrefixStore::new(limits::DEFAULT_PREFIX_BYTES),
            message_bytes: limits::DEFAULT_MESSAGE_BYTES,
            workers,
            queue: workers.saturating_mul(16),
            drain: Duration::from_secs(10),
            call_limit: None,
            streams: 128,
            store: Arc::new(MemoryStore::default()),
            summarizer: None,
        }
    }
}
