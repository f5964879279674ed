//! Build, serve, drain: from a listener and settings to a server that has ended.
//!
//! Called by `plimsoll serve` and by tests. Opens nothing: the listener is the caller's, so port zero and loopback
//! are the caller's choice, and the command line's default is loopback.

use super::compact::Compaction;
use super::config::ServerConfig;
use super::pool::Pool;
use super::rpc::Rpc;
use super::turn::Followed;
use crate::error::{Error, Kind, Result};
use crate::pages::PageStore;
use crate::proto::DESCRIPTORS;
use crate::proto::v1::compact_service_server::CompactServiceServer;
use crate::proto::v1::count_service_server::CountServiceServer;
use crate::proto::v1::model_service_server::ModelServiceServer;
use crate::proto::v1::turn_service_server::TurnServiceServer;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every call under way ended by itself.
    Drained,
    /// The time for that ran out, and what was left was cut.
    Cut,
}

/// Summaries that are asked of the endpoint at a time.
const SUMMARIES: usize = 16;
/// How often expired pages are removed.
const SWEEP: Duration = Duration::from_secs(600);

/// Removes expired pages now and then, for as long as it lives.
struct Sweeper(tokio::task::JoinHandle<()>);

impl Sweeper {
    fn start(store: Arc<dyn PageStore>) -> Self {
        Self(tokio::spawn(async move {
            let mut ticks = tokio::time::interval(SWEEP);
            loop {
                ticks.tick().await;
                let store = Arc::clone(&store);
                match tokio::task::spawn_blocking(move || store.sweep()).await {
                    Ok(Ok(gone)) => tracing::debug!(gone, "expired pages removed"),
                    Ok(Err(error)) => tracing::warn!(kind = %error.kind(), "expired pages could not be removed"),
                    Err(_) => tracing::warn!("removing expired pages ended abnormally"),
                }
            }
        }))
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Serves until `shutdown` resolves, then takes no more calls and lets those under way end within
/// [`ServerConfig::drain`]. Health turns to NOT_SERVING first.
///
/// # Errors
/// [`Kind::Unavailable`] when the transport fails; [`Kind::Internal`] when the reflection data does not read.
pub async fn run(listener: TcpListener, config: ServerConfig, shutdown: impl Future<Output = ()> + Send + 'static) -> Result<Ended> {
    let ServerConfig { counter, prefixes, message_bytes, workers, queue, drain, call_limit, streams, store, summarizer } = config;
    let _sweeper = Sweeper::start(Arc::clone(&store));
    let compaction = Compaction { store, summarizer, writing: Pool::new(SUMMARIES, 4 * SUMMARIES, call_limit) };
    let rpc = Rpc { counter, prefixes, pool: Pool::new(workers, queue, call_limit), followed: Followed::default(), compaction };
    let counts = CountServiceServer::new(rpc.clone()).max_decoding_message_size(message_bytes);
    let compactions = CompactServiceServer::new(rpc.clone()).max_decoding_message_size(message_bytes);
    let turns = TurnServiceServer::new(rpc.clone()).max_decoding_message_size(message_bytes);
    let models = ModelServiceServer::new(rpc).max_decoding_message_size(message_bytes);

    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<CountServiceServer<Rpc>>().await;
    health.set_serving::<ModelServiceServer<Rpc>>().await;
    health.set_serving::<TurnServiceServer<Rpc>>().await;
    health.set_serving::<CompactServiceServer<Rpc>>().await;
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let broken = |e: tonic_reflection::server::Error| Error::new(Kind::Internal, "the reflection data does not read").caused_by(e);

    let (stopping, stopped) = oneshot::channel();
    let signal = async move {
        shutdown.await;
        health.set_not_serving::<CountServiceServer<Rpc>>().await;
        health.set_not_serving::<ModelServiceServer<Rpc>>().await;
        health.set_not_serving::<TurnServiceServer<Rpc>>().await;
        health.set_not_serving::<CompactServiceServer<Rpc>>().await;
        health.set_service_status("", tonic_health::ServingStatus::NotServing).await;
        let _ = stopping.send(());
    };
    let serving = Server::builder()
        .max_concurrent_streams(streams)
        .http2_keepalive_interval(Some(Duration::from_secs(60)))
        .http2_keepalive_timeout(Some(Duration::from_secs(20)))
        .http2_adaptive_window(Some(true))
        .add_service(counts)
        .add_service(models)
        .add_service(turns)
        .add_service(compactions)
        // Further services go here, one line each, beside their `set_serving` above.
        .add_service(health_service)
        .add_service(reflection().build_v1().map_err(broken)?)
        .add_service(reflection().build_v1alpha().map_err(broken)?)
        .serve_with_incoming_shutdown(TcpIncoming::from(listener).with_nodelay(Some(true)), signal);
    let overtime = async {
        if stopped.await.is_ok() {
            tokio::time::sleep(drain).await;
        } else {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        ended = serving => {
            ended.map(|()| Ended::Drained).map_err(|e| Error::new(Kind::Unavailable, "the server's transport failed").caused_by(e))
        }
        () = overtime => {
            tracing::warn!("calls under way were cut: the time to end them ran out");
            Ok(Ended::Cut)
        }
    }
}
