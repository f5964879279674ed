//! `plimsoll serve`: opens the listener, hands it to the service, and asks it to drain on a signal.
//!
//! The only place that reads the service's settings from flags and the environment. Listens on loopback unless told otherwise.

use super::args::TableArgs;
use super::endpoint::EndpointArgs;
use super::output::{Output, Status};
use super::page::clock;
use crate::count::{Counter, PrefixStore};
use crate::error::{Error, Kind, Result};
use crate::pages::{MemoryStore, PageStore, StoreLimits};
use crate::server::{self, Ended, ServerConfig};
use crate::tokenizer::MessageCache;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Arguments of `serve`.
#[derive(Args, Debug)]
#[command(
    after_help = "Ends on SIGINT or SIGTERM: no new calls are taken, those under way may end within --drain.\nExit codes: 0 drained, 1 calls were cut at the end of --drain, 2 bad input."
)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    table: TableArgs,
    /// Address to listen on. Other than loopback, put something that checks callers in front.
    #[arg(short, long, default_value = "127.0.0.1:50051", env = "PLIMSOLL_LISTEN")]
    listen: SocketAddr,
    /// Largest message taken, in MiB.
    #[arg(long, default_value_t = crate::limits::DEFAULT_MESSAGE_BYTES >> 20, value_name = "MIB", env = "PLIMSOLL_MAX_MESSAGE_MIB")]
    max_message: usize,
    /// Memory for counts of texts seen before, in MiB; 0 for none.
    #[arg(long, default_value_t = crate::limits::DEFAULT_CACHE_BYTES >> 20, value_name = "MIB", env = "PLIMSOLL_CACHE_MIB")]
    cache: u64,
    /// Memory for the histories that clients ask to keep, so that they send only what is new, in MiB; 0 for none.
    #[arg(long, default_value_t = crate::limits::DEFAULT_PREFIX_BYTES >> 20, value_name = "MIB", env = "PLIMSOLL_PREFIXES_MIB")]
    prefixes: u64,
    /// Counts that run at a time; without it one for each core.
    #[arg(long, value_name = "N", env = "PLIMSOLL_WORKERS")]
    workers: Option<usize>,
    /// Calls that may wait for a worker before further ones are refused; without it 16 for each worker.
    #[arg(long, value_name = "N", env = "PLIMSOLL_QUEUE")]
    queue: Option<usize>,
    /// Seconds that calls under way may take to end after a signal.
    #[arg(long, default_value_t = 10, value_name = "SECONDS", env = "PLIMSOLL_DRAIN")]
    drain: u64,
    /// Longest time a call may take in seconds, whatever deadline it brings.
    #[arg(long, value_name = "SECONDS", env = "PLIMSOLL_CALL_LIMIT")]
    call_limit: Option<u64>,
    #[command(flatten)]
    pages: PagesArgs,
    #[command(flatten)]
    endpoint: EndpointArgs,
}

/// Where the service keeps what compaction cuts.
#[derive(Args, Debug)]
struct PagesArgs {
    /// Folder of the page store; without it pages are in memory and end with the process.
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_STORE")]
    store: Option<PathBuf>,
    /// Days that pages and plans are kept after they were last written; 0 keeps them.
    #[arg(long, default_value_t = 30, value_name = "DAYS", env = "PLIMSOLL_PAGE_DAYS")]
    page_days: u64,
    /// Most that the store keeps, in MiB; without it 65536 on disk and 1024 in memory.
    #[arg(long, value_name = "MIB", env = "PLIMSOLL_STORE_MIB")]
    store_max: Option<u64>,
    /// Most that one tenant keeps, in MiB; without it a sixteenth of the store on disk, a quarter in memory.
    #[arg(long, value_name = "MIB", env = "PLIMSOLL_TENANT_MIB")]
    tenant_max: Option<u64>,
    /// When full, let the oldest pages go instead of refusing to compact; undo then ends with them.
    #[arg(long, env = "PLIMSOLL_EVICT")]
    evict: bool,
}

impl PagesArgs {
    fn open(&self) -> Result<Arc<dyn PageStore>> {
        let (total, share) = if self.store.is_some() { (65_536, 16) } else { (1_024, 4) };
        let total = self.store_max.unwrap_or(total);
        let tenant = self.tenant_max.unwrap_or(total / share);
        if total == 0 || tenant == 0 || tenant > total {
            return Err(Error::new(
                Kind::InvalidInput,
                format!("a tenant's {tenant} MiB of the store's {total} MiB; expected 1 to all of it"),
            ));
        }
        let limits = StoreLimits {
            tenant_bytes: tenant.saturating_mul(1 << 20),
            total_bytes: total.saturating_mul(1 << 20),
            ttl_seconds: self.page_days.saturating_mul(24 * 3600),
            evict: self.evict,
            ..StoreLimits::default()
        };
        match &self.store {
            None => Ok(Arc::new(MemoryStore::new(limits, clock()))),
            #[cfg(feature = "pages-disk")]
            Some(folder) => Ok(Arc::new(crate::pages::DiskStore::open(folder, limits, clock())?)),
            #[cfg(not(feature = "pages-disk"))]
            Some(_) => Err(Error::new(Kind::Unsupported, "this build has no page store on disk (feature `pages-disk`)")),
        }
    }
}

pub(super) fn run(args: &ServeArgs, output: &mut Output) -> Result<Status> {
    let config = config(args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::new(Kind::Unavailable, "no threads for the service").caused_by(e))?;
    let ended = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(args.listen)
            .await
            .map_err(|e| Error::new(Kind::Unavailable, format!("can't listen on {}", args.listen)).caused_by(e))?;
        let address = listener.local_addr().map_err(|e| Error::new(Kind::Unavailable, "the listener has no address").caused_by(e))?;
        let signal = signal();
        output.line(&if output.json() {
            serde_json::json!({"listening": address.to_string()}).to_string()
        } else {
            format!("listening on {address}")
        })?;
        server::run(listener, config, signal).await
    })?;
    Ok(if ended == Ended::Drained { Status::Done } else { Status::DoesNotFit })
}

fn config(args: &ServeArgs) -> Result<ServerConfig> {
    let positive = |name: &str, value: usize| {
        if value == 0 { Err(Error::new(Kind::InvalidInput, format!("{name} is 0; expected at least 1"))) } else { Ok(value) }
    };
    let mut counter = Counter::with_models(args.table.load()?);
    if args.cache > 0 {
        counter = counter.with_cache(MessageCache::new(args.cache.saturating_mul(1 << 20)));
    }
    let prefixes = PrefixStore::new(args.prefixes.saturating_mul(1 << 20));
    let mut config = ServerConfig { counter, prefixes, drain: Duration::from_secs(args.drain), ..ServerConfig::default() };
    config.message_bytes = positive("--max-message", args.max_message)?
        .checked_mul(1 << 20)
        .ok_or_else(|| Error::new(Kind::InvalidInput, "--max-message is larger than memory can be"))?;
    if let Some(workers) = args.workers {
        config.workers = positive("--workers", workers)?;
        config.queue = workers.saturating_mul(16);
    }
    config.queue = args.queue.unwrap_or(config.queue);
    config.call_limit = args.call_limit.map(Duration::from_secs);
    config.store = args.pages.open()?;
    config.summarizer = args.endpoint.summarizer()?;
    Ok(config)
}

/// Resolves at the first signal to end. Signals are caught from the call on, before anybody is told that the service listens.
#[cfg(unix)]
fn signal() -> impl Future<Output = ()> + Send + 'static {
    use tokio::signal::unix::{Signal, SignalKind, signal};
    async fn first(of: std::io::Result<Signal>) {
        match of {
            Ok(mut signals) => drop(signals.recv().await),
            // What can't be caught ends the process by itself.
            Err(_) => std::future::pending().await,
        }
    }
    let (terminate, interrupt) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    async {
        tokio::select! {
            () = first(terminate) => {}
            () = first(interrupt) => {}
        }
    }
}

/// Resolves at the first signal to end.
#[cfg(not(unix))]
fn signal() -> impl Future<Output = ()> + Send + 'static {
    async { drop(tokio::signal::ctrl_c().await) }
}
