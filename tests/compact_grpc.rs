//! Compaction over gRPC: what the crate does, kept apart by tenant, undone byte for byte, refused with what is wrong.
#![cfg(feature = "server")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;
mod scenario;
mod serving;

use plimsoll::client::detail;
use plimsoll::proto::v1;
use plimsoll::server::ServerConfig;
use plimsoll::{
    CountOptions, Counter, Decision, Kind, Mark, Pages, Policy, Request, Result, Severity, Summarizer, SummaryTask, check, plan,
};
use scenario::Scenario;
use serde_json::{Value, json};
use serving::Server;
use std::sync::Arc;
use v1::compact_response::Outcome;
use v1::plan_compaction_request::How;
use v1::plan_compaction_response::Decision as Wire;

const FORMATS: [(&str, v1::Format, &str); 5] = [
    ("chat", v1::Format::Chat, "gpt-4o"),
    ("responses", v1::Format::Responses, "gpt-4o"),
    ("anthropic", v1::Format::Anthropic, "claude-sonnet-4-5"),
    ("gemini", v1::Format::Gemini, "gemini-2.5-flash"),
    ("converse", v1::Format::Converse, "anthropic.claude-sonnet-4-5-20250929-v1:0"),
];

/// Recorded histories where they are at hand, made-up ones beside them.
fn histories() -> Vec<Scenario> {
    let mut all: Vec<Scenario> = (1..4).map(|seed| scenario::generate(seed, 20, 40)).collect();
    if let Some(folder) = common::shared("histories") {
        let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
        files.sort();
        let read = |path: std::path::PathBuf| scenario::from_chat(&serde_json::from_str(&common::gunzip(&path)).unwrap());
        let recorded = files.into_iter().filter(|f| f.extension().is_some_and(|e| e == "gz")).filter_map(read);
        all.extend(recorded.take(4));
    }
    all
}

fn counted(format: v1::Format, body: &str, model: &str) -> v1::CountRequest {
    v1::CountRequest {
        payload: Some(v1::Payload { format: format.into(), body: body.as_bytes().to_vec() }),
        model: Some(v1::ModelChoice { name: model.to_owned(), ..Default::default() }),
        ..Default::default()
    }
}

fn wanted(format: v1::Format, body: &str, model: &str, target: u64) -> v1::PlanCompactionRequest {
    v1::PlanCompactionRequest { request: Some(counted(format, body, model)), target: Some(target), ..Default::default() }
}

fn compacted(response: v1::CompactResponse) -> v1::Compacted {
    match response.outcome {
        Some(Outcome::Compacted(compacted)) => compacted,
        other => panic!("{other:?}"),
    }
}

fn options(model: &str) -> CountOptions {
    CountOptions { model: Some(model.to_owned()), ..CountOptions::default() }
}

/// A history in chat and the target at half its size.
fn chat() -> (String, u64) {
    let body = scenario::generate(3, 20, 40).body("chat").to_string();
    let request = Request::parse(body.as_bytes(), plimsoll::Format::Chat).unwrap();
    let total = Counter::new().count(&request, &options("gpt-4o")).unwrap().total();
    (body, total / 2)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_wire_gives_is_what_the_crate_gives_and_undo_gives_it_back() {
    let server = Server::start(ServerConfig::default()).await;
    let mut client = server.client().await;
    let (counter, mut plans, mut stuck) = (Counter::new(), 0, 0);
    for scenario in histories() {
        for (name, format, model) in FORMATS {
            let body = scenario.body(name).to_string();
            let request = Request::parse(body.as_bytes(), name.parse().unwrap()).unwrap();
            let before = counter.count(&request, &options(model)).unwrap().total();
            for percent in [70, 30, 5] {
                let target = before * percent / 100;
                // The references of a tenant's pages are its own, so that the crate's must be of the same.
                let pages = Pages::new(Arc::new(plimsoll::MemoryStore::default()), "default").unwrap();
                let own = plan(&request, &counter, &options(model), &Policy::for_room(target).with_target(target), &pages).unwrap();
                let looked = client.plan_compaction(wanted(format, &body, model, target)).await.unwrap().decision.unwrap();
                let made = client.compact(wanted(format, &body, model, target)).await.unwrap();
                match own {
                    Decision::Nothing { .. } => assert!(matches!(looked, Wire::Unchanged(_))),
                    Decision::Stuck(own) => {
                        stuck += 1;
                        let Wire::CantShrink(wire) = looked else { panic!("{looked:?}") };
                        assert_eq!((wire.floor, wire.target, wire.before), (own.floor, own.target, own.before));
                        let parts: Vec<_> = own.parts.iter().map(|p| (p.place.as_str(), p.kind, p.tokens, p.why)).collect();
                        let wired: Vec<_> =
                            wire.parts.iter().map(|p| (p.path.as_str(), p.kind.as_str(), p.tokens, p.why.as_str())).collect();
                        assert_eq!(wired, parts);
                        assert_eq!(made.outcome, Some(Outcome::CantShrink(wire)));
                    }
                    Decision::Plan(own) => {
                        plans += 1;
                        let Wire::Plan(wire) = looked else { panic!("{looked:?}") };
                        assert_eq!((wire.id.as_str(), wire.before, wire.after), (own.id.as_str(), own.before, own.after));
                        assert_eq!((wire.cache_broken_from, wire.text.as_str()), (own.cache_broken_from, own.to_string().as_str()));
                        let made = compacted(made);
                        assert_eq!(std::str::from_utf8(&made.body).unwrap(), own.preview().text(), "{name}");
                        assert_eq!(made.undo, wire.id);
                        assert_eq!(made.edits, wire.edits);
                        let undone = client.undo(v1::UndoRequest { id: made.undo, ..Default::default() }).await.unwrap();
                        assert_eq!((undone.body.as_slice(), undone.format()), (body.as_bytes(), format));
                        for (reference, text) in own.kept().take(2) {
                            let ask = v1::ReadPageRequest { r#ref: reference.to_owned(), ..Default::default() };
                            let page = client.read_page(ask).await.unwrap();
                            assert!(text.starts_with(&page.text) && page.page == 1);
                        }
                    }
                }
            }
        }
    }
    assert!(plans > 20 && stuck > 0, "{plans} plans, {stuck} stuck");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_read_and_searched_by_their_tenant_alone() {
    let server = Server::start(ServerConfig::default()).await;
    let mut client = server.client().await;
    let (body, target) = chat();
    let ask = v1::PlanCompactionRequest { tenant: "harbour".into(), ..wanted(v1::Format::Chat, &body, "gpt-4o", target) };
    let made = compacted(client.compact(ask).await.unwrap());
    let reference = made.edits.iter().map(|edit| edit.r#ref.clone()).find(|r| r.starts_with("pg_")).unwrap();

    let read = |tenant: &str| v1::ReadPageRequest { tenant: tenant.into(), r#ref: reference.clone(), page: 1 };
    let page = client.read_page(read("harbour")).await.unwrap();
    let stat = client.stat_page(v1::StatPageRequest { tenant: "harbour".into(), r#ref: reference.clone() }).await.unwrap();
    assert_eq!((stat.pages, page.pages), (page.pages, stat.pages));
    assert!(stat.bytes >= page.text.len() as u64 && stat.tokens >= page.tokens);
    let line = page.text.lines().find(|line| line.len() > 3).unwrap();
    let search =
        |tenant: &str, pattern: String| v1::SearchPageRequest { tenant: tenant.into(), r#ref: made.undo.clone(), pattern, limit: 1 };
    let pattern: String = line.chars().flat_map(|c| if c.is_ascii_punctuation() { vec!['\\', c] } else { vec![c] }).collect();
    let found = client.search_page(search("harbour", pattern)).await.unwrap();
    assert_eq!(found.hits.len(), 1);

    for tenant in ["pirate", ""] {
        assert_eq!(client.read_page(read(tenant)).await.unwrap_err().kind(), Kind::NotFound);
        assert_eq!(client.search_page(search(tenant, ".".into())).await.unwrap_err().kind(), Kind::NotFound);
        let stat = v1::StatPageRequest { tenant: tenant.into(), r#ref: reference.clone() };
        assert_eq!(client.stat_page(stat).await.unwrap_err().kind(), Kind::NotFound);
        let undo = v1::UndoRequest { tenant: tenant.into(), id: made.undo.clone() };
        assert_eq!(client.undo(undo).await.unwrap_err().kind(), Kind::NotFound);
    }
    for bad in ["../../etc/passwd", "", "pg_0", &"x".repeat(10_000)] {
        let ask = v1::ReadPageRequest { tenant: "harbour".into(), r#ref: bad.to_owned(), page: 1 };
        assert_eq!(client.read_page(ask).await.unwrap_err().kind(), Kind::NotFound, "{bad}");
    }
    assert_eq!(client.read_page(read("a\u{7}b")).await.unwrap_err().kind(), Kind::InvalidInput);
    assert_eq!(client.read_page(v1::ReadPageRequest { page: u64::MAX, ..read("harbour") }).await.unwrap_err().kind(), Kind::NotFound);
    // No pattern hangs or breaks it.
    for pattern in ["(", "(?:a{1000}){1000}{1000}", &"a".repeat(1 << 20)] {
        assert_eq!(client.search_page(search("harbour", (*pattern).to_owned())).await.unwrap_err().kind(), Kind::InvalidInput);
    }
    for pattern in ["(a+)+$", "(.*)*x(.*)*y", "(a|aa)+b"] {
        client.search_page(search("harbour", pattern.to_owned())).await.unwrap();
    }

    // The gateway's metadata names the tenant as the field does, and may not contradict it.
    let channel = tonic::transport::Endpoint::from_shared(server.url()).unwrap().connect().await.unwrap();
    let raw = v1::compact_service_client::CompactServiceClient::new(channel);
    let with_metadata = |tenant: &str, field: &str| {
        let mut request = tonic::Request::new(read(field));
        request.metadata_mut().insert("plimsoll-tenant", tenant.parse().unwrap());
        let mut raw = raw.clone();
        async move { raw.read_page(request).await.map(|page| page.into_inner().text).map_err(|status| status.code()) }
    };
    assert_eq!(with_metadata("harbour", "").await.unwrap(), page.text);
    assert_eq!(with_metadata("pirate", "").await.unwrap_err(), tonic::Code::NotFound);
    assert_eq!(with_metadata("pirate", "harbour").await.unwrap_err(), tonic::Code::InvalidArgument);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_models_call_of_a_page_tool_is_answered_in_its_format() {
    let server = Server::start(ServerConfig::default()).await;
    let mut client = server.client().await;
    let (body, target) = chat();
    let made = compacted(client.compact(wanted(v1::Format::Chat, &body, "gpt-4o", target)).await.unwrap());
    let reference = made.edits.iter().map(|edit| edit.r#ref.clone()).find(|r| !r.is_empty()).unwrap();
    for (name, format, _) in FORMATS {
        let tools = client.list_page_tools(v1::ListPageToolsRequest { format: format.into() }).await.unwrap().tools;
        let tools: Vec<Value> = tools.iter().map(|tool| serde_json::from_slice(tool).unwrap()).collect();
        assert_eq!(tools, plimsoll::page_tool_definitions(name.parse().unwrap()));
    }
    let call = json!({"type": "tool_use", "id": "t1", "name": "read_tool_result", "input": {"ref": reference, "page": 1}});
    let ask = |call: &Value, format: v1::Format| v1::AnswerPageCallRequest {
        format: format.into(),
        call: call.to_string().into_bytes(),
        ..Default::default()
    };
    let answer = client.answer_page_call(ask(&call, v1::Format::Anthropic)).await.unwrap().result.unwrap();
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert!(answer["tool_use_id"] == "t1" && answer["content"].as_str().unwrap().starts_with("[page 1 of "), "{answer}");
    let other = json!({"type": "tool_use", "id": "t1", "name": "bash", "input": {}});
    assert_eq!(client.answer_page_call(ask(&other, v1::Format::Anthropic)).await.unwrap().result, None);
    for (call, format) in [(json!(7), v1::Format::Chat), (call, v1::Format::Auto), (json!({}), v1::Format::Gemini)] {
        assert_eq!(client.answer_page_call(ask(&call, format)).await.unwrap_err().kind(), Kind::InvalidInput);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_histories_are_refused_with_findings_and_mended_on_request() {
    let server = Server::start(ServerConfig::default()).await;
    let mut client = server.client().await;
    let text = "cargo ".repeat(400);
    let body = json!({"model": "gpt-4o", "messages": [
        {"role": "user", "content": "hi"},
        {"role": "tool", "tool_call_id": "gone", "content": text},
        {"role": "assistant", "content": text}, {"role": "user", "content": text}, {"role": "assistant", "content": "done"},
        {"role": "user", "content": "next"}, {"role": "assistant", "content": "done"}, {"role": "user", "content": "and?"},
    ]})
    .to_string();
    let ask = wanted(v1::Format::Chat, &body, "gpt-4o", 250);
    let error = client.compact(ask.clone()).await.unwrap_err();
    assert_eq!((error.kind(), error.path()), (Kind::InvalidInput, Some("/messages/1")));
    let findings = detail(&error).unwrap().findings;
    let own = check(&Request::detect(body.as_bytes()).unwrap().0, None);
    assert_eq!(findings.len(), own.len());
    assert_eq!((findings[0].rule.as_str(), findings[0].severity()), (own[0].rule, v1::Severity::Error));

    let payload = v1::Payload { format: v1::Format::Auto.into(), body: body.clone().into_bytes() };
    let checked = client.check(v1::CheckRequest { payload: Some(payload.clone()), ..Default::default() }).await.unwrap();
    assert!(!checked.valid && checked.findings == findings && checked.body.is_empty());
    let mended = client.check(v1::CheckRequest { payload: Some(payload), repair: true, ..Default::default() }).await.unwrap();
    assert!(mended.valid && mended.mended.iter().any(|f| f.rule == "orphan_result"));
    let mended = Request::detect(&mended.body).unwrap().0;
    assert!(check(&mended, None).iter().all(|f| f.severity != Severity::Error));

    // Mended first, it compacts; undo gives back what was sent, not what it was mended to.
    let made = compacted(client.compact(v1::PlanCompactionRequest { repair: true, ..ask.clone() }).await.unwrap());
    let undone = client.undo(v1::UndoRequest { id: made.undo, ..Default::default() }).await.unwrap();
    assert_eq!(undone.body, body.as_bytes());
    // What fits once mended comes back mended.
    let roomy = client.compact(v1::PlanCompactionRequest { repair: true, target: Some(100_000), ..ask }).await.unwrap();
    let Some(Outcome::Unchanged(unchanged)) = roomy.outcome else { panic!("{roomy:?}") };
    assert_eq!(unchanged.body.as_deref(), Some(mended.text().as_bytes()));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_means_the_same_in_fields_and_in_json_and_contradictions_are_refused() {
    let server = Server::start(ServerConfig::default()).await;
    let mut client = server.client().await;
    let (body, target) = chat();
    let policy = Policy {
        high: Mark::Tokens(target * 2 - 10),
        low: Mark::Tokens(target),
        keep_exchanges: 3,
        shrink_over: 150,
        shrink_to: 70,
        pins: vec![plimsoll::Pin { index: Some(3), ..Default::default() }],
        steps: vec![plimsoll::Step::Clear, plimsoll::Step::Summarize],
        keep_tools: vec!["bash".into()],
        keep_identifiers: vec!["AB-1234".into()],
        min_gain: Mark::Tokens(30),
        cached_price: 0.25,
        ..Policy::default()
    };
    let wire = v1::CompactionPolicy {
        high: Some(v1::TokenMark { mark: Some(v1::token_mark::Mark::Tokens(target * 2 - 10)) }),
        low: Some(v1::TokenMark { mark: Some(v1::token_mark::Mark::Tokens(target)) }),
        keep_exchanges: Some(3),
        shrink_over: Some(150),
        shrink_to: Some(70),
        pins: vec![v1::Pin { index: Some(3), ..Default::default() }],
        steps: vec![v1::CompactionStep::Clear.into(), v1::CompactionStep::Summarize.into()],
        keep_tools: vec!["bash".into()],
        keep_identifiers: vec!["AB-1234".into()],
        min_gain: Some(v1::TokenMark { mark: Some(v1::token_mark::Mark::Tokens(30)) }),
        cached_price: Some(0.25),
        ..Default::default()
    };
    let ask = |how: How| v1::PlanCompactionRequest {
        request: Some(counted(v1::Format::Chat, &body, "gpt-4o")),
        how: Some(how),
        ..Default::default()
    };
    let fields = client.plan_compaction(ask(How::Policy(wire.clone()))).await.unwrap();
    let json = client.plan_compaction(ask(How::PolicyJson(serde_json::to_vec(&policy).unwrap()))).await.unwrap();
    assert!(fields == json && matches!(fields.decision, Some(Wire::Plan(_))), "{fields:?}\n{json:?}");

    let tokens = |tokens| Some(v1::TokenMark { mark: Some(v1::token_mark::Mark::Tokens(tokens)) });
    let share = |share| Some(v1::TokenMark { mark: Some(v1::token_mark::Mark::Share(share)) });
    let bad = [
        v1::CompactionPolicy { high: tokens(10), low: tokens(20), ..Default::default() },
        v1::CompactionPolicy { high: share(f64::NAN), ..Default::default() },
        v1::CompactionPolicy { high: share(7.0), ..Default::default() },
        v1::CompactionPolicy { low: Some(v1::TokenMark { mark: None }), ..Default::default() },
        v1::CompactionPolicy { steps: vec![99], ..Default::default() },
        v1::CompactionPolicy { summarizer: 99, ..Default::default() },
        v1::CompactionPolicy { pins: vec![v1::Pin::default()], ..Default::default() },
        v1::CompactionPolicy { shrink_to: Some(u64::MAX), ..Default::default() },
        v1::CompactionPolicy { cached_price: Some(f64::INFINITY), ..Default::default() },
    ];
    for policy in bad {
        assert_eq!(client.plan_compaction(ask(How::Policy(policy.clone()))).await.unwrap_err().kind(), Kind::InvalidInput, "{policy:?}");
    }
    for json in ["", "{", "[]", r#"{"hihg":1}"#, r#"{"summarizer":"http://169.254.169.254/"}"#] {
        let error = client.plan_compaction(ask(How::PolicyJson(json.as_bytes().to_vec()))).await.unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidInput, "{json}");
    }
    // A server without an endpoint says so, whoever asks.
    let endpoint = v1::CompactionPolicy { summarizer: v1::SummaryWriter::Endpoint.into(), ..wire };
    assert_eq!(client.compact(ask(How::Policy(endpoint))).await.unwrap_err().kind(), Kind::Unsupported);
    server.stop().await;
}

fn host_policy(summarizer: v1::SummaryWriter) -> How {
    How::Policy(v1::CompactionPolicy {
        summarizer: summarizer.into(),
        steps: vec![v1::CompactionStep::Summarize.into()],
        keep_identifiers: vec!["AB-1234".into()],
        ..Default::default()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_writes_its_own_summaries_in_a_second_call() {
    let server = Server::start(ServerConfig::default()).await;
    let mut client = server.client().await;
    let (body, target) = chat();
    let ask =
        v1::PlanCompactionRequest { how: Some(host_policy(v1::SummaryWriter::Host)), ..wanted(v1::Format::Chat, &body, "gpt-4o", target) };
    let Some(Wire::Plan(planned)) = client.plan_compaction(ask.clone()).await.unwrap().decision else { panic!("no plan") };
    let task = &planned.tasks[0];
    assert!(task.text.contains("AB-1234") && task.keep == ["AB-1234"] && task.bound > 0);
    let text = "The crew counted the cargo of AB-1234 and found it whole.";
    let with = |id: &str, task: u32, text: &str| v1::ApplySummariesRequest {
        plan: Some(ask.clone()),
        plan_id: id.to_owned(),
        summaries: vec![v1::Summary { task, text: text.to_owned() }],
    };
    let made = compacted(client.apply_summaries(with(&planned.id, task.index, text)).await.unwrap());
    assert!(String::from_utf8(made.body.clone()).unwrap().contains(text) && made.summaries_taken == [task.index]);
    assert!(made.after < planned.after && made.after <= target);
    let undone = client.undo(v1::UndoRequest { id: made.undo, ..Default::default() }).await.unwrap();
    assert_eq!(undone.body, body.as_bytes());
    // One that forgets what it must keep is passed over, and the built-in one stands.
    let passed = compacted(client.apply_summaries(with(&planned.id, task.index, "All is well.")).await.unwrap());
    assert!(passed.after == planned.after && passed.summaries_taken.is_empty());
    assert_eq!(client.apply_summaries(with("pl_0000000000000000", 0, text)).await.unwrap_err().kind(), Kind::Conflict);
    assert_eq!(client.apply_summaries(with(&planned.id, 99, text)).await.unwrap_err().kind(), Kind::InvalidInput);
    server.stop().await;
}

/// An operator's summarizer that counts how often it is asked.
struct Writer(std::sync::atomic::AtomicUsize);

impl Summarizer for Writer {
    fn summarize(&self, task: &SummaryTask) -> Result<String> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if task.index > 0 {
            return Err(plimsoll::Error::new(Kind::Unavailable, "no"));
        }
        Ok("A calm voyage with AB-1234.".to_owned())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operators_summarizer_is_asked_and_its_failures_change_nothing() {
    let writer = Arc::new(Writer(std::sync::atomic::AtomicUsize::new(0)));
    let server = Server::start(ServerConfig { summarizer: Some(writer.clone()), ..ServerConfig::default() }).await;
    let mut client = server.client().await;
    let (body, target) = chat();
    let ask = v1::PlanCompactionRequest {
        how: Some(host_policy(v1::SummaryWriter::Endpoint)),
        ..wanted(v1::Format::Chat, &body, "gpt-4o", target)
    };
    let made = compacted(client.compact(ask.clone()).await.unwrap());
    assert!(String::from_utf8(made.body).unwrap().contains("A calm voyage with AB-1234."));
    assert_eq!(made.summaries_taken, [0]);
    assert!(made.after <= target && writer.0.load(std::sync::atomic::Ordering::Relaxed) > 0);
    // A dry run asks nobody.
    let asked = writer.0.load(std::sync::atomic::Ordering::Relaxed);
    client.plan_compaction(ask).await.unwrap();
    assert_eq!(writer.0.load(std::sync::atomic::Ordering::Relaxed), asked);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_refuses_and_hands_out_nothing() {
    let limits = plimsoll::StoreLimits { tenant_bytes: 2_000, evict: false, ..Default::default() };
    let store = Arc::new(plimsoll::MemoryStore::new(limits, Arc::new(|| 0)));
    let server = Server::start(ServerConfig { store, ..ServerConfig::default() }).await;
    let mut client = server.client().await;
    let (body, target) = chat();
    let error = client.compact(wanted(v1::Format::Chat, &body, "gpt-4o", target)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::LimitExceeded, "{error}");
    // A dry run keeps nothing, so it still answers.
    assert!(client.plan_compaction(wanted(v1::Format::Chat, &body, "gpt-4o", target)).await.is_ok());
    server.stop().await;
}
