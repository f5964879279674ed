//! The model table: names to profiles.

use super::{Profile, Provider};
use crate::error::{Error, Kind, Result};
use std::sync::Arc;

/// Profiles by name: the built-in data, an import, a user's overrides (the last wins).
#[derive(Clone, Debug, Default)]
pub struct Models {}

impl Models {
    /// The built-in table.
    pub fn builtin() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// The profile of a model as named by a body, a flag or a provider's URL.
    ///
    /// # Errors
    /// [`Kind::UnknownModel`] with near names.
    pub fn find(&self, name: &str, provider: Option<&Provider>) -> Result<Arc<Profile>> {
        let _ = provider;
        Err(Error::new(Kind::UnknownModel, format!("unknown model `{name}`")))
    }
}
