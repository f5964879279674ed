//! One answer, however it was stored, to the report that the command line and the service give.
//!
//! Takes a whole JSON response, raw server-sent events or binary frames, or recorded events (an array, or one JSON value a line), tells which it is,
//! and judges the calls by the request. Decides nothing of its own: the turn and the gate do.

use super::answer::Turn;
use super::fault::{Fault, FaultKind};
use super::gate::{AuditRecord, Gate, Judgement, Policy};
use super::stream::Stream;
use crate::error::{Error, Kind, Result};
use crate::format::{Format, Request};
use crate::limits;
use crate::models::Models;
use crate::tokenizer::Tokenizer;
use serde_json::{Value, json};

/// What [`inspect`] may be told beside the answer.
#[derive(Clone, Debug, Default)]
pub struct InspectOptions {
    /// The request that was answered: its tools decide which calls are valid.
    pub request: Option<Request>,
    /// What the host allows.
    pub policy: Policy,
    /// The position of the choice that the host uses.
    pub choice: usize,
    /// The host's clock, in milliseconds since 1970, for the audit records.
    pub now_ms: u64,
    /// The model, for the tokenizer; without it the one that the answer or the request names.
    pub model: Option<String>,
    /// The records of the task's earlier turns: repeats and used ids are known by them.
    pub earlier: Vec<AuditRecord>,
    /// Turns that the task has had, where the records don't tell.
    pub earlier_turns: u32,
}

/// An answer, judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Inspection {
    /// The turn.
    pub turn: Turn,
    /// Its calls, judged.
    pub judgement: Judgement,
    /// Output tokens counted from what is readable, and the tokenizer that counted them.
    pub counted_output: Option<(u64, String)>,
}

/// Reads an answer in whatever shape it was stored.
///
/// # Errors
/// [`Kind::LimitExceeded`] over [`limits::MAX_BODY_BYTES`]; [`Kind::Unsupported`] for `mcp`. An answer that is cut or broken is no error
/// but a turn with a fault.
pub fn read_answer(bytes: &[u8], format: Format) -> Result<Turn> {
    if bytes.len() > limits::MAX_BODY_BYTES {
        return Err(Error::new(
            Kind::LimitExceeded,
            format!("the answer has {} bytes; at most {} are taken", bytes.len(), limits::MAX_BODY_BYTES),
        ));
    }
    let start = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes).trim_ascii_start();
    if !matches!(start.first(), Some(b'{' | b'[')) {
        let mut stream = Stream::new(format)?;
        stream.feed(bytes);
        return Ok(stream.finish());
    }
    crate::format::json::cap_nodes(start)?;
    let (values, broken) = json_values(start, (bytes.len() - start.len()) as u64);
    let whole = |value: &Value| value.is_object() && !is_event(value, format);
    if let ([value], None, Some(b'{')) = (values.as_slice(), &broken, start.first())
        && whole(value)
    {
        return Turn::read(value, format);
    }
    let mut stream = Stream::new(format)?;
    for value in &values {
        stream.event(value);
    }
    let mut turn = stream.finish();
    if let Some(fault) = broken
        && !turn.faults.iter().any(|seen| seen.fatal && seen.kind != FaultKind::Truncated)
    {
        turn.faults.retain(|seen| !seen.fatal);
        turn.fault(fault);
    }
    Ok(turn)
}

/// JSON values one after another, or the members of one array, as far as they are whole; and what broke them off.
fn json_values(text: &[u8], before: u64) -> (Vec<Value>, Option<Fault>) {
    let list = text.first() == Some(&b'[');
    let (mut values, mut at) = (Vec::new(), usize::from(list));
    loop {
        let rest = &text[at.min(text.len())..];
        at += rest.iter().take_while(|byte| byte.is_ascii_whitespace() || list && **byte == b',').count();
        let fault =
            |kind| Some(Fault::new(kind, "the answer is not complete JSON; what came before stays").at(before.saturating_add(at as u64)));
        match text.get(at) {
            None if list => return (values, fault(FaultKind::Truncated)),
            None => return (values, None),
            Some(b']') if list => {
                let trailing = text[at + 1..].iter().any(|byte| !byte.is_ascii_whitespace());
                return (values, if trailing { fault(FaultKind::Malformed) } else { None });
            }
            Some(_) => {}
        }
        let mut reader = serde_json::Deserializer::from_slice(&text[at..]).into_iter::<Value>();
        match reader.next() {
            Some(Ok(value)) => {
                values.push(value);
                at += reader.byte_offset().max(1);
            }
            Some(Err(error)) if error.is_eof() => return (values, fault(FaultKind::Truncated)),
            _ => return (values, fault(FaultKind::Malformed)),
        }
    }
}

/// Whether one object is an event of a stream and no whole response.
fn is_event(value: &Value, format: Format) -> bool {
    let kind = value.get("type").and_then(Value::as_str).unwrap_or_default();
    match format {
        Format::Chat => value.get("object").and_then(Value::as_str) == Some("chat.completion.chunk"),
        Format::Responses => kind.starts_with("response."),
        Format::Anthropic => kind != "message" && (kind.starts_with("message_") || kind.starts_with("content_block") || kind == "ping"),
        Format::Gemini | Format::Mcp => false,
        Format::Converse => value.get("output").is_none() && value.get("stopReason").is_none(),
    }
}

/// Reads and judges an answer.
///
/// # Errors
/// As [`read_answer`]; as [`Request::conversation`] for the request.
pub fn inspect(bytes: &[u8], format: Format, models: &Models, options: &InspectOptions) -> Result<Inspection> {
    inspect_turn(read_answer(bytes, format)?, models, options)
}

/// Judges a turn that was already read.
///
/// # Errors
/// As [`Request::conversation`] for the request.
pub fn inspect_turn(turn: Turn, models: &Models, options: &InspectOptions) -> Result<Inspection> {
    let mut gate = Gate::new(options.policy.clone());
    options.earlier.iter().for_each(|record| gate.remember(record));
    gate.had_turns(options.earlier_turns);
    let (mut tools, mut asked) = (false, None);
    if let Some(request) = &options.request {
        gate.add_request(request).map_err(|e| e.context("reading the request"))?;
        let conversation = request.conversation()?;
        tools = !conversation.tools.is_empty();
        asked = conversation.model.map(str::to_owned);
    }
    let judgement = gate.judge(&turn, options.choice, options.now_ms);
    let tokenizer = tokenizer_of(options.model.as_deref().or(turn.model.as_deref()).or(asked.as_deref()), models);
    let counted_output = tokenizer.map(|tokenizer| (turn.counted_output(&tokenizer, tools), tokenizer.name().to_owned()));
    Ok(Inspection { turn, judgement, counted_output })
}

impl InspectOptions {
    /// The tokenizer for the output of an answer that isn't there yet: that of the model named here or by the request.
    pub fn tokenizer(&self, models: &Models) -> Option<Tokenizer> {
        let asked = self.request.as_ref().and_then(|request| Some(request.conversation().ok()?.model?.to_owned()));
        tokenizer_of(self.model.as_deref().or(asked.as_deref()), models)
    }
}

/// Without the model's own vocabulary a modern one of the same size gives the order of magnitude; its name says which.
fn tokenizer_of(model: Option<&str>, models: &Models) -> Option<Tokenizer> {
    let profile = model.and_then(|model| models.find(model, None).ok());
    profile.and_then(|profile| Tokenizer::by_name(&profile.tokenizer).ok()).or_else(|| Tokenizer::by_name("o200k_base").ok())
}

impl Inspection {
    /// The report, in the shape of the command line's contract: the used choice on top, everything else beside it.
    pub fn to_json(&self) -> Value {
        let used = self.turn.choices.get(self.judgement.choice);
        let (counted, counted_by) = self.counted_output.as_ref().map_or((None, None), |(count, by)| (Some(*count), Some(by)));
        let mut report = json!({
            "message": used.map(|choice| choice.message.clone()),
            "finish": used.map(|choice| {
                let mut finish = choice.finish.to_json();
                if let Some(map) = finish.as_object_mut() {
                    map.insert("action".to_owned(), json!(self.judgement.action.as_str()));
                }
                finish
            }),
            "usage": self.turn.usage.as_ref().map(|usage| usage.raw.clone()),
            "counted_output": counted,
            "calls": self.judgement.calls.iter().map(super::JudgedCall::to_json).collect::<Vec<_>>(),
            "error": self.turn.error().map(Fault::to_json),
            "format": self.turn.format.as_str(),
            "id": self.turn.id,
            "model": self.turn.model,
            "ended_well": self.turn.ended_well,
            "text": used.map(|choice| &choice.text),
            "reasoning": used.map(|choice| &choice.reasoning).filter(|words| !words.is_empty()),
            "refusal": used.and_then(|choice| choice.refusal.as_ref()),
            "counted_by": counted_by,
            "billed": self.turn.usage.as_ref().map(|usage| json!({
                "input": usage.input, "output": usage.output, "reasoning": usage.reasoning,
                "cache_read": usage.cache_read, "cache_write": usage.cache_write,
            })),
            "refusals": self.judgement.refusals(self.turn.format),
            "faults": self.turn.faults.iter().map(Fault::to_json).collect::<Vec<_>>(),
            "audit": self.judgement.audit.iter().map(super::AuditRecord::to_json).collect::<Vec<_>>(),
        });
        if self.judgement.other_choices
            && let Some(map) = report.as_object_mut()
        {
            map.insert("choice".to_owned(), json!(self.judgement.choice));
            map.insert("choices".to_owned(), self.turn.choices.iter().map(super::Choice::to_json).collect());
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_of_storing_an_answer_gives_the_same_turn() {
        let events = [
            json!({"type": "message_start", "message": {"id": "m", "role": "assistant", "usage": {"input_tokens": 3, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
            json!({"type": "message_stop"}),
        ];
        let sse: String = events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())).collect();
        let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
        let list = json!(events).to_string();
        let whole = json!({"id": "m", "role": "assistant", "usage": {"input_tokens": 3, "output_tokens": 2}, "stop_reason": "end_turn",
            "content": [{"type": "text", "text": "Hello"}]})
        .to_string();
        let turns: Vec<Turn> =
            [&sse, &lines, &list, &whole].iter().map(|text| read_answer(text.as_bytes(), Format::Anthropic).unwrap()).collect();
        assert!(turns[0].ended_well && turns[0].choices[0].text == "Hello", "{:?}", turns[0]);
        assert!(turns.iter().all(|turn| turn == &turns[0]));
        let cut = read_answer(&list.as_bytes()[..list.len() - 1], Format::Anthropic).unwrap();
        assert!(!cut.ended_well && cut.error().is_some_and(|fault| fault.kind == FaultKind::Truncated));
        let cut = read_answer(&lines.as_bytes()[..lines.len() - 3], Format::Anthropic).unwrap();
        assert!(!cut.ended_well && cut.choices[0].text == "Hello");
    }

    #[test]
    fn an_error_body_is_a_fault() {
        let body = br#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
        let turn = read_answer(body, Format::Anthropic).unwrap();
        assert_eq!(turn.error().map(|fault| (fault.kind, fault.message.as_str())), Some((FaultKind::Provider, "Overloaded")));
    }
}
