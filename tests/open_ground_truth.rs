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
    for name in ["glm4", "kimi", "qwen3", "llama3", "llama4", "deepseek-v3", "deepseek-v4", "tekken", "llama2"] {
        if !root.join(name).is_dir() {
            // One row alone needs Llama 2's: it is counted with a stand-in without.
            if name == "llama2" {
                println!("no vocabulary {name}; a stand-in serves");
                continue;
            }
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

/// The day on which the host says that it answered: a name means the snapshot of its day.
fn recorded_on(response: &serde_json::Value) -> Option<plimsoll::Day> {
    let text = response.as_str().map_or_else(|| response.to_string(), str::to_owned);
    let digits = |key: &str| {
        let rest = text.split_once(key)?.1.trim_start_matches([' ', ':']);
        rest.get(..rest.find(|c: char| !c.is_ascii_digit())?)?.parse::<i64>().ok()
    };
    let days = digits("\"created\"").or_else(|| digits("\"created_at\""))? / 86_400;
    // Civil from days, after Howard Hinnant.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}").parse().ok()
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
            let options = CountOptions {
                model: Some(model.clone()),
                provider: provider.clone(),
                as_of: recorded_on(&exchange["response"]),
                ..CountOptions::default()
            };
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
    // Hosts whose served template is public: 90%. Where one name covers several snapshots: 80%.
    let bars: [(&str, Pick<'_>, usize); 9] = [
        ("GLM on z.ai, Cerebras, Crusoe", &|host, renderer| renderer.contains("glm") && ["zai", "cerebras", "crusoe"].contains(&host), 100),
        ("Kimi K2 on Groq", &|host, renderer| renderer == "template:kimi-k2" && host == "groq", 100),
        ("Qwen 3 on Groq and Bedrock", &|host, renderer| renderer == "template:qwen3" && ["groq", "bedrock"].contains(&host), 100),
        ("Llama 3 everywhere but Snowflake", &|host, renderer| renderer.contains("llama-3") && host != "snowflake", 100),
        (
            "gpt-oss on Bedrock, Cerebras, llama.cpp",
            &|host, renderer| renderer.contains("gpt-oss") && ["bedrock", "bedrock-mantle", "cerebras", "llama-cpp"].contains(&host),
            100,
        ),
        ("gpt-oss on Groq", &|host, renderer| renderer.contains("gpt-oss") && host == "groq", 90),
        ("Llama 4 on Groq", &|host, renderer| renderer == "template:llama-4" && host == "groq", 90),
        ("Mistral at home", &|host, _| host == "mistral", 90),
        ("DeepSeek at home", &|host, _| host == "deepseek", 85),
    ];
    println!();
    for (what, pick, least) in bars {
        let (exact, all) = share(pick);
        println!("{what}: {exact} of {all} exact, {least}% or more wanted");
        assert!(all > 0 && exact * 100 >= least * all, "{what}: {exact} of {all} exact, at least {least}% wanted");
    }
}
