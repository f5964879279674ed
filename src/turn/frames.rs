//! Amazon's binary event stream (`application/vnd.amazon.eventstream`) from raw bytes: how Bedrock sends what others send as server-sent events.
//!
//! Called by [`super::Stream`], which tells it from text by the first byte; hosts may use it alone. A frame is its length, the length of its
//! headers, a checksum of both, headers, payload and a checksum of it all. Both checksums are checked before anything is handed out; memory
//! is one frame, capped by what the format allows, and grows with the bytes that came, never with a length that was claimed.

use super::fault::{Fault, FaultKind};
use crate::limits;

/// Length, length of the headers, and their checksum.
const PRELUDE: usize = 12;

/// The checksum at the end.
const TRAILER: usize = 4;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// An event of the answer.
    Event,
    /// An error that the service modelled: its name ends in `Exception`.
    Exception,
    /// Another error: a code and a message in the headers.
    Error,
}

/// One frame, borrowed from the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What it is.
    pub kind: FrameKind,
    /// The event's type, the exception's, or the error's code.
    pub name: &'a str,
    /// The message in the headers of an error; empty otherwise.
    pub message: &'a str,
    /// The payload; JSON for Bedrock.
    pub payload: &'a [u8],
    /// Bytes from the start of the stream to the frame.
    pub offset: u64,
}

/// Reads frames, fed in pieces.
#[derive(Clone, Debug, Default)]
pub struct FrameReader {
    /// The beginning of a frame whose end hasn't come yet.
    partial: Vec<u8>,
    /// Bytes taken in before the current piece.
    taken: u64,
}

impl FrameReader {
    /// A reader at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes taken in so far.
    pub fn bytes(&self) -> u64 {
        self.taken
    }

    /// Bytes held.
    pub(crate) fn held(&self) -> usize {
        self.partial.capacity()
    }

    /// Takes the next piece and hands each complete frame to `sink`. Cost: one pass; a frame that lies whole in the piece isn't copied.
    ///
    /// # Errors
    /// A [`Fault`]: the sink's own, [`FaultKind::Checksum`], [`FaultKind::Malformed`] for lengths or headers that can't be, or
    /// [`FaultKind::TooLarge`]; each with the frame's offset. The reader shouldn't be fed after one.
    pub fn feed(&mut self, piece: &[u8], mut sink: impl FnMut(Frame<'_>) -> Result<(), Fault>) -> Result<(), Fault> {
        let mut rest = piece;
        let mut offset = self.taken.saturating_sub(self.partial.len() as u64);
        self.taken = self.taken.saturating_add(piece.len() as u64);
        while !rest.is_empty() {
            // A frame begun earlier takes only what it lacks, the prelude first: its length is believed once its checksum holds.
            if !self.partial.is_empty() {
                let want = if self.partial.len() < PRELUDE { PRELUDE } else { length(&self.partial).map_err(|fault| fault.at(offset))? };
                let (more, after) = rest.split_at(want.saturating_sub(self.partial.len()).min(rest.len()));
                self.partial.extend_from_slice(more);
                rest = after;
                if self.partial.len() < PRELUDE || self.partial.len() < length(&self.partial).map_err(|fault| fault.at(offset))? {
                    continue;
                }
                let whole = std::mem::take(&mut self.partial);
                sink(frame(&whole, offset).map_err(|fault| fault.at(offset))?).map_err(|fault| fault.at(offset))?;
                offset = offset.saturating_add(whole.len() as u64);
                self.partial = whole;
                self.partial.clear();
                continue;
            }
            if rest.len() < PRELUDE {
                self.partial.extend_from_slice(rest);
                break;
            }
            let size = length(rest).map_err(|fault| fault.at(offset))?;
            let Some((whole, after)) = rest.split_at_checked(size) else {
                self.partial.extend_from_slice(rest);
                break;
            };
            sink(frame(whole, offset).map_err(|fault| fault.at(offset))?).map_err(|fault| fault.at(offset))?;
            offset = offset.saturating_add(size as u64);
            rest = after;
        }
        Ok(())
    }

    /// The end of the input.
    ///
    /// # Errors
    /// [`FaultKind::Truncated`] when it fell inside a frame.
    pub fn finish(&self) -> Result<(), Fault> {
        if self.partial.is_empty() {
            return Ok(());
        }
        Err(Fault::new(FaultKind::Truncated, "the stream ended inside a frame").at(self.taken))
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// The length of the frame that `bytes` begin with: at least a prelude's worth of them.
fn length(bytes: &[u8]) -> Result<usize, Fault> {
    let (size, headers) = (number(bytes, 0) as usize, number(bytes, 4) as usize);
    if crc32fast::hash(&bytes[..8]) != number(bytes, 8) {
        return Err(Fault::new(FaultKind::Checksum, "the checksum of a frame's prelude does not hold"));
    }
    if headers > limits::MAX_FRAME_HEADER_BYTES || size > limits::MAX_FRAME_BYTES {
        let (most, heads) = (limits::MAX_FRAME_BYTES, limits::MAX_FRAME_HEADER_BYTES);
        let found = format!("a frame of {size} bytes with {headers} of headers; at most {most} and {heads} are taken");
        return Err(Fault::new(FaultKind::TooLarge, found));
    }
    if size < PRELUDE + headers + TRAILER {
        return Err(Fault::new(FaultKind::Malformed, format!("a frame of {size} bytes can't hold {headers} bytes of headers")));
    }
    Ok(size)
}

/// A whole frame, its prelude already checked.
fn frame(bytes: &[u8], offset: u64) -> Result<Frame<'_>, Fault> {
    let (body, end) = bytes.split_at(bytes.len() - TRAILER);
    if crc32fast::hash(body) != number(end, 0) {
        return Err(Fault::new(FaultKind::Checksum, "the checksum of a frame does not hold"));
    }
    let (headers, payload) = body[PRELUDE..].split_at(number(bytes, 4) as usize);
    let named = Headers::read(headers)?;
    let (kind, name) = match named.message_type {
        // Frames of other services leave it out.
        Some("event") | None => (FrameKind::Event, named.event_type),
        Some("exception") => (FrameKind::Exception, named.exception_type),
        Some("error") => (FrameKind::Error, named.error_code),
        Some(_) => return Err(Fault::new(FaultKind::Malformed, "a frame is neither an event nor an exception nor an error")),
    };
    Ok(Frame { kind, name: name.unwrap_or_default(), message: named.error_message.unwrap_or_default(), payload, offset })
}

/// The headers that say what a frame is.
#[derive(Default)]
struct Headers<'a> {
    message_type: Option<&'a str>,
    event_type: Option<&'a str>,
    exception_type: Option<&'a str>,
    error_code: Option<&'a str>,
    error_message: Option<&'a str>,
}

impl<'a> Headers<'a> {
    fn read(mut rest: &'a [u8]) -> Result<Self, Fault> {
        let mut found = Self::default();
        while let Some((&length, after)) = rest.split_first() {
            let (name, after) = take(after, usize::from(length))?;
            let (kind, after) = take(after, 1)?;
            let fixed = match kind[0] {
                // True and false, a byte, 16, 32 and 64 bits, a time, a UUID.
                0 | 1 => Some(0),
                2 => Some(1),
                3 => Some(2),
                4 => Some(4),
                5 | 8 => Some(8),
                9 => Some(16),
                // Bytes and text bring their length.
                6 | 7 => None,
                other => return Err(Fault::new(FaultKind::Malformed, format!("a frame's header is of the unknown type {other}"))),
            };
            let (value, after) = if let Some(size) = fixed {
                take(after, size)?
            } else {
                let (size, after) = take(after, 2)?;
                take(after, usize::from(u16::from_be_bytes([size[0], size[1]])))?
            };
            rest = after;
            let slot = match name {
                b":message-type" => &mut found.message_type,
                b":event-type" => &mut found.event_type,
                b":exception-type" => &mut found.exception_type,
                b":error-code" => &mut found.error_code,
                b":error-message" => &mut found.error_message,
                _ => continue,
            };
            if kind[0] != 7 {
                return Err(Fault::new(FaultKind::Malformed, "a frame's header that says what it is holds no text"));
            }
            let text = std::str::from_utf8(value).map_err(|_| Fault::new(FaultKind::Encoding, "a frame's header isn't UTF-8"))?;
            if slot.replace(text).is_some() {
                return Err(Fault::new(FaultKind::Malformed, "a frame's header stands twice"));
            }
        }
        Ok(found)
    }
}

fn take(bytes: &[u8], size: usize) -> Result<(&[u8], &[u8]), Fault> {
    bytes.split_at_checked(size).ok_or_else(|| Fault::new(FaultKind::Malformed, "a frame's header is longer than its headers"))
}

#[cfg(test)]
#[path = "frames_tests.rs"]
mod tests;
