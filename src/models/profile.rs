//! One model's profile: limits, tokenizer, renderer, image rule, each from dated data.
//!
//! Made by the table alone; read by renderers, the budget and the edges. Holds no behaviour.

/// What is known of one model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Canonical id, e.g. `gpt-4o-mini`.
    pub id: String,
    /// Who made the model, e.g. `openai`.
    pub maker: String,
    /// Context window shared by input and output, in tokens. `None` where the two have separate caps only.
    pub window: Option<u64>,
    /// Cap on input alone, in tokens, where one exists.
    pub input_cap: Option<u64>,
    /// Cap on output, in tokens.
    pub output_cap: Option<u64>,
    /// Vocabulary, e.g. `o200k_base`, `gemma3`, `claude` (no public vocabulary: calibrated).
    pub tokenizer: String,
    /// Whether `tokenizer` stands in for a vocabulary that is not published: counts by it are estimates at best.
    pub proxy: bool,
    /// Renderer, e.g. `openai-classic`, `harmony-5`, `claude-4.6`, `gemini-3`, `template:qwen3`.
    pub renderer: String,
    /// Image rule, e.g. `tile:85:170`, `patch:1536:1.62`, `claude:1568:1568`.
    pub image_rule: Option<String>,
    /// Whether the model reasons (output limits must leave room for hidden reasoning).
    pub reasoning: bool,
    /// Where the figures come from.
    pub source: String,
    /// Date of the figures, ISO.
    pub date: String,
    /// Anything a person should know.
    pub notes: Option<String>,
}
