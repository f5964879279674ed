//! Gemini's function arguments that are streamed field by field (`partialArgs`): values at JSON paths, put together.
//!
//! Used by [`super::gemini`]. Each piece names a path of the kind `$.a.b[0]['c d']` and a value; text may go on in later pieces. What can't be
//! right (a value given twice, an item out of order, text left open) is a fatal fault, since a wrong guess here would be a wrong call.

use super::super::fault::{Fault, FaultKind};
use super::super::peek::{list, some, text};
use crate::limits;
use serde_json::{Map, Value};

/// The arguments of one call so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Partial {
    args: Map<String, Value>,
    /// The path whose text goes on in the next piece.
    open: Option<String>,
}

/// One step of a path.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Item(usize),
}

impl Partial {
    /// Takes the pieces of one `functionCall`; gives the text that they add, for the running count.
    pub(super) fn take(&mut self, call: &Value) -> Result<String, Fault> {
        let mut added = String::new();
        for (key, value) in some(call, "args").and_then(Value::as_object).into_iter().flatten() {
            if self.args.insert(key.clone(), value.clone()).is_some() {
                return Err(twice(key));
            }
            added.push_str(&value.to_string());
        }
        for piece in list(call, "partialArgs") {
            self.piece(piece, &mut added)?;
        }
        Ok(added)
    }

    fn piece(&mut self, piece: &Value, added: &mut String) -> Result<(), Fault> {
        let path = text(piece, "jsonPath").ok_or_else(|| Fault::new(FaultKind::Malformed, "a partial argument has no `jsonPath`"))?;
        let goes_on = piece.get("willContinue").and_then(Value::as_bool) == Some(true);
        let value = if piece.get("nullValue").is_some() {
            Value::Null
        } else {
            let value = ["stringValue", "numberValue", "boolValue"].iter().find_map(|key| some(piece, key));
            // The last piece of a text may bring nothing.
            value.cloned().unwrap_or_else(|| Value::String(String::new()))
        };
        match &value {
            Value::String(words) => added.push_str(words),
            other => added.push_str(&other.to_string()),
        }
        let resumes = match self.open.take() {
            Some(open) if open == path => true,
            Some(open) => {
                return Err(Fault::new(
                    FaultKind::OutOfOrder,
                    format!("a value for `{}` while `{}` is not at its end", cut(path), cut(&open)),
                ));
            }
            None => false,
        };
        if goes_on && !value.is_string() {
            return Err(Fault::new(FaultKind::Malformed, format!("the value for `{}` is no text and yet is to go on", cut(path))));
        }
        let slot = self.slot(path)?;
        match (resumes, &mut *slot, value) {
            (false, Value::Null, value) => *slot = value,
            (true, Value::String(before), Value::String(more)) => before.push_str(&more),
            _ => return Err(twice(path)),
        }
        self.open = goes_on.then(|| path.to_owned());
        Ok(())
    }

    /// The place that a path leads to, made when it isn't there. A new place is null; a null that was given can't be told from it and may be
    /// given once more, which changes nothing.
    fn slot(&mut self, path: &str) -> Result<&mut Value, Fault> {
        let steps = steps(path)?;
        let (Some((Step::Key(first), rest)), true) = (steps.split_first(), steps.len() <= limits::MAX_JSON_DEPTH) else {
            return Err(bad(path));
        };
        let mut slot = self.args.entry(first.clone()).or_insert(Value::Null);
        for step in rest {
            match step {
                Step::Key(key) => {
                    if slot.is_null() {
                        *slot = Value::Object(Map::new());
                    }
                    let Value::Object(map) = slot else { return Err(twice(path)) };
                    slot = map.entry(key.clone()).or_insert(Value::Null);
                }
                Step::Item(at) => {
                    if slot.is_null() {
                        *slot = Value::Array(Vec::new());
                    }
                    let Value::Array(items) = slot else { return Err(twice(path)) };
                    if *at == items.len() {
                        items.push(Value::Null);
                    }
                    slot = items.get_mut(*at).ok_or_else(|| {
                        Fault::new(FaultKind::OutOfOrder, format!("item {at} of `{}` before those ahead of it", cut(path)))
                    })?;
                }
            }
        }
        Ok(slot)
    }

    /// The arguments, known to be whole.
    pub(super) fn finish(&self) -> Result<Value, Fault> {
        match &self.open {
            Some(open) => Err(Fault::new(FaultKind::OutOfOrder, format!("the call ends while `{}` is not at its end", cut(open)))),
            None => Ok(Value::Object(self.args.clone())),
        }
    }

    /// What came so far, as text: it isn't known to be whole.
    pub(super) fn so_far(&self) -> Value {
        Value::String(Value::Object(self.args.clone()).to_string())
    }
}

/// A path in steps: `$`, then `.name`, `['name']`, `["name"]` or `[0]`.
fn steps(path: &str) -> Result<Vec<Step>, Fault> {
    let mut rest = path.strip_prefix('$').ok_or_else(|| bad(path))?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            if end == 0 {
                return Err(bad(path));
            }
            steps.push(Step::Key(after[..end].to_owned()));
            rest = &after[end..];
            continue;
        }
        let inside = rest.strip_prefix('[').ok_or_else(|| bad(path))?;
        let quote = inside.chars().next().filter(|first| matches!(first, '\'' | '"'));
        if let Some(quote) = quote {
            let (key, after) = quoted(&inside[1..], quote).ok_or_else(|| bad(path))?;
            steps.push(Step::Key(key));
            rest = after.strip_prefix(']').ok_or_else(|| bad(path))?;
        } else {
            let (number, after) = inside.split_once(']').ok_or_else(|| bad(path))?;
            let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            let at = number.parse().ok().filter(|_| digits).ok_or_else(|| bad(path))?;
            steps.push(Step::Item(at));
            rest = after;
        }
    }
    Ok(steps)
}

/// The text up to the closing quote, and what follows that. A backslash keeps the character after it.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut key = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '\\' => match chars.next()?.1 {
                'n' => key.push('\n'),
                't' => key.push('\t'),
                'r' => key.push('\r'),
                // Rarer escapes aren't guessed at.
                kept if matches!(kept, '\\' | '/' | '\'' | '"') => key.push(kept),
                _ => return None,
            },
            char if char == quote => return Some((key, &text[at + char.len_utf8()..])),
            char => key.push(char),
        }
    }
    None
}

fn bad(path: &str) -> Fault {
    Fault::new(FaultKind::Malformed, format!("`{}` is no path to an argument; expected one such as `$.a.b[0]`", cut(path)))
}

fn twice(path: &str) -> Fault {
    Fault { fatal: true, ..Fault::new(FaultKind::DuplicateIndex, format!("the argument at `{}` is given twice", cut(path))) }
}

/// A path, cut to a length that an error may carry.
fn cut(path: &str) -> String {
    path.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;
    use crate::turn::{Gate, Stream, Turn, Verdict};
    use serde_json::json;

    fn chunk(calls: &Value, finish: Option<&str>) -> Value {
        let parts: Vec<Value> = calls.as_array().unwrap().iter().map(|call| json!({"functionCall": call})).collect();
        json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish}], "usageMetadata": {"promptTokenCount": 1}})
    }

    fn assemble(chunks: &[Value]) -> Turn {
        let mut stream = Stream::new(Format::Gemini).unwrap();
        for chunk in chunks {
            stream.event(chunk);
        }
        stream.finish()
    }

    fn piece(path: &str, key: &str, value: &Value, goes_on: bool) -> Value {
        json!({"jsonPath": path, (key): value, "willContinue": goes_on})
    }

    #[test]
    fn arguments_in_parts_are_put_together() {
        let chunks = [
            chunk(&json!([{"name": "write", "id": "c1", "willContinue": true}]), None),
            chunk(&json!([{"willContinue": true, "partialArgs": [piece("$.path", "stringValue", &json!("a/"), true)]}]), None),
            chunk(
                &json!([{"willContinue": true, "partialArgs": [piece("$.path", "stringValue", &json!("b"), false),
                    piece("$.lines[0].text", "stringValue", &json!("x"), false), piece("$.lines[0]['no. 1']", "numberValue", &json!(7), false)]}]),
                None,
            ),
            chunk(&json!([{"willContinue": true, "partialArgs": [piece("$.lines[1]", "boolValue", &json!(true), false)]}]), None),
            chunk(&json!([{"willContinue": true, "partialArgs": [{"jsonPath": "$.mode", "nullValue": "NULL_VALUE"}]}]), None),
            chunk(&json!([{}, {"name": "list", "args": {}}]), Some("STOP")),
        ];
        let turn = assemble(&chunks);
        assert!(turn.ended_well, "{:?}", turn.faults);
        let calls = &turn.choices[0].calls;
        let expected = json!({"path": "a/b", "lines": [{"text": "x", "no. 1": 7}, true], "mode": null});
        assert_eq!((calls.len(), calls[0].id.as_deref(), calls[0].name.as_str()), (2, Some("c1"), "write"));
        assert_eq!(serde_json::from_str::<Value>(&calls[0].arguments).unwrap(), expected);
        assert_eq!(turn.choices[0].message["parts"][0], json!({"functionCall": {"name": "write", "id": "c1", "args": expected}}));
        for end in 0..chunks.len() {
            let cut = assemble(&chunks[..end]);
            let mut gate = Gate::default();
            gate.add_tool("write", None);
            assert!(!cut.ended_well && gate.judge(&cut, 0, 0).calls.iter().all(|call| call.verdict == Verdict::Refuse), "{end}");
        }
    }

    #[test]
    fn what_cannot_be_right_is_a_fault() {
        let begun = |pieces: &Value| json!([{"name": "f", "willContinue": true, "partialArgs": pieces}]);
        let text = |path: &str| piece(path, "stringValue", &json!("x"), false);
        for (pieces, kind) in [
            (json!([text("$.a"), text("$.a")]), FaultKind::DuplicateIndex),
            (json!([text("$.a"), text("$.a.b")]), FaultKind::DuplicateIndex),
            (json!([text("$.a[1]")]), FaultKind::OutOfOrder),
            (json!([piece("$.a", "stringValue", &json!("x"), true), text("$.b")]), FaultKind::OutOfOrder),
            (json!([piece("$.a", "numberValue", &json!(1), true)]), FaultKind::Malformed),
            (
                json!([piece("$.a", "stringValue", &json!("x"), true), piece("$.a", "numberValue", &json!(1), false)]),
                FaultKind::DuplicateIndex,
            ),
            (json!([{"stringValue": "x"}]), FaultKind::Malformed),
            (json!([text("a")]), FaultKind::Malformed),
            (json!([text("$")]), FaultKind::Malformed),
            (json!([text("$..a")]), FaultKind::Malformed),
            (json!([text("$[0]")]), FaultKind::Malformed),
            (json!([text("$.a[*]")]), FaultKind::Malformed),
            (json!([text("$.a['b]")]), FaultKind::Malformed),
            (json!([text(&format!("$.a{}", "[0]".repeat(500)))]), FaultKind::Malformed),
        ] {
            let turn = assemble(&[chunk(&begun(&pieces), None), chunk(&json!([{}]), Some("STOP"))]);
            assert_eq!(turn.error().map(|fault| fault.kind), Some(kind), "{pieces}");
        }
        let open = begun(&json!([piece("$.a", "stringValue", &json!("x"), true)]));
        for rest in [json!([{}]), json!([{"name": "g", "args": {}}]), json!([{"id": "other"}])] {
            let turn = assemble(&[chunk(&open, None), chunk(&rest, Some("STOP"))]);
            assert_eq!(turn.error().map(|fault| fault.kind), Some(FaultKind::OutOfOrder), "{rest}");
        }
        let unended = assemble(&[chunk(&open, Some("STOP"))]);
        assert_eq!(unended.error().map(|fault| fault.kind), Some(FaultKind::Truncated), "a finish reason with a call still open");
        assert_eq!(unended.choices[0].calls[0].arguments, r#"{"a":"x"}"#);
    }
}
