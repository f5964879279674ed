//! The tools that the model is handed to read what was cut: their definitions in every format, and their answers.
//!
//! Hosts add the definitions to a request and pass matching calls to [`answer_page_call`]; the result is a tool message
//! ready to append. A model's mistakes (a wrong reference, a bad pattern) are answered as failed results that say
//! what to do; only a store that can't be used is an error of the host.

use super::handle::Pages;
use crate::error::{Error, Kind, Result};
use crate::format::Format;
use serde_json::{Value, json};

/// Name of the tool that reads a kept result page by page.
pub const READ_TOOL: &str = "read_tool_result";
/// Name of the tool that searches a kept result.
pub const SEARCH_TOOL: &str = "search_tool_result";

/// Hits given to a model that names no limit.
const DEFAULT_HITS: u64 = 20;

/// Both tools as entries of the format's list of tools (Gemini: one entry that declares both).
pub fn page_tool_definitions(format: Format) -> Vec<Value> {
    let tools = [
        (
            READ_TOOL,
            "Read a stored tool result that was shortened or cleared in this conversation, one page at a time.",
            json!({"type": "object", "properties": {
                "ref": {"type": "string", "description": "The reference, such as pg_0123456789abcdef"},
                "page": {"type": "integer", "description": "Page number, from 1"}
            }, "required": ["ref"]}),
        ),
        (
            SEARCH_TOOL,
            "Search a stored tool result by regular expression; gives the matching lines with line and page numbers.",
            json!({"type": "object", "properties": {
                "ref": {"type": "string", "description": "The reference, such as pg_0123456789abcdef"},
                "pattern": {"type": "string", "description": "Regular expression (no look-around), matched line by line"},
                "limit": {"type": "integer", "description": "Most matches to give; 20 unless told"}
            }, "required": ["ref", "pattern"]}),
        ),
    ];
    let one = |(name, description, schema): (&str, &str, Value)| match format {
        Format::Chat => json!({"type": "function", "function": {"name": name, "description": description, "parameters": schema}}),
        Format::Responses => json!({"type": "function", "name": name, "description": description, "parameters": schema, "strict": false}),
        Format::Anthropic => json!({"name": name, "description": description, "input_schema": schema}),
        Format::Gemini => json!({"name": name, "description": description, "parameters": schema}),
        Format::Converse => json!({"toolSpec": {"name": name, "description": description, "inputSchema": {"json": schema}}}),
        Format::Mcp => json!({"name": name, "description": description, "inputSchema": schema}),
    };
    let list: Vec<Value> = tools.into_iter().map(one).collect();
    if format == Format::Gemini { vec![json!({"functionDeclarations": list})] } else { list }
}

/// Answers a call of one of the two tools; `None` for a call of another tool.
///
/// `call` is the call as the format carries it: an element of `tool_calls`, a `function_call` item, a `tool_use` block, a part
/// with `functionCall`, a block with `toolUse`, or the `params` of an MCP `tools/call`. The answer is the message, item, block or
/// part that carries the result.
///
/// # Errors
/// [`Kind::InvalidInput`] when `call` is no call of the format; [`Kind::Unavailable`] or [`Kind::Corrupt`] from the store.
pub fn answer_page_call(pages: &Pages, format: Format, call: &Value) -> Result<Option<Value>> {
    let (id_key, inner) = match format {
        Format::Chat => ("id", &call["function"]),
        Format::Responses => ("call_id", call),
        Format::Gemini => ("id", call.get("functionCall").unwrap_or(call)),
        Format::Converse => ("toolUseId", call.get("toolUse").unwrap_or(call)),
        Format::Anthropic | Format::Mcp => ("id", call),
    };
    let name =
        inner["name"].as_str().ok_or_else(|| Error::invalid("", format!("not a tool call of the {format} format: it has no name")))?;
    if name != READ_TOOL && name != SEARCH_TOOL {
        return Ok(None);
    }
    let arguments = ["arguments", "input", "args"].iter().find_map(|key| inner.get(key));
    let parsed = match arguments {
        Some(Value::String(text)) => serde_json::from_str(text).unwrap_or(Value::Null),
        Some(value) => value.clone(),
        None => Value::Null,
    };
    let (text, failed) = match answer(pages, name, &parsed) {
        Ok(text) => (text, false),
        Err(error) if matches!(error.kind(), Kind::NotFound | Kind::InvalidInput | Kind::LimitExceeded) => {
            (format!("Error: {error}"), true)
        }
        Err(error) => return Err(error.context(format!("answering {name}"))),
    };
    let id = if format == Format::Chat { &call[id_key] } else { &inner[id_key] };
    Ok(Some(match format {
        Format::Chat => json!({"role": "tool", "tool_call_id": id, "content": text}),
        Format::Responses => json!({"type": "function_call_output", "call_id": id, "output": text}),
        Format::Anthropic if failed => json!({"type": "tool_result", "tool_use_id": id, "content": text, "is_error": true}),
        Format::Anthropic => json!({"type": "tool_result", "tool_use_id": id, "content": text}),
        Format::Gemini => {
            let mut response = json!({"name": name, "response": {if failed { "error" } else { "output" }: text}});
            if !id.is_null() {
                response["id"] = id.clone();
            }
            json!({"functionResponse": response})
        }
        Format::Converse => {
            let status = if failed { "error" } else { "success" };
            json!({"toolResult": {"toolUseId": id, "content": [{"text": text}], "status": status}})
        }
        Format::Mcp => json!({"content": [{"type": "text", "text": text}], "isError": failed}),
    }))
}

/// The answer's text.
fn answer(pages: &Pages, name: &str, arguments: &Value) -> Result<String> {
    let text = |key: &str| {
        arguments[key].as_str().ok_or_else(|| Error::invalid("", format!("the argument `{key}` is missing; expected a string")))
    };
    let number = |key: &str, default: u64| match &arguments[key] {
        Value::Null => Ok(default),
        value => value
            .as_u64()
            .or_else(|| value.as_str().and_then(|s| s.trim().parse().ok()))
            .ok_or_else(|| Error::invalid("", format!("the argument `{key}` must be a whole number"))),
    };
    let reference = text("ref")?;
    if name == READ_TOOL {
        let page = pages.read(reference, usize::try_from(number("page", 1)?).unwrap_or(usize::MAX))?;
        return Ok(format!("[page {} of {}, from line {}]\n{}", page.number, page.of, page.first_line, page.text));
    }
    let limit = usize::try_from(number("limit", DEFAULT_HITS)?).unwrap_or(usize::MAX);
    let (hits, more) = pages.search(reference, text("pattern")?, limit)?;
    if hits.is_empty() {
        return Ok("no line matches".to_owned());
    }
    let mut out: String = hits.iter().map(|hit| format!("{} (page {}): {}\n", hit.line, hit.page, hit.text)).collect();
    if more {
        out.push_str("[more lines match; narrow the pattern or raise the limit]\n");
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_calls_of_every_format() {
        let pages = Pages::in_memory();
        let id = pages.keep("alpha\nbeta\n").unwrap();
        let args = json!({"ref": id, "pattern": "^b"});
        let calls = [
            (Format::Chat, json!({"id": "c1", "type": "function", "function": {"name": SEARCH_TOOL, "arguments": args.to_string()}})),
            (Format::Responses, json!({"type": "function_call", "call_id": "c1", "name": SEARCH_TOOL, "arguments": args.to_string()})),
            (Format::Anthropic, json!({"type": "tool_use", "id": "c1", "name": SEARCH_TOOL, "input": args})),
            (Format::Gemini, json!({"functionCall": {"id": "c1", "name": SEARCH_TOOL, "args": args}})),
            (Format::Converse, json!({"toolUse": {"toolUseId": "c1", "name": SEARCH_TOOL, "input": args}})),
            (Format::Mcp, json!({"name": SEARCH_TOOL, "arguments": args})),
        ];
        for (format, call) in calls {
            let answer = answer_page_call(&pages, format, &call).unwrap().unwrap().to_string();
            assert!(answer.contains("2 (page 1): beta") && (format == Format::Mcp || answer.contains("c1")), "{format}: {answer}");
            assert!(!page_tool_definitions(format).is_empty());
        }
        let wrong = json!({"type": "tool_use", "id": "c1", "name": READ_TOOL, "input": {"ref": "pg_0"}});
        assert_eq!(answer_page_call(&pages, Format::Anthropic, &wrong).unwrap().unwrap()["is_error"], true);
        let other = json!({"type": "tool_use", "id": "c1", "name": "ls", "input": {}});
        assert_eq!(answer_page_call(&pages, Format::Anthropic, &other).unwrap(), None);
    }
}
