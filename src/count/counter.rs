//! The counter: a request and a model in, a count out. The crate's main face.
//!
//! Used by the command line, the service and embedding hosts alike. Finds the profile, builds the view,
//! hands both to the family's renderer, and packs the result.

use super::render::{self, RenderContext};
use super::{Breakdown, Confidence, ReasoningMemory};
use crate::error::{Error, Kind, Result};
use crate::format::Request;
use crate::models::{Models, Profile, Provider};
use crate::tokenizer::{Tokenizer, VocabularyStore};
use std::sync::Arc;

/// Counts requests as their providers would bill them. Cheap to clone, `Send + Sync`.
#[derive(Clone, Debug)]
pub struct Counter {
    models: Arc<Models>,
    vocabularies: Option<VocabularyStore>,
}

/// What a count may be told beside the request.
#[derive(Clone, Debug, Default)]
pub struct CountOptions {
    /// The model; without it the one that the body names.
    pub model: Option<String>,
    /// Whose endpoint bills the request. Without it the maker's own is assumed where that decides, and the bound is wider.
    pub provider: Option<Provider>,
    /// A profile to use instead of looking the model up.
    pub profile: Option<Arc<Profile>>,
    /// Whether the response is streamed, for formats whose body doesn't say (Gemini names it in the URL); `None` when not known.
    pub stream: Option<bool>,
    /// What earlier responses reported for replayed reasoning.
    pub memory: Arc<ReasoningMemory>,
}

/// A request's weight.
#[derive(Clone, Debug)]
pub struct Count {
    /// Parts, total, confidence and bound.
    pub breakdown: Breakdown,
    /// The profile that was used.
    pub profile: Arc<Profile>,
}

impl Count {
    /// Tokens in all: the sum of the breakdown.
    pub fn total(&self) -> u64 {
        self.breakdown.total()
    }

    /// How sure the total is.
    pub fn confidence(&self) -> Confidence {
        self.breakdown.confidence()
    }

    /// Most that the true total may differ, in tokens, either way; `None` when unbounded.
    pub fn bound(&self) -> Option<u64> {
        self.breakdown.bound()
    }
}

impl Default for Counter {
    fn default() -> Self {
        Self::new()
    }
}

impl Counter {
    /// A counter over the built-in model table.
    pub fn new() -> Self {
        Self::with_models(Models::builtin())
    }

    /// A counter over a table of the caller's.
    pub fn with_models(models: impl Into<Arc<Models>>) -> Self {
        Self { models: models.into(), vocabularies: None }
    }

    /// Looks for vocabularies that aren't built in here instead of in the user's own store.
    #[must_use]
    pub fn with_vocabularies(mut self, store: VocabularyStore) -> Self {
        self.vocabularies = Some(store);
        self
    }

    /// The model table.
    pub fn models(&self) -> &Models {
        &self.models
    }

    /// Counts one request.
    ///
    /// # Errors
    /// [`Kind::InvalidInput`] where the body breaks its format; [`Kind::UnknownModel`] with near names when the
    /// model isn't in the table; [`Kind::LimitExceeded`] over a cap.
    pub fn count(&self, request: &Request, options: &CountOptions) -> Result<Count> {
        let conversation = request.conversation()?;
        let profile = match (&options.profile, options.model.as_deref().or(conversation.model)) {
            (Some(profile), _) => Arc::clone(profile),
            (None, Some(model)) => self.models.find(model, options.provider.as_ref())?,
            (None, None) => {
                return Err(Error::new(Kind::InvalidInput, "the body names no model; name one beside it"));
            }
        };
        let breakdown = render::render(&RenderContext {
            conversation: &conversation,
            profile: &profile,
            provider: options.provider.as_ref(),
            stream: options.stream,
            memory: &options.memory,
            tokenizer: &|name: &str| match &self.vocabularies {
                Some(store) => Tokenizer::by_name_in(name, store),
                None => Tokenizer::by_name(name),
            },
        })?;
        Ok(Count { breakdown, profile })
    }
}
