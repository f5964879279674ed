//! JSON as Python's `json.dumps` writes it: what servers and chat templates put into prompts, and so what is billed.
//!
//! The one writer of such text, for the template environment and for every renderer; counts nothing. Keeps key order and
//! non-ASCII text unless told otherwise; differs from serde's own writer in blanks after `,` and `:` and in the form of floats.

use serde_json::Value;
use std::fmt::Write as _;

/// How to write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// Blanks a level, or everything on one line.
    pub(crate) indent: Option<usize>,
    /// `,` and `:` without blanks.
    pub(crate) compact: bool,
    /// Escape all but ASCII.
    pub(crate) ascii: bool,
    /// Sort keys.
    pub(crate) sorted: bool,
}

impl Style {
    /// `json.dumps(value, ensure_ascii=False)`: transformers' `tojson`.
    pub(crate) const PYTHON: Self = Self { indent: None, compact: false, ascii: false, sorted: false };
    /// The same with `separators=(",", ":")`.
    pub(crate) const COMPACT: Self = Self { indent: None, compact: true, ascii: false, sorted: false };
}

/// `{"a": 1, "b": [2, 3]}`: one line, a blank after each comma and colon.
pub(crate) fn spaced(value: &Value) -> String {
    dumps(value, Style::PYTHON)
}

/// One member a line, two blanks an indent.
pub(crate) fn indented(value: &Value) -> String {
    dumps(value, Style { indent: Some(2), ..Style::PYTHON })
}

/// Writes `value`.
pub(crate) fn dumps(value: &Value, style: Style) -> String {
    let mut out = String::new();
    write(&mut out, value, style, 0);
    out
}

fn write(out: &mut String, value: &Value, style: Style, depth: usize) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => push_float(out, float),
            _ => {
                let _ = write!(out, "{number}");
            }
        },
        Value::String(text) => push_string(out, text, style.ascii),
        Value::Array(list) => {
            let items = list.iter().map(|item| (None, item));
            sequence(out, style, depth, ('[', ']'), items);
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().map(|(key, item)| (Some(key.as_str()), item)).collect();
            if style.sorted {
                entries.sort_by_key(|(key, _)| *key);
            }
            sequence(out, style, depth, ('{', '}'), entries.into_iter());
        }
    }
}

fn sequence<'v>(
    out: &mut String,
    style: Style,
    depth: usize,
    (open, close): (char, char),
    items: impl ExactSizeIterator<Item = (Option<&'v str>, &'v Value)>,
) {
    out.push(open);
    let some = items.len() > 0;
    for (index, (key, item)) in items.enumerate() {
        if index > 0 {
            out.push_str(if style.compact || style.indent.is_some() { "," } else { ", " });
        }
        new_line(out, style, depth + 1);
        if let Some(key) = key {
            push_string(out, key, style.ascii);
            out.push_str(if style.compact { ":" } else { ": " });
        }
        write(out, item, style, depth + 1);
    }
    if some {
        new_line(out, style, depth);
    }
    out.push(close);
}

fn new_line(out: &mut String, style: Style, depth: usize) {
    if let Some(indent) = style.indent {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', indent.saturating_mul(depth)));
    }
}

/// Python's `repr` of a float: exponents from 1e16 and below 1e-4, with a sign and two digits.
fn push_float(out: &mut String, float: f64) {
    let size = float.abs();
    if size != 0.0 && !(1e-4..1e16).contains(&size) {
        let text = format!("{float:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
        let _ = write!(out, "{digits}e{sign}{exponent:0>2}");
    } else {
        let _ = write!(out, "{float:?}");
    }
}

fn push_string(out: &mut String, text: &str, ascii: bool) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' || (ascii && !c.is_ascii()) || (ascii && c == '\u{7f}') => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// A string literal as Python's `repr` writes it.
pub(crate) fn push_repr(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_ascii_control() => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push(quote);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn writes_as_python_does() {
        let value = json!({"b": [1, 2.0, 1e20, 1e-5, 0.0001, true, null], "a": "ü\u{1}\"\\\n\u{7f}😀", "e": [], "o": {}});
        assert_eq!(
            dumps(&value, Style::PYTHON),
            "{\"b\": [1, 2.0, 1e+20, 1e-05, 0.0001, true, null], \"a\": \"ü\\u0001\\\"\\\\\\n\u{7f}😀\", \"e\": [], \"o\": {}}"
        );
        assert_eq!(dumps(&json!({"b": 1, "a": [2]}), Style { sorted: true, ..Style::COMPACT }), "{\"a\":[2],\"b\":1}");
        assert_eq!(indented(&json!([{"a": []}])), "[\n  {\n    \"a\": []\n  }\n]");
        assert_eq!(indented(&json!({"a": [1], "b": {}})), "{\n  \"a\": [\n    1\n  ],\n  \"b\": {}\n}");
        assert_eq!(spaced(&json!({"b": [1, 2.5, {}], "a": {"ü": "x\n"}, "c": []})), r#"{"b": [1, 2.5, {}], "a": {"ü": "x\n"}, "c": []}"#);
        let repr = |text| {
            let mut out = String::new();
            push_repr(&mut out, text);
            out
        };
        assert_eq!([repr("a\n\u{1b}é"), repr("it's"), repr("'\"")], [r"'a\n\x1bé'", r#""it's""#, r#"'\'"'"#]);
        assert_eq!(dumps(&json!("é😀"), Style { ascii: true, ..Style::PYTHON }), "\"\\u00e9\\ud83d\\ude00\"");
    }
}
