//! Weights, and text measured by the models' own vocabulary or, without it, by a calibrated stand-in.
//!
//! Gemini 1.5 to 3.x count text as the Gemma 3 vocabulary does (1.5 and 2.0 did so by Gemma 2 until some time between
//! September 2025 and January 2026: recorded bills differ by up to 1.3%). Where it isn't installed, o200k is scaled by
//! the kind of text; `cargo test --lib gemini::text::fit -- --ignored --nocapture` fits the factors anew.

use super::super::{Confidence, TextMemory};
use super::family::Generation;
use super::values::QUOTE;
use crate::error::{Kind, Result};
use crate::tokenizer::Tokenizer;
use serde_json::Value;
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
pub(super) struct Measure<'m> {
    tokenizer: Tokenizer,
    memory: &'m TextMemory,
    /// The memory is of other counts too: the same values come again.
    again: bool,
    own: bool,
    /// 1.5 and 2.0: recorded by either of two vocabularies.
    dated: bool,
}

impl<'m> Measure<'m> {
    /// By the Gemma 3 vocabulary where it is installed, else calibrated.
    ///
    /// # Errors
    /// Whatever the tokenizer's source says, other than that the vocabulary isn't there.
    pub(super) fn new(
        tokenizer: &dyn Fn(&str) -> Result<Tokenizer>,
        generation: Generation,
        (memory, again): (&'m TextMemory, bool),
    ) -> Result<Self> {
        let dated = generation == Generation::Two;
        match tokenizer("gemma3") {
            Ok(tokenizer) => Ok(Self { tokenizer, memory, again, own: true, dated }),
            Err(error) if matches!(error.kind(), Kind::NotFound | Kind::Unavailable | Kind::Unsupported) => {
                Ok(Self { tokenizer: tokenizer("o200k_base")?, memory, again, own: false, dated })
            }
            Err(error) => Err(error),
        }
    }

    /// What a text weighs by itself.
    pub(super) fn text(&self, text: &str) -> Weight {
        if text.is_empty() {
            return Weight::exact(0);
        }
        let count = || self.tokenizer.count(text) as u64;
        if !self.own {
            let tokens = self.memory.estimate(text, || estimate(text, count()));
            return Weight::calibrated(tokens, tokens.saturating_mul(BOUND.0) / 1000 + BOUND.1);
        }
        let tokens = count();
        if self.dated && tokens >= 50 { Weight::calibrated(tokens, tokens / 50) } else { Weight::exact(tokens) }
    }

    /// What a JSON value weighs as what the labels say: by `weigh`, once for all counts that share a memory.
    pub(super) fn value(&self, labels: &[&str], value: &Value, weigh: impl FnOnce() -> Weight) -> Weight {
        if !self.again {
            return weigh();
        }
        let (tokens, confidence, bound) = self.memory.value(labels, value, || {
            let weight = weigh();
            (weight.tokens, weight.confidence, weight.bound)
        });
        Weight { tokens, confidence, bound }
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

/// What is seen of a text without Gemma's vocabulary, and what each costs in thousandths of a token. Fitted 2026-11-30 on
/// 6,300 recorded and public texts (prose, code, JSON, Chinese, other scripts); the bound holds on 99.5% of them.
const FACTORS: [(&str, i64); 10] = [
    ("o200k tokens", 998),
    ("digits beyond o200k's groups of three", 961),
    ("Chinese, Japanese and Korean characters", -108),
    ("other characters outside ASCII", -131),
    ("line breaks", 439),
    ("runs of spaces", 487),
    ("punctuation", 25),
    ("words in capitals", -22),
    ("humps of camelCase", -132),
    ("underscores", 977),
];

/// The bound: in thousandths of the estimate, and the tokens added to it.
const BOUND: (u64, u64) = (200, 3);

/// The stand-in for Gemma's vocabulary, in tokens.
fn estimate(text: &str, o200k: u64) -> u64 {
    let sum = features(text, o200k).iter().zip(FACTORS).fold(0_i64, |sum, (n, (_, factor))| sum.saturating_add(n.saturating_mul(factor)));
    u64::try_from(sum.saturating_add(500) / 1000).unwrap_or(0).max(1)
}

/// What a byte is, as bits.
const DIGIT: u8 = 1;
const SPACE: u8 = 2;
const CAPITAL: u8 = 4;
const SMALL: u8 = 8;
const BREAK: u8 = 16;
const PUNCTUATION: u8 = 32;
const UNDERSCORE: u8 = 64;

/// What each byte is; bytes of characters outside ASCII are nothing.
const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        classes[byte as usize] = match byte {
            b'0'..=b'9' => DIGIT,
            b' ' => SPACE,
            b'A'..=b'Z' => CAPITAL,
            b'a'..=b'z' => SMALL,
            b'\n' => BREAK,
            b'_' => UNDERSCORE,
            b if b.is_ascii_punctuation() => PUNCTUATION,
            _ => 0,
        };
        byte += 1;
    }
    classes
};

/// Classes of bytes that follow each other, the last one lowest.
const fn row(classes: [u8; 4]) -> u32 {
    u32::from_be_bytes(classes)
}

/// How often each of [`FACTORS`] occurs: one pass over the bytes without branches, and one over the characters if any is outside ASCII.
fn features(text: &str, o200k: u64) -> [i64; FACTORS.len()] {
    let mut seen = [0; FACTORS.len()];
    seen[0] = i64::try_from(o200k).unwrap_or(i64::MAX);
    // The classes of the last four bytes, and how many digits of a group of three stand before the next one.
    let (mut last, mut group) = (0_u32, 0_u8);
    for byte in text.bytes() {
        let class = CLASSES[usize::from(byte)];
        last = last << 8 | u32::from(class);
        let is = |bit: u8| i64::from(class & bit != 0);
        // o200k takes up to three digits at once, Gemma one.
        seen[1] += is(DIGIT) & i64::from(group != 0);
        group = if class & DIGIT != 0 && group < 2 { group + 1 } else { 0 };
        seen[4] += is(BREAK);
        seen[5] += i64::from(last & row([0, SPACE, SPACE, SPACE]) == row([0, 0, SPACE, SPACE]));
        seen[6] += is(PUNCTUATION);
        seen[7] += i64::from(last & row([CAPITAL; 4]) == row([0, CAPITAL, CAPITAL, CAPITAL]));
        seen[8] += i64::from(last & row([0, 0, SMALL, CAPITAL]) == row([0, 0, SMALL, CAPITAL]));
        seen[9] += is(UNDERSCORE);
    }
    if !text.is_ascii() {
        for c in text.chars().filter(|c| !c.is_ascii()) {
            let cjk = matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}');
            seen[if cjk { 2 } else { 3 }] += 1;
        }
    }
    seen
}

#[cfg(test)]
#[path = "text_fit.rs"]
mod fit;
