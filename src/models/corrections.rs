//! What providers said of their own limits, in this process: it counts before the model table, which stays as it is.
//!
//! Filled through [`crate::Counter::correct`] with what a host learned from a provider's error; kept by model and endpoint, since
//! hosts of one model give it windows of their own. Only limits are corrected, so that no count changes.

use super::{Profile, Provider};
use std::collections::BTreeMap;

/// The limit that a correction is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitField {
    /// The window shared by input and output.
    Window,
    /// The cap on input alone.
    InputCap,
    /// The cap on output.
    OutputCap,
}

impl LimitField {
    /// The name used on the wire and in JSON output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::InputCap => "input_cap",
            Self::OutputCap => "output_cap",
        }
    }
}

/// One difference between a profile and a provider's word, in tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correction {
    /// The model's canonical id.
    pub model: String,
    /// Which limit.
    pub field: LimitField,
    /// What the profile says.
    pub was: Option<u64>,
    /// What the provider says.
    pub now: u64,
}

/// Corrections in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Corrections {
    by_model: BTreeMap<(String, String), Learned>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Learned {
    window: Option<u64>,
    input_cap: Option<u64>,
    output_cap: Option<u64>,
}

fn key(model: &str, provider: Option<&Provider>) -> (String, String) {
    (model.to_owned(), provider.map(|provider| provider.as_str().to_owned()).unwrap_or_default())
}

impl Corrections {
    /// Keeps a correction for the model at this endpoint; `None` is the endpoint of requests that name none.
    /// False when there are [`crate::limits::MAX_CORRECTIONS`] of others already.
    pub fn keep(&mut self, correction: &Correction, provider: Option<&Provider>) -> bool {
        let key = key(&correction.model, provider);
        if self.by_model.len() >= crate::limits::MAX_CORRECTIONS && !self.by_model.contains_key(&key) {
            return false;
        }
        let learned = self.by_model.entry(key).or_default();
        let slot = match correction.field {
            LimitField::Window => &mut learned.window,
            LimitField::InputCap => &mut learned.input_cap,
            LimitField::OutputCap => &mut learned.output_cap,
        };
        *slot = Some(correction.now);
        true
    }

    /// The profile with what was learned; `None` when nothing was.
    pub fn apply(&self, profile: &Profile, provider: Option<&Provider>) -> Option<Profile> {
        let learned = self.by_model.get(&key(&profile.id, provider))?;
        let mut profile = profile.clone();
        profile.window = learned.window.or(profile.window);
        profile.input_cap = learned.input_cap.or(profile.input_cap);
        profile.output_cap = learned.output_cap.or(profile.output_cap);
        Some(profile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_correction_holds_for_its_model_and_endpoint_alone() {
        let profile = Profile { id: "m".into(), window: Some(200), output_cap: Some(20), ..Profile::default() };
        let router: Provider = "openrouter".parse().unwrap();
        let mut corrections = Corrections::default();
        assert_eq!(corrections.apply(&profile, None), None);
        let correction = |field, now| Correction { model: "m".into(), field, was: None, now };
        assert!(corrections.keep(&correction(LimitField::Window, 100), Some(&router)));
        assert!(corrections.keep(&correction(LimitField::OutputCap, 10), Some(&router)));
        let learned = corrections.apply(&profile, Some(&router)).unwrap();
        assert_eq!((learned.window, learned.input_cap, learned.output_cap), (Some(100), None, Some(10)));
        assert_eq!(corrections.apply(&profile, None), None);
        assert_eq!(corrections.apply(&Profile { id: "n".into(), ..profile }, Some(&router)), None);
    }
}
