//! Budget decisions on requests of known weight: the issue's worked examples, each limit, and invariant 6.

use super::*;
use crate::count::{Breakdown, Part, PartKind};
use crate::format::{Format, Request};
use proptest::prelude::*;
use std::sync::Arc;

fn profile(window: Option<u64>, input_cap: Option<u64>, output_cap: Option<u64>) -> Arc<Profile> {
    Arc::new(Profile {
        id: "test".into(),
        maker: "openai".into(),
        window,
        input_cap,
        output_cap,
        tokenizer: "o200k_base".into(),
        proxy: false,
        renderer: "openai-classic".into(),
        image_rule: None,
        reasoning: false,
        source: "test".into(),
        date: "2026-11-30".into(),
        notes: None,
    })
}

fn weigh(tokens: u64, bound: Option<u64>, profile: Arc<Profile>) -> Count {
    let mut breakdown = Breakdown::default();
    let confidence = match bound {
        Some(0) => Confidence::Exact,
        Some(_) => Confidence::Calibrated,
        None => Confidence::Unbounded,
    };
    breakdown.push(Part { confidence, bound, ..Part::exact(PartKind::User, "/messages/0", tokens) });
    Count { breakdown, profile }
}

fn budget(body: &str, format: Format, count: &Count, policy: &BudgetPolicy) -> Budget {
    let request = Request::parse(body.as_bytes(), format).unwrap();
    let Value::Object(map) = request.value() else { panic!("a body is an object") };
    let options = crate::format::Options {
        max_output: map.get("max_tokens").and_then(Value::as_u64).map(|t| (t, "max_tokens")),
        choices: map.get("n").and_then(Value::as_u64),
        thinking_budget: map.get("thinking").and_then(|t| t["budget_tokens"].as_i64()),
        ..Default::default()
    };
    let conversation = Conversation {
        format,
        body: map,
        model: None,
        messages: Vec::new(),
        tools: Vec::new(),
        tool_choice: crate::format::ToolChoice::Default,
        response_format: crate::format::ResponseFormat::Text,
        options,
        unbounded: Vec::new(),
    };
    decide(&conversation, count, policy, &Models::builtin(), None).unwrap()
}

const WINDOW: u64 = 128_000;

#[test]
fn a_request_that_fits_gets_what_it_asks_for() {
    let count = weigh(30_000, Some(0), profile(Some(WINDOW), None, Some(16_000)));
    let got = budget(r#"{"max_tokens":8000}"#, Format::Chat, &count, &BudgetPolicy::default());
    assert_eq!((got.fits, got.granted, got.limit, got.free), (true, 8_000, Limit::Requested, Some(90_000)));
    assert_eq!(got.patch, serde_json::json!([{"op": "add", "path": "/max_tokens", "value": 8000}]));
}

#[test]
fn a_nearly_full_window_grants_the_rest_less_margin() {
    let count = weigh(127_000, Some(0), profile(Some(WINDOW), None, Some(16_000)));
    let policy = BudgetPolicy { margin: Margin::Fixed(100), ..Default::default() };
    let got = budget(r#"{"max_tokens":16000}"#, Format::Chat, &count, &policy);
    assert_eq!((got.fits, got.granted, got.limit, got.free), (true, 900, Limit::Window, Some(0)));
    assert_eq!(got.notes, ["the body asks for 16000 output tokens, more than can be granted"]);

    let whole = BudgetPolicy { require_whole: true, ..policy };
    let got = budget(r#"{"max_tokens":16000}"#, Format::Chat, &count, &whole);
    let shortfall = got.shortfall.unwrap();
    assert_eq!((got.fits, got.granted, shortfall.tokens, shortfall.limit), (false, 900, 15_100, Limit::Window));
}

#[test]
fn an_input_over_its_own_cap_is_refused_though_the_window_would_hold_it() {
    let count = weigh(300_000, Some(0), profile(Some(400_000), Some(272_000), Some(128_000)));
    let got = budget(r#"{"max_tokens":1000}"#, Format::Chat, &count, &BudgetPolicy::default());
    let shortfall = got.shortfall.unwrap();
    assert_eq!((got.granted, shortfall.tokens, shortfall.limit), (0, 28_000, Limit::InputCap));
}

#[test]
fn an_input_over_the_window_names_the_whole_overrun() {
    let count = weigh(130_000, Some(0), profile(Some(WINDOW), None, None));
    let got = budget("{}", Format::Chat, &count, &BudgetPolicy { min_visible: 500, ..Default::default() });
    let shortfall = got.shortfall.unwrap();
    assert_eq!((got.granted, shortfall.tokens, shortfall.limit), (0, 2_500, Limit::Window));
}

#[test]
fn thinking_must_leave_room_for_an_answer() {
    let count = weigh(1_000, Some(0), profile(Some(200_000), None, Some(64_000)));
    let got = budget(r#"{"max_tokens":4000,"thinking":{"budget_tokens":4000}}"#, Format::Anthropic, &count, &BudgetPolicy::default());
    let shortfall = got.shortfall.unwrap();
    assert_eq!((shortfall.tokens, shortfall.limit), (1, Limit::Thinking));
    assert_eq!(shortfall.remedies[0], Remedy::LowerThinking { by: 1 });
    let got = budget(r#"{"max_tokens":4001,"thinking":{"budget_tokens":4000}}"#, Format::Anthropic, &count, &BudgetPolicy::default());
    assert_eq!((got.fits, got.reserve), (true, 4000));
}

#[test]
fn auto_margin_is_the_bound_of_the_count() {
    let count = weigh(10_000, Some(250), profile(Some(WINDOW), None, None));
    assert_eq!(budget("{}", Format::Chat, &count, &BudgetPolicy::default()).margin, 250);
    let percent = BudgetPolicy { margin: "2.5%".parse().unwrap(), ..Default::default() };
    assert_eq!(budget("{}", Format::Chat, &count, &percent).margin, 250);
}

#[test]
fn several_choices_are_noted() {
    let count = weigh(10, Some(0), profile(Some(WINDOW), None, None));
    let got = budget(r#"{"max_tokens":100,"n":3}"#, Format::Chat, &count, &BudgetPolicy::default());
    assert_eq!(got.choices, 3);
    assert_eq!(got.notes, ["3 choices are asked for: up to 300 output tokens are billed"]);
}

#[test]
fn a_nested_field_gets_its_parent() {
    let count = weigh(10, Some(0), profile(None, Some(1_000_000), Some(65_536)));
    let got = budget("{}", Format::Gemini, &count, &BudgetPolicy::default());
    assert_eq!(got.field, "/generationConfig/maxOutputTokens");
    assert_eq!(
        got.patch,
        serde_json::json!([
            {"op": "add", "path": "/generationConfig", "value": {}},
            {"op": "add", "path": "/generationConfig/maxOutputTokens", "value": 65_536}
        ])
    );
}

#[test]
fn margins_that_are_none_are_refused() {
    for text in ["", "-1", "101%", "-2%", "NaN%", "x", "5 %%"] {
        assert!(text.parse::<Margin>().is_err(), "{text}");
    }
}

proptest! {
    /// Invariant 6, up to the ends of the number range.
    #[test]
    fn never_over_a_limit_never_wrapping(
        input in prop_oneof![0..300_000_u64, Just(u64::MAX), Just(u64::MAX - 1)],
        window in proptest::option::of(prop_oneof![1..300_000_u64, Just(u64::MAX)]),
        cap in proptest::option::of(prop_oneof![1..300_000_u64, Just(u64::MAX)]),
        input_cap in proptest::option::of(1..300_000_u64),
        requested in proptest::option::of(prop_oneof![1..300_000_u64, Just(u64::MAX)]),
        margin in prop_oneof![(0..5_000_u64).prop_map(Margin::Fixed), Just(Margin::Fixed(u64::MAX)), (0.0..100.0).prop_map(Margin::Percent), Just(Margin::Auto)],
        min_visible in 0..2_000_u64,
        require_whole in any::<bool>(),
        thinking in proptest::option::of(-1..50_000_i64),
    ) {
        prop_assume!(window.is_some() || cap.is_some());
        let count = weigh(input, Some(0), profile(window, input_cap, cap));
        let body = match thinking { Some(t) => format!(r#"{{"thinking":{{"budget_tokens":{t}}}}}"#), None => "{}".into() };
        let policy = BudgetPolicy { requested, margin, min_visible, require_whole };
        let got = budget(&body, Format::Anthropic, &count, &policy);
        prop_assert!(requested.is_none_or(|r| got.granted <= r));
        prop_assert!(cap.is_none_or(|c| got.granted <= c));
        if got.granted > 0 && let Some(window) = window {
            prop_assert!(u128::from(input) + u128::from(got.granted) + u128::from(got.margin) <= u128::from(window));
        }
        prop_assert!(got.reserve <= got.granted);
        prop_assert_eq!(got.fits, got.shortfall.is_none());
        if got.fits {
            prop_assert!(got.granted >= min_visible.max(1).min(got.granted.max(1)));
            prop_assert!(!require_whole || requested.is_none_or(|r| got.granted == r));
            prop_assert!(input_cap.is_none_or(|c| u128::from(input) + u128::from(got.margin) <= u128::from(c)));
        } else {
            prop_assert!(got.shortfall.unwrap().tokens > 0);
        }
    }
}
