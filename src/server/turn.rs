//! The turn service: answers judged, streams followed, results and tools put into a provider's shape.
//!
//! Each single call hands its work to the pool. A followed stream is read one piece at a time, each on the pool; nothing is read while
//! the client leaves its progress unread, and all streams together hold at most [`limits::MAX_FOLLOWED_BYTES`]. Guards invariant 11:
//! only a report of a stream that ended well can say that a call may be run.

use super::convert::turn as convert;
use super::pool::late;
use super::rpc::Rpc;
use crate::count::Counter;
use crate::error::{Error, Kind, Result as CoreResult};
use crate::limits;
use crate::proto::v1::turn_service_server::TurnService;
use crate::proto::{status_of, v1};
use crate::turn::{Delta, InspectOptions, Progress, Stream, inspect_turn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming, async_trait};
use v1::follow_stream_request::Step;
use v1::follow_stream_response::Answer;

/// Bytes of pieces that may wait for a slow client before its own input is left unread.
const WAITING_BYTES: usize = 64 << 10;

/// Bytes that all followed streams hold together. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Followed(Arc<AtomicUsize>);

#[async_trait]
impl TurnService for Rpc {
    type FollowStreamStream = ReceiverStream<Result<v1::FollowStreamResponse, Status>>;

    async fn inspect_turn(&self, request: Request<v1::InspectTurnRequest>) -> Result<Response<v1::TurnReport>, Status> {
        self.call("InspectTurn", request, convert::inspect_turn).await
    }

    async fn follow_stream(
        &self,
        request: Request<Streaming<v1::FollowStreamRequest>>,
    ) -> Result<Response<Self::FollowStreamStream>, Status> {
        let deadline = self.pool.deadline(request.metadata());
        let (answers, stream) = mpsc::channel(1);
        let (rpc, requests) = (self.clone(), request.into_inner());
        tokio::spawn(async move {
            let started = Instant::now();
            // Nobody may be left to read the status; the stream then just ends.
            if let Err(status) = follow(&rpc, deadline, requests, &answers).await {
                tracing::debug!(method = "FollowStream", code = ?status.code(), elapsed_ms = started.elapsed().as_secs_f64() * 1000.0);
                let _ = answers.send(Err(status)).await;
            }
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn tool_results(&self, request: Request<v1::ToolResultsRequest>) -> Result<Response<v1::ToolResultsResponse>, Status> {
        let asked = request.get_ref();
        let pages = if asked.keep_whole { Some(self.pages(request.metadata(), &asked.tenant).map_err(|e| status_of(&e))?) } else { None };
        self.call("ToolResults", request, move |counter, message| convert::tool_results(counter, message, pages.as_ref())).await
    }

    async fn map_tools(&self, request: Request<v1::MapToolsRequest>) -> Result<Response<v1::MapToolsResponse>, Status> {
        self.call("MapTools", request, convert::map_tools).await
    }

    async fn classify_error(&self, request: Request<v1::ClassifyErrorRequest>) -> Result<Response<v1::ClassifyErrorResponse>, Status> {
        self.call("ClassifyError", request, convert::classify_error).await
    }

    async fn continue_text(&self, request: Request<v1::ContinueTextRequest>) -> Result<Response<v1::ContinueTextResponse>, Status> {
        self.call("ContinueText", request, convert::continue_text).await
    }

    async fn convert(&self, request: Request<v1::ConvertRequest>) -> Result<Response<v1::ConvertResponse>, Status> {
        self.call("Convert", request, convert::convert).await
    }
}

/// A stream on its way. Moves to the pool and back with each piece.
struct Following {
    counter: Counter,
    stream: Stream,
    options: InspectOptions,
    events: Option<bool>,
    followed: Followed,
    held: usize,
}

impl Following {
    fn new(counter: Counter, followed: Followed, start: &v1::FollowStart) -> CoreResult<Self> {
        let format = super::convert::named_format(start.format)?;
        let options = convert::judging_in(start.judging.as_ref(), format)?;
        let mut stream = Stream::new(format)?;
        if let Some(tokenizer) = options.tokenizer(counter.models()) {
            stream = stream.with_tokenizer(tokenizer);
        }
        if let Some(granted) = start.granted {
            stream = stream.with_granted(granted);
        }
        if start.deltas {
            stream = stream.with_deltas();
        }
        Ok(Self { counter, stream, options, events: None, followed, held: 0 })
    }

    fn take(&mut self, step: &Step) -> CoreResult<(Progress, Vec<Delta>)> {
        let as_event = match step {
            Step::Start(_) => return Err(misuse("a second start")),
            Step::Data(_) => false,
            Step::Event(_) => true,
        };
        if *self.events.get_or_insert(as_event) != as_event {
            return Err(misuse("bytes and parsed events in one stream"));
        }
        match step {
            Step::Start(_) => false,
            Step::Data(bytes) => self.stream.feed(bytes),
            Step::Event(event) => self.stream.event_text(&event.name, &event.json),
        };
        let (held, all) = (self.stream.held_bytes(), &self.followed.0);
        all.fetch_sub(self.held, Ordering::Relaxed);
        self.held = held;
        if all.fetch_add(held, Ordering::Relaxed).saturating_add(held) > limits::MAX_FOLLOWED_BYTES {
            return Err(Error::new(Kind::LimitExceeded, "the server is busy: the streams that it follows hold all the memory they may"));
        }
        Ok((self.stream.progress(), self.stream.take_deltas()))
    }

    /// The report. `at_end`: the client said that the provider's stream ended; otherwise it is truncated whatever was seen.
    fn report(&self, at_end: bool) -> CoreResult<v1::TurnReport> {
        let turn = if at_end { self.stream.clone().finish() } else { self.stream.snapshot() };
        inspect_turn(turn, self.counter.models(), &self.options).map(convert::report_out)
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.followed.0.fetch_sub(self.held, Ordering::Relaxed);
    }
}

fn misuse(found: &str) -> Error {
    Error::new(Kind::InvalidInput, format!("{found}; expected `start` once, then either `data` or `event`"))
}

/// Follows one stream to its end. `Err` is the status to end with.
async fn follow(
    rpc: &Rpc,
    deadline: Option<Instant>,
    mut requests: Streaming<v1::FollowStreamRequest>,
    answers: &mpsc::Sender<Result<v1::FollowStreamResponse, Status>>,
) -> Result<(), Status> {
    let first = tokio::select! {
        first = requests.message() => first?,
        () = answers.closed() => return Ok(()),
        () = until(deadline) => return Err(late()),
    };
    let Some(Step::Start(start)) = first.and_then(|message| message.step) else {
        return Err(status_of(&misuse("a stream that does not begin with `start`")));
    };
    let (counter, followed) = (rpc.counter.clone(), rpc.followed.clone());
    let begun = rpc.pool.wait(deadline, move || Following::new(counter, followed, &start)).await?;
    let mut following = begun.map_err(|e| status_of(&e))?;
    // Progress that the client hasn't taken yet.
    let mut unread: Option<(Progress, Vec<Delta>)> = None;
    let at_end = loop {
        let waiting = unread.as_ref().map_or(0, |(_, deltas)| deltas.iter().map(|delta| delta.text.len()).sum());
        let next = tokio::select! {
            permit = answers.reserve(), if unread.is_some() => {
                let Ok(permit) = permit else { return Ok(()) };
                if let Some((progress, deltas)) = unread.take() {
                    permit.send(Ok(progress_answer(progress, deltas)));
                }
                continue;
            }
            next = requests.message(), if waiting < WAITING_BYTES => next?,
            () = answers.closed() => return Ok(()),
            () = until(deadline) => break false,
        };
        let Some(message) = next else { break true };
        let step = message.step.ok_or_else(|| status_of(&misuse("an empty message")))?;
        let work = rpc.pool.wait(deadline, move || {
            let taken = following.take(&step);
            Ok((following, taken))
        });
        let taken;
        (following, taken) = work.await?.map_err(|e| status_of(&e))?;
        let (progress, deltas) = taken.map_err(|e| status_of(&e))?;
        unread = Some(match unread.take() {
            Some((_, mut before)) => {
                join(&mut before, deltas);
                (progress, before)
            }
            None => (progress, deltas),
        });
        if progress.failed {
            // What comes after a fatal fault is refused, so that waiting for it is idle.
            break true;
        }
    };
    if let Some((progress, deltas)) = unread
        && answers.send(Ok(progress_answer(progress, deltas))).await.is_err()
    {
        return Ok(());
    }
    // A stream over its time still gets its report: what was assembled is not lost.
    let report = rpc.pool.wait(deadline.filter(|_| at_end), move || following.report(at_end)).await?.map_err(|e| status_of(&e))?;
    let _ = answers.send(Ok(v1::FollowStreamResponse { answer: Some(Answer::Report(report)) })).await;
    if at_end { Ok(()) } else { Err(late()) }
}

/// Appends pieces; a neighbour of the same lane grows.
fn join(before: &mut Vec<Delta>, deltas: Vec<Delta>) {
    for delta in deltas {
        match before.last_mut().filter(|last| last.choice == delta.choice && last.lane == delta.lane) {
            Some(last) => last.text.push_str(&delta.text),
            None => before.push(delta),
        }
    }
}

fn progress_answer(progress: Progress, deltas: Vec<Delta>) -> v1::FollowStreamResponse {
    v1::FollowStreamResponse { answer: Some(Answer::Progress(convert::progress_out(progress, deltas))) }
}

/// The deadline, or never.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
