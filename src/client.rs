//! A thin typed client of the gRPC service: one method a call, errors as the crate's own.
//!
//! For hosts that would rather ask a shared server than embed the core, and for the integration tests. Holds a
//! connection that reconnects by itself; cheap to clone; retries nothing.

use crate::error::{Error, Kind, Result};
use crate::limits;
use crate::proto::v1::compact_service_client::CompactServiceClient;
use crate::proto::v1::count_service_client::CountServiceClient;
use crate::proto::v1::model_service_client::ModelServiceClient;
use crate::proto::v1::turn_service_client::TurnServiceClient;
use crate::proto::{detail_in, error_from_detail, error_from_status, v1};
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};
use tonic::{IntoStreamingRequest, Request, Streaming};

/// A connection to a server.
///
/// ```no_run
/// # async fn example() -> plimsoll::Result<()> {
/// use plimsoll::client::Client;
/// let mut client = Client::connect("http://127.0.0.1:50051").await?;
/// let body = br#"{"model":"gpt-4o","messages":[{"role":"user","content":"hi"}]}"#;
/// let count = client.count(Client::request(body.to_vec())).await?;
/// println!("{} tokens", count.total);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    counts: CountServiceClient<Channel>,
    models: ModelServiceClient<Channel>,
    turns: TurnServiceClient<Channel>,
    compactions: CompactServiceClient<Channel>,
    timeout: Option<Duration>,
}

impl Client {
    /// Connects to `http://HOST:PORT`.
    ///
    /// # Errors
    /// [`Kind::InvalidInput`] for a malformed address; [`Kind::Unavailable`] when nobody answers there within 10 s.
    pub async fn connect(address: &str) -> Result<Self> {
        let endpoint = Endpoint::from_shared(address.to_owned())
            .map_err(|e| Error::new(Kind::InvalidInput, "expected an address such as `http://127.0.0.1:50051`").caused_by(e))?;
        let connected = endpoint.connect_timeout(Duration::from_secs(10)).connect().await;
        let channel = connected.map_err(|e| Error::new(Kind::Unavailable, "no server answers at that address").caused_by(e))?;
        Ok(Self::over(channel))
    }

    /// A client over a channel of the caller's (TLS, balancing, interceptors).
    pub fn over(channel: Channel) -> Self {
        let size = limits::DEFAULT_MESSAGE_BYTES;
        Self {
            counts: CountServiceClient::new(channel.clone()).max_decoding_message_size(size),
            turns: TurnServiceClient::new(channel.clone()).max_decoding_message_size(size),
            models: ModelServiceClient::new(channel.clone()).max_decoding_message_size(size),
            compactions: CompactServiceClient::new(channel).max_decoding_message_size(size),
            timeout: None,
        }
    }

    /// Gives every call this long; the server is told, and stops waiting work.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// A count request of a body whose format and model are its own to tell.
    pub fn request(body: Vec<u8>) -> v1::CountRequest {
        v1::CountRequest { payload: Some(v1::Payload { format: v1::Format::Auto.into(), body }), ..v1::CountRequest::default() }
    }

    fn call<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(timeout) = self.timeout {
            request.set_timeout(timeout);
        }
        request
    }

    /// Counts one request.
    ///
    /// # Errors
    /// As [`crate::Counter::count`]; [`Kind::LimitExceeded`] when the server is busy or the body too large;
    /// [`Kind::Unavailable`] when it can't be reached or the time ran out.
    pub async fn count(&mut self, request: v1::CountRequest) -> Result<v1::CountResponse> {
        let request = self.call(request);
        self.counts.count(request).await.map(tonic::Response::into_inner).map_err(error_from_status)
    }

    /// Counts a stream of requests; answers come in order.
    ///
    /// # Errors
    /// As [`Client::count`] for the stream as a whole; an error of one request is in its answer ([`answer`]).
    pub async fn count_batch(
        &mut self,
        requests: impl IntoStreamingRequest<Message = v1::CountBatchRequest>,
    ) -> Result<Streaming<v1::CountBatchResponse>> {
        let mut requests = requests.into_streaming_request();
        if let Some(timeout) = self.timeout {
            requests.set_timeout(timeout);
        }
        self.counts.count_batch(requests).await.map(tonic::Response::into_inner).map_err(error_from_status)
    }

    /// Decides how much output to ask for.
    ///
    /// # Errors
    /// As [`Client::count`] and [`crate::decide`].
    pub async fn budget(&mut self, request: v1::BudgetRequest) -> Result<v1::BudgetResponse> {
        let request = self.call(request);
        self.counts.budget(request).await.map(tonic::Response::into_inner).map_err(error_from_status)
    }

    /// The server's models.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when it can't be reached or the time ran out.
    pub async fn list_models(&mut self, request: v1::ListModelsRequest) -> Result<Vec<v1::Model>> {
        let request = self.call(request);
        self.models.list_models(request).await.map(|r| r.into_inner().models).map_err(error_from_status)
    }

    /// One model by any spelling of its name.
    ///
    /// # Errors
    /// [`Kind::UnknownModel`] with near names.
    pub async fn get_model(&mut self, request: v1::GetModelRequest) -> Result<v1::Model> {
        let request = self.call(request);
        let answer = self.models.get_model(request).await.map_err(error_from_status)?;
        answer.into_inner().model.ok_or_else(|| Error::new(Kind::Internal, "the server answered without a model"))
    }

    /// The vocabularies that the server counts by: built in, and installed where it runs.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when it can't be reached, can't read its store, or the time ran out.
    pub async fn list_vocabularies(&mut self) -> Result<Vec<v1::Vocabulary>> {
        let request = self.call(v1::ListVocabulariesRequest {});
        self.models.list_vocabularies(request).await.map(|r| r.into_inner().vocabularies).map_err(error_from_status)
    }

    /// Judges a whole answer.
    ///
    /// # Errors
    /// [`Kind::InvalidInput`] for a request that does not read; an answer that is cut or broken is a report with a fault.
    pub async fn inspect_turn(&mut self, request: v1::InspectTurnRequest) -> Result<v1::TurnReport> {
        let request = self.call(request);
        self.turns.inspect_turn(request).await.map(tonic::Response::into_inner).map_err(error_from_status)
    }

    /// Follows an answer while it streams: `start` first, then what the provider sends, as it comes. The last message is the report.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when the server can't be reached; what ends the stream later is a status that [`status_error`] reads.
    pub async fn follow_stream(
        &mut self,
        steps: impl IntoStreamingRequest<Message = v1::FollowStreamRequest>,
    ) -> Result<Streaming<v1::FollowStreamResponse>> {
        let mut steps = steps.into_streaming_request();
        if let Some(timeout) = self.timeout {
            steps.set_timeout(timeout);
        }
        self.turns.follow_stream(steps).await.map(tonic::Response::into_inner).map_err(error_from_status)
    }

    /// Tool outcomes and MCP results to the messages that answer the calls.
    ///
    /// # Errors
    /// [`Kind::InvalidInput`] for an outcome that does not read.
    pub async fn tool_results(&mut self, request: v1::ToolResultsRequest) -> Result<v1::ToolResultsResponse> {
        let request = self.call(request);
        self.turns.tool_results(request).await.map(tonic::Response::into_inner).map_err(error_from_status)
    }

    /// Tools of MCP servers to one provider's tools.
    ///
    /// # Errors
    /// As [`crate::mcp::Mapping::new`] and [`crate::mcp::Mapping::costs`].
    pub async fn map_tools(&mut self, request: v1::MapToolsRequest) -> Result<v1::MapToolsResponse> {
        let request = self.call(request);
        self.turns.map_tools(request).await.map(tonic::Response::into_inner).map_err(error_from_status)
    }

    /// A provider's error, understood; with `learn` the server counts by the limit that it names from then on.
    ///
    /// # Errors
    /// [`Kind::UnknownModel`] with near names when a model is named that isn't in the table.
    pub async fn classify_error(&mut self, request: v1::ClassifyErrorRequest) -> Result<v1::ClassifyErrorResponse> {
        let request = self.call(request);
        self.turns.classify_error(request).await.map(tonic::Response::into_inner).map_err(error_from_status)
    }

    /// Parts of a text that was cut, put together, and the request for the rest.
    ///
    /// # Errors
    /// As [`crate::turn::Continuation::request`].
    pub async fn continue_text(&mut self, request: v1::ContinueTextRequest) -> Result<v1::ContinueTextResponse> {
        let request = self.call(request);
        self.turns.continue_text(request).await.map(tonic::Response::into_inner).map_err(error_from_status)
    }

    /// A request with its history in another format.
    ///
    /// # Errors
    /// As [`crate::convert`].
    pub async fn convert(&mut self, request: v1::ConvertRequest) -> Result<v1::ConvertResponse> {
        let request = self.call(request);
        self.turns.convert(request).await.map(tonic::Response::into_inner).map_err(error_from_status)
    }

    /// What a provider would refuse in a history.
    ///
    /// # Errors
    /// As [`Client::count`].
    pub async fn check(&mut self, request: v1::CheckRequest) -> Result<v1::CheckResponse> {
        let request = self.call(request);
        self.compactions.check(request).await.map(tonic::Response::into_inner).map_err(error_from_status)
    }

    /// What a compaction would do.
    ///
    /// # Errors
    /// As [`crate::plan`]; [`detail`] holds the findings of an invalid history.
    pub async fn plan_compaction(&mut self, request: v1::PlanCompactionRequest) -> Result<v1::PlanCompactionResponse> {
        let request = self.call(request);
        self.compactions.plan_compaction(request).await.map(tonic::Response::into_inner).map_err(error_from_status)
    }

    /// Compacts a history; what is cut is kept first.
    ///
    /// # Errors
    /// As [`Client::plan_compaction`] and [`crate::Plan::apply`].
    pub async fn compact(&mut self, plan: v1::PlanCompactionRequest) -> Result<v1::CompactResponse> {
        let request = self.call(v1::CompactRequest { plan: Some(plan) });
        self.compactions.compact(request).await.map(tonic::Response::into_inner).map_err(error_from_status)
    }

    /// Compacts with summaries of the caller's.
    ///
    /// # Errors
    /// As [`Client::compact`]; [`Kind::Conflict`] when the plan is another one now.
    pub async fn apply_summaries(&mut self, request: v1::ApplySummariesRequest) -> Result<v1::CompactResponse> {
        let request = self.call(request);
        self.compactions.apply_summaries(request).await.map(tonic::Response::into_inner).map_err(error_from_status)
    }

    /// The request as it was before a compaction.
    ///
    /// # Errors
    /// As [`crate::undo`].
    pub async fn undo(&mut self, request: v1::UndoRequest) -> Result<v1::Payload> {
        let request = self.call(request);
        let answer = self.compactions.undo(request).await.map_err(error_from_status)?;
        answer.into_inner().payload.ok_or_else(|| Error::new(Kind::Internal, "the server answered without a request"))
    }

    /// One page of a kept text.
    ///
    /// # Errors
    /// As [`crate::Pages::read`].
    pub async fn read_page(&mut self, request: v1::ReadPageRequest) -> Result<v1::ReadPageResponse> {
        let request = self.call(request);
        self.compactions.read_page(request).await.map(tonic::Response::into_inner).map_err(error_from_status)
    }

    /// Lines of a kept text that match.
    ///
    /// # Errors
    /// As [`crate::Pages::search`].
    pub async fn search_page(&mut self, request: v1::SearchPageRequest) -> Result<v1::SearchPageResponse> {
        let request = self.call(request);
        self.compactions.search_page(request).await.map(tonic::Response::into_inner).map_err(error_from_status)
    }

    /// Size of a kept text.
    ///
    /// # Errors
    /// As [`crate::Pages::stat`].
    pub async fn stat_page(&mut self, request: v1::StatPageRequest) -> Result<v1::StatPageResponse> {
        let request = self.call(request);
        self.compactions.stat_page(request).await.map(tonic::Response::into_inner).map_err(error_from_status)
    }

    /// The tools by which a model reads what was cut, as JSON entries of the format's list of tools.
    ///
    /// # Errors
    /// As [`Client::count`].
    pub async fn list_page_tools(&mut self, request: v1::ListPageToolsRequest) -> Result<v1::ListPageToolsResponse> {
        let request = self.call(request);
        self.compactions.list_page_tools(request).await.map(tonic::Response::into_inner).map_err(error_from_status)
    }

    /// Answers a model's call of one of those tools.
    ///
    /// # Errors
    /// As [`crate::answer_page_call`].
    pub async fn answer_page_call(&mut self, request: v1::AnswerPageCallRequest) -> Result<v1::AnswerPageCallResponse> {
        let request = self.call(request);
        self.compactions.answer_page_call(request).await.map(tonic::Response::into_inner).map_err(error_from_status)
    }
}

/// The error that a status tells of: for statuses that end a stream of answers.
pub fn status_error(status: tonic::Status) -> Error {
    error_from_status(status)
}

/// The typed detail of a failed call, with what [`Error`] has no place for: the findings of an invalid history.
pub fn detail(error: &Error) -> Option<v1::ErrorDetail> {
    let status = std::error::Error::source(error)?.downcast_ref::<tonic::Status>()?;
    detail_in(status)
}

/// What one answer of a batch holds.
///
/// # Errors
/// The error of that request.
pub fn answer(response: v1::CountBatchResponse) -> Result<v1::CountResponse> {
    match response.result {
        Some(v1::count_batch_response::Result::Count(count)) => Ok(count),
        Some(v1::count_batch_response::Result::Error(detail)) => Err(error_from_detail(detail)),
        None => Err(Error::new(Kind::Internal, "the server's answer is empty")),
    }
}
