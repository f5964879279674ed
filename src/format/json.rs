//! Untrusted JSON text into a value, with caps on bytes, nesting and values, and errors that say where.
//!
//! Used by [`super::Request`] and by readers of JSON files. Serde does the parsing; this file adds the caps and the byte offset.

use crate::error::{Error, Kind, Result};
use crate::limits;
use serde_json::Value;

/// Parses a body: UTF-8, JSON, within the caps.
pub(crate) fn parse(bytes: &[u8]) -> Result<(String, Value)> {
    if bytes.len() > limits::MAX_BODY_BYTES {
        return Err(Error::new(
            Kind::LimitExceeded,
            format!("the body has {} bytes; at most {} are taken", bytes.len(), limits::MAX_BODY_BYTES),
        ));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|e| Error::new(Kind::InvalidInput, "the body is not UTF-8").at_offset(e.valid_up_to() as u64))?;
    if text.trim_ascii().is_empty() {
        return Err(Error::invalid("", "the body is empty; expected a JSON object"));
    }
    cap_nodes(bytes)?;
    let value = serde_json::from_str(text).map_err(|e| {
        // Serde's column counts what it has read: the offending byte, or all of the line at the end of the text.
        let column = if e.is_eof() { e.column() } else { e.column().saturating_sub(1) };
        let offset = offset_of(text, e.line(), column);
        Error::new(Kind::InvalidInput, format!("the body is not valid JSON: {}", without_place(&e))).at_offset(offset)
    })?;
    Ok((text.to_owned(), value))
}

/// Bounds the memory of the parsed value before it is built: commas and openers outside strings bound the values.
pub(crate) fn cap_nodes(bytes: &[u8]) -> Result<()> {
    if bytes.len() / 2 <= limits::MAX_JSON_NODES {
        return Ok(());
    }
    let (mut nodes, mut in_string, mut at) = (0_usize, false, 0);
    while at < bytes.len() {
        if in_string {
            match memchr::memchr2(b'"', b'\\', &bytes[at..]) {
                Some(skip) if bytes[at + skip] == b'"' => {
                    in_string = false;
                    at += skip + 1;
                }
                Some(skip) => at += skip + 2,
                None => break,
            }
            continue;
        }
        match bytes[at] {
            b'"' => in_string = true,
            b',' | b'[' | b'{' => {
                nodes += 1;
                if nodes > limits::MAX_JSON_NODES {
                    return Err(Error::new(
                        Kind::LimitExceeded,
                        format!("the body holds more than {} JSON values", limits::MAX_JSON_NODES),
                    )
                    .at_offset(at as u64));
                }
            }
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

/// Byte offset of serde's one-based line and a column in bytes from that line's start.
fn offset_of(text: &str, line: usize, column: usize) -> u64 {
    let start = match line.checked_sub(2) {
        None => 0,
        Some(newlines) => memchr::memchr_iter(b'\n', text.as_bytes()).nth(newlines).map_or(text.len(), |newline| newline + 1),
    };
    start.saturating_add(column).min(text.len()) as u64
}

/// Serde's message without its own "at line 1 column 2".
fn without_place(error: &serde_json::Error) -> String {
    let message = error.to_string();
    match message.rfind(" at line ") {
        Some(end) => message[..end].to_owned(),
        None => message,
    }
}
