//! Provider errors, by status and body, as one typed outcome with the numbers read out of the text.
//!
//! Hosts call [`classify`] on any answer that isn't a success. Texts are data (`data/provider_errors.json`, dated). The body
//! is untrusted: matching is linear and the text is capped. [`ErrorOutcome::correction`] says where a
//! provider's figure differs from the model table's.

use crate::limits;
use crate::models::{Correction, LimitField, Profile};
use regex::{Regex, RegexBuilder};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::LazyLock;

/// What sort of refusal it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorClass {
    /// The request is larger than the window (or the input cap).
    Overflow,
    /// More output was asked for than the model can give.
    OutputCap,
    /// Too much in too short a time; the same request passes later.
    RateLimit,
    /// The request alone is larger than what the rate limit gives in a whole period: waiting doesn't help.
    RateTooSmall,
    /// No credit or quota left.
    Quota,
    /// Too many bytes, whatever the tokens.
    PayloadTooLarge,
    /// The provider can't serve at the moment.
    Overloaded,
    /// A filter refused the request.
    ContentFilter,
    /// Credentials.
    Auth,
    /// No such model or endpoint.
    NotFound,
    /// The provider failed.
    Server,
    /// The request breaks the provider's rules in another way.
    BadRequest,
    /// None of the above can be told.
    Unknown,
}

impl ErrorClass {
    /// Every class.
    pub const ALL: [Self; 13] = [
        Self::Overflow,
        Self::OutputCap,
        Self::RateLimit,
        Self::RateTooSmall,
        Self::Quota,
        Self::PayloadTooLarge,
        Self::Overloaded,
        Self::ContentFilter,
        Self::Auth,
        Self::NotFound,
        Self::Server,
        Self::BadRequest,
        Self::Unknown,
    ];

    /// The name used on the wire and in JSON output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Overflow => "overflow",
            Self::OutputCap => "output_cap",
            Self::RateLimit => "rate_limit",
            Self::RateTooSmall => "rate_too_small",
            Self::Quota => "quota",
            Self::PayloadTooLarge => "payload_too_large",
            Self::Overloaded => "overloaded",
            Self::ContentFilter => "content_filter",
            Self::Auth => "auth",
            Self::NotFound => "not_found",
            Self::Server => "server",
            Self::BadRequest => "bad_request",
            Self::Unknown => "unknown",
        }
    }
}

/// What a host should do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Remedy {
    /// Make the history smaller and send it again.
    Compact,
    /// Ask for less output; the input fits.
    LowerOutput,
    /// Wait, then send the same.
    Wait,
    /// Send the same again, with the usual pauses.
    Retry,
    /// Send fewer bytes: smaller images or files.
    ShrinkMedia,
    /// Correct the request.
    Fix,
    /// Nothing a program can do: tell a person.
    TellUser,
}

impl Remedy {
    /// The name used on the wire and in JSON output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Compact => "compact",
            Self::LowerOutput => "lower_output",
            Self::Wait => "wait",
            Self::Retry => "retry",
            Self::ShrinkMedia => "shrink_media",
            Self::Fix => "fix",
            Self::TellUser => "tell_user",
        }
    }
}

/// A provider's error, understood. All figures in tokens, as the provider's text gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorOutcome {
    /// What sort.
    pub class: ErrorClass,
    /// What to do.
    pub remedy: Remedy,
    /// The HTTP status.
    pub status: u16,
    /// The provider's code or type, if the body has one.
    pub code: Option<String>,
    /// The provider's message, as it came (it may quote the request; don't log it).
    pub message: String,
    /// The window or input cap; for rate limits the tokens of a period.
    pub limit: Option<u64>,
    /// The most output the model can give.
    pub output_cap: Option<u64>,
    /// Input and output together, as requested.
    pub requested: Option<u64>,
    /// Input, as the provider counted it.
    pub input: Option<u64>,
    /// Output, as requested.
    pub output: Option<u64>,
    /// Output that would have fitted beside this input, when the numbers tell.
    pub fitting_output: Option<u64>,
    /// How much too large, when the numbers tell.
    pub excess: Option<u64>,
    /// How long the provider says to wait, in seconds, rounded up.
    pub wait_seconds: Option<u64>,
}

struct Rule {
    class: ErrorClass,
    pattern: Regex,
}

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    // Part of the crate, and a test reads every row: one that doesn't compile is left out, not a panic.
    let file: Value = serde_json::from_str(include_str!("../../data/provider_errors.json")).unwrap_or_default();
    let rows = file.get("rows").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    rows.iter().filter_map(rule).collect()
});

fn rule(row: &Value) -> Option<Rule> {
    let class = row.get(0)?.as_str()?;
    let class = ErrorClass::ALL.into_iter().find(|c| c.as_str() == class)?;
    let mut source = String::new();
    let mut rest = row.get(1)?.as_str()?;
    while let Some((before, after)) = rest.split_once("{n") {
        // `{n}` and `{n:name}` are numbers; any other brace is the pattern's own.
        let (name, after) = after.split_once('}')?;
        source.push_str(before);
        match name.strip_prefix(':') {
            Some(name) => drop(write!(source, "(?P<{name}>\\d[\\d,_]*)")),
            None => source.push_str("\\d[\\d,_]*"),
        }
        rest = after;
    }
    source.push_str(rest);
    let pattern = RegexBuilder::new(&source).case_insensitive(true).dot_matches_new_line(true).size_limit(4 << 20).build().ok()?;
    Some(Rule { class, pattern })
}

/// Understands a provider's error from its HTTP status and body (JSON or text).
///
/// ```
/// use plimsoll::turn::{classify, ErrorClass, Remedy};
/// let body = r#"{"type":"error","error":{"type":"invalid_request_error",
///     "message":"input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length"}}"#;
/// let outcome = classify(400, body.as_bytes());
/// assert_eq!((outcome.class, outcome.remedy), (ErrorClass::Overflow, Remedy::LowerOutput));
/// assert_eq!((outcome.limit, outcome.input, outcome.fitting_output), (Some(200_000), Some(188_240), Some(11_760)));
/// ```
pub fn classify(status: u16, body: &[u8]) -> ErrorOutcome {
    let body = &body[..body.len().min(limits::MAX_ERROR_BYTES)];
    let text = String::from_utf8_lossy(body);
    let parsed: Option<Value> = serde_json::from_str(&text).ok();
    let (message, code) = match &parsed {
        Some(value) => (message_of(value).unwrap_or_else(|| text.trim().to_owned()), code_of(value)),
        None => (text.trim().to_owned(), None),
    };
    // Codes are matched beside the message; numbers in llama.cpp's body stand beside both.
    let subject = format!("{message} {}", code.as_deref().unwrap_or_default());
    let mut found = None;
    for rule in RULES.iter() {
        if let Some(captures) = rule.pattern.captures(&subject) {
            found = Some((rule.class, captures));
            break;
        }
    }
    let number = |name: &str| {
        let digits: String = found.as_ref()?.1.name(name)?.as_str().chars().filter(char::is_ascii_digit).collect();
        digits.parse::<u64>().ok()
    };
    let field = |name: &str| parsed.as_ref()?.pointer("/error").or(parsed.as_ref())?.get(name)?.as_u64();
    let class = found.as_ref().map_or_else(|| by_status(status), |(class, _)| *class);
    // Success isn't an error, whatever the text says; a stream's late error comes with 200 and has a message.
    let mut outcome = ErrorOutcome {
        class,
        remedy: Remedy::TellUser,
        status,
        code,
        limit: number("limit").or_else(|| field("n_ctx")),
        output_cap: number("output_cap"),
        requested: number("requested"),
        input: number("input").or_else(|| field("n_prompt_tokens")),
        output: number("output"),
        fitting_output: None,
        excess: None,
        wait_seconds: number("wait").map(|seconds| seconds.saturating_add(1)).or_else(|| retry_after(parsed.as_ref(), &message)),
        message,
    };
    if message_says_exclusive(&outcome) {
        outcome.output_cap = outcome.output_cap.map(|cap| cap.saturating_sub(1));
    }
    outcome.derive();
    outcome
}

/// Vertex names the first value that is too large.
fn message_says_exclusive(outcome: &ErrorOutcome) -> bool {
    outcome.class == ErrorClass::OutputCap && outcome.message.contains("(exclusive)")
}

impl ErrorOutcome {
    /// What it says of the model's limits against `profile`, when it says another figure: to be reported, and for
    /// [`crate::Counter::correct`] to count by from then on.
    pub fn correction(&self, profile: &Profile) -> Option<Correction> {
        let plausible = |limit: Option<u64>| limit.filter(|limit| (1..=limits::MAX_WINDOW_TOKENS).contains(limit));
        let known = [profile.window, profile.input_cap].into_iter().flatten().any(|limit| Some(limit) == self.limit);
        let (field, was, now) = match self.class {
            // Where a table has both, a provider's limit on input alone is the cap.
            ErrorClass::Overflow if !known => match profile.input_cap {
                Some(cap) if self.output.is_none() => (LimitField::InputCap, Some(cap), plausible(self.limit)?),
                _ => (LimitField::Window, profile.window, plausible(self.limit)?),
            },
            ErrorClass::OutputCap if profile.output_cap != self.output_cap => {
                (LimitField::OutputCap, profile.output_cap, plausible(self.output_cap)?)
            }
            _ => return None,
        };
        Some(Correction { model: profile.id.clone(), field, was, now })
    }

    fn derive(&mut self) {
        if self.requested.is_none() {
            self.requested = self.input.zip(self.output).map(|(input, output)| input.saturating_add(output));
        }
        if self.class == ErrorClass::Overflow {
            let weight = self.requested.or(self.input);
            self.excess = weight.zip(self.limit).map(|(weight, limit)| weight.saturating_sub(limit)).filter(|excess| *excess > 0);
            self.fitting_output = match (self.input, self.output, self.limit) {
                (Some(input), Some(output), Some(limit)) if output > 0 => limit.checked_sub(input).filter(|left| *left > 0),
                _ => None,
            };
        }
        if self.class == ErrorClass::OutputCap {
            self.fitting_output = self.output_cap;
        }
        self.remedy = match self.class {
            ErrorClass::Overflow if self.fitting_output.is_some() => Remedy::LowerOutput,
            ErrorClass::Overflow | ErrorClass::RateTooSmall => Remedy::Compact,
            ErrorClass::OutputCap => Remedy::LowerOutput,
            ErrorClass::RateLimit => Remedy::Wait,
            ErrorClass::Overloaded | ErrorClass::Server => Remedy::Retry,
            ErrorClass::PayloadTooLarge => Remedy::ShrinkMedia,
            ErrorClass::BadRequest | ErrorClass::NotFound => Remedy::Fix,
            ErrorClass::Quota | ErrorClass::ContentFilter | ErrorClass::Auth | ErrorClass::Unknown => Remedy::TellUser,
        };
    }

    /// The outcome as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "class": self.class.as_str(),
            "remedy": self.remedy.as_str(),
            "status": self.status,
            "code": self.code,
            "message": self.message,
            "limit": self.limit,
            "output_cap": self.output_cap,
            "requested": self.requested,
            "input": self.input,
            "output": self.output,
            "fitting_output": self.fitting_output,
            "excess": self.excess,
            "wait_seconds": self.wait_seconds,
        })
    }
}

/// What the status alone says.
const fn by_status(status: u16) -> ErrorClass {
    match status {
        401 | 403 => ErrorClass::Auth,
        402 => ErrorClass::Quota,
        404 => ErrorClass::NotFound,
        413 => ErrorClass::PayloadTooLarge,
        429 => ErrorClass::RateLimit,
        503 | 529 => ErrorClass::Overloaded,
        500..=599 => ErrorClass::Server,
        400..=499 => ErrorClass::BadRequest,
        _ => ErrorClass::Unknown,
    }
}

/// The message, wherever the provider puts it. Gateways wrap the upstream's JSON as text: the inner one tells more.
fn message_of(value: &Value) -> Option<String> {
    let value = value.get(0).unwrap_or(value);
    let raw = value.pointer("/error/metadata/raw").and_then(Value::as_str);
    let places =
        ["/error/message", "/message", "/Message", "/error", "/detail", "/detail/message", "/errors/0/message", "/response/error/message"];
    let message = raw.or_else(|| places.iter().find_map(|place| value.pointer(place).and_then(Value::as_str)))?;
    let inner = serde_json::from_str::<Value>(message).ok().filter(Value::is_object).and_then(|inner| message_of(&inner));
    Some(inner.unwrap_or_else(|| message.to_owned()))
}

fn code_of(value: &Value) -> Option<String> {
    let value = value.get(0).unwrap_or(value);
    let places = ["/error/code", "/error/type", "/error/status", "/code", "/__type", "/type"];
    places.iter().find_map(|place| match value.pointer(place)? {
        Value::String(code) if !code.is_empty() => Some(code.clone()),
        Value::Number(code) => Some(code.to_string()),
        _ => None,
    })
}

/// Google's `retryDelay` ("37s"), or "try again in 1m26.4s" in a message.
fn retry_after(body: Option<&Value>, message: &str) -> Option<u64> {
    static AGAIN: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"(?i)(?:try again|retry)(?: after| in)? (?:(\d+)h)?(?:(\d+)m)?(?:(\d+)(?:\.\d+)?\s?s)?").ok());
    let details = body.and_then(|body| body.get(0).unwrap_or(body).pointer("/error/details")).and_then(Value::as_array);
    let delay =
        details.into_iter().flatten().find_map(|detail| detail.get("retryDelay")?.as_str()?.trim_end_matches('s').parse::<f64>().ok());
    if let Some(delay) = delay.filter(|delay| (0.0..1e9).contains(delay)) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be within range")]
        return Some(delay.ceil() as u64);
    }
    let captures = AGAIN.as_ref()?.captures(message)?;
    let part = |n: usize| captures.get(n).and_then(|digits| digits.as_str().parse::<u64>().ok());
    part(1).or(part(2)).or(part(3))?;
    let minutes = part(1).unwrap_or(0).saturating_mul(60).saturating_add(part(2).unwrap_or(0));
    Some(minutes.saturating_mul(60).saturating_add(part(3).unwrap_or(0)).saturating_add(1))
}

#[cfg(test)]
mod tests;
