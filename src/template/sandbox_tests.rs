//! The sandbox: what templates need works as in Python, and hostile ones end with a typed error.

use super::*;
use serde_json::json;

const DATE: (u16, u8, u8) = (2026, 11, 30);

fn render(source: &str, context: &serde_json::Value) -> Result<String> {
    ChatTemplate::compile(source, DATE)?.render(context)
}

#[test]
fn renders_what_templates_use() {
    let cases = [
        ("{{ x | tojson }}", json!({"x": {"a": [1, "ü<"]}}), "{\"a\": [1, \"ü<\"]}"),
        ("{{ x | tojson(indent=2) }}", json!({"x": [1]}), "[\n  1\n]"),
        ("{{ strftime_now('%d %b %Y, %A') }}", json!({}), "30 Nov 2026, Monday"),
        ("{{ x.strip() }}|{{ x.split('b')[0] }}|{{ x.startswith(' a') }}", json!({"x": " abc "}), "abc| a|True"),
        ("{% for k, v in x.items() %}{{ k }}={{ v }};{% endfor %}", json!({"x": {"b": 1, "a": null}}), "b=1;a=None;"),
        ("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", json!({}), "01"),
        ("a\n{%- generation %} b {%- endgeneration %}\n c", json!({}), "a b c"),
        ("{{ x }}", json!({"x": {"a": ["b'c", true]}}), "{'a': [\"b'c\", True]}"),
    ];
    for (source, context, expected) in cases {
        assert_eq!(render(source, &context).unwrap_or_else(|e| panic!("{source}: {e}")), expected, "{source}");
    }
}

#[test]
fn hostile_templates_end_with_a_typed_error() {
    let cases = [
        ("{% for a in range(100000) %}{% for b in range(100000) %}{% set x = a %}{% endfor %}{% endfor %}", Kind::LimitExceeded),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", Kind::LimitExceeded),
        ("{% for a in range(100000) %}{{ 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' * 100000 }}{% endfor %}", Kind::LimitExceeded),
        ("{{ 'x' * 1000000000000 }}", Kind::LimitExceeded),
        ("{{ raise_exception('no') }}", Kind::InvalidInput),
        ("{% set ns = namespace(x=1) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}", Kind::LimitExceeded),
        ("{% set s = 'x' * 6000000 %}{% for i in range(100000) %}{% set y = s.find('q') %}{% endfor %}", Kind::LimitExceeded),
        ("{% if %}", Kind::InvalidInput),
        ("{{ x.y.z }}", Kind::InvalidInput),
        ("{% include 'other' %}", Kind::InvalidInput),
    ];
    for (source, kind) in cases {
        let error = render(source, &json!({})).unwrap_err();
        assert_eq!(error.kind(), kind, "{source}: {error}");
    }
    // A list that holds a list twice, and so on: a few kilobytes that print as terabytes.
    let twice = "{% set ns = namespace(x=[1]) %}{% for i in range(40) %}{% set ns.x = [ns.x, {'a': ns.x}] %}{% endfor %}";
    for printed in [
        "{{ ns.x }}",
        "{{ ns.x|tojson }}",
        "{{ ns.x|string|length }}",
        "{{ ','.join(ns.x) }}",
        "{{ ns.x|join(',') }}",
        "{{ ns.x|pprint }}",
        "{{ raise_exception(ns.x) }}",
    ] {
        let error = render(&format!("{twice}{printed}"), &json!({})).unwrap_err();
        assert_eq!(error.kind(), Kind::LimitExceeded, "{printed}: {error}");
    }
    for (open, close) in [("-", ""), ("(", ")"), ("[", "]"), ("1+", ""), ("not ", "")] {
        let count = 100_000 / open.len();
        let nested = format!("{{{{ {}1{} }}}}", open.repeat(count), close.repeat(count));
        let _an_answer = render(&nested, &json!({}));
    }
    // Nothing prints it, but it is dropped: level by level, deeper than a stack of megabytes.
    let deep = "{% set ns = namespace(x=1) %}{% for j in range(5) %}{% for i in range(100000) %}{% set ns.x = {1: ns.x} %}{% endfor %}{% endfor %}ok";
    assert_eq!(render(deep, &json!({})).unwrap(), "ok");
    assert_eq!(ChatTemplate::compile(&"x".repeat(limits::MAX_TEMPLATE_BYTES + 1), DATE).unwrap_err().kind(), Kind::LimitExceeded);
}
