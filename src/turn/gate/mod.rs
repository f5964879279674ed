//! The call gate: may this call be run?
//!
//! A host holds one [`Gate`] for a task and asks it about each turn before it runs anything. The gate judges; it never
//! runs a tool. Guards invariant 11: only a call of a turn that ended well, of the one choice that is used, with complete
//! arguments that the tool's schema allows, can get [`Verdict::Run`].

mod audit;
mod judge;
mod policy;
mod schema;

pub use audit::AuditRecord;
pub use judge::{JudgedCall, Judgement};
pub use policy::{Policy, Risk, Rule, Verdict, Why};

use self::schema::Schema;
use crate::error::Result;
use crate::format::{Request, ToolKind};
use rustc_hash::FxHashMap;
use serde_json::Value;

/// What the gate knows of one tool.
#[derive(Debug)]
struct Known {
    schema: Schema,
    read_only: bool,
}

/// Judges the calls of a task, turn by turn.
///
/// ```
/// use plimsoll::{Format, turn::{Gate, Policy, Turn, Verdict}};
/// let mut gate = Gate::new(Policy::default());
/// gate.add_tool("read", Some(&serde_json::json!({"type": "object", "properties": {"path": {"type": "string"}}})));
/// let turn = Turn::read(&serde_json::json!({"choices": [{"finish_reason": "tool_calls", "message": {"role": "assistant",
///     "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{\"path\": \"a.txt\"}"}}]}}],
///     "usage": {}}), Format::Chat)?;
/// let judgement = gate.judge(&turn, 0, 1_764_500_000_000);
/// assert_eq!(judgement.calls[0].verdict, Verdict::Run);
/// # Ok::<(), plimsoll::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Gate {
    policy: Policy,
    /// `None` until the host named any tool: then every call is at best [`Verdict::Ask`].
    tools: Option<FxHashMap<String, Known>>,
    /// How often a call (name and canonical arguments) was let through, in this task.
    seen: FxHashMap<u64, u32>,
    /// Ids of calls of earlier turns.
    ids: rustc_hash::FxHashSet<String>,
    turns: u32,
}

impl Gate {
    /// A gate without tools yet.
    pub fn new(policy: Policy) -> Self {
        Self { policy, ..Self::default() }
    }

    /// Makes a tool known. Without a schema any JSON object will do. A later one of the same name replaces the earlier.
    pub fn add_tool(&mut self, name: &str, schema: Option<&Value>) {
        self.add(name, schema, false);
    }

    /// As [`Gate::add_tool`], for a tool whose server says that it only reads (MCP's `readOnlyHint`).
    pub fn add_read_only_tool(&mut self, name: &str, schema: Option<&Value>) {
        self.add(name, schema, true);
    }

    fn add(&mut self, name: &str, schema: Option<&Value>, read_only: bool) {
        let known = Known { schema: Schema::new(schema), read_only };
        self.tools.get_or_insert_default().insert(name.to_owned(), known);
    }

    /// Makes the tools of a request known, whatever its format. A request without tools makes every call unknown.
    ///
    /// # Errors
    /// As [`Request::conversation`].
    pub fn add_request(&mut self, request: &Request) -> Result<()> {
        let conversation = request.conversation()?;
        self.tools.get_or_insert_default();
        for tool in conversation.tools.iter().filter(|tool| tool.kind != ToolKind::Server) {
            self.add(tool.name, tool.parameters, false);
        }
        Ok(())
    }

    /// Takes a record of an earlier turn of the task, for a gate that doesn't live as long as the task: it counts repeats and
    /// knows used ids as the gate that made the record did. A record that doesn't read (a hash that is no hash) is left out.
    pub fn remember(&mut self, record: &AuditRecord) {
        self.turns = self.turns.max(record.turn);
        if record.why == Why::OtherChoice {
            return;
        }
        if let Some(id) = &record.call_id {
            self.ids.insert(id.clone());
        }
        if let (Ok(hash), true) = (u64::from_str_radix(&record.hash, 16), record.verdict != Verdict::Refuse) {
            let seen = self.seen.entry(hash).or_default();
            *seen = seen.saturating_add(1);
        }
    }

    /// Says how many turns the task has had, where [`Gate::remember`] can't tell: turns without calls leave no record.
    pub fn had_turns(&mut self, turns: u32) {
        self.turns = self.turns.max(turns);
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }
}

#[cfg(test)]
mod tests;
