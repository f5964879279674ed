//! A real server on a port of its own for each test, and our client for it.
#![allow(dead_code, unreachable_pub, missing_docs, clippy::unwrap_used, reason = "helpers of tests, each user takes its own part")]

use plimsoll::client::Client;
use plimsoll::server::{Ended, ServerConfig, run};
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub struct Server {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    ended: JoinHandle<plimsoll::Result<Ended>>,
}

impl Server {
    pub async fn start(config: ServerConfig) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async move {
            let _ = stopped.await;
        };
        Self { address, stop: Some(stop), ended: tokio::spawn(run(listener, config, shutdown)) }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub async fn client(&self) -> Client {
        Client::connect(&self.url()).await.unwrap()
    }

    pub async fn stop(mut self) -> Ended {
        let _ = self.stop.take().unwrap().send(());
        self.ended.await.unwrap().unwrap()
    }
}
