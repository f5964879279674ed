//! Provider errors: texts of the shapes that providers send, with the numbers they must give.

use super::*;

/// Status, message, class, remedy, limit, input, output, fitting output.
type Case<'a> = (u16, &'a str, ErrorClass, Remedy, [Option<u64>; 4]);

#[test]
fn every_rule_compiles_and_every_class_is_known() {
    let file: Value = serde_json::from_str(include_str!("../../../data/provider_errors.json")).unwrap();
    for row in file["rows"].as_array().unwrap() {
        assert!(rule(row).is_some(), "{row}");
    }
}

#[test]
fn numbers_are_read_out_of_the_text() {
    use ErrorClass::{OutputCap, Overflow, RateLimit, RateTooSmall};
    use Remedy::{Compact, LowerOutput, Wait};
    let n = |limit: u64, input: u64| [Some(limit), Some(input), None, None];
    let cases: [Case<'_>; 24] = [
        (
            400,
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 130523 tokens. Please reduce the length of the messages.",
            Overflow,
            Compact,
            n(128_000, 130_523),
        ),
        (
            400,
            "This model's maximum context length is 16385 tokens. However, you requested 16404 tokens (12308 in the messages, 4096 in the completion).",
            Overflow,
            LowerOutput,
            [Some(16_385), Some(12_308), Some(4096), Some(4077)],
        ),
        (
            400,
            "This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens (130000 of text input, 2000 of tool input, 8000 in the output).",
            Overflow,
            LowerOutput,
            [Some(131_072), Some(130_000), Some(8000), Some(1072)],
        ),
        (
            400,
            "'max_tokens' or 'max_completion_tokens' is too large: 65536. This model's maximum context length is 131072 tokens and your request has 73000 input tokens (65536 > 131072 - 73000).",
            Overflow,
            LowerOutput,
            [Some(131_072), Some(73_000), Some(65_536), Some(58_072)],
        ),
        (
            400,
            "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 299331 tokens.",
            Overflow,
            Compact,
            n(272_000, 299_331),
        ),
        (400, "Your input exceeds the context window of this model. Please adjust your input and try again.", Overflow, Compact, [None; 4]),
        (
            400,
            "max_tokens is too large: 32768. This model supports at most 16384 completion tokens, whereas you provided 32768.",
            OutputCap,
            LowerOutput,
            [None, None, Some(32_768), Some(16_384)],
        ),
        (400, "prompt is too long: 208310 tokens > 200000 maximum", Overflow, Compact, n(200_000, 208_310)),
        (
            400,
            "max_tokens: 8193 > 8192, which is the maximum allowed number of output tokens for claude",
            OutputCap,
            LowerOutput,
            [None, None, Some(8193), Some(8192)],
        ),
        (
            400,
            "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
            Overflow,
            Compact,
            n(1_048_576, 1_048_577),
        ),
        (
            400,
            "Unable to submit request because it has a maxOutputTokens value of 100000 but the supported range is from 1 (inclusive) to 65537 (exclusive). Update the value and try again.",
            OutputCap,
            LowerOutput,
            [None, None, Some(100_000), Some(65_536)],
        ),
        (400, "Too many input tokens. Max input tokens: 300000, request input token count: 300506", Overflow, Compact, n(300_000, 300_506)),
        (400, "Input is too long for requested model.", Overflow, Compact, [None; 4]),
        (400, "The decoder prompt (length 5000) is longer than the maximum model length of 4096.", Overflow, Compact, n(4096, 5000)),
        (
            400,
            "You passed 131073 input tokens and requested 0 output tokens. However, the model's context length is only 131072 tokens",
            Overflow,
            Compact,
            [Some(131_072), Some(131_073), Some(0), None],
        ),
        (
            400,
            "Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of 139264 tokens: 73728 tokens from the input messages and 65536 tokens for the completion.",
            Overflow,
            LowerOutput,
            [Some(131_072), Some(73_728), Some(65_536), Some(57_344)],
        ),
        (
            400,
            "request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it",
            Overflow,
            Compact,
            n(8192, 9000),
        ),
        (
            422,
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 8000 `inputs` tokens and 1024 `max_new_tokens`",
            Overflow,
            LowerOutput,
            [Some(8193), Some(8000), Some(1024), Some(193)],
        ),
        (
            400,
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            Overflow,
            Compact,
            n(32_768, 40_000),
        ),
        (
            400,
            "This model's maximum prompt length is 131,072 but the request contains 140,000 tokens.",
            Overflow,
            Compact,
            n(131_072, 140_000),
        ),
        (
            429,
            "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 42309. The input or output tokens must be reduced in order to run successfully.",
            RateTooSmall,
            Compact,
            [Some(30_000), None, None, None],
        ),
        (
            413,
            "Request too large for model `llama` in organization `o` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Requested 9000, please reduce your message size",
            RateTooSmall,
            Compact,
            [Some(6000), None, None, None],
        ),
        (
            429,
            "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 2.5s.",
            RateLimit,
            Wait,
            [Some(30_000), None, None, None],
        ),
        (429, "This request would exceed your organization's rate limit of 40,000 input tokens per minute", RateLimit, Wait, [None; 4]),
    ];
    for (status, message, class, remedy, numbers) in cases {
        let body = json!({"error": {"message": message, "type": "invalid_request_error"}}).to_string();
        let outcome = classify(status, body.as_bytes());
        assert_eq!((outcome.class, outcome.remedy), (class, remedy), "{message}");
        assert_eq!([outcome.limit, outcome.input, outcome.output, outcome.fitting_output], numbers, "{message}");
    }
}

#[test]
fn bodies_of_every_shape() {
    let wrapped = json!({"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw":
        "{\"error\":{\"message\":\"prompt is too long: 210000 tokens > 200000 maximum\"}}"}}});
    assert_eq!(classify(400, wrapped.to_string().as_bytes()).input, Some(210_000));
    let list = json!([{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Quota exceeded",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "36.2s"}]}}]);
    let outcome = classify(429, list.to_string().as_bytes());
    assert_eq!((outcome.class, outcome.wait_seconds), (ErrorClass::RateLimit, Some(37)));
    let llama = json!({"error": {"code": 400, "message": "the request exceeds the available context size", "type": "exceed_context_size_error",
        "n_prompt_tokens": 9000, "n_ctx": 8192}});
    let outcome = classify(400, llama.to_string().as_bytes());
    assert_eq!((outcome.limit, outcome.input, outcome.excess), (Some(8192), Some(9000), Some(808)));
    assert_eq!(classify(400, b"{\"error\":{\"code\":\"context_length_exceeded\",\"message\":\"No.\"}}").class, ErrorClass::Overflow);
    assert_eq!(classify(502, b"<html>Bad gateway</html>").class, ErrorClass::Server);
    assert_eq!(classify(529, b"").remedy, Remedy::Retry);
    assert_eq!(classify(400, b"\xff\xfe tools.0: unknown field").class, ErrorClass::BadRequest);
    assert_eq!(classify(413, b"{}").class, ErrorClass::PayloadTooLarge);
    assert_eq!(classify(429, b"Please try again in 1m26.4s").wait_seconds, Some(87));
}

#[test]
fn a_window_that_the_provider_corrects() {
    let profile = Profile { id: "m".into(), window: Some(200_000), output_cap: Some(8192), ..Profile::default() };
    let said = |body: &[u8]| classify(400, body).correction(&profile);
    assert_eq!(said(b"prompt is too long: 208310 tokens > 200000 maximum"), None, "the table knows");
    let correction = said(b"prompt is too long: 208310 tokens > 180000 maximum").unwrap();
    assert_eq!((correction.field, correction.was, correction.now), (LimitField::Window, Some(200_000), 180_000));
    assert_eq!(said(b"prompt is too long: 208310 tokens > 0 maximum"), None, "no window is 0");
    assert_eq!(said(b"prompt is too long: 9 tokens > 99999999999999 maximum"), None, "nor larger than any");
}
