//! What a request weighs, as its provider would bill it: renderers, the breakdown and its confidence.
//!
//! Reads views ([`crate::format`]) and profiles ([`crate::models`]); knows nothing of budgets or edits.
//! Guards invariant 1 (parts sum to the total) and 2 (no clock, no cache state).

mod breakdown;
mod claude;
mod counter;
mod day;
mod gemini;
mod generic;
mod grok;
mod json;
pub(crate) mod media;
mod memory;
mod nova;
mod openai;
#[cfg(feature = "cache")]
mod prefix;
mod proxy;
mod remember;
mod render;
mod template;

pub use breakdown::*;
#[doc(hidden)]
pub use claude::{ClaudeDesign, ClaudePrices, KIND_NAMES, KINDS, Kinds, claude_design};
pub use counter::{Count, CountOptions, Counter, PromptPiece, RenderedPrompt};
pub use day::Day;
pub use memory::ReasoningMemory;
#[cfg(feature = "cache")]
pub use prefix::PrefixStore;
pub(crate) use remember::TextMemory;
