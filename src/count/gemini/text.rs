//! Weights, and text measured by the models' own vocabulary or, without it, by a calibrated stand-in.
//!
//! Gemini 1.5 to 3.x count text as the Gemma 3 vocabulary does (1.5 and 2.0 did so by Gemma 2 until some time between
//! September 2025 and January 2026: recorded bills differ by up to 1.3%). Where it isn't installed, o200k is scaled by
//! the kind of text; `cargo test --test gemini_calibration -- --ignored --nocapture` fits the factors anew.

use super::super::Confidence;
use super::values::QUOTE;
use crate::error::{Kind, Result};
use crate::tokenizer::Tokenizer;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

/// Tokens with how sure they are: what a part gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Weight {
    pub(super) tokens: u64,
    pub(super) confidence: Confidence,
    pub(super) bound: Option<u64>,
}

impl Weight {
    pub(super) fn exact(tokens: u64) -> Self {
        Self { tokens, confidence: Confidence::Exact, bound: Some(0) }
    }

    pub(super) fn calibrated(tokens: u64, bound: u64) -> Self {
        Self { tokens, confidence: Confidence::Calibrated, bound: Some(bound) }
    }

    pub(super) fn estimate(tokens: u64, bound: u64) -> Self {
        Self { tokens, confidence: Confidence::Estimate, bound: Some(bound) }
    }

    pub(super) fn unbounded(tokens: u64) -> Self {
        Self { tokens, confidence: Confidence::Unbounded, bound: None }
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self::exact(0)
    }
}

impl Add for Weight {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            confidence: self.confidence.max(other.confidence),
            bound: self.bound.zip(other.bound).map(|(a, b)| a.saturating_add(b)),
        }
    }
}

impl AddAssign for Weight {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Weight {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

/// Counts text.
pub(super) struct Measure {
    tokenizer: Tokenizer,
    own: bool,
}

impl Measure {
    /// By the Gemma 3 vocabulary where it is installed, else calibrated.
    ///
    /// # Errors
    /// Whatever the tokenizer's source says, other than that the vocabulary isn't there.
    pub(super) fn new(tokenizer: &dyn Fn(&str) -> Result<Tokenizer>) -> Result<Self> {
        match tokenizer("gemma3") {
            Ok(tokenizer) => Ok(Self { tokenizer, own: true }),
            Err(error) if matches!(error.kind(), Kind::NotFound | Kind::Unavailable | Kind::Unsupported) => {
                Ok(Self { tokenizer: tokenizer("o200k_base")?, own: false })
            }
            Err(error) => Err(error),
        }
    }

    /// What a text weighs by itself.
    pub(super) fn text(&self, text: &str) -> Weight {
        if text.is_empty() {
            return Weight::exact(0);
        }
        let tokens = self.tokenizer.count(text) as u64;
        if self.own { Weight::exact(tokens) } else { calibrated(text, tokens) }
    }

    /// What a text weighs whose every [`QUOTE`] is a token that splits it.
    pub(super) fn marked(&self, text: &str) -> Weight {
        if self.own {
            let marks = text.matches(QUOTE).count() as u64;
            return text.split(QUOTE).map(|piece| self.text(piece)).sum::<Weight>() + Weight::exact(marks);
        }
        // Piecewise rounding would add up: one estimate of the whole, each mark as one more token.
        let marks = text.matches(QUOTE).count() as u64;
        self.text(&text.replace(QUOTE, " ")) + Weight::exact(marks / 2)
    }
}

/// Gemma 3 tokens for each o200k token outside the classes below, in thousandths. All factors: fitted 2026-11-30 on
/// recorded request texts and on public corpora, see the head of this file.
const PER_TOKEN: u64 = 1000;

/// The bound, in thousandths of the estimate, and the tokens added to it.
const BOUND: (u64, u64) = (200, 3);

/// The stand-in: o200k's tokens, with every digit a token of its own as Gemma has it.
fn calibrated(text: &str, o200k: u64) -> Weight {
    let mut extra = 0_u64;
    let mut run = 0_u64;
    for byte in text.bytes().chain([b' ']) {
        if byte.is_ascii_digit() {
            run += 1;
        } else {
            // o200k takes up to three digits at once.
            extra += run - run.div_ceil(3);
            run = 0;
        }
    }
    let tokens = (o200k.saturating_mul(PER_TOKEN) / 1000).saturating_add(extra).max(1);
    Weight::calibrated(tokens, tokens.saturating_mul(BOUND.0) / 1000 + BOUND.1)
}
