//! A thin typed client of the gRPC service: one method a call, errors as the crate's own.
//!
//! For hosts that would rather ask a shared server than embed the core, and for the integration tests. Holds a
//! connection that reconnects by itself; cheap to clone; retries nothing.

use crate::error::{Error, Kind, Result};
use crate::limits;
use crate::proto::v1::count_service_client::CountServiceClient;
use crate::proto::v1::model_service_client::ModelServiceClient;
use crate::proto::v1::turn_service_client::TurnServiceClient;
use crate::proto::{error_from_detail, error_from_status, v1};
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
            models: ModelServiceClient::new(channel).max_decoding_message_size(size),
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
}

/// The error that a status tells of: for statuses that end a stream of answers.
pub fn status_error(status: tonic::Status) -> Error {
    error_from_status(status)
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
