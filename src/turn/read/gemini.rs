//! Gemini generateContent responses to a turn.
//!
//! Called by [`Turn::read`]. A prompt that was blocked gives a choice without content, finished by the block reason.

use super::super::answer::{Call, CallKind, Turn};
use super::super::peek::{as_text, filled, index, list, some, text};
use super::{Gathered, owned, usage};
use serde_json::{Value, json};

pub(super) fn read(body: &Value, turn: &mut Turn) {
    turn.id = owned(filled(body, "responseId"));
    turn.model = owned(filled(body, "modelVersion"));
    usage(turn, body, "usageMetadata");
    for (position, candidate) in list(body, "candidates").iter().enumerate() {
        let mut out = Gathered::default();
        let content = some(candidate, "content").cloned().unwrap_or_else(|| json!({"role": "model", "parts": []}));
        for part in list(&content, "parts") {
            gather(part, &mut out);
        }
        // Protobuf clients print the enum's number.
        let raw = some(candidate, "finishReason").map(as_text);
        let number = index(candidate, "index").unwrap_or(position as u64);
        turn.choices.push(out.choice(number, content, raw.as_deref(), turn.format));
    }
    if turn.choices.is_empty()
        && let Some(reason) = body.pointer("/promptFeedback/blockReason").filter(|reason| !reason.is_null())
    {
        let empty = json!({"role": "model", "parts": []});
        let mut choice = Gathered::default().choice(0, empty, Some(&as_text(reason)), turn.format);
        if !choice.finish.known {
            // Any block reason is a filter, listed or not.
            choice.finish.reason = super::super::finish::Reason::ContentFilter;
        }
        turn.choices.push(choice);
    }
}

fn gather(part: &Value, out: &mut Gathered) {
    if let Some(words) = text(part, "text") {
        if part.get("thought").and_then(Value::as_bool) == Some(true) {
            out.reasoning.push_str(words);
        } else {
            out.text.push_str(words);
        }
    }
    if let Some(call) = some(part, "functionCall") {
        out.calls.push(Call {
            id: owned(filled(call, "id")),
            name: text(call, "name").unwrap_or_default().to_owned(),
            // The API leaves `args` out when there are none.
            arguments: some(call, "args").map_or_else(|| "{}".to_owned(), as_text),
            kind: CallKind::Function,
        });
    }
}
