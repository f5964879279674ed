//! Arguments against a tool's JSON Schema.
//!
//! The gate compiles each schema once. Needs the feature `schema`; without it arguments are checked to be a JSON object and
//! the gate says that more can't be checked. Remote references are never fetched. The draft is the one that `$schema` names.

use serde_json::Value;

/// A tool's schema, ready to judge.
#[derive(Debug)]
pub(super) enum Schema {
    /// None given, or one that allows anything.
    Any,
    /// It can't be used: why. Without the feature this holds for every schema.
    Unusable(String),
    #[cfg(feature = "schema")]
    Compiled(Box<jsonschema::Validator>),
}

impl Schema {
    pub(super) fn new(schema: Option<&Value>) -> Self {
        match schema {
            None | Some(Value::Null | Value::Bool(true)) => Self::Any,
            Some(Value::Object(map)) if map.is_empty() => Self::Any,
            Some(schema) => compile(schema),
        }
    }

    /// What is wrong with `arguments`, naming places and rules but no values; `None` when nothing is.
    #[cfg_attr(not(feature = "schema"), expect(unused_variables, reason = "nothing can be checked without the feature"))]
    pub(super) fn complaint(&self, arguments: &Value) -> Option<String> {
        match self {
            Self::Any | Self::Unusable(_) => None,
            #[cfg(feature = "schema")]
            Self::Compiled(validator) => {
                let error = validator.iter_errors(arguments).next()?;
                let place = error.instance_path().to_string();
                let place = if place.is_empty() { "the arguments" } else { &place };
                Some(format!("{place}: {}", error.masked_with("the value")).chars().take(400).collect())
            }
        }
    }
}

#[cfg(feature = "schema")]
fn compile(schema: &Value) -> Schema {
    // Gemini writes types in capitals; the rest of its schemas is JSON Schema.
    let lowered = lower_types(schema);
    match jsonschema::options().build(&lowered) {
        Ok(validator) => Schema::Compiled(Box::new(validator)),
        Err(error) => Schema::Unusable(error.masked().to_string().chars().take(200).collect()),
    }
}

#[cfg(not(feature = "schema"))]
fn compile(_: &Value) -> Schema {
    Schema::Unusable("this build has no schema support (feature `schema`)".to_owned())
}

/// The schema with `"STRING"`, `"OBJECT"` and so on in the spelling of JSON Schema.
#[cfg(feature = "schema")]
fn lower_types(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            let entry = |(key, value): (&String, &Value)| {
                let lowered = match value {
                    Value::String(kind) if key == "type" => Value::String(kind.to_ascii_lowercase()),
                    // Literal values are no schemas.
                    _ if matches!(key.as_str(), "enum" | "const" | "default" | "examples") => value.clone(),
                    _ => lower_types(value),
                };
                (key.clone(), lowered)
            };
            Value::Object(map.iter().map(entry).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(lower_types).collect()),
        other => other.clone(),
    }
}
