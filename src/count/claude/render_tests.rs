//! The Claude frame on small bodies of our own, each figure worked out by hand beside it.

use super::*;
use crate::count::{CountOptions, Counter};
use crate::format::Request;
use serde_json::json;

fn count(format: Format, model: &str, body: &Value) -> Breakdown {
    let request = Request::parse(body.to_string().as_bytes(), format).expect("valid JSON");
    let options = CountOptions { model: Some(model.to_owned()), ..CountOptions::default() };
    Counter::new().count(&request, &options).expect("counted").breakdown
}

fn total(format: Format, model: &str, body: &Value) -> u64 {
    let breakdown = count(format, model, body);
    assert_eq!(breakdown.total(), breakdown.parts().iter().map(|part| part.tokens).sum::<u64>());
    breakdown.total()
}

#[test]
fn one_short_message_is_its_words_and_seven() {
    let body = json!({"messages": [{"role": "user", "content": "hello"}]});
    assert_eq!(total(Format::Anthropic, "claude-sonnet-4-5", &body), 8);
    let breakdown = count(Format::Anthropic, "claude-sonnet-4-5", &body);
    assert_eq!(breakdown.confidence(), Confidence::Calibrated);
    assert!(breakdown.bound().is_some_and(|bound| bound <= 4));
}

#[test]
fn the_same_request_weighs_the_same_in_every_format() {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    let anthropic = json!({"system": "Be brief.", "tools": [{"name": "read", "description": "Reads a file", "input_schema": schema}], "messages": [
        {"role": "user", "content": "Read both"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "read", "input": {"path": "a"}}, {"type": "tool_use", "id": "2", "name": "read", "input": {"path": "b"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "one"}, {"type": "tool_result", "tool_use_id": "2", "content": "two"}]}]});
    let chat = json!({"tools": [{"type": "function", "function": {"name": "read", "description": "Reads a file", "parameters": schema}}], "messages": [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Read both"},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"a\"}"}}, {"id": "2", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"b\"}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "one"}, {"role": "tool", "tool_call_id": "2", "content": "two"}]});
    let converse = json!({"system": [{"text": "Be brief."}], "toolConfig": {"tools": [{"toolSpec": {"name": "read", "description": "Reads a file", "inputSchema": {"json": schema}}}]}, "messages": [
        {"role": "user", "content": [{"text": "Read both"}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "1", "name": "read", "input": {"path": "a"}}}, {"toolUse": {"toolUseId": "2", "name": "read", "input": {"path": "b"}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "1", "content": [{"text": "one"}]}}, {"toolResult": {"toolUseId": "2", "content": [{"text": "two"}]}}]}]});
    let expected = total(Format::Anthropic, "claude-sonnet-4-5", &anthropic);
    assert_eq!(total(Format::Chat, "anthropic/claude-sonnet-4.5", &chat), expected);
    assert_eq!(total(Format::Converse, "us.anthropic.claude-sonnet-4-5-20250929-v1:0", &converse), expected);
}

#[test]
fn forcing_a_tool_and_the_model_decide_the_hidden_prompt() {
    let body = |choice: &str| json!({"messages": [{"role": "user", "content": "hi"}], "tools": [{"name": "a", "input_schema": {"type": "object"}}], "tool_choice": {"type": choice}});
    let auto = total(Format::Anthropic, "claude-sonnet-4-5", &body("auto"));
    assert_eq!(total(Format::Anthropic, "claude-sonnet-4-5", &body("any")) - auto, 588 - 496);
    assert_eq!(auto - total(Format::Anthropic, "claude-sonnet-4", &body("auto")), 496 - 313);
}

#[test]
fn calls_cost_thirty_and_five_an_argument_beside_their_text() {
    let body = |input: Value| json!({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "a", "input": input}]}]});
    let breakdown = count(Format::Anthropic, "claude-sonnet-4-5", &body(json!({})));
    let call = breakdown.parts().iter().find(|part| part.kind == PartKind::ToolCall).expect("a call");
    let text = "<invoke name=\"a\">\n</invoke>\n";
    let cl100k = Tokenizer::by_name("cl100k_base").unwrap();
    let prices = ClaudePrices::of("claude-4.6").unwrap();
    let expected = 30.0 + prices.tokens(&Kinds::of(text, &cl100k));
    assert!((f64::from(u32::try_from(call.tokens).unwrap()) - expected).abs() <= 1.0);
    assert_eq!(call.name.as_deref(), Some("a"));
}

#[test]
fn thinking_of_earlier_turns_is_dropped_by_models_that_drop_it() {
    let thought = "a long thought ".repeat(20);
    let body = json!({"thinking": {"type": "enabled", "budget_tokens": 1024}, "messages": [{"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": thought, "signature": "c2ln"}, {"type": "text", "text": "yes"}]}, {"role": "user", "content": "more"}]});
    let kinds = |model: &str| count(Format::Anthropic, model, &body).parts().iter().any(|part| part.kind == PartKind::Reasoning);
    assert!(!kinds("claude-sonnet-4-5"));
    assert!(kinds("claude-sonnet-4-6"));
    let in_loop = json!({"messages": [{"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": thought, "signature": "c2ln"}, {"type": "tool_use", "id": "1", "name": "a", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "x"}]}]});
    assert!(count(Format::Anthropic, "claude-sonnet-4-5", &in_loop).parts().iter().any(|part| part.kind == PartKind::Reasoning));
}

#[test]
fn deferred_tools_cost_nothing_until_a_result_refers_to_them() {
    let tools = json!([{"name": "a", "input_schema": {"type": "object"}}, {"name": "b", "description": "A long description of b", "input_schema": {"type": "object"}, "defer_loading": true}]);
    let body = |content: Value| {
        json!({"tools": tools, "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "a", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": content}]}]})
    };
    let definitions = |content: Value| {
        count(Format::Anthropic, "claude-sonnet-4-5", &body(content)).parts().iter().filter(|p| p.kind == PartKind::ToolDefinition).count()
    };
    assert_eq!(definitions(json!([])), 1);
    assert_eq!(definitions(json!([{"type": "tool_reference", "tool_name": "b"}])), 2);
}

#[test]
fn what_the_provider_adds_is_unbounded_and_pdfs_are_too() {
    for body in [
        json!({"messages": [{"role": "user", "content": "hi"}], "tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
        json!({"messages": [{"role": "user", "content": [{"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}}]}]}),
    ] {
        let breakdown = count(Format::Anthropic, "claude-sonnet-4-5", &body);
        assert_eq!((breakdown.confidence(), breakdown.bound()), (Confidence::Unbounded, None));
    }
    let text = json!({"messages": [{"role": "user", "content": [{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a few words"}}]}]});
    assert!(count(Format::Anthropic, "claude-sonnet-4-5", &text).bound().is_some());
}

#[test]
fn later_generations_cost_more_for_the_same_text() {
    let body = json!({"messages": [{"role": "user", "content": "Please describe the history of the lighthouse on the northern cape in some detail."}]});
    assert!(total(Format::Anthropic, "claude-opus-4-8", &body) > total(Format::Anthropic, "claude-opus-4-6", &body));
}

#[test]
fn a_tool_list_alone_weighs_its_definitions() {
    let body = json!({"tools": [{"name": "a__b", "description": "Does it", "inputSchema": {"type": "object"}}]});
    let breakdown = count(Format::Mcp, "claude-sonnet-4-5", &body);
    assert_eq!(breakdown.parts().len(), 1);
    assert_eq!(breakdown.parts()[0].server.as_deref(), Some("a"));
}

#[test]
fn citations_bring_their_instructions_once() {
    let document = |cited: bool| json!({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a few words"}, "citations": {"enabled": cited}});
    let body = |cited: bool| json!({"messages": [{"role": "user", "content": [document(cited), document(cited)]}]});
    let weigh = |cited: bool| total(Format::Anthropic, "claude-haiku-4-5", &body(cited));
    assert_eq!(weigh(true) - weigh(false), CITATIONS);
}
