//! A streamed answer on its way: bytes or parsed events in, a turn out.
//!
//! Hosts feed it as the network delivers; [`Stream::progress`] and [`Stream::snapshot`] look without ending it. Only
//! [`Stream::finish`] can give a turn that ended well (invariant 11): every earlier look says that it is truncated.
//! After a fatal fault further input is refused, and what was assembled before it stays.

use super::answer::Turn;
use super::assemble::{Assembler, Intake};
use super::fault::{Fault, FaultKind};
use super::frames::{Frame, FrameKind, FrameReader};
use super::sse::SseReader;
use super::tally::{Delta, Tally};
use crate::error::Result;
use crate::format::Format;
use crate::tokenizer::Tokenizer;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

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
    wire: Wire,
    assembler: Assembler,
    tally: Tally,
    faults: Vec<Fault>,
    stuck: bool,
    raw: bool,
    events: u64,
    granted: Option<u64>,
}

/// What carries the events.
#[derive(Clone, Debug, Default)]
enum Wire {
    /// Nothing came yet.
    #[default]
    Unknown,
    /// Server-sent events.
    Text(SseReader),
    /// Bedrock's binary frames.
    Frames(FrameReader),
}

impl Wire {
    /// Told by the first byte: the length of a frame is far below 2^25, and no event stream in text begins with such a byte.
    fn begin(&mut self, first: u8) {
        if matches!(self, Self::Unknown) {
            *self = if first <= 1 { Self::Frames(FrameReader::new()) } else { Self::Text(SseReader::new()) };
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Unknown => 0,
            Self::Text(reader) => reader.bytes(),
            Self::Frames(reader) => reader.bytes(),
        }
    }

    fn held(&self) -> usize {
        match self {
            Self::Unknown => 0,
            Self::Text(reader) => reader.held(),
            Self::Frames(reader) => reader.held(),
        }
    }

    fn finish(&self) -> Result<(), Fault> {
        match self {
            Self::Unknown => Ok(()),
            Self::Text(reader) => reader.finish(),
            Self::Frames(reader) => reader.finish(),
        }
    }
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
            wire: Wire::default(),
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
        self.tally.kept().saturating_add(self.wire.held())
    }

    /// Takes the next bytes of a server-sent event stream, or of Bedrock's binary frames (the first byte tells), in any cut. False once the
    /// stream has failed. Cost: one pass; commonest events are read without building JSON values.
    pub fn feed(&mut self, bytes: &[u8]) -> bool {
        if self.stuck {
            return false;
        }
        let Some(&first) = bytes.first() else { return true };
        self.wire.begin(first);
        let Self { wire, assembler, tally, faults, events, raw, .. } = self;
        let fed = match wire {
            Wire::Frames(reader) => reader.feed(bytes, |frame| {
                *events = events.saturating_add(1);
                take_frame(assembler, frame, &mut Intake { tally, faults, offset: Some(frame.offset) })
            }),
            Wire::Unknown => Ok(()),
            Wire::Text(reader) => {
                *raw = true;
                reader.feed(bytes, |event| {
                    *events = events.saturating_add(1);
                    take(assembler, event.name, event.data, &mut Intake { tally, faults, offset: Some(event.offset) })
                })
            }
        };
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
            bytes: self.wire.bytes(),
            events: self.events,
            output_tokens,
            granted: self.granted,
            nearly_used: self.granted.is_some_and(|granted| output_tokens >= granted.saturating_sub(granted / 10)),
            failed: self.stuck,
        }
    }

    /// The answer so far. Never one that ended well: it isn't known to be whole. Cost: a copy of all that was assembled.
    pub fn snapshot(&self) -> Turn {
        self.close(Some(Fault::new(FaultKind::Truncated, "the stream is still on its way").at(self.wire.bytes())))
    }

    /// The end of the input: the turn, with what was wrong.
    pub fn finish(self) -> Turn {
        let cut = self.wire.finish().err();
        let cut = cut.or_else(|| {
            let whole = self.assembler.ended(self.raw);
            (!whole).then(|| Fault::new(FaultKind::Truncated, "the stream ended before its end was announced").at(self.wire.bytes()))
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
            cap(data)?;
            let event: Value = serde_json::from_str(data).map_err(|e| {
                let column = if e.line() > 1 { String::new() } else { format!(" at its byte {}", e.column()) };
                Fault::new(FaultKind::Malformed, format!("the event is not valid JSON{column}"))
            })?;
            assembler.event(name, &event, intake)
        }
    }
}

/// A parsed value takes many times the memory of its text.
fn cap(text: &str) -> Result<(), Fault> {
    crate::format::json::cap_nodes(text.as_bytes()).map_err(|e| Fault::new(FaultKind::TooLarge, e.message()))
}

/// One frame into the assembler: Converse's own events, or another format's events in `chunk`s as base64.
fn take_frame(assembler: &mut Assembler, frame: Frame<'_>, intake: &mut Intake<'_>) -> Result<(), Fault> {
    let text = std::str::from_utf8(frame.payload)
        .map_err(|e| Fault::new(FaultKind::Encoding, format!("the frame's payload isn't UTF-8, {} bytes into it", e.valid_up_to())))?;
    let payload = if text.trim_ascii().is_empty() {
        Value::Object(Map::new())
    } else {
        cap(text)?;
        serde_json::from_str(text).map_err(|_| Fault::new(FaultKind::Malformed, "the frame's payload is not valid JSON"))?
    };
    let Value::Object(mut payload) = payload else {
        return Err(Fault::new(FaultKind::Malformed, "the frame's payload is no JSON object"));
    };
    // Padding against guessing a text by the lengths of its pieces.
    payload.shift_remove("p");
    match frame.kind {
        FrameKind::Event if frame.name == "chunk" => {
            let bytes = payload.get("bytes").and_then(Value::as_str).and_then(|base64| STANDARD.decode(base64).ok());
            let bytes = bytes.ok_or_else(|| Fault::new(FaultKind::Malformed, "a chunk without bytes in base64"))?;
            let inner = std::str::from_utf8(&bytes)
                .map_err(|e| Fault::new(FaultKind::Encoding, format!("the chunk isn't UTF-8, {} bytes into it", e.valid_up_to())))?;
            take(assembler, "", inner, intake)
        }
        FrameKind::Event => assembler.event(frame.name, &Value::Object(payload), intake),
        FrameKind::Exception | FrameKind::Error => {
            payload.insert("type".to_owned(), Value::String(frame.name.to_owned()));
            if !frame.message.is_empty() {
                payload.insert("message".to_owned(), Value::String(frame.message.to_owned()));
            }
            intake.provider(&Value::Object(payload));
            Ok(())
        }
    }
}
