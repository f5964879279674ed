//! Every model that a recorded exchange names resolves, and so does every host; the exceptions are listed with their reasons.

mod common;

use plimsoll::{Kind, Models, Provider};
use std::collections::BTreeMap;

/// Names that no table can know.
const UNKNOWN: &[(&str, &str)] = &[
    ("facebook/opt-125m", "a research model without a chat template"),
    ("openllmetry-testing", "a deployment's own name"),
    ("gemini-embedding-2-preview", "not a chat model"),
    (
        "arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Aapplication-inference-profile%2Fmi1dadi0g15f",
        "a profile that only its owner can read",
    ),
];

#[test]
fn every_recorded_name_resolves() {
    let started = std::time::Instant::now();
    let models = Models::builtin();
    println!("built in {:?}", started.elapsed());
    let (mut seen, mut missing) = (BTreeMap::new(), Vec::new());
    for file in
        ["chat", "responses", "anthropic", "gemini", "converse", "anthropic_count_tokens", "gemini_count_tokens", "responses_count_tokens"]
    {
        let Some(exchanges) = common::exchanges(file) else { return };
        for exchange in exchanges {
            let Some(name) = exchange["model"].as_str() else { continue };
            let host: Provider = exchange["host"].as_str().unwrap().parse().unwrap();
            seen.insert((name.to_owned(), host.to_string()), host);
        }
    }
    for ((name, host), provider) in &seen {
        let found = models.find(name, Some(provider));
        match (found, UNKNOWN.iter().any(|(unknown, _)| unknown == name)) {
            (Ok(profile), false) => println!("{name} @ {host}: {} {} {}", profile.id, profile.renderer, profile.tokenizer),
            (Err(error), true) => assert_eq!(error.kind(), Kind::UnknownModel),
            (Ok(profile), true) => missing.push(format!("{name} @ {host}: listed as unknown, found {}", profile.id)),
            (Err(error), false) => missing.push(format!("{name} @ {host}: {error}")),
        }
    }
    let started = std::time::Instant::now();
    for _ in 0..100 {
        for ((name, _), provider) in &seen {
            std::hint::black_box(models.find(name, Some(provider)).is_ok());
        }
    }
    println!(
        "{} ns a lookup on average, unknown names with their suggestions included",
        started.elapsed().as_nanos() / (100 * seen.len() as u128)
    );
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    assert!(seen.len() > 150, "only {} names seen", seen.len());
}

#[test]
fn every_maker_is_well_covered() {
    let models = Models::builtin();
    let mut by_maker: BTreeMap<&str, usize> = BTreeMap::new();
    for profile in models.list() {
        *by_maker.entry(&profile.maker).or_default() += 1;
    }
    println!("{by_maker:?}");
    let expected =
        ["openai", "anthropic", "google", "xai", "deepseek", "qwen", "mistral", "meta", "moonshot", "zhipu", "minimax", "cohere", "amazon"];
    for maker in expected {
        assert!(by_maker.get(maker).copied().unwrap_or(0) >= 5, "{maker}: {:?}", by_maker.get(maker));
    }
    assert!(by_maker.values().sum::<usize>() >= 400);
}
