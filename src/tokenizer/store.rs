//! Vocabularies that are not built in: where they are looked for, by name.
//!
//! [`super::Tokenizer::by_name`] asks here last. Reads no network.

use super::Tokenizer;
use crate::error::{Error, Kind, Result};

/// The tokenizer of a vocabulary that isn't built in.
pub(super) fn find(name: &str) -> Result<Tokenizer> {
    Err(Error::new(Kind::NotFound, format!("unknown tokenizer `{name}`")))
}
