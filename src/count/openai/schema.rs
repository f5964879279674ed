//! JSON Schema to the TypeScript text in which OpenAI shows tools to its models.
//!
//! Called by the tool blocks of this family. The layout was recovered from recorded bills and agrees with published
//! renderings of such prompts (November 2026): comments above, notes behind, no indentation, one line where
//! nothing needs more. The text is only ever tokenized. `$ref`s are inlined; recursion and total size are capped.

use crate::error::{Error, Kind, Result};
use crate::json_text::spaced;
use crate::limits;
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// A type as it is written: comment lines above it, the type, a note behind it.
#[derive(Default)]
struct Written {
    comments: String,
    text: String,
    notes: Vec<String>,
}

impl Written {
    fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Whether it can stand inside a line.
    fn inline(&self) -> bool {
        self.comments.is_empty() && self.notes.is_empty() && !self.text.contains('\n')
    }

    fn note(&self) -> String {
        if self.notes.is_empty() { String::new() } else { format!(" // {}", self.notes.join(", ")) }
    }
}

/// Renders the schemas under one root (the target of its `$ref`s).
pub(super) struct Typescript<'a> {
    root: &'a Value,
    /// References that are being written: one that comes back to itself is named, not followed.
    open: Vec<String>,
    /// Bytes that may still be written: `$ref`s inlined many times over can grow without bound.
    left: usize,
}

/// The text of one function in a namespace, its blank line included: comments, then `type NAME = (_: …) => any;`.
pub(super) fn function(name: &str, description: Option<&str>, parameters: Option<&Value>) -> Result<String> {
    let mut out = String::new();
    if let Some(text) = description {
        comment_lines(&mut out, text.lines().map(str::trim).filter(|line| !line.is_empty()));
    }
    let has_properties = parameters.and_then(|p| p.get("properties")).and_then(Value::as_object).is_some_and(|p| !p.is_empty());
    let composed = parameters.is_some_and(|p| ["anyOf", "oneOf", "allOf", "$ref"].iter().any(|key| p.get(key).is_some()));
    match parameters {
        Some(root) if has_properties || composed => {
            let mut typescript = Typescript { root, open: vec!["#".to_owned()], left: limits::MAX_RENDERED_SCHEMA_BYTES };
            let written = typescript.write(root, 0)?;
            let _ = write!(out, "type {name} = (_: {}{}{}) => any;\n\n", written.comments, written.text, written.note());
        }
        _ => {
            let _ = write!(out, "type {name} = () => any;\n\n");
        }
    }
    Ok(out)
}

fn comment_lines<'t>(out: &mut String, lines: impl Iterator<Item = &'t str>) {
    for line in lines {
        out.push_str("//");
        if !line.is_empty() {
            out.push(' ');
            out.push_str(line);
        }
        out.push('\n');
    }
}

/// Comment lines of a node: title, description, examples.
fn comments(node: &Map<String, Value>) -> String {
    let mut out = String::new();
    let text = |key: &str| node.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (title, description) = (text("title"), text("description"));
    if let Some(title) = title {
        comment_lines(&mut out, title.lines());
        if description.is_some() {
            out.push_str("//\n");
        }
    }
    if let Some(description) = description {
        comment_lines(&mut out, description.lines());
    }
    match node.get("examples").and_then(Value::as_array).map(Vec::as_slice) {
        Some([only]) => comment_lines(&mut out, [format!("Example: {}", spaced(only)).as_str()].into_iter()),
        Some([]) | None => {}
        Some(several) => {
            out.push_str("// Examples:\n");
            for example in several {
                comment_lines(&mut out, [format!("- {}", spaced(example)).as_str()].into_iter());
            }
        }
    }
    out
}

/// Notes on a node's values, in the order in which they are written.
fn notes(node: &Map<String, Value>) -> Vec<String> {
    let mut notes = Vec::new();
    let whole = node.get("type").and_then(Value::as_str) == Some("integer");
    for key in
        ["minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems"]
    {
        match node.get(key) {
            // Bounds of a `number` are written as floats, those of anything else as they came.
            Some(Value::Number(n)) if !whole && n.is_i64() && (key.ends_with("imum") || key == "multipleOf") => {
                notes.push(format!("{key}: {n}.0"));
            }
            Some(Value::Number(n)) => notes.push(format!("{key}: {n}")),
            _ => {}
        }
    }
    if let Some(pattern) = node.get("pattern").and_then(Value::as_str) {
        notes.push(format!("pattern: /{pattern}/"));
    }
    if let Some(format) = node.get("format").and_then(Value::as_str) {
        notes.push(format!("format: \"{format}\""));
    }
    notes
}

impl Typescript<'_> {
    /// A node with its own comments and notes.
    fn write(&mut self, schema: &Value, depth: usize) -> Result<Written> {
        let node = match schema {
            Value::Object(node) => node,
            Value::Bool(false) => return Ok(Written::plain("never")),
            _ => return Ok(Written::plain("any")),
        };
        if let Some(reference) = node.get("$ref").and_then(Value::as_str) {
            return self.reference(reference, node, depth);
        }
        let mut written = self.bare(node, depth)?;
        written.comments = comments(node);
        let mut all = notes(node);
        all.append(&mut written.notes);
        written.notes = all;
        if let Some(default) = node.get("default") {
            let note = format!("default: {}", spaced(default));
            // A note can't stand behind a union of several lines, so it moves up among the comments.
            if written.text.starts_with('\n') {
                comment_lines(&mut written.comments, [note.as_str()].into_iter());
            } else {
                written.notes.push(note);
            }
        }
        self.left = self.left.checked_sub(written.text.len() + written.comments.len()).ok_or_else(|| {
            Error::new(Kind::LimitExceeded, format!("a tool's schema renders to more than {} bytes", limits::MAX_RENDERED_SCHEMA_BYTES))
        })?;
        Ok(written)
    }

    /// A `$ref`, replaced by its target; keywords beside it win over the target's own.
    fn reference(&mut self, reference: &str, node: &Map<String, Value>, depth: usize) -> Result<Written> {
        let root = self.root;
        let target = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        match target {
            Some(target) if depth < limits::MAX_SCHEMA_DEPTH && !self.open.iter().any(|open| open == reference) => {
                self.open.push(reference.to_owned());
                let written = if node.len() == 1 {
                    self.write(target, depth + 1)
                } else {
                    let mut merged = target.as_object().cloned().unwrap_or_default();
                    merged.extend(node.iter().filter(|(key, _)| *key != "$ref").map(|(key, value)| (key.clone(), value.clone())));
                    self.write(&Value::Object(merged), depth + 1)
                };
                self.open.pop();
                written
            }
            _ => Ok(Written { notes: vec![format!("$ref: \"{reference}\"")], ..Written::plain("any") }),
        }
    }

    /// The type alone, without the node's own comments and notes.
    fn bare(&mut self, node: &Map<String, Value>, depth: usize) -> Result<Written> {
        if depth >= limits::MAX_SCHEMA_DEPTH {
            return Ok(Written::plain("any"));
        }
        let depth = depth + 1;
        if let Some(value) = node.get("const") {
            return Ok(Written::plain(spaced(value)));
        }
        if let Some(values) = node.get("enum").and_then(Value::as_array).filter(|values| !values.is_empty()) {
            return Ok(Written::plain(values.iter().map(spaced).collect::<Vec<_>>().join(" | ")));
        }
        for (key, sign) in [("anyOf", '|'), ("oneOf", '|'), ("allOf", '&')] {
            if let Some(variants) = node.get(key).and_then(Value::as_array).filter(|variants| !variants.is_empty()) {
                let written = variants.iter().map(|variant| self.write(variant, depth)).collect::<Result<Vec<_>>>()?;
                return Ok(Written::plain(join(&written, sign)));
            }
        }
        if let Some(never) = node.get("not") {
            let inner = self.write(never, depth)?;
            return Ok(Written::plain(format!("Exclude<any, {}>", inner.text)));
        }
        match node.get("type") {
            Some(Value::String(name)) => self.named(name, node, depth),
            Some(Value::Array(names)) if !names.is_empty() => {
                let own = node.get("description").and_then(Value::as_str).map(|text| {
                    let mut lines = String::new();
                    comment_lines(&mut lines, text.lines());
                    lines
                });
                let mut variants = Vec::with_capacity(names.len());
                for name in names.iter().filter_map(Value::as_str) {
                    let mut written = self.named(name, node, depth)?;
                    // The list is expanded into variants that each keep the description.
                    written.comments = own.clone().unwrap_or_default();
                    variants.push(written);
                }
                Ok(Written::plain(join(&variants, '|')))
            }
            _ if node.contains_key("properties") => self.object(node, depth),
            _ if node.contains_key("items") => self.array(node, depth),
            _ => Ok(Written::plain("any")),
        }
    }

    fn named(&mut self, name: &str, node: &Map<String, Value>, depth: usize) -> Result<Written> {
        let text = match name {
            "integer" | "number" => "number",
            "string" | "boolean" | "null" => name,
            "array" => return self.array(node, depth),
            "object" => return self.object(node, depth),
            _ => "any",
        };
        let nullable = node.get("nullable").and_then(Value::as_bool) == Some(true);
        Ok(Written::plain(if nullable { format!("{text} | null") } else { text.to_owned() }))
    }

    fn array(&mut self, node: &Map<String, Value>, depth: usize) -> Result<Written> {
        let Some(items) = node.get("items") else { return Ok(Written::plain("any[]")) };
        let item = self.write(items, depth)?;
        Ok(Written::plain(if item.inline() {
            format!("{}[]", item.text)
        } else {
            format!("Array<\n{}{}{}\n>", item.comments, item.text.trim_start_matches('\n').trim_end_matches('\n'), item.note())
        }))
    }

    fn object(&mut self, node: &Map<String, Value>, depth: usize) -> Result<Written> {
        let empty = Map::new();
        let properties = node.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let required: Vec<&str> = node
            .get("required")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let mut members = Vec::with_capacity(properties.len());
        for (name, schema) in properties {
            let mark = if required.contains(&name.as_str()) { "" } else { "?" };
            members.push((format!("{name}{mark}:"), self.write(schema, depth)?));
        }
        match node.get("additionalProperties") {
            Some(Value::Bool(true)) if !members.is_empty() => members.push(("[key: string]:".to_owned(), Written::plain("any"))),
            Some(schema @ Value::Object(map)) if !map.is_empty() => {
                members.push(("[key: string]:".to_owned(), self.write(schema, depth)?));
            }
            _ => {}
        }
        if members.is_empty() {
            return Ok(Written::plain("object"));
        }
        if members.iter().all(|(_, written)| written.inline()) {
            let inside: Vec<String> = members.iter().map(|(head, written)| format!("{head} {}", written.text)).collect();
            return Ok(Written::plain(format!("{{ {} }}", inside.join(", "))));
        }
        let mut out = "{\n".to_owned();
        for (head, written) in members {
            let gap = if written.text.starts_with('\n') { "" } else { " " };
            let _ = writeln!(out, "{}{head}{gap}{},{}", written.comments, written.text, written.note());
        }
        out.push('}');
        Ok(Written::plain(out))
    }
}

/// Variants in one line where all can stand in one, else one a line, with a line break before and after them all.
fn join(variants: &[Written], sign: char) -> String {
    if variants.iter().all(Written::inline) {
        let texts: Vec<&str> = variants.iter().map(|variant| variant.text.as_str()).collect();
        return texts.join(&format!(" {sign} "));
    }
    let mut out = String::new();
    for variant in variants {
        let _ = write!(out, "\n{} {sign} {}{}", variant.comments, variant.text.trim_matches('\n'), variant.note());
    }
    out.push('\n');
    out
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
