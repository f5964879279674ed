//! Lenient looks into JSON from a network: a field of the wrong type is an absent field.
//!
//! Used by the readers and assemblers of answers, which may never fail on a surplus or odd field.

use serde_json::{Map, Value};

/// A string field.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

/// A string field that isn't empty.
pub(crate) fn filled<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    text(value, key).filter(|text| !text.is_empty())
}

/// An array field; empty when absent.
pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A whole-number field.
pub(crate) fn index(value: &Value, key: &str) -> Option<u64> {
    value.get(key).and_then(Value::as_u64)
}

/// A field that is neither absent nor null.
pub(crate) fn some<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    value.get(key).filter(|value| !value.is_null())
}

/// JSON as the text of arguments: a string is already text.
pub(crate) fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// A field of a map as a mutable string, made when absent (or of another type).
pub(crate) fn text_slot<'a>(map: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut String> {
    let slot = map.entry(key).or_insert(Value::Null);
    if !slot.is_string() {
        *slot = Value::String(String::new());
    }
    match slot {
        Value::String(text) => Some(text),
        _ => None,
    }
}
