//! What every renderer is given, and the dispatch from a profile's renderer name to the family's code.
//!
//! Called by the counter alone. A renderer is a pure function of its context (invariant 2).

#![allow(dead_code, reason = "renderers read these as they arrive")]

use super::{Breakdown, Day, ReasoningMemory, TextMemory};
use crate::error::Result;
use crate::format::Conversation;
use crate::models::{Profile, Provider};
use crate::tokenizer::{Tokenizer, VocabularyStore};

/// All that a count may depend on.
pub(crate) struct RenderContext<'a> {
    /// The request's view.
    pub(crate) conversation: &'a Conversation<'a>,
    /// The model's profile.
    pub(crate) profile: &'a Profile,
    /// Whose endpoint bills it, when known.
    pub(crate) provider: Option<&'a Provider>,
    /// Whether the response is streamed, where the caller says so.
    pub(crate) stream: Option<bool>,
    /// What earlier responses reported for replayed reasoning.
    pub(crate) memory: &'a ReasoningMemory,
    /// What texts were found to weigh already, when one history is weighed a few times over.
    pub(crate) known: Option<&'a TextMemory>,
    /// Gives the tokenizer of a vocabulary name, or an error when it isn't present.
    pub(crate) tokenizer: &'a dyn Fn(&str) -> Result<Tokenizer>,
    /// Where vocabularies and the templates beside them lie, when there is such a place.
    pub(crate) store: Option<&'a VocabularyStore>,
    /// The day whose snapshots the names mean; the newest known without it.
    pub(crate) as_of: Option<Day>,
}

/// Counts by the family's renderer.
pub(crate) fn render(context: &RenderContext<'_>) -> Result<Breakdown> {
    let renderer = context.profile.renderer.as_str();
    let family = renderer.split(['-', ':']).next().unwrap_or(renderer);
    match family {
        "openai" | "harmony" => super::openai::render(context),
        "claude" => super::claude::render(context),
        "gemini" => super::gemini::render(context),
        "nova" => super::nova::render(context),
        "grok" => super::grok::render(context),
        "template" | "installed" => super::template::render(context),
        _ => super::generic::render(context),
    }
}
