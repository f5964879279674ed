//! `plimsoll serve`: opens the listener, hands it to the service, and asks it to drain on a signal.
//!
//! The only place that reads the service's settings from flags and the environment. Listens on loopback unless told otherwise.

use super::args::TableArgs;
use super::output::{Output, Status};
use crate::count::Counter;
use crate::error::{Error, Kind, Result};
use crate::server::{self, Ended, ServerConfig};
use clap::Args;
use std::net::SocketAddr;
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
        output.line(&if output.json() {
            serde_json::json!({"listening": address.to_string()}).to_string()
        } else {
            format!("listening on {address}")
        })?;
        server::run(listener, config, signal()).await
    })?;
    Ok(if ended == Ended::Drained { Status::Done } else { Status::DoesNotFit })
}

fn config(args: &ServeArgs) -> Result<ServerConfig> {
    let positive = |name: &str, value: usize| {
        if value == 0 { Err(Error::new(Kind::InvalidInput, format!("{name} is 0; expected at least 1"))) } else { Ok(value) }
    };
    let mut config = ServerConfig {
        counter: Counter::with_models(args.table.load()?),
        drain: Duration::from_secs(args.drain),
        ..ServerConfig::default()
    };
    config.message_bytes = positive("--max-message", args.max_message)?
        .checked_mul(1 << 20)
        .ok_or_else(|| Error::new(Kind::InvalidInput, "--max-message is larger than memory can be"))?;
    if let Some(workers) = args.workers {
        config.workers = positive("--workers", workers)?;
        config.queue = workers.saturating_mul(16);
    }
    config.queue = args.queue.unwrap_or(config.queue);
    config.call_limit = args.call_limit.map(Duration::from_secs);
    Ok(config)
}

/// Resolves at the first signal to end.
async fn signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
