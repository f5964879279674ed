//! Whose endpoint bills the request: the same body is counted differently by different hosts.

/// The provider hint, normalized from a name (`openrouter`) or a host name (`api.groq.com`).
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
