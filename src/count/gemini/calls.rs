//! Calls in the history and their results, in each mode.
//!
//! Strings: name, keys and scalars one by one. Prompt, 2.5: a Python call and a JSON object. Prompt, 3.x: Gemini's own
//! notation between two marker tokens.

use super::family::{Generation, Mode};
use super::text::{Measure, Weight};
use super::values;
use crate::format::{Arguments, ItemBody, Message, ToolCall, ToolContentBody, ToolResult};
use crate::json_text::{Style, dumps};
use crate::models::Provider;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::HashMap;

/// Marker tokens around a declaration, call or response of 3.x.
pub(super) const MARKERS: u64 = 2;

/// What a call weighs.
pub(super) fn call(call: &ToolCall<'_>, generation: Generation, mode: Mode, measure: &Measure<'_>) -> Weight {
    let arguments = match call.arguments {
        Arguments::Json(value) => Cow::Borrowed(value),
        // A gateway parses the text into arguments; what is no JSON object stays text.
        Arguments::Text(text) => Cow::Owned(serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))),
        Arguments::None => Cow::Owned(Value::Object(Map::new())),
    };
    measure.value(&["call", mode.label(), call.name], &arguments, || match mode {
        Mode::Strings => measure.text(call.name) + values::strings(&arguments, measure),
        Mode::Prompt if generation == Generation::TwoFive => measure.text(&python_call(call.name, &arguments)),
        Mode::Prompt => {
            let mut text = format!("call:{}", call.name);
            values::gemma(&arguments, &mut text);
            measure.marked(&text) + Weight::exact(MARKERS)
        }
    })
}

/// `print(default_api.NAME(key = value, …))`.
fn python_call(name: &str, arguments: &Value) -> String {
    let mut text = format!("print(default_api.{name}(");
    for (i, (key, value)) in arguments.as_object().into_iter().flatten().enumerate() {
        if i > 0 {
            text.push_str(", ");
        }
        text.push_str(key);
        text.push_str(" = ");
        values::python(value, &mut text);
    }
    text.push_str("))");
    text
}

/// What a result weighs, without its attachments.
pub(super) fn result(
    result: &ToolResult<'_>,
    name: &str,
    provider: Option<&Provider>,
    (generation, mode): (Generation, Mode),
    measure: &Measure<'_>,
) -> Weight {
    let response = response(result, name, provider);
    // How a gateway wraps a text on its way to AI Studio is not settled: six tokens apart at most.
    let wrapped = mode == Mode::Prompt && matches!(response, Cow::Owned(_)) && !result.content.is_empty();
    let slack = if wrapped { Weight::calibrated(0, 6) } else { Weight::exact(0) };
    slack
        + measure.value(&["result", mode.label(), name], &response, || match mode {
            Mode::Strings => measure.text(name) + values::strings(&response, measure),
            Mode::Prompt if generation == Generation::TwoFive => {
                let mut text = String::from("{");
                text.push_str(&Value::from(format!("{name}_response")).to_string());
                text.push_str(": ");
                text.push_str(&dumps(&response, Style { sorted: true, ..Style::PYTHON }));
                text.push('}');
                measure.text(&text)
            }
            Mode::Prompt => {
                let mut text = format!("response:{name}");
                values::gemma(&response, &mut text);
                measure.marked(&text) + Weight::exact(MARKERS)
            }
        })
}

/// The `response` object: as sent in Gemini's format; for a gateway's chat result the object that
/// its text is wrapped in, by AI Studio's own chat endpoint or (as most gateways do) by Vercel's.
fn response<'a>(result: &ToolResult<'a>, name: &str, provider: Option<&Provider>) -> Cow<'a, Value> {
    let mut text = String::new();
    for content in &result.content {
        match &content.body {
            ToolContentBody::Json(value) => return Cow::Borrowed(value),
            ToolContentBody::Text(piece) => text.push_str(piece),
            _ => {}
        }
    }
    if result.content.is_empty() && result.call_id.is_none() {
        return Cow::Owned(Value::Object(Map::new()));
    }
    let mut object = Map::new();
    if provider == Some(&Provider::AiStudio) {
        object.insert("result".to_owned(), Value::from(text));
    } else {
        object.insert("name".to_owned(), Value::from(name));
        object.insert("content".to_owned(), Value::from(text));
    }
    Cow::Owned(Value::Object(object))
}

/// The tools' names by the ids of their calls, for results that carry only an id. Of an id given twice the first call counts.
pub(super) fn names<'a>(messages: &'a [Message<'a>]) -> HashMap<&'a str, &'a str> {
    let mut names = HashMap::new();
    for item in messages.iter().flat_map(|message| &message.items) {
        if let ItemBody::ToolCall(call) = &item.body
            && let Some(id) = call.id
        {
            names.entry(id).or_insert(call.name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_python_call_keeps_json_inside() {
        let arguments = json!({"city": "Oslo", "n": 2, "deep": {"ok": true}, "flag": false, "none": null, "say": "it's"});
        assert_eq!(
            python_call("f", &arguments),
            r#"print(default_api.f(city = 'Oslo', n = 2, deep = {"ok": true}, flag = False, none = None, say = "it's"))"#
        );
    }

    #[test]
    fn gemini_3_sorts_keys_and_marks_strings() {
        let mut out = String::new();
        values::gemma(&json!({"b": [1, "x"], "a": {"z": null}}), &mut out);
        assert_eq!(out.replace(values::QUOTE, "'"), "{a:{z:null},b:[1,'x']}");
    }
}
