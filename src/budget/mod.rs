//! The decision on output tokens: how much the model may still write, and which limit says so.
//!
//! A pure function of a count, a profile and a policy. Called by every edge; edits nothing.
//! Guards invariant 6: granted ≤ requested, granted ≤ the model's cap, input + granted + margin ≤ window;
//! never negative, never wrapping; and a shortfall in tokens when it can't be met.

mod field;
mod remedy;
#[cfg(test)]
mod tests;

pub use remedy::Remedy;

use crate::count::{Confidence, Count};
use crate::error::{Error, Kind, Result};
use crate::format::Conversation;
use crate::models::{Models, Profile, Provider};
use serde::Serialize;
use serde_json::Value;

/// Tokens held back for what can't be known about the input.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Margin {
    /// The count's own bound (see [`Confidence`]); nothing when the count is exact.
    #[default]
    Auto,
    /// This many tokens.
    Fixed(u64),
    /// This share of the counted input, in percent.
    Percent(f64),
}

impl std::str::FromStr for Margin {
    type Err = Error;

    /// Reads `auto`, a number of tokens (`500`) or a share of the input (`2.5%`).
    fn from_str(text: &str) -> Result<Self> {
        let bad =
            || Error::new(Kind::InvalidInput, format!("`{text}` is no margin; expected `auto`, tokens (`500`) or a percentage (`2.5%`)"));
        if text == "auto" {
            return Ok(Self::Auto);
        }
        match text.strip_suffix('%') {
            Some(share) => {
                let share: f64 = share.trim().parse().map_err(|_| bad())?;
                if !(0.0..=100.0).contains(&share) {
                    return Err(bad());
                }
                Ok(Self::Percent(share))
            }
            None => text.parse().map(Self::Fixed).map_err(|_| bad()),
        }
    }
}

/// What the caller asks of a budget.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetPolicy {
    /// Output wanted, in tokens; without it what the body asks for, else as much as the model gives.
    pub requested: Option<u64>,
    /// Tokens held back.
    pub margin: Margin,
    /// Least output beside reasoning that is of any use, in tokens.
    pub min_visible: u64,
    /// Nothing less than the requested output will do.
    pub require_whole: bool,
}

impl Default for BudgetPolicy {
    fn default() -> Self {
        Self { requested: None, margin: Margin::Auto, min_visible: 1, require_whole: false }
    }
}

/// The limit that decides how much is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The caller asked for no more.
    Requested,
    /// The model's cap on output.
    OutputCap,
    /// What the context window leaves after input and margin.
    Window,
    /// The model's cap on input alone.
    InputCap,
    /// The thinking budget that the body sets leaves no room for an answer.
    Thinking,
}

impl Limit {
    /// The name used on the wire and in JSON output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::OutputCap => "output_cap",
            Self::Window => "window",
            Self::InputCap => "input_cap",
            Self::Thinking => "thinking",
        }
    }
}

/// The decision.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Budget {
    /// Whether the request may be sent with `granted`.
    pub fits: bool,
    /// Counted input, in tokens.
    pub input: u64,
    /// The model's context window, in tokens; none when input and output have caps of their own only.
    pub window: Option<u64>,
    /// Output that was wanted, in tokens.
    pub requested: Option<u64>,
    /// Output to ask for, in tokens; 0 when it does not fit.
    pub granted: u64,
    /// Which limit decided `granted`.
    pub limit: Limit,
    /// Tokens held back between input and output.
    pub margin: u64,
    /// Part of `granted` that hidden reasoning is expected to take, in tokens.
    pub reserve: u64,
    /// Window left over after input, margin and granted output, in tokens; none without a window.
    pub free: Option<u64>,
    /// Number of choices asked for: each may write `granted`, all are billed.
    pub choices: u64,
    /// JSON Pointer of the field that carries the limit in this API.
    pub field: String,
    /// JSON Patch (RFC 6902) that sets it.
    pub patch: Value,
    /// What is missing, when it does not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shortfall: Option<Shortfall>,
    /// What the caller should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Why a request does not fit, and what would make it fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shortfall {
    /// Tokens that are missing.
    pub tokens: u64,
    /// The limit that binds.
    pub limit: Limit,
    /// What can be done, the least harmful first.
    pub remedies: Vec<Remedy>,
}

/// Decides how much output to ask for.
///
/// # Errors
/// [`Kind::InvalidInput`] when the request asks for no output at all, or the profile has neither a window nor a cap.
pub fn decide(
    conversation: &Conversation<'_>,
    count: &Count,
    policy: &BudgetPolicy,
    models: &Models,
    provider: Option<&Provider>,
) -> Result<Budget> {
    let profile = &*count.profile;
    let breakdown = &count.breakdown;
    let input = breakdown.total();
    let requested = policy.requested.or(conversation.options.max_output.map(|(tokens, _)| tokens));
    if requested == Some(0) {
        return Err(Error::invalid(field::pointer(conversation, profile, provider), "0 output tokens are asked for; expected at least 1"));
    }
    if profile.window.is_none() && profile.output_cap.is_none() && profile.input_cap.is_none() {
        return Err(Error::new(Kind::InvalidInput, format!("no window or cap is known for `{}`; give one beside the model", profile.id)));
    }
    let margin = margin(policy.margin, count, input);
    let used = input.saturating_add(margin);
    let room = profile.window.map(|window| window.saturating_sub(used));

    let mut limits = [(requested, Limit::Requested), (profile.output_cap, Limit::OutputCap), (room, Limit::Window)]
        .into_iter()
        .filter_map(|(tokens, limit)| tokens.map(|t| (t, limit)));
    // Without a request, a cap or a window there is no number to grant; such a profile was refused above unless it has an input cap.
    let (mut granted, mut limit) = limits.next().unwrap_or((u64::MAX >> 1, Limit::InputCap));
    for (tokens, by) in limits {
        if tokens < granted {
            (granted, limit) = (tokens, by);
        }
    }

    let shortfall = shortfall(conversation, profile, policy, Decided { requested, used, granted, limit })
        .map(|(tokens, limit)| Shortfall { tokens, limit, remedies: remedy::remedies(conversation, count, tokens, limit, used, models) });
    if shortfall.as_ref().is_some_and(|s| s.limit == Limit::InputCap) {
        granted = 0;
    }
    let mut notes = notes(conversation, count, granted);
    if let Some((asked, _)) = conversation.options.max_output.filter(|(asked, _)| *asked > granted) {
        notes.push(format!("the body asks for {asked} output tokens, more than can be granted"));
    }
    let (field, patch) = field::patch(conversation, profile, provider, granted);
    Ok(Budget {
        fits: shortfall.is_none(),
        input,
        window: profile.window,
        requested,
        granted,
        limit,
        margin,
        reserve: field::reserve(conversation, profile, granted).min(granted),
        free: profile.window.map(|window| window.saturating_sub(used).saturating_sub(granted)),
        choices: conversation.options.choices.unwrap_or(1).max(1),
        field,
        patch,
        shortfall,
        notes,
    })
}

/// What [`decide`] has settled so far.
#[derive(Clone, Copy)]
struct Decided {
    requested: Option<u64>,
    used: u64,
    granted: u64,
    limit: Limit,
}

/// Tokens that are missing, and the limit to blame; none when it fits.
fn shortfall(conversation: &Conversation<'_>, profile: &Profile, policy: &BudgetPolicy, decided: Decided) -> Option<(u64, Limit)> {
    let Decided { requested, used, granted, limit } = decided;
    if let Some(over) = profile.input_cap.map(|cap| used.saturating_sub(cap)).filter(|over| *over > 0) {
        return Some((over, Limit::InputCap));
    }
    let thinking = conversation.options.thinking_budget.and_then(|tokens| u64::try_from(tokens).ok()).unwrap_or(0);
    let visible = policy.min_visible.max(1);
    let least = match requested {
        Some(whole) if policy.require_whole => whole,
        _ => visible.saturating_add(thinking),
    };
    if granted >= least {
        return None;
    }
    match (limit, profile.window) {
        (Limit::Window, Some(window)) => {
            let over = (u128::from(used) + u128::from(least)).saturating_sub(u128::from(window));
            Some((u64::try_from(over).unwrap_or(u64::MAX), Limit::Window))
        }
        _ if granted >= visible && !policy.require_whole => Some((least - granted, Limit::Thinking)),
        _ => Some((least - granted, limit)),
    }
}

fn margin(margin: Margin, count: &Count, input: u64) -> u64 {
    match margin {
        Margin::Fixed(tokens) => tokens,
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a share of a token count, rounded up"
        )]
        Margin::Percent(share) => (input as f64 * (share / 100.0)).ceil() as u64,
        // An unbounded count has no bound of its own: hold back the bounds of its bounded parts, and say so in a note.
        Margin::Auto => count
            .breakdown
            .bound()
            .unwrap_or_else(|| count.breakdown.parts().iter().fold(0, |sum: u64, part| sum.saturating_add(part.bound.unwrap_or(0)))),
    }
}

fn notes(conversation: &Conversation<'_>, count: &Count, granted: u64) -> Vec<String> {
    let mut notes = Vec::new();
    if count.breakdown.confidence() == Confidence::Unbounded {
        let mut why: Vec<&str> = conversation.unbounded.iter().map(|u| u.why).collect();
        why.dedup();
        notes.push(format!(
            "the provider may add text that can't be counted{}",
            if why.is_empty() { String::new() } else { format!(": {}", why.join("; ")) }
        ));
    }
    if let Some(choices) = conversation.options.choices.filter(|n| *n > 1) {
        notes.push(format!("{choices} choices are asked for: up to {} output tokens are billed", choices.saturating_mul(granted)));
    }
    notes
}
