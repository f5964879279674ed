//! The counter: a request and a model in, a count out. The crate's main face.
//!
//! Used by the command line, the service and embedding hosts alike. Finds the profile, builds the view,
//! hands both to the family's renderer, and packs the result.

use super::render::{self, RenderContext};
use super::{Breakdown, Confidence, Day, ReasoningMemory, TextMemory};
use crate::error::{Error, Kind, Result};
use crate::format::{Conversation, Request};
use crate::models::{Choice, Correction, Corrections, Models, Profile, Provider};
#[cfg(feature = "cache")]
use crate::tokenizer::MessageCache;
use crate::tokenizer::{PresentVocabulary, Tokenizer, VocabularyStore};
use std::sync::{Arc, PoisonError, RwLock};

/// Counts requests as their providers would bill them. Cheap to clone, `Send + Sync`.
#[derive(Clone, Debug)]
pub struct Counter {
    models: Arc<Models>,
    vocabularies: Option<VocabularyStore>,
    #[cfg(feature = "cache")]
    cache: Option<MessageCache>,
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
    /// The day whose snapshot a name means (`deepseek-chat` was V3 and is V4); the newest known without it.
    pub as_of: Option<Day>,
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

/// A prompt as the model gets it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RenderedPrompt {
    /// The text. Special tokens stand in it by their names.
    pub text: String,
    /// The text in pieces, in order and without gaps.
    pub pieces: Vec<PromptPiece>,
    /// What each part weighs, by index.
    pub breakdown: Breakdown,
}

/// A stretch of a prompt that belongs to one part.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptPiece {
    /// Bytes of the text.
    pub range: std::ops::Range<usize>,
    /// Index of the part in the breakdown; `None` for framing.
    pub part: Option<usize>,
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
        Self {
            models: models.into(),
            vocabularies: None,
            #[cfg(feature = "cache")]
            cache: None,
            corrections: Arc::default(),
        }
    }

    /// Looks for vocabularies that aren't built in here instead of in the user's own store.
    #[must_use]
    pub fn with_vocabularies(mut self, store: VocabularyStore) -> Self {
        self.vocabularies = Some(store);
        self
    }

    /// Keeps counts of longer texts in `cache`, so that a history that grew by one message costs a hash of the old ones. Counts are
    /// the same with and without.
    ///
    /// ```
    /// use plimsoll::{Counter, CountOptions, MessageCache, Request, Format};
    /// let cache = MessageCache::new(16 << 20);
    /// let counter = Counter::new().with_cache(cache.clone());
    /// let body = serde_json::json!({"model": "gpt-4o", "messages": [{"role": "user", "content": "ship ".repeat(500)}]});
    /// let request = Request::parse(body.to_string().as_bytes(), Format::Chat)?;
    /// let first = counter.count(&request, &CountOptions::default())?.total();
    /// assert_eq!(counter.count(&request, &CountOptions::default())?.total(), first);
    /// assert!(cache.hits() > 0);
    /// # Ok::<(), plimsoll::Error>(())
    /// ```
    #[cfg(feature = "cache")]
    #[must_use]
    pub fn with_cache(mut self, cache: MessageCache) -> Self {
        self.cache = Some(cache);
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

    /// The profile of a model by any spelling of its name, corrected by what its provider said in this process. A model that the
    /// table doesn't know may be installed under its name ([`Self::installed`]).
    ///
    /// # Errors
    /// As [`Models::find`].
    pub fn profile(&self, name: &str, provider: Option<&Provider>) -> Result<Arc<Profile>> {
        match self.models.find(name, provider) {
            Err(e) if e.kind() == Kind::UnknownModel => self.installed(name).ok_or(e),
            found => found,
        }
        .map(|profile| self.corrected(profile, provider))
    }

    /// As [`Counter::profile`], as the caller chooses it: limits of the caller's own win over what was learned.
    ///
    /// # Errors
    /// As [`Models::choose`].
    pub fn choose(&self, name: &str, provider: Option<&Provider>, choice: &Choice) -> Result<Arc<Profile>> {
        let chosen = match self.models.choose(name, provider, choice) {
            Err(e) if e.kind() == Kind::UnknownModel => self.installed(name).ok_or(e)?,
            chosen => chosen?,
        };
        let mut profile = self.corrected(chosen, provider);
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
        self.count_view(&request.conversation()?, options, None)
    }

    /// As [`Counter::count`] for a view that is made already; `known` remembers texts from one count to the next.
    pub(crate) fn count_view(&self, conversation: &Conversation<'_>, options: &CountOptions, known: Option<&TextMemory>) -> Result<Count> {
        let profile = self.profile_for(conversation, options)?;
        let mut breakdown = self.with_context(conversation, &profile, options, known, render::render)?;
        if let Some(name) = options.provider.as_ref().filter(|provider| provider.is_unknown_name()) {
            breakdown.note(format!("no provider is known as `{name}`: counted by the model alone"));
        }
        Ok(Count { breakdown, profile })
    }

    /// The prompt that the model gets, with who owns which stretch of it: for open-weight models, whose prompts are public.
    ///
    /// # Errors
    /// Those of [`Self::count`]; [`Kind::Unsupported`] where the provider's text form is not public.
    pub fn prompt(&self, request: &Request, options: &CountOptions) -> Result<RenderedPrompt> {
        let conversation = request.conversation()?;
        let profile = self.profile_for(&conversation, options)?;
        self.with_context(&conversation, &profile, options, None, super::template::prompt)
    }

    /// The profile of a model that is not in the table but whose vocabulary and chat template are installed under its name.
    pub fn installed(&self, name: &str) -> Option<Arc<Profile>> {
        let store = self.store()?;
        let vocabulary = store.get(name).ok().filter(|vocabulary| !vocabulary.templates.is_empty())?;
        Some(Arc::new(Profile {
            id: name.to_owned(),
            tokenizer: vocabulary.name.clone(),
            renderer: format!("installed:{}", vocabulary.name),
            source: vocabulary.source,
            ..Profile::default()
        }))
    }

    /// The vocabularies that this counter finds: built in, and in its store.
    ///
    /// # Errors
    /// As [`PresentVocabulary::all`].
    pub fn vocabularies(&self) -> Result<Vec<PresentVocabulary>> {
        PresentVocabulary::all(self.store().as_ref())
    }

    fn store(&self) -> Option<VocabularyStore> {
        self.vocabularies.clone().or_else(|| VocabularyStore::user().ok())
    }

    fn with_context<T>(
        &self,
        conversation: &Conversation<'_>,
        profile: &Profile,
        options: &CountOptions,
        known: Option<&TextMemory>,
        job: impl FnOnce(&RenderContext<'_>) -> Result<T>,
    ) -> Result<T> {
        let store = self.store();
        job(&RenderContext {
            conversation,
            profile,
            provider: options.provider.as_ref(),
            store: store.as_ref(),
            as_of: options.as_of,
            stream: options.stream,
            memory: &options.memory,
            known,
            tokenizer: &|name: &str| self.tokenizer(name, known),
        })
    }

    /// The tokenizer of a vocabulary, from this counter's store, behind what is known of texts: by `known`, or by the cache if there is one.
    pub(crate) fn tokenizer(&self, name: &str, known: Option<&TextMemory>) -> Result<Tokenizer> {
        let tokenizer = match &self.vocabularies {
            Some(store) => Tokenizer::by_name_in(name, store),
            None => Tokenizer::by_name(name),
        }?;
        if let Some(known) = known {
            return Ok(known.tokenizer(&tokenizer));
        }
        #[cfg(feature = "cache")]
        if let Some(cache) = &self.cache {
            return Ok(tokenizer.cached(cache));
        }
        Ok(tokenizer)
    }
}
