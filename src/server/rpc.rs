//! The methods of the services: each hands its work to the pool and packs the answer.
//!
//! No method counts on an async thread, keeps state between calls, or logs what a request holds.

use super::compact::Compaction;
use super::convert;
use super::pool::Pool;
use super::turn::Followed;
use crate::count::{Counter, PrefixStore};
use crate::error::Result as CoreResult;
use crate::models::Models;
use crate::proto::v1::count_service_server::CountService;
use crate::proto::v1::model_service_server::ModelService;
use crate::proto::{detail_of, status_of, v1};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming, async_trait};

/// All services. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Rpc {
    pub(super) counter: Counter,
    pub(super) prefixes: PrefixStore,
    pub(super) pool: Pool,
    pub(super) followed: Followed,
    pub(super) compaction: Compaction,
}

impl Rpc {
    /// Runs one call's work on the pool and notes how it ended.
    pub(super) async fn call<M, T>(
        &self,
        method: &'static str,
        request: Request<M>,
        work: impl FnOnce(&Counter, &M) -> CoreResult<T> + Send + 'static,
    ) -> Result<Response<T>, Status>
    where
        M: Send + 'static,
        T: Send + 'static,
    {
        let deadline = self.pool.deadline(request.metadata());
        let (counter, message) = (self.counter.clone(), request.into_inner());
        self.timed(method, self.pool.run(deadline, move || work(&counter, &message))).await.map(Response::new)
    }

    /// Notes how a call ended and how long it took.
    pub(super) async fn timed<T>(&self, method: &'static str, call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
        let started = Instant::now();
        let result = call.await;
        let code = result.as_ref().map_or_else(Status::code, |_| tonic::Code::Ok);
        tracing::debug!(method, ?code, elapsed_ms = started.elapsed().as_secs_f64() * 1000.0);
        result
    }
}

#[async_trait]
impl CountService for Rpc {
    type CountBatchStream = ReceiverStream<Result<v1::CountBatchResponse, Status>>;

    async fn count(&self, request: Request<v1::CountRequest>) -> Result<Response<v1::CountResponse>, Status> {
        let prefixes = self.prefixes.clone();
        self.call("Count", request, move |counter, message| convert::count(counter, &prefixes, message)).await
    }

    async fn count_batch(&self, request: Request<Streaming<v1::CountBatchRequest>>) -> Result<Response<Self::CountBatchStream>, Status> {
        let deadline = self.pool.deadline(request.metadata());
        let (answers, stream) = mpsc::channel(1);
        // Requests are read only so far ahead as workers can take them: the transport holds the sender back.
        let (jobs, done) = mpsc::channel(self.pool.workers());
        tokio::spawn(read_batch(self.clone(), deadline, request.into_inner(), jobs));
        tokio::spawn(answer_batch(done, answers));
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn budget(&self, request: Request<v1::BudgetRequest>) -> Result<Response<v1::BudgetResponse>, Status> {
        let prefixes = self.prefixes.clone();
        self.call("Budget", request, move |counter, message| convert::budget(counter, &prefixes, message)).await
    }
}

/// One request of a batch under way, or the status that ends the stream.
type Job = Result<(String, AbortOnDrop), Status>;

/// Work that ends when nobody waits for it any more.
struct AbortOnDrop(JoinHandle<Result<CoreResult<v1::CountResponse>, Status>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Starts the work of each request as it comes, until the stream ends or nobody reads the answers.
async fn read_batch(rpc: Rpc, deadline: Option<Instant>, mut requests: Streaming<v1::CountBatchRequest>, jobs: mpsc::Sender<Job>) {
    loop {
        let next = tokio::select! {
            next = requests.message() => next,
            () = jobs.closed() => return,
        };
        let job = match next {
            Ok(None) => return,
            Ok(Some(message)) => {
                let (rpc, request) = (rpc.clone(), message.request.unwrap_or_default());
                let work = async move { rpc.pool.wait(deadline, move || convert::count(&rpc.counter, &rpc.prefixes, &request)).await };
                Ok((message.id, AbortOnDrop(tokio::spawn(work))))
            }
            Err(status) => Err(status),
        };
        let last = job.is_err();
        if jobs.send(job).await.is_err() || last {
            return;
        }
    }
}

/// Sends the answers in the order of the requests.
async fn answer_batch(mut jobs: mpsc::Receiver<Job>, answers: mpsc::Sender<Result<v1::CountBatchResponse, Status>>) {
    use v1::count_batch_response::Result as Answer;
    loop {
        let job = tokio::select! {
            job = jobs.recv() => job,
            () = answers.closed() => return,
        };
        let answer = match job {
            None => return,
            Some(Err(status)) => Err(status),
            Some(Ok((id, mut work))) => match (&mut work.0).await {
                Ok(Ok(counted)) => {
                    let result = counted.map_or_else(|error| Answer::Error(detail_of(&error)), Answer::Count);
                    Ok(v1::CountBatchResponse { id, result: Some(result) })
                }
                Ok(Err(status)) => Err(status),
                Err(_) => Err(Status::cancelled("the stream ended")),
            },
        };
        let last = answer.is_err();
        if answers.send(answer).await.is_err() || last {
            return;
        }
    }
}

#[async_trait]
impl ModelService for Rpc {
    async fn list_models(&self, request: Request<v1::ListModelsRequest>) -> Result<Response<v1::ListModelsResponse>, Status> {
        let wanted = request.into_inner();
        let models = self.counter.models();
        let matching = models.list().filter(|p| (wanted.maker.is_empty() || p.maker == wanted.maker) && p.id.contains(&wanted.contains));
        Ok(Response::new(v1::ListModelsResponse { models: matching.map(|p| convert::model_out(models, p)).collect() }))
    }

    async fn get_model(&self, request: Request<v1::GetModelRequest>) -> Result<Response<v1::GetModelResponse>, Status> {
        let wanted = request.into_inner();
        let models = self.counter.models();
        let found = convert::provider_in(&wanted.provider).and_then(|provider| {
            let find = if wanted.nearest { Models::find_nearest } else { Models::find };
            let profile = find(models, &wanted.name, provider.as_ref())?;
            Ok((provider, profile))
        });
        let (provider, profile) = found.map_err(|e| status_of(&e))?;
        let profile = self.counter.corrected(profile, provider.as_ref());
        Ok(Response::new(v1::GetModelResponse { model: Some(convert::model_out(models, &profile)) }))
    }

    async fn list_vocabularies(
        &self,
        request: Request<v1::ListVocabulariesRequest>,
    ) -> Result<Response<v1::ListVocabulariesResponse>, Status> {
        // On the pool: reads the store's folder.
        self.call("ListVocabularies", request, |counter, _| convert::vocabularies(counter)).await
    }
}
