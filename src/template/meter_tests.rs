//! The meter: weighs what is heavy, leaves what is light, and changes nothing that a template prints.

use super::*;
use crate::template::sandbox::environment;

fn written(source: &str) -> String {
    metered(source).unwrap_or_else(|place| panic!("{source}: not understood at {}", place.at)).replace("plimsoll_", "")
}

#[test]
fn weighs_what_is_heavy_only() {
    let same = [
        "{{ a == 'x' }}{{ 'x' in a }}{{ a is defined and a is not none }}{{ a|length > 0 }}",
        "{%- if m.role == 'user' and not loop.first -%} x {%- endif %}",
        "{{ a[0] }}{{ a['k'].b[1:] }}{{ a|tojson(indent=2) }}{{ a|selectattr('role', 'eq', 'user')|list }}",
        "{% for k, (v, w) in a.items() if k is string recursive %}{% endfor %}{% set x.y = [a, b] %}{% set z %}q{% endset %}",
        "{# a ~ b #}{% raw %}{{ a ~ b }}{% endraw %}{% macro m(a, b=none) %}{% endmacro %}{{ m(a, b=1) }}",
        "{{ (1 if a else 'x')|default(b) }}{{ {'k': a, 1: b} }}{{ -a * b // 2 ** c % d - e }}",
    ];
    for source in same {
        assert_eq!(written(source), source);
    }
    let changed = [
        ("{{ a ~ 'x' ~ b.c }}", "{{ a|weighed ~ 'x' ~ b.c|weighed }}"),
        ("{{ a + 1 }}", "{{ a|added + 1 }}"),
        ("{{ a ~ b + c * d }}", "{{ (a|weighed ~ b|weighed)|added + (c * d)|added }}"),
        ("{{ a == b }}", "{{ a|weighed == b|weighed }}"),
        ("{{ 1 < a < b <= c }}", "{{ 1 < a|weighed < b|weighed <= c|weighed }}"),
        ("{{ a not in b }}", "{{ a|weighed not in b|sought }}"),
        ("{{ a.b[c] }}", "{{ (a.b|indexed)[c|weighed] }}"),
        ("{{ a[-1].c }}", "{{ (a|indexed)[-1].c }}"),
        ("{{ -a.b[c:]|upper }}", "{{ -(a.b|indexed)[c:]|weighed|upper }}"),
        ("{{ {a: b} }}", "{{ {a|weighed: b} }}"),
        ("{{ a|unique|list }}", "{{ a|weighed|unique|list }}"),
        ("{{ a|replace('x', b) }}", "{{ a|weighed|replace('x', b|weighed) }}"),
        ("{{ a|map('upper') }}", "{{ a|weighed|map('upper') }}"),
        ("{{ a|map(b) }}", "{{ a|weighed|map(b|small) }}"),
        ("{{ a is eq b }}", "{{ a|weighed is eq (b|weighed) }}"),
        ("{{ a is not in(b) and c }}", "{{ a|weighed is not in(b|weighed) and c }}"),
        ("{{ loop.changed(a) }}", "{{ loop.changed(a|weighed) }}"),
        ("{{ (a or b) ~ (not c) }}", "{{ (a or b)|weighed ~ (not c) }}"),
        ("{% set x | replace(a, 'b') %}{% endset %}", "{% set x | replace(a|weighed, 'b') %}{% endset %}"),
        ("{% filter upper | replace(a, b) %}{% endfilter %}", "{% filter upper|weighed | replace(a|weighed, b|weighed) %}{% endfilter %}"),
        ("{% generation %}{%- endgeneration -%}", "{% if true %}{%- endif -%}"),
        ("{% call(x) m(a ~ b) %}{% endcall %}", "{% call(x) m(a|weighed ~ b|weighed) %}{% endcall %}"),
    ];
    for (source, expected) in changed {
        assert_eq!(written(source), expected);
    }
}

#[test]
fn refuses_what_it_cannot_read() {
    for (source, at) in [
        ("{{ a b }}", 5),
        ("x{{ a ~ }}", 6),
        ("{% include 'a' %}", 11),
        ("{{ 'a }}", 3),
        ("{{ a ", 5),
        ("{# a", 0),
        ("{% raw %}a", 0),
        ("{{ a ! b }}", 5),
        ("{{ a) }}", 4),
        ("{{ 1a }}", 3),
        ("{% for a %}", 7),
    ] {
        assert_eq!(metered(source), Err(NotUnderstood { at }), "{source}");
    }
    let deep = format!("{{{{ {}a{} }}}}", "(".repeat(10_000), ")".repeat(10_000));
    assert!(metered(&deep).is_err());
}

/// A small generator of expressions that minijinja takes, most of which mean something.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((x ^ (x >> 31)) % bound as u64).unwrap_or(0)
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of.get(self.below(of.len())).copied().unwrap_or_default()
    }

    fn expression(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self
                .one(&["a", "b", "l", "m", "s", "u", "m.k", "m.list", "l[0]", "1", "2.5", "'x'", "\"it's\"", "true", "none", "[]", "{}"])
                .to_owned();
        }
        let inner = |random: &mut Self| random.expression(depth - 1);
        let (x, y, z) = (inner(self), inner(self), inner(self));
        match self.below(24) {
            0 => format!("{x} ~ {y}"),
            1 => format!("{x} {} {y}", self.one(&["==", "!=", "<", ">=", "in", "not in"])),
            2 => format!("{x} {} {y} {} {z}", self.one(&["==", "<"]), self.one(&["!=", "in", ">"])),
            3 => format!("{x} {} {y}", self.one(&["+", "-", "*", "/", "//", "%", "**"])),
            4 => format!("{x} {} {y}", self.one(&["and", "or"])),
            5 => format!("(not {x})"),
            6 => format!("-{x}"),
            7 | 8 => format!("({x})"),
            9 => format!("[{x}, {y}]"),
            10 => format!("{{{x}: {y}}}"),
            11 => format!("({x}, {y})"),
            12 => format!("{x} if {y} else {z}"),
            13 => format!("({x})[{y}]"),
            14 => format!("{}[{}]", self.one(&["l", "m", "s", "a"]), self.one(&["0", "-1", "1:", ":2", "::-1", "'k'", "b", "9999"])),
            15 => {
                format!("{x}|{}", self.one(&["length", "list", "upper", "string", "unique|list", "sort", "first", "tojson", "trim", "int"]))
            }
            16 => format!("{x}|{}{y})", self.one(&["default(", "join(", "replace('x', ", "batch(2, "])),
            17 => format!("{x}|{}|list", self.one(&["map('upper')", "select('eq', 1)", "reject('in', [1, 'x'])", "map(attribute='k')"])),
            18 => format!(
                "({x} is {})",
                self.one(&["defined", "not none", "string", "mapping", "eq b", "eq -1", "in l", "not in(l)", "sameas a"])
            ),
            19 => format!("({x} is eq({y}) or {z} is not eq -1)"),
            20 => format!("({x}).{}", self.one(&["k", "list", "strip()", "items()|list", "get('k')", "replace('x', 'y')"])),
            21 => format!("dict(k={x}, j={y})"),
            22 => format!("range({x})|list"),
            _ => format!("{x} {} ({y} {} {z})", self.one(&["+", "~", "=="]), self.one(&["~", "+", "in"])),
        }
    }
}

#[test]
fn prints_what_the_template_prints_without_it() {
    let context = serde_json::json!({
        "a": 2, "b": -1, "s": "some text x", "l": [3, "x", [1, 2], {"k": "v"}], "m": {"k": "x", "list": [1, 1, "a"]},
    });
    let context = minijinja::Value::from(minijinja::value::Serde(&context));
    let seed = 0x5eed_0007;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    let (mut alike, mut changed, mut refused) = (0, 0, 0);
    for _ in 0..40_000 {
        let depth = 1 + random.below(3);
        let (x, y) = (random.expression(depth), random.expression(depth));
        let source = match random.below(5) {
            0 => format!("{{% set n = namespace(x={x}) %}}{{% set n.x = n.x ~ ({y}) %}}{{{{ n.x }}}}"),
            1 => format!("{{% for i in {x} %}}{{{{ i }}}};{{{{ {y} }}}}{{% endfor %}}"),
            2 => format!("{{%- if not {x} and not not {y} -%}}yes\n{{% elif {y} %}} no {{% endif %}}"),
            3 => format!("{{% macro q(p={x}) %}}{{{{ p ~ s }}}}{{% endmacro %}}{{{{ q() }}}}{{{{ q({y}) }}}}"),
            _ => format!("{{{{ {x} }}}} {{{{- {y} }}}}"),
        };
        let print = |source: &str| {
            let mut environment = environment((2026, 12, 1)).unwrap();
            // Some errors are found when constants are folded, or later, as the filters between them allow.
            environment.add_template_owned("t", source.to_owned()).ok()?;
            environment.get_template("t").unwrap().render(&context).ok()
        };
        let plain = print(&source);
        match metered(&source) {
            Ok(metered) => {
                assert_eq!(print(&metered), plain, "{source}\n{metered}");
                alike += usize::from(plain.is_some());
                changed += usize::from(metered != source);
                assert_eq!(metered.matches('\n').count(), source.matches('\n').count());
            }
            Err(place) => {
                assert!(plain.is_none(), "{source}: refused at {}, but prints {plain:?}", place.at);
                refused += 1;
            }
        }
    }
    println!("{alike} print alike, {changed} were changed, {refused} refused");
    assert!(alike > 10_000 && changed > 10_000 && refused < 4_000, "{alike} {changed} {refused}");
}
