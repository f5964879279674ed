//! The order of properties in logs whose recorder sorted all JSON keys.
//!
//! OpenAI bills properties in the order sent. A recorder that sorts keys loses it; `required` still has it, for the properties
//! that it names. Called by the log reader alone: a live request is counted in the order it has.

use serde_json::{Map, Value};

/// Puts properties into the order of `required`, where every object below `tools` has its keys sorted.
pub(super) fn restore(body: &mut Value) {
    if let Some(tools) = body.get_mut("tools")
        && sorted(tools)
    {
        reorder(tools);
    }
}

fn sorted(value: &Value) -> bool {
    match value {
        Value::Array(list) => list.iter().all(sorted),
        Value::Object(map) => map.keys().is_sorted() && map.values().all(sorted),
        _ => true,
    }
}

fn reorder(schema: &mut Value) {
    match schema {
        Value::Array(list) => list.iter_mut().for_each(reorder),
        Value::Object(map) => {
            let required: Vec<String> =
                map.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned)).collect();
            if let Some(Value::Object(properties)) = map.get_mut("properties") {
                let mut ordered = Map::new();
                for name in &required {
                    if let Some((name, value)) = properties.shift_remove_entry(name) {
                        ordered.insert(name, value);
                    }
                }
                ordered.append(properties);
                *properties = ordered;
            }
            map.values_mut().for_each(reorder);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names(body: &Value) -> Vec<&String> {
        body["tools"][0]["properties"].as_object().unwrap().keys().collect()
    }

    #[test]
    fn only_sorted_bodies_are_put_in_order() {
        let mut body = json!({"tools": [{"properties": {"a": {}, "b": {}, "c": {}}, "required": ["c", "a"]}]});
        restore(&mut body);
        assert_eq!(names(&body), ["c", "a", "b"]);
        let mut sent = json!({"tools": [{"required": ["c", "a"], "properties": {"a": {}, "b": {}, "c": {}}}]});
        restore(&mut sent);
        assert_eq!(names(&sent), ["a", "b", "c"]);
    }
}
