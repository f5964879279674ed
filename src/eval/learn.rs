//! What replayed reasoning cost, from the responses of a log that made it.
//!
//! A response reports its reasoning as one number; it goes to the first signature (Gemini) or, for several encrypted
//! items (Responses), is only kept when one item carries all of it.

use super::Exchange;
use crate::count::ReasoningMemory;
use crate::format::Format;
use serde_json::Value;

/// Remembers every signature of the log whose cost its response reports.
pub fn learn<'a>(exchanges: impl IntoIterator<Item = &'a Exchange>) -> ReasoningMemory {
    let mut memory = ReasoningMemory::default();
    for exchange in exchanges {
        match exchange.request.format() {
            Format::Gemini => gemini(&exchange.events, &mut memory),
            Format::Responses => responses(&exchange.events, &mut memory),
            _ => {}
        }
    }
    memory
}

fn gemini(events: &[Value], memory: &mut ReasoningMemory) {
    let (mut thoughts, mut first) = (0, true);
    for event in events {
        thoughts = event.pointer("/usageMetadata/thoughtsTokenCount").and_then(Value::as_u64).unwrap_or(thoughts);
    }
    let candidates = events.iter().filter_map(|event| event.get("candidates")?.as_array()).flatten();
    for part in candidates.filter_map(|candidate| candidate.pointer("/content/parts")?.as_array()).flatten() {
        let Some(signature) = part.get("thoughtSignature").or_else(|| part.get("thought_signature")).and_then(Value::as_str) else {
            continue;
        };
        if memory.recall(signature).is_none() {
            memory.remember(signature, if first { thoughts } else { 0 });
        }
        first = false;
    }
}

fn responses(events: &[Value], memory: &mut ReasoningMemory) {
    let Some(response) = events.iter().rev().find_map(|event| event.get("response").filter(|r| r.get("output").is_some()).or(Some(event)))
    else {
        return;
    };
    let Some(tokens) = response.pointer("/usage/output_tokens_details/reasoning_tokens").and_then(Value::as_u64) else { return };
    let items = response.get("output").and_then(Value::as_array).into_iter().flatten();
    let sealed: Vec<&str> = items
        .filter(|item| item.get("type").and_then(Value::as_str) == Some("reasoning"))
        .filter_map(|item| item.get("encrypted_content")?.as_str())
        .collect();
    if let [only] = sealed.as_slice() {
        memory.remember(only, tokens);
    }
}

#[cfg(test)]
mod tests {
    use super::super::read_log;
    use super::*;

    #[test]
    fn thoughts_go_to_the_first_signature() {
        let log = r#"{"api":"gemini","request":{"contents":[]},"response":{"candidates":[{"content":{"parts":[{"thoughtSignature":"CosC"},{"thoughtSignature":"CosD"}]}}],"usageMetadata":{"thoughtsTokenCount":31}}}
{"api":"responses","request":{"input":"x"},"response":{"output":[{"type":"reasoning","encrypted_content":"gAAA"}],"usage":{"output_tokens_details":{"reasoning_tokens":64}}}}"#;
        let (read, _) = read_log(log.as_bytes()).unwrap();
        let memory = learn(&read);
        assert_eq!((memory.recall("CosC"), memory.recall("CosD"), memory.recall("gAAA")), (Some(31), Some(0), Some(64)));
    }
}
