//! Token accounting and context management for language-model requests.

mod budget;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
mod count;
mod error;
mod format;
pub mod limits;
mod models;
mod tokenizer;

pub use budget::{Budget, BudgetPolicy, Limit, Margin, Remedy, Shortfall, decide};
pub use count::{Breakdown, Confidence, Count, CountOptions, Counter, Part, PartKind, ReasoningMemory};
pub use error::{Error, Kind, Result};
pub use format::{
    Arguments, Conversation, Detection, Format, Item, ItemBody, Media, Message, Options, Place, Reasoning, Request, ResponseFormat, Role,
    Tool, ToolCall, ToolChoice, ToolContent, ToolContentBody, ToolKind, ToolResult, Unbounded,
};
pub use models::{ImportReport, Models, Profile, Provider};
pub use tokenizer::{AddOptions, Tokenizer, Vocabulary, VocabularyKind, VocabularyStore};
