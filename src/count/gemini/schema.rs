//! Reads of JSON Schema that the declaration renderings share, and the schema's strings as Vertex counts them.
//!
//! Untrusted input: `$ref` is followed within the document only, and every walk is bounded by its caller's depth.

use super::text::{Measure, Weight};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// How often a schema is unrolled into nested classes or properties; the one recorded recursive tool fits five.
pub(super) const DEPTH: usize = 5;

/// A `$ref` may lead to another one this many times.
const REF_HOPS: usize = 16;

/// The schema behind `$ref`s, with the fields beside the reference laid over it.
pub(super) fn resolve<'a>(schema: &'a Value, root: &'a Value) -> Cow<'a, Map<String, Value>> {
    let Some(map) = schema.as_object() else { return Cow::Owned(Map::new()) };
    let mut found = Cow::Borrowed(map);
    for _ in 0..REF_HOPS {
        let Some(reference) = found.get("$ref").and_then(Value::as_str) else { break };
        let name = reference.rsplit('/').next().unwrap_or(reference);
        let target = ["$defs", "defs", "definitions"].iter().find_map(|key| root.get(*key)?.get(name)?.as_object());
        let mut merged = target.cloned().unwrap_or_default();
        merged.extend(found.iter().filter(|(key, _)| *key != "$ref").map(|(key, value)| (key.clone(), value.clone())));
        found = Cow::Owned(merged);
    }
    found
}

/// `anyOf` in either spelling.
pub(super) fn any_of(schema: &Map<String, Value>) -> Option<&Vec<Value>> {
    schema.get("anyOf").or_else(|| schema.get("any_of")).and_then(Value::as_array)
}

/// Whether a schema is `{"type": "null"}`.
pub(super) fn is_null(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str).is_some_and(|t| t.eq_ignore_ascii_case("null"))
}

/// The names in `required`.
pub(super) fn required(schema: &Map<String, Value>) -> Vec<&str> {
    schema.get("required").and_then(Value::as_array).map(|names| names.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

/// `properties`, if it is an object.
pub(super) fn properties(schema: &Map<String, Value>) -> Option<&Map<String, Value>> {
    schema.get("properties").and_then(Value::as_object)
}

/// A schema's strings as the string-counting hosts add them up. A type counts one token when spelled in capitals (the
/// API's enum) and nothing otherwise, unless a gateway spells it for the caller (`capitals` false); titles, bounds and
/// unknown keywords count nothing.
pub(super) fn strings(schema: &Value, capitals: bool, measure: &Measure<'_>) -> Weight {
    walk(schema, capitals, measure, crate::limits::MAX_JSON_DEPTH)
}

fn walk(schema: &Value, capitals: bool, measure: &Measure<'_>, depth: usize) -> Weight {
    let (Some(map), Some(depth)) = (schema.as_object(), depth.checked_sub(1)) else { return Weight::exact(0) };
    let list = |value: &Value| -> Weight {
        let text = |v: &Value| v.as_str().map_or_else(|| Weight::exact(1), |text| measure.text(text));
        value.as_array().map(|all| all.iter().map(text).sum()).unwrap_or_default()
    };
    map.iter()
        .map(|(key, value)| match (key.as_str(), value) {
            ("type", Value::String(name)) => Weight::exact(u64::from(!capitals || name.chars().all(|c| c.is_ascii_uppercase()))),
            ("format" | "description" | "default", Value::String(text)) => measure.text(text),
            ("enum" | "required" | "propertyOrdering" | "property_ordering", value) => list(value),
            ("nullable", _) => Weight::exact(1),
            ("properties", Value::Object(all)) => {
                all.iter().map(|(name, schema)| measure.text(name) + walk(schema, capitals, measure, depth)).sum()
            }
            ("items", value) => walk(value, capitals, measure, depth),
            ("anyOf" | "any_of", Value::Array(all)) => all.iter().map(|schema| walk(schema, capitals, measure, depth)).sum(),
            _ => Weight::exact(0),
        })
        .sum()
}
