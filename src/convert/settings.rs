//! Everything of a request but its history: tools, limits, sampling, output format. What has no place in the target is listed.
//!
//! Called by [`super::convert`] after the history. Top-level fields that are neither known nor covered by the view are listed by name.

use super::Out;
use super::chat;
use crate::format::{Conversation, Format, ResponseFormat, ToolChoice, ToolKind};
use crate::mcp::acceptable_schema;
use serde_json::{Map, Value, json};

/// Sampling fields by format: chat, responses, anthropic, gemini. `None`: the target hasn't got it.
const SAMPLING: [[Option<&str>; 4]; 5] = [
    [Some("temperature"), Some("temperature"), Some("temperature"), Some("temperature")],
    [Some("top_p"), Some("top_p"), Some("top_p"), Some("topP")],
    [Some("stop"), None, Some("stop_sequences"), Some("stopSequences")],
    [None, None, Some("top_k"), Some("topK")],
    [Some("seed"), None, None, Some("seed")],
];

/// Fields that the view covers, in any format.
const COVERED: [&str; 33] = [
    "model",
    "messages",
    "input",
    "contents",
    "system",
    "instructions",
    "systemInstruction",
    "system_instruction",
    "tools",
    "functions",
    "tool_choice",
    "function_call",
    "toolConfig",
    "tool_config",
    "response_format",
    "text",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "stream",
    "n",
    "generationConfig",
    "generation_config",
    "inferenceConfig",
    "temperature",
    "top_p",
    "stop",
    "stop_sequences",
    "top_k",
    "seed",
    "stream_options",
    "reasoning_effort",
    "store",
];

fn column(format: Format) -> Option<usize> {
    [Format::Chat, Format::Responses, Format::Anthropic, Format::Gemini].iter().position(|f| *f == format)
}

pub(super) fn write(conversation: &Conversation<'_>, to: Format, out: &mut Out<'_>) {
    tools(conversation, to, out);
    let mut config = Map::new();
    sampling(conversation, to, &mut config, out);
    limits(conversation, to, &mut config, out);
    response_format(conversation, to, &mut config, out);
    if to == Format::Gemini && !config.is_empty() {
        out.body.insert("generationConfig".to_owned(), Value::Object(config));
    } else {
        out.body.append(&mut config);
    }
    if conversation.options.stream && to != Format::Gemini {
        out.body.insert("stream".to_owned(), json!(true));
    }
    if conversation.options.effort.is_some() || conversation.options.thinking_budget.is_some() {
        out.lose("", "the reasoning settings: each provider has scales of its own");
    }
    let unknown: Vec<String> = conversation.body.keys().filter(|key| !COVERED.contains(&key.as_str())).cloned().collect();
    for key in unknown {
        out.lose(&format!("/{key}"), "a field that has no counterpart");
    }
}

fn tools(conversation: &Conversation<'_>, to: Format, out: &mut Out<'_>) {
    let mut written = Vec::new();
    for tool in &conversation.tools {
        if tool.kind != ToolKind::Function {
            out.lose(&tool.place, "a tool that only its provider has");
            continue;
        }
        let (schema, dropped) = acceptable_schema(tool.parameters, to);
        for lost in dropped {
            out.lose(&tool.place, format!("in the schema at `{}`: {}", lost.place, lost.what));
        }
        let plain = |key: &str| {
            let mut map = Map::new();
            map.insert("name".to_owned(), json!(tool.name));
            if let Some(description) = tool.description {
                map.insert("description".to_owned(), json!(description));
            }
            map.insert(key.to_owned(), schema.clone());
            map
        };
        written.push(match to {
            Format::Chat => chat::tool(tool.name, tool.description, schema.clone()),
            Format::Responses => {
                let mut map = plain("parameters");
                map.insert("type".to_owned(), json!("function"));
                map.insert("strict".to_owned(), json!(false));
                Value::Object(map)
            }
            Format::Anthropic => Value::Object(plain("input_schema")),
            _ => Value::Object(plain("parameters")),
        });
    }
    if written.is_empty() {
        return;
    }
    let written = if to == Format::Gemini { vec![json!({"functionDeclarations": written})] } else { written };
    out.body.insert("tools".to_owned(), Value::Array(written));
    let choice = conversation.tool_choice;
    let (key, value) = match (to, choice) {
        (_, ToolChoice::Default) => return,
        (_, ToolChoice::Other) => {
            out.lose("/tool_choice", "a tool choice that has no counterpart");
            return;
        }
        (Format::Chat, ToolChoice::Named(name)) => ("tool_choice", json!({"type": "function", "function": {"name": name}})),
        (Format::Responses, ToolChoice::Named(name)) => ("tool_choice", json!({"type": "function", "name": name})),
        (Format::Anthropic, choice) => {
            let choice = match choice {
                ToolChoice::None => json!({"type": "none"}),
                ToolChoice::Required => json!({"type": "any"}),
                ToolChoice::Named(name) => json!({"type": "tool", "name": name}),
                _ => json!({"type": "auto"}),
            };
            ("tool_choice", choice)
        }
        (Format::Gemini, choice) => {
            let config = match choice {
                ToolChoice::None => json!({"mode": "NONE"}),
                ToolChoice::Required => json!({"mode": "ANY"}),
                ToolChoice::Named(name) => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
                _ => json!({"mode": "AUTO"}),
            };
            ("toolConfig", json!({"functionCallingConfig": config}))
        }
        (_, ToolChoice::None) => ("tool_choice", json!("none")),
        (_, ToolChoice::Required) => ("tool_choice", json!("required")),
        _ => ("tool_choice", json!("auto")),
    };
    out.body.insert(key.to_owned(), value);
}

fn sampling(conversation: &Conversation<'_>, to: Format, config: &mut Map<String, Value>, out: &mut Out<'_>) {
    let (Some(from), Some(to_column)) = (column(conversation.format), column(to)) else {
        if conversation.body.contains_key("inferenceConfig") {
            out.lose("/inferenceConfig", "the sampling settings");
        }
        return;
    };
    let settings = ["generationConfig", "generation_config"].iter().find_map(|key| conversation.body.get(*key)).and_then(Value::as_object);
    for row in SAMPLING {
        let Some(name) = row[from] else { continue };
        let source =
            if conversation.format == Format::Gemini { settings.and_then(|map| map.get(name)) } else { conversation.body.get(name) };
        let Some(value) = source.filter(|value| !value.is_null()) else { continue };
        match row[to_column] {
            Some(target) => {
                // OpenAI takes one stop text without a list; the others want the list.
                let value = if name == "stop" && value.is_string() { json!([value]) } else { value.clone() };
                config.insert(target.to_owned(), value);
            }
            None => out.lose(&format!("/{name}"), "a sampling setting that the target hasn't got"),
        }
    }
}

fn limits(conversation: &Conversation<'_>, to: Format, config: &mut Map<String, Value>, out: &mut Out<'_>) {
    let asked = conversation.options.max_output.map(|(tokens, _)| tokens);
    match (to, asked) {
        (Format::Chat, Some(tokens)) => drop(config.insert("max_completion_tokens".to_owned(), json!(tokens))),
        (Format::Responses, Some(tokens)) => drop(config.insert("max_output_tokens".to_owned(), json!(tokens))),
        (Format::Gemini, Some(tokens)) => drop(config.insert("maxOutputTokens".to_owned(), json!(tokens))),
        (Format::Anthropic, Some(tokens)) => drop(config.insert("max_tokens".to_owned(), json!(tokens))),
        (Format::Anthropic, None) => {
            out.lose("", "no output limit was given; Anthropic needs one, so that 4096 was put in");
            config.insert("max_tokens".to_owned(), json!(4096));
        }
        _ => {}
    }
    if let Some(choices) = conversation.options.choices.filter(|choices| *choices > 1) {
        match to {
            Format::Chat => drop(config.insert("n".to_owned(), json!(choices))),
            Format::Gemini => drop(config.insert("candidateCount".to_owned(), json!(choices))),
            _ => out.lose("", "several choices at once"),
        }
    }
}

fn response_format(conversation: &Conversation<'_>, to: Format, config: &mut Map<String, Value>, out: &mut Out<'_>) {
    match (to, conversation.response_format) {
        (_, ResponseFormat::Text) => {}
        (Format::Chat, ResponseFormat::JsonObject) => drop(config.insert("response_format".to_owned(), json!({"type": "json_object"}))),
        (Format::Chat, ResponseFormat::JsonSchema { name, schema, .. }) => {
            let named = json!({"name": name.unwrap_or("answer"), "schema": schema});
            config.insert("response_format".to_owned(), json!({"type": "json_schema", "json_schema": named}));
        }
        (Format::Responses, ResponseFormat::JsonObject) => {
            config.insert("text".to_owned(), json!({"format": {"type": "json_object"}}));
        }
        (Format::Responses, ResponseFormat::JsonSchema { name, schema, .. }) => {
            let format = json!({"type": "json_schema", "name": name.unwrap_or("answer"), "schema": schema});
            config.insert("text".to_owned(), json!({"format": format}));
        }
        (Format::Gemini, ResponseFormat::JsonObject) => drop(config.insert("responseMimeType".to_owned(), json!("application/json"))),
        (Format::Gemini, ResponseFormat::JsonSchema { schema, .. }) => {
            config.insert("responseMimeType".to_owned(), json!("application/json"));
            config.insert("responseJsonSchema".to_owned(), schema.clone());
        }
        _ => out.lose("", "the output format"),
    }
}
