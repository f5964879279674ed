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

#[test]
fn what_minijinja_visits_for_nothing_is_paid_for() {
    // Two lists of a few kilobytes that hold the same twice, forty times over.
    let twice = "{% set ns = namespace(x=[1], y=[1]) %}\
        {% for i in range(40) %}{% set ns.x = [ns.x, {'a': ns.x}] %}{% set ns.y = [ns.y, {'a': ns.y}] %}{% endfor %}";
    let visits = [
        "{{ ns.x ~ '' }}",
        "{{ '' ~ (ns.x or 1) }}",
        "{{ ns.x == ns.y }}",
        "{{ ns.x != ns.y }}",
        "{{ 1 < ns.x < ns.y }}",
        "{{ ns.x in [ns.y] }}",
        "{{ ns.x not in ns.y }}",
        "{{ ns.x in 'text' }}",
        "{{ {ns.x: 1} }}",
        "{{ {}[ns.x] }}",
        "{{ {1: 2}.get(ns.x) }}",
        "{{ [ns.y].count(ns.x) }}",
        "{{ '{}'.format(ns.x) }}",
        "{{ '%s'|format(ns.x) }}",
        "{{ ns.x|unique|list }}",
        "{{ [ns.x, ns.y]|sort }}",
        "{{ [ns.x, ns.y]|max }}",
        "{{ [{'k': ns.x}, {'k': ns.y}]|groupby('k') }}",
        "{{ {1: ns.x, 2: ns.y}|dictsort(by='value') }}",
        "{{ ns.x|upper }}",
        "{{ ns.x|safe }}",
        "{{ ns.x|escape }}",
        "{{ ns.x|urlencode }}",
        "{{ [ns.x]|map('upper')|list }}",
        "{{ [ns.x]|map('tojson')|list }}",
        "{{ [1]|map('default', ns.x)|list }}",
        "{{ [ns.x]|select('eq', ns.y)|list }}",
        "{{ [ns.x]|select('in', 'text')|list }}",
        "{{ ns.x is in 'text' }}",
        "{{ [{'k': ns.x}]|selectattr('k', 'in', [ns.y])|list }}",
        "{{ ns.x is eq ns.y }}",
        "{{ ns.x is in(ns.y) }}",
        "{{ ns.x is startingwith 'a' }}",
        "{% for i in [ns.x, ns.y] %}{{ loop.changed(i) }}{% endfor %}",
        "{% filter replace('a', ns.x) %}a{% endfilter %}",
        "{% set z | replace('a', ns.x) %}a{% endset %}",
        "{% macro m(a) %}{{ a ~ '' }}{% endmacro %}{{ m(ns.x) }}",
        "{{ [1] * 90000000 ~ '' }}",
        "{{ ([1] * 90000000)|string }}",
        "{{ [1] * 90000000 == [1] * 90000000 }}",
        "{{ ['x' * 1000] * 90000000 }}",
        "{% set l = namespace(l=[1]) %}{% for i in range(60) %}{% set l.l = l.l + l.l %}{% endfor %}",
        "{% set t = 'x' * 6000000 %}{% for i in range(100000) %}{% set y = t[5999999] %}{% endfor %}",
        "{% set t = 'x' * 6000000 %}{% for i in range(100000) %}{% set y = t[-1] %}{% endfor %}",
        "{% set t = 'x' * 6000000 %}{% for i in range(100000) %}{% set y = t[5999998:5999999] %}{% endfor %}",
        "{% set t = 'x' * 6000000 %}{% for i in range(100000) %}{% set y = t.5999999 %}{% endfor %}",
        "{% set t = 'x' * 6000000 %}{% set u = 'x' * 6000000 %}{% for i in range(100000) %}{% set y = t == u %}{% endfor %}",
        "{% set n = namespace() %}{% set n.n = n %}{{ n ~ '' }}",
        "{% set n = namespace() %}{% set n.n = [n] %}{{ n.n == ns.x }}",
        "{% for i in range(90) %}{% set ns.x = [ns.x] %}{% endfor %}{% for i in range(900) %}{% set ns.y = {1: ns.y} %}{% endfor %}{{ ns.y == ns.x }}",
    ];
    for visit in visits {
        let error = render_with_little(&format!("{twice}{visit}")).map(|text| text.len()).unwrap_err();
        assert_eq!(error.kind(), Kind::LimitExceeded, "{visit}: {error}");
    }
    // Nothing is wrong with these, or something else is; they end.
    for ends in [
        "{{ -ns.x }}",
        "{{ ns.x * ns.y }}",
        "{{ ns.x|int }}",
        "{{ range(ns.x) }}",
        "{{ ns.x.k }}",
        "{{ ns.x|length }}",
        "{{ ns.x - 1 }}",
        "{{ ns.x / ns.x }}",
        "{{ ns.x(1) }}",
        "{{ ns.x|attr(ns.y) }}",
        "{{ ns.x|abs }}",
        "{{ debug() }}",
        "{{ cycler(ns.x) }}",
        "{{ ns.x|float }}",
        "{{ dict(ns.x)|length }}",
        "{{ ns.x|sum }}",
        "{{ ns.x|tojson(indent=ns.x) }}",
        "{{ ns.x is divisibleby ns.y }}",
        "{{ ns.x is filter }}",
        "{{ strftime_now(ns.x) }}",
        "{{ ns.x|from_json }}",
        "{{ ns.x|own }}",
        "{{ ns.x is sameas ns.y }}",
        "{{ ns.x|first|last|reverse|list|length }}",
        "{{ ns.x|zip(ns.y)|list|length }}",
        "{{ ns.x|batch(1, ns.y)|list|length }}",
        "{{ ns.x|chain(ns.y)|length }}",
    ] {
        let _an_answer = render_with_little(&format!("{twice}{ends}"));
    }
}

/// Renders with as much fuel as a test's patience.
fn render_with_little(source: &str) -> Result<String> {
    let mut template = ChatTemplate::compile(source, DATE)?;
    Arc::get_mut(&mut template.environment).unwrap().set_fuel(Some(limits::TEMPLATE_FUEL / 20));
    template.render(&json!({}))
}

#[test]
fn names_the_line_of_what_it_does_not_take() {
    let error = ChatTemplate::compile("a\n{{ b }}\n{% include 'c' %}", DATE).unwrap_err();
    assert!(error.to_string().contains("line 3"), "{error}");
    let error = ChatTemplate::compile("a\n{{ b c }}", DATE).unwrap_err();
    assert!(error.to_string().contains("line 2"), "{error}");
}
