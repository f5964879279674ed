//! What of a body the view covers, by format: everything else is listed as lost, field by field.
//!
//! Called by [`super::convert`] last. A converter that reads only what it knows loses the rest in silence; here the source is walked whole, and each
//! field that no pattern covers is named. What a pattern covers is the writers' to carry over or to list. Handles that only the provider itself can
//! use (ids of response items, `status` marks) count as covered.

use super::Out;
use crate::format::{Format, Place};
use serde_json::Value;
use std::borrow::Cow;

/// A pattern's segments: names (alternatives divided by `|`), `*` for any member of a list, `**` for all that follows.
type Pattern<'a> = &'a [&'a str];

const CHAT: &str = "
model|stream|n|temperature|top_p|seed|max_tokens|max_completion_tokens
stop|tool_choice|function_call
stop/*
tool_choice/type|name
tool_choice/function/name
function_call/name
messages/*/role|content|name|tool_call_id|refusal
messages/*/content/*/type|text|refusal|image_url|video_url|audio_url|document_url|document_name|file_url|input_audio
messages/*/content/*/image_url|video_url|audio_url|document_url|file_url/url|detail
messages/*/content/*/file/filename|file_data|file_id
messages/*/content/*/input_audio/data|format
messages/*/tool_calls/*/id|type|index
messages/*/tool_calls/*/function/name
messages/*/tool_calls/*/function/arguments/**
messages/*/function_call/name|arguments
tools/*/type
tools/*/function/name|description
tools/*/function/parameters/**
functions/*/name|description
functions/*/parameters/**
response_format/type
response_format/json_schema/name|description
response_format/json_schema/schema/**";

const RESPONSES: &str = "
model|instructions|input|stream|temperature|top_p|max_output_tokens
tool_choice
tool_choice/type|name
input|instructions/*/type|role|content|id|status|name|call_id|output
input|instructions/*/arguments/**
input|instructions/*/content|output/*/type|text|refusal|image_url|detail|file_id|filename|file_data|file_url
input|instructions/*/content|output/*/image_url/url|detail
input|instructions/*/content|output/*/input_audio/data|format
tools/*/type|name|description
tools/*/parameters/**
tools/*/tools/*/type|name|description
tools/*/tools/*/parameters/**
text/format/type|name|description
text/format/schema/**";

const ANTHROPIC: &str = "
model|system|max_tokens|stream|temperature|top_p|top_k
stop_sequences/*
system/*/type|text
messages/*/role|content
messages/*/content/*/type|text|id|name|tool_use_id|content|is_error|title|thinking|signature|data
messages/*/content/*/input/**
messages/*/content/*/source/type|media_type|data|url|file_id|content
messages/*/content/*/content/*/type|text|title
messages/*/content/*/content/*/source/type|media_type|data|url|file_id|content
tools/*/type|name|description
tools/*/input_schema/**
tool_choice/type|name
output_format/type
output_format/schema/**
output_config/format/type
output_config/format/schema/**";

const GEMINI: &str = "
model|systemInstruction
contents/*/role
contents/*/parts/*/text|thought|thoughtSignature|mediaResolution
contents/*/parts/*/mediaResolution/level
contents/*/parts/*/inlineData|fileData/mimeType|data|fileUri|displayName
contents/*/parts/*/functionCall/id|name
contents/*/parts/*/functionCall/args/**
contents/*/parts/*/functionResponse/id|name
contents/*/parts/*/functionResponse/response/**
contents/*/parts/*/functionResponse/parts/*/text
contents/*/parts/*/functionResponse/parts/*/inlineData|fileData/mimeType|data|fileUri|displayName
systemInstruction/role
systemInstruction/parts/*/text
tools/*/functionDeclarations/*/name|description
tools/*/functionDeclarations/*/parameters|parametersJsonSchema/**
toolConfig/functionCallingConfig/mode
toolConfig/functionCallingConfig/allowedFunctionNames/*
generationConfig/temperature|topP|topK|seed|maxOutputTokens|candidateCount|responseMimeType
generationConfig/stopSequences/*
generationConfig/responseSchema|responseJsonSchema/**";

const CONVERSE: &str = "
modelId
system/*/text
system/*/guardContent/text/text
messages/*/role
messages/*/content/*/text
messages/*/content/*/guardContent/text/text
messages/*/content/*/image|document|video|audio/format|name
messages/*/content/*/image|document|video|audio/source/bytes|text
messages/*/content/*/image|document|video|audio/source/s3Location/uri
messages/*/content/*/reasoningContent/redactedContent
messages/*/content/*/reasoningContent/reasoningText/text|signature
messages/*/content/*/toolUse/toolUseId|name
messages/*/content/*/toolUse/input/**
messages/*/content/*/toolResult/toolUseId|status
messages/*/content/*/toolResult/content/*/text
messages/*/content/*/toolResult/content/*/json/**
messages/*/content/*/toolResult/content/*/image|document/format|name
messages/*/content/*/toolResult/content/*/image|document/source/bytes|text
messages/*/content/*/toolResult/content/*/image|document/source/s3Location/uri
toolConfig/tools/*/toolSpec/name|description
toolConfig/tools/*/toolSpec/inputSchema/json/**
toolConfig/toolChoice/tool/name
inferenceConfig/maxTokens|temperature|topP
inferenceConfig/stopSequences/*
outputConfig/textFormat/type
outputConfig/textFormat/structure/jsonSchema/name|description|schema";

const MCP: &str = "
tools/*/name|description
tools/*/inputSchema/**";

/// Lists every field of the source that no pattern of its format covers.
pub(super) fn list_rest(body: &serde_json::Map<String, Value>, out: &mut Out<'_>) {
    let table = match out.from {
        Format::Chat => CHAT,
        Format::Responses => RESPONSES,
        Format::Anthropic => ANTHROPIC,
        Format::Gemini => GEMINI,
        Format::Converse => CONVERSE,
        Format::Mcp => MCP,
    };
    let patterns: Vec<Vec<&str>> = table.split_whitespace().map(|line| line.split('/').collect()).collect();
    let patterns: Vec<Pattern<'_>> = patterns.iter().map(Vec::as_slice).collect();
    let mut place = Place::new();
    for (key, value) in body {
        member(key, value, &patterns, &mut place, out);
    }
}

/// One field: gone already, covered, or lost.
fn member(key: &str, value: &Value, patterns: &[Pattern<'_>], place: &mut Place, out: &mut Out<'_>) {
    let length = place.len();
    place.push('/');
    place.push_str(&key.replace('~', "~0").replace('/', "~1"));
    if !out.gone.contains(place.as_str()) {
        // Google's JSON takes both spellings.
        let name = if out.from == Format::Gemini { camel(key) } else { Cow::Borrowed(key) };
        let named = |first: &str| first == "**" || first.split('|').any(|one| one == name.as_ref());
        let next: Vec<Pattern<'_>> =
            patterns.iter().filter(|pattern| pattern.first().is_some_and(|first| named(first))).map(|p| rest(p)).collect();
        visit(value, &next, place, out);
    }
    place.truncate(length);
}

/// What is left of a pattern after its first segment; `**` stays.
fn rest(pattern: Pattern<'_>) -> Pattern<'_> {
    if pattern.first() == Some(&"**") { pattern } else { pattern.get(1..).unwrap_or_default() }
}

fn visit(value: &Value, patterns: &[Pattern<'_>], place: &mut Place, out: &mut Out<'_>) {
    if is_nothing(value) || patterns.iter().any(|pattern| pattern.first() == Some(&"**")) {
        return;
    }
    if patterns.is_empty() {
        out.lose(place, "a field that has no counterpart");
        return;
    }
    // A lone object may stand for a list of one.
    let inner = || patterns.iter().filter(|pattern| pattern.first() == Some(&"*")).map(|pattern| rest(pattern));
    match value {
        Value::Object(map) => {
            let patterns: Vec<Pattern<'_>> = patterns.iter().copied().chain(inner()).collect();
            for (key, value) in map {
                member(key, value, &patterns, place, out);
            }
        }
        Value::Array(list) => {
            let patterns: Vec<Pattern<'_>> = inner().collect();
            for (at, value) in list.iter().enumerate() {
                let length = place.len();
                place.push_str(&format!("/{at}"));
                if !out.gone.contains(place.as_str()) {
                    visit(value, &patterns, place, out);
                }
                place.truncate(length);
            }
        }
        _ if patterns.iter().any(|pattern| pattern.is_empty()) => {}
        _ => out.lose(place, "a field that has no counterpart"),
    }
}

/// Nothing is said by it.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// A name in Google's other spelling.
pub(super) fn camel(key: &str) -> Cow<'_, str> {
    if !key.contains('_') {
        return Cow::Borrowed(key);
    }
    let mut words = key.split('_');
    let mut name = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    Cow::Owned(name)
}
