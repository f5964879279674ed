//! Each mechanism of the OpenAI renderers on a small request of our own, against a rendering worked out by hand.
//!
//! The expected texts are written out in full; frames are the constants of `rules.rs`, spelled as sums.

use crate::count::{Breakdown, Confidence, PartKind};
use crate::{CountOptions, Counter, Format, Profile, Provider, ReasoningMemory, Request, Tokenizer};
use std::sync::Arc;

fn n(text: &str) -> u64 {
    Tokenizer::by_name("o200k_base").unwrap().count(text) as u64
}

fn count_with(renderer: &str, format: Format, body: &str, provider: Option<Provider>, memory: ReasoningMemory) -> Breakdown {
    let request = Request::parse(body.as_bytes(), format).unwrap();
    let profile =
        Profile { tokenizer: "o200k_base".into(), renderer: renderer.into(), image_rule: Some("tile:85:170".into()), ..Profile::default() };
    let options = CountOptions { profile: Some(Arc::new(profile)), provider, memory: Arc::new(memory), ..CountOptions::default() };
    Counter::new().count(&request, &options).unwrap().breakdown
}

fn total(renderer: &str, format: Format, body: &str) -> u64 {
    count_with(renderer, format, body, None, ReasoningMemory::default()).total()
}

#[test]
fn plain_messages_and_names() {
    let body = r#"{"messages":[{"role":"system","content":"Be brief."},{"role":"user","name":"ada","content":"Hello there"},
        {"role":"assistant","content":"Hi."}]}"#;
    let texts = 3 + n("system") + n("Be brief.") + 3 + n("user:ada") + n("Hello there") + 3 + n("assistant") + n("Hi.");
    assert_eq!(total("openai-classic", Format::Chat, body), 3 + texts);
    assert_eq!(total("harmony-o", Format::Chat, body), 2 + texts);
    // The channel of an earlier answer: marker and name.
    assert_eq!(total("harmony-5", Format::Chat, body), 2 + texts + 2);
}

const TOOL: &str = r#"{"name":"find","description":"Find files.\nFast.","parameters":{"type":"object","properties":{
    "glob":{"type":"string"},"limit":{"type":"integer","default":10}},"required":["glob"]}}"#;
const NAMESPACE: &str = "namespace functions {\n\n// Find files.\n// Fast.\ntype find = (_: {\nglob: string,\nlimit?: number, // default: 10\n}) => any;\n\n} // namespace functions";

#[test]
fn tools_join_the_system_text_or_stand_apart() {
    let tools = format!(r#""tools":[{{"type":"function","function":{TOOL}}}]"#);
    let block = format!("# Tools\n\n## functions\n\n{NAMESPACE}");
    let user = 3 + n("user") + n("Go");
    let alone = format!(r#"{{"messages":[{{"role":"user","content":"Go"}}],{tools}}}"#);
    assert_eq!(total("openai-classic", Format::Chat, &alone), 3 + user + 4 + n(&block) - 1);
    assert_eq!(total("harmony-5", Format::Chat, &alone), 2 + user + 4 + n(&block) - 1 + 82);
    let hosted = format!(r#"{{"messages":[{{"role":"system","content":"Be brief."}},{{"role":"user","content":"Go"}}],{tools}}}"#);
    let joined = 3 + n("system") + n(&format!("Be brief.\n\n{block}")) - 1;
    assert_eq!(total("openai-classic", Format::Chat, &hosted), 3 + user + joined);
    let apart = 3 + n("system") + n("Be brief.") + 4 + n(&block);
    assert_eq!(total("harmony-o", Format::Chat, &hosted), 2 + user + apart);
    // A gateway that asks through Responses: no hidden text.
    let by_gateway = count_with("harmony-5", Format::Chat, &alone, Some(Provider::Other("vercel".into())), ReasoningMemory::default());
    assert_eq!(by_gateway.total(), 2 + user + 4 + n(&block) - 1);

    let flat = TOOL.replacen('{', r#"{"type":"function","#, 1);
    let responses = format!(r#"{{"input":"Go","instructions":"Be brief.","tools":[{flat}]}}"#);
    let system = 3 + n("system") + n("Be brief.");
    assert_eq!(total("openai-classic", Format::Responses, &responses), 3 + user + system + 4 + n(NAMESPACE) - 1);
    assert_eq!(total("harmony-o", Format::Responses, &responses), 2 + user + 3 + n("system") + n(&format!("Be brief.\n\n{block}")) - 1);
}

#[test]
fn choice_costs_in_classic_alone() {
    let body = |choice: &str| {
        format!(
            r#"{{"messages":[{{"role":"user","content":"Go"}}],"tool_choice":{choice},"tools":[{{"type":"function","function":{TOOL}}}]}}"#
        )
    };
    let auto = total("openai-classic", Format::Chat, &body("\"auto\""));
    assert_eq!(total("openai-classic", Format::Chat, &body("\"required\"")), auto);
    assert_eq!(total("openai-classic", Format::Chat, &body("\"none\"")), auto + 1);
    let named = body(r#"{"type":"function","function":{"name":"find"}}"#);
    assert_eq!(total("openai-classic", Format::Chat, &named), auto + 4 + n(" to=functions.find"));
    assert_eq!(total("harmony-5", Format::Chat, &named), total("harmony-5", Format::Chat, &body("\"auto\"")));
}

#[test]
fn calls_and_results() {
    let call = |id: &str, city: &str| {
        format!(r#"{{"id":"{id}","type":"function","function":{{"name":"sky","arguments":"{{ \"city\": \"{city}\" }}"}}}}"#)
    };
    let one = format!(
        r#"{{"messages":[{{"role":"user","content":"Go"}},{{"role":"assistant","content":null,"tool_calls":[{}]}},
        {{"role":"tool","tool_call_id":"a","content":"blue"}}]}}"#,
        call("a", "Bonn")
    );
    let user = 3 + n("user") + n("Go");
    let texts = n("assistant to=functions.sky") + n(r#"{"city":"Bonn"}"#) + n("sky") + n("blue");
    assert_eq!(total("openai-classic", Format::Chat, &one), 3 + user + 3 + 6 + texts);
    assert_eq!(total("harmony-5", Format::Chat, &one), 2 + user + 7 + 8 + texts);
    assert_eq!(total("harmony-o", Format::Chat, &one), 2 + user + 5 + 7 + texts);
    assert_eq!(total("harmony-o1", Format::Chat, &one), 2 + user + 3 + 6 + texts);

    let two = format!(
        r#"{{"messages":[{{"role":"user","content":"Go"}},{{"role":"assistant","content":null,"tool_calls":[{},{}]}},
        {{"role":"tool","tool_call_id":"a","content":"blue"}},{{"role":"tool","tool_call_id":"b","content":"{{\"sky\":1}}"}}]}}"#,
        call("a", "Bonn"),
        call("b", "Ulm")
    );
    let wrapped = r#"{"tool_uses":[{"recipient_name":"functions.sky","parameters":{"city":"Bonn"}},{"recipient_name":"functions.sky","parameters":{"city":"Ulm"}}]}"#;
    let results = r#"["blue", {"sky": 1}]"#;
    let expected = 3 + user + 3 + n("assistant to=multi_tool_use.parallel") + n(wrapped) + 10 + n(results);
    assert_eq!(total("openai-classic", Format::Chat, &two), expected);
    let parts = count_with("openai-classic", Format::Chat, &two, None, ReasoningMemory::default());
    assert_eq!(parts.parts().iter().map(|p| p.tokens).sum::<u64>(), parts.total());
    assert_eq!(parts.parts().iter().filter(|p| p.kind == PartKind::ToolCall).count(), 2);
}

#[test]
fn structured_output() {
    let schema = r#"{"type":"object","properties":{"größe":{"type":"number","minimum":0,"default":1}},"required":["größe"],"additionalProperties":false}"#;
    let shown =
        "# Response Formats\n\n## size\n\n// A size\n{\"type\":\"object\",\"properties\":{\"gr\\u00f6\\u00dfe\":{\"type\":\"number\"}}}";
    let chat = format!(
        r#"{{"messages":[{{"role":"user","content":"Go"}}],"response_format":{{"type":"json_schema","json_schema":{{"name":"size","description":"A size","strict":true,"schema":{schema}}}}}}}"#
    );
    let user = 3 + n("user") + n("Go");
    assert_eq!(total("openai-classic", Format::Chat, &chat), 3 + user + 4 + n(shown) + 2 + n("size"));
    assert_eq!(total("harmony-5", Format::Chat, &chat), 2 + user + 4 + n(shown));
    let responses =
        format!(r#"{{"input":"Go","text":{{"format":{{"type":"json_schema","name":"size","description":"A size","schema":{schema}}}}}}}"#);
    assert_eq!(total("openai-classic", Format::Responses, &responses), 3 + user + 1 + n(shown));
    assert_eq!(total("harmony-5", Format::Responses, &responses), 2 + user + n(shown));
}

#[test]
fn replayed_reasoning_is_dropped_remembered_or_guessed() {
    let body = |tail: &str| {
        format!(
            r#"{{"input":[{{"role":"user","content":"Go"}},{{"type":"reasoning","id":"r","summary":[],"encrypted_content":"{}"}},
            {{"role":"assistant","content":"Gone."}}{tail}]}}"#,
            "x".repeat(1000)
        )
    };
    let fixed = 2 + 3 + n("user") + n("Go") + 3 + n("assistant") + n("Gone.") + 2;
    let next = 3 + n("user") + n("Next");
    let dropped =
        count_with("harmony-5", Format::Responses, &body(r#",{"role":"user","content":"Next"}"#), None, ReasoningMemory::default());
    assert_eq!((dropped.total(), dropped.confidence()), (fixed + next, Confidence::Exact));
    let mut memory = ReasoningMemory::default();
    memory.remember(&"x".repeat(1000), 29);
    let known = count_with("harmony-5", Format::Responses, &body(""), None, memory);
    assert_eq!((known.total(), known.confidence()), (fixed + 29 + 4, Confidence::Calibrated));
    let guessed = count_with("harmony-5", Format::Responses, &body(""), None, ReasoningMemory::default());
    assert_eq!(guessed.confidence(), Confidence::Estimate);
    assert!(guessed.total().abs_diff(known.total()) <= guessed.bound().unwrap());
}

#[test]
fn what_the_body_does_not_tell_is_unbounded() {
    for body in [
        r#"{"input":"Go","previous_response_id":"resp_1"}"#,
        r#"{"input":"Go","instructions":""}"#,
        r#"{"input":"Go","tools":[{"type":"web_search"}]}"#,
        r#"{"input":[{"role":"user","content":[{"type":"input_file","file_id":"f"}]}]}"#,
    ] {
        let count = count_with("openai-classic", Format::Responses, body, None, ReasoningMemory::default());
        assert_eq!((count.confidence(), count.bound()), (Confidence::Unbounded, None), "{body}");
    }
}
