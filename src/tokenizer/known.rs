//! What is known of published vocabularies by name: splits of their rank files, and ids that prove a file is the right one.
//!
//! Read by the store. Data, with its date, in `data/vocabularies.json`; no vocabulary itself.

use super::split::Split;
use crate::error::{Error, Kind, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

#[derive(Deserialize)]
struct Table {
    probe: String,
    vocabularies: BTreeMap<String, Known>,
    splits: BTreeMap<String, String>,
}

/// One published vocabulary.
#[derive(Debug, Deserialize)]
pub(super) struct Known {
    /// Other names under which it is asked for.
    also: Vec<String>,
    /// Name of the split of its rank file.
    pub(super) split: Option<String>,
    /// `nfc`, when the maker normalizes text first.
    normalizer: Option<String>,
    /// Ids of [`probe`].
    pub(super) probe_ids: Option<Vec<u32>>,
}

impl Known {
    /// Whether text is brought to NFC first.
    pub(super) fn nfc(&self) -> bool {
        self.normalizer.as_deref() == Some("nfc")
    }
}

static TABLE: LazyLock<Option<Table>> = LazyLock::new(|| serde_json::from_str(include_str!("../../data/vocabularies.json")).ok());

fn table() -> Result<&'static Table> {
    TABLE.as_ref().ok_or_else(|| Error::new(Kind::Internal, "the table of known vocabularies does not parse"))
}

/// The canonical name of a vocabulary: `qwen2.5` is `qwen3`. Unknown names stay as they are.
pub(super) fn canonical(name: &str) -> &str {
    let Some(table) = TABLE.as_ref() else { return name };
    table
        .vocabularies
        .iter()
        .find(|(_, known)| known.also.iter().any(|also| also == name))
        .map_or(name, |(canonical, _)| canonical.as_str())
}

/// What is known of a canonical name.
pub(super) fn find(name: &str) -> Option<&'static Known> {
    TABLE.as_ref()?.vocabularies.get(name)
}

/// Names of all known vocabularies.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().flat_map(|table| table.vocabularies.keys().map(String::as_str))
}

/// The text whose ids are known.
pub(super) fn probe() -> &'static str {
    TABLE.as_ref().map_or("", |table| table.probe.as_str())
}

/// The hot core's own form of a named split, where it has one.
pub(super) fn core_split(name: &str) -> Option<Split> {
    Some(match name {
        "qwen" => Split::Qwen,
        "qwen-marks" => Split::QwenMarks,
        "llama3" => Split::Llama3,
        "o200k" => Split::O200k,
        "kimi" => Split::Kimi,
        _ => return None,
    })
}

/// Names of all splits.
pub(super) fn splits() -> impl Iterator<Item = &'static str> {
    TABLE.iter().flat_map(|table| table.splits.keys().map(String::as_str))
}

/// The pattern of a named split.
pub(super) fn split(name: &str) -> Result<&'static str> {
    let table = table()?;
    table
        .splits
        .get(name)
        .map(String::as_str)
        .ok_or_else(|| Error::new(Kind::InvalidInput, format!("unknown split `{name}`")).suggest(table.splits.keys().cloned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_parses_and_its_splits_exist() {
        assert!(table().is_ok());
        for name in names() {
            if let Some(named) = find(name).and_then(|known| known.split.as_deref()) {
                assert!(split(named).is_ok(), "{name}");
            }
        }
        assert!(splits().all(|name| core_split(name).is_some_and(|split| super::super::byte_level::Pieces::of(split).is_some())));
        assert_eq!(canonical("qwen2.5"), "qwen3");
        assert_eq!(canonical("gemma3"), "gemma3");
        assert_eq!(split("qwn").unwrap_err().kind(), Kind::InvalidInput);
    }
}
