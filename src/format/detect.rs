//! Which wire format a body is in, and which field told.
//!
//! Used for `auto`. Only structure decides, and the first rule that fits wins; the model's name is the last
//! resort. Says nothing about whether the body is valid: the format's own view does that.

use super::Format;
use crate::error::{Error, Result};
use serde_json::{Map, Value};

/// A detected format and the evidence for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detection {
    /// The format.
    pub format: Format,
    /// What in the body told, for a person.
    pub because: &'static str,
}

/// Tells the format of a parsed body.
///
/// # Errors
/// Invalid input when nothing in the body belongs to any format.
pub(super) fn detect(value: &Value) -> Result<Detection> {
    let found = |format, because| Ok(Detection { format, because });
    let Value::Object(body) = value else {
        return match value {
            Value::Array(list) if list.iter().any(is_mcp_result) => found(Format::Mcp, "a list of tools/list results"),
            other => Err(Error::invalid("", format!("expected a JSON object, found {}", super::kind_of(other)))),
        };
    };
    let has = |key: &str| body.get(key).is_some_and(|v| !v.is_null());
    if has("contents") {
        return found(Format::Gemini, "it has `contents`");
    }
    if let Some(Value::Array(messages)) = body.get("messages") {
        return Ok(by_messages(body, messages));
    }
    if has("messages") {
        return found(Format::Chat, "it has `messages`");
    }
    for (key, because) in [
        ("input", "it has `input`"),
        ("previous_response_id", "it has `previous_response_id`"),
        ("instructions", "it has `instructions` and no `messages`"),
        ("prompt", "it has a stored `prompt` and no `messages`"),
    ] {
        if has(key) {
            return found(Format::Responses, because);
        }
    }
    if has("systemInstruction") || has("generationConfig") {
        return found(Format::Gemini, "it has Gemini's own fields");
    }
    if is_mcp_result(value) {
        return found(Format::Mcp, "it has `tools` with `inputSchema`, or is a JSON-RPC result");
    }
    Err(Error::invalid(
        "",
        "no known format: expected `messages` (chat, anthropic, converse), `input` (responses), `contents` (gemini) or a tools/list result (mcp)",
    ))
}

fn is_mcp_result(value: &Value) -> bool {
    let result = value.get("result").unwrap_or(value);
    matches!(result.get("tools"), Some(Value::Array(tools)) if tools.iter().all(|t| t.get("inputSchema").is_some() || value.get("jsonrpc").is_some()))
}

/// Chat, Anthropic and Converse all have `messages`.
fn by_messages(body: &Map<String, Value>, messages: &[Value]) -> Detection {
    let found = |format, because| Detection { format, because };
    let has = |key: &str| body.get(key).is_some_and(|v| !v.is_null());
    for (key, because) in [
        ("inferenceConfig", "it has `inferenceConfig`"),
        ("toolConfig", "it has `toolConfig`"),
        ("additionalModelRequestFields", "it has `additionalModelRequestFields`"),
        ("modelId", "it has `modelId`"),
    ] {
        if has(key) {
            return found(Format::Converse, because);
        }
    }
    if has("anthropic_version") {
        return found(Format::Anthropic, "it has `anthropic_version`");
    }
    let tools = || body.get("tools").and_then(Value::as_array).into_iter().flatten();
    if tools().any(|t| t.get("input_schema").is_some()) {
        return found(Format::Anthropic, "its tools have `input_schema`");
    }
    if tools().any(|t| t.get("function").is_some()) || has("functions") {
        return found(Format::Chat, "its tools have `function`");
    }
    for message in messages {
        if let Some(told) = by_message(message) {
            return told;
        }
    }
    if has("system") {
        let untyped = matches!(body.get("system"), Some(Value::Array(list)) if list.iter().any(|b| b.get("text").is_some() && b.get("type").is_none()));
        return if untyped {
            found(Format::Converse, "its `system` is a list of untyped blocks")
        } else {
            found(Format::Anthropic, "it has a top-level `system`")
        };
    }
    for key in ["stop_sequences", "thinking", "top_k"] {
        if has(key) && !has("max_completion_tokens") {
            return found(Format::Anthropic, "it has Anthropic's own fields");
        }
    }
    let names_claude = body.get("model").and_then(Value::as_str).is_some_and(|m| m.starts_with("claude"));
    if names_claude && has("max_tokens") {
        return found(Format::Anthropic, "it has `messages` and `max_tokens`, and names a Claude model");
    }
    found(Format::Chat, "it has `messages` and nothing of another format")
}

/// What one message tells, if anything.
fn by_message(message: &Value) -> Option<Detection> {
    let found = |format, because| Some(Detection { format, because });
    if matches!(message.get("role").and_then(Value::as_str), Some("system" | "developer" | "tool" | "function")) {
        return found(Format::Chat, "a message has the role system, developer, tool or function");
    }
    if message.get("tool_calls").is_some() || message.get("function_call").is_some() {
        return found(Format::Chat, "a message has `tool_calls`");
    }
    for block in message.get("content").and_then(Value::as_array)? {
        match block.get("type").and_then(Value::as_str) {
            None => {
                if ["text", "toolUse", "toolResult", "image", "document", "video", "reasoningContent", "cachePoint", "guardContent"]
                    .iter()
                    .any(|key| block.get(key).is_some())
                {
                    return found(Format::Converse, "its content blocks have no `type`");
                }
            }
            Some("tool_use" | "tool_result" | "thinking" | "redacted_thinking" | "image" | "document" | "server_tool_use") => {
                return found(Format::Anthropic, "a content block has an Anthropic type");
            }
            Some("image_url" | "input_audio" | "file" | "refusal") => {
                return found(Format::Chat, "a content part has a Chat Completions type");
            }
            Some(_) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tells_each_format_and_says_how() {
        for (body, format) in [
            (json!({"messages": [{"role": "user", "content": "hi"}]}), Format::Chat),
            (json!({"messages": [{"role": "system", "content": "s"}], "system": "x"}), Format::Chat),
            (json!({"messages": [{"role": "user", "content": "hi"}], "system": "s", "max_tokens": 9}), Format::Anthropic),
            (json!({"model": "claude-opus-4-6", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}), Format::Anthropic),
            (json!({"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}]}), Format::Anthropic),
            (json!({"messages": [{"role": "user", "content": [{"text": "hi"}]}]}), Format::Converse),
            (json!({"messages": [], "inferenceConfig": {}}), Format::Converse),
            (json!({"input": "hi"}), Format::Responses),
            (json!({"contents": []}), Format::Gemini),
            (json!({"tools": [{"name": "a", "inputSchema": {}}]}), Format::Mcp),
            (json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}), Format::Mcp),
        ] {
            let told = detect(&body).unwrap_or_else(|e| panic!("{body}: {e}"));
            assert_eq!(told.format, format, "{body}: {}", told.because);
            assert!(!told.because.is_empty());
        }
    }

    #[test]
    fn refuses_what_is_no_request() {
        for body in [json!({}), json!({"model": "gpt-4o"}), json!([]), json!("x"), json!(3)] {
            assert!(detect(&body).is_err(), "{body}");
        }
    }
}
