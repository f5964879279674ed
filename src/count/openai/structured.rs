//! The text that shows the model the answer's format (structured output).
//!
//! Called by the renderer of this family. The schema is printed as compact JSON in the order sent, non-ASCII
//! escaped, without the keywords that only the constrained decoder needs (recovered from bills, November 2026).

use crate::json_text::{Style, dumps};
use serde_json::{Map, Value};

/// Keywords that are not shown, at any level; a property of that name stays.
const HIDDEN: [&str; 12] = [
    "required",
    "additionalProperties",
    "default",
    "minimum",
    "maximum",
    "maxItems",
    "minItems",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
];

/// `# Response Formats`, the name, the description, the schema.
pub(super) fn block(name: &str, description: Option<&str>, schema: &Value) -> String {
    let mut out = format!("# Response Formats\n\n## {name}\n\n");
    if let Some(text) = description.filter(|text| !text.is_empty()) {
        out.push_str("// ");
        out.push_str(text);
        out.push('\n');
    }
    out.push_str(&dumps(&shown(schema), Style { ascii: true, ..Style::COMPACT }));
    out
}

/// The schema without hidden keywords. Recursion is bounded by the parser's nesting limit.
fn shown(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            let mut out = Map::new();
            for (key, value) in map {
                if HIDDEN.contains(&key.as_str()) {
                    continue;
                }
                let value = match (key.as_str(), value) {
                    ("properties" | "$defs" | "definitions" | "patternProperties", Value::Object(named)) => {
                        Value::Object(named.iter().map(|(name, schema)| (name.clone(), shown(schema))).collect())
                    }
                    ("enum" | "const" | "examples", literal) => literal.clone(),
                    (_, other) => shown(other),
                };
                out.insert(key.clone(), value);
            }
            Value::Object(out)
        }
        Value::Array(list) => Value::Array(list.iter().map(shown).collect()),
        other => other.clone(),
    }
}
