//! The turn: one answer of a model, read into parts that a host can act on.
//!
//! Made by the readers of whole responses, which streams use too once assembled, so that both ways give the
//! same turn. Holds no verdicts: whether a call may be run is the gate's to say (invariant 11).

use super::fault::{Fault, FaultKind};
use super::finish::{Action, Finish};
use crate::format::Format;
use crate::tokenizer::Tokenizer;
use crate::usage::Usage;
use serde_json::{Value, json};

/// One answer of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// The wire format that it came in.
    pub format: Format,
    /// The provider's id of the response.
    pub id: Option<String>,
    /// The model that answered, as the provider names it.
    pub model: Option<String>,
    /// The choices (`choices`, `candidates`), each judged apart; one for formats that know no choices.
    pub choices: Vec<Choice>,
    /// What was billed, if it was reported.
    pub usage: Option<Usage>,
    /// What was wrong, in the order found.
    pub faults: Vec<Fault>,
    /// Whether the answer is whole: it ended as its format announces an end, without a fatal fault.
    pub ended_well: bool,
}

/// One of the alternative answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Its index, as the provider numbers it.
    pub index: u64,
    /// The assistant message in the wire format, ready to stand in a history; for Responses an object whose
    /// `output` holds the items. Arguments that aren't valid JSON stay as the text that came.
    pub message: Value,
    /// All visible text, joined.
    pub text: String,
    /// All readable reasoning, joined.
    pub reasoning: String,
    /// The model's refusal, where the format has a field for it.
    pub refusal: Option<String>,
    /// Calls that the host has to answer, in order. Calls to tools that the provider runs aren't among them.
    pub calls: Vec<Call>,
    /// Why it stopped.
    pub finish: Finish,
}

/// A call that the model asks the host to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The id that the result must carry; some formats and servers give none.
    pub id: Option<String>,
    /// The tool's name.
    pub name: String,
    /// The arguments as text; JSON for functions, free text for custom tools.
    pub arguments: String,
    /// What sort of call.
    pub kind: CallKind,
}

/// What sort of call it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallKind {
    /// A function with JSON arguments.
    Function,
    /// Chat's legacy `function_call`: no id, answered with the role `function`.
    Legacy,
    /// A custom tool with free text.
    Custom,
}

impl Turn {
    /// A turn without content.
    pub(crate) fn empty(format: Format) -> Self {
        Self { format, id: None, model: None, choices: Vec::new(), usage: None, faults: Vec::new(), ended_well: false }
    }

    /// The first fatal fault, if the answer can't be trusted to be whole.
    pub fn error(&self) -> Option<&Fault> {
        self.faults.iter().find(|fault| fault.fatal)
    }

    /// Adds a fault; a fatal one ends the turn badly.
    pub(crate) fn fault(&mut self, fault: Fault) {
        self.ended_well &= !fault.fatal;
        self.faults.push(fault);
    }

    /// Flags what a whole answer should have had and lacks.
    pub(crate) fn flag_gaps(&mut self) {
        if self.error().is_none() && self.usage.is_none() {
            self.faults.push(Fault::new(FaultKind::UsageMissing, "the answer reports no usage"));
        }
        for choice in &self.choices {
            if self.ended_well && choice.finish.raw.as_deref().unwrap_or_default().is_empty() {
                self.faults
                    .push(Fault::new(FaultKind::FinishMissing, format!("choice {} gives no finish reason; it is inferred", choice.index)));
            }
        }
    }

    /// What a host should do next with the choice it uses; `TellUser` when there is none.
    pub fn action(&self, choice: usize) -> Action {
        match (self.error(), self.choices.get(choice)) {
            (Some(fault), _) if fault.kind == FaultKind::Provider => Action::TellUser,
            (Some(_), _) => Action::Retry,
            (None, Some(choice)) => choice.finish.action,
            (None, None) => Action::TellUser,
        }
    }

    /// Output tokens of all that is readable, counted with `tokenizer`. For OpenAI's models it equals the bill for
    /// text without hidden reasoning, framing included; for others it is an estimate. `tools`: the request defined some.
    pub fn counted_output(&self, tokenizer: &Tokenizer, tools: bool) -> u64 {
        let tokens = |text: &str| tokenizer.count(text) as u64;
        let mut total = 0_u64;
        for choice in &self.choices {
            total = total.saturating_add(tokens(&choice.text)).saturating_add(tokens(&choice.reasoning));
            for call in &choice.calls {
                total = total.saturating_add(tokens(&call.name)).saturating_add(tokens(&call.arguments));
            }
            total = total.saturating_add(framing(self.format, self.model.as_deref().unwrap_or_default(), tools, choice.calls.len() as u64));
        }
        total
    }

    /// The turn as JSON, in the shape of the command line's contract, without verdicts.
    pub fn to_json(&self) -> Value {
        let choices: Vec<Value> = self.choices.iter().map(Choice::to_json).collect();
        json!({
            "format": self.format.as_str(),
            "id": self.id,
            "model": self.model,
            "ended_well": self.ended_well,
            "choices": choices,
            "usage": self.usage.as_ref().map(|usage| usage.raw.clone()),
            "faults": self.faults.iter().map(Fault::to_json).collect::<Vec<_>>(),
        })
    }
}

impl Choice {
    /// What to append to the history: the message, or for Responses each output item. A call whose arguments never became a
    /// JSON object is sent back with empty ones, since providers refuse a history that holds less; its refusal tells the model why.
    pub fn history(&self, format: Format) -> Vec<Value> {
        let mut sent = match (format, self.message.get("output").and_then(Value::as_array)) {
            (Format::Responses, Some(items)) => items.clone(),
            _ => vec![self.message.clone()],
        };
        for value in &mut sent {
            mend(value, format);
        }
        sent
    }

    /// The choice as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "index": self.index,
            "message": self.message,
            "text": self.text,
            "reasoning": self.reasoning,
            "refusal": self.refusal,
            "calls": self.calls.iter().map(Call::to_json).collect::<Vec<_>>(),
            "finish": self.finish.to_json(),
        })
    }
}

/// Puts empty arguments in place of those that are no JSON object.
fn mend(message: &mut Value, format: Format) {
    let text = |slot: Option<&mut Value>| {
        if let Some(slot) = slot
            && !slot.as_str().is_some_and(|text| serde_json::from_str::<Value>(text).is_ok_and(|value| value.is_object()))
        {
            *slot = json!("{}");
        }
    };
    let object = |slot: Option<&mut Value>| {
        if let Some(slot) = slot.filter(|slot| !slot.is_object()) {
            *slot = json!({});
        }
    };
    let list = |message: &mut Value, key: &str, each: &dyn Fn(&mut Value)| {
        message.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten().for_each(each);
    };
    match format {
        Format::Chat => list(message, "tool_calls", &|call| text(call.pointer_mut("/function/arguments"))),
        Format::Responses if message.get("type").and_then(Value::as_str) == Some("function_call") => text(message.get_mut("arguments")),
        Format::Anthropic => list(message, "content", &|block| {
            if block.get("type").and_then(Value::as_str) == Some("tool_use") {
                object(block.get_mut("input"));
            }
        }),
        Format::Gemini => list(message, "parts", &|part| object(part.pointer_mut("/functionCall/args"))),
        Format::Converse => list(message, "content", &|block| object(block.pointer_mut("/toolUse/input"))),
        Format::Responses | Format::Mcp => {}
    }
}

impl Call {
    /// The call as JSON: `id`, `name`, `arguments`.
    pub fn to_json(&self) -> Value {
        json!({"id": self.id, "name": self.name, "arguments": self.arguments})
    }
}

impl Finish {
    /// The finish as JSON: `reason`, `raw`, `known`, `action`.
    pub fn to_json(&self) -> Value {
        json!({"reason": self.reason.as_str(), "raw": self.raw, "known": self.known, "action": self.action.as_str()})
    }
}

/// Tokens that OpenAI bills around a choice's text. Recovered from recorded usage of gpt-3.5…4.1 and gpt-5.x
/// (November 2026): a request with tools costs one more, Responses one more than chat, reasoning families three more.
fn framing(format: Format, model: &str, tools: bool, calls: u64) -> u64 {
    let model = model.rsplit('/').next().unwrap_or(model);
    let reasoning = model.strip_prefix("gpt-").and_then(|rest| rest.split(['.', '-', 'o']).next()).and_then(|n| n.parse::<u32>().ok());
    let reasoning = reasoning.is_some_and(|generation| generation >= 5) || model.starts_with("o1") || model.starts_with("o3");
    let reasoning = reasoning || model.starts_with("o4");
    let openai = reasoning || model.starts_with("gpt-");
    let base = match format {
        Format::Chat if openai => 0,
        Format::Responses if openai => 1,
        _ => return 0,
    };
    base + if reasoning { 3 } else { u64::from(tools || calls > 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_holds_no_broken_arguments() {
        let body = json!({"role": "assistant", "stop_reason": "max_tokens", "usage": {}, "content": [
            {"type": "tool_use", "id": "a", "name": "x", "input": "{\"cut"}, {"type": "tool_use", "id": "b", "name": "x", "input": {"k": 1}}]});
        let turn = Turn::read(&body, Format::Anthropic).unwrap();
        assert_eq!(turn.choices[0].calls[0].arguments, "{\"cut");
        let sent = turn.choices[0].history(Format::Anthropic);
        assert_eq!((&sent[0]["content"][0]["input"], &sent[0]["content"][1]["input"]), (&json!({}), &json!({"k": 1})));
        let call = |arguments: &str| json!({"id": "a", "type": "function", "function": {"name": "x", "arguments": arguments}});
        let body = json!({"choices": [{"finish_reason": "length", "message": {"role": "assistant", "tool_calls": [call("{\"cut"), call("{\"k\": 1}")]}}]});
        let sent = Turn::read(&body, Format::Chat).unwrap().choices[0].history(Format::Chat);
        let arguments = |n: usize| sent[0]["tool_calls"][n]["function"]["arguments"].clone();
        assert_eq!((arguments(0), arguments(1)), (json!("{}"), json!("{\"k\": 1}")));
    }
}
