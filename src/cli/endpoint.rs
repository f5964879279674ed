//! The endpoint that writes summaries, from flags and the environment: shared by `compact` and `serve`.
//!
//! The key comes from `PLIMSOLL_ENDPOINT_KEY` alone, never from a flag or a file, so that neither a process list nor a
//! policy shows it.

use crate::compact::Summarizer;
use crate::error::{Error, Kind, Result};
use clap::Args;
use std::sync::Arc;

/// Where summaries are asked for.
#[derive(Args, Debug)]
pub(super) struct EndpointArgs {
    /// Base address of an OpenAI-compatible server that writes summaries, such as `http://localhost:11434/v1`; a key for it is
    /// taken from PLIMSOLL_ENDPOINT_KEY.
    #[arg(long = "endpoint-url", id = "endpoint_url", value_name = "URL", env = "PLIMSOLL_ENDPOINT_URL", requires = "endpoint_model")]
    url: Option<String>,
    /// Model that writes them.
    #[arg(
        long = "endpoint-model",
        id = "endpoint_model",
        value_name = "MODEL",
        env = "PLIMSOLL_ENDPOINT_MODEL",
        requires = "endpoint_url"
    )]
    model: Option<String>,
    /// Seconds for one attempt.
    #[arg(
        long = "endpoint-timeout",
        id = "endpoint_timeout",
        value_name = "SECONDS",
        default_value_t = 60,
        env = "PLIMSOLL_ENDPOINT_TIMEOUT"
    )]
    timeout: u64,
    /// Attempts after the first, on status 429 and 5xx and when the server can't be reached.
    #[arg(long = "endpoint-retries", id = "endpoint_retries", value_name = "N", default_value_t = 2, env = "PLIMSOLL_ENDPOINT_RETRIES")]
    retries: u32,
    /// Most tokens of input in one call (by o200k); longer texts go in chunks.
    #[arg(
        long = "endpoint-input",
        id = "endpoint_input",
        value_name = "TOKENS",
        default_value_t = 16_000,
        env = "PLIMSOLL_ENDPOINT_INPUT"
    )]
    input: usize,
}

impl EndpointArgs {
    /// The summarizer that the flags name, if they name one.
    pub(super) fn summarizer(&self) -> Result<Option<Arc<dyn Summarizer + Send + Sync>>> {
        let (Some(url), Some(model)) = (&self.url, &self.model) else { return Ok(None) };
        self.made(url, model).map(Some)
    }

    #[cfg(feature = "endpoint")]
    fn made(&self, url: &str, model: &str) -> Result<Arc<dyn Summarizer + Send + Sync>> {
        use crate::compact::{Endpoint, EndpointSummarizer};
        if self.timeout == 0 {
            return Err(Error::new(Kind::InvalidInput, "--endpoint-timeout is 0; expected at least 1 second"));
        }
        let key = std::env::var("PLIMSOLL_ENDPOINT_KEY").ok().filter(|key| !key.trim().is_empty());
        let endpoint = Endpoint {
            key: key.map(|key| key.trim().to_owned()),
            timeout: std::time::Duration::from_secs(self.timeout),
            retries: self.retries,
            input_tokens: self.input,
            ..Endpoint::new(url, model)
        };
        Ok(Arc::new(EndpointSummarizer::new(endpoint)?))
    }

    #[cfg(not(feature = "endpoint"))]
    fn made(&self, _: &str, _: &str) -> Result<Arc<dyn Summarizer + Send + Sync>> {
        let _ = (self.timeout, self.retries, self.input);
        Err(Error::new(Kind::Unsupported, "this build asks no endpoint for summaries (feature `endpoint`)"))
    }
}
