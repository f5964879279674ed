//! The turn service on a real port: the same answers as the crate's for every recorded stream, and every unhappy way.
#![cfg(feature = "server")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test binary")]

mod common;

use plimsoll::client::{Client, status_error};
use plimsoll::proto::v1;
use plimsoll::server::{ServerConfig, run};
use plimsoll::turn::{InspectOptions, Inspection, inspect, read_answer};
use plimsoll::{Format, Kind, Models, Request};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use v1::Verdict::{Ask, Refuse, Run};
use v1::follow_stream_request::Step;
use v1::follow_stream_response::Answer;
use v1::tool_outcome::Result as Of;

const FORMATS: [(&str, Format, v1::Format); 4] = [
    ("chat", Format::Chat, v1::Format::Chat),
    ("responses", Format::Responses, v1::Format::Responses),
    ("anthropic", Format::Anthropic, v1::Format::Anthropic),
    ("gemini", Format::Gemini, v1::Format::Gemini),
];

async fn client() -> Client {
    client_of(ServerConfig::default()).await
}

async fn client_of(config: ServerConfig) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(run(listener, config, std::future::pending()));
    Client::connect(&format!("http://{address}")).await.unwrap()
}

fn start(format: v1::Format, request: &[u8]) -> v1::FollowStart {
    let judging = v1::Judging { request: request.to_vec(), time_ms: 7, ..Default::default() };
    v1::FollowStart { format: format.into(), judging: Some(judging), ..Default::default() }
}

fn step(step: Step) -> v1::FollowStreamRequest {
    v1::FollowStreamRequest { step: Some(step) }
}

/// Starts, sends all, ends; gives the progress seen and the report.
async fn follow(
    client: &mut Client,
    start: v1::FollowStart,
    steps: Vec<Step>,
) -> plimsoll::Result<(Vec<v1::StreamProgress>, v1::TurnReport)> {
    let steps: Vec<_> = std::iter::once(Step::Start(start)).chain(steps).map(step).collect();
    let mut answers = client.follow_stream(tokio_stream::iter(steps)).await?;
    let (mut progress, mut report) = (Vec::new(), None);
    while let Some(message) = answers.message().await.map_err(status_error)? {
        assert!(report.is_none(), "nothing follows the report");
        match message.answer.unwrap() {
            Answer::Progress(seen) => progress.push(seen),
            Answer::Report(last) => report = Some(last),
        }
    }
    Ok((progress, report.unwrap()))
}

fn pieces(bytes: &[u8], cut: usize) -> Vec<Step> {
    bytes.chunks(cut).map(|piece| Step::Data(piece.to_vec())).collect()
}

/// The wire's report as the crate's own JSON, as far as both tell the same.
fn gist(report: &v1::TurnReport) -> Value {
    let value = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
    let word = |name: &str, prefix: &str| name.strip_prefix(prefix).unwrap().to_lowercase();
    json!({
        "ended_well": report.ended_well,
        "choices": report.choices.iter().map(|choice| {
            let finish = choice.finish.as_ref().unwrap();
            json!({"message": value(&choice.message_json), "text": choice.text, "reasoning": choice.reasoning,
                "reason": word(finish.reason().as_str_name(), "FINISH_REASON_"), "raw": finish.raw})
        }).collect::<Vec<_>>(),
        "usage": report.usage.as_ref().map(|usage| (value(&usage.raw_json), usage.input, usage.output)),
        "faults": report.faults.iter().map(|fault| (word(fault.kind().as_str_name(), "FAULT_KIND_"), fault.offset)).collect::<Vec<_>>(),
        "action": word(report.action().as_str_name(), "TURN_ACTION_"),
        "calls": report.calls.iter().map(|call| json!([call.id, call.name, call.arguments,
            word(call.verdict().as_str_name(), "VERDICT_"), word(call.reason().as_str_name(), "VERDICT_REASON_"), call.detail])).collect::<Vec<_>>(),
        "audit": report.audit.iter().map(|record| json!([record.hash, record.turn, record.time_ms, record.tool])).collect::<Vec<_>>(),
        "refusals": report.refusals_json.iter().map(|message| value(message)).collect::<Vec<_>>(),
        "counted": (report.counted_output, &report.counted_by),
    })
}

fn own_gist(own: &Inspection) -> Value {
    let turn = &own.turn;
    json!({
        "ended_well": turn.ended_well,
        "choices": turn.choices.iter().map(|choice| json!({"message": choice.message, "text": choice.text, "reasoning": choice.reasoning,
            "reason": choice.finish.reason.as_str(), "raw": choice.finish.raw})).collect::<Vec<_>>(),
        "usage": turn.usage.as_ref().map(|usage| (usage.raw.clone(), usage.input, usage.output)),
        "faults": turn.faults.iter().map(|fault| (fault.kind.as_str(), fault.offset)).collect::<Vec<_>>(),
        "action": own.judgement.action.as_str(),
        "calls": own.judgement.calls.iter().map(|call| json!([call.call.id, call.call.name, call.call.arguments,
            call.verdict.as_str(), call.why.as_str(), call.detail])).collect::<Vec<_>>(),
        "audit": own.judgement.audit.iter().map(|record| json!([record.hash, record.turn, record.time_ms, record.tool])).collect::<Vec<_>>(),
        "refusals": own.judgement.refusals(turn.format),
        "counted": own.counted_output.as_ref().map_or((None, ""), |(count, by)| (Some(*count), by.as_str())),
    })
}

fn no_run(report: &v1::TurnReport) -> bool {
    report.calls.iter().all(|call| call.verdict() != v1::Verdict::Run)
}

#[tokio::test(flavor = "multi_thread")]
async fn recorded_streams_give_the_crates_reports_at_any_cut_and_a_cut_one_runs_nothing() {
    let mut client = client().await;
    let models = Models::builtin();
    let (mut seen, mut runs) = (0, 0);
    for (name, format, wire) in FORMATS {
        let Some(exchanges) = common::exchanges(name) else { return };
        for exchange in exchanges.iter().filter(|exchange| exchange["stream"] == true) {
            let Some(raw) = exchange["response"].as_str().map(str::as_bytes) else { continue };
            let body = exchange["request"].to_string();
            let request = Request::parse(body.as_bytes(), format).unwrap();
            let options = InspectOptions { request: Some(request), now_ms: 7, ..InspectOptions::default() };
            let own = own_gist(&inspect(raw, format, &models, &options).unwrap());
            for cut in [97, 4096, usize::MAX] {
                let (progress, report) = follow(&mut client, start(wire, body.as_bytes()), pieces(raw, cut)).await.unwrap();
                assert_eq!(gist(&report), own, "{name} {} cut at {cut}", exchange["id"]);
                assert_eq!(progress.last().unwrap().bytes, raw.len() as u64);
                assert!(progress.windows(2).all(|two| two[0].output_tokens <= two[1].output_tokens + 8));
            }
            let asked = v1::InspectTurnRequest { format: wire.into(), answer: raw.to_vec(), judging: start(wire, body.as_bytes()).judging };
            let whole = client.inspect_turn(asked).await.unwrap();
            assert_eq!(gist(&whole), own, "{name} {}", exchange["id"]);
            runs += usize::from(!no_run(&whole));
            for at in [raw.len() / 2, raw.len() - 1] {
                let (_, report) = follow(&mut client, start(wire, body.as_bytes()), pieces(&raw[..at], 4096)).await.unwrap();
                assert!(!report.ended_well && no_run(&report), "{name} {} ends at {at}", exchange["id"]);
            }
            seen += 1;
        }
    }
    println!("{seen} streams, {runs} with calls to run");
    assert!(runs > 0, "some recorded call may be run, or the check above checks nothing");
}

const CHAT: &str = "data: {\"id\":\"a\",\"model\":\"gpt-4o\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Hel\"}}]}\n\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"}}]}\n\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"read\",\"arguments\":\"{\\\"p\\\":\"}}]}}]}\n\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"1}\"}}]}}]}\n\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\n\
    data: [DONE]\n\n";
const ASKED: &str = r#"{"model":"gpt-4o","messages":[{"role":"user","content":"Read it"}],"tools":[{"type":"function","function":{"name":"read","parameters":{"type":"object"}}}]}"#;

#[tokio::test(flavor = "multi_thread")]
async fn pieces_arrive_as_they_are_assembled_and_the_grant_is_watched() {
    let mut client = client().await;
    let (send, steps) = mpsc::channel(1);
    let begun = v1::FollowStart { granted: Some(10), deltas: true, ..start(v1::Format::Chat, ASKED.as_bytes()) };
    send.send(step(Step::Start(begun))).await.unwrap();
    let mut answers = client.follow_stream(ReceiverStream::new(steps)).await.unwrap();
    let mut text = String::new();
    let mut arguments = String::new();
    let mut last = v1::StreamProgress::default();
    for piece in CHAT.as_bytes().chunks(50) {
        send.send(step(Step::Data(piece.to_vec()))).await.unwrap();
        // Each piece is answered before the next is sent: nothing is held back.
        let Some(Answer::Progress(seen)) = answers.message().await.unwrap().unwrap().answer else { panic!("progress expected") };
        for delta in &seen.deltas {
            match delta.kind() {
                v1::DeltaKind::Text => text.push_str(&delta.text),
                v1::DeltaKind::Arguments => arguments.push_str(&delta.text),
                other => panic!("{other:?}"),
            }
        }
        last = seen;
    }
    assert_eq!((text.as_str(), arguments.as_str(), last.bytes), ("Hello", "{\"p\":1}", CHAT.len() as u64));
    assert!(!last.nearly_used && last.granted == Some(10) && last.output_tokens > 0);
    drop(send);
    let Some(Answer::Report(report)) = answers.message().await.unwrap().unwrap().answer else { panic!("a report expected") };
    assert_eq!(report.calls[0].verdict(), v1::Verdict::Run);
    assert!(answers.message().await.unwrap().is_none());

    let begun = v1::FollowStart { granted: Some(2), ..start(v1::Format::Chat, ASKED.as_bytes()) };
    let (progress, _) = follow(&mut client, begun, pieces(CHAT.as_bytes(), 100)).await.unwrap();
    assert!(progress.last().unwrap().nearly_used);
}

#[tokio::test(flavor = "multi_thread")]
async fn parsed_events_do_as_well_as_bytes() {
    let mut client = client().await;
    let events: Vec<Step> = CHAT
        .split("\n\n")
        .filter_map(|event| event.trim().strip_prefix("data: "))
        .map(|data| Step::Event(v1::StreamEvent { name: String::new(), json: data.as_bytes().to_vec() }))
        .collect();
    let (_, by_events) = follow(&mut client, start(v1::Format::Chat, ASKED.as_bytes()), events.clone()).await.unwrap();
    let (_, by_bytes) = follow(&mut client, start(v1::Format::Chat, ASKED.as_bytes()), pieces(CHAT.as_bytes(), 9)).await.unwrap();
    assert_eq!(gist(&by_events), gist(&by_bytes));
    // Without the end marker, which SDKs swallow, the finish reason is the end; without that there is none.
    let (_, unmarked) = follow(&mut client, start(v1::Format::Chat, ASKED.as_bytes()), events[..5].to_vec()).await.unwrap();
    assert!(unmarked.ended_well && unmarked.calls[0].verdict() == v1::Verdict::Run);
    let (_, cut) = follow(&mut client, start(v1::Format::Chat, ASKED.as_bytes()), events[..4].to_vec()).await.unwrap();
    assert!(!cut.ended_well && no_run(&cut) && cut.choices[0].text == "Hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn bedrocks_frames_are_followed_as_they_come() {
    let mut client = client().await;
    let response = json!({"output": {"message": {"role": "assistant", "content": [{"text": "I shall read the file."},
        {"toolUse": {"toolUseId": "t1", "name": "read", "input": {"path": "a.txt"}}}]}}, "stopReason": "tool_use",
        "usage": {"inputTokens": 3, "outputTokens": 20}, "metrics": {"latencyMs": 1}});
    let asked = json!({"modelId": "amazon.nova-lite-v1:0", "messages": [{"role": "user", "content": [{"text": "Read it"}]}],
        "toolConfig": {"tools": [{"toolSpec": {"name": "read", "inputSchema": {"json": {"type": "object"}}}}]}});
    let bytes = common::converse_frames(&response);
    let begun = start(v1::Format::Converse, asked.to_string().as_bytes());
    for cut in [1, 33, usize::MAX] {
        let (progress, report) = follow(&mut client, begun.clone(), pieces(&bytes, cut)).await.unwrap();
        assert!(report.ended_well && progress.last().unwrap().bytes == bytes.len() as u64);
        assert_eq!((report.calls[0].verdict(), report.calls[0].arguments.as_str()), (v1::Verdict::Run, r#"{"path":"a.txt"}"#));
    }
    let asked = v1::InspectTurnRequest { format: v1::Format::Converse.into(), answer: bytes.clone(), judging: begun.judging.clone() };
    assert!(client.inspect_turn(asked).await.unwrap().ended_well);
    let mut broken = bytes.clone();
    broken[bytes.len() / 2] ^= 1;
    let (_, report) = follow(&mut client, begun, pieces(&broken, 10)).await.unwrap();
    let fault = report.faults.iter().find(|fault| fault.fatal).unwrap();
    assert!(fault.kind() == v1::FaultKind::Checksum && fault.offset.unwrap() < bytes.len() as u64 / 2 && no_run(&report));
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_streams_end_in_a_typed_fault_or_a_typed_error() {
    let mut client = client().await;
    let chat = || start(v1::Format::Chat, ASKED.as_bytes());
    let half = &CHAT.as_bytes()[..CHAT.len() / 2];
    for (junk, kind) in [
        (&b"data: {\"choices\":[{]}\n\n"[..], v1::FaultKind::Malformed),
        (b"data: \xff\xfe\n\n", v1::FaultKind::Encoding),
        (b"data: 7\n\n", v1::FaultKind::Malformed),
        (b"data: {\"error\":{\"message\":\"overloaded\"}}\n\n", v1::FaultKind::Provider),
        (b"data: {\"choices\":[{\"index\":99999999,\"delta\":{}}]}\n\n", v1::FaultKind::TooLarge),
        (b"data: [DONE]\n\ndata: {}\n\n", v1::FaultKind::AfterEnd),
        (b"data: {\"unended\":", v1::FaultKind::Truncated),
    ] {
        let mut bytes = CHAT.as_bytes()[..CHAT.find("data: {\"choices\":[{\"index\":0,\"delta\":{\"tool").unwrap()].to_vec();
        bytes.extend_from_slice(junk);
        for cut in [1, usize::MAX] {
            let (progress, report) = follow(&mut client, chat(), pieces(&bytes, cut)).await.unwrap();
            let fault = report.faults.iter().find(|fault| fault.fatal).unwrap();
            assert_eq!(fault.kind(), kind, "{junk:?}");
            assert!(fault.offset.is_some() && no_run(&report) && !report.ended_well);
            assert_eq!(report.choices[0].text, "Hello", "what came before stays");
            let stuck = !matches!(kind, v1::FaultKind::Truncated | v1::FaultKind::Provider);
            assert_eq!(progress.last().unwrap().failed, stuck, "{kind:?}");
        }
    }
    let mixed = vec![Step::Data(half.to_vec()), Step::Event(v1::StreamEvent { name: String::new(), json: b"{}".to_vec() })];
    let twice = vec![Step::Data(half.to_vec()), Step::Start(chat())];
    for steps in [mixed, twice] {
        assert_eq!(follow(&mut client, chat(), steps).await.unwrap_err().kind(), Kind::InvalidInput);
    }
    for begun in [
        v1::FollowStart::default(),
        start(v1::Format::Mcp, b""),
        start(v1::Format::Chat, b"{"),
        start(v1::Format::Chat, br#"{"messages":[]}"#),
        start(v1::Format::Auto, b""),
    ] {
        let error = follow(&mut client, begun, pieces(half, 64)).await.unwrap_err();
        assert!(matches!(error.kind(), Kind::InvalidInput | Kind::Unsupported), "{error}");
    }
    for first in [vec![], vec![step(Step::Data(half.to_vec()))], vec![v1::FollowStreamRequest { step: None }]] {
        let mut answers = client.follow_stream(tokio_stream::iter(first)).await.unwrap();
        assert_eq!(status_error(answers.message().await.unwrap_err()).kind(), Kind::InvalidInput);
    }
    // The same server serves on.
    let (_, report) = follow(&mut client, chat(), pieces(CHAT.as_bytes(), 7)).await.unwrap();
    assert!(report.ended_well);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_over_its_time_ends_with_what_was_assembled_and_left_ones_leave_nothing() {
    let mut client = client_of(ServerConfig { call_limit: Some(Duration::from_millis(300)), ..ServerConfig::default() }).await;
    let (send, steps) = mpsc::channel(4);
    send.send(step(Step::Start(start(v1::Format::Chat, ASKED.as_bytes())))).await.unwrap();
    // All of it, but the client never says that the provider's stream ended.
    send.send(step(Step::Data(CHAT.as_bytes().to_vec()))).await.unwrap();
    let mut answers = client.follow_stream(ReceiverStream::new(steps)).await.unwrap();
    let mut report = None;
    let ended = loop {
        match answers.message().await {
            Ok(Some(message)) => {
                if let Some(Answer::Report(last)) = message.answer {
                    report = Some(last);
                }
            }
            Ok(None) => panic!("a status expected"),
            Err(status) => break status,
        }
    };
    assert_eq!(ended.code(), tonic::Code::DeadlineExceeded);
    let report = report.unwrap();
    assert!(!report.ended_well && no_run(&report) && report.choices[0].text == "Hello");
    drop(send);
    // Clients that leave in the middle.
    for _ in 0..20 {
        let (send, steps) = mpsc::channel(4);
        send.send(step(Step::Start(start(v1::Format::Chat, b"")))).await.unwrap();
        let mut answers = client.follow_stream(ReceiverStream::new(steps)).await.unwrap();
        send.send(step(Step::Data(CHAT.as_bytes()[..40].to_vec()))).await.unwrap();
        assert!(answers.message().await.unwrap().is_some());
    }
    let (_, report) = follow(&mut client, start(v1::Format::Chat, ASKED.as_bytes()), pieces(CHAT.as_bytes(), 500)).await.unwrap();
    assert!(report.ended_well);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_is_held_back() {
    let mut client = client().await;
    let (send, steps) = mpsc::channel(1);
    let begun = v1::FollowStart { deltas: true, ..start(v1::Format::Chat, b"") };
    send.send(step(Step::Start(begun))).await.unwrap();
    let answers = client.follow_stream(ReceiverStream::new(steps)).await.unwrap();
    let words = "word ".repeat(20_000);
    let event = format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{words}\"}}}}]}}\n\n");
    let mut sent = 0_u32;
    // A hundred megabytes are more than any window between the two holds.
    while sent < 1000 {
        let piece = send.send(step(Step::Data(event.as_bytes().to_vec())));
        if tokio::time::timeout(Duration::from_secs(2), piece).await.is_err() {
            break;
        }
        sent += 1;
    }
    assert!(sent < 1000, "the sender was never held back");
    // Once it reads, the rest goes through.
    let reader = tokio::spawn(async move {
        let (mut answers, mut text, mut report) = (answers, 0, None);
        while let Some(message) = answers.message().await.unwrap() {
            match message.answer.unwrap() {
                Answer::Progress(seen) => text += seen.deltas.iter().map(|delta| delta.text.len()).sum::<usize>(),
                Answer::Report(last) => report = Some(last),
            }
        }
        (text, report.unwrap())
    });
    drop(send);
    let (text, report) = reader.await.unwrap();
    assert_eq!(text, report.choices[0].text.len());
    assert!(text >= words.len() * sent as usize && !report.ended_well);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_known_by_its_records() {
    let mut client = client().await;
    let mut earlier = Vec::new();
    let mut verdicts = Vec::new();
    for _ in 0..5 {
        let judging = v1::Judging { request: ASKED.as_bytes().to_vec(), earlier: earlier.clone(), ..Default::default() };
        let asked = v1::InspectTurnRequest { format: v1::Format::Chat.into(), answer: CHAT.as_bytes().to_vec(), judging: Some(judging) };
        let report = client.inspect_turn(asked).await.unwrap();
        verdicts.push((report.calls[0].verdict(), report.audit[0].turn));
        earlier.extend(report.audit);
    }
    assert_eq!(verdicts, [(Run, 1), (Ask, 2), (Ask, 3), (Refuse, 4), (Refuse, 5)]);
    let policy = v1::GatePolicy {
        rules: vec![v1::GateRule { pattern: "re*".into(), risk: v1::Risk::High.into(), verdict: Refuse.into() }],
        ..Default::default()
    };
    let judging = v1::Judging { request: ASKED.as_bytes().to_vec(), policy: Some(policy), ..Default::default() };
    let asked = v1::InspectTurnRequest { format: v1::Format::Chat.into(), answer: CHAT.as_bytes().to_vec(), judging: Some(judging) };
    let report = client.inspect_turn(asked).await.unwrap();
    assert_eq!((report.calls[0].verdict(), report.calls[0].risk()), (Refuse, v1::Risk::High));
    assert_eq!(serde_json::from_slice::<Value>(&report.refusals_json[0]).unwrap()["tool_call_id"], "c");
    let broken = v1::Judging { earlier: vec![v1::AuditRecord::default()], ..Default::default() };
    let asked = v1::InspectTurnRequest { format: v1::Format::Chat.into(), judging: Some(broken), ..Default::default() };
    assert_eq!(client.inspect_turn(asked).await.unwrap_err().kind(), Kind::InvalidInput);
}

#[tokio::test(flavor = "multi_thread")]
async fn results_go_back_in_the_formats_shape() {
    let mut client = client().await;
    let outcome =
        |name: &str, result| v1::ToolOutcome { call_id: Some(name.into()), name: name.into(), result: Some(result), ..Default::default() };
    let mcp = json!({"jsonrpc": "2.0", "id": 1, "result": {"isError": true, "content": [{"type": "text", "text": "no such file"},
        {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}]}});
    let outcomes = vec![
        outcome("a", Of::Text("card 4111 1111 1111 1111".into())),
        outcome("b", Of::McpJson(mcp.to_string().into_bytes())),
        outcome("c", Of::Text("line of a log\n".repeat(2000))),
    ];
    let asked = v1::ToolResultsRequest {
        format: v1::Format::Anthropic.into(),
        outcomes,
        mask_secrets: true,
        max_tokens: Some(500),
        model: "gpt-4o".into(),
        ..Default::default()
    };
    let sent = client.tool_results(asked.clone()).await.unwrap();
    assert_eq!((sent.messages_json.len(), &sent.cut, &sent.errors), (1, &vec![2], &vec![1]));
    assert_eq!((sent.masked["card_number"], sent.left_out[0].outcome), (1, 1));
    let message: Value = serde_json::from_slice(&sent.messages_json[0]).unwrap();
    assert_eq!(message["content"][1]["is_error"], true);
    assert!(!message.to_string().contains("4111"));
    assert!(sent.pages.is_empty() && message.to_string().contains("not stored"));
    let kept = client.tool_results(v1::ToolResultsRequest { keep_whole: true, tenant: "me".into(), ..asked.clone() }).await.unwrap();
    let shown = String::from_utf8(kept.messages_json[0].clone()).unwrap();
    assert!(kept.pages.len() == 1 && shown.contains(&kept.pages[0]), "the text names the page");
    let read = v1::ReadPageRequest { r#ref: kept.pages[0].clone(), tenant: "me".into(), ..Default::default() };
    assert!(client.read_page(read.clone()).await.unwrap().text.starts_with("line of a log"));
    let foreign = v1::ReadPageRequest { tenant: "other".into(), ..read };
    assert_eq!(client.read_page(foreign).await.unwrap_err().kind(), Kind::NotFound);
    for broken in [None, Some(Of::McpJson(b"{".to_vec()))] {
        let outcomes = vec![v1::ToolOutcome { result: broken, ..Default::default() }];
        let refused = client.tool_results(v1::ToolResultsRequest { outcomes, ..asked.clone() }).await.unwrap_err();
        assert_eq!(refused.kind(), Kind::InvalidInput, "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_mapped_weighed_and_led_back() {
    let mut client = client().await;
    let page = |names: &[&str]| {
        let tools: Vec<Value> = names
            .iter()
            .map(|name| json!({"name": name, "description": "Does it.", "inputSchema": {"type": "object", "properties": {"x": {"type": "string"}}}}))
            .collect();
        json!({"tools": tools}).to_string().into_bytes()
    };
    let lists = vec![
        v1::ToolList { server: "files".into(), pages_json: vec![page(&["read", "write"]), page(&["list"])] },
        v1::ToolList { server: "web.site".into(), pages_json: vec![page(&["read"])] },
    ];
    for format in [v1::Format::Chat, v1::Format::Responses, v1::Format::Anthropic, v1::Format::Gemini, v1::Format::Converse] {
        let model = v1::ModelChoice { name: "gpt-4o".into(), ..Default::default() };
        let asked = v1::MapToolsRequest {
            format: format.into(),
            lists: lists.clone(),
            model: Some(model),
            budget: Some(60),
            used: vec!["files__read".into()],
        };
        let mapped = client.map_tools(asked).await.unwrap();
        let names: Vec<_> = mapped.tools.iter().map(|tool| (tool.server.as_str(), tool.tool.as_str())).collect();
        assert_eq!(names, [("files", "read"), ("files", "write"), ("files", "list"), ("web.site", "read")]);
        assert_eq!(mapped.definitions_json.len(), if format == v1::Format::Gemini { 1 } else { 4 });
        let weights = mapped.weights.unwrap();
        let tools: u64 = mapped.tools.iter().map(|tool| tool.tokens.unwrap()).sum();
        assert_eq!(weights.servers.iter().map(|server| server.tokens).sum::<u64>(), tools);
        assert_eq!(weights.total, tools + weights.overhead);
        let leave = weights.leave_out.unwrap();
        assert!(leave.fits && leave.tokens <= 60 && leave.names.last() != Some(&"files__write".to_owned()));
        if leave.names.len() < 4 {
            assert!(!leave.names.contains(&"files__read".to_owned()), "what is in use goes last");
        }
    }
    let asked = v1::MapToolsRequest { format: v1::Format::Chat.into(), lists: vec![lists[0].clone(); 2], ..Default::default() };
    assert_eq!(client.map_tools(asked.clone()).await.unwrap_err().kind(), Kind::Conflict);
    let broken = vec![v1::ToolList { server: "x".into(), pages_json: vec![b"[".to_vec()] }];
    assert_eq!(client.map_tools(v1::MapToolsRequest { lists: broken, ..asked }).await.unwrap_err().kind(), Kind::InvalidInput);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_learned_limit_decides_later_budgets() {
    let mut client = client().await;
    let body = br#"{"model":"gpt-4o","max_tokens":9000,"messages":[{"role":"user","content":"Hello"}]}"#;
    let budget = |provider: &str| v1::BudgetRequest {
        request: Some(v1::CountRequest {
            model: Some(v1::ModelChoice { provider: provider.into(), ..Default::default() }),
            ..Client::request(body.to_vec())
        }),
        ..Default::default()
    };
    let before = client.budget(budget("")).await.unwrap();
    assert_eq!((before.fits, before.granted, before.window), (true, 9000, Some(128_000)));
    let said = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.";
    let asked = v1::ClassifyErrorRequest { status: 400, body: said.into(), model: "gpt-4o".into(), ..Default::default() };
    let told = client.classify_error(asked.clone()).await.unwrap();
    assert_eq!(
        (told.class(), told.remedy(), told.limit, told.input),
        (v1::ErrorClass::Overflow, v1::ErrorRemedy::Compact, Some(8192), Some(9000))
    );
    let correction = told.correction.unwrap();
    assert_eq!((correction.field.as_str(), correction.was, correction.now, correction.learned), ("window", Some(128_000), 8192, false));
    assert_eq!(client.budget(budget("")).await.unwrap(), before, "only told, not learned");
    let learned = client.classify_error(v1::ClassifyErrorRequest { learn: true, ..asked.clone() }).await.unwrap();
    assert!(learned.correction.unwrap().learned);
    let after = client.budget(budget("")).await.unwrap();
    assert_eq!((after.window, after.count.as_ref().unwrap().total), (Some(8192), before.count.unwrap().total));
    assert!(after.granted < 8192);
    assert_eq!(client.budget(budget("openrouter")).await.unwrap().window, Some(128_000), "another endpoint keeps the table's");
    let shown = client.get_model(v1::GetModelRequest { name: "gpt-4o".into(), ..Default::default() }).await.unwrap();
    assert_eq!(shown.window, Some(8192));
    let own = v1::ModelChoice { window: Some(50_000), ..Default::default() };
    let own =
        v1::BudgetRequest { request: Some(v1::CountRequest { model: Some(own), ..Client::request(body.to_vec()) }), ..Default::default() };
    assert_eq!(client.budget(own).await.unwrap().window, Some(50_000), "the caller's own limit wins");
    assert!(client.classify_error(asked.clone()).await.unwrap().correction.is_none(), "it is known by now");
    for (broken, kind) in [
        (v1::ClassifyErrorRequest { status: 70_000, ..asked.clone() }, Kind::InvalidInput),
        (v1::ClassifyErrorRequest { model: "no-such-thing".into(), ..asked.clone() }, Kind::UnknownModel),
        (v1::ClassifyErrorRequest { model: String::new(), learn: true, ..asked }, Kind::InvalidInput),
    ] {
        assert_eq!(client.classify_error(broken).await.unwrap_err().kind(), kind);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_are_continued_and_histories_converted() {
    let mut client = client().await;
    let payload = v1::Payload {
        format: v1::Format::Chat.into(),
        body: br#"{"model":"m","messages":[{"role":"user","content":"Tell me"}],"user":"u"}"#.to_vec(),
    };
    let parts = vec!["The ship left the har".to_owned(), "left the harbour at noon.".to_owned()];
    let asked = v1::ContinueTextRequest { parts, request: Some(payload.clone()) };
    let told = client.continue_text(asked).await.unwrap();
    assert_eq!((told.text.as_str(), &told.dropped), ("The ship left the harbour at noon.", &vec![12]));
    assert_eq!(serde_json::from_slice::<Value>(&told.body).unwrap()["messages"][1]["content"], told.text);
    let many = v1::ContinueTextRequest { parts: vec!["x".into(); 18], request: None };
    assert_eq!(client.continue_text(many).await.unwrap_err().kind(), Kind::LimitExceeded);
    assert_eq!(client.continue_text(v1::ContinueTextRequest::default()).await.unwrap_err().kind(), Kind::InvalidInput);

    let converted = client.convert(v1::ConvertRequest { request: Some(payload.clone()), to: v1::Format::Gemini.into() }).await.unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&converted.body).unwrap()["contents"][0]["parts"][0]["text"], "Tell me");
    let places: Vec<_> = converted.lost.iter().map(|lost| lost.place.as_str()).collect();
    assert_eq!(places, ["/model", "/user"]);
    let unnamed = v1::ConvertRequest { request: Some(payload), to: v1::Format::Auto.into() };
    assert_eq!(client.convert(unnamed).await.unwrap_err().kind(), Kind::InvalidInput);
}

#[test]
fn an_answer_is_the_same_by_any_way_of_storing() {
    // What the service's own comparisons rest on.
    let turn = read_answer(CHAT.as_bytes(), Format::Chat).unwrap();
    assert!(turn.ended_well && turn.choices[0].calls[0].arguments == "{\"p\":1}");
}
