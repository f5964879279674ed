//! Hand-worked counts in both modes, on bodies whose texts are single tokens in any vocabulary.

use crate::count::render::RenderContext;
use crate::count::{Breakdown, Confidence, PartKind, ReasoningMemory};
use crate::error::Result;
use crate::format::{Format, Request};
use crate::models::{Profile, Provider};
use crate::tokenizer::Tokenizer;
use serde_json::{Value, json};

/// Without the real vocabulary the calibrated stand-in serves: exact for what isn't text.
fn count(body: &Value, model: &str, provider: Option<&Provider>, stream: Option<bool>, memory: &ReasoningMemory) -> Breakdown {
    let request = Request::parse(body.to_string().as_bytes(), Format::Gemini).unwrap();
    let conversation = request.conversation().unwrap();
    let profile = Profile { id: model.to_owned(), renderer: "gemini-2.5".to_owned(), ..Profile::default() };
    super::render(&RenderContext {
        conversation: &conversation,
        store: None,
        as_of: None,
        profile: &profile,
        provider,
        stream,
        memory,
        known: None,
        tokenizer: &|name| -> Result<Tokenizer> { Tokenizer::by_name(name) },
    })
    .unwrap()
}

fn of_kind(breakdown: &Breakdown, kind: PartKind) -> u64 {
    breakdown.parts().iter().filter(|part| part.kind == kind).map(|part| part.tokens).sum()
}

#[test]
fn framing_is_one_token_a_content_on_ai_studio_alone() {
    let body = json!({
        "systemInstruction": {"role": "user", "parts": [{"text": ""}]},
        "contents": [{"role": "user", "parts": [{"text": ""}]}, {"role": "model", "parts": []}]
    });
    let memory = ReasoningMemory::default();
    assert_eq!(count(&body, "gemini-2.5-flash", Some(&Provider::AiStudio), None, &memory).total(), 3);
    assert_eq!(count(&body, "gemini-2.5-flash", Some(&Provider::Vertex), None, &memory).total(), 0);
    assert_eq!(count(&body, "gemini-2.0-flash", Some(&Provider::AiStudio), None, &memory).total(), 0);
    let open = count(&body, "gemini-2.5-flash", None, None, &memory);
    assert_eq!((open.total(), open.bound(), open.confidence()), (3, Some(3), Confidence::Estimate));
}

#[test]
fn vertex_counts_a_number_as_one_token_and_a_type_in_capitals_as_one() {
    let memory = ReasoningMemory::default();
    let call = json!({"contents": [{"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"a": 123_456_789, "b": true, "c": null}}}]}]});
    // f, a, 123456789, b, true, c
    assert_eq!(count(&call, "gemini-2.0-flash", None, None, &memory).total(), 6);
    let tool = |object: &str, string: &str| {
        json!({"contents": [], "tools": [{"functionDeclarations": [{"name": "f", "parameters": {
            "type": object, "properties": {"a": {"type": string, "title": "long title", "nullable": true}}, "required": ["a"],
            "propertyOrdering": ["a"]
        }}]}]})
    };
    // f; OBJECT, a, STRING, nullable, a, a
    assert_eq!(count(&tool("OBJECT", "STRING"), "gemini-2.5-pro", Some(&Provider::Vertex), None, &memory).total(), 7);
    assert_eq!(count(&tool("object", "string"), "gemini-2.5-pro", Some(&Provider::Vertex), None, &memory).total(), 5);
}

#[test]
fn a_remembered_signature_costs_what_its_response_reported() {
    let body = |signature: &str, tail: Value| {
        json!({"contents": [
            {"role": "user", "parts": [{"text": ""}]},
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}, "thoughtSignature": signature}]},
            tail
        ]})
    };
    let answer = json!({"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]});
    let next = json!({"role": "user", "parts": [{"text": ""}]});
    let (wrapped, bare) = ("CosCAY89a1+Q", "AY89a1+QAAAA");
    let mut memory = ReasoningMemory::default();
    memory.remember(wrapped, 70);
    memory.remember(bare, 90);
    let thoughts =
        |body: &Value, model, provider, stream| of_kind(&count(body, model, Some(&provider), stream, &memory), PartKind::Reasoning);
    let (studio, vertex) = (|| Provider::AiStudio, || Provider::Vertex);
    assert_eq!(thoughts(&body(wrapped, answer.clone()), "gemini-3-pro", studio(), None), 70);
    assert_eq!(thoughts(&body(wrapped, next.clone()), "gemini-3-pro", studio(), None), 0, "an earlier turn's thoughts are dropped");
    assert_eq!(thoughts(&body(wrapped, next), "gemini-3.6-flash", studio(), None), 70, "3.6 keeps them");
    assert_eq!(thoughts(&body(wrapped, answer.clone()), "gemini-3-flash", vertex(), None), 0, "wrapped ones are not billed there");
    assert_eq!(thoughts(&body(bare, answer.clone()), "gemini-3-flash", vertex(), None), 90);
    assert_eq!(thoughts(&body(wrapped, answer.clone()), "gemini-2.5-flash", studio(), Some(true)), 70);
    assert_eq!(thoughts(&body(wrapped, answer.clone()), "gemini-2.5-flash", studio(), Some(false)), 0);
    let unknown = count(&body(wrapped, answer.clone()), "gemini-2.5-flash", Some(&Provider::AiStudio), None, &memory);
    assert!(unknown.bound().unwrap() >= 70);
    let stand_in = body("skip_thought_signature_validator", answer);
    assert_eq!(thoughts(&stand_in, "gemini-3-pro", studio(), None), 0);
}

#[test]
fn stored_contexts_and_server_tools_are_unbounded() {
    let body = json!({"contents": [], "tools": [{"googleSearch": {}}]});
    let breakdown = count(&body, "gemini-3-pro", Some(&Provider::AiStudio), None, &ReasoningMemory::default());
    assert_eq!((breakdown.confidence(), breakdown.bound()), (Confidence::Unbounded, None));
}

#[test]
fn parts_name_their_owner() {
    let body = json!({"contents": [{"role": "user", "parts": [{"text": "Hello there"}]}]});
    let breakdown = count(&body, "gemini-3-pro", Some(&Provider::AiStudio), None, &ReasoningMemory::default());
    let text = breakdown.parts().iter().find(|part| part.kind == PartKind::User).unwrap();
    assert_eq!((text.place.as_str(), text.message), ("/contents/0/parts/0", Some(0)));
    assert_eq!(breakdown.total(), breakdown.parts().iter().map(|part| part.tokens).sum::<u64>());
}
