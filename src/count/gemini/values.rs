//! JSON values written as Python, as Python's JSON, and in Gemini 3's own notation; and their strings alone.
//!
//! Used by declarations, calls and results. Pure text building: counts nothing but the strings of [`strings`].

use super::text::{Measure, Weight};
use crate::json_text::{push_repr, spaced};
use serde_json::Value;

/// Stands for Gemini 3's `<|"|>` in a text that is not tokenized yet; can't occur in it by the user's doing, because
/// [`quoted`] drops it from strings.
pub(super) const QUOTE: char = '\u{F8FF}';

/// A scalar as Python writes it; lists and objects as JSON.
pub(super) fn python(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::String(text) => push_repr(out, text),
        other => out.push_str(&spaced(other)),
    }
}

/// A string between Gemini 3's quote marks.
pub(super) fn quoted(text: &str, out: &mut String) {
    out.push(QUOTE);
    out.extend(text.chars().filter(|c| *c != QUOTE));
    out.push(QUOTE);
}

/// A value in Gemini 3's notation: bare keys in sorted order, strings between quote marks.
pub(super) fn gemma(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => quoted(text, out),
        Value::Array(list) => {
            out.push('[');
            for (i, member) in list.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                gemma(member, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (i, (key, member)) in fields.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                out.push_str(key);
                out.push(':');
                gemma(member, out);
            }
            out.push('}');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

/// Every key and scalar by itself: a string by its tokens, a number or boolean one token, null nothing.
pub(super) fn strings(value: &Value, measure: &Measure<'_>) -> Weight {
    match value {
        Value::Null => Weight::exact(0),
        Value::Bool(_) | Value::Number(_) => Weight::exact(1),
        Value::String(text) => measure.text(text),
        Value::Array(list) => list.iter().map(|member| strings(member, measure)).sum(),
        Value::Object(map) => map.iter().map(|(key, member)| measure.text(key) + strings(member, measure)).sum(),
    }
}
