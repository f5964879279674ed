//! Schemas to TypeScript: one small schema a mechanism, against the text worked out by hand.

use super::*;

fn shown(parameters: &str) -> String {
    let value: Value = serde_json::from_str(parameters).unwrap();
    let text = function("f", None, Some(&value)).unwrap();
    text.strip_prefix("type f = (_: ").and_then(|t| t.strip_suffix(") => any;\n\n")).map_or(text.clone(), str::to_owned)
}

fn property(schema: &str) -> String {
    shown(&format!(r#"{{"type":"object","properties":{{"a":{schema}}},"required":["a"]}}"#))
}

#[test]
fn one_line_unless_something_needs_more() {
    assert_eq!(shown(r#"{"type":"object","properties":{}}"#), "type f = () => any;\n\n");
    assert_eq!(
        shown(r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"array","items":{"type":"integer"}}},"required":["a"]}"#),
        "{ a: string, b?: number[] }"
    );
    assert_eq!(property(r#"{"type":"string","title":"A","description":"one\ntwo"}"#), "{\n// A\n//\n// one\n// two\na: string,\n}");
    assert_eq!(property(r#"{"enum":["x",1,null]}"#), "{ a: \"x\" | 1 | null }");
    assert_eq!(property(r#"{"type":"object"}"#), "{ a: object }");
    assert_eq!(property(r#"{"type":"array"}"#), "{ a: any[] }");
}

#[test]
fn notes_stand_behind() {
    assert_eq!(property(r#"{"type":"string","format":"date"}"#), "{\na: string, // format: \"date\"\n}");
    assert_eq!(
        property(r#"{"type":"integer","minimum":1,"maximum":9,"default":3}"#),
        "{\na: number, // minimum: 1, maximum: 9, default: 3\n}"
    );
    assert_eq!(property(r#"{"type":"number","minimum":0}"#), "{\na: number, // minimum: 0.0\n}");
}

#[test]
fn unions_break_lines_when_a_variant_has_more_to_say() {
    assert_eq!(property(r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#), "{ a: string | null }");
    assert_eq!(
        property(r#"{"anyOf":[{"type":"string","format":"date"},{"type":"null"}],"default":null}"#),
        "{\n// default: null\na:\n | string // format: \"date\"\n | null\n,\n}"
    );
    // A list of types becomes variants that each keep the description.
    assert_eq!(property(r#"{"type":["string","null"],"description":"D"}"#), "{\n// D\na:\n// D\n | string\n// D\n | null\n,\n}");
}

#[test]
fn arrays_of_commented_items() {
    let items = r#"{"type":"object","properties":{"b":{"type":"string","description":"D"}}}"#;
    assert_eq!(property(&format!(r#"{{"type":"array","items":{items}}}"#)), "{\na: Array<\n{\n// D\nb?: string,\n}\n>,\n}");
}

#[test]
fn references_are_inlined_and_recursion_ends() {
    assert_eq!(
        shown(r##"{"type":"object","$defs":{"E":{"title":"E","type":"string"}},"properties":{"a":{"$ref":"#/$defs/E"}}}"##),
        "{\n// E\na?: string,\n}"
    );
    // A reference that comes back to itself is named where it does.
    assert_eq!(shown(r##"{"type":"object","properties":{"next":{"$ref":"#"}}}"##), "{\nnext?: any, // $ref: \"#\"\n}");
    // Definitions that each use the next one twice double at each level: the cap on text ends it.
    let mut definitions = Vec::new();
    for level in 0..31 {
        let next = format!(r##"{{"$ref":"#/$defs/d{}"}}"##, level + 1);
        definitions.push(format!(r#""d{level}":{{"type":"object","properties":{{"a":{next},"b":{next}}}}}"#));
    }
    let wide =
        format!(r##"{{"type":"object","properties":{{"a":{{"$ref":"#/$defs/d0"}}}},"$defs":{{{},"d31":{{}}}}}}"##, definitions.join(","));
    let wide: Value = serde_json::from_str(&wide).unwrap();
    let outcome = function("f", None, Some(&wide));
    assert!(outcome.is_ok_and(|text| text.len() < limits::MAX_RENDERED_SCHEMA_BYTES));
}
