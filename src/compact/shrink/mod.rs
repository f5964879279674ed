//! Shrinking one tool result by what it is: JSON stays JSON, tables keep their header, logs their errors, code its signatures.
//!
//! Called by the planner with a budget in bytes; the original is paged elsewhere. Pure and deterministic; the result is
//! smaller than the input or there is none. One file a content kind.

pub(super) use lines::is_error;

mod code;
mod json;
mod lines;
mod table;

/// What a result's text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Json,
    Table,
    Code,
    Log,
    Blob,
}

/// Shrinks `text` to about `budget` bytes, with `note` (a stand-in's words) in it; `None` when that would gain nothing.
pub(super) fn shrink(text: &str, budget: usize, note: &str) -> Option<String> {
    let budget = budget.max(note.len() + 64);
    if text.len() <= budget {
        return None;
    }
    let room = budget - note.len() - 1;
    let out = match kind(text) {
        Content::Json => json::shrink(text, room, note),
        Content::Table => table::shrink(text, room).map(|body| with_note(&body, note)),
        Content::Code => code::shrink(text, room).map(|body| with_note(&body, note)),
        Content::Log => Some(with_note(&lines::shrink(text, room), note)),
        Content::Blob => Some(with_note(&blob(text), note)),
    };
    let out = out.unwrap_or_else(|| with_note(&lines::shrink(text, room), note));
    (out.len() < text.len()).then_some(out)
}

/// Shrinks a JSON value's text; `None` when that would gain nothing or it isn't JSON.
pub(super) fn shrink_json(text: &str, budget: usize, note: &str) -> Option<String> {
    let room = budget.max(note.len() + 64) - note.len() - 1;
    json::shrink(text, room, note).filter(|out| out.len() < text.len())
}

fn with_note(body: &str, note: &str) -> String {
    format!("{}\n{note}", body.trim_end_matches('\n'))
}

/// A text's kind, from its look alone.
pub(super) fn kind(text: &str) -> Content {
    let trimmed = text.trim_start();
    if trimmed.starts_with(['{', '[']) && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
        return Content::Json;
    }
    if is_blob(text) {
        return Content::Blob;
    }
    if table::delimiter(text).is_some() {
        return Content::Table;
    }
    if code::looks_like(text) {
        return Content::Code;
    }
    Content::Log
}

/// One long run of base64 or hex, perhaps as a data URL.
fn is_blob(text: &str) -> bool {
    let body = text.trim().split_once(";base64,").map_or(text.trim(), |(_, body)| body);
    body.len() >= 512
        && body.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'-' | b'_' | b'=' | b'\n' | b'\r'))
        && body.bytes().take(4096).filter(|b| matches!(b, b'\n' | b'\r')).count() * 20 < body.len().min(4096)
        && body.bytes().take(4096).any(|b| b.is_ascii_digit())
}

fn blob(text: &str) -> String {
    let head = text.trim().split_once(";base64,").map_or("", |(head, _)| head);
    let head = if head.len() < 80 { head } else { "" };
    let comma = if head.is_empty() { "" } else { " " };
    format!("[{head}{comma}binary data as text, {} bytes left out]", text.trim().len())
}

/// Replaces long runs of base64 inside a line.
fn without_blobs(line: &str) -> std::borrow::Cow<'_, str> {
    const LEAST: usize = 400;
    if line.len() < LEAST {
        return line.into();
    }
    let bytes = line.as_bytes();
    let is_blob = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
    let (mut out, mut kept, mut at) = (String::new(), 0, 0);
    while at < bytes.len() {
        let run = bytes[at..].iter().take_while(|b| is_blob(**b)).count();
        if run >= LEAST {
            out.push_str(&line[kept..at]);
            out.push_str(&format!("[{run} bytes of base64 left out]"));
            kept = at + run;
        }
        at += run.max(1);
    }
    if kept == 0 {
        return line.into();
    }
    out.push_str(&line[kept..]);
    out.into()
}

/// The longest prefix of at most `bytes` bytes that ends between characters.
pub(super) fn prefix(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The longest suffix of at most `bytes` bytes that starts between characters.
pub(super) fn suffix(text: &str, bytes: usize) -> &str {
    let mut start = text.len() - bytes.min(text.len());
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTE: &str = "[Shortened: the call succeeded, 9 tokens in full. read_tool_result ref=pg_0123456789abcdef]";

    #[test]
    fn kinds_are_told_apart() {
        let csv: String = (0..30).map(|i| format!("{i},name {i},{}\n", i * 3)).collect();
        let code = "import os\n\ndef main(a, b):\n    return a\n\n\nclass X:\n    def go(self):\n        pass\n".repeat(4);
        let log: String = (0..30).map(|i| format!("2026-01-01 10:00:{i} INFO step {i} done, ok\n")).collect();
        assert_eq!(kind("[1, 2]"), Content::Json);
        assert_eq!(kind(&csv), Content::Table);
        assert_eq!(kind(&code), Content::Code);
        assert_eq!(kind(&log), Content::Log);
        assert_eq!(kind(&"QUJD0".repeat(300)), Content::Blob);
    }

    #[test]
    fn every_kind_shrinks_near_its_budget_and_keeps_the_note() {
        let rows: String = (0..900).map(|i| format!("{i}\tname {i}\t{}\n", i * 3)).collect();
        let code: String = (0..200).map(|i| format!("def f{i}(x):\n    y = x + {i}\n    return y\n\n")).collect();
        let log: String =
            (0..900).map(|i| if i == 450 { "ERROR: disk full at /var\n".to_owned() } else { format!("step {i} went well\n") }).collect();
        let json =
            format!("{{\"rows\":[{}],\"error\":\"none\"}}", (0..900).map(|i| format!("{{\"id\":{i}}}")).collect::<Vec<_>>().join(","));
        let line = "word ".repeat(4000);
        for text in [&rows, &code, &log, &json, &line, &"QUJD0".repeat(3000)] {
            let out = shrink(text, 1200, NOTE).unwrap();
            assert!(out.len() <= 1300, "{} bytes", out.len());
            assert!(out.contains("ref=pg_0123456789abcdef"));
            assert_eq!(out, shrink(text, 1200, NOTE).unwrap());
        }
        assert!(shrink(&log, 1200, NOTE).unwrap().contains("disk full"));
        assert!(shrink(&rows, 1200, NOTE).unwrap().starts_with("0\tname 0"));
        assert!(shrink(&code, 1200, NOTE).unwrap().contains("def f0(x):"));
        let out: serde_json::Value = serde_json::from_str(&shrink(&json, 1200, NOTE).unwrap()).unwrap();
        assert_eq!(out["error"], "none");
        assert!(out["rows"].as_array().unwrap().len() < 900);
    }

    #[test]
    fn runs_of_base64_in_a_line_go() {
        let line = format!("img src={} end", "QUJD".repeat(300));
        assert_eq!(without_blobs(&line), "img src=[1200 bytes of base64 left out] end");
    }
}
