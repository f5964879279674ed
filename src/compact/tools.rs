//! Trimming of tool definitions, only when a policy asks: unused tools go, long descriptions are cut.
//!
//! Never silent: each is an edit of the plan. A tool that the history calls, that `tool_choice` names or that the provider
//! runs stays; so does the last one, since an empty list means something else than none.

use super::history::History;
use super::policy::TrimTools;
use super::shrink::prefix;
use crate::count::Breakdown;
use crate::format::{Edit, ItemBody, ToolChoice, ToolKind};
use crate::pages::{READ_TOOL, SEARCH_TOOL};
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// One trim.
#[derive(Clone, Debug)]
pub(super) struct Trim {
    pub(super) edit: Edit,
    pub(super) name: String,
    pub(super) what: &'static str,
    /// Tokens that it is thought to free.
    pub(super) gain: u64,
    pub(super) before: u64,
}

/// All trims that the policy allows, the largest gain first.
pub(super) fn trims(history: &History<'_, '_>, breakdown: &Breakdown, wanted: TrimTools) -> Vec<Trim> {
    let conversation = history.conversation;
    let called: HashSet<&str> = conversation
        .messages
        .iter()
        .flat_map(|m| &m.items)
        .filter_map(|item| match &item.body {
            ItemBody::ToolCall(call) => Some(call.name),
            ItemBody::ToolResult(result) => result.name,
            _ => None,
        })
        .collect();
    let named = match conversation.tool_choice {
        ToolChoice::Named(name) => Some(name),
        ToolChoice::Other => return Vec::new(),
        _ => None,
    };
    let mut weights: HashMap<&str, u64> = conversation.tools.iter().map(|tool| (tool.place.as_str(), 0)).collect();
    for part in breakdown.parts() {
        let borders = part.place.match_indices('/').map(|(at, _)| at).chain([part.place.len()]);
        for end in borders {
            if let Some(weight) = weights.get_mut(&part.place[..end]) {
                *weight = weight.saturating_add(part.tokens);
            }
        }
    }
    let mut out = Vec::new();
    let mut left = conversation.tools.len();
    for tool in conversation.tools.iter().filter(|tool| tool.kind == ToolKind::Function) {
        let before = weights.get(tool.place.as_str()).copied().unwrap_or(0);
        let unused = !called.contains(tool.name) && named != Some(tool.name) && tool.name != READ_TOOL && tool.name != SEARCH_TOOL;
        if wanted.unused && unused && left > 1 && removable(history, &tool.place) {
            left -= 1;
            let edit = Edit::Remove { place: tool.place.clone() };
            out.push(Trim { edit, name: tool.name.to_owned(), what: "definition removed", gain: before, before });
            continue;
        }
        let Some((chars, description)) = wanted.description_chars.zip(tool.description) else { continue };
        let cut = description.char_indices().nth(chars).map(|(at, _)| at);
        let (Some(cut), Some(place)) = (cut, description_place(history, &tool.place)) else { continue };
        let text = format!("{}…", prefix(description, cut));
        let gain = before.saturating_mul((description.len() - cut) as u64) / (tool.raw.to_string().len().max(1) as u64);
        out.push(Trim { edit: Edit::set_text(place, &text), name: tool.name.to_owned(), what: "description cut", gain, before });
    }
    out.sort_by_key(|trim| std::cmp::Reverse(trim.gain));
    out
}

/// A definition that is not alone in its list (Gemini declares functions in groups).
fn removable(history: &History<'_, '_>, place: &str) -> bool {
    let list = place.rsplit_once('/').and_then(|(list, _)| history.request.value().pointer(list));
    list.and_then(Value::as_array).is_some_and(|list| list.len() > 1)
}

fn description_place(history: &History<'_, '_>, place: &str) -> Option<String> {
    ["/description", "/function/description", "/toolSpec/description"]
        .into_iter()
        .map(|tail| format!("{place}{tail}"))
        .find(|place| history.request.value().pointer(place).is_some_and(Value::is_string))
}
