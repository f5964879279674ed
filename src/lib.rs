//! Token accounting and context management for language-model requests.
//!
//! The public face is re-exported here by hand; all logic lives in private modules, and no dependency's type stands in a core signature.
//!
#![doc = include_str!("../README.md")]
//!
//! # Crate features
//! The core needs none of them: it is synchronous and has no runtime and no network in its tree. `cli` and `server` (both default)
//! give the binary; `cache`, `pages-disk`, `schema`, `templates` and `huggingface` (default) add a bounded cache, pages on disk,
//! argument validation, chat templates and `tokenizer.json` files; `hub`, `endpoint` and `mcp` (off) are the only ones that can reach a network.

mod budget;
mod check;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
#[cfg(feature = "client")]
pub mod client;
mod compact;
mod count;
mod error;
mod eval;
mod format;
#[cfg(feature = "hub")]
mod hub;
mod json_text;
pub mod limits;
mod models;
mod pages;
#[cfg(feature = "client")]
pub mod proto;
#[cfg(feature = "server")]
pub mod server;
mod template;
mod tokenizer;

pub use budget::{Budget, BudgetPolicy, Limit, Margin, Remedy, Shortfall, decide};
pub use check::{Finding, Fix, Repaired, Severity, check, repair};
pub use compact::{
    Decision, Mark, Outcome, Pin, Plan, PlannedEdit, Policy, Step, Stuck, StuckPart, Summarizer, SummarizerKind, SummaryTask, TrimTools,
    plan, plan_pages, search_kept, undo,
};
#[cfg(feature = "endpoint")]
pub use compact::{Endpoint, EndpointSummarizer};
#[cfg(feature = "cache")]
pub use count::PrefixStore;
pub use count::{Breakdown, Confidence, Count, CountOptions, Counter, Day, Part, PartKind, PromptPiece, ReasoningMemory, RenderedPrompt};
pub use error::{Error, Kind, Result};
pub use eval::{Apart, Content, Exchange, Group, Report, Row, Skipped, evaluate, learn, read_log};
pub use format::{
    Arguments, Conversation, Detection, Edit, Format, Item, ItemBody, Media, Message, Options, Place, Reasoning, Request, ResponseFormat,
    Role, Tool, ToolCall, ToolChoice, ToolContent, ToolContentBody, ToolKind, ToolResult, Unbounded,
};
#[cfg(feature = "hub")]
pub use hub::{HubRequest, OnProgress, fetch as fetch_from_hub};
pub use models::{Choice, Correction, Corrections, ImportReport, LimitField, Models, Profile, Provider};
#[cfg(feature = "pages-disk")]
pub use pages::DiskStore;
pub use pages::{
    Clock, Entry, Hit, MemoryStore, Page, PageStat, PageStore, Pages, READ_TOOL, SEARCH_TOOL, StoreLimits, StoreUsage, answer_page_call,
    page_tool_definitions,
};
#[cfg(feature = "templates")]
pub use template::ChatTemplate;
#[cfg(feature = "cache")]
pub use tokenizer::MessageCache;
#[cfg(fuzzing)]
#[doc(hidden)]
pub use tokenizer::reference::Reference;
pub use tokenizer::{AddOptions, AppendCounter, PresentVocabulary, TextMark, Tokenizer, Vocabulary, VocabularyKind, VocabularyStore};

/// What the command that fits the prices of Claude text needs; no part of the stable interface.
#[doc(hidden)]
pub mod fitting {
    pub use crate::count::{ClaudeDesign, ClaudePrices, KIND_NAMES, KINDS, Kinds, claude_design};
}

mod convert;
pub mod mcp;
pub mod turn;
pub mod usage;

pub use convert::{Converted, Lost, convert};
