//! Conversions: calls keep their results, nothing is lost in silence, and the result is a body that its own format reads.

use super::*;
use serde_json::json;

const TARGETS: [Format; 5] = [Format::Chat, Format::Responses, Format::Anthropic, Format::Gemini, Format::Converse];

fn chat() -> Request {
    let body = json!({
        "model": "m", "temperature": 0.5, "stop": "END", "max_tokens": 50, "user": "u",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}]},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c.1", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"a\"}"}},
                {"id": "c2", "type": "function", "function": {"name": "read", "arguments": "not json"}}]},
            {"role": "tool", "tool_call_id": "c.1", "content": "text of a"},
            {"role": "tool", "tool_call_id": "c2", "content": "Error: no"},
            {"role": "assistant", "content": "Done."},
            {"role": "user", "content": "Thanks"}],
        "tools": [{"type": "function", "function": {"name": "read", "description": "d", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}}],
        "tool_choice": "required",
        "response_format": {"type": "json_object"}
    });
    Request::parse(body.to_string().as_bytes(), Format::Chat).unwrap()
}

/// Texts, calls and results of a body, in order, whatever its format.
fn gist(request: &Request) -> Vec<String> {
    let conversation = request.conversation().unwrap();
    let items = conversation.messages.iter().flat_map(|message| message.items.iter().map(move |item| (message.role, item)));
    items
        .filter_map(|(role, item)| match &item.body {
            ItemBody::Text(text) => Some(format!("{}: {text}", if role == Role::Developer { "system" } else { role.as_str() })),
            ItemBody::ToolCall(call) => Some(format!("call {}", call.name)),
            ItemBody::ToolResult(_) => Some("result".to_owned()),
            ItemBody::Image(_) => Some("image".to_owned()),
            _ => None,
        })
        .collect()
}

#[test]
fn every_target_reads_back_with_the_same_gist() {
    let source = chat();
    for to in TARGETS {
        let converted = convert(&source, to).unwrap();
        let read = Request::parse(converted.body.to_string().as_bytes(), to).unwrap();
        assert_eq!(gist(&read), gist(&source), "{to}: {}", converted.body);
        let conversation = read.conversation().unwrap();
        assert_eq!(conversation.tools.len(), 1, "{to}");
        assert_eq!(conversation.tool_choice, ToolChoiceOf::REQUIRED, "{to}");
        assert_eq!(conversation.options.max_output.map(|max| max.0), Some(50), "{to}");
    }
}

/// Shorthand for the one choice that the test asks for.
struct ToolChoiceOf;

impl ToolChoiceOf {
    const REQUIRED: crate::format::ToolChoice<'static> = crate::format::ToolChoice::Required;
}

#[test]
fn what_is_lost_is_listed() {
    let places = |to| -> Vec<String> { convert(&chat(), to).unwrap().lost.into_iter().map(|lost| lost.place).collect() };
    assert!(places(Format::Chat).is_empty(), "the same format loses nothing");
    assert_eq!(places(Format::Responses), ["/stop", "/user"]);
    let anthropic = places(Format::Anthropic);
    assert!(anthropic.contains(&"/messages/2/tool_calls/1".to_owned()) && anthropic.contains(&"/user".to_owned()), "{anthropic:?}");
}

#[test]
fn there_and_back_again() {
    for to in TARGETS.into_iter().filter(|to| *to != Format::Chat) {
        let there = convert(&chat(), to).unwrap().body;
        let back = convert(&Request::parse(there.to_string().as_bytes(), to).unwrap(), Format::Chat).unwrap();
        let back = Request::parse(back.body.to_string().as_bytes(), Format::Chat).unwrap();
        assert_eq!(gist(&back), gist(&chat()), "by way of {to}");
        let conversation = back.conversation().unwrap();
        let mut calls = Vec::new();
        for item in conversation.messages.iter().flat_map(|message| &message.items) {
            match &item.body {
                ItemBody::ToolCall(call) => calls.push(call.id.unwrap()),
                ItemBody::ToolResult(result) => assert!(calls.contains(&result.call_id.unwrap()), "by way of {to}"),
                _ => {}
            }
        }
    }
}

/// One rich body of each format: every text and number is its own, so that it can be looked for.
fn rich(format: Format) -> Value {
    match format {
        Format::Chat => json!({
            "model": "mk1q", "temperature": 700_002, "top_p": 700_003, "stop": ["mk4q", "mk5q"], "seed": 700_006, "max_tokens": 700_007, "n": 700_008,
            "user": "mk9q", "store": true, "metadata": {"a": "mk10q"}, "stream": true, "stream_options": {"include_usage": true, "x": "mk90q"},
            "reasoning_effort": "mk11q", "logit_bias": {"5": 700_012},
            "messages": [
                {"role": "system", "content": "mk13q", "name": "mk14q"},
                {"role": "user", "name": "mk15q", "content": [
                    {"type": "text", "text": "mk16q", "note": "mk17q"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,mk18q", "detail": "mk19q"}},
                    {"type": "image_url", "image_url": {"url": "https://host/mk20q"}},
                    {"type": "file", "file": {"filename": "mk21q", "file_data": "data:application/pdf;base64,mk22q"}},
                    {"type": "file", "file": {"file_id": "mk23q"}},
                    {"type": "input_audio", "input_audio": {"data": "mk24q", "format": "wav"}}]},
                {"role": "assistant", "content": "mk25q", "refusal": "mk26q", "reasoning_content": "mk27q", "annotations": [{"url": "mk28q"}],
                 "tool_calls": [
                    {"id": "mk29q", "type": "function", "function": {"name": "mk30q", "arguments": "{\"a\":\"mk31q\"}", "x": "mk32q"}},
                    {"id": "mk33q", "type": "function", "function": {"name": "mk34q", "arguments": "not json mk35q"}},
                    {"id": "mk36q", "type": "custom", "custom": {"name": "mk37q", "input": "mk38q"}}]},
                {"role": "tool", "tool_call_id": "mk29q", "content": [{"type": "text", "text": "mk39q"}]},
                {"role": "tool", "tool_call_id": "mk33q", "content": "Error: mk40q"},
                {"role": "developer", "content": "mk41q"}],
            "tools": [
                {"type": "function", "function": {"name": "mk42q", "description": "mk43q", "strict": true, "note": "mk44q", "parameters":
                    {"type": "object", "properties": {"mk45q": {"type": "string", "description": "mk46q", "enum": ["mk47q"]}}}}},
                {"type": "custom", "custom": {"name": "mk48q", "description": "mk49q"}}],
            "tool_choice": {"type": "function", "function": {"name": "mk42q"}},
            "response_format": {"type": "json_schema", "json_schema": {"name": "mk50q", "description": "mk51q", "strict": true, "x": "mk52q",
                "schema": {"type": "object", "properties": {"mk53q": {"type": "string"}}}}}
        }),
        Format::Responses => json!({
            "model": "mk1q", "instructions": "mk2q", "temperature": 700_003, "top_p": 700_004, "max_output_tokens": 700_005, "stream": true,
            "store": false, "previous_response_id": "mk6q", "reasoning": {"effort": "mk7q", "summary": "mk8q"}, "include": ["mk9q"],
            "input": [
                {"type": "message", "role": "user", "phase": "mk10q", "content": [
                    {"type": "input_text", "text": "mk11q"},
                    {"type": "input_image", "image_url": "data:image/png;base64,mk12q", "detail": "mk13q"},
                    {"type": "input_image", "file_id": "mk14q"},
                    {"type": "input_file", "filename": "mk15q", "file_data": "data:application/pdf;base64,mk16q"},
                    {"type": "input_file", "file_url": "https://host/mk17q"}]},
                {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "mk18q"}], "encrypted_content": "mk19q"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "mk20q", "annotations": [{"url": "mk21q"}]}]},
                {"type": "function_call", "call_id": "mk22q", "name": "mk23q", "arguments": "{\"a\":\"mk24q\"}", "x": "mk25q"},
                {"type": "function_call_output", "call_id": "mk22q", "output": [{"type": "input_text", "text": "mk26q"},
                    {"type": "input_image", "image_url": "data:image/png;base64,mk27q"}]},
                {"type": "web_search_call", "action": {"query": "mk28q"}},
                {"role": "user", "content": "mk29q"}],
            "tools": [
                {"type": "function", "name": "mk30q", "description": "mk31q", "strict": true,
                    "parameters": {"type": "object", "properties": {"mk32q": {"type": "string"}}}},
                {"type": "web_search", "filters": {"a": "mk33q"}}],
            "tool_choice": "required", "parallel_tool_calls": false,
            "text": {"verbosity": "mk34q", "format": {"type": "json_schema", "name": "mk35q", "description": "mk36q", "strict": true,
                "schema": {"type": "object", "properties": {"mk37q": {"type": "string"}}}}}
        }),
        Format::Anthropic => json!({
            "model": "mk1q", "max_tokens": 700_002, "temperature": 700_003, "top_p": 700_004, "top_k": 700_005, "stop_sequences": ["mk6q"],
            "stream": true, "metadata": {"user_id": "mk7q"}, "thinking": {"type": "enabled", "budget_tokens": 700_008}, "service_tier": "mk9q",
            "system": [{"type": "text", "text": "mk10q", "cache_control": {"type": "mk11q"}}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "mk12q", "cache_control": {"type": "mk13q"}},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "mk14q"}},
                    {"type": "document", "title": "mk15q", "context": "mk16q",
                        "source": {"type": "base64", "media_type": "application/pdf", "data": "mk17q"}},
                    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "mk18q"}},
                    {"type": "document", "source": {"type": "file", "file_id": "mk19q"}}]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "mk20q", "signature": "mk21q"}, {"type": "redacted_thinking", "data": "mk22q"},
                    {"type": "text", "text": "mk23q", "citations": [{"url": "mk24q"}]},
                    {"type": "tool_use", "id": "mk25q", "name": "mk26q", "input": {"a": "mk27q"}, "caller": {"type": "mk28q"}},
                    {"type": "server_tool_use", "id": "srv", "name": "mk29q", "input": {"q": "mk30q"}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "mk25q", "is_error": true, "content": [
                    {"type": "text", "text": "mk31q"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "mk32q"}}]},
                    {"type": "text", "text": "mk33q"}]}],
            "tools": [{"name": "mk34q", "description": "mk35q", "cache_control": {"type": "mk36q"},
                "input_schema": {"type": "object", "properties": {"mk37q": {"type": "string"}}}}, {"type": "web_search_20250305", "name": "mk38q"}],
            "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
            "output_format": {"type": "json_schema", "schema": {"type": "object", "properties": {"mk39q": {"type": "string"}}}}
        }),
        Format::Gemini => json!({
            "model": "mk1q", "cachedContent": "mk2q", "safetySettings": [{"category": "mk3q"}],
            "systemInstruction": {"parts": [{"text": "mk4q"}]},
            "contents": [
                {"role": "user", "parts": [{"text": "mk5q"}, {"inlineData": {"mimeType": "image/png", "data": "mk6q", "displayName": "mk7q"}},
                    {"fileData": {"mimeType": "application/pdf", "fileUri": "https://host/mk8q"}, "videoMetadata": {"fps": 700_009}},
                    {"inline_data": {"mime_type": "audio/wav", "data": "mk10q"}}]},
                {"role": "model", "parts": [{"text": "mk11q", "thought": true}, {"text": "mk12q", "thoughtSignature": "mk13q"},
                    {"functionCall": {"id": "mk14q", "name": "mk15q", "args": {"a": "mk16q"}}, "thoughtSignature": "mk17q"},
                    {"executableCode": {"code": "mk18q"}}]},
                {"role": "user", "parts": [
                    {"functionResponse": {"id": "mk14q", "name": "mk15q", "response": {"output": "mk19q"}, "scheduling": "mk20q"}}]}],
            "tools": [{"functionDeclarations": [{"name": "mk21q", "description": "mk22q", "behavior": "mk23q", "parameters":
                {"type": "OBJECT", "properties": {"mk24q": {"type": "STRING", "description": "mk25q"}}}}]}, {"googleSearch": {"x": "mk26q"}}],
            "toolConfig": {"functionCallingConfig": {"mode": "ANY"}, "retrievalConfig": {"languageCode": "mk27q"}},
            "generationConfig": {"temperature": 700_028, "top_p": 700_029, "topK": 700_030, "seed": 700_031, "stopSequences": ["mk32q"],
                "maxOutputTokens": 700_033, "candidateCount": 700_034, "responseMimeType": "application/json",
                "responseSchema": {"type": "OBJECT", "properties": {"mk35q": {"type": "STRING"}}},
                "presencePenalty": 700_036, "thinkingConfig": {"thinkingBudget": 700_037}}
        }),
        Format::Converse => json!({
            "modelId": "mk1q", "system": [{"text": "mk2q"}, {"cachePoint": {"type": "mk3q"}}], "requestMetadata": {"a": "mk4q"},
            "inferenceConfig": {"maxTokens": 700_005, "temperature": 700_006, "topP": 700_007, "stopSequences": ["mk8q"]},
            "additionalModelRequestFields": {"top_k": 700_009, "thinking": {"type": "enabled", "budget_tokens": 700_010}},
            "guardrailConfig": {"guardrailIdentifier": "mk11q"}, "performanceConfig": {"latency": "mk12q"},
            "messages": [
                {"role": "user", "content": [{"text": "mk13q"}, {"image": {"format": "png", "source": {"bytes": "mk14q"}}},
                    {"document": {"format": "pdf", "name": "mk15q", "source": {"bytes": "mk16q"}, "context": "mk17q", "citations": {"enabled": true}}},
                    {"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://mk18q", "bucketOwner": "mk19q"}}}},
                    {"guardContent": {"text": {"text": "mk20q", "qualifiers": ["mk21q"]}}}, {"cachePoint": {"type": "mk22q"}}]},
                {"role": "assistant", "content": [{"reasoningContent": {"reasoningText": {"text": "mk23q", "signature": "mk24q"}}},
                    {"reasoningContent": {"redactedContent": "mk25q"}}, {"text": "mk26q"},
                    {"toolUse": {"toolUseId": "mk27q", "name": "mk28q", "input": {"a": "mk29q"}}}]},
                {"role": "user", "content": [{"toolResult": {"toolUseId": "mk27q", "status": "error", "content": [
                    {"text": "mk30q"}, {"json": {"a": "mk31q"}}, {"image": {"format": "png", "source": {"bytes": "mk32q"}}},
                    {"video": {"format": "mp4", "source": {"bytes": "mk33q"}}}]}}]}],
            "toolConfig": {"tools": [{"toolSpec": {"name": "mk34q", "description": "mk35q", "strict": true, "inputSchema":
                {"json": {"type": "object", "properties": {"mk36q": {"type": "string"}}}}}}, {"cachePoint": {"type": "mk37q"}},
                {"systemTool": {"name": "mk38q"}}],
                "toolChoice": {"tool": {"name": "mk34q"}}},
            "outputConfig": {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": {"name": "mk39q", "description": "mk40q",
                "schema": "{\"type\":\"object\",\"properties\":{\"mk41q\":{\"type\":\"string\"}}}"}}}}
        }),
        Format::Mcp => Value::Null,
    }
}

/// Every marked leaf (and marked key) with its place.
fn marks(value: &Value, place: &str, found: &mut Vec<(String, String)>) {
    let marked = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric());
        words.filter(|word| word.starts_with("mk") && word.ends_with('q')).map(str::to_owned).collect()
    };
    match value {
        Value::String(text) => found.extend(marked(text).into_iter().map(|mark| (place.to_owned(), mark))),
        Value::Number(number) if number.as_u64().is_some_and(|n| n >= 700_000) => found.push((place.to_owned(), number.to_string())),
        Value::Array(list) => list.iter().enumerate().for_each(|(at, value)| marks(value, &format!("{place}/{at}"), found)),
        Value::Object(map) => {
            for (key, value) in map {
                let place = format!("{place}/{key}");
                found.extend(marked(key).into_iter().map(|mark| (place.clone(), mark)));
                marks(value, &place, found);
            }
        }
        _ => {}
    }
}

/// Marks that are neither in the converted body nor at a place that is listed.
fn silently_lost(source: &Value, from: Format, to: Format) -> Vec<(String, String)> {
    let request = Request::parse(source.to_string().as_bytes(), from).unwrap();
    let converted = convert(&request, to).unwrap();
    let text = converted.body.to_string();
    let listed = |place: &str| {
        converted.lost.iter().any(|lost| {
            let rest = place.strip_prefix(lost.place.as_str());
            !lost.place.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    };
    let mut found = Vec::new();
    marks(source, "", &mut found);
    // Gemini pairs calls with results by their order and name; an id would say nothing more.
    let is_id = |place: &str| {
        to == Format::Gemini && ["/id", "/call_id", "/tool_call_id", "/tool_use_id", "/toolUseId"].iter().any(|id| place.ends_with(id))
    };
    found.retain(|(place, mark)| !text.contains(mark.as_str()) && !listed(place) && !is_id(place));
    found
}

#[test]
fn nothing_is_lost_in_silence_from_any_format_to_any_other() {
    let mut silent = Vec::new();
    for from in TARGETS {
        let body = rich(from);
        for to in TARGETS {
            silent.extend(silently_lost(&body, from, to).into_iter().map(|lost| format!("{from} to {to}: {lost:?}")));
        }
    }
    assert!(silent.is_empty(), "{silent:#?}");
}

/// The same with bodies damaged at random: members dropped, and foreign ones put in anywhere.
#[test]
fn nothing_is_lost_in_silence_from_damaged_bodies() {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below.max(1) as u64).unwrap()
    };
    let mut read = 0;
    for round in 0..600 {
        for from in TARGETS {
            let mut body = rich(from);
            for n in 0..=next(3) {
                let mut pointers = Vec::new();
                places(&body, "", &mut pointers);
                let at = pointers[next(pointers.len())].clone();
                match body.pointer_mut(&at) {
                    Some(Value::Object(map)) if next(2) == 0 => {
                        map.insert(format!("foreign{n}"), json!({"deep": [format!("mk9{round}x{n}q")]}));
                    }
                    Some(Value::Object(map)) if !map.is_empty() => {
                        let key = map.keys().nth(next(map.len())).unwrap().clone();
                        map.remove(&key);
                    }
                    Some(Value::Array(list)) if !list.is_empty() => drop(list.remove(next(list.len()))),
                    _ => {}
                }
            }
            let Ok(request) = Request::parse(body.to_string().as_bytes(), from) else { continue };
            if request.conversation().is_err() {
                continue;
            }
            read += 1;
            for to in TARGETS {
                let lost = silently_lost(&body, from, to);
                assert!(lost.is_empty(), "{from} to {to}: {lost:?} of {body}");
            }
        }
    }
    assert!(read > 500, "only {read} damaged bodies are still read");
}

fn places(value: &Value, place: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            found.push(place.to_owned());
            map.iter().for_each(|(key, value)| places(value, &format!("{place}/{key}"), found));
        }
        Value::Array(list) => {
            found.push(place.to_owned());
            list.iter().enumerate().for_each(|(at, value)| places(value, &format!("{place}/{at}"), found));
        }
        _ => {}
    }
}
