//! Whose endpoint bills the request: the same body is counted differently by different hosts.
//!
//! Made from a slug, a host name or a URL by the edges; read by renderers and by the table. Host names and slugs
//! are data (`data/providers.tsv`); an unknown one is kept as it came, never an error.

use super::rows::cells;
use crate::error::{Error, Kind};
use std::fmt;
use std::sync::OnceLock;

const PROVIDERS: &str = include_str!("../../data/providers.tsv");

/// The provider hint, normalized from a name (`openrouter`) or a host name (`api.groq.com`).
///
/// ```
/// use plimsoll::Provider;
/// assert_eq!("europe-west4-aiplatform.googleapis.com".parse::<Provider>()?, Provider::Vertex);
/// assert_eq!("https://openrouter.ai/api/v1".parse::<Provider>()?.as_str(), "openrouter");
/// # Ok::<(), plimsoll::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Provider {
    /// api.openai.com
    OpenAi,
    /// Azure OpenAI and Azure AI Foundry.
    Azure,
    /// api.anthropic.com
    Anthropic,
    /// Amazon Bedrock (runtime).
    Bedrock,
    /// Bedrock's OpenAI-compatible endpoint.
    BedrockMantle,
    /// Vertex AI (`*aiplatform.googleapis.com`).
    Vertex,
    /// Google AI Studio (generativelanguage.googleapis.com).
    AiStudio,
    /// x.ai
    Xai,
    /// A gateway or host by its slug: `openrouter`, `vercel`, `groq`, `cerebras`, `together`, `huggingface`,
    /// `snowflake`, `mistral`, `deepseek`, `zai`, `ollama`, `llama-cpp`, `vllm`, …
    Other(String),
}

/// One known host.
pub(super) struct Host {
    pub(super) slug: &'static str,
    /// In which order figures are believed for models that no maker lists; `None`: not imported.
    pub(super) rank: Option<u32>,
    /// The maker whose own endpoint this is.
    pub(super) maker: Option<&'static str>,
    /// LiteLLM's names of it.
    pub(super) litellm: Vec<&'static str>,
    names: Vec<&'static str>,
}

/// All known hosts, in the data's order.
pub(super) fn hosts() -> &'static [Host] {
    static ONCE: OnceLock<Vec<Host>> = OnceLock::new();
    ONCE.get_or_init(|| {
        let list = |cell: Option<&&'static str>| cell.copied().unwrap_or_default().split_whitespace().filter(|c| *c != "-").collect();
        cells(PROVIDERS)
            .filter_map(|(_, row)| {
                let (rank, maker) = row.get(1)?.split_once(':').map_or((*row.get(1)?, None), |(_, maker)| ("99", Some(maker)));
                Some(Host { slug: row.first()?, rank: rank.parse().ok(), maker, names: list(row.get(2)), litellm: list(row.get(3)) })
            })
            .collect()
    })
}

/// Other words for a slug, as flags and model prefixes spell them.
const SYNONYMS: &[(&str, &str)] = &[
    ("aistudio", "ai-studio"),
    ("amazon-bedrock", "bedrock"),
    ("aws", "bedrock"),
    ("azure-ai", "azure"),
    ("azure-openai", "azure"),
    ("gemini", "ai-studio"),
    ("google", "ai-studio"),
    ("google-vertex", "vertex"),
    ("grok", "xai"),
    ("llamacpp", "llama-cpp"),
    ("together-ai", "together"),
    ("fireworks-ai", "fireworks"),
    ("vercel-ai-gateway", "vercel"),
    ("vertex-ai", "vertex"),
    ("x-ai", "xai"),
    ("z-ai", "zai"),
];

impl Provider {
    /// The slug, as flags, JSON and the wire spell it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::OpenAi => "openai",
            Self::Azure => "azure",
            Self::Anthropic => "anthropic",
            Self::Bedrock => "bedrock",
            Self::BedrockMantle => "bedrock-mantle",
            Self::Vertex => "vertex",
            Self::AiStudio => "ai-studio",
            Self::Xai => "xai",
            Self::Other(slug) => slug,
        }
    }

    /// Whether this is a name, not a host, that the data doesn't have: most likely a slip of the pen.
    pub(crate) fn is_unknown_name(&self) -> bool {
        matches!(self, Self::Other(name) if name != "localhost" && !name.contains(['.', ':']) && Self::of_slug(name).is_none())
    }

    /// The provider of a slug that is in the data.
    pub(super) fn of_slug(slug: &str) -> Option<Self> {
        let spelled = slug.replace(['_', ' '], "-");
        let slug = SYNONYMS.iter().find(|(other, _)| *other == spelled).map_or(spelled.as_str(), |(_, slug)| slug);
        hosts().iter().find(|h| h.slug == slug).map(|h| Self::from_slug(h.slug))
    }

    fn from_slug(slug: &str) -> Self {
        match slug {
            "openai" => Self::OpenAi,
            "azure" => Self::Azure,
            "anthropic" => Self::Anthropic,
            "bedrock" => Self::Bedrock,
            "bedrock-mantle" => Self::BedrockMantle,
            "vertex" => Self::Vertex,
            "ai-studio" => Self::AiStudio,
            "xai" => Self::Xai,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl std::str::FromStr for Provider {
    type Err = Error;

    /// Reads a slug, a host name (with or without a port) or a URL; what no data knows becomes [`Provider::Other`].
    fn from_str(text: &str) -> Result<Self, Error> {
        let text = text.trim().to_ascii_lowercase();
        let host = text.split_once("://").map_or(text.as_str(), |(_, rest)| rest);
        let host = host.split(['/', '?', '#']).next().unwrap_or_default();
        if host.is_empty() || host.len() > 255 {
            return Err(Error::new(Kind::InvalidInput, "expected a provider's name or host name of 1 to 255 bytes"));
        }
        if let Some(known) = Self::of_slug(host) {
            return Ok(known);
        }
        let bare = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit())).map_or(host, |(bare, _)| bare);
        let known = hosts().iter().find(|h| h.names.iter().any(|pattern| matches(pattern, host) || matches(pattern, bare)));
        Ok(known.map_or_else(|| Self::Other(host.to_owned()), |h| Self::from_slug(h.slug)))
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a host name fits a pattern with at most two stars.
fn matches(pattern: &str, host: &str) -> bool {
    let pattern = pattern.to_ascii_lowercase();
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| host.strip_prefix(first)) else { return false };
    let mut last = None;
    for part in parts {
        if let Some(middle) = last.replace(part) {
            match rest.find(middle) {
                Some(at) => rest = rest.get(at + middle.len()..).unwrap_or_default(),
                None => return false,
            }
        }
    }
    last.map_or(rest.is_empty(), |tail| rest.ends_with(tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_nobody_knows_are_told_from_hosts() {
        for (text, unknown) in
            [("nope", true), ("grq", true), ("groq", false), ("vLLM", false), ("nobody.example", false), ("gateway:8787", false)]
        {
            assert_eq!(text.parse::<Provider>().unwrap().is_unknown_name(), unknown, "{text}");
        }
    }

    #[test]
    fn hosts_and_slugs() {
        for (text, slug) in [
            ("api.openai.com", "openai"),
            ("https://api.openai.com/v1/chat/completions", "openai"),
            ("openai.azure.com", "azure"),
            ("my-resource.openai.azure.com:443", "azure"),
            ("x.services.ai.azure.com", "azure"),
            ("aiplatform.googleapis.com", "vertex"),
            ("europe-west4-aiplatform.googleapis.com", "vertex"),
            ("generativelanguage.googleapis.com", "ai-studio"),
            ("bedrock-runtime.us-east-1.amazonaws.com", "bedrock"),
            ("bedrock-mantle.us-east-1.api.aws", "bedrock-mantle"),
            ("openrouter.ai", "openrouter"),
            ("api.groq.com", "groq"),
            ("ai-gateway.vercel.sh", "vercel"),
            ("router.huggingface.co", "huggingface"),
            ("api.z.ai", "zai"),
            ("Z-AI", "zai"),
            ("localhost:11434", "ollama"),
            ("localhost:8787", "localhost:8787"),
            ("gemini", "ai-studio"),
            ("vertex_ai", "vertex"),
            ("my-org.snowflakecomputing.com", "snowflake"),
            ("nobody.example", "nobody.example"),
        ] {
            let provider: Provider = text.parse().unwrap();
            assert_eq!(provider.to_string(), slug, "{text}");
            assert_eq!(provider.as_str().parse::<Provider>().unwrap(), provider, "{text}: a slug reads back");
        }
    }

    #[test]
    fn nothing_and_far_too_much_are_errors() {
        assert!("".parse::<Provider>().is_err());
        assert!("https://".parse::<Provider>().is_err());
        assert!("a".repeat(300).parse::<Provider>().is_err());
    }

    #[test]
    fn a_pattern_matches_whole_hosts_only() {
        assert!(!matches("api.openai.com", "api.openai.com.evil.example"));
        assert!(!matches("*.openai.azure.com", "openai.azure.com"));
        assert!(matches("bedrock-runtime.*.amazonaws.com", "bedrock-runtime.eu-west-1.amazonaws.com"));
        assert!(!matches("bedrock-runtime.*.amazonaws.com", "bedrock-runtime.amazonaws.com"));
    }
}
