//! MCP both ways: servers' tools to provider tools, and results back.
//!
//! Hosts map the `tools/list` results of the servers they run, look names up when the model calls, and turn `CallToolResult`s and
//! JSON-RPC errors into outcomes. No transport here: the live client is a feature (`mcp`) in a file of its own.

#[cfg(feature = "mcp")]
mod client;
mod cost;
mod names;
mod outcome;
mod schema;
mod tools;

#[cfg(feature = "mcp")]
pub use client::{Endpoint, list_tools};
pub use cost::{LeaveOut, ServerCost, ToolCost, ToolCosts};
pub use outcome::{CallFailure, FailureClass, call_outcome, failure};
pub use schema::Dropped;
pub(crate) use schema::acceptable as acceptable_schema;
pub use tools::{MappedTool, Mapping, ServerTools};
