//! Which Gemini generation a profile means, and which of Google's two counting modes a host uses.
//!
//! Called by the renderer before anything is counted. Recovered from recorded bills, July 2025 to August 2026.

use crate::models::{Profile, Provider};

/// Generations that are rendered differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Generation {
    /// 1.5 and 2.0.
    Two,
    /// 2.5.
    TwoFive,
    /// 3.0 to 3.5.
    Three,
    /// 3.6 and later: thoughts of earlier turns stay in the prompt.
    ThreeSix,
}

/// What a host counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The sum of the body's strings, nothing put around them (Vertex; every host for [`Generation::Two`]).
    Strings,
    /// The prompt as rendered for the model (AI Studio).
    Prompt,
}

impl Mode {
    /// A word for it.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Strings => "strings",
            Self::Prompt => "prompt",
        }
    }
}

impl Generation {
    /// By the number in the profile's id, else in its renderer's name; unknown ones count as the newest.
    pub(super) fn of(profile: &Profile) -> Self {
        let version = version(&profile.id).or_else(|| version(&profile.renderer));
        match version {
            Some(v) if v < (2, 5) => Self::Two,
            Some(v) if v < (3, 0) => Self::TwoFive,
            Some(v) if v < (3, 6) => Self::Three,
            Some(_) => Self::ThreeSix,
            None => Self::Three,
        }
    }

    /// 3.x of any sort.
    pub(super) fn is_three(self) -> bool {
        self >= Self::Three
    }
}

/// `(major, minor)` after `gemini-` in a model's or renderer's name.
fn version(name: &str) -> Option<(u32, u32)> {
    let (_, rest) = name.rsplit_once("gemini-")?;
    let number = rest.split(['-', ':', '@', '/']).next()?;
    let (major, minor) = number.split_once('.').unwrap_or((number, "0"));
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The mode of a provider hint; `None` when the hint leaves it open.
pub(super) fn mode(generation: Generation, provider: Option<&Provider>) -> Option<Mode> {
    if generation == Generation::Two {
        return Some(Mode::Strings);
    }
    match provider {
        Some(Provider::Vertex) => Some(Mode::Strings),
        Some(Provider::AiStudio) => Some(Mode::Prompt),
        // Vercel's gateway routes to Vertex (all recorded bills); OpenRouter to either, named only in its response.
        Some(Provider::Other(slug)) if slug == "vercel" => Some(Mode::Strings),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_in_names() {
        assert_eq!(version("gemini-2.5-flash-lite"), Some((2, 5)));
        assert_eq!(version("models/gemini-3-pro-preview"), Some((3, 0)));
        assert_eq!(version("google/gemini-3.6-flash:free"), Some((3, 6)));
        assert_eq!(version("gemini-pro"), None);
    }

    #[test]
    fn hosts_decide_the_mode() {
        assert_eq!(mode(Generation::Two, Some(&Provider::AiStudio)), Some(Mode::Strings));
        assert_eq!(mode(Generation::Three, Some(&Provider::AiStudio)), Some(Mode::Prompt));
        assert_eq!(mode(Generation::TwoFive, Some(&Provider::Vertex)), Some(Mode::Strings));
        assert_eq!(mode(Generation::TwoFive, None), None);
    }
}
