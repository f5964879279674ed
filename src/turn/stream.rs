//! A streamed answer on its way: bytes or parsed events in, a turn out.
//!
//! Hosts feed it as the network delivers; [`Stream::progress`] and [`Stream::snapshot`] look without ending it. Only
//! [`Stream::finish`] can give a turn that ended well (invariant 11): every earlier look says that it is truncated.
//! After a fatal fault further input is refused, and what was assembled before it stays.

use super::answer::Turn;
use super::assemble::{Assembler, Intake};
use super::fault::{Fault, FaultKind};
use super::sse::SseReader;
use super::tally::{Delta, Tally};
use crate::error::Result;
use crate::format::Format;
use crate::tokenizer::Tokenizer;
use serde_json::Value;

/// A streamed answer of one format.
///
/// ```
/// use plimsoll::{Format, turn::{Reason, Stream}};
/// let mut stream = Stream::new(Format::Chat)?;
/// stream.feed(b"data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Hel\"}}]}\n\n");
/// stream.feed(b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"},\"finish_reason\":\"stop\"}]}\n\n");
/// assert!(!stream.snapshot().ended_well);
/// stream.feed(b"data: [DONE]\n\n");
/// let turn = stream.finish();
/// assert!(turn.ended_well);
/// assert_eq!((turn.choices[0].text.as_str(), turn.choices[0].finish.reason), ("Hello", Reason::Stop));
/// # Ok::<(), plimsoll::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Stream {
    format: Format,
    reader: SseReader,
    assembler: Assembler,
    tally: Tally,
    faults: Vec<Fault>,
    stuck: bool,
    raw: bool,
    events: u64,
    granted: Option<u64>,
}

/// How far a stream has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes taken in.
    pub bytes: u64,
    /// Events taken in.
    pub events: u64,
    /// Output tokens so far: text, readable reasoning and arguments. Hidden reasoning can't be seen.
    pub output_tokens: u64,
    /// Output tokens granted, when the host said so.
    pub granted: Option<u64>,
    /// Nine tenths of the grant are used: the answer is likely to be cut.
    pub nearly_used: bool,
    /// A fatal fault was met; further input is refused.
    pub failed: bool,
}

impl Stream {
    /// A stream of `format` at its start.
    ///
    /// # Errors
    /// [`crate::Kind::Unsupported`] for `mcp`, which no model answers in.
    pub fn new(format: Format) -> Result<Self> {
        Ok(Self {
            format,
            reader: SseReader::new(),
            assembler: Assembler::new(format)?,
            tally: Tally::default(),
            faults: Vec::new(),
            stuck: false,
            raw: false,
            events: 0,
            granted: None,
        })
    }

    /// Counts output with this tokenizer; without one, four bytes count as a token.
    #[must_use]
    pub fn with_tokenizer(mut self, tokenizer: Tokenizer) -> Self {
        self.tally.set_tokenizer(tokenizer);
        self
    }

    /// Warns when this many output tokens are nearly used.
    #[must_use]
    pub fn with_granted(mut self, tokens: u64) -> Self {
        self.granted = Some(tokens);
        self
    }

    /// Keeps the assembled pieces for [`Stream::take_deltas`].
    #[must_use]
    pub fn with_deltas(mut self) -> Self {
        self.tally.keep_deltas();
        self
    }

    /// The pieces assembled since the last call; none unless [`Stream::with_deltas`] asked for them.
    pub fn take_deltas(&mut self) -> Vec<Delta> {
        self.tally.take_deltas()
    }

    /// About how many bytes it holds: what was assembled, and what isn't complete yet.
    pub fn held_bytes(&self) -> usize {
        self.tally.kept().saturating_add(self.reader.held())
    }

    /// Takes the next bytes of a server-sent event stream, in any cut. False once the stream has failed.
    /// Cost: one pass; commonest events are read without building JSON values.
    pub fn feed(&mut self, bytes: &[u8]) -> bool {
        if self.stuck {
            return false;
        }
        self.raw = true;
        let Self { reader, assembler, tally, faults, events, .. } = self;
        let fed = reader.feed(bytes, |event| {
            *events = events.saturating_add(1);
            let mut intake = Intake { tally, faults, offset: Some(event.offset) };
            take(assembler, event.name, event.data, &mut intake)
        });
        self.settle(fed)
    }

    /// Takes one event that the host (or an SDK) has parsed. False once the stream has failed.
    pub fn event(&mut self, event: &Value) -> bool {
        self.named_event("", event)
    }

    /// As [`Stream::event`], for wires that name their events beside the payload.
    pub fn named_event(&mut self, name: &str, event: &Value) -> bool {
        if self.stuck {
            return false;
        }
        self.events = self.events.saturating_add(1);
        let Self { assembler, tally, faults, .. } = self;
        let taken = assembler.event(name, event, &mut Intake { tally, faults, offset: None });
        self.settle(taken)
    }

    /// As [`Stream::named_event`], for an event that is still text. One that isn't UTF-8 or JSON is a fatal fault.
    pub fn event_text(&mut self, name: &str, json: &[u8]) -> bool {
        if self.stuck {
            return false;
        }
        self.events = self.events.saturating_add(1);
        let Self { assembler, tally, faults, .. } = self;
        let data = std::str::from_utf8(json)
            .map_err(|e| Fault::new(FaultKind::Encoding, format!("the event isn't UTF-8, {} bytes into it", e.valid_up_to())));
        let taken = data.and_then(|data| take(assembler, name, data, &mut Intake { tally, faults, offset: None }));
        self.settle(taken)
    }

    fn settle(&mut self, outcome: Result<(), Fault>) -> bool {
        if let Err(fault) = outcome {
            self.faults.push(fault);
            self.stuck = true;
        }
        !self.stuck
    }

    /// How far it has come. Cheap: counts only what came since the last border.
    pub fn progress(&mut self) -> Progress {
        let output_tokens = self.tally.count();
        Progress {
            bytes: self.reader.bytes(),
            events: self.events,
            output_tokens,
            granted: self.granted,
            nearly_used: self.granted.is_some_and(|granted| output_tokens >= granted.saturating_sub(granted / 10)),
            failed: self.stuck,
        }
    }

    /// The answer so far. Never one that ended well: it isn't known to be whole. Cost: a copy of all that was assembled.
    pub fn snapshot(&self) -> Turn {
        self.close(Some(Fault::new(FaultKind::Truncated, "the stream is still on its way").at(self.reader.bytes())))
    }

    /// The end of the input: the turn, with what was wrong.
    pub fn finish(self) -> Turn {
        let cut = self.reader.finish().err();
        let cut = cut.or_else(|| {
            let whole = self.assembler.ended(self.raw);
            (!whole).then(|| Fault::new(FaultKind::Truncated, "the stream ended before its end was announced").at(self.reader.bytes()))
        });
        self.close(cut)
    }

    fn close(&self, cut: Option<Fault>) -> Turn {
        let body = self.assembler.body();
        let mut turn = Turn::read_parts(&body, self.format);
        let mut faults = self.faults.clone();
        // A provider's own error explains a cut; the cut itself is then no news.
        if !faults.iter().any(|fault| fault.fatal) {
            faults.extend(cut);
        }
        let own = std::mem::take(&mut turn.faults);
        for fault in faults.into_iter().chain(own) {
            let said = turn.faults.iter().any(|seen| seen.fatal && fault.fatal);
            if !said {
                turn.fault(fault);
            }
        }
        turn.flag_gaps();
        turn
    }
}

/// One event's text into the assembler.
fn take(assembler: &mut Assembler, name: &str, data: &str, intake: &mut Intake<'_>) -> Result<(), Fault> {
    if assembler.quick(data, intake)? {
        return Ok(());
    }
    match data.trim_ascii() {
        "" => Ok(()),
        "[DONE]" => {
            assembler.done();
            Ok(())
        }
        data => {
            let event: Value = serde_json::from_str(data).map_err(|e| {
                let column = if e.line() > 1 { String::new() } else { format!(" at its byte {}", e.column()) };
                Fault::new(FaultKind::Malformed, format!("the event is not valid JSON{column}"))
            })?;
            assembler.event(name, &event, intake)
        }
    }
}
