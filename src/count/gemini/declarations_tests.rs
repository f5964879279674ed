//! Hand-worked renderings of declarations.

use super::*;
use crate::format::ToolKind;
use serde_json::json;

fn tool(raw: &Value) -> Tool<'_> {
    Tool {
        place: "/tools/0".to_owned(),
        raw,
        kind: ToolKind::Function,
        name: raw["name"].as_str().unwrap(),
        description: raw.get("description").and_then(Value::as_str),
        parameters: raw.get("parameters"),
        legacy: false,
        deferred: false,
    }
}

#[test]
fn a_stub_without_parameters_keeps_its_lines() {
    let raw = json!({"name": "roll", "description": "Roll a die."});
    assert_eq!(stub(&tool(&raw)).unwrap(), "def roll(\n) -> dict:\n  \"\"\"Roll a die.\n\n  Args:\n  \"\"\"\n");
}

#[test]
fn a_stub_with_defaults_choices_and_a_nested_object() {
    let raw = json!({"name": "book_trip", "description": "Books.\n\nTwice.", "parameters": {"type": "object", "required": ["to"], "properties": {
        "to": {"type": "string", "description": "Where"},
        "days": {"type": "integer", "default": 3},
        "class": {"type": "STRING", "enum": ["first", "second"], "nullable": true},
        "who": {"type": "array", "items": {"$ref": "#/$defs/Person"}},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]}
    }, "$defs": {"Person": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}}});
    let expected = "@dataclasses.dataclass(kw_only=True)\nclass BookTripWho:\n  \"\"\"\n\n  Attributes:\n    name: \n  \"\"\"\n  name: str\n\n\
        def book_trip(\n    to: str,\n    days: int | None = 3,\n    class: Literal['first', 'second'] | None = None,\n    \
        who: list[BookTripWho] | None = None,\n    note: str | None | None = None,\n) -> dict:\n  \"\"\"Books.\n\n  Twice.\n\n  \
        Args:\n    to: Where\n    days: \n    class: \n    who: \n    note: \n  \"\"\"\n";
    assert_eq!(stub(&tool(&raw)).unwrap(), expected);
}

#[test]
fn the_notation_orders_and_drops_fields() {
    let raw = json!({"name": "f", "description": "", "parameters": {"type": "object", "title": "T", "required": ["k"], "properties": {
        "k": {"enum": ["a"], "type": "string", "description": "D"},
        "l": {"type": "array", "items": {"type": "integer"}},
        "m": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": null}
    }}});
    assert_eq!(
        notation(&tool(&raw)).unwrap().replace(values::QUOTE, "'"),
        "declaration:f{parameters:{properties:{k:{description:'D',enum:['a'],type:'STRING'},l:{items:{type:'INTEGER'},type:'ARRAY'},\
         m:{nullable:true,type:'NUMBER'}},required:['k'],type:'OBJECT'}}"
    );
}

#[test]
fn schemas_that_refer_to_themselves_end() {
    let raw = json!({"name": "f", "parameters": {"$defs": {
        "A": {"type": "array", "items": {"$ref": "#/$defs/A"}},
        "B": {"anyOf": [{"$ref": "#/$defs/B"}, {"$ref": "#/$defs/B"}]},
        "C": {"$ref": "#/$defs/C"},
        "D": {"type": "object", "properties": {"d": {"$ref": "#/$defs/D"}, "e": {"$ref": "#/$defs/D"}}}
    }, "type": "object", "properties": {"a": {"$ref": "#/$defs/A"}, "c": {"$ref": "#/$defs/C"}, "d": {"$ref": "#/$defs/D"}}}});
    let tool = tool(&raw);
    assert!(stub(&tool).unwrap().len() < 100_000);
    assert!(notation(&tool).unwrap().len() < 100_000);
    let raw = json!({"name": "f", "parameters": {"$defs": {"B": {"anyOf": [{"$ref": "#/$defs/B"}, {"$ref": "#/$defs/B"}]}},
        "type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}}});
    let tool = self::tool(&raw);
    assert_eq!(stub(&tool).unwrap_err().kind(), Kind::LimitExceeded);
    assert!(notation(&tool).is_ok());
}
