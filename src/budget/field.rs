//! Where the output limit travels in each API, and how much of it hidden reasoning takes.
//!
//! Called by [`super::decide`] alone. Field names: the providers' API references, read 2026-11-30.

use crate::format::{Conversation, Format};
use crate::models::{Profile, Provider};
use serde_json::{Value, json};

/// JSON Pointer of the field that carries the output limit.
///
/// A body that already carries one keeps its own spelling. Chat bodies to OpenAI's reasoning models need
/// `max_completion_tokens`, which those models demand; other hosts of the chat format know `max_tokens` alone.
pub(super) fn pointer(conversation: &Conversation<'_>, profile: &Profile, provider: Option<&Provider>) -> &'static str {
    match conversation.format {
        Format::Responses => "/max_output_tokens",
        Format::Gemini => "/generationConfig/maxOutputTokens",
        Format::Converse => "/inferenceConfig/maxTokens",
        Format::Anthropic | Format::Mcp => "/max_tokens",
        Format::Chat => {
            let openai = profile.maker == "openai" && matches!(provider, None | Some(Provider::OpenAi | Provider::Azure));
            match conversation.options.max_output {
                Some((_, "max_completion_tokens")) => "/max_completion_tokens",
                _ if openai && profile.reasoning => "/max_completion_tokens",
                _ => "/max_tokens",
            }
        }
    }
}

/// The field and the JSON Patch that sets it to `granted`; a nested field's missing parent is added first.
pub(super) fn patch(conversation: &Conversation<'_>, profile: &Profile, provider: Option<&Provider>, granted: u64) -> (String, Value) {
    let field = pointer(conversation, profile, provider);
    let mut operations = Vec::new();
    if let Some((parent, _)) = field[1..].split_once('/')
        && !conversation.body.get(parent).is_some_and(Value::is_object)
    {
        operations.push(json!({"op": "add", "path": format!("/{parent}"), "value": {}}));
    }
    // The chat format's two spellings exclude each other: OpenAI refuses a body that has both.
    if field == "/max_completion_tokens" && conversation.body.contains_key("max_tokens") {
        operations.push(json!({"op": "remove", "path": "/max_tokens"}));
    }
    operations.push(json!({"op": "add", "path": field, "value": granted}));
    (field.to_owned(), Value::Array(operations))
}

/// Output tokens that hidden reasoning is expected to take out of `granted`.
///
/// A thinking budget in tokens is taken as it is. An effort is a share of the limit, by the table that
/// `OpenRouter` publishes for its own translation of efforts into budgets (read 2026-11-30): an expectation, not a bound.
pub(super) fn reserve(conversation: &Conversation<'_>, profile: &Profile, granted: u64) -> u64 {
    let options = &conversation.options;
    if let Some(budget) = options.thinking_budget {
        // Negative budgets mean "as much as you like" (Gemini's −1): nothing is known.
        return u64::try_from(budget).unwrap_or(0);
    }
    if !profile.reasoning {
        return 0;
    }
    let percent = match options.effort {
        Some("xhigh" | "max") => 95,
        Some("high") => 80,
        Some("medium") => 50,
        Some("low") => 20,
        Some("minimal") => 10,
        _ => 0,
    };
    granted / 100 * percent + granted % 100 * percent / 100
}
