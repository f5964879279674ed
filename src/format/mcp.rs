//! MCP `tools/list` results: tools alone, as a view without messages.
//!
//! Called through [`Request::conversation`]. Takes one result (`{"tools": […]}`), one JSON-RPC reply around it
//! (`{"result": {…}}`), or an array of either, as several servers or pages give them. Counts nothing.

use super::read::{Fields, capped, join, nth, wrong};
use super::{Conversation, Format, Options, Request, ResponseFormat, Tool, ToolChoice, ToolKind};
use crate::error::{Error, Result};
use crate::limits;
use serde_json::{Map, Value};
use std::sync::LazyLock;

/// The body of a view over an array, which has no fields of its own.
static NO_FIELDS: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

pub(super) fn view(request: &Request) -> Result<Conversation<'_>> {
    let mut tools = Vec::new();
    let body = match request.value() {
        Value::Object(map) => {
            result(request.value(), "", &mut tools)?;
            map
        }
        Value::Array(results) => {
            for (i, value) in results.iter().enumerate() {
                result(value, &nth("", i), &mut tools)?;
            }
            &NO_FIELDS
        }
        other => return Err(wrong("", "a tools/list result or an array of them", other)),
    };
    Ok(Conversation {
        format: Format::Mcp,
        body,
        model: None,
        messages: Vec::new(),
        tools,
        tool_choice: ToolChoice::Default,
        response_format: ResponseFormat::Text,
        options: Options::default(),
        unbounded: Vec::new(),
    })
}

/// One result, with or without its JSON-RPC envelope.
fn result<'a>(value: &'a Value, place: &str, tools: &mut Vec<Tool<'a>>) -> Result<()> {
    let fields = Fields::of(value, place)?;
    if let Some(inner) = fields.get("result") {
        return list(&Fields::of(inner, &join(place, "result"))?, tools);
    }
    list(&fields, tools)
}

fn list<'a>(fields: &Fields<'a, '_>, tools: &mut Vec<Tool<'a>>) -> Result<()> {
    let Some(found) = fields.array("tools")? else {
        return Err(Error::invalid(fields.place, "`tools` is missing; expected the array of a tools/list result"));
    };
    capped(found, limits::MAX_TOOLS.saturating_sub(tools.len()), "more tools", &fields.at("tools"))?;
    for (i, raw) in found.iter().enumerate() {
        tools.push(tool(raw, nth(&fields.at("tools"), i))?);
    }
    Ok(())
}

fn tool(raw: &Value, place: String) -> Result<Tool<'_>> {
    let fields = Fields::of(raw, &place)?;
    let (name, description) = (fields.need_str("name")?, fields.str("description")?);
    let parameters = match fields.get("inputSchema") {
        Some(other) if !other.is_object() => return Err(wrong(&fields.at("inputSchema"), "an object", other)),
        schema => schema,
    };
    Ok(Tool { raw, kind: ToolKind::Function, name, description, parameters, legacy: false, deferred: false, place })
}

#[cfg(test)]
mod tests {
    use crate::format::{Format, Request};

    #[test]
    fn one_result_an_envelope_and_an_array() {
        let one = r#"{"tools":[{"name":"read","inputSchema":{"type":"object"}}],"nextCursor":"x"}"#;
        let wrapped = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"write"}]}}"#;
        let both = format!("[{one},{wrapped}]");
        for (text, places) in
            [(one, vec!["/tools/0"]), (wrapped, vec!["/result/tools/0"]), (both.as_str(), vec!["/0/tools/0", "/1/result/tools/0"])]
        {
            let request = Request::parse(text.as_bytes(), Format::Mcp).unwrap();
            let view = request.conversation().unwrap();
            assert_eq!(view.tools.iter().map(|tool| tool.place.as_str()).collect::<Vec<_>>(), places);
        }
    }

    #[test]
    fn errors_name_the_place() {
        for (text, place) in [
            ("{}", ""),
            (r#"{"tools":{}}"#, "/tools"),
            (r#"[{"tools":[{}]}]"#, "/0/tools/0"),
            (r#"{"tools":[{"name":"a","inputSchema":3}]}"#, "/tools/0/inputSchema"),
        ] {
            let request = Request::parse(text.as_bytes(), Format::Mcp).unwrap();
            assert_eq!(request.conversation().unwrap_err().path(), Some(place), "{text}");
        }
    }
}
