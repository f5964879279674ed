//! When nothing more may go: how small the request gets, and what is in the way.
//!
//! Made by the planner alone; printed by the edges as `{"kind", "floor", "parts"}`.

use super::history::{History, UnitKind};
use crate::count::{Breakdown, PartKind};
use crate::error::{Error, Kind};
use crate::format::Place;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};

/// Something that can't shrink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckPart {
    /// Where it stands.
    pub place: Place,
    /// What it is: `system`, `user`, `exchange`, `tool_definition`, `overhead` …
    pub kind: &'static str,
    /// Tokens.
    pub tokens: u64,
    /// Why it stays.
    pub why: &'static str,
}

/// A target that can't be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Tokens now.
    pub before: u64,
    /// What was to be reached.
    pub target: u64,
    /// The least that the policy allows, in tokens.
    pub floor: u64,
    /// What can't shrink, the largest first; at most 20.
    pub parts: Vec<StuckPart>,
}

impl Stuck {
    /// Tokens between the floor and the target.
    pub fn missing(&self) -> u64 {
        self.floor.saturating_sub(self.target)
    }

    /// The error that callers see.
    pub fn to_error(&self) -> Error {
        // Framing has no place of its own.
        let place = |part: &StuckPart| if part.place.is_empty() { "the request".to_owned() } else { part.place.clone() };
        let largest: Vec<String> =
            self.parts.iter().take(3).map(|part| format!("{} ({} tokens: {})", place(part), part.tokens, part.why)).collect();
        let because = if largest.is_empty() { String::new() } else { format!(" because of {}", largest.join(", ")) };
        Error::new(
            Kind::OverBudget,
            format!("can't shrink below {} tokens, {} over the target of {}{because}", self.floor, self.missing(), self.target),
        )
    }

    /// The error as JSON: `kind`, `message`, `floor`, `target`, `before`, `parts`.
    pub fn to_json(&self) -> Value {
        let parts: Vec<Value> =
            self.parts.iter().map(|p| json!({"path": p.place, "kind": p.kind, "tokens": p.tokens, "why": p.why})).collect();
        json!({
            "kind": Kind::OverBudget.as_str(),
            "message": self.to_error().to_string(),
            "floor": self.floor,
            "target": self.target,
            "before": self.before,
            "parts": parts,
        })
    }
}

pub(super) fn shortfall(history: &History<'_, '_>, breakdown: &Breakdown, before: u64, target: u64, floor: u64) -> Stuck {
    let mut parts: Vec<StuckPart> = Vec::new();
    for unit in &history.units {
        let Some(why) = unit.locked else { continue };
        let kind = match unit.kind {
            UnitKind::Standing => "system",
            UnitKind::User => "user",
            UnitKind::Exchange => "exchange",
        };
        let place = history.messages(unit).first().map(|m| m.place.clone()).unwrap_or_default();
        parts.push(StuckPart { place, kind, tokens: unit.tokens, why });
    }
    for (at, message) in history.conversation.messages.iter().enumerate().filter(|(_, m)| !m.listed) {
        parts.push(StuckPart { place: message.place.clone(), kind: "system", tokens: history.weights[at], why: "system text" });
    }
    let mut rest: BTreeMap<(&str, PartKind), u64> = BTreeMap::new();
    let messages: HashSet<&str> = history.conversation.messages.iter().map(|m| m.place.as_str()).collect();
    // A part stands in a message when its place, or one above it, is a message's.
    let in_message = |place: &str| {
        let borders = place.match_indices('/').map(|(at, _)| at).skip(1).chain([place.len()]);
        borders.into_iter().any(|end| messages.contains(&place[..end]))
    };
    for part in breakdown.parts() {
        let of_tools = part.kind == PartKind::ToolDefinition;
        if of_tools || (part.kind == PartKind::Overhead && !in_message(&part.place)) {
            let place = if of_tools { part.place.as_str() } else { "" };
            *rest.entry((place, part.kind)).or_default() += part.tokens;
        }
    }
    for ((place, kind), tokens) in rest {
        let why = if kind == PartKind::Overhead { "framing" } else { "tool definitions are trimmed only on request" };
        parts.push(StuckPart { place: place.to_owned(), kind: kind.as_str(), tokens, why });
    }
    parts.retain(|part| part.tokens > 0);
    parts.sort_by(|a, b| b.tokens.cmp(&a.tokens).then_with(|| a.place.cmp(&b.place)));
    parts.truncate(20);
    Stuck { before, target, floor, parts }
}
