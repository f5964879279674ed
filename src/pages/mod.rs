//! Stored tool results: kept whole, read page by page, searched by line.
//!
//! Compaction keeps here what it cuts, before it hands the new history out (invariant 9); hosts answer the model's
//! `read_tool_result` calls from here. One trait, several stores; a reference is the content's hash under its tenant.
//! Nothing here decides what is cut.

mod cut;
#[cfg(feature = "pages-disk")]
mod disk;
mod handle;
mod memory;
mod search;
mod store;
mod tool;

#[cfg(feature = "endpoint")]
pub(crate) use cut::cut_text;
#[cfg(feature = "pages-disk")]
pub use disk::DiskStore;
pub(crate) use handle::reference;
pub use handle::{Page, PageStat, Pages};
pub use memory::MemoryStore;
pub use search::Hit;
pub use store::{Clock, Entry, PageStore, StoreLimits, StoreUsage};
pub use tool::{READ_TOOL, SEARCH_TOOL, answer_page_call, page_tool_definitions};
