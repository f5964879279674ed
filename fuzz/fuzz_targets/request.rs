//! Any bytes as a body of any format: a view and a count whose parts sum, or a typed error; never a panic, never a hang.
//!
//! The first byte picks the format, the rest is the body. Doesn't cover model names (one model a format) nor what the count is.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll::{CountOptions, Counter, Format, Kind, Request};
use std::sync::LazyLock;

static COUNTER: LazyLock<Counter> = LazyLock::new(Counter::new);

fuzz_target!(|data: &[u8]| {
    let Some((pick, body)) = data.split_first() else { return };
    let format = Format::ALL[usize::from(*pick) % Format::ALL.len()];
    let _ = Request::detect(body);
    let Ok(request) = Request::parse(body, format) else { return };
    let Ok(conversation) = request.conversation() else { return };
    let named = match format {
        Format::Anthropic => "claude-sonnet-4-5",
        Format::Gemini => "gemini-2.5-flash",
        Format::Converse => "amazon.nova-pro-v1:0",
        Format::Responses => "gpt-5",
        _ => "gpt-4o",
    };
    let _ = conversation.messages.len();
    match COUNTER.count(&request, &CountOptions { model: Some(named.to_owned()), ..CountOptions::default() }) {
        Ok(count) => {
            let sum = count.breakdown.parts().iter().fold(0_u64, |sum, part| sum.saturating_add(part.tokens));
            assert_eq!(count.total(), sum);
        }
        Err(error) => assert_ne!(error.kind(), Kind::Internal, "{error}"),
    }
});
