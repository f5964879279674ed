//! Open-weight models on their providers' hosts, against what was billed: a table a host and family, and bars that must hold.
//!
//! Needs the recorded exchanges and the vocabularies of `scripts/fetch-vocabularies`; skips, saying so, without either.
//! Media and server tools are left out of the scores (their text can't be known), as are recordings through mocks.
#![allow(clippy::print_stdout, reason = "the table is the point")]

mod common;

use plimsoll::{AddOptions, CountOptions, Counter, Format, Provider, Request, VocabularyStore};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Recordings whose usage no rule explains while all their neighbours are exact: made up, or another model's.
const FAKES: &[&str] = &["3faab8d176c4", "d97c1590b7d7", "2b888bf93e4f"];

/// A store with the fetched vocabularies that renderers ask for, kept between runs.
fn store() -> Option<VocabularyStore> {
    let root = std::env::var_os("PLIMSOLL_TEST_VOCABULARIES")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/target/vocabularies")), PathBuf::from);
    let store = VocabularyStore::at(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("open-ground-truth"));
    for name in ["glm4", "kimi", "qwen3", "llama3", "llama4", "deepseek-v3", "deepseek-v4", "tekken"] {
        if !root.join(name).is_dir() {
            println!("skipped: no vocabulary {name}; run scripts/fetch-vocabularies");
            return None;
        }
        let options = AddOptions { by_reference: true, ..AddOptions::default() };
        store.add(name, &root.join(name), &options).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    Some(store)
}

fn billed(usage: &serde_json::Value) -> Option<u64> {
    ["prompt_tokens", "input_tokens", "inputTokens"].iter().find_map(|key| usage.get(key)?.as_u64())
}

/// Whether a host and a renderer count towards a bar.
type Pick<'a> = &'a dyn Fn(&str, &str) -> bool;

#[derive(Default)]
struct Score {
    exact: usize,
    within: usize,
    all: usize,
    bounded: usize,
    misses: Vec<String>,
}

#[test]
fn recorded_bills() {
    let Some(store) = store() else { return };
    let counter = Counter::new().with_vocabularies(store);
    let mut table: BTreeMap<(String, String), Score> = BTreeMap::new();
    for (name, format) in [("chat", Format::Chat), ("responses", Format::Responses), ("converse", Format::Converse)] {
        let Some(exchanges) = common::exchanges(name) else { return };
        for exchange in exchanges {
            let id = exchange["id"].as_str().unwrap_or_default().to_owned();
            let host = exchange["host"].as_str().unwrap_or_default();
            if host == "api.openai.com" || FAKES.contains(&id.as_str()) {
                continue;
            }
            let provider: Option<Provider> = host.parse().ok();
            let model = exchange["model"].as_str().unwrap_or_default().replace("%3A", ":").replace("%2F", "/");
            // Hugging Face's router names the host that answers after the model.
            let provider = if model.ends_with(":groq") { "groq".parse().ok() } else { provider };
            let Ok(profile) = counter.models().find(&model, provider.as_ref()) else { continue };
            if !profile.renderer.starts_with("template:") {
                continue;
            }
            let Some(truth) = billed(&exchange["usage"]) else { continue };
            let body = exchange["request"].to_string();
            let request = Request::parse(body.as_bytes(), format).unwrap_or_else(|e| panic!("{id}: {e}"));
            let options = CountOptions { model: Some(model.clone()), provider: provider.clone(), ..CountOptions::default() };
            let count = match counter.count(&request, &options) {
                Ok(count) => count,
                Err(e) => panic!("{id}: {e}"),
            };
            let total = count.breakdown.total();
            assert_eq!(total, count.breakdown.parts().iter().map(|part| part.tokens).sum::<u64>(), "{id}");
            // Pictures, files and whatever else isn't text are not scored here.
            let has_media = count.breakdown.parts().iter().any(|part| {
                matches!(part.kind, plimsoll::PartKind::Image | plimsoll::PartKind::File)
                    || part.confidence == plimsoll::Confidence::Unbounded
            });
            if has_media {
                continue;
            }
            let host = provider.as_ref().map_or("?", Provider::as_str).to_owned();
            let score = table.entry((host, profile.renderer.clone())).or_default();
            let miss = i64::try_from(total).unwrap() - i64::try_from(truth).unwrap();
            score.all += 1;
            score.exact += usize::from(miss == 0);
            score.within += usize::from(miss.unsigned_abs() * 100 <= truth);
            score.bounded += usize::from(count.breakdown.bound().is_some_and(|bound| miss.unsigned_abs() <= bound));
            if miss != 0 {
                score.misses.push(format!("{id} {model} billed {truth} {miss:+}"));
            }
        }
    }
    println!("{:<15} {:<26} {:>4} {:>6} {:>6} {:>6}", "host", "renderer", "n", "exact", "1%", "bound");
    let (mut all, mut exact) = (0, 0);
    for ((host, renderer), score) in &table {
        println!("{host:<15} {renderer:<26} {:>4} {:>6} {:>6} {:>6}", score.all, score.exact, score.within, score.bounded);
        for miss in &score.misses {
            println!("    {miss}");
        }
        all += score.all;
        exact += score.exact;
    }
    println!("all: {exact} of {all} exact");
    let share = |pick: Pick<'_>| {
        let (mut all, mut exact) = (0, 0);
        for ((host, renderer), score) in &table {
            if pick(host, renderer) {
                all += score.all;
                exact += score.exact;
            }
        }
        (exact, all)
    };
    // Hosts whose served template is public.
    let bars: [(&str, Pick<'_>, usize); 5] = [
        ("GLM on z.ai, Cerebras, Crusoe", &|host, renderer| renderer.contains("glm") && ["zai", "cerebras", "crusoe"].contains(&host), 95),
        ("Kimi K2 on Groq", &|host, renderer| renderer == "template:kimi-k2" && host == "groq", 100),
        ("Llama 3 everywhere but Snowflake", &|host, renderer| renderer.contains("llama-3") && host != "snowflake", 90),
        (
            "gpt-oss on Bedrock, Cerebras, llama.cpp",
            &|host, renderer| renderer.contains("gpt-oss") && ["bedrock", "bedrock-mantle", "cerebras", "llama-cpp"].contains(&host),
            90,
        ),
        ("Mistral at home", &|host, _| host == "mistral", 80),
    ];
    for (what, pick, least) in bars {
        let (exact, all) = share(pick);
        assert!(all > 0 && exact * 100 >= least * all, "{what}: {exact} of {all} exact, at least {least}% wanted");
    }
}
