//! Responses bodies to a turn.
//!
//! Called by [`Turn::read`]. Only calls that the host must answer become calls; items that the provider ran
//! (web search, MCP, code interpreter) stay in the message.

use super::super::answer::{Call, CallKind, Turn};
use super::super::fault::{Fault, FaultKind};
use super::super::peek::{as_text, filled, list, some, text};
use super::{Gathered, owned, usage};
use serde_json::{Value, json};

pub(super) fn read(body: &Value, turn: &mut Turn) {
    turn.id = owned(filled(body, "id"));
    turn.model = owned(filled(body, "model"));
    usage(turn, body, "usage");
    let Some(output) = some(body, "output").and_then(Value::as_array) else { return };
    let mut out = Gathered::default();
    let mut partial = false;
    for item in output {
        partial |= gather(item, &mut out);
    }
    let status = text(body, "status");
    let raw = match status {
        Some("incomplete") => body.pointer("/incomplete_details/reason").and_then(Value::as_str).or(status),
        _ => status,
    };
    match status {
        Some("failed" | "cancelled") if turn.error().is_none() => {
            turn.fault(Fault::new(FaultKind::Provider, format!("the response's status is `{}`", status.unwrap_or_default())));
        }
        Some("in_progress" | "queued") => {
            turn.fault(Fault::new(FaultKind::Truncated, "the response isn't finished yet"));
        }
        Some("completed" | "complete") if partial => {
            turn.fault(Fault::new(FaultKind::Truncated, "the response says it is complete, but one of its calls isn't"));
        }
        _ => {}
    }
    let message = json!({"role": "assistant", "output": output});
    turn.choices.push(out.choice(0, message, raw, turn.format));
}

/// Gathers one output item; true when it is a call that isn't complete.
fn gather(item: &Value, out: &mut Gathered) -> bool {
    let kind = text(item, "type").unwrap_or_default();
    match kind {
        "message" => {
            for part in list(item, "content") {
                match text(part, "type") {
                    Some("refusal") => out.refusal = owned(text(part, "refusal")),
                    _ => out.text.push_str(text(part, "text").unwrap_or_default()),
                }
            }
        }
        "reasoning" => {
            let parts = list(item, "content").iter().chain(list(item, "summary"));
            parts.filter_map(|part| text(part, "text")).for_each(|t| out.reasoning.push_str(t));
        }
        "function_call" | "custom_tool_call" => {
            let custom = kind == "custom_tool_call";
            let arguments = item.get(if custom { "input" } else { "arguments" }).map(as_text).unwrap_or_default();
            out.calls.push(Call {
                id: owned(filled(item, "call_id")),
                name: text(item, "name").unwrap_or_default().to_owned(),
                arguments,
                kind: if custom { CallKind::Custom } else { CallKind::Function },
            });
            return matches!(text(item, "status"), Some("in_progress" | "incomplete"));
        }
        // Calls of built-in tools that the host runs: the whole action is the argument.
        "computer_call" | "local_shell_call" | "shell_call" | "apply_patch_call" => {
            let action = item.get("action").or_else(|| item.get("operation"));
            out.calls.push(Call {
                id: owned(filled(item, "call_id")),
                name: kind.trim_end_matches("_call").to_owned(),
                arguments: action.map(as_text).unwrap_or_default(),
                kind: CallKind::Function,
            });
            return matches!(text(item, "status"), Some("in_progress" | "incomplete"));
        }
        _ => {}
    }
    false
}
