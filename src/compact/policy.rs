//! The policy of a compaction: when to act, how far down, what to leave alone, which steps and which summarizer.
//!
//! Read from TOML or JSON by the edges (serde), or built in code; [`Policy::resolve`] turns shares into tokens and
//! refuses what contradicts itself. Holds no state; the same policy and request give the same plan (invariant 10).

use super::plan::Step;
use crate::error::{Error, Kind, Result};
use crate::models::Profile;
use serde::{Deserialize, Deserializer, Serialize};
use std::sync::Arc;

/// A number of tokens, or a share of the window's room for input.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Mark {
    /// Tokens.
    Tokens(u64),
    /// A share, over 0 and at most 1.
    Share(f64),
}

impl<'de> Deserialize<'de> for Mark {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Raw {
            Tokens(u64),
            Share(f64),
            Text(String),
        }
        match Raw::deserialize(deserializer)? {
            Raw::Tokens(tokens) => Ok(Self::Tokens(tokens)),
            Raw::Share(share) => Ok(Self::Share(share)),
            Raw::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

impl std::str::FromStr for Mark {
    type Err = Error;

    /// `80%`, `0.8` or `120000`.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::new(Kind::InvalidInput, "a mark is a number of tokens (`120000`) or a share of the window (`80%`, `0.8`)");
        if let Some(percent) = text.trim().strip_suffix('%') {
            return percent.trim().parse::<f64>().map(|p| Self::Share(p / 100.0)).map_err(|_| wrong());
        }
        match text.trim().parse() {
            Ok(tokens) => Ok(Self::Tokens(tokens)),
            Err(_) => text.trim().parse().map(Self::Share).map_err(|_| wrong()),
        }
    }
}

/// What must stay as it is. Every field that is given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pin {
    /// Index in the message list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// Id of the message, of a call in it or of a result in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// A tag that stands literally in the message's text, such as `#keep`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Role: `user`, `assistant`, `tool`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Name of a tool that is called or answered in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
}

/// Who writes summaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SummarizerKind {
    /// The built-in one: deterministic, offline.
    #[default]
    Extractive,
    /// An OpenAI-compatible server (feature `endpoint`).
    Endpoint,
    /// The host, in a second call; the plan carries what to summarize.
    Host,
}

/// What may be trimmed of tool definitions. Nothing unless asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrimTools {
    /// Remove the definitions of tools that the history never calls.
    pub unused: bool,
    /// Cut descriptions to this many characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description_chars: Option<usize>,
}

/// How to compact. `Policy::default()` is sound for any model.
///
/// ```
/// let policy: plimsoll::Policy = serde_json::from_str(r##"{"high": "80%", "low": 0.5, "pins": [{"tag": "#keep"}]}"##).unwrap();
/// assert_eq!(policy.high, plimsoll::Mark::Share(0.8));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Act when the request counts more than this.
    pub high: Mark,
    /// Then bring it down to this or less; below `high`.
    pub low: Mark,
    /// What stays as it is.
    pub pins: Vec<Pin>,
    /// How many newest exchanges stay whole.
    pub keep_exchanges: usize,
    /// Steps that may be taken.
    pub steps: Vec<Step>,
    /// Results over this many tokens are shrunk.
    pub shrink_over: u64,
    /// To about this many tokens.
    pub shrink_to: u64,
    /// Least that clearing frees once it starts, in tokens, as far as there is anything to clear: the cached
    /// prefix breaks anyway, so that a batch must be worth it.
    pub min_gain: Mark,
    /// Tools whose results are never shrunk or cleared alone.
    pub keep_tools: Vec<String>,
    /// Who writes summaries.
    pub summarizer: SummarizerKind,
    /// Most tokens of one summary.
    pub summary_tokens: u64,
    /// Identifiers that a summary must keep when what it replaces holds them.
    pub keep_identifiers: Vec<String>,
    /// Trimming of tool definitions.
    pub trim_tools: TrimTools,
    /// Price of a cached input token as a share of an uncached one, for the break-even in turns.
    pub cached_price: f64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            high: Mark::Share(0.85),
            low: Mark::Share(0.55),
            pins: Vec::new(),
            keep_exchanges: 2,
            steps: Step::ALL.to_vec(),
            shrink_over: 1_000,
            shrink_to: 400,
            min_gain: Mark::Share(0.02),
            keep_tools: Vec::new(),
            summarizer: SummarizerKind::Extractive,
            summary_tokens: 800,
            keep_identifiers: Vec::new(),
            trim_tools: TrimTools::default(),
            cached_price: 0.1,
        }
    }
}

/// A policy's figures in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Marks {
    pub(super) high: u64,
    pub(super) low: u64,
    pub(super) min_gain: u64,
}

impl Policy {
    /// The default, with marks that suit a model: large windows act earlier in share, since quality and price fall before the
    /// window ends, and small ones sum up shorter.
    pub fn for_model(profile: &Profile) -> Self {
        match room(profile) {
            Some(room) if room > 400_000 => Self { high: Mark::Tokens(300_000), low: Mark::Tokens(180_000), ..Self::default() },
            Some(room) => Self::for_room(room),
            None => Self::default(),
        }
    }

    /// The default, with sizes of results and summaries that suit `tokens` of room: under 16,000 all get smaller.
    pub fn for_room(tokens: u64) -> Self {
        let default = Self::default();
        Self {
            shrink_over: default.shrink_over.min(tokens / 16).max(100),
            shrink_to: default.shrink_to.min(tokens / 40).max(50),
            summary_tokens: default.summary_tokens.min(tokens / 12).max(100),
            ..default
        }
    }

    /// The policy for one request: the one given, or a sound default for the target or else for the model; a target takes the
    /// place of both marks.
    ///
    /// # Errors
    /// Whatever `profile` errs with; it is asked only when neither a policy nor a target is given.
    pub fn choose(given: Option<&Self>, target: Option<u64>, profile: impl FnOnce() -> Result<Arc<Profile>>) -> Result<Self> {
        Ok(match (given, target) {
            (Some(policy), Some(target)) => policy.clone().with_target(target),
            (Some(policy), None) => policy.clone(),
            (None, Some(target)) => Self::for_room(target).with_target(target),
            (None, None) => Self::for_model(&*profile()?),
        })
    }

    /// The same policy with both marks at `target` tokens: act when over it, end at or under it.
    #[must_use]
    pub fn with_target(mut self, target: u64) -> Self {
        self.high = Mark::Tokens(target);
        self.low = Mark::Tokens(target);
        self
    }

    /// Figures in tokens for a model.
    pub(super) fn resolve(&self, profile: &Profile) -> Result<Marks> {
        let bad = |why: String| Err(Error::new(Kind::InvalidInput, why).context("reading the compaction policy"));
        let room = room(profile);
        let tokens = |mark: Mark, name: &str| match mark {
            Mark::Tokens(tokens) => Ok(tokens),
            Mark::Share(share) if !(share > 0.0 && share <= 1.0) => {
                Err(Error::new(Kind::InvalidInput, format!("`{name}` is a share of {share}; expected more than 0 and at most 1")))
            }
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a share of a window")]
            Mark::Share(share) => match room {
                Some(room) => Ok((room as f64 * share) as u64),
                None => Err(Error::new(
                    Kind::InvalidInput,
                    format!("`{name}` is a share, but the window of `{}` is unknown; give tokens", profile.id),
                )),
            },
        };
        let (high, low) = (tokens(self.high, "high")?, tokens(self.low, "low")?);
        let exact = self.high == self.low && matches!(self.low, Mark::Tokens(_));
        if low > high || (low == high && !exact) {
            return bad(format!("`low` ({low} tokens) must be below `high` ({high} tokens)"));
        }
        if low == 0 {
            return bad("`low` is 0 tokens; nothing fits that".to_owned());
        }
        if self.shrink_to >= self.shrink_over {
            return bad(format!("`shrink_to` ({}) must be below `shrink_over` ({})", self.shrink_to, self.shrink_over));
        }
        if self.summary_tokens == 0 && self.steps.contains(&Step::Summarize) {
            return bad("`summary_tokens` is 0 while `summarize` is among the steps".to_owned());
        }
        if !(0.0..=1.0).contains(&self.cached_price) {
            return bad(format!("`cached_price` is {}; expected a share from 0 to 1", self.cached_price));
        }
        for pin in &self.pins {
            if *pin == Pin::default() {
                return bad("a pin names nothing; give an index, id, tag, role or tool".to_owned());
            }
            if pin.role.as_deref().is_some_and(|r| !matches!(r, "system" | "developer" | "user" | "assistant" | "model" | "tool")) {
                return bad("a pin names an unknown role; expected system, developer, user, assistant or tool".to_owned());
            }
        }
        let min_gain = match (self.min_gain, room) {
            (Mark::Share(_), None) => 0,
            (mark, _) => tokens(mark, "min_gain")?,
        };
        Ok(Marks { high, low, min_gain })
    }
}

/// Tokens of input that the model takes.
fn room(profile: &Profile) -> Option<u64> {
    match (profile.input_cap, profile.window) {
        (Some(cap), Some(window)) => Some(cap.min(window)),
        (cap, window) => cap.or(window),
    }
}
