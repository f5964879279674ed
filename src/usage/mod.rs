//! Usage as providers report it, in one vocabulary.
//!
//! Called by [`crate::turn`] for each answer; hosts may call it on a bare usage object. Reads figures only:
//! never guesses what a provider left out, and keeps the report as it came. Knows nothing of prices.

use crate::format::Format;
use serde_json::Value;

/// What a provider billed for one exchange. All figures in tokens; `None` where the report doesn't say.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Usage {
    /// All input that was processed, cached input included.
    pub input: Option<u64>,
    /// The part of `input` that was read from a cache.
    pub cache_read: Option<u64>,
    /// The part of `input` that was written to a cache.
    pub cache_write: Option<u64>,
    /// All output, reasoning included.
    pub output: Option<u64>,
    /// The part of `output` that was hidden or visible reasoning.
    pub reasoning: Option<u64>,
    /// The provider's own total, where it gives one.
    pub total: Option<u64>,
    /// The report as it came.
    pub raw: Value,
}

impl Usage {
    /// Reads a usage object of `format`. Anything that isn't an object gives `None`.
    ///
    /// ```
    /// use plimsoll::{Format, usage::Usage};
    /// let raw = serde_json::json!({"input_tokens": 3, "cache_read_input_tokens": 100, "output_tokens": 7});
    /// let usage = Usage::read(&raw, Format::Anthropic).unwrap();
    /// assert_eq!((usage.input, usage.cache_read, usage.output), (Some(103), Some(100), Some(7)));
    /// ```
    pub fn read(raw: &Value, format: Format) -> Option<Self> {
        raw.as_object()?;
        let at = |path: &str| raw.pointer(path).and_then(Value::as_u64);
        let first = |paths: &[&str]| paths.iter().find_map(|path| at(path));
        let mut usage =
            Self { input: None, cache_read: None, cache_write: None, output: None, reasoning: None, total: None, raw: raw.clone() };
        match format {
            Format::Chat | Format::Responses | Format::Mcp => {
                usage.input = first(&["/prompt_tokens", "/input_tokens"]);
                usage.cache_read = first(&[
                    "/prompt_tokens_details/cached_tokens",
                    "/input_tokens_details/cached_tokens",
                    "/prompt_cache_hit_tokens",
                    "/cached_tokens",
                ]);
                usage.cache_write = first(&[
                    "/prompt_tokens_details/cache_write_tokens",
                    "/input_tokens_details/cache_write_tokens",
                    "/cache_creation_input_tokens",
                ]);
                usage.reasoning = first(&["/completion_tokens_details/reasoning_tokens", "/output_tokens_details/reasoning_tokens"]);
                usage.total = at("/total_tokens");
                usage.output = first(&["/completion_tokens", "/output_tokens"]);
                // Some hosts (x.ai) leave reasoning out of completion_tokens; their total gives it away.
                if let (Some(input), Some(output), Some(reasoning), Some(total)) = (usage.input, usage.output, usage.reasoning, usage.total)
                    && reasoning > 0
                    && input.saturating_add(output).saturating_add(reasoning) == total
                {
                    usage.output = Some(output.saturating_add(reasoning));
                }
            }
            Format::Anthropic => {
                usage.cache_read = at("/cache_read_input_tokens");
                usage.cache_write = at("/cache_creation_input_tokens");
                usage.input = at("/input_tokens").map(|fresh| sum(fresh, usage.cache_read, usage.cache_write));
                usage.output = at("/output_tokens");
                usage.reasoning = at("/output_tokens_details/thinking_tokens");
            }
            Format::Gemini => {
                usage.input = at("/promptTokenCount").map(|prompt| sum(prompt, at("/toolUsePromptTokenCount"), None));
                usage.cache_read = at("/cachedContentTokenCount");
                usage.reasoning = at("/thoughtsTokenCount");
                usage.output = match (at("/candidatesTokenCount"), usage.reasoning) {
                    (None, None) => None,
                    (visible, thoughts) => Some(sum(0, visible, thoughts)),
                };
                usage.total = at("/totalTokenCount");
            }
            Format::Converse => {
                usage.cache_read = first(&["/cacheReadInputTokens", "/cacheReadInputTokenCount"]);
                usage.cache_write = first(&["/cacheWriteInputTokens", "/cacheWriteInputTokenCount"]);
                usage.input = at("/inputTokens").map(|fresh| sum(fresh, usage.cache_read, usage.cache_write));
                usage.output = at("/outputTokens");
                usage.total = at("/totalTokens");
            }
        }
        Some(usage)
    }

    /// The normalized figures as JSON, with the report under `raw`.
    pub fn to_json(&self) -> Value {
        serde_json::json!({
            "input": self.input,
            "cache_read": self.cache_read,
            "cache_write": self.cache_write,
            "output": self.output,
            "reasoning": self.reasoning,
            "total": self.total,
            "raw": self.raw,
        })
    }
}

/// `first` plus whatever of the others is known, saturating.
fn sum(first: u64, second: Option<u64>, third: Option<u64>) -> u64 {
    first.saturating_add(second.unwrap_or(0)).saturating_add(third.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reasoning_left_out_of_the_completion_is_added() {
        let raw = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 115,
            "completion_tokens_details": {"reasoning_tokens": 100}});
        assert_eq!(Usage::read(&raw, Format::Chat).unwrap().output, Some(105));
        let inside = json!({"prompt_tokens": 10, "completion_tokens": 105, "total_tokens": 115,
            "completion_tokens_details": {"reasoning_tokens": 100}});
        assert_eq!(Usage::read(&inside, Format::Chat).unwrap().output, Some(105));
    }

    #[test]
    fn absent_figures_stay_absent() {
        let usage = Usage::read(&json!({"trafficType": "ON_DEMAND"}), Format::Gemini).unwrap();
        assert_eq!((usage.input, usage.output, usage.total), (None, None, None));
        assert!(Usage::read(&json!(null), Format::Chat).is_none());
    }
}
