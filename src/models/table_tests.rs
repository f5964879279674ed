//! Tests of the table over the built-in data: every recorded name resolves, spellings agree, unknown names are errors.

use super::*;

fn id(name: &str) -> String {
    Models::builtin().find(name, None).map_or_else(|e| e.to_string(), |p| p.id.clone())
}

#[test]
fn built_in_lists_parse_and_are_large() {
    for text in [CHECKED, SEEDED] {
        rows::parse(text).unwrap();
    }
    let models = Models::builtin();
    assert!(models.list().count() >= 400, "{}", models.list().count());
    for profile in models.list() {
        assert!(profile.window.is_some() || profile.input_cap.is_some() || profile.output_cap.is_some(), "{} has no limit", profile.id);
        assert!(!profile.source.is_empty() && profile.date.len() == 10, "{}: source and date", profile.id);
        let window = profile.window.unwrap_or(u64::MAX);
        assert!(
            profile.input_cap.is_none_or(|n| n <= window) && profile.output_cap.is_none_or(|n| n <= window),
            "{}: cap over window",
            profile.id
        );
    }
}

#[test]
fn ids_are_unique_and_find_themselves() {
    let models = Models::builtin();
    let mut seen = std::collections::HashSet::new();
    for profile in models.list() {
        assert!(seen.insert(profile.id.clone()), "{} twice", profile.id);
        assert_eq!(models.find(&profile.id, None).unwrap().id, profile.id);
        assert_eq!(models.find(&profile.id.to_uppercase(), None).unwrap().id, profile.id);
    }
}

#[test]
fn spellings() {
    for (name, expected) in [
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-05-13"),
        ("azure/gpt-35-turbo", "azure/gpt-3.5-turbo"),
        ("ft:gpt-4o-mini-2024-07-18:my-org::abc", "gpt-4o-mini"),
        ("openrouter/anthropic/claude-3.7-sonnet:thinking", "claude-3-7-sonnet"),
        ("us.anthropic.claude-3-7-sonnet-20250219-v1%3A0", "claude-3-7-sonnet"),
        (
            "arn%3Aaws%3Abedrock%3Aus-east-1%3A012345678901%3Ainference-profile%2Fus.anthropic.claude-3-7-sonnet-20250219-v1%3A0",
            "claude-3-7-sonnet",
        ),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("models/gemini-2.5-pro-preview-05-06", "gemini-2.5-pro"),
        ("publishers/google/models/gemini-2.0-flash-001", "gemini-2.0-flash"),
        ("projects/p/locations/l/publishers/anthropic/models/claude-opus-4-1@20250805", "claude-opus-4-1"),
        ("google/gemini-2.0-flash-exp:free", "gemini-2.0-flash"),
        ("amazon.nova-lite-v1%3A0", "nova-lite"),
        ("moonshotai/Kimi-K2-Instruct-0905:groq", "kimi-k2-instruct-0905"),
        ("openai.gpt-oss-120b-1%3A0", "gpt-oss-120b"),
        ("gpt-oss:20b", "gpt-oss-20b"),
        ("qwen3:0.6b", "qwen3-0.6b"),
        ("zai-glm-4.7", "glm-4.7"),
        ("openai-gpt-4.1", "gpt-4.1"),
        ("grok-4-1-fast-non-reasoning", "grok-4.1-fast-non-reasoning"),
        ("accounts/fireworks/models/llama-v3p1-8b-instruct", "llama-3.1-8b-instruct"),
        ("anthropic.claude-v2:1", "claude-2.1"),
    ] {
        assert_eq!(id(name), expected, "{name}");
    }
}

#[test]
fn a_host_changes_limits() {
    let models = Models::builtin();
    let groq = "api.groq.com".parse().unwrap();
    assert_eq!(models.find("llama-3.3-70b-versatile", Some(&groq)).unwrap().output_cap, Some(32_768));
    assert_eq!(models.find("llama-3.3-70b-versatile", None).unwrap().output_cap, None);
    assert_eq!(models.find("groq/llama-3.3-70b-versatile", None).unwrap().output_cap, Some(32_768));
    assert_eq!(models.find("gpt-4o", Some(&groq)).unwrap().id, "gpt-4o");
}

#[test]
fn unknown_names_are_errors_with_near_names() {
    let models = Models::builtin();
    let error = models.find("claude-sonnett-4-5", None).unwrap_err();
    assert_eq!(error.kind(), Kind::UnknownModel);
    assert_eq!(error.suggestions().first().map(String::as_str), Some("claude-sonnet-4-5"));
    for name in [
        "",
        "gpt",
        "claude",
        "-",
        "latest",
        "gpt-4o-foo",
        "o9",
        &"x".repeat(100_000),
        "\u{0}",
        "arn:aws:bedrock:us-east-1:1:application-inference-profile/abc",
    ] {
        let error = models.find(name, None).unwrap_err();
        assert_eq!(error.kind(), Kind::UnknownModel, "{}", short(name));
        assert!(error.to_string().len() < 400);
    }
}

#[test]
fn nearest_and_custom() {
    let models = Models::builtin();
    let near = models.find_nearest("anthropic/claude-opus-9-1", None).unwrap();
    assert_eq!((near.id.as_str(), near.maker.as_str()), ("claude-opus-9-1", "anthropic"));
    assert!(near.notes.as_deref().unwrap().contains("claude-opus"));
    assert_eq!(models.find_nearest("gpt-4o", None).unwrap().id, "gpt-4o");
    assert!(models.find_nearest("zzz-unheard-of", None).is_err());
    let own = models.custom("my/qwen3-99b", 4096, Some(512));
    assert_eq!(
        (own.window, own.output_cap, own.tokenizer.as_str(), own.renderer.as_str()),
        (Some(4096), Some(512), "qwen3", "template:qwen3")
    );
    assert_eq!(models.custom("house", 1, None).renderer, "generic");
}

#[test]
fn text_reads_back() {
    let models = Models::builtin();
    let mut again = Models::checked_only();
    again.merge_text(&models.to_text()).unwrap();
    let (a, b): (Vec<_>, Vec<_>) = (models.list().collect(), again.list().collect());
    assert_eq!(a, b);
    assert!(again.merge_text("x\tmany").is_err());
}
