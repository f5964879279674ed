//! What would make a request fit that does not, the least harmful first.
//!
//! Called by [`super::decide`]. Only suggests: shrinking and compaction are other modules' work.

use super::Limit;
use crate::count::{Count, PartKind};
use crate::format::Conversation;
use crate::models::Models;
use serde::Serialize;
use std::collections::BTreeMap;

/// One way out of a shortfall.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Remedy {
    /// Ask for less output.
    LowerRequest {
        /// The most that can be granted now, in tokens.
        to: u64,
    },
    /// Lower the thinking budget.
    LowerThinking {
        /// By how many tokens.
        by: u64,
    },
    /// Shorten or page tool results.
    ShrinkResults {
        /// JSON Pointers of the largest results and their tokens, largest first.
        results: Vec<(String, u64)>,
        /// Tokens that all tool results take together.
        available: u64,
    },
    /// Leave out tool definitions.
    DropTools {
        /// The costliest tools and their tokens, costliest first.
        tools: Vec<(String, u64)>,
        /// Tokens that all tool definitions take together.
        available: u64,
    },
    /// Summarize or drop the oldest exchanges.
    Compact {
        /// Tokens of the history before the newest user message.
        available: u64,
    },
    /// Use a model with more room.
    LargerModel {
        /// Canonical ids, the smallest sufficient window first.
        models: Vec<String>,
    },
}

/// How many results, tools and models are named.
const NAMED: usize = 5;

pub(super) fn remedies(
    conversation: &Conversation<'_>,
    count: &Count,
    missing: u64,
    limit: Limit,
    used: u64,
    models: &Models,
) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    match limit {
        Limit::Thinking => remedies.push(Remedy::LowerThinking { by: missing }),
        Limit::OutputCap => {
            if let Some(cap) = count.profile.output_cap {
                remedies.push(Remedy::LowerRequest { to: cap });
            }
            return remedies;
        }
        Limit::Requested => return remedies,
        Limit::Window | Limit::InputCap => {}
    }
    let results = heaviest(count, PartKind::ToolResult, |part| part.place.clone());
    if results.1 > 0 {
        remedies.push(Remedy::ShrinkResults { results: results.0, available: results.1 });
    }
    let tools = heaviest(count, PartKind::ToolDefinition, |part| part.name.clone().unwrap_or_else(|| part.place.clone()));
    if tools.1 > 0 {
        remedies.push(Remedy::DropTools { tools: tools.0, available: tools.1 });
    }
    let newest = conversation.messages.iter().rev().find(|m| m.role == crate::format::Role::User).map(|m| m.index);
    let history = count.breakdown.parts().iter().filter(|p| p.message.is_some_and(|index| Some(index) < newest)).map(|p| p.tokens);
    let available = history.fold(0, u64::saturating_add);
    if available > 0 {
        remedies.push(Remedy::Compact { available });
    }
    let need = match limit {
        Limit::InputCap => used,
        _ => count.profile.window.unwrap_or(used).saturating_add(missing),
    };
    let larger = models.larger(&count.profile, need, NAMED);
    if !larger.is_empty() {
        remedies.push(Remedy::LargerModel { models: larger });
    }
    remedies
}

/// The heaviest owners of one kind of part, and what all of them take together.
fn heaviest(count: &Count, kind: PartKind, owner: impl Fn(&crate::count::Part) -> String) -> (Vec<(String, u64)>, u64) {
    let mut owners: BTreeMap<String, u64> = BTreeMap::new();
    for part in count.breakdown.parts().iter().filter(|part| part.kind == kind) {
        let sum = owners.entry(owner(part)).or_default();
        *sum = sum.saturating_add(part.tokens);
    }
    let available = owners.values().fold(0, |sum: u64, tokens| sum.saturating_add(*tokens));
    let mut list: Vec<(String, u64)> = owners.into_iter().collect();
    list.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    list.truncate(NAMED);
    (list, available)
}
