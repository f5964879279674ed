//! Where counting runs: off the async threads, a bounded number at a time, with a bounded queue before it.
//!
//! Called by every service method. A call over the queue is refused at once, one whose deadline passes or whose client
//! leaves while it waits never starts, and a count under way keeps its worker until it ends, so that abandoned calls
//! can't pile up threads.

use crate::error::{Error, Kind, Result};
use crate::proto::status_of;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tonic::Status;
use tonic::metadata::MetadataMap;

/// A bounded pool of blocking work. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    workers: usize,
    /// Calls that wait or run.
    admitted: Arc<Semaphore>,
    /// Work that runs.
    running: Arc<Semaphore>,
    call_limit: Option<Duration>,
}

impl Pool {
    pub(super) fn new(workers: usize, queue: usize, call_limit: Option<Duration>) -> Self {
        let workers = workers.clamp(1, 512);
        let places = workers.saturating_add(queue).min(Semaphore::MAX_PERMITS);
        Self { workers, admitted: Arc::new(Semaphore::new(places)), running: Arc::new(Semaphore::new(workers)), call_limit }
    }

    /// Work that may run at a time.
    pub(super) fn workers(&self) -> usize {
        self.workers
    }

    /// Runs a call's work, or refuses it when the queue is full.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        deadline: Option<Instant>,
        job: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T, Status> {
        let Ok(_place) = self.admitted.try_acquire() else {
            return Err(status_of(&Error::new(Kind::LimitExceeded, "the server is busy: its queue is full; try again later")));
        };
        self.wait(deadline, job).await?.map_err(|e| status_of(&e))
    }

    /// Runs one piece of a stream's work, waiting for a worker: the stream itself holds its sender back.
    pub(super) async fn wait<T: Send + 'static>(
        &self,
        deadline: Option<Instant>,
        job: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<Result<T>, Status> {
        let work = async {
            let permit = Arc::clone(&self.running).acquire_owned().await.map_err(|_| Status::unavailable("the server is stopping"))?;
            let task = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                job()
            });
            task.await.map_err(|e| {
                tracing::error!(panicked = e.is_panic(), "a count ended abnormally");
                status_of(&Error::new(Kind::Internal, "a count ended abnormally"))
            })
        };
        match deadline {
            // A timer whose time has come still polls the work once: a late call must not start.
            Some(at) if at <= Instant::now() => Err(late()),
            Some(at) => timeout_at(at, work).await.unwrap_or_else(|_| Err(late())),
            None => work.await,
        }
    }

    /// When a call must end: its own `grpc-timeout` or the server's limit, whichever is sooner.
    pub(super) fn deadline(&self, metadata: &MetadataMap) -> Option<Instant> {
        let own = metadata.get("grpc-timeout").and_then(|value| value.to_str().ok()).and_then(grpc_timeout);
        let limit = own.into_iter().chain(self.call_limit).min()?;
        // A little sooner than the transport's own timer, which would answer CANCELLED.
        let early = (limit / 10).min(Duration::from_millis(5));
        Instant::now().checked_add(limit.saturating_sub(early))
    }
}

pub(super) fn late() -> Status {
    Status::deadline_exceeded("the call's deadline passed")
}

/// Reads `grpc-timeout`: up to eight digits and a unit.
fn grpc_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let n: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(n * 3600),
        "M" => Duration::from_secs(n * 60),
        "S" => Duration::from_secs(n),
        "m" => Duration::from_millis(n),
        "u" => Duration::from_micros(n),
        "n" => Duration::from_nanos(n),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use tonic::Code;

    #[test]
    fn timeouts_read_as_the_protocol_writes_them() {
        for (text, expected) in [("5S", Some(5000)), ("100m", Some(100)), ("1H", Some(3_600_000)), ("99999999M", Some(5_999_999_940_000))] {
            assert_eq!(grpc_timeout(text).map(|d| d.as_millis()), expected, "{text}");
        }
        for text in ["", "S", "5", "5s", "-5S", "999999999S", "5é"] {
            assert_eq!(grpc_timeout(text), None, "{text}");
        }
    }

    #[tokio::test]
    async fn refuses_over_the_queue_and_recovers() {
        let pool = Pool::new(1, 1, None);
        let (release, wait) = mpsc::channel::<()>();
        let (started, has_started) = tokio::sync::oneshot::channel();
        let (first, second) = (pool.clone(), pool.clone());
        let first = tokio::spawn(async move {
            let job = move || {
                let _ = started.send(());
                let _ = wait.recv();
                Ok(1)
            };
            first.run(None, job).await
        });
        has_started.await.unwrap();
        let second = tokio::spawn(async move { second.run(None, || Ok(2)).await });
        while pool.admitted.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let refused = pool.run(None, || Ok(3)).await.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        release.send(()).unwrap();
        assert_eq!((first.await.unwrap().unwrap(), second.await.unwrap().unwrap()), (1, 2));
        assert_eq!(pool.run(None, || Ok(4)).await.unwrap(), 4);
    }

    #[tokio::test]
    async fn a_passed_deadline_never_starts_and_a_left_call_frees_its_place() {
        let pool = Pool::new(1, 4, None);
        let hold = Arc::clone(&pool.running).acquire_owned().await.unwrap();
        let late = pool.run(Some(Instant::now()), || -> Result<()> { panic!("must not start") }).await.unwrap_err();
        assert_eq!(late.code(), Code::DeadlineExceeded);
        let left = tokio::spawn({
            let pool = pool.clone();
            async move { pool.run(None, || -> Result<()> { panic!("must not start") }).await }
        });
        while pool.admitted.available_permits() == 5 {
            tokio::task::yield_now().await;
        }
        left.abort();
        assert!(left.await.unwrap_err().is_cancelled());
        assert_eq!(pool.admitted.available_permits(), 5);
        drop(hold);
        assert_eq!(pool.run(None, || Ok(1)).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn a_panic_is_an_internal_error_and_the_worker_returns() {
        let pool = Pool::new(1, 0, None);
        let broken = pool.run(None, || -> Result<()> { panic!("defect") }).await.unwrap_err();
        assert_eq!(broken.code(), Code::Internal);
        assert_eq!(pool.run(None, || Ok(1)).await.unwrap(), 1);
    }
}
