//! The running count of output tokens, while a stream is on its way.
//!
//! Fed by the assemblers with each piece of text; asked by [`super::Stream::progress`]. Long text is counted once and
//! let go at a border that no later text can change, so that asking is cheap at any length. It also guards the cap
//! on what is kept of one answer.

use super::fault::{Fault, FaultKind};
use crate::limits;
use crate::tokenizer::Tokenizer;
use rustc_hash::FxHashMap;

/// Which of a choice's texts a piece belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Visible text.
    Text,
    /// Readable reasoning.
    Reasoning,
    /// The arguments of a call, by the number that the stream gives it.
    Call(u64),
}

/// A piece of an answer, as it was assembled. Never to be acted upon: only a finished turn says what is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    /// The index of the choice, as the provider numbers it.
    pub choice: u64,
    /// What it belongs to.
    pub lane: Lane,
    /// The piece.
    pub text: String,
}

/// From this many bytes on the counted part of a tail is let go.
const SETTLE_BYTES: usize = 4 << 10;

/// From this many bytes on a tail is cut at a plain border even if that may cost a token.
const FORCE_BYTES: usize = 64 << 10;

#[derive(Clone, Debug, Default)]
struct Segment {
    tail: String,
    settled: u64,
    /// Count of the tail, while it holds.
    fresh: Option<u64>,
    /// The length of the tail at which a border is looked for again.
    next_try: usize,
}

/// Counts output as it comes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    tokenizer: Option<Tokenizer>,
    segments: FxHashMap<(u64, Lane), Segment>,
    kept: usize,
    /// Pieces since they were last taken, for hosts that ask for them.
    deltas: Option<Vec<Delta>>,
}

impl Tally {
    pub(crate) fn set_tokenizer(&mut self, tokenizer: Tokenizer) {
        self.tokenizer = Some(tokenizer);
    }

    /// Keeps the pieces for [`Tally::take_deltas`] from now on.
    pub(crate) fn keep_deltas(&mut self) {
        self.deltas.get_or_insert_default();
    }

    /// The pieces since the last call, neighbours of one lane joined.
    pub(crate) fn take_deltas(&mut self) -> Vec<Delta> {
        self.deltas.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Bytes kept so far.
    pub(crate) fn kept(&self) -> usize {
        self.kept
    }

    /// Notes bytes that are kept without being counted.
    pub(crate) fn keep(&mut self, bytes: usize) -> Result<(), Fault> {
        self.kept = self.kept.saturating_add(bytes);
        if self.kept > limits::MAX_ANSWER_BYTES {
            return Err(Fault::new(FaultKind::TooLarge, format!("the answer has more than {} bytes", limits::MAX_ANSWER_BYTES)));
        }
        Ok(())
    }

    /// Notes a piece of text.
    pub(crate) fn push(&mut self, choice: u64, lane: Lane, piece: &str) -> Result<(), Fault> {
        self.keep(piece.len())?;
        if let Some(deltas) = self.deltas.as_mut().filter(|_| !piece.is_empty()) {
            match deltas.last_mut().filter(|last| last.choice == choice && last.lane == lane) {
                Some(last) => last.text.push_str(piece),
                None => deltas.push(Delta { choice, lane, text: piece.to_owned() }),
            }
        }
        let segment = self.segments.entry((choice, lane)).or_default();
        segment.tail.push_str(piece);
        segment.fresh = None;
        if segment.tail.len() >= segment.next_try.max(SETTLE_BYTES) {
            if let Some(border) = border(&segment.tail) {
                segment.settled = segment.settled.saturating_add(count(self.tokenizer.as_ref(), &segment.tail[..border]));
                segment.tail.drain(..border);
            }
            segment.next_try = segment.tail.len().saturating_add(SETTLE_BYTES);
        }
        Ok(())
    }

    /// Tokens so far, over all choices, without the provider's framing.
    pub(crate) fn count(&mut self) -> u64 {
        let tokenizer = self.tokenizer.as_ref();
        self.segments.values_mut().fold(0, |sum, segment| {
            let fresh = *segment.fresh.get_or_insert_with(|| count(tokenizer, &segment.tail));
            sum.saturating_add(segment.settled).saturating_add(fresh)
        })
    }
}

/// Without a tokenizer: four bytes a token, which English and code come near to.
fn count(tokenizer: Option<&Tokenizer>, text: &str) -> u64 {
    match tokenizer {
        Some(tokenizer) => tokenizer.count(text) as u64,
        None => (text.len() as u64).div_ceil(4),
    }
}

/// A border that no later text moves: a newline before a letter, where every published pre-tokenizer splits. Past the
/// forced size any space will do.
fn border(tail: &str) -> Option<usize> {
    let bytes = tail.as_bytes();
    let newline = (1..bytes.len()).rev().find(|&at| bytes[at - 1] == b'\n' && bytes[at].is_ascii_alphabetic());
    if newline.is_some() || bytes.len() < FORCE_BYTES {
        return newline;
    }
    memchr::memrchr(b' ', bytes).filter(|&at| at > 0).or_else(|| (1..=bytes.len()).rev().find(|&at| tail.is_char_boundary(at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settling_changes_no_count() {
        let o200k = Tokenizer::by_name("o200k_base").unwrap();
        let text = "Where are we?\nfn main() {\n    let x = 1;\n}\n\nnext line is here \n\n\nand after\n".repeat(200);
        let mut tally = Tally::default();
        tally.set_tokenizer(o200k.clone());
        for piece in text.as_bytes().chunks(7) {
            tally.push(0, Lane::Text, std::str::from_utf8(piece).unwrap()).unwrap();
        }
        assert!(tally.segments[&(0, Lane::Text)].settled > 0);
        assert_eq!(tally.count(), o200k.count(&text) as u64);
    }

    #[test]
    fn a_text_without_borders_is_settled_all_the_same() {
        let mut tally = Tally::default();
        for _ in 0..40_000 {
            tally.push(0, Lane::Reasoning, "éé").unwrap();
        }
        assert!(tally.segments[&(0, Lane::Reasoning)].tail.len() <= FORCE_BYTES + SETTLE_BYTES);
        assert_eq!(tally.count(), 40_000);
    }
}
