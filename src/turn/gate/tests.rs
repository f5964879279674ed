//! The gate against every way in which a call can be unfit, in small turns of its own making.

use super::*;
use crate::format::Format;
use crate::turn::{Action, Stream, Turn};
use serde_json::json;

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

fn chat(finish: &str, calls: &[Value]) -> Turn {
    let body = json!({"choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": null, "tool_calls": calls}}],
        "usage": {"prompt_tokens": 1}});
    Turn::read(&body, Format::Chat).unwrap()
}

fn gate(policy: Policy) -> Gate {
    let mut gate = Gate::new(policy);
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}, "lines": {"type": "integer", "minimum": 1}},
        "required": ["path"], "additionalProperties": false});
    gate.add_tool("read", Some(&schema));
    gate.add_tool("write", None);
    gate.add_read_only_tool("list", None);
    gate
}

fn verdict(gate: &mut Gate, turn: &Turn) -> (Verdict, Why) {
    let judgement = gate.judge(turn, 0, 0);
    (judgement.calls[0].verdict, judgement.calls[0].why)
}

#[cfg(feature = "schema")]
#[test]
fn what_is_whole_and_valid_may_run() {
    let judged = gate(Policy::default()).judge(&chat("tool_calls", &[call("a", "read", r#"{"path":"x","lines":2}"#)]), 0, 7);
    assert_eq!((judged.calls[0].verdict, judged.action), (Verdict::Run, Action::RunTools));
    assert_eq!(judged.calls[0].arguments, Some(json!({"path": "x", "lines": 2})));
    assert!(judged.refusals(Format::Chat).is_empty());
}

#[cfg(feature = "schema")]
#[test]
fn each_unfitness_has_its_verdict_and_reason() {
    let cases = [
        ("tool_calls", call("a", "erase", "{}"), Verdict::Refuse, Why::UnknownTool),
        ("tool_calls", call("a", "read", r#"{"path":"x"#), Verdict::Refuse, Why::BadJson),
        ("tool_calls", call("a", "read", r#""x""#), Verdict::Refuse, Why::BadJson),
        ("tool_calls", call("a", "read", r#"{"path":"x"} {"#), Verdict::Refuse, Why::BadJson),
        ("tool_calls", call("a", "write", r#"{"path":"x","path":"y"}"#), Verdict::Refuse, Why::DuplicateKey),
        ("tool_calls", call("", "read", r#"{"path":"x"}"#), Verdict::Refuse, Why::IdMissing),
        ("length", call("a", "read", r#"{"path":"x"}"#), Verdict::Refuse, Why::CutByLength),
        ("content_filter", call("a", "read", r#"{"path":"x"}"#), Verdict::Refuse, Why::Filtered),
        ("tired", call("a", "read", r#"{"path":"x"}"#), Verdict::Ask, Why::FinishUnknown),
        ("", call("a", "read", r#"{"path":"x"}"#), Verdict::Ask, Why::FinishUnknown),
        ("stop", call("a", "list", ""), Verdict::Run, Why::Allowed),
    ];
    for (finish, made, verdict_wanted, why) in cases {
        assert_eq!(
            verdict(&mut gate(Policy::default()), &chat(finish, std::slice::from_ref(&made))),
            (verdict_wanted, why),
            "{finish} {made}"
        );
    }
}

#[cfg(feature = "schema")]
#[test]
fn arguments_are_held_against_the_schema_without_being_quoted() {
    for arguments in ["{}", r#"{"path":5}"#, r#"{"path":"secret-value","lines":0}"#, r#"{"path":"x","mode":"secret-value"}"#] {
        let judged = gate(Policy::default()).judge(&chat("tool_calls", &[call("a", "read", arguments)]), 0, 0);
        assert_eq!((judged.calls[0].verdict, judged.calls[0].why), (Verdict::Refuse, Why::BySchema), "{arguments}");
        assert!(!judged.calls[0].detail.contains("secret-value"), "{}", judged.calls[0].detail);
        let sent = judged.refusals(Format::Chat);
        assert_eq!((&sent[0]["role"], &sent[0]["tool_call_id"]), (&json!("tool"), &json!("a")));
    }
}

#[cfg(feature = "schema")]
#[test]
fn a_schema_that_cannot_be_used_asks() {
    let mut gate = Gate::new(Policy::default());
    gate.add_tool("odd", Some(&json!({"type": "objekt"})));
    gate.add_tool("gemini", Some(&json!({"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}})));
    assert_eq!(verdict(&mut gate, &chat("stop", &[call("a", "odd", "{}")])), (Verdict::Ask, Why::SchemaUnusable));
    assert_eq!(verdict(&mut gate, &chat("stop", &[call("b", "gemini", r#"{"n":1}"#)])), (Verdict::Run, Why::Allowed));
    assert_eq!(verdict(&mut gate, &chat("stop", &[call("c", "gemini", r#"{"n":"1"}"#)])), (Verdict::Refuse, Why::BySchema));
}

#[test]
fn without_tools_nothing_is_safe() {
    assert_eq!(verdict(&mut Gate::default(), &chat("tool_calls", &[call("a", "read", "{}")])), (Verdict::Ask, Why::ToolsUnknown));
}

#[test]
fn repeats_are_found_whatever_the_order_of_keys_and_end_as_a_loop() {
    let mut gate = gate(Policy { repeats: 2, ..Policy::default() });
    let texts = [r#"{"a":1,"b":2.0}"#, r#"{ "b": 2, "a": 1 }"#, r#"{"b":2,"a":1}"#];
    let seen: Vec<_> = texts
        .iter()
        .enumerate()
        .map(|(at, text)| verdict(&mut gate, &chat("tool_calls", &[call(&at.to_string(), "write", text)])))
        .collect();
    assert_eq!(seen, [(Verdict::Run, Why::Allowed), (Verdict::Ask, Why::Duplicate), (Verdict::Refuse, Why::Loop)]);
    assert_eq!(verdict(&mut gate, &chat("tool_calls", &[call("9", "write", r#"{"a":2}"#)])).0, Verdict::Run);
}

#[test]
fn limits_on_calls_ids_sizes_and_turns() {
    let policy = Policy { calls_per_turn: 2, argument_bytes: 40, turns: 2, ..Policy::default() };
    let mut gate = gate(policy);
    let calls: Vec<Value> = (0..3).map(|n| call(&n.to_string(), "write", &format!("{{\"n\":{n}}}"))).collect();
    let judged = gate.judge(&chat("tool_calls", &calls), 0, 0);
    let whys: Vec<_> = judged.calls.iter().map(|call| call.why).collect();
    assert_eq!(whys, [Why::Allowed, Why::Allowed, Why::TooManyCalls]);
    let same = [
        call("x", "write", r#"{"n":10}"#),
        call("x", "write", r#"{"n":11}"#),
        call("y", "write", &format!("{{\"n\":\"{}\"}}", "z".repeat(40))),
    ];
    let judged = gate.judge(&chat("tool_calls", &same), 0, 0);
    let whys: Vec<_> = judged.calls.iter().map(|call| call.why).collect();
    assert_eq!(whys, [Why::Allowed, Why::IdRepeated, Why::TooLarge]);
    assert_eq!(verdict(&mut gate, &chat("tool_calls", &[call("z", "write", r#"{"n":12}"#)])), (Verdict::Refuse, Why::TooManyTurns));
}

#[cfg(feature = "schema")]
#[test]
fn rules_label_and_hold_back() {
    let rules = vec![
        Rule::new("write", Risk::HighRisk, Verdict::Ask),
        Rule::new("r*", Risk::ReadOnly, Verdict::Run),
        Rule::new("*", Risk::Write, Verdict::Refuse),
    ];
    let mut gate = gate(Policy { rules, ..Policy::default() });
    let calls = [call("a", "write", "{}"), call("b", "read", r#"{"path":"x"}"#), call("c", "list", "{}")];
    let judged = gate.judge(&chat("tool_calls", &calls), 0, 99);
    let seen: Vec<_> = judged.audit.iter().map(|record| (record.verdict, record.why, record.risk)).collect();
    assert_eq!(
        seen,
        [
            (Verdict::Ask, Why::Policy, Risk::HighRisk),
            (Verdict::Run, Why::Allowed, Risk::ReadOnly),
            (Verdict::Refuse, Why::Policy, Risk::Write)
        ]
    );
    let record = judged.audit[1].to_json();
    assert_eq!((&record["time_ms"], &record["tool"], &record["turn"]), (&json!(99), &json!("read"), &json!(1)));
    assert!(!record.to_string().contains("path"), "an audit record holds no content");
}

#[test]
fn only_the_used_choice_may_run() {
    let message = |id: &str| json!({"role": "assistant", "tool_calls": [call(id, "write", r#"{"n":1}"#)]});
    let body = json!({"choices": [{"index": 0, "finish_reason": "tool_calls", "message": message("a")},
        {"index": 1, "finish_reason": "length", "message": message("b")}], "usage": {}});
    let turn = Turn::read(&body, Format::Chat).unwrap();
    let judged = gate(Policy::default()).judge(&turn, 0, 0);
    assert!(judged.other_choices);
    assert_eq!((judged.calls[0].why, judged.calls[1].why), (Why::Allowed, Why::OtherChoice));
    let judged = gate(Policy::default()).judge(&turn, 1, 0);
    assert_eq!((judged.calls[0].why, judged.calls[1].why), (Why::OtherChoice, Why::CutByLength));
    assert_eq!(judged.action, Action::RefusePartialCall);
    assert_eq!(judged.refusals(Format::Chat).len(), 1, "the other choice's call isn't in the history");
}

#[test]
fn a_snapshot_never_runs() {
    let mut stream = Stream::new(Format::Chat).unwrap();
    let chunk = json!({"choices": [{"index": 0, "delta": {"role": "assistant", "tool_calls": [{"index": 0, "id": "a", "function":
        {"name": "write", "arguments": "{}"}}]}, "finish_reason": "tool_calls"}]});
    assert!(stream.feed(format!("data: {chunk}\n\n").as_bytes()));
    assert_eq!(verdict(&mut gate(Policy::default()), &stream.snapshot()), (Verdict::Refuse, Why::TurnIncomplete));
    assert_eq!(verdict(&mut gate(Policy::default()), &stream.finish()), (Verdict::Refuse, Why::TurnIncomplete), "no [DONE] came");
}

#[test]
fn a_gate_made_from_records_judges_as_the_one_that_made_them() {
    let turn = |ids: [&str; 2]| {
        let call = |id: &str, path: &str| json!({"id": id, "type": "function", "function": {"name": "read", "arguments": json!({"path": path}).to_string()}});
        let message = json!({"role": "assistant", "tool_calls": [call(ids[0], "a"), call(ids[1], ids[1])]});
        Turn::read(&json!({"choices": [{"finish_reason": "tool_calls", "message": message}], "usage": {}}), Format::Chat).unwrap()
    };
    let fresh = || {
        let mut gate = Gate::new(Policy::default());
        gate.add_tool("read", None);
        gate
    };
    let (mut lasting, mut records) = (fresh(), Vec::new());
    for (nth, ids) in [["1", "2"], ["3", "2"], ["5", "6"], ["7", "8"], ["9", "10"]].into_iter().enumerate() {
        let mut made = fresh();
        for record in &records {
            made.remember(record);
        }
        let (one, other) = (lasting.judge(&turn(ids), 0, nth as u64), made.judge(&turn(ids), 0, nth as u64));
        assert_eq!(one, other, "turn {nth}");
        records.extend(one.audit);
    }
    assert!(records.iter().any(|record| record.why == Why::Loop) && records.iter().any(|record| record.why == Why::IdRepeated));
}
