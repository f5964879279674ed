//! Compaction: the least harmful edit that makes a history fit, proved valid and small enough before it is handed out.
//!
//! [`plan`] decides (pure), [`Plan::apply`] keeps what is cut and hands the new request out, [`undo`] gives the old one back.
//! Steps go in order of harm: shrink results, clear stale ones, drop superseded reads, trim definitions (only when asked),
//! summarize the oldest exchanges, drop them. Guards invariants 5 to 10 of the design.

mod apply;
mod batch;
mod build;
mod draft;
mod endpoint;
mod floor;
mod history;
mod plan;
mod policy;
mod print;
mod shrink;
mod standin;
mod summary;
mod tools;

pub use apply::{Outcome, plan_pages, search_kept, undo};
#[cfg(feature = "endpoint")]
pub use endpoint::{Endpoint, EndpointSummarizer};
pub use floor::{Stuck, StuckPart};
pub use plan::{Decision, Plan, PlannedEdit, Step, SummaryTask, plan};
pub use policy::{Mark, Pin, Policy, SummarizerKind, TrimTools};
pub use summary::Summarizer;

#[cfg(test)]
mod tests;
