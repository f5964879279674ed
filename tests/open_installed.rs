//! A model of the user's own: its vocabulary and chat template installed, counted by rendering the template; and what hostile templates do.
#![cfg(feature = "templates")]
#![allow(clippy::unwrap_used, reason = "a test that can't set up must stop")]

use plimsoll::{AddOptions, Confidence, CountOptions, Counter, Format, Kind, PartKind, Request, VocabularyStore};
use serde_json::json;

/// A byte-level vocabulary without merges: one token a byte, and two special tokens.
fn vocabulary() -> String {
    let stand_ins = (0x21..=0x143_u32).filter(|c| !matches!(c, 0x7F..=0xA0 | 0xAD)).filter_map(char::from_u32);
    let tokens: serde_json::Map<_, _> = stand_ins.zip(0_u32..).map(|(c, id)| (c.to_string(), id.into())).collect();
    let special = |id: u32, content: &str| json!({"id": id, "content": content, "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false});
    json!({
        "version": "1.0",
        "added_tokens": [special(256, "<|turn|>"), special(257, "<|done|>")],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "vocab": tokens, "merges": []},
    })
    .to_string()
}

const TEMPLATE: &str = "{% for m in messages %}<|turn|>{{ m.role }}:{{ m.content | trim }}{% for c in m.tool_calls or [] %}!{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}<|done|>{% endfor %}{% if tools %}[{% for t in tools %}{{ t | tojson }}{% endfor %}]{% endif %}{% if add_generation_prompt %}<|turn|>assistant:{% endif %}";

/// A store with the model `house` and this template.
fn store(template: &str) -> (tempfile::TempDir, VocabularyStore) {
    let home = tempfile::tempdir().unwrap();
    let model = home.path().join("model");
    std::fs::create_dir(&model).unwrap();
    std::fs::write(model.join("tokenizer.json"), vocabulary()).unwrap();
    std::fs::write(model.join("tokenizer_config.json"), json!({"eos_token": "<|done|>", "chat_template": template}).to_string()).unwrap();
    let store = VocabularyStore::at(home.path().join("store"));
    store.add("house", &model, &AddOptions::default()).unwrap();
    (home, store)
}

fn request() -> Request {
    let body = json!({"model": "house", "messages": [
        {"role": "system", "content": " sys "},
        {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "text", "text": "<|done|>"}]},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "ok"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]});
    Request::parse(body.to_string().as_bytes(), Format::Chat).unwrap()
}

#[test]
fn the_models_own_template_is_rendered_and_its_parts_sum_to_the_total() {
    let (_home, store) = store(TEMPLATE);
    let counter = Counter::new().with_vocabularies(store);
    let prompt = counter.prompt(&request(), &CountOptions::default()).unwrap();
    let tool = r#"{"type": "function", "function": {"name": "f", "parameters": {}}}"#;
    let expected = format!(
        "<|turn|>system:sys<|done|><|turn|>user:hi\n<|done|><|done|><|turn|>assistant:!f{{\"a\": 1}}<|done|><|turn|>tool:ok<|done|>[{tool}]<|turn|>assistant:"
    );
    assert_eq!(prompt.text, expected);
    // Pieces cover the text without gaps.
    assert_eq!(prompt.pieces.iter().map(|piece| &prompt.text[piece.range.clone()]).collect::<String>(), expected);

    let count = counter.count(&request(), &CountOptions::default()).unwrap();
    // Ten special tokens, the user's look-alike among them; every other byte is a token.
    let specials = expected.matches("<|turn|>").count() + expected.matches("<|done|>").count();
    let bytes = expected.len() - specials * "<|turn|>".len();
    assert_eq!(count.total(), u64::try_from(bytes + specials).unwrap());
    assert_eq!(count.breakdown.parts().iter().map(|part| part.tokens).sum::<u64>(), count.total());
    let of = |kind: PartKind| count.breakdown.parts().iter().filter(|part| part.kind == kind).map(|part| part.tokens).sum::<u64>();
    assert_eq!((of(PartKind::System), of(PartKind::ToolResult)), (3, 2));
    assert_eq!(of(PartKind::ToolDefinition), u64::try_from(tool.len()).unwrap());
    assert_eq!(of(PartKind::User), 4);

    // A host that renders as published is exact; another one is not known to.
    let on = |provider: &str| {
        let options = CountOptions { provider: Some(provider.parse().unwrap()), ..CountOptions::default() };
        counter.count(&request(), &options).unwrap().confidence()
    };
    assert_eq!(on("vllm"), Confidence::Exact);
    assert_eq!(on("fireworks"), Confidence::Calibrated);
    assert_eq!(count.confidence(), Confidence::Calibrated);
}

#[test]
fn hostile_templates_end_with_a_typed_error() {
    for (template, kind) in [
        ("{% for a in range(100000) %}{% for b in range(100000) %}{% set x = a %}{% endfor %}{% endfor %}", Kind::LimitExceeded),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", Kind::LimitExceeded),
        ("{{ 'x' * 1000000000000 }}", Kind::LimitExceeded),
        ("{{ raise_exception('only pictures') }}", Kind::InvalidInput),
        ("{% for %}", Kind::InvalidInput),
        ("{{ messages[99].content.x }}", Kind::InvalidInput),
    ] {
        let (_home, store) = store(template);
        let counter = Counter::new().with_vocabularies(store);
        let error = counter.count(&request(), &CountOptions::default()).unwrap_err();
        assert_eq!(error.kind(), kind, "{template}: {error}");
        assert_eq!(counter.prompt(&request(), &CountOptions::default()).unwrap_err().kind(), kind, "{template}");
    }
}

#[test]
fn a_template_is_kept_until_its_file_changes_and_by_day() {
    let (home, store) = store("{{ strftime_now('%d') }}");
    let counter = Counter::new().with_vocabularies(store.clone());
    let on = |day: &str| {
        let options = CountOptions { as_of: Some(day.parse().unwrap()), ..CountOptions::default() };
        counter.prompt(&request(), &options).unwrap().text
    };
    assert_eq!([on("2026-12-01"), on("2026-12-02"), on("2026-12-02"), on("2026-12-01")], ["01", "02", "02", "01"]);
    let settings = json!({"eos_token": "<|done|>", "chat_template": "{{ strftime_now('%m') }}"});
    std::fs::write(home.path().join("model/tokenizer_config.json"), settings.to_string()).unwrap();
    store.add("house", &home.path().join("model"), &AddOptions::default()).unwrap();
    assert_eq!(on("2026-12-01"), "12");
}

#[test]
fn without_a_template_the_model_is_unknown_and_closed_prompts_are_not_shown() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("model")).unwrap();
    std::fs::write(home.path().join("model/tokenizer.json"), vocabulary()).unwrap();
    let store = VocabularyStore::at(home.path().join("store"));
    store.add("house", &home.path().join("model"), &AddOptions::default()).unwrap();
    let counter = Counter::new().with_vocabularies(store);
    assert_eq!(counter.count(&request(), &CountOptions::default()).unwrap_err().kind(), Kind::UnknownModel);
    let closed = CountOptions { model: Some("gpt-4o".to_owned()), ..CountOptions::default() };
    let error = counter.prompt(&request(), &closed).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(error.to_string().contains("gpt-4o"), "{error}");
}

#[test]
fn a_described_family_shows_its_prompt_too() {
    let counter = Counter::new().with_vocabularies(VocabularyStore::at("/nonexistent"));
    let options = CountOptions { model: Some("qwen3-32b".to_owned()), ..CountOptions::default() };
    let prompt = counter.prompt(&request(), &options).unwrap();
    assert!(prompt.text.starts_with("<|im_start|>system\n sys "), "{}", prompt.text);
    let user = prompt
        .pieces
        .iter()
        .find(|piece| piece.part.and_then(|part| prompt.breakdown.parts().get(part)).is_some_and(|part| part.kind == PartKind::User));
    assert_eq!(&prompt.text[user.unwrap().range.clone()], "hi<|done|>");
}
