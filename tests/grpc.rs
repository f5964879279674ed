//! The gRPC service on a real port with our own client: the same numbers as the crate, and every unhappy way.
#![cfg(feature = "server")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;
mod serving;

use plimsoll::client::{Client, answer};
use plimsoll::proto::v1;
use plimsoll::server::{Ended, ServerConfig};
use plimsoll::{BudgetPolicy, CountOptions, Counter, Kind, Models, Request};
use serving::Server;
use std::time::Duration;

const BODIES: [(v1::Format, &str); 4] = [
    (
        v1::Format::Chat,
        r#"{"model":"gpt-4o","max_tokens":100,"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"你好, world"}],
        "tools":[{"type":"function","function":{"name":"read_file","description":"Reads.","parameters":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}}]}"#,
    ),
    (v1::Format::Gemini, r#"{"model":"gemini-2.5-flash","contents":[{"role":"user","parts":[{"text":"Hello"}]}]}"#),
    (v1::Format::Responses, r#"{"model":"gpt-4.1","input":"Hello","instructions":"Be kind."}"#),
    (v1::Format::Auto, r#"{"model":"gpt-4","messages":[{"role":"user","content":"auto"}]}"#),
];

fn count_request(format: v1::Format, body: &str) -> v1::CountRequest {
    v1::CountRequest { payload: Some(v1::Payload { format: format.into(), body: body.as_bytes().to_vec() }), ..Default::default() }
}

fn crate_total(body: &str) -> u64 {
    let request = Request::detect(body.as_bytes()).unwrap().0;
    Counter::new().count(&request, &CountOptions::default()).unwrap().breakdown.total()
}

#[tokio::test]
async fn counts_are_the_crates_own() {
    let server = Server::start(ServerConfig::default()).await;
    let mut client = server.client().await;
    for (format, body) in BODIES {
        let count = client.count(count_request(format, body)).await.unwrap();
        assert_eq!(count.total, crate_total(body));
        assert_eq!(count.parts.iter().map(|p| p.tokens).sum::<u64>(), count.total, "the parts sum to the total");
        assert_ne!(count.confidence(), v1::Confidence::Unspecified);
        assert!(matches!(count.format(), v1::Format::Chat | v1::Format::Gemini | v1::Format::Responses));
        let brief = client.count(v1::CountRequest { totals_only: true, ..count_request(format, body) }).await.unwrap();
        assert_eq!((brief.total, brief.parts.len()), (count.total, 0));
    }
    assert_eq!(server.stop().await, Ended::Drained);
}

#[cfg(feature = "templates")]
#[tokio::test]
async fn prompts_and_days_are_the_crates_own() {
    let server = Server::start(ServerConfig::default()).await;
    let mut client = server.client().await;
    let body = r#"{"model":"deepseek-chat","messages":[{"role":"system","content":"Sei kürz"},{"role":"user","content":"你好 <|x|>"}]}"#;
    let request = Request::detect(body.as_bytes()).unwrap().0;
    let mut texts = Vec::new();
    for day in ["", "2025-01-31", "2026-11-30"] {
        let options = CountOptions { as_of: (!day.is_empty()).then(|| day.parse().unwrap()), ..CountOptions::default() };
        let wire = v1::CountRequest { as_of: day.to_owned(), show_prompt: true, ..count_request(v1::Format::Chat, body) };
        let count = client.count(wire).await.unwrap();
        assert_eq!(count.total, Counter::new().count(&request, &options).unwrap().total(), "{day}");
        let (prompt, own) = (count.prompt.unwrap(), Counter::new().prompt(&request, &options).unwrap());
        assert_eq!(prompt.text, own.text, "{day}");
        let range = |from: u64, to: u64| usize::try_from(from).unwrap()..usize::try_from(to).unwrap();
        let pieces: String = prompt.pieces.iter().map(|piece| &prompt.text[range(piece.start, piece.end)]).collect();
        assert_eq!(pieces, prompt.text, "pieces cover the text");
        let user = prompt.pieces.iter().find(|piece| prompt.text[range(piece.start, piece.end)].contains("你好")).unwrap();
        let part = &count.parts[usize::try_from(user.part.unwrap()).unwrap()];
        assert_eq!((part.kind(), part.path.as_str()), (v1::PartKind::User, "/messages/1/content"), "{day}");
        texts.push(prompt.text);
    }
    assert_eq!(texts[0], texts[2], "without a day it is the newest");
    assert_ne!(texts[0], texts[1], "the name stood for another model then");

    let plain = client.count(count_request(v1::Format::Chat, body)).await.unwrap();
    assert!(plain.prompt.is_none());
    let odd = v1::CountRequest { as_of: "yesterday".to_owned(), ..count_request(v1::Format::Chat, body) };
    assert_eq!(client.count(odd).await.unwrap_err().kind(), Kind::InvalidInput);
    let closed = v1::CountRequest { show_prompt: true, ..count_request(v1::Format::Auto, BODIES[0].1) };
    assert_eq!(client.count(closed).await.unwrap_err().kind(), Kind::Unsupported);
    server.stop().await;
}

#[tokio::test]
async fn budgets_are_the_crates_own() {
    let server = Server::start(ServerConfig::default()).await;
    let mut client = server.client().await;
    let body = BODIES[0].1;
    let request = Request::detect(body.as_bytes()).unwrap().0;
    let counter = Counter::new();
    let count = counter.count(&request, &CountOptions::default()).unwrap();
    let own = plimsoll::decide(&request.conversation().unwrap(), &count, &BudgetPolicy::default(), counter.models(), None).unwrap();
    let wire =
        client.budget(v1::BudgetRequest { request: Some(count_request(v1::Format::Auto, body)), ..Default::default() }).await.unwrap();
    assert_eq!((wire.fits, wire.granted, wire.margin, wire.field.as_str()), (own.fits, own.granted, own.margin, own.field.as_str()));
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&wire.json_patch).unwrap(), own.patch);

    let small = v1::ModelChoice { window: Some(count.breakdown.total()), output_cap: Some(50), ..Default::default() };
    let request = v1::CountRequest { model: Some(small), ..count_request(v1::Format::Auto, body) };
    let short = client.budget(v1::BudgetRequest { request: Some(request), ..Default::default() }).await.unwrap();
    assert!(!short.fits);
    let shortfall = short.shortfall.unwrap();
    assert_eq!(shortfall.limit(), v1::Limit::Window);
    assert!(shortfall.tokens > 0 && !shortfall.remedies.is_empty());
    server.stop().await;
}

#[tokio::test]
async fn a_history_that_grows_is_sent_by_what_is_new() {
    let server = Server::start(ServerConfig::default()).await;
    let mut client = server.client().await;
    let turn = |n: usize| format!(r#"{{"role":"user","content":"Turn {n}: how many?"}},{{"role":"assistant","content":"Some {n}."}}"#);
    let body = |list: &[String], rest: &str| format!(r#"{{{rest}"messages":[{}]}}"#, list.join(","));
    let model = r#""model":"gpt-4o","#;
    let mut said = vec![turn(0)];
    let kept = |request: v1::CountRequest, id: &str| v1::CountRequest { keep_prefix: true, prefix_id: id.to_owned(), ..request };
    let first = client.count(kept(count_request(v1::Format::Chat, &body(&said, model)), "")).await.unwrap();
    let mut id = first.prefix_id;
    for n in 1..6 {
        let new = count_request(v1::Format::Chat, &body(&[turn(n)], ""));
        said.push(turn(n));
        let whole = client.count(count_request(v1::Format::Chat, &body(&said, model))).await.unwrap();
        assert!(whole.prefix_id.is_empty(), "nothing is kept unasked");
        let budget = v1::BudgetRequest { request: Some(kept(new.clone(), &id)), ..Default::default() };
        let budget = client.budget(budget).await.unwrap();
        let counted = client.count(kept(new, &id)).await.unwrap();
        assert_eq!(budget.count.unwrap().prefix_id, counted.prefix_id, "the same history has the same id");
        id.clone_from(&counted.prefix_id);
        assert_eq!(v1::CountResponse { prefix_id: String::new(), ..counted }, whole);
    }
    // Compaction takes the id as well.
    let asked = kept(count_request(v1::Format::Chat, &body(&[turn(9)], "")), &id);
    let planned = client.plan_compaction(v1::PlanCompactionRequest { request: Some(asked.clone()), ..Default::default() }).await;
    assert!(planned.is_ok(), "{planned:?}");
    for (id, kind) in [("0".repeat(32), Kind::Conflict), ("none".into(), Kind::InvalidInput)] {
        assert_eq!(client.count(kept(asked.clone(), &id)).await.unwrap_err().kind(), kind);
    }
    server.stop().await;

    let forgetful = Server::start(ServerConfig { prefixes: plimsoll::PrefixStore::new(0), ..ServerConfig::default() }).await;
    let mut client = forgetful.client().await;
    let id = client.count(kept(count_request(v1::Format::Chat, &body(&said, model)), "")).await.unwrap().prefix_id;
    let gone = client.count(kept(count_request(v1::Format::Chat, &body(&said, "")), &id)).await.unwrap_err();
    assert_eq!(gone.kind(), Kind::Conflict);
    forgetful.stop().await;
}

#[tokio::test]
async fn a_batch_answers_each_in_order_and_survives_errors() {
    let server = Server::start(ServerConfig { workers: 3, ..ServerConfig::default() }).await;
    let mut client = server.client().await;
    let bodies: Vec<String> = (0..40)
        .map(|i| match i % 4 {
            0 => format!(r#"{{"model":"gpt-4o","messages":[{{"role":"user","content":"{}"}}]}}"#, "long ".repeat(2000)),
            1 => format!(r#"{{"model":"gpt-4o","messages":[{{"role":"user","content":"{i}"}}]}}"#),
            2 => "{\"messages\":".to_owned(),
            _ => r#"{"model":"gpt-4o-minj","messages":[{"role":"user","content":"x"}]}"#.to_owned(),
        })
        .collect();
    let requests: Vec<_> = bodies
        .iter()
        .enumerate()
        .map(|(i, body)| v1::CountBatchRequest { id: i.to_string(), request: Some(count_request(v1::Format::Chat, body)) })
        .collect();
    let mut answers = client.count_batch(tokio_stream::iter(requests)).await.unwrap();
    for (i, body) in bodies.iter().enumerate() {
        let response = answers.message().await.unwrap().unwrap();
        assert_eq!(response.id, i.to_string());
        match (i % 4, answer(response)) {
            (0 | 1, Ok(count)) => assert_eq!(count.total, crate_total(body)),
            (2, Err(error)) => assert_eq!((error.kind(), error.offset().is_some()), (Kind::InvalidInput, true)),
            (3, Err(error)) => assert_eq!(error.suggestions().first().map(String::as_str), Some("gpt-4o-mini")),
            (_, other) => panic!("{i}: {other:?}"),
        }
    }
    assert!(answers.message().await.unwrap().is_none());
    server.stop().await;
}

#[tokio::test]
async fn errors_carry_kind_place_and_suggestions() {
    let server = Server::start(ServerConfig::default()).await;
    let mut client = server.client().await;
    let mut failing = async |request| client.count(request).await.unwrap_err();
    let wrong = failing(count_request(v1::Format::Chat, r#"{"model":"gpt-4o","messages":[{"role":"user","content":5}]}"#)).await;
    assert_eq!((wrong.kind(), wrong.path()), (Kind::InvalidInput, Some("/messages/0/content")));
    let unknown = failing(count_request(v1::Format::Chat, r#"{"model":"gpt-5-minni","messages":[]}"#)).await;
    assert!(matches!(unknown.kind(), Kind::UnknownModel | Kind::InvalidInput), "{unknown}");
    assert_eq!(failing(v1::CountRequest::default()).await.kind(), Kind::InvalidInput);
    let format = v1::CountRequest { payload: Some(v1::Payload { format: 99, body: b"{}".to_vec() }), ..Default::default() };
    assert_eq!(failing(format).await.kind(), Kind::InvalidInput);
    let nothing = v1::ModelChoice { window: Some(0), ..Default::default() };
    let request = v1::CountRequest { model: Some(nothing), ..count_request(v1::Format::Auto, BODIES[0].1) };
    assert_eq!(failing(request).await.kind(), Kind::InvalidInput);
    server.stop().await;
}

#[tokio::test]
async fn models_list_and_resolve() {
    let server = Server::start(ServerConfig::default()).await;
    let mut client = server.client().await;
    let all = client.list_models(v1::ListModelsRequest::default()).await.unwrap();
    assert_eq!(all.len(), Models::builtin().list().count());
    let some = client.list_models(v1::ListModelsRequest { maker: "anthropic".into(), contains: "haiku".into() }).await.unwrap();
    assert!(!some.is_empty() && some.iter().all(|m| m.maker == "anthropic" && m.id.contains("haiku")));
    let name = "us.anthropic.claude-sonnet-4-5-20250929-v1:0".to_owned();
    let model = client
        .get_model(v1::GetModelRequest { name, provider: "bedrock-runtime.us-east-1.amazonaws.com".into(), nearest: false })
        .await
        .unwrap();
    assert_eq!((model.id.as_str(), model.window), ("claude-sonnet-4-5", Some(200_000)));
    let unknown = v1::GetModelRequest { name: "gpt-4o-minj".into(), ..Default::default() };
    assert_eq!(client.get_model(unknown.clone()).await.unwrap_err().kind(), Kind::UnknownModel);
    assert!(client.get_model(v1::GetModelRequest { nearest: true, ..unknown }).await.is_ok());
    server.stop().await;
}

#[tokio::test]
async fn vocabularies_are_those_that_the_counter_finds() {
    let home = tempfile::tempdir().unwrap();
    let counter = Counter::new().with_vocabularies(plimsoll::VocabularyStore::at(home.path()));
    let expected = counter.vocabularies().unwrap();
    let server = Server::start(ServerConfig { counter, ..ServerConfig::default() }).await;
    let listed = server.client().await.list_vocabularies().await.unwrap();
    let told = |one: &v1::Vocabulary| {
        (one.name.clone(), one.built_in, one.in_use, one.fingerprint.clone(), one.source.clone(), one.licence.clone())
    };
    let found =
        expected.into_iter().map(|one| (one.name, one.built_in, one.in_use, one.fingerprint, one.source, one.licence.unwrap_or_default()));
    assert_eq!(listed.iter().map(told).collect::<Vec<_>>(), found.collect::<Vec<_>>());
    assert!(listed.iter().any(|one| one.name == "cl100k_base" && one.built_in));
    server.stop().await;
    // A store that can't be read is said, and not taken for an empty one.
    let file = home.path().join("file");
    std::fs::write(&file, "").unwrap();
    let counter = Counter::new().with_vocabularies(plimsoll::VocabularyStore::at(file));
    let server = Server::start(ServerConfig { counter, ..ServerConfig::default() }).await;
    assert_eq!(server.client().await.list_vocabularies().await.unwrap_err().kind(), Kind::Unavailable);
    server.stop().await;
}

#[tokio::test]
async fn health_and_reflection_answer() {
    use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};
    use tonic_reflection::pb::v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient, server_reflection_request::MessageRequest,
    };
    let server = Server::start(ServerConfig::default()).await;
    let channel = tonic::transport::Endpoint::from_shared(server.url()).unwrap().connect().await.unwrap();
    let mut health = HealthClient::new(channel.clone());
    for service in ["", "plimsoll.v1.CountService", "plimsoll.v1.ModelService", "plimsoll.v1.TurnService", "plimsoll.v1.CompactService"] {
        let answer = health.check(HealthCheckRequest { service: service.into() }).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service}");
    }
    let mut reflection = ServerReflectionClient::new(channel);
    let ask = ServerReflectionRequest { host: String::new(), message_request: Some(MessageRequest::ListServices(String::new())) };
    let mut answers = reflection.server_reflection_info(tokio_stream::iter([ask])).await.unwrap().into_inner();
    let text = format!("{:?}", answers.message().await.unwrap().unwrap());
    assert!(text.contains("plimsoll.v1.CountService") && text.contains("grpc.health.v1.Health"), "{text}");
    drop((health, reflection, answers));
    server.stop().await;
}

#[tokio::test]
async fn an_oversized_message_is_refused_and_the_next_one_served() {
    let server = Server::start(ServerConfig { message_bytes: 10_000, ..ServerConfig::default() }).await;
    let mut client = server.client().await;
    let big = format!(r#"{{"model":"gpt-4o","messages":[{{"role":"user","content":"{}"}}]}}"#, "x".repeat(20_000));
    assert_eq!(client.count(count_request(v1::Format::Chat, &big)).await.unwrap_err().kind(), Kind::LimitExceeded);
    assert!(client.count(count_request(v1::Format::Auto, BODIES[0].1)).await.is_ok());
    server.stop().await;
}

/// A body whose count takes long enough for other calls to arrive meanwhile.
fn heavy() -> String {
    let text: String = (0..400_000_u32).map(|i| format!("{:x} ", i.wrapping_mul(2_654_435_761))).collect();
    format!(r#"{{"model":"gpt-4o","messages":[{{"role":"user","content":"{text}"}}]}}"#)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overloaded_server_sheds_and_recovers() {
    let server = Server::start(ServerConfig { workers: 1, queue: 0, ..ServerConfig::default() }).await;
    let client = server.client().await;
    let body = heavy();
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let (mut client, request) = (client.clone(), count_request(v1::Format::Chat, &body));
            tokio::spawn(async move { client.count(request).await })
        })
        .collect();
    let (mut served, mut shed) = (0, 0);
    for call in calls {
        match call.await.unwrap() {
            Ok(_) => served += 1,
            Err(error) if error.kind() == Kind::LimitExceeded => shed += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(served >= 1 && shed >= 1, "served {served}, shed {shed}");
    let mut client = client;
    assert!(client.count(count_request(v1::Format::Auto, BODIES[0].1)).await.is_ok());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deadlines_are_kept_and_left_calls_do_no_harm() {
    let server = Server::start(ServerConfig { workers: 1, queue: 50, ..ServerConfig::default() }).await;
    let body = heavy();
    let mut hurried = server.client().await.timeout(Duration::from_millis(1));
    let late = hurried.count(count_request(v1::Format::Chat, &body)).await.unwrap_err();
    assert_eq!(late.kind(), Kind::Unavailable, "{late}");
    let client = server.client().await;
    let calls: Vec<_> = (0..10)
        .map(|_| {
            let (mut client, request) = (client.clone(), count_request(v1::Format::Chat, &body));
            tokio::spawn(async move { client.count(request).await })
        })
        .collect();
    tokio::task::yield_now().await;
    for call in calls {
        call.abort();
        let _ = call.await;
    }
    let mut client = client;
    assert!(client.count(count_request(v1::Format::Auto, BODIES[0].1)).await.is_ok());
    assert_eq!(server.stop().await, Ended::Drained);
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_lets_a_call_end_and_refuses_new_ones() {
    let server = Server::start(ServerConfig::default()).await;
    let mut client = server.client().await;
    let (url, request) = (server.url(), count_request(v1::Format::Chat, &heavy()));
    let under_way = tokio::spawn(async move { client.count(request).await });
    // The call is under way once a second one on another connection has been answered after it was sent.
    let mut second = server.client().await;
    second.count(count_request(v1::Format::Auto, BODIES[0].1)).await.unwrap();
    assert_eq!(server.stop().await, Ended::Drained);
    // It either ended with its number or, had it not reached the server yet, was refused whole.
    match under_way.await.unwrap() {
        Ok(count) => assert!(count.total > 0),
        Err(error) => assert_eq!(error.kind(), Kind::Unavailable, "{error}"),
    }
    assert_eq!(Client::connect(&url).await.unwrap_err().kind(), Kind::Unavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_cuts_what_does_not_end() {
    let server = Server::start(ServerConfig { drain: Duration::from_millis(20), ..ServerConfig::default() }).await;
    let mut client = server.client().await;
    // A batch whose client never ends it.
    let (requests, stream) = tokio::sync::mpsc::channel(1);
    let mut answers = client.count_batch(tokio_stream::wrappers::ReceiverStream::new(stream)).await.unwrap();
    requests.send(v1::CountBatchRequest { id: "a".into(), request: Some(count_request(v1::Format::Auto, BODIES[0].1)) }).await.unwrap();
    assert_eq!(answers.message().await.unwrap().unwrap().id, "a");
    assert_eq!(server.stop().await, Ended::Cut);
}

#[tokio::test]
async fn bytes_that_are_not_http_harm_nobody() {
    use tokio::io::AsyncWriteExt as _;
    let server = Server::start(ServerConfig::default()).await;
    for junk in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 4096], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\x04\x00\x00\x00\x00\x00"] {
        let mut socket = tokio::net::TcpStream::connect(server.address).await.unwrap();
        socket.write_all(junk).await.unwrap();
        drop(socket);
    }
    assert!(server.client().await.count(count_request(v1::Format::Auto, BODIES[0].1)).await.is_ok());
    server.stop().await;
}
