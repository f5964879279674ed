//! The counter: a request and a model in, a count out. The crate's main face.
//!
//! Used by the command line, the service and embedding hosts alike. Finds the profile, builds the view,
//! hands both to the family's renderer, and packs the result.

use super::render::{self, RenderContext};
use super::{Breakdown, Confidence, ReasoningMemory};
use crate::error::{Error, Kind, Result};
use crate::format::{Conversation, Request};
use crate::models::{Choice, Correction, Corrections, Models, Profile, Provider};
use crate::tokenizer::{Tokenizer, VocabularyStore};
use std::sync::{Arc, PoisonError, RwLock};

/// Counts requests as their providers would bill them. Cheap to clone, `Send + Sync`.
#[derive(Clone, Debug)]
pub struct Counter {
    models: Arc<Models>,
    vocabularies: Option<VocabularyStore>,
    /// What providers said of their limits; shared by all clones.
    corrections: Arc<RwLock<Corrections>>,
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
        Self { models: models.into(), vocabularies: None, corrections: Arc::default() }
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

    /// Takes a provider's word on a model's limits: this counter and its clones give profiles, and so budgets, by it from now
    /// on. Counts stay what they were. False when too many other models are corrected already.
    ///
    /// ```
    /// use plimsoll::{Counter, turn::classify};
    /// let counter = Counter::new();
    /// let table = counter.profile("gpt-4o", None)?;
    /// let error = classify(400, b"This model's maximum context length is 32768 tokens. However, you requested 40000 tokens.");
    /// let correction = error.correction(&table).expect("the table says 128000");
    /// counter.correct(&correction, None);
    /// assert_eq!(counter.profile("gpt-4o", None)?.window, Some(32_768));
    /// # Ok::<(), plimsoll::Error>(())
    /// ```
    pub fn correct(&self, correction: &Correction, provider: Option<&Provider>) -> bool {
        self.corrections.write().unwrap_or_else(PoisonError::into_inner).keep(correction, provider)
    }

    /// The profile of a model by any spelling of its name, corrected by what its provider said in this process.
    ///
    /// # Errors
    /// As [`Models::find`].
    pub fn profile(&self, name: &str, provider: Option<&Provider>) -> Result<Arc<Profile>> {
        self.models.find(name, provider).map(|profile| self.corrected(profile, provider))
    }

    /// As [`Counter::profile`], as the caller chooses it: limits of the caller's own win over what was learned.
    ///
    /// # Errors
    /// As [`Models::choose`].
    pub fn choose(&self, name: &str, provider: Option<&Provider>, choice: &Choice) -> Result<Arc<Profile>> {
        let mut profile = self.corrected(self.models.choose(name, provider, choice)?, provider);
        if choice.window.is_some() || choice.output_cap.is_some() {
            let limits = Arc::make_mut(&mut profile);
            limits.window = choice.window.or(limits.window);
            limits.output_cap = choice.output_cap.or(limits.output_cap);
        }
        Ok(profile)
    }

    /// A profile with what was learned of it.
    pub(crate) fn corrected(&self, profile: Arc<Profile>, provider: Option<&Provider>) -> Arc<Profile> {
        let corrections = self.corrections.read().unwrap_or_else(PoisonError::into_inner);
        corrections.apply(&profile, provider).map_or(profile, Arc::new)
    }

    /// The profile that a request is counted by.
    ///
    /// # Errors
    /// [`Kind::UnknownModel`] with near names; [`Kind::InvalidInput`] when neither body nor options name a model.
    pub fn profile_for(&self, conversation: &Conversation<'_>, options: &CountOptions) -> Result<Arc<Profile>> {
        match (&options.profile, options.model.as_deref().or(conversation.model)) {
            (Some(profile), _) => Ok(Arc::clone(profile)),
            (None, Some(model)) => self.profile(model, options.provider.as_ref()),
            (None, None) => Err(Error::new(Kind::InvalidInput, "the body names no model; name one beside it")),
        }
    }

    /// Counts one request.
    ///
    /// # Errors
    /// [`Kind::InvalidInput`] where the body breaks its format; [`Kind::UnknownModel`] with near names when the
    /// model isn't in the table; [`Kind::LimitExceeded`] over a cap.
    pub fn count(&self, request: &Request, options: &CountOptions) -> Result<Count> {
        let conversation = request.conversation()?;
        let profile = self.profile_for(&conversation, options)?;
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
