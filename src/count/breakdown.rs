//! The result of a count: parts that sum to the total, and how sure each is.
//!
//! Renderers push parts into a [`Breakdown`]; nobody else makes totals, so invariant 1 holds by construction.

use crate::format::{Place, Role};

/// How sure a number is. Ordered from surest to least sure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Confidence {
    /// The mechanism is known and the vocabulary is the model's own.
    Exact,
    /// Fitted on recorded usage; off by at most the bound in at least 99% of unseen cases.
    Calibrated,
    /// A sound guess with a wider bound.
    Estimate,
    /// The provider adds text that can't be known from the request; the number is only what is visible.
    Unbounded,
}

impl Confidence {
    /// The name used on the wire and in JSON output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Calibrated => "calibrated",
            Self::Estimate => "estimate",
            Self::Unbounded => "unbounded",
        }
    }
}

/// What a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PartKind {
    /// System or developer text.
    System,
    /// User text.
    User,
    /// Assistant text.
    Assistant,
    /// Replayed reasoning or thinking.
    Reasoning,
    /// A tool call in the history.
    ToolCall,
    /// A tool result in the history.
    ToolResult,
    /// A tool definition.
    ToolDefinition,
    /// A picture.
    Image,
    /// A document, sound or film.
    File,
    /// A structured-output format.
    ResponseFormat,
    /// Framing, markers, hidden prompts.
    Overhead,
}

impl PartKind {
    /// The name used on the wire and in JSON output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Reasoning => "reasoning",
            Self::ToolCall => "tool_call",
            Self::ToolResult => "tool_result",
            Self::ToolDefinition => "tool_definition",
            Self::Image => "image",
            Self::File => "file",
            Self::ResponseFormat => "response_format",
            Self::Overhead => "overhead",
        }
    }
}

/// The smallest thing counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it is.
    pub kind: PartKind,
    /// Where it stands in the body (JSON Pointer); empty for overhead of the whole request.
    pub place: Place,
    /// Role of the message that owns it.
    pub role: Option<Role>,
    /// Index of that message in the body's list.
    pub message: Option<usize>,
    /// Tool name, for definitions, calls and results.
    pub name: Option<String>,
    /// MCP server prefix of that name, if it has one.
    pub server: Option<String>,
    /// Tokens.
    pub tokens: u64,
    /// How sure `tokens` is.
    pub confidence: Confidence,
    /// Most that the true number may differ, in tokens, either way; `None` when unbounded.
    pub bound: Option<u64>,
}

impl Part {
    /// An exact part of `kind` at `place`.
    pub fn exact(kind: PartKind, place: impl Into<Place>, tokens: u64) -> Self {
        Self {
            kind,
            place: place.into(),
            role: None,
            message: None,
            name: None,
            server: None,
            tokens,
            confidence: Confidence::Exact,
            bound: Some(0),
        }
    }
}

/// Parts gathered by a renderer. Totals are made here and nowhere else.
#[derive(Clone, Debug, Default)]
pub struct Breakdown {
    parts: Vec<Part>,
    tighter: Option<u64>,
    notes: Vec<String>,
}

impl Breakdown {
    /// Adds a part.
    pub fn push(&mut self, part: Part) {
        self.parts.push(part);
    }

    /// All parts, in prompt order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// All parts, for a renderer that adjusts them before it hands them over.
    pub fn parts_mut(&mut self) -> &mut Vec<Part> {
        &mut self.parts
    }

    /// States a total bound that is tighter than the sum of the parts' bounds, and proven for the whole.
    pub fn tighten(&mut self, bound: u64) {
        self.tighter = Some(self.tighter.map_or(bound, |b| b.min(bound)));
    }

    /// Says something of the whole that the user can act upon.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Why the count is less sure than it could be, where something can be done about it: a vocabulary that isn't installed.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The sum of all parts, in tokens (saturating).
    pub fn total(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part.tokens))
    }

    /// Tokens by kind of part, in the kinds' order; kinds without tokens are left out.
    pub fn by_kind(&self) -> std::collections::BTreeMap<PartKind, u64> {
        let mut sums = std::collections::BTreeMap::new();
        for part in self.parts.iter().filter(|part| part.tokens > 0) {
            let sum: &mut u64 = sums.entry(part.kind).or_default();
            *sum = sum.saturating_add(part.tokens);
        }
        sums
    }

    /// The least sure confidence of all parts; exact when there are none.
    pub fn confidence(&self) -> Confidence {
        self.parts.iter().map(|part| part.confidence).max().unwrap_or(Confidence::Exact)
    }

    /// Most that the true total may differ, in tokens; `None` when any part is unbounded.
    pub fn bound(&self) -> Option<u64> {
        let sum = self.parts.iter().try_fold(0_u64, |sum, part| part.bound.map(|b| sum.saturating_add(b)))?;
        Some(self.tighter.map_or(sum, |tighter| tighter.min(sum)))
    }
}
