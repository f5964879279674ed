//! Tool schemas as each provider takes them, with a list of what had to go.
//!
//! Used by the mapping. MCP servers send any JSON Schema; providers take parts of it: an object on top, for Gemini a subset of
//! OpenAPI without references. What narrows nothing is dropped silently by nobody: every change is listed with its place.

use crate::format::Format;
use crate::limits;
use serde_json::{Map, Value, json};

/// One thing that a provider's schema couldn't keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Where in the tool's schema (JSON Pointer).
    pub place: String,
    /// What was dropped or changed, and to what.
    pub what: String,
}

/// The schema for a provider, and what was lost.
pub(crate) fn acceptable(schema: Option<&Value>, format: Format) -> (Value, Vec<Dropped>) {
    let mut dropped = Vec::new();
    let root = schema.cloned().unwrap_or_else(|| json!({"type": "object", "properties": {}}));
    let mut root = object_on_top(root, &mut dropped);
    match format {
        Format::Gemini => {
            let definitions = root.clone();
            let mut walk = Gemini { root: &definitions, dropped: &mut dropped, left: limits::MAX_SCHEMA_NODES };
            root = walk.schema(&root, "", 0);
        }
        Format::Mcp => {}
        _ => {
            if let Some(map) = root.as_object_mut() {
                for key in ["$schema", "$id"] {
                    if map.remove(key).is_some() {
                        dropped.push(Dropped {
                            place: format!("/{key}"),
                            what: "an annotation that costs tokens and binds nothing".to_owned(),
                        });
                    }
                }
            }
            arrays_have_items(&mut root, "", &mut dropped, 0);
        }
    }
    (root, dropped)
}

/// Every provider wants `type: object` on top and no choice between schemas there.
fn object_on_top(root: Value, dropped: &mut Vec<Dropped>) -> Value {
    let Value::Object(mut map) = root else {
        dropped.push(Dropped { place: String::new(), what: "a schema that is no object; any object is taken instead".to_owned() });
        return json!({"type": "object", "properties": {}});
    };
    if map.get("type").and_then(Value::as_str) != Some("object") {
        if let Some(other) = map.get("type") {
            dropped.push(Dropped { place: "/type".to_owned(), what: format!("{other}, which became \"object\"") });
        }
        map.insert("type".to_owned(), json!("object"));
    }
    if !map.get("properties").is_some_and(Value::is_object) {
        map.insert("properties".to_owned(), json!({}));
    }
    for key in ["anyOf", "oneOf", "allOf", "not", "enum", "if", "then", "else"] {
        if let Some(rule) = map.remove(key) {
            let mut merged = 0;
            // The branches' properties stay visible to the model; that they exclude each other is lost.
            for branch in rule.as_array().into_iter().flatten() {
                for (name, property) in branch.get("properties").and_then(Value::as_object).into_iter().flatten() {
                    if let Some(properties) = map.get_mut("properties").and_then(Value::as_object_mut)
                        && !properties.contains_key(name)
                    {
                        properties.insert(name.clone(), property.clone());
                        merged += 1;
                    }
                }
                if key == "allOf"
                    && let Some(more) = branch.get("required").and_then(Value::as_array)
                {
                    let required = map.entry("required").or_insert_with(|| json!([]));
                    if let Some(required) = required.as_array_mut() {
                        more.iter().filter(|name| name.is_string()).for_each(|name| {
                            if !required.contains(name) {
                                required.push(name.clone());
                            }
                        });
                    }
                }
            }
            dropped.push(Dropped {
                place: format!("/{key}"),
                what: format!("a rule on the top level; {merged} of its properties were kept as optional"),
            });
        }
    }
    Value::Object(map)
}

/// OpenAI and its like refuse arrays without `items`.
fn arrays_have_items(schema: &mut Value, place: &str, dropped: &mut Vec<Dropped>, depth: usize) {
    if depth > limits::MAX_JSON_DEPTH {
        return;
    }
    match schema {
        Value::Object(map) => {
            if map.get("type").and_then(Value::as_str) == Some("array") && !map.contains_key("items") && !map.contains_key("prefixItems") {
                map.insert("items".to_owned(), json!({}));
                dropped.push(Dropped { place: place.to_owned(), what: "an array without `items`; any item is taken".to_owned() });
            }
            for (key, value) in map {
                if !matches!(key.as_str(), "enum" | "const" | "default" | "examples") {
                    arrays_have_items(value, &format!("{place}/{key}"), dropped, depth + 1);
                }
            }
        }
        Value::Array(list) => {
            list.iter_mut().enumerate().for_each(|(at, value)| arrays_have_items(value, &format!("{place}/{at}"), dropped, depth + 1));
        }
        _ => {}
    }
}

/// Keys of Gemini's Schema object that are kept as they are (ai.google.dev/api/caching#Schema, November 2026).
const KEPT: [&str; 15] = [
    "title",
    "description",
    "nullable",
    "default",
    "example",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
    "propertyOrdering",
];

struct Gemini<'a> {
    root: &'a Value,
    dropped: &'a mut Vec<Dropped>,
    /// Schemas that may still be written: references inlined many times over can grow without end.
    left: usize,
}

impl Gemini<'_> {
    fn drop(&mut self, place: &str, what: impl Into<String>) {
        self.dropped.push(Dropped { place: place.to_owned(), what: what.into() });
    }

    fn schema(&mut self, schema: &Value, place: &str, depth: usize) -> Value {
        let Some(map) = schema.as_object() else {
            if schema != &json!(true) {
                self.drop(place, "a schema that is no object; anything is taken");
            }
            return json!({"type": "string"});
        };
        if self.left == 0 || depth > limits::MAX_SCHEMA_DEPTH {
            self.drop(place, "a schema too deep or too large; any object is taken");
            return json!({"type": "object"});
        }
        self.left -= 1;
        if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
            let root = self.root;
            let Some(target) = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer)) else {
                self.drop(place, "a reference that leads nowhere here; any object is taken");
                return json!({"type": "object"});
            };
            let mut inlined = self.schema(target, place, depth + 1);
            if let (Some(words), Some(inlined)) = (map.get("description"), inlined.as_object_mut()) {
                inlined.insert("description".to_owned(), words.clone());
            }
            return inlined;
        }
        let mut out = Map::new();
        self.kind(map, place, &mut out);
        for (key, value) in map {
            let at = format!("{place}/{key}");
            match key.as_str() {
                "type" | "$defs" | "definitions" => {}
                "properties" => {
                    let properties = value.as_object().into_iter().flatten();
                    let properties: Map<String, Value> = properties
                        .map(|(name, property)| (name.clone(), self.schema(property, &format!("{at}/{name}"), depth + 1)))
                        .collect();
                    out.insert(key.clone(), Value::Object(properties));
                }
                "items" => drop(out.insert(key.clone(), self.schema(value, &at, depth + 1))),
                "required" => {
                    let known =
                        |name: &&Value| name.as_str().is_some_and(|name| map.get("properties").is_some_and(|p| p.get(name).is_some()));
                    let required: Vec<Value> = value.as_array().into_iter().flatten().filter(known).cloned().collect();
                    if !required.is_empty() {
                        out.insert(key.clone(), Value::Array(required));
                    }
                }
                "anyOf" | "oneOf" => self.choice(value, &at, depth, &mut out),
                "allOf" => {
                    self.drop(&at, "schemas that must hold together; they were merged");
                    for (n, branch) in value.as_array().into_iter().flatten().enumerate() {
                        let branch = self.schema(branch, &format!("{at}/{n}"), depth + 1);
                        merge(&mut out, branch);
                    }
                }
                "const" => {
                    out.insert("enum".to_owned(), json!([super::super::turn::text_of(value)]));
                    out.insert("type".to_owned(), json!("string"));
                }
                "enum" => {
                    let values: Vec<Value> = value
                        .as_array()
                        .into_iter()
                        .flatten()
                        .filter(|v| !v.is_null())
                        .map(|v| json!(super::super::turn::text_of(v)))
                        .collect();
                    if value.as_array().is_some_and(|list| list.iter().any(|v| !v.is_string())) {
                        self.drop(&at, "values that are no text; they became text");
                    }
                    out.insert("type".to_owned(), json!("string"));
                    out.insert("enum".to_owned(), Value::Array(values));
                }
                "format" if matches!(value.as_str(), Some("date-time" | "enum" | "float" | "double" | "int32" | "int64")) => {
                    out.insert(key.clone(), value.clone());
                }
                kept if KEPT.contains(&kept) => drop(out.insert(key.clone(), value.clone())),
                _ => self.drop(&at, format!("`{key}`, which Gemini doesn't take")),
            }
        }
        if out.get("type").and_then(Value::as_str) == Some("array") && !out.contains_key("items") {
            self.drop(place, "an array without `items`; text items are taken");
            out.insert("items".to_owned(), json!({"type": "string"}));
        }
        Value::Object(out)
    }

    /// `type`, with null in a list of types as `nullable` and further ones as a choice.
    fn kind(&mut self, map: &Map<String, Value>, place: &str, out: &mut Map<String, Value>) {
        match map.get("type") {
            Some(Value::Array(kinds)) => {
                let real: Vec<&str> = kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null").collect();
                if real.len() < kinds.len() {
                    out.insert("nullable".to_owned(), json!(true));
                }
                match real.as_slice() {
                    [only] => drop(out.insert("type".to_owned(), json!(only))),
                    [] => drop(out.insert("type".to_owned(), json!("string"))),
                    many => drop(out.insert("anyOf".to_owned(), many.iter().map(|kind| json!({"type": kind})).collect())),
                }
            }
            Some(Value::String(kind)) => drop(out.insert("type".to_owned(), json!(kind))),
            _ if map.contains_key("properties") => drop(out.insert("type".to_owned(), json!("object"))),
            _ if map.contains_key("items") => drop(out.insert("type".to_owned(), json!("array"))),
            _ if ["anyOf", "oneOf", "allOf", "enum", "const"].iter().any(|key| map.contains_key(*key)) => {}
            _ => {
                self.drop(place, "a schema without a type; text is taken");
                out.insert("type".to_owned(), json!("string"));
            }
        }
    }

    fn choice(&mut self, value: &Value, at: &str, depth: usize, out: &mut Map<String, Value>) {
        let branches: Vec<&Value> = value.as_array().into_iter().flatten().collect();
        let real: Vec<&Value> = branches.iter().copied().filter(|branch| branch.get("type") != Some(&json!("null"))).collect();
        if real.len() < branches.len() {
            out.insert("nullable".to_owned(), json!(true));
        }
        let mut written: Vec<Value> =
            real.iter().enumerate().map(|(n, branch)| self.schema(branch, &format!("{at}/{n}"), depth + 1)).collect();
        if written.len() == 1 {
            merge(out, written.remove(0));
        } else {
            out.insert("anyOf".to_owned(), Value::Array(written));
        }
    }
}

/// Adds what isn't there; properties and required names are joined.
fn merge(into: &mut Map<String, Value>, from: Value) {
    let Value::Object(from) = from else { return };
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(ours)), Value::Object(theirs)) => ours.extend(theirs),
            (Some(Value::Array(ours)), Value::Array(theirs)) if key == "required" => {
                for name in theirs {
                    if !ours.contains(&name) {
                        ours.push(name);
                    }
                }
            }
            (Some(_), _) => {}
            (None, value) => drop(into.insert(key, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gemini_gets_its_subset_and_a_list_of_losses() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": false,
            "$defs": {"Point": {"type": "object", "properties": {"x": {"type": ["number", "null"]}}, "required": ["x", "gone"]}},
            "properties": {
                "at": {"$ref": "#/$defs/Point", "description": "where"},
                "mode": {"const": 3},
                "when": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
                "many": {"type": "array"},
                "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]}
            }
        });
        let (out, dropped) = acceptable(Some(&schema), Format::Gemini);
        assert_eq!(
            out,
            json!({"type": "object", "properties": {
            "at": {"type": "object", "properties": {"x": {"nullable": true, "type": "number"}}, "required": ["x"], "description": "where"},
            "mode": {"enum": ["3"], "type": "string"},
            "when": {"nullable": true, "type": "string"},
            "many": {"type": "array", "items": {"type": "string"}},
            "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}})
        );
        let places: Vec<&str> = dropped.iter().map(|d| d.place.as_str()).collect();
        assert_eq!(places, ["/$schema", "/additionalProperties", "/properties/when/anyOf/0/format", "/properties/many"]);
    }

    #[test]
    fn recursion_ends() {
        let schema = json!({"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}});
        let (out, dropped) = acceptable(Some(&schema), Format::Gemini);
        assert!(out.to_string().len() < 1 << 20 && !dropped.is_empty());
    }

    #[test]
    fn others_get_an_object_on_top() {
        for format in [Format::Chat, Format::Anthropic, Format::Responses, Format::Converse] {
            let (out, dropped) = acceptable(Some(&json!({"oneOf": [{"properties": {"a": {"type": "array"}}}]})), format);
            assert_eq!(out, json!({"type": "object", "properties": {"a": {"type": "array", "items": {}}}}));
            assert_eq!(dropped.len(), 2);
            assert_eq!(acceptable(None, format), (json!({"type": "object", "properties": {}}), Vec::new()));
        }
    }
}
