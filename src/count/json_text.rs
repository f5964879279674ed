//! JSON values as text in the spacings that providers put into prompts.
//!
//! Called by renderers. Keeps keys in the order sent and non-ASCII text as it is; counts nothing.

use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};
use std::io;

/// `{"a": 1, "b": [2, 3]}`: one line, a blank after each comma and colon, as Python's `json.dumps` writes it.
pub(crate) fn spaced(value: &Value) -> String {
    written(value, Spaced)
}

/// One member a line, two blanks an indent.
pub(crate) fn indented(value: &Value) -> String {
    written(value, PrettyFormatter::with_indent(b"  "))
}

fn written(value: &Value, formatter: impl Formatter) -> String {
    let mut out = Vec::with_capacity(128);
    // Writing a value into memory can't fail; an empty text would only be an undercount, never a panic.
    if value.serialize(&mut Serializer::with_formatter(&mut out, formatter)).is_err() {
        return String::new();
    }
    String::from_utf8(out).unwrap_or_default()
}

struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn spacing() {
        let value = json!({"b": [1, 2.5, {}], "a": {"ü": "x\n"}, "c": []});
        assert_eq!(spaced(&value), r#"{"b": [1, 2.5, {}], "a": {"ü": "x\n"}, "c": []}"#);
        assert_eq!(indented(&json!({"a": [1], "b": {}})), "{\n  \"a\": [\n    1\n  ],\n  \"b\": {}\n}");
    }
}
