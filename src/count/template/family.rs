//! Families of chat templates and hosts' habits, as data (`data/templates.json`), and the templates themselves.
//!
//! Read by the renderer beside this file. A rule applies when all that it names matches; later rules win. Nothing here counts.

use crate::count::Day;
use crate::error::{Error, Kind, Result};
use regex::Regex;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::LazyLock;

#[derive(Deserialize)]
struct Table {
    markers: BTreeMap<String, Vec<String>>,
    families: BTreeMap<String, Family>,
    rules: Vec<Rule>,
}

/// How well a family is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Grade {
    /// Template and vocabulary are published, and recorded bills agree.
    Exact,
    /// Template and vocabulary are published; no bills to compare with.
    Calibrated,
    /// The published template isn't described here.
    Estimate,
}

/// One family.
#[derive(Debug, Deserialize)]
pub(super) struct Family {
    pub(super) template: String,
    markers: String,
    pub(super) grade: Grade,
    /// Markers in a request's own texts are plain text (Mistral, harmony), not tokens of their own.
    #[serde(default)]
    pub(super) literal_text: bool,
    /// How it takes pictures: `mistral`, `llama4`; a rule may set another.
    pub(super) pictures: Option<String>,
    #[serde(default)]
    set: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    families: Vec<String>,
    providers: Option<Vec<String>>,
    ids: Option<Vec<String>>,
    choices: Option<Vec<String>>,
    efforts: Option<Vec<String>>,
    formats: Option<Vec<String>>,
    tools: Option<bool>,
    response_format: Option<bool>,
    /// `json_object` or `json_schema`.
    response_kind: Option<String>,
    /// The first day on which the rule holds.
    from: Option<Day>,
    /// The first day on which it doesn't any more. Without a day in the question such a rule is past.
    until: Option<Day>,
    /// Another template than the family's.
    template: Option<String>,
    #[serde(default)]
    set: Map<String, Value>,
    #[serde(default)]
    default: Map<String, Value>,
    #[serde(default)]
    habit: Habit,
    #[serde(default)]
    add: u64,
    exact: Option<bool>,
    #[serde(rename = "why")]
    _why: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Habit {
    bare: Option<bool>,
    strict: Option<bool>,
    type_first: Option<bool>,
    fill: Option<bool>,
    tools: Option<bool>,
    fields: Option<Vec<String>>,
}

/// What a request looks like to the rules.
pub(super) struct Case<'a> {
    pub(super) family: &'a str,
    /// Slug of the host; empty when none is named.
    pub(super) provider: &'a str,
    /// The model's id and the name that the request used, lower case.
    pub(super) id: &'a str,
    pub(super) choice: &'a str,
    pub(super) effort: &'a str,
    pub(super) format: &'a str,
    pub(super) tools: bool,
    /// `json_object`, `json_schema`, or empty.
    pub(super) response_kind: &'static str,
    pub(super) as_of: Option<Day>,
}

/// What all matching rules say together.
#[derive(Debug, Default)]
pub(super) struct Habits {
    /// Variables of the template.
    pub(super) set: Map<String, Value>,
    /// Tools as the bare function instead of `{"type": "function", "function": …}`.
    pub(super) bare: bool,
    /// `strict` stays in.
    pub(super) strict: bool,
    /// The wrapper is written anew, `type` first.
    pub(super) type_first: bool,
    /// Missing name, description and parameters are filled in.
    pub(super) fill: bool,
    /// Tools are left out.
    pub(super) no_tools: bool,
    /// Only these fields of a function, in this order of the request.
    pub(super) fields: Option<Vec<String>>,
    /// Tokens that the host adds.
    pub(super) add: u64,
    /// Recorded bills of this family on this host agree.
    pub(super) exact: bool,
    /// The template of this snapshot, where it isn't the family's.
    pub(super) template: Option<&'static str>,
}

static TABLE: LazyLock<Result<Table, String>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../../data/templates.json")).map_err(|e| e.to_string()));

fn table() -> Result<&'static Table> {
    TABLE.as_ref().map_err(|e| Error::new(Kind::Internal, format!("the table of template families does not parse: {e}")))
}

/// A family by name.
pub(super) fn find(name: &str) -> Result<Option<&'static Family>> {
    Ok(table()?.families.get(name))
}

/// All families' names.
#[cfg(all(test, feature = "templates"))]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().flat_map(|table| table.families.keys().map(String::as_str))
}

/// The pattern that finds a family's markers.
pub(super) fn markers(family: &Family) -> Result<&'static Regex> {
    static PATTERNS: LazyLock<BTreeMap<String, Regex>> = LazyLock::new(|| {
        let lists = TABLE.iter().flat_map(|table| &table.markers);
        lists
            .filter_map(|(name, list)| {
                let mut list: Vec<String> = list.iter().map(|marker| regex::escape(marker)).collect();
                list.sort_by_key(|marker| std::cmp::Reverse(marker.len()));
                Some((name.clone(), Regex::new(&list.join("|")).ok()?))
            })
            .collect()
    });
    PATTERNS.get(&family.markers).ok_or_else(|| Error::new(Kind::Internal, format!("no markers named `{}`", family.markers)))
}

/// What the rules say of a case.
pub(super) fn habits(family: &Family, case: &Case<'_>) -> Result<Habits> {
    let mut habits = Habits { set: family.set.clone(), ..Habits::default() };
    for rule in table()?.rules.iter().filter(|rule| rule.matches(case)) {
        habits.set.extend(rule.set.iter().map(|(key, value)| (key.clone(), value.clone())));
        for (key, value) in &rule.default {
            habits.set.entry(format!("default_{key}")).or_insert_with(|| value.clone());
        }
        let habit = &rule.habit;
        habits.bare = habit.bare.unwrap_or(habits.bare);
        habits.strict = habit.strict.unwrap_or(habits.strict);
        habits.type_first = habit.type_first.unwrap_or(habits.type_first);
        habits.fill = habit.fill.unwrap_or(habits.fill);
        habits.no_tools = habit.tools.map_or(habits.no_tools, |rendered| !rendered);
        if habit.fields.is_some() {
            habits.fields.clone_from(&habit.fields);
        }
        habits.add = habits.add.saturating_add(rule.add);
        habits.exact = rule.exact.unwrap_or(habits.exact);
        habits.template = rule.template.as_deref().or(habits.template);
    }
    Ok(habits)
}

impl Rule {
    fn matches(&self, case: &Case<'_>) -> bool {
        let among = |list: &Option<Vec<String>>, value: &str| list.as_ref().is_none_or(|list| list.iter().any(|one| one == value));
        self.families.iter().any(|family| family == case.family)
            && among(&self.providers, case.provider)
            && among(&self.choices, case.choice)
            && among(&self.efforts, case.effort)
            && among(&self.formats, case.format)
            && self.ids.as_ref().is_none_or(|ids| ids.iter().any(|id| case.id.contains(id.as_str())))
            && self.tools.is_none_or(|tools| tools == case.tools)
            && self.response_format.is_none_or(|asked| asked != case.response_kind.is_empty())
            && self.response_kind.as_deref().is_none_or(|kind| kind == case.response_kind)
            && self.from.is_none_or(|from| case.as_of.is_none_or(|day| day >= from))
            && self.until.is_none_or(|until| case.as_of.is_some_and(|day| day < until))
    }
}

/// The source of a template of ours.
#[cfg(any(test, feature = "templates"))]
pub(super) fn source(name: &str) -> Option<&'static str> {
    macro_rules! sources {
        ($($name:literal),* $(,)?) => {
            match name {
                $($name => Some(include_str!(concat!("../../../data/templates/", $name, ".jinja"))),)*
                _ => None,
            }
        };
    }
    sources!(
        "deepseek-v3",
        "deepseek-v3.1",
        "deepseek-v4",
        "gemma",
        "glm-4.6",
        "glm-4.7",
        "gpt-oss",
        "kimi-k2",
        "llama-3",
        "llama-3.1",
        "llama-4",
        "mistral",
        "mixtral",
        "plain",
        "qwen2.5",
        "qwen3",
        "qwen3-coder",
        "qwen3.5",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_parses_and_names_what_exists() {
        let table = table().unwrap();
        for (name, family) in &table.families {
            assert!(source(&family.template).is_some(), "{name}: no template `{}`", family.template);
            assert!(markers(family).is_ok(), "{name}: no markers `{}`", family.markers);
        }
        for rule in &table.rules {
            assert!(
                rule.template.as_deref().is_none_or(|template| source(template).is_some()),
                "a rule names the unknown template {:?}",
                rule.template
            );
            for family in &rule.families {
                assert!(table.families.contains_key(family), "a rule names the unknown family `{family}`");
            }
        }
    }
}
