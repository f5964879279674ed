//! The record of a verdict, for a host to store: who was asked for, what was decided, and why. Never any content.
//!
//! Made by the judge, one for each call. The hash tells equal arguments apart from different ones without telling what they are.

use super::policy::{Risk, Verdict, Why};
use serde_json::{Value, json};

/// One verdict, on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// When, in milliseconds since 1970, as the host's clock said.
    pub time_ms: u64,
    /// The turn within the task, from 1.
    pub turn: u32,
    /// The tool asked for.
    pub tool: String,
    /// The call's id, if it has one.
    pub call_id: Option<String>,
    /// XXH3 of the name and the canonical arguments, in hex; of the text as it came when it isn't JSON.
    pub hash: String,
    /// Size of the arguments, in bytes.
    pub argument_bytes: usize,
    /// The host's risk label.
    pub risk: Risk,
    /// What was decided.
    pub verdict: Verdict,
    /// Why.
    pub why: Why,
}

impl AuditRecord {
    /// The record as one JSON object, for a line of a log.
    pub fn to_json(&self) -> Value {
        json!({
            "time_ms": self.time_ms,
            "turn": self.turn,
            "tool": self.tool,
            "call_id": self.call_id,
            "hash": self.hash,
            "argument_bytes": self.argument_bytes,
            "risk": self.risk.as_str(),
            "verdict": self.verdict.as_str(),
            "why": self.why.as_str(),
        })
    }
}
