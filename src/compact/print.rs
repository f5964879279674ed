//! A plan as a person reads it, and as JSON.
//!
//! Used by the command line and logs of hosts; holds no content of the request beyond tool names and places.

use super::apply::Outcome;
use super::plan::{Plan, PlannedEdit};
use serde_json::{Value, json};
use std::fmt::{self, Write as _};

impl PlannedEdit {
    /// The edit as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "step": self.step.as_str(),
            "path": self.place,
            "what": self.what,
            "why": self.why,
            "messages": self.messages,
            "before": self.before,
            "after": self.after,
            "ref": self.reference,
        })
    }
}

impl Outcome {
    /// The outcome as JSON, the request as text that was spliced in, so that its bytes stay.
    pub fn to_json_text(&self) -> String {
        let edits: Vec<Value> = self.edits.iter().map(PlannedEdit::to_json).collect();
        format!(
            "{{\"request\":{},\"before\":{},\"after\":{},\"edits\":{},\"undo\":{},\"cache_broken_from\":{}}}",
            self.request.text().trim(),
            self.before,
            self.after,
            Value::from(edits),
            crate::format::quote(&self.undo),
            self.cache_broken_from
        )
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let saved = self.before.saturating_sub(self.after);
        writeln!(f, "plan {}: {} -> {} tokens ({saved} less, target {})", self.id, self.before, self.after, self.target)?;
        for edit in &self.edits {
            let mut line = format!("  {:<10} {:<28} {:>8} -> {:<7}", edit.step.as_str(), edit.place, edit.before, edit.after);
            let _ = write!(line, " {} ({})", edit.what, edit.why);
            if let Some(reference) = &edit.reference {
                let _ = write!(line, " [{reference}]");
            }
            writeln!(f, "{line}")?;
        }
        write!(f, "  cached prefix holds up to token {}; ", self.cache_broken_from)?;
        match self.break_even_turns {
            Some(turns) => writeln!(f, "the broken cache is paid for after {turns} turns"),
            None => writeln!(f, "the broken cache is never paid for at this price"),
        }
    }
}
