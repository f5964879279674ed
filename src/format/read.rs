//! Typed reads of JSON fields, with errors that name the place: shared by the format files.
#![allow(dead_code, reason = "callers arrive with the formats")]

use super::{Media, Place, kind_of};
use crate::error::{Error, Kind, Result};
use serde_json::{Map, Value};

/// An object at `place` (JSON Pointer), with typed access to its fields.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a, 'p> {
    pub(super) map: &'a Map<String, Value>,
    pub(super) place: &'p str,
}

impl<'a, 'p> Fields<'a, 'p> {
    /// `value` as an object.
    pub(super) fn of(value: &'a Value, place: &'p str) -> Result<Self> {
        match value {
            Value::Object(map) => Ok(Self { map, place }),
            other => Err(wrong(place, "an object", other)),
        }
    }

    /// A field, with null as absent.
    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|v| !v.is_null())
    }

    /// The place of a field.
    pub(super) fn at(&self, key: &str) -> Place {
        join(self.place, key)
    }

    /// An optional string.
    pub(super) fn str(&self, key: &str) -> Result<Option<&'a str>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(&self.at(key), "a string", other)),
        }
    }

    /// A string that must be there.
    pub(super) fn need_str(&self, key: &str) -> Result<&'a str> {
        self.str(key)?.ok_or_else(|| Error::invalid(self.place, format!("`{key}` is missing; expected a string")))
    }

    /// An optional array.
    pub(super) fn array(&self, key: &str) -> Result<Option<&'a Vec<Value>>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list)),
            Some(other) => Err(wrong(&self.at(key), "an array", other)),
        }
    }

    /// An optional object.
    pub(super) fn object(&self, key: &str) -> Result<Option<&'a Map<String, Value>>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(map)),
            Some(other) => Err(wrong(&self.at(key), "an object", other)),
        }
    }

    /// An optional non-negative whole number.
    pub(super) fn u64(&self, key: &str) -> Result<Option<u64>> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => whole(value).map(Some).ok_or_else(|| wrong(&self.at(key), "a whole number from 0 to 2^64-1", value)),
        }
    }

    /// An optional boolean; absent is false.
    pub(super) fn bool(&self, key: &str) -> Result<bool> {
        match self.get(key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(wrong(&self.at(key), "a boolean", other)),
        }
    }
}

/// `place` + `/` + escaped `key`.
pub(super) fn join(place: &str, key: &str) -> Place {
    let mut out = String::with_capacity(place.len() + key.len() + 1);
    out.push_str(place);
    out.push('/');
    if key.contains(['~', '/']) {
        out.push_str(&key.replace('~', "~0").replace('/', "~1"));
    } else {
        out.push_str(key);
    }
    out
}

/// `place` + `/` + index.
pub(super) fn nth(place: &str, index: usize) -> Place {
    format!("{place}/{index}")
}

/// Refuses a list over its cap of [`crate::limits`].
pub(super) fn capped(list: &[Value], cap: usize, what: &str, place: &str) -> Result<()> {
    if list.len() <= cap {
        return Ok(());
    }
    Err(Error::new(Kind::LimitExceeded, format!("{} {what}; at most {cap} are taken", list.len())).at(place))
}

/// A type error at a place.
pub(super) fn wrong(place: &str, expected: &str, found: &Value) -> Error {
    Error::invalid(place, format!("expected {expected}, found {}", kind_of(found)))
}

/// Where a URL's bytes are: a `data:` URL carries them, any other only names them.
pub(super) fn media_of_url(url: &str) -> Media<'_> {
    let Some(rest) = url.strip_prefix("data:") else { return Media { url: Some(url), ..Media::default() } };
    let (head, data) = rest.split_once(',').unwrap_or(("", rest));
    let mime = head.split(';').next().filter(|mime| !mime.is_empty());
    let base64 = head.split(';').any(|piece| piece.eq_ignore_ascii_case("base64")) || head.is_empty();
    if base64 { Media { base64: Some(data), mime, ..Media::default() } } else { Media { text: Some(data), mime, ..Media::default() } }
}

/// A non-negative whole number, `3.0` included.
fn whole(value: &Value) -> Option<u64> {
    if let Some(n) = value.as_u64() {
        return Some(n);
    }
    let n = value.as_f64()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be whole, non-negative and in range")]
    ((0.0..18_446_744_073_709_551_615.0).contains(&n) && n.fract() == 0.0).then_some(n as u64)
}
