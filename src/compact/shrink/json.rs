//! JSON stays JSON: long arrays keep a sample and a count, long strings their head, error fields always stay.
//!
//! Works on spans of the text, so that scalars keep their bytes (a big number is not rounded). Tries limits from
//! generous to strict and takes the first that fits.

use super::super::standin::NOTE_KEY;
use super::{prefix, without_blobs};
use crate::format::{closing_quote, quote};

/// A value as spans of its text.
enum Node<'t> {
    Scalar(&'t str),
    Text(&'t str),
    Array(Vec<Node<'t>>),
    Object(Vec<(&'t str, Node<'t>)>),
}

/// How much of each container and string stays.
#[derive(Clone, Copy)]
struct Limits {
    items: usize,
    keys: usize,
    text: usize,
    depth: usize,
    /// Bytes past which writing is given up.
    stop: usize,
}

/// Nesting that is followed; deeper text counts as one scalar.
const DEPTH: usize = 100;

/// Shrinks JSON text to about `room` bytes with `note` in it; `None` when it isn't JSON or no limit is strict enough.
pub(super) fn shrink(text: &str, room: usize, note: &str) -> Option<String> {
    let mut reader = Reader { text, at: 0 };
    let node = reader.value(0)?;
    if reader.blanks() != text.len() {
        return None;
    }
    let levels = [
        (60, 80, 2_000, 20),
        (30, 60, 800, 12),
        (16, 40, 400, 10),
        (10, 40, 240, 8),
        (6, 30, 160, 8),
        (4, 24, 100, 6),
        (3, 20, 80, 5),
        (2, 16, 60, 4),
        (2, 12, 48, 3),
        (1, 8, 40, 2),
        (1, 6, 32, 1),
    ];
    let most = room + note.len() + NOTE_KEY.len() + 8;
    let mut out = String::new();
    for (at, (items, keys, text, depth)) in levels.into_iter().enumerate() {
        out.clear();
        // The strictest stands as it is; of the others what is too long need not be finished.
        let stop = if at + 1 == levels.len() { usize::MAX } else { most };
        write(&node, Limits { items, keys, text, depth, stop }, Some(note), &mut out);
        if out.len() <= most {
            break;
        }
    }
    Some(out)
}

fn left_out(count: usize, of: usize, what: &str) -> String {
    quote(&format!("… {count} of {of} {what} left out"))
}

/// Whether a key must stay: it tells how things went.
fn matters(raw_key: &str) -> bool {
    let key = raw_key.trim_matches('"');
    ["message", "status", "code", "exception", "reason", "warning", "id", "name", "total", "count"]
        .iter()
        .any(|word| key.eq_ignore_ascii_case(word))
        || key.to_ascii_lowercase().contains("error")
}

fn write(node: &Node<'_>, limits: Limits, note: Option<&str>, out: &mut String) {
    if out.len() > limits.stop {
        return;
    }
    match node {
        Node::Scalar(raw) => out.push_str(raw),
        Node::Text(raw) => write_text(raw, limits.text, out),
        Node::Array(items) => {
            let inner = Limits { depth: limits.depth.saturating_sub(1), ..limits };
            let keep = if limits.depth == 0 { 0 } else { limits.items };
            out.push('[');
            let mut first = true;
            let mut comma = |out: &mut String| {
                if !std::mem::take(&mut first) {
                    out.push(',');
                }
            };
            // The last one stays too: of a sequence its end is often what counts.
            let whole = items.len() <= keep + 1;
            let head = if whole { items.len() } else { keep };
            for item in &items[..head] {
                comma(out);
                write(item, inner, None, out);
            }
            if !whole {
                let tail = usize::from(keep > 1);
                comma(out);
                out.push_str(&left_out(items.len() - head - tail, items.len(), "items"));
                if let Some(last) = items.last().filter(|_| tail == 1) {
                    comma(out);
                    write(last, inner, None, out);
                }
            }
            if let Some(note) = note {
                comma(out);
                out.push_str(&format!("{{{}:{}}}", quote(NOTE_KEY), quote(note)));
            }
            out.push(']');
        }
        Node::Object(members) => {
            let inner = Limits { depth: limits.depth.saturating_sub(1), ..limits };
            let mut keep = if limits.depth == 0 { 0 } else { limits.keys };
            let (mut first, mut gone) = (true, 0);
            out.push('{');
            for (key, value) in members {
                let telling = || matches!(value, Node::Scalar(_) | Node::Text(_)) && matters(key);
                if keep == 0 && !telling() {
                    gone += 1;
                    continue;
                }
                keep = keep.saturating_sub(1);
                if !std::mem::take(&mut first) {
                    out.push(',');
                }
                out.push_str(key);
                out.push(':');
                write(value, inner, None, out);
            }
            if gone > 0 {
                if !std::mem::take(&mut first) {
                    out.push(',');
                }
                out.push_str(&format!("\"…\":{}", left_out(gone, members.len(), "keys")));
            }
            if let Some(note) = note {
                if !first {
                    out.push(',');
                }
                out.push_str(&format!("{}:{}", quote(NOTE_KEY), quote(note)));
            }
            out.push('}');
        }
    }
}

fn write_text(raw: &str, limit: usize, out: &mut String) {
    if raw.len() <= limit + 2 {
        out.push_str(raw);
        return;
    }
    let Ok(text) = serde_json::from_str::<String>(raw) else {
        out.push_str(raw);
        return;
    };
    let clean = without_blobs(&text);
    if clean.len() <= limit {
        out.push_str(&quote(&clean));
        return;
    }
    let head = prefix(&clean, limit.saturating_sub(24).max(8));
    out.push_str(&quote(&format!("{head}… [{} bytes]", text.len())));
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn blanks(&mut self) -> usize {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        self.at
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn string(&mut self) -> Option<&'t str> {
        let start = self.at;
        self.at += closing_quote(self.text.as_bytes().get(start + 1..)?)? + 2;
        self.text.get(start..self.at)
    }

    fn value(&mut self, depth: usize) -> Option<Node<'t>> {
        if depth > DEPTH {
            return None;
        }
        self.blanks();
        match self.peek()? {
            b'"' => self.string().map(Node::Text),
            b'[' => {
                self.at += 1;
                let mut items = Vec::new();
                self.blanks();
                if self.peek()? == b']' {
                    self.at += 1;
                    return Some(Node::Array(items));
                }
                loop {
                    items.push(self.value(depth + 1)?);
                    if self.close(b']')? {
                        return Some(Node::Array(items));
                    }
                }
            }
            b'{' => {
                self.at += 1;
                let mut members = Vec::new();
                self.blanks();
                if self.peek()? == b'}' {
                    self.at += 1;
                    return Some(Node::Object(members));
                }
                loop {
                    self.blanks();
                    if self.peek()? != b'"' {
                        return None;
                    }
                    let key = self.string()?;
                    self.blanks();
                    if self.peek()? != b':' {
                        return None;
                    }
                    self.at += 1;
                    members.push((key, self.value(depth + 1)?));
                    if self.close(b'}')? {
                        return Some(Node::Object(members));
                    }
                }
            }
            _ => {
                let start = self.at;
                while self.peek().is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'+' | b'.')) {
                    self.at += 1;
                }
                let raw = self.text.get(start..self.at)?;
                serde_json::from_str::<serde::de::IgnoredAny>(raw).ok().map(|_| Node::Scalar(raw))
            }
        }
    }

    fn close(&mut self, bracket: u8) -> Option<bool> {
        self.blanks();
        let found = self.peek()?;
        self.at += 1;
        match found {
            b',' => Some(false),
            b if b == bracket => Some(true),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_json_keeps_big_numbers_and_says_what_is_gone() {
        let rows = (0..500).map(|i| format!("{{\"id\": 1234567890123456789012345{i}, \"v\": 1.0e5}}")).collect::<Vec<_>>().join(", ");
        let text = format!("{{\"rows\": [{rows}], \"last_error\": \"disk\"}}");
        let out = shrink(&text, 500, "note").unwrap();
        assert!(out.len() < 560, "{}", out.len());
        let value: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(value["last_error"], "disk");
        assert_eq!(value[NOTE_KEY], "note");
        assert!(out.contains("12345678901234567890123450") && out.contains("1.0e5") && out.contains("of 500 items left out"));
        assert!(shrink("{\"a\":1} x", 10, "n").is_none());
        assert!(shrink(&"[".repeat(5000), 10, "n").is_none());
        let array: serde_json::Value = serde_json::from_str(&shrink(&format!("[{rows}]"), 300, "n").unwrap()).unwrap();
        assert_eq!(array.as_array().unwrap().last().unwrap()[NOTE_KEY], "n");
    }
}
