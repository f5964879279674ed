//! Gathers the text that a prompt is made of and counts it, joined texts as one.
//!
//! Used by every renderer of this family. A token belongs to the piece in which it starts, so the parts of a joined
//! text sum to the count of the whole (invariant 1). Framing is kept as parts of its own, never negative.

use crate::count::{Breakdown, Confidence, Part, PartKind};
use crate::format::{Message, Tool};
use crate::tokenizer::Tokenizer;

/// A stretch of text and the part that it weighs on.
pub(super) struct Piece<'t> {
    pub(super) part: Part,
    pub(super) text: std::borrow::Cow<'t, str>,
}

impl<'t> Piece<'t> {
    pub(super) fn new(part: Part, text: impl Into<std::borrow::Cow<'t, str>>) -> Self {
        Self { part, text: text.into() }
    }
}

/// A breakdown in the making.
pub(super) struct Sheet {
    pub(super) tokenizer: Tokenizer,
    pub(super) out: Breakdown,
    /// Framing of the whole request so far; may dip below zero while rules are added up.
    frame: i64,
}

impl Sheet {
    pub(super) fn new(tokenizer: Tokenizer) -> Self {
        Self { tokenizer, out: Breakdown::default(), frame: 0 }
    }

    /// Tokens of `text` on its own.
    pub(super) fn n(&self, text: &str) -> u64 {
        self.tokenizer.count(text) as u64
    }

    /// Counts the pieces as one text and adds a part for each.
    pub(super) fn block(&mut self, pieces: Vec<Piece<'_>>) {
        if let [only] = pieces.as_slice() {
            let tokens = self.n(&only.text);
            self.out.push(Part { tokens, ..only.part.clone() });
            return;
        }
        let mut text = String::with_capacity(pieces.iter().map(|piece| piece.text.len()).sum());
        let mut borders = Vec::with_capacity(pieces.len());
        for piece in &pieces {
            text.push_str(&piece.text);
            borders.push(text.len());
        }
        let shares = self.tokenizer.count_shares(&text, &borders);
        for (piece, share) in pieces.into_iter().zip(shares) {
            self.out.push(Part { tokens: share as u64, ..piece.part });
        }
    }

    /// Framing of one message.
    pub(super) fn message_frame(&mut self, message: &Message<'_>, tokens: u64) {
        self.out.push(Part { tokens, ..of_message(PartKind::Overhead, message, &message.place) });
    }

    /// Framing of the request as a whole.
    pub(super) fn frame(&mut self, tokens: i64) {
        self.frame = self.frame.saturating_add(tokens);
    }

    /// A part that stands for something the body doesn't let us know.
    pub(super) fn unknown(&mut self, part: Part) {
        self.out.push(Part { confidence: Confidence::Unbounded, bound: None, ..part });
    }

    /// The finished breakdown.
    pub(super) fn finish(mut self) -> Breakdown {
        let frame = u64::try_from(self.frame).unwrap_or(0);
        self.out.push(Part::exact(PartKind::Overhead, "", frame));
        self.out
    }
}

/// An exact part, still without tokens, that belongs to a message.
pub(super) fn of_message(kind: PartKind, message: &Message<'_>, place: &str) -> Part {
    Part { role: Some(message.role), message: Some(message.index), ..Part::exact(kind, place, 0) }
}

/// An exact part, still without tokens, that belongs to a tool by name.
pub(super) fn of_tool(part: Part, name: &str) -> Part {
    Part { name: Some(name.to_owned()), server: Tool::server_of(name).map(str::to_owned), ..part }
}
