//! Canonical JSON: one text for equal values, whatever the order of keys and the spacing.
//!
//! Used by the gate to tell a repeated call from a new one, and to find keys that stand twice (which `serde_json`
//! resolves silently to the last, other readers to the first).

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

/// The canonical text: keys sorted, no spaces, whole floats as integers.
pub(crate) fn text(value: &Value) -> String {
    let mut out = String::new();
    put(value, &mut out);
    out
}

fn put(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<&String, &Value> = map.iter().collect();
            out.push('{');
            for (at, (key, value)) in sorted.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                out.push_str(&Value::String(key.clone()).to_string());
                out.push(':');
                put(value, out);
            }
            out.push('}');
        }
        Value::Array(list) => {
            out.push('[');
            for (at, value) in list.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                put(value, out);
            }
            out.push(']');
        }
        Value::Number(number) => match number.as_f64().filter(|f| number.is_f64() && f.fract() == 0.0 && f.abs() < 9e15) {
            Some(whole) => drop(write!(out, "{whole:.0}")),
            None => out.push_str(&number.to_string()),
        },
        other => out.push_str(&other.to_string()),
    }
}

/// The first key that stands twice in one object of a JSON text, if any. Not JSON: none.
pub(crate) fn duplicate_key(json: &str) -> Option<String> {
    match serde_json::from_str::<Unique>(json) {
        Err(error) if error.is_data() => {
            let message = error.to_string();
            let name = message.strip_prefix(MARK)?;
            Some(name[..name.rfind(" at line ").unwrap_or(name.len())].chars().take(60).collect())
        }
        _ => None,
    }
}

const MARK: &str = "twice: ";

/// A walk over JSON that fails at a key which stands twice.
struct Unique;

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Walk)
    }
}

struct Walk;

impl<'de> Visitor<'de> for Walk {
    type Value = Unique;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_str<E>(self, _: &str) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_unit<E>(self) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Unique, A::Error> {
        while seq.next_element::<Unique>()?.is_some() {}
        Ok(Unique)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Unique, A::Error> {
        let mut seen = rustc_hash::FxHashSet::default();
        while let Some(key) = map.next_key::<String>()? {
            if seen.contains(&key) {
                return Err(serde::de::Error::custom(format_args!("{MARK}{key}")));
            }
            seen.insert(key);
            map.next_value::<Unique>()?;
        }
        Ok(Unique)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn order_and_spelling_of_numbers_do_not_matter() {
        assert_eq!(text(&json!({"b": [1.0, 2.5], "a": {"y": null, "x": "é\n"}})), r#"{"a":{"x":"é\n","y":null},"b":[1,2.5]}"#);
        assert_eq!(text(&json!(-0.0)), text(&json!(-0.0)));
    }

    #[test]
    fn keys_that_stand_twice_are_found_at_any_depth() {
        assert_eq!(duplicate_key(r#"{"a":1,"b":[{"c":1,"c":2}]}"#).as_deref(), Some("c"));
        assert_eq!(duplicate_key(r#"{"a":{"a":1},"b":{"a":2}}"#), None);
        assert_eq!(duplicate_key(r#"{"a":1"#), None);
    }
}
