//! Everything of a request but its history: tools, limits, sampling, output format. What has no place in the target is listed.
//!
//! Called by [`super::convert`] after the history. Fields that the view doesn't cover are listed by [`super::covered`].

use super::Out;
use super::chat;
use super::covered;
use crate::format::{Conversation, Format, ResponseFormat, ToolChoice, ToolKind};
use crate::mcp::acceptable_schema;
use serde_json::{Map, Value, json};

/// Sampling fields by format: chat, responses, anthropic, gemini, converse. `None`: the target hasn't got it.
const SAMPLING: [[Option<&str>; 5]; 5] = [
    [Some("temperature"), Some("temperature"), Some("temperature"), Some("temperature"), Some("temperature")],
    [Some("top_p"), Some("top_p"), Some("top_p"), Some("topP"), Some("topP")],
    [Some("stop"), None, Some("stop_sequences"), Some("stopSequences"), Some("stopSequences")],
    [None, None, Some("top_k"), Some("topK"), None],
    [Some("seed"), None, None, Some("seed"), None],
];

fn column(format: Format) -> Option<usize> {
    [Format::Chat, Format::Responses, Format::Anthropic, Format::Gemini, Format::Converse].iter().position(|f| *f == format)
}

pub(super) fn write(conversation: &Conversation<'_>, to: Format, out: &mut Out<'_>) {
    tools(conversation, to, out);
    let mut config = Map::new();
    sampling(conversation, to, &mut config, out);
    limits(conversation, to, &mut config, out);
    response_format(conversation, to, &mut config, out);
    let nested = match to {
        Format::Gemini => Some("generationConfig"),
        Format::Converse => Some("inferenceConfig"),
        _ => None,
    };
    if let Some(nested) = nested {
        if !config.is_empty() {
            out.body.insert(nested.to_owned(), Value::Object(config));
        }
    } else {
        out.body.append(&mut config);
    }
    if conversation.options.stream {
        if nested.is_none() {
            out.body.insert("stream".to_owned(), json!(true));
        } else {
            out.lose("/stream", "streaming, which this format asks for in the URL");
        }
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
            out.note(&tool.place, format!("in the schema at `{}`: {}", lost.place, lost.what));
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
            Format::Converse => {
                let mut map = plain("inputSchema");
                map.insert("inputSchema".to_owned(), json!({"json": schema}));
                json!({"toolSpec": map})
            }
            _ => Value::Object(plain("parameters")),
        });
    }
    let choice = conversation.tool_choice;
    // Where it stands, in each format's words.
    let place = ["tool_choice", "function_call", "toolConfig", "tool_config"].iter().find(|key| conversation.body.contains_key(**key));
    let place = match (conversation.format, place) {
        (Format::Converse, _) => "/toolConfig/toolChoice".to_owned(),
        (_, Some(key)) => format!("/{key}"),
        (_, None) => String::new(),
    };
    if written.is_empty() {
        if choice != ToolChoice::Default {
            out.lose(&place, "a tool choice without any tool to choose");
        }
        return;
    }
    if to == Format::Converse {
        let mut config = json!({"tools": written});
        let chosen = match choice {
            ToolChoice::Auto => Some(json!({"auto": {}})),
            ToolChoice::Required => Some(json!({"any": {}})),
            ToolChoice::Named(name) => Some(json!({"tool": {"name": name}})),
            ToolChoice::Default => None,
            ToolChoice::None | ToolChoice::Other => {
                out.lose(&place, "a tool choice that has no counterpart");
                None
            }
        };
        if let (Some(chosen), Some(map)) = (chosen, config.as_object_mut()) {
            map.insert("toolChoice".to_owned(), chosen);
        }
        out.body.insert("toolConfig".to_owned(), config);
        return;
    }
    let written = if to == Format::Gemini { vec![json!({"functionDeclarations": written})] } else { written };
    out.body.insert("tools".to_owned(), Value::Array(written));
    let (key, value) = match (to, choice) {
        (_, ToolChoice::Default) => return,
        (_, ToolChoice::Other) => {
            out.lose(&place, "a tool choice that has no counterpart");
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
    let (Some(from), Some(to_column)) = (column(conversation.format), column(to)) else { return };
    // Two formats keep them in an object of their own.
    let nest = match conversation.format {
        Format::Gemini => ["generationConfig", "generation_config"].into_iter().find(|key| conversation.body.contains_key(*key)),
        Format::Converse => Some("inferenceConfig"),
        _ => None,
    };
    let settings = match nest {
        Some(nest) => conversation.body.get(nest).and_then(Value::as_object),
        None => Some(conversation.body),
    };
    for row in SAMPLING {
        let Some(name) = row[from] else { continue };
        // Google's JSON takes both spellings.
        let is_it = |key: &str| key == name || nest.is_some() && covered::camel(key) == name;
        let found = settings.and_then(|map| map.iter().find(|(key, value)| is_it(key) && !value.is_null()));
        let Some((name, value)) = found else { continue };
        match row[to_column] {
            Some(target) => {
                // OpenAI takes one stop text without a list; the others want the list.
                let value = if name == "stop" && target != "stop" && value.is_string() { json!([value]) } else { value.clone() };
                config.insert(target.to_owned(), value);
            }
            None => out.lose(
                &nest.map_or_else(|| format!("/{name}"), |nest| format!("/{nest}/{name}")),
                "a sampling setting that the target hasn't got",
            ),
        }
    }
}

fn limits(conversation: &Conversation<'_>, to: Format, config: &mut Map<String, Value>, out: &mut Out<'_>) {
    let asked = conversation.options.max_output.map(|(tokens, _)| tokens);
    match (to, asked) {
        (Format::Chat, Some(tokens)) => drop(config.insert("max_completion_tokens".to_owned(), json!(tokens))),
        (Format::Responses, Some(tokens)) => drop(config.insert("max_output_tokens".to_owned(), json!(tokens))),
        (Format::Gemini, Some(tokens)) => drop(config.insert("maxOutputTokens".to_owned(), json!(tokens))),
        (Format::Converse, Some(tokens)) => drop(config.insert("maxTokens".to_owned(), json!(tokens))),
        (Format::Anthropic, Some(tokens)) => drop(config.insert("max_tokens".to_owned(), json!(tokens))),
        (Format::Anthropic, None) => {
            out.note("", "no output limit was given; Anthropic needs one, so that 4096 was put in");
            config.insert("max_tokens".to_owned(), json!(4096));
        }
        _ => {}
    }
    if let Some(choices) = conversation.options.choices.filter(|choices| *choices > 1) {
        match to {
            Format::Chat => drop(config.insert("n".to_owned(), json!(choices))),
            Format::Gemini => drop(config.insert("candidateCount".to_owned(), json!(choices))),
            _ if conversation.format == Format::Gemini => out.lose("/generationConfig/candidateCount", "several choices at once"),
            _ => out.lose("/n", "several choices at once"),
        }
    }
}

fn response_format(conversation: &Conversation<'_>, to: Format, config: &mut Map<String, Value>, out: &mut Out<'_>) {
    let place = match conversation.format {
        Format::Chat | Format::Mcp => "/response_format",
        Format::Responses => "/text/format",
        Format::Anthropic if conversation.body.contains_key("output_format") => "/output_format",
        Format::Anthropic => "/output_config/format",
        Format::Gemini => "/generationConfig/responseSchema",
        Format::Converse => "/outputConfig/textFormat",
    };
    let (name, description, schema) = match conversation.response_format {
        ResponseFormat::Text => return,
        ResponseFormat::Other(_) => {
            out.note(place, "the output format");
            return;
        }
        ResponseFormat::JsonObject => match to {
            Format::Chat => {
                config.insert("response_format".to_owned(), json!({"type": "json_object"}));
                return;
            }
            Format::Responses => {
                config.insert("text".to_owned(), json!({"format": {"type": "json_object"}}));
                return;
            }
            Format::Gemini => {
                config.insert("responseMimeType".to_owned(), json!("application/json"));
                return;
            }
            Format::Anthropic | Format::Converse | Format::Mcp => {
                out.note(place, "the output format");
                return;
            }
        },
        // Converse carries the schema as text.
        ResponseFormat::JsonSchema { name, description, schema } => {
            let parsed = schema.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
            (name, description, parsed.unwrap_or_else(|| schema.clone()))
        }
    };
    let mut named = Map::new();
    named.insert("name".to_owned(), json!(name.unwrap_or("answer")));
    if let Some(description) = description {
        named.insert("description".to_owned(), json!(description));
    }
    match to {
        Format::Chat => {
            named.insert("schema".to_owned(), schema);
            config.insert("response_format".to_owned(), json!({"type": "json_schema", "json_schema": named}));
        }
        Format::Responses => {
            named.insert("type".to_owned(), json!("json_schema"));
            named.insert("schema".to_owned(), schema);
            config.insert("text".to_owned(), json!({"format": named}));
        }
        Format::Converse => {
            named.insert("schema".to_owned(), json!(schema.to_string()));
            let format = json!({"type": "json_schema", "structure": {"jsonSchema": named}});
            out.body.insert("outputConfig".to_owned(), json!({"textFormat": format}));
        }
        Format::Gemini => {
            config.insert("responseMimeType".to_owned(), json!("application/json"));
            config.insert("responseJsonSchema".to_owned(), schema);
            if name.is_some() || description.is_some() {
                out.note(place, "the output format's name and description");
            }
        }
        Format::Anthropic | Format::Mcp => out.note(place, "the output format"),
    }
}
