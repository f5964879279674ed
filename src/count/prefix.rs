//! Prefix ids: a client that appended to a history sends the id of what it sent before, and only what is new.
//!
//! Used by the service (and by hosts that keep many histories). Holds whole bodies, parsed, bounded in memory, so that a joined
//! request is counted exactly like one sent whole (invariant 3); the saving is in what travels, in parsing and, with the
//! message cache, in what is tokenized. Ids are hashes under a seed drawn for each store: nobody can prepare two bodies with one id,
//! and an id means nothing to another store. One that isn't held any more is a [`Kind::Conflict`]: the client sends the whole.

use crate::error::{Error, Kind, Result};
use crate::format::{Format, Request};
use crate::limits;
use serde_json::Value;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use twox_hash::XxHash3_128;

/// Bodies by prefix id, bounded in bytes; the least used go first. Cheap to clone, `Send + Sync`.
#[derive(Clone, Debug)]
pub struct PrefixStore {
    bodies: moka::sync::Cache<u128, Arc<Held>>,
    seed: u64,
}

#[derive(Debug)]
struct Held {
    request: Request,
    size: Size,
}

/// What a body takes.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    /// Bytes of its text, or about that.
    text: usize,
    /// JSON values in it.
    values: usize,
}

impl Size {
    fn plus(self, other: Self) -> Self {
        Self { text: self.text.saturating_add(other.text), values: self.values.saturating_add(other.values) }
    }

    /// Bytes of memory that the parsed body takes, about.
    fn memory(self) -> u32 {
        // With its key and what allocating them takes.
        const VALUE: usize = std::mem::size_of::<Value>() + 64;
        u32::try_from(self.values.saturating_mul(VALUE).saturating_add(self.text)).unwrap_or(u32::MAX)
    }
}

/// Values inside a value, itself included.
fn values(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(values).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(values).sum::<usize>(),
        _ => 1,
    }
}

impl PrefixStore {
    /// A store of bodies that take at most `bytes` bytes of memory, about.
    pub fn new(bytes: u64) -> Self {
        let bodies = moka::sync::Cache::builder().max_capacity(bytes).weigher(|_, held: &Arc<Held>| held.size.memory()).build();
        Self { bodies, seed: RandomState::new().hash_one(0_u64) }
    }

    /// Keeps a body and gives its id: 32 hexadecimal digits of a hash of format and text.
    ///
    /// Costs a hash of the text and a walk over its values.
    pub fn keep(&self, request: &Request) -> String {
        let id = self.hash(&[request.format().as_str(), request.text()]);
        self.bodies.get_with(id, || {
            let size = Size { text: request.text().len(), values: values(request.value()) };
            Arc::new(Held { request: request.clone(), size })
        });
        format!("{id:032x}")
    }

    /// The whole request: the body kept under `id` with the new one's messages appended and its other fields put in place
    /// of the old ones. Costs a copy of the kept body.
    ///
    /// # Errors
    /// [`Kind::Conflict`] when the id isn't held; [`Kind::InvalidInput`] when it is none, the formats differ, or the message
    /// lists are not lists; [`Kind::LimitExceeded`] when the whole would be larger than a body may be.
    pub fn join(&self, id: &str, new: &Request) -> Result<Request> {
        self.joined(id, new).map(|held| held.request)
    }

    /// As [`PrefixStore::join`], and keeps the whole; gives its id too, a hash of the old one and of what is new.
    ///
    /// # Errors
    /// As [`PrefixStore::join`].
    pub fn extend(&self, id: &str, new: &Request) -> Result<(Request, String)> {
        let held = self.joined(id, new)?;
        let request = held.request.clone();
        let id = self.hash(&[id, new.text()]);
        self.bodies.insert(id, Arc::new(held));
        Ok((request, format!("{id:032x}")))
    }

    fn hash(&self, parts: &[&str]) -> u128 {
        let mut hash = XxHash3_128::with_seed(self.seed);
        for part in parts {
            hash.write(part.as_bytes());
            hash.write(&[0xff]);
        }
        hash.finish_128()
    }

    fn joined(&self, id: &str, new: &Request) -> Result<Held> {
        let key = Some(id)
            .filter(|id| id.len() == 32 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
            .and_then(|id| u128::from_str_radix(id, 16).ok())
            .ok_or_else(|| {
                Error::new(Kind::InvalidInput, "not a prefix id; expected the 32 hexadecimal digits that an earlier reply gave")
            })?;
        let held = self
            .bodies
            .get(&key)
            .ok_or_else(|| Error::new(Kind::Conflict, "this prefix id isn't held (any more); send the whole request"))?;
        let format = held.request.format();
        if format != new.format() {
            return Err(Error::new(Kind::InvalidInput, format!("the prefix is in the format {format}, the new part in {}", new.format())));
        }
        let list = match format {
            Format::Responses => "input",
            Format::Gemini => "contents",
            Format::Mcp => return Err(Error::new(Kind::InvalidInput, "a tool list has no messages to append")),
            Format::Chat | Format::Anthropic | Format::Converse => "messages",
        };
        let size = held.size.plus(Size { text: new.text().len(), values: values(new.value()) });
        if size.text > limits::MAX_BODY_BYTES || size.values > limits::MAX_JSON_NODES {
            return Err(Error::new(
                Kind::LimitExceeded,
                format!(
                    "with its prefix the body has {} bytes and {} values; at most {} and {} are taken",
                    size.text,
                    size.values,
                    limits::MAX_BODY_BYTES,
                    limits::MAX_JSON_NODES
                ),
            ));
        }
        let mut whole = held.request.value().clone();
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
        Ok(Held { request: Request::from_value(whole, format)?, size })
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
            let new = request(&format!(r#"{{"messages":[{more}]}}"#), Format::Chat);
            let joined = store.join(&id, &new).unwrap();
            messages.push(more);
            let whole = request(&format!(r#"{{"model":"gpt-4o","messages":[{}]}}"#, messages.join(",")), Format::Chat);
            assert_eq!(joined.value(), whole.value());
            let options = CountOptions::default();
            assert_eq!(counter.count(&joined, &options).unwrap().total(), counter.count(&whole, &options).unwrap().total());
            if turn % 2 == 0 {
                let extended;
                (extended, id) = store.extend(&id, &new).unwrap();
                assert_eq!(extended.value(), whole.value());
            } else {
                id = store.keep(&joined);
            }
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

    #[test]
    fn a_body_does_not_grow_past_what_a_body_may_hold() {
        let store = PrefixStore::new(1 << 40);
        let mut held = store.joined(&store.keep(&request(r#"{"messages":[]}"#, Format::Chat)), &request("{}", Format::Chat)).unwrap();
        let new = request(r#"{"messages":[{"role":"user","content":"more"}]}"#, Format::Chat);
        for size in [Size { text: limits::MAX_BODY_BYTES - 8, values: 1 }, Size { text: 1, values: limits::MAX_JSON_NODES }] {
            held.size = size;
            store.bodies.insert(7, Arc::new(Held { request: held.request.clone(), size }));
            let error = store.extend(&format!("{:032x}", 7), &new).unwrap_err();
            assert_eq!(error.kind(), Kind::LimitExceeded);
        }
    }

    #[test]
    fn stores_do_not_share_ids_and_stay_within_their_memory() {
        let body = request(r#"{"model":"gpt-4o","messages":[{"role":"user","content":"hello"}]}"#, Format::Chat);
        assert_ne!(PrefixStore::new(1 << 20).keep(&body), PrefixStore::new(1 << 20).keep(&body));
        let store = PrefixStore::new(50_000);
        assert_eq!(store.keep(&body), store.keep(&body));
        for turn in 0..500 {
            store.keep(&request(&format!(r#"{{"messages":[{{"role":"user","content":"turn {turn}"}}]}}"#), Format::Chat));
        }
        store.bodies.run_pending_tasks();
        assert!(store.bodies.weighted_size() <= 50_000 && !store.is_empty());
    }
}
