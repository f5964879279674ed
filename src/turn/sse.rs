//! Server-sent events from raw bytes: the reader below every stream.
//!
//! Called by [`super::Stream`]; hosts may use it alone. Takes bytes in any cut (a cut may fall inside a character,
//! a line ending or the byte order mark) and hands out events, borrowed, with their byte offset. Comments and
//! keep-alives are skipped. An event counts only once its blank line came: what the connection lost stays lost,
//! and [`SseReader::finish`] says so. Memory is one line and one event, both capped.

use super::fault::{Fault, FaultKind};
use crate::limits;

/// One event, borrowed from the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// The `event` field; empty when there was none.
    pub name: &'a str,
    /// The `data` lines, joined by newlines.
    pub data: &'a str,
    /// Bytes from the start of the stream to the event's first field.
    pub offset: u64,
}

/// Reads server-sent events, fed in pieces.
///
/// ```
/// use plimsoll::turn::SseReader;
/// let mut reader = SseReader::new();
/// let mut seen = Vec::new();
/// for piece in [&b"data: {\"a\""[..], b":1}\r\n\r", b"\n: ping\n\n"] {
///     reader.feed(piece, |event| { seen.push(event.data.to_owned()); Ok(()) }).unwrap();
/// }
/// reader.finish().unwrap();
/// assert_eq!(seen, ["{\"a\":1}"]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct SseReader {
    /// The beginning of a line whose end hasn't come yet.
    partial: Vec<u8>,
    data: Vec<u8>,
    name: Vec<u8>,
    has_data: bool,
    event_offset: Option<u64>,
    /// Bytes taken in before the current piece.
    taken: u64,
    /// The last byte was a carriage return: a line feed that follows belongs to it.
    after_cr: bool,
    /// Lines of this stream end in CR LF, so that one without LF at the very end is a cut.
    crlf: bool,
    begun: bool,
}

impl SseReader {
    /// A reader at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes taken in so far.
    pub fn bytes(&self) -> u64 {
        self.taken
    }

    /// Bytes held: the line and the event that aren't complete yet.
    pub(crate) fn held(&self) -> usize {
        self.partial.capacity().saturating_add(self.data.capacity())
    }

    /// Takes the next piece and hands each complete event to `sink`. Cost: one pass, one copy of the data.
    ///
    /// # Errors
    /// A [`Fault`]: the sink's own, [`FaultKind::TooLarge`], or [`FaultKind::Encoding`]. The reader shouldn't be fed after one.
    pub fn feed(&mut self, piece: &[u8], mut sink: impl FnMut(SseEvent<'_>) -> Result<(), Fault>) -> Result<(), Fault> {
        let base = self.taken;
        self.taken = base.saturating_add(piece.len() as u64);
        let mut at = 0;
        while at < piece.len() {
            if self.after_cr {
                self.after_cr = false;
                if piece[at] == b'\n' {
                    self.crlf = true;
                    at += 1;
                    continue;
                }
            }
            let rest = &piece[at..];
            let Some(end) = memchr::memchr2(b'\n', b'\r', rest) else {
                if self.partial.len().saturating_add(rest.len()) > limits::MAX_SSE_LINE_BYTES {
                    return Err(too_large("a line", limits::MAX_SSE_LINE_BYTES).at(base + at as u64));
                }
                self.partial.extend_from_slice(rest);
                return Ok(());
            };
            self.after_cr = rest[end] == b'\r';
            if self.partial.is_empty() {
                let offset = base + at as u64;
                self.line(&rest[..end], offset, &mut sink)?;
            } else {
                let offset = (base + at as u64).saturating_sub(self.partial.len() as u64);
                let mut line = std::mem::take(&mut self.partial);
                line.extend_from_slice(&rest[..end]);
                let outcome = self.line(&line, offset, &mut sink);
                line.clear();
                self.partial = line;
                outcome?;
            }
            at += end + 1;
        }
        Ok(())
    }

    /// The end of the input.
    ///
    /// # Errors
    /// [`FaultKind::Truncated`] when it fell inside a line, an event or a line ending.
    pub fn finish(&self) -> Result<(), Fault> {
        let cut = |what: &str| Err(Fault::new(FaultKind::Truncated, format!("the stream ended inside {what}")).at(self.taken));
        if !self.partial.is_empty() {
            cut("a line")
        } else if self.has_data {
            cut("an event")
        } else if self.after_cr && self.crlf {
            cut("a line ending")
        } else {
            Ok(())
        }
    }

    fn line(&mut self, line: &[u8], offset: u64, sink: &mut impl FnMut(SseEvent<'_>) -> Result<(), Fault>) -> Result<(), Fault> {
        let line = if self.begun { line } else { line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line) };
        self.begun = true;
        if line.is_empty() {
            return self.dispatch(offset, sink);
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(0) => return Ok(()),
            Some(colon) => {
                let value = &line[colon + 1..];
                (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &b""[..]),
        };
        match field {
            b"data" => {
                self.event_offset.get_or_insert(offset);
                if self.data.len().saturating_add(value.len()) > limits::MAX_SSE_EVENT_BYTES {
                    return Err(too_large("an event", limits::MAX_SSE_EVENT_BYTES).at(offset));
                }
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => {
                self.event_offset.get_or_insert(offset);
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            // `id`, `retry` and unknown fields say nothing about an answer.
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self, offset: u64, sink: &mut impl FnMut(SseEvent<'_>) -> Result<(), Fault>) -> Result<(), Fault> {
        let start = self.event_offset.take().unwrap_or(offset);
        let outcome = if self.has_data {
            let bad = |e: std::str::Utf8Error| {
                Fault::new(FaultKind::Encoding, format!("the event isn't UTF-8, {} bytes into its data", e.valid_up_to())).at(start)
            };
            match (std::str::from_utf8(&self.name), std::str::from_utf8(&self.data)) {
                (Ok(name), Ok(data)) => sink(SseEvent { name, data, offset: start }).map_err(|fault| fault.at(start)),
                (Err(e), _) | (_, Err(e)) => Err(bad(e)),
            }
        } else {
            Ok(())
        };
        self.data.clear();
        self.name.clear();
        self.has_data = false;
        outcome
    }
}

fn too_large(what: &str, cap: usize) -> Fault {
    Fault::new(FaultKind::TooLarge, format!("{what} has more than {cap} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, data and offset of each event.
    type Seen = Vec<(String, String, u64)>;

    fn read(bytes: &[u8], cut: usize) -> (Seen, Result<(), Fault>) {
        let (mut reader, mut seen) = (SseReader::new(), Vec::new());
        for piece in bytes.chunks(cut.max(1)) {
            let fed = reader.feed(piece, |e| {
                seen.push((e.name.to_owned(), e.data.to_owned(), e.offset));
                Ok(())
            });
            if fed.is_err() {
                return (seen, fed);
            }
        }
        (seen, reader.finish())
    }

    #[test]
    fn any_line_ending_and_any_cut_give_the_same_events() {
        let texts = ["\u{feff}: hello\nevent: a\ndata: é\ndata:{1}\nid: 7\n\n\n\ndata\n\nevent: only\n\ndata:  two\n\n"];
        for text in texts {
            for ending in ["\n", "\r\n", "\r"] {
                let text = text.replace('\n', ending);
                let whole = read(text.as_bytes(), usize::MAX);
                let names: Vec<_> = whole.0.iter().map(|e| (e.0.as_str(), e.1.as_str())).collect();
                assert_eq!(names, [("a", "é\n{1}"), ("", ""), ("", " two")]);
                assert_eq!(whole.1, Ok(()));
                for cut in 1..8 {
                    assert_eq!(read(text.as_bytes(), cut), whole, "{ending:?} cut at {cut}");
                }
            }
        }
    }

    #[test]
    fn a_lost_tail_is_no_event() {
        for (bytes, what) in [("data: 1\n\ndata: 2", "a line"), ("data: 1\n\ndata: 2\n", "an event"), ("data: 1\r\n\r", "a line ending")] {
            let (seen, end) = read(bytes.as_bytes(), 3);
            assert_eq!(seen.len(), 1);
            let fault = end.unwrap_err();
            assert!(fault.kind == FaultKind::Truncated && fault.message.ends_with(what), "{fault:?}");
            assert_eq!(fault.offset, Some(bytes.len() as u64));
        }
        assert_eq!(read(b"data: 1\r\r", 1).1, Ok(()));
    }

    #[test]
    fn faults_carry_the_offset() {
        let (seen, end) = read(b"data: 1\n\nevent: x\ndata: \xff\n\n", 4);
        assert_eq!(seen.len(), 1);
        let fault = end.unwrap_err();
        assert_eq!((fault.kind, fault.offset), (FaultKind::Encoding, Some(9)));
    }
}
