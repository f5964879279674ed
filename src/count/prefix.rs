//! Prefix ids: a client that appended to a history sends the id of what it sent before, and only what is new.
//!
//! Used by the service (and by hosts that keep many histories). Holds whole bodies, bounded in bytes, so that a joined
//! request is counted exactly like one sent whole (invariant 3); the saving is in what travels and, with the message
//! cache, in what is tokenized. An id that isn't held any more is a [`Kind::Conflict`]: the client sends the whole.

use crate::error::{Error, Kind, Result};
use crate::format::{Format, Request};
use serde_json::Value;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// Bodies by prefix id, bounded in bytes; the least recently used go first. Cheap to clone, `Send + Sync`.
#[derive(Clone, Debug)]
pub struct PrefixStore {
    bodies: moka::sync::Cache<u128, Arc<Held>>,
}

#[derive(Debug)]
struct Held {
    format: Format,
    value: Value,
    bytes: usize,
}

impl PrefixStore {
    /// A store of at most `bytes` bytes of body text. Parsed bodies take a small multiple of that.
    pub fn new(bytes: u64) -> Self {
        let bodies = moka::sync::Cache::builder()
            .max_capacity(bytes)
            .weigher(|_, held: &Arc<Held>| u32::try_from(held.bytes).unwrap_or(u32::MAX))
            .build();
        Self { bodies }
    }

    /// Keeps a body and gives its id: 32 hexadecimal digits of a hash of format and text.
    ///
    /// Costs a hash and a copy of the parsed body, unless it is held already.
    pub fn keep(&self, request: &Request) -> String {
        let mut hash = Xxh3::new();
        hash.update(request.format().as_str().as_bytes());
        hash.update(&[0]);
        hash.update(request.text().as_bytes());
        let id = hash.digest128();
        self.bodies.get_with(id, || {
            Arc::new(Held { format: request.format(), value: request.value().clone(), bytes: request.text().len().max(1) })
        });
        format!("{id:032x}")
    }

    /// The whole request: the body kept under `id` with the new one's messages appended and its other fields put in place
    /// of the old ones.
    ///
    /// # Errors
    /// [`Kind::Conflict`] when the id isn't held; [`Kind::InvalidInput`] when it is none, the formats differ, or the message
    /// lists are not lists.
    pub fn join(&self, id: &str, new: &Request) -> Result<Request> {
        let key =
            u128::from_str_radix(id, 16).ok().filter(|_| id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit())).ok_or_else(|| {
                Error::new(Kind::InvalidInput, "not a prefix id; expected the 32 hexadecimal digits that an earlier reply gave")
            })?;
        let held = self
            .bodies
            .get(&key)
            .ok_or_else(|| Error::new(Kind::Conflict, "this prefix id isn't held (any more); send the whole request"))?;
        if held.format != new.format() {
            return Err(Error::new(
                Kind::InvalidInput,
                format!("the prefix is in the format {}, the new part in {}", held.format, new.format()),
            ));
        }
        let list = match new.format() {
            Format::Responses => "input",
            Format::Gemini => "contents",
            Format::Mcp => return Err(Error::new(Kind::InvalidInput, "a tool list has no messages to append")),
            _ => "messages",
        };
        let mut whole = held.value.clone();
        let (Value::Object(body), Value::Object(added)) = (&mut whole, new.value()) else {
            return Err(Error::new(Kind::Internal, "a kept body is not an object"));
        };
        for (key, value) in added {
            if key != list {
                body.insert(key.clone(), value.clone());
                continue;
            }
            let more = value.as_array().ok_or_else(|| Error::invalid(format!("/{list}"), "expected a list of what is new"))?;
            let old = body.entry(list).or_insert_with(|| Value::Array(Vec::new()));
            // A Responses body may give its only message as a string.
            if let Value::String(text) = old {
                *old = serde_json::json!([{"role": "user", "content": text.as_str()}]);
            }
            let Value::Array(old) = old else {
                return Err(Error::invalid(format!("/{list}"), "the kept body has no list to append to"));
            };
            old.extend(more.iter().cloned());
        }
        Request::from_value(whole, new.format())
    }

    /// Bodies held now (approximate while others write).
    pub fn len(&self) -> u64 {
        self.bodies.entry_count()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::{CountOptions, Counter};

    fn request(body: &str, format: Format) -> Request {
        Request::parse(body.as_bytes(), format).unwrap()
    }

    #[test]
    fn an_appended_history_counts_like_the_whole() {
        let store = PrefixStore::new(1 << 20);
        let counter = Counter::new();
        let mut messages = vec![r#"{"role":"system","content":"Be brief."}"#.to_owned()];
        let mut id = store.keep(&request(&format!(r#"{{"model":"gpt-4o","messages":[{}]}}"#, messages[0]), Format::Chat));
        for turn in 0..12 {
            let more =
                format!(r#"{{"role":"user","content":"Turn {turn}: how many tokens?"}},{{"role":"assistant","content":"Some {turn}."}}"#);
            let joined = store.join(&id, &request(&format!(r#"{{"messages":[{more}]}}"#), Format::Chat)).unwrap();
            messages.push(more);
            let whole = request(&format!(r#"{{"model":"gpt-4o","messages":[{}]}}"#, messages.join(",")), Format::Chat);
            assert_eq!(joined.value(), whole.value());
            let options = CountOptions::default();
            assert_eq!(counter.count(&joined, &options).unwrap().total(), counter.count(&whole, &options).unwrap().total());
            id = store.keep(&joined);
        }
    }

    #[test]
    fn new_fields_replace_old_ones_and_a_string_input_becomes_a_list() {
        let store = PrefixStore::new(1 << 20);
        let id = store.keep(&request(r#"{"model":"gpt-4o","input":"hi","temperature":1}"#, Format::Responses));
        let joined =
            store.join(&id, &request(r#"{"input":[{"role":"assistant","content":"hello"}],"temperature":0}"#, Format::Responses)).unwrap();
        assert_eq!(joined.value()["temperature"], 0);
        assert_eq!(joined.value()["input"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn ids_that_are_none_or_are_gone_are_told_apart() {
        let store = PrefixStore::new(1 << 20);
        let new = request(r#"{"messages":[]}"#, Format::Chat);
        assert_eq!(store.join("xyz", &new).unwrap_err().kind(), Kind::InvalidInput);
        assert_eq!(store.join(&"+".repeat(32), &new).unwrap_err().kind(), Kind::InvalidInput);
        assert_eq!(store.join(&"0".repeat(32), &new).unwrap_err().kind(), Kind::Conflict);
        let id = store.keep(&request(r#"{"contents":[]}"#, Format::Gemini));
        assert_eq!(store.join(&id, &new).unwrap_err().kind(), Kind::InvalidInput);
    }
}
