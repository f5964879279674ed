//! Function declarations in each mode: strings, Python stubs (2.5) and Gemini 3's notation.
//!
//! The stub and the notation are what the models read; both were recovered from recorded bills and are exact on nearly
//! all of them. Recursive schemas are unrolled [`schema::DEPTH`] levels, and the rendering is capped in bytes.

use super::calls::MARKERS;
use super::family::{Generation, Mode};
use super::schema::{self, DEPTH};
use super::text::{Measure, Weight};
use super::values;
use crate::error::{Error, Kind, Result};
use crate::format::{Format, Tool};
use crate::limits;
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// What a declaration weighs.
pub(super) fn weigh(tool: &Tool<'_>, format: Format, generation: Generation, mode: Mode, measure: &Measure<'_>) -> Result<Weight> {
    let description = tool.description.unwrap_or_default();
    let weight = match mode {
        Mode::Strings => {
            let mut weight = measure.text(tool.name) + measure.text(description);
            // A JSON Schema (`parametersJsonSchema`) is not billed there, the API's own schema is; gateways send the latter.
            let json_schema = format == Format::Gemini && tool.raw.get("parameters").is_none_or(Value::is_null);
            if let (Some(parameters), false) = (tool.parameters, json_schema) {
                weight += schema::strings(parameters, format == Format::Gemini, measure);
            }
            weight
        }
        Mode::Prompt if generation == Generation::TwoFive => measure.text(&stub(tool)?),
        Mode::Prompt => measure.marked(&notation(tool)?) + Weight::exact(MARKERS),
    };
    Ok(weight)
}

/// Types rendered of one declaration: references that branch can name a small schema very often.
const MOST_TYPES: usize = 200_000;

fn too_large(place: &str) -> Error {
    Error::new(Kind::LimitExceeded, format!("the tool's schema renders to more than {} bytes", limits::MAX_RENDERED_SCHEMA_BYTES)).at(place)
}

/// A Python stub of the function, after the data classes of its nested objects.
fn stub(tool: &Tool<'_>) -> Result<String> {
    let empty = Value::Object(Map::new());
    let root = tool.parameters.unwrap_or(&empty);
    let mut writer = Stub { root, classes: String::new(), place: &tool.place, nesting: 0, types: 0 };
    let (mut fields, mut notes) = (String::new(), String::new());
    writer.members(&schema::resolve(root, root), &camel(tool.name), 0, "    ", ",", &mut fields, &mut notes)?;
    let mut out = writer.classes;
    let _ = write!(out, "def {}(\n{fields}) -> dict:\n  \"\"\"", tool.name);
    indent(tool.description.unwrap_or_default(), &mut out);
    let _ = write!(out, "\n\n  Args:\n{notes}  \"\"\"\n");
    Ok(out)
}

struct Stub<'a> {
    root: &'a Value,
    classes: String,
    place: &'a str,
    nesting: usize,
    types: usize,
}

impl Stub<'_> {
    /// Fields (`name: type`) and their notes, of a function or a class called `path`.
    #[expect(clippy::too_many_arguments, reason = "two texts are built side by side")]
    fn members(
        &mut self,
        object: &Map<String, Value>,
        path: &str,
        depth: usize,
        margin: &str,
        end: &str,
        fields: &mut String,
        notes: &mut String,
    ) -> Result<()> {
        let required = schema::required(object);
        for (name, member) in schema::properties(object).into_iter().flatten() {
            let kind = self.kind(member, &format!("{path}{}", camel(name)), depth)?;
            let member = schema::resolve(member, self.root);
            let _ = write!(fields, "{margin}{name}: {kind}");
            if !required.contains(&name.as_str()) {
                fields.push_str(" | None = ");
                values::python(member.get("default").unwrap_or(&Value::Null), fields);
            }
            fields.push_str(end);
            fields.push('\n');
            let _ = write!(notes, "    {name}: ");
            indent(member.get("description").and_then(Value::as_str).unwrap_or_default(), notes);
            notes.push('\n');
        }
        let size = self.classes.len() + fields.len() + notes.len();
        if size > limits::MAX_RENDERED_SCHEMA_BYTES { Err(too_large(self.place)) } else { Ok(()) }
    }

    /// A type as Python spells it, with guards against lists and choices that refer to themselves.
    fn kind(&mut self, schema: &Value, path: &str, depth: usize) -> Result<String> {
        self.types += 1;
        if self.types > MOST_TYPES {
            return Err(too_large(self.place));
        }
        if self.nesting >= limits::MAX_SCHEMA_DEPTH {
            return Ok("dict".to_owned());
        }
        self.nesting += 1;
        let out = self.spelled(schema, path, depth);
        self.nesting -= 1;
        out
    }

    fn spelled(&mut self, schema: &Value, path: &str, depth: usize) -> Result<String> {
        let map = schema::resolve(schema, self.root).into_owned();
        if let Some(all) = schema::any_of(&map) {
            let mut kinds = Vec::new();
            for member in all {
                kinds.push(if schema::is_null(member) { "None".to_owned() } else { self.kind(member, path, depth)? });
            }
            return Ok(kinds.join(" | "));
        }
        let name = match map.get("type") {
            Some(Value::Array(names)) => {
                let mut kinds = Vec::new();
                for name in names.iter().filter_map(Value::as_str) {
                    kinds.push(if name == "null" { "None".to_owned() } else { self.named(name, &map, path, depth)? });
                }
                return Ok(kinds.join(" | "));
            }
            Some(Value::String(name)) => name.to_ascii_lowercase(),
            _ => String::new(),
        };
        if let (Some(Value::Array(values)), "string" | "") = (map.get("enum"), name.as_str()) {
            let mut out = String::from("Literal[");
            for (i, value) in values.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                values::python(value, &mut out);
            }
            out.push(']');
            return Ok(out);
        }
        self.named(&name, &map, path, depth) // `nullable` leaves no trace
    }

    fn named(&mut self, name: &str, map: &Map<String, Value>, path: &str, depth: usize) -> Result<String> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "string" => "str".to_owned(),
            "integer" => "int".to_owned(),
            "number" => "float".to_owned(),
            "boolean" => "bool".to_owned(),
            "array" => match map.get("items") {
                Some(items) => format!("list[{}]", self.kind(items, path, depth)?),
                None => "list".to_owned(),
            },
            "object" if depth < DEPTH && schema::properties(map).is_some_and(|all| !all.is_empty()) => {
                self.class(map, path, depth + 1)?;
                path.to_owned()
            }
            "object" => "dict".to_owned(),
            _ => "Any".to_owned(),
        })
    }

    /// A data class for a nested object, put before whatever uses it.
    fn class(&mut self, map: &Map<String, Value>, name: &str, depth: usize) -> Result<()> {
        let (mut fields, mut notes) = (String::new(), String::new());
        self.members(map, name, depth, "  ", "", &mut fields, &mut notes)?;
        let _ = write!(self.classes, "@dataclasses.dataclass(kw_only=True)\nclass {name}:\n  \"\"\"");
        indent(map.get("description").and_then(Value::as_str).unwrap_or_default(), &mut self.classes);
        let _ = write!(self.classes, "\n\n  Attributes:\n{notes}  \"\"\"\n{fields}\n");
        Ok(())
    }
}

/// A description inside a docstring: further lines are indented by two, blank ones not.
fn indent(text: &str, out: &mut String) {
    for (i, line) in text.split('\n').enumerate() {
        if i > 0 {
            out.push('\n');
            if !line.trim().is_empty() {
                out.push_str("  ");
            }
        }
        out.push_str(line);
    }
}

/// `get_user-info` → `GetUserInfo`.
fn camel(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for word in name.split(|c: char| c == '_' || c == '-' || c.is_whitespace()) {
        let mut letters = word.chars();
        out.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        out.push_str(letters.as_str());
    }
    out
}

/// `declaration:NAME{…}` in Gemini 3's notation.
fn notation(tool: &Tool<'_>) -> Result<String> {
    let mut out = format!("declaration:{}{{", tool.name);
    let mut first = true;
    if let Some(description) = tool.description.filter(|d| !d.is_empty()) {
        out.push_str("description:");
        values::quoted(description, &mut out);
        first = false;
    }
    if let Some(root) = tool.parameters {
        let mut inner = String::new();
        Notation { root, place: &tool.place, refs: Vec::new(), shapes: 0, depth: 0 }.shape(root, &mut inner)?;
        if !inner.is_empty() {
            if !first {
                out.push(',');
            }
            let _ = write!(out, "parameters:{{{inner}}}");
        }
    }
    out.push('}');
    Ok(out)
}

struct Notation<'a> {
    root: &'a Value,
    place: &'a str,
    /// References being followed, from the outermost.
    refs: Vec<String>,
    shapes: usize,
    depth: usize,
}

impl Notation<'_> {
    /// A schema's fields in the notation's order: description, enum, items, nullable, properties, required, anyOf, type.
    fn shape(&mut self, schema: &Value, out: &mut String) -> Result<()> {
        self.shapes += 1;
        if self.shapes > MOST_TYPES || out.len() > limits::MAX_RENDERED_SCHEMA_BYTES {
            return Err(too_large(self.place));
        }
        let reference = schema.get("$ref").and_then(Value::as_str);
        let again = reference.is_some_and(|name| self.refs.iter().filter(|open| *open == name).count() >= DEPTH);
        if again || self.depth >= limits::MAX_SCHEMA_DEPTH {
            return Ok(());
        }
        self.refs.extend(reference.map(str::to_owned));
        self.depth += 1;
        let done = self.fields(schema, out);
        self.depth -= 1;
        if reference.is_some() {
            self.refs.pop();
        }
        done
    }

    fn fields(&mut self, schema: &Value, out: &mut String) -> Result<()> {
        let root = self.root;
        let mut map = schema::resolve(schema, root).into_owned();
        let mut nullable = map.get("nullable").and_then(Value::as_bool) == Some(true);
        let mut choices: Vec<Value> = Vec::new();
        if let Some(all) = schema::any_of(&map) {
            choices = all.iter().filter(|member| !schema::is_null(member)).cloned().collect();
            nullable |= choices.len() < all.len();
            if let [only] = choices.as_slice() {
                let only = schema::resolve(only, root).into_owned();
                map.remove("anyOf");
                map.remove("any_of");
                for (key, value) in only {
                    let kept = key == "description" && map.get("description").and_then(Value::as_str).is_some_and(|d| !d.is_empty());
                    if !kept {
                        map.insert(key, value);
                    }
                }
                choices.clear();
            }
        }
        let kind = match map.get("type") {
            Some(Value::String(name)) => Some(name.to_ascii_uppercase()),
            Some(Value::Array(names)) => {
                nullable |= names.iter().any(|name| name == "null");
                names.iter().filter_map(Value::as_str).find(|name| *name != "null").map(str::to_ascii_uppercase)
            }
            _ => None,
        };
        let mut fields: Vec<String> = Vec::new();
        if let Some(text) = map.get("description").and_then(Value::as_str).filter(|d| !d.is_empty()) {
            fields.push(labelled("description:", text));
        }
        if let Some(Value::Array(values)) = map.get("enum")
            && !values.is_empty()
        {
            let names = values.iter().map(|v| labelled("", &v.as_str().map_or_else(|| v.to_string(), str::to_owned)));
            fields.push(format!("enum:[{}]", names.collect::<Vec<_>>().join(",")));
        }
        if let (Some("ARRAY"), Some(items @ Value::Object(_))) = (kind.as_deref(), map.get("items")) {
            let mut inner = String::new();
            self.shape(items, &mut inner)?;
            fields.push(format!("items:{{{inner}}}"));
        }
        if nullable {
            fields.push("nullable:true".to_owned());
        }
        if let Some(all) = schema::properties(&map).filter(|all| !all.is_empty()) {
            let mut inner = String::new();
            for (i, (name, member)) in all.iter().enumerate() {
                if i > 0 {
                    inner.push(',');
                }
                let _ = write!(inner, "{name}:{{");
                self.shape(member, &mut inner)?;
                inner.push('}');
            }
            fields.push(format!("properties:{{{inner}}}"));
        }
        let required = schema::required(&map);
        if !required.is_empty() {
            fields.push(format!("required:[{}]", required.iter().map(|name| labelled("", name)).collect::<Vec<_>>().join(",")));
        }
        if !choices.is_empty() {
            let mut inner = Vec::new();
            for choice in &choices {
                let mut text = String::from("{");
                self.shape(choice, &mut text)?;
                text.push('}');
                inner.push(text);
            }
            fields.push(format!("anyOf:[{}]", inner.join(",")));
        }
        if let Some(kind) = kind {
            fields.push(labelled("type:", &kind));
        }
        out.push_str(&fields.join(","));
        Ok(())
    }
}

fn labelled(label: &str, text: &str) -> String {
    let mut out = String::from(label);
    values::quoted(text, &mut out);
    out
}

#[cfg(test)]
#[path = "declarations_tests.rs"]
mod tests;
