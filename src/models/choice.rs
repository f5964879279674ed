//! Which model a caller means when it says more than a name: limits of its own, or "the nearest will do".
//!
//! Used by every edge, so that a flag, a wire field and an embedding host mean the same by the same words.

use super::{Models, Profile, Provider};
use crate::error::{Error, Kind, Result};
use crate::limits::MAX_WINDOW_TOKENS;
use std::sync::Arc;

/// What a caller says beside a model's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// An unknown model becomes the nearest known one instead of an error.
    pub nearest: bool,
    /// The window in tokens, instead of the model's. With it an unknown model is no error.
    pub window: Option<u64>,
    /// The cap on output in tokens, instead of the model's.
    pub output_cap: Option<u64>,
}

impl Models {
    /// The profile of a model as the caller chooses it.
    ///
    /// # Errors
    /// [`Kind::UnknownModel`] with near names when neither `nearest` nor a window helps; [`Kind::InvalidInput`] for a limit
    /// of 0 or over 2^40 tokens.
    pub fn choose(&self, name: &str, provider: Option<&Provider>, choice: &Choice) -> Result<Arc<Profile>> {
        for (what, limit) in [("window", choice.window), ("output cap", choice.output_cap)] {
            if limit.is_some_and(|n| n == 0 || n > MAX_WINDOW_TOKENS) {
                return Err(Error::new(Kind::InvalidInput, format!("expected a {what} of 1 to 2^40 tokens")));
            }
        }
        let found = if choice.nearest { self.find_nearest(name, provider) } else { self.find(name, provider) };
        let mut profile = match (found, choice.window) {
            (Ok(profile), _) => profile,
            (Err(e), Some(window)) if e.kind() == Kind::UnknownModel => return Ok(self.custom(name, window, choice.output_cap)),
            (Err(e), _) => return Err(e),
        };
        if choice.window.is_some() || choice.output_cap.is_some() {
            let limits = Arc::make_mut(&mut profile);
            limits.window = choice.window.or(limits.window);
            limits.output_cap = choice.output_cap.or(limits.output_cap);
        }
        Ok(profile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_the_callers_win() {
        let models = Models::builtin();
        let choose = |name: &str, choice| models.choose(name, None, &choice);
        let own = Choice { window: Some(10), output_cap: Some(5), ..Choice::default() };
        let known = choose("gpt-4o", own).unwrap();
        assert_eq!((known.id.as_str(), known.window, known.output_cap), ("gpt-4o", Some(10), Some(5)));
        let unknown = choose("qwen3-house", own).unwrap();
        assert_eq!((unknown.window, unknown.tokenizer.as_str()), (Some(10), "qwen3"));
        assert_eq!(choose("no-such-thing", Choice::default()).unwrap_err().kind(), Kind::UnknownModel);
        assert_eq!(choose("no-such-thing", Choice { output_cap: Some(5), ..Choice::default() }).unwrap_err().kind(), Kind::UnknownModel);
        assert!(choose("gpt-4o-new-thing", Choice { nearest: true, ..Choice::default() }).is_ok());
        for n in [0, u64::MAX] {
            assert_eq!(choose("gpt-4o", Choice { window: Some(n), ..Choice::default() }).unwrap_err().kind(), Kind::InvalidInput);
        }
    }
}
