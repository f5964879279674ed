//! The format-neutral view of a request: what every renderer, budget, check and compaction step reads.
//!
//! A view borrows from the request's JSON and never re-serializes what it did not edit. Every item knows
//! its place (JSON Pointer) in the body. Built by the files beside this one; read by all upper layers.

use super::Format;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// A place in a request body: a JSON Pointer (RFC 6901), `""` for the whole body.
pub type Place = String;

/// The format-neutral view of one request.
#[derive(Clone, Debug)]
pub struct Conversation<'a> {
    /// The wire format that this is a view of.
    pub format: Format,
    /// The whole body, for what the view doesn't cover.
    pub body: &'a Map<String, Value>,
    /// The model that the body names, if it names one (Gemini and Converse name it in the URL).
    pub model: Option<&'a str>,
    /// All messages in prompt order. System text that travels outside the message list (`system`,
    /// `instructions`, `systemInstruction`) comes first, with [`Role::System`] and `listed == false`.
    pub messages: Vec<Message<'a>>,
    /// Tool definitions in the order sent, whichever field they came in.
    pub tools: Vec<Tool<'a>>,
    /// How the model must choose among the tools.
    pub tool_choice: ToolChoice<'a>,
    /// The structured-output format asked for, if any.
    pub response_format: ResponseFormat<'a>,
    /// Output limits, reasoning settings and the number of choices.
    pub options: Options<'a>,
    /// Features that make the provider's count unpredictable from the body, each with its place.
    pub unbounded: Vec<Unbounded>,
}

/// Who a message is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// `system`, `instructions`, `systemInstruction`.
    System,
    /// `developer`.
    Developer,
    /// `user`.
    User,
    /// `assistant`, Gemini's `model`.
    Assistant,
    /// `tool`, legacy `function`; a message that carries nothing but tool results.
    Tool,
}

impl Role {
    /// The role's name in OpenAI's spelling.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Developer => "developer",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// One message (chat, Anthropic, Converse), content (Gemini) or input item (Responses).
///
/// Responses items that stand alone (a function call, its output, a reasoning item) are messages of one item.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    /// Who it is from.
    pub role: Role,
    /// `name` of the speaker, or of the function for legacy `function` messages.
    pub name: Option<&'a str>,
    /// Whether it stands in the message list (false: a top-level system field).
    pub listed: bool,
    /// Index in the message list of the body; 0 for system text outside it.
    pub index: usize,
    /// Where it stands.
    pub place: Place,
    /// The JSON it was read from (a string for `system: "…"` and `input: "…"`).
    pub raw: &'a Value,
    /// What it holds, in order. For chat: reasoning, content, then tool calls.
    pub items: Vec<Item<'a>>,
}

/// One piece of a message, with its place.
#[derive(Clone, Debug)]
pub struct Item<'a> {
    /// Where it stands.
    pub place: Place,
    /// The JSON it was read from.
    pub raw: &'a Value,
    /// What it is.
    pub body: ItemBody<'a>,
}

/// What an item is.
#[derive(Clone, Debug)]
pub enum ItemBody<'a> {
    /// Plain text; refusals too.
    Text(Cow<'a, str>),
    /// Reasoning or thinking that is replayed.
    Reasoning(Reasoning<'a>),
    /// A call the model made.
    ToolCall(ToolCall<'a>),
    /// The answer to a call.
    ToolResult(ToolResult<'a>),
    /// A picture.
    Image(Media<'a>),
    /// A PDF or other document.
    File(Media<'a>),
    /// Sound.
    Audio(Media<'a>),
    /// Moving pictures.
    Video(Media<'a>),
    /// Anything else, named by its `type` (or key): kept, counted as an estimate or as unbounded.
    Other(&'a str),
}

/// Replayed reasoning.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reasoning<'a> {
    /// Readable text (or summary) if there is one.
    pub text: Option<&'a str>,
    /// Signature or encrypted content as sent (base64).
    pub signature: Option<&'a str>,
    /// Whether the text itself is hidden (`redacted_thinking`, `encrypted_content`).
    pub redacted: bool,
}

/// A tool call in the history.
#[derive(Clone, Debug)]
pub struct ToolCall<'a> {
    /// The id that its result must carry (`id`, `call_id`, `toolUseId`); Gemini and legacy calls may have none.
    pub id: Option<&'a str>,
    /// The item's own id where a format has both (Responses `fc_…`).
    pub item_id: Option<&'a str>,
    /// The tool's name.
    pub name: &'a str,
    /// The arguments as the format carries them.
    pub arguments: Arguments<'a>,
    /// Gemini's `thoughtSignature` on this part.
    pub signature: Option<&'a str>,
    /// Legacy `function_call` on a chat message.
    pub legacy: bool,
    /// Not a function: a server tool, custom tool or other named call type.
    pub other_type: Option<&'a str>,
}

/// Arguments of a call: JSON text (OpenAI) or a JSON value (all others).
#[derive(Clone, Copy, Debug)]
pub enum Arguments<'a> {
    /// Text that should hold a JSON object.
    Text(&'a str),
    /// A JSON value.
    Json(&'a Value),
    /// Absent.
    None,
}

/// The result of a call.
#[derive(Clone, Debug)]
pub struct ToolResult<'a> {
    /// Id of the call that it answers, if the format carries ids.
    pub call_id: Option<&'a str>,
    /// Name of the tool, if the result carries it (Gemini, legacy `function`).
    pub name: Option<&'a str>,
    /// Content: text, images, documents; structured JSON (Gemini `response`, Converse `json`) as [`ToolContentBody::Json`].
    pub content: Vec<ToolContent<'a>>,
    /// Marked as an error by the format's own flag.
    pub is_error: bool,
    /// Legacy `function` role.
    pub legacy: bool,
    /// Not a function result: a server tool's result or other named type.
    pub other_type: Option<&'a str>,
}

/// One piece of a tool result.
#[derive(Clone, Debug)]
pub struct ToolContent<'a> {
    /// Where it stands.
    pub place: Place,
    /// What it is.
    pub body: ToolContentBody<'a>,
}

/// What a piece of a tool result is.
#[derive(Clone, Debug)]
pub enum ToolContentBody<'a> {
    /// Text.
    Text(&'a str),
    /// Structured JSON.
    Json(&'a Value),
    /// A picture.
    Image(Media<'a>),
    /// A document.
    File(Media<'a>),
    /// Anything else, by type name.
    Other(&'a str),
}

/// A picture, document, sound or film: where its bytes are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Media<'a> {
    /// Base64 text without any `data:` prefix.
    pub base64: Option<&'a str>,
    /// A URL (http, gs, s3 …) whose bytes we never fetch.
    pub url: Option<&'a str>,
    /// A provider's file id.
    pub file_id: Option<&'a str>,
    /// Plain text content (Anthropic `text` documents, Gemini `text/*`).
    pub text: Option<&'a str>,
    /// MIME type, if given.
    pub mime: Option<&'a str>,
    /// OpenAI's `detail`, Gemini's `mediaResolution`.
    pub detail: Option<&'a str>,
    /// File name or title.
    pub name: Option<&'a str>,
}

/// A tool definition.
#[derive(Clone, Debug)]
pub struct Tool<'a> {
    /// Where it stands.
    pub place: Place,
    /// The definition as sent, wrapper included.
    pub raw: &'a Value,
    /// What it is.
    pub kind: ToolKind,
    /// Its name; for built-in and server tools their `type`.
    pub name: &'a str,
    /// Description, if there is one.
    pub description: Option<&'a str>,
    /// JSON Schema of the arguments.
    pub parameters: Option<&'a Value>,
    /// Came in the legacy `functions` field.
    pub legacy: bool,
    /// Loaded only when asked for (Anthropic `defer_loading`).
    pub deferred: bool,
}

impl Tool<'_> {
    /// The MCP server prefix of a namespaced tool name (`mcp__server__tool`, `server__tool`), if it has one.
    pub fn server(&self) -> Option<&str> {
        Self::server_of(self.name)
    }

    /// The same for a bare name, as calls and results carry it.
    pub fn server_of(name: &str) -> Option<&str> {
        let rest = name.strip_prefix("mcp__").unwrap_or(name);
        let (server, tool) = rest.split_once("__")?;
        (!server.is_empty() && !tool.is_empty()).then_some(server)
    }
}

/// What a tool definition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolKind {
    /// A function that the host runs.
    Function,
    /// A built-in that the host runs (bash, text editor, computer): its schema is the provider's.
    BuiltIn,
    /// A tool that the provider runs (web search, code execution, file search, MCP connector).
    Server,
}

/// `tool_choice` in neutral terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ToolChoice<'a> {
    /// Absent: the provider's default.
    #[default]
    Default,
    /// The model decides.
    Auto,
    /// No tool may be called.
    None,
    /// Some tool must be called (`required`, `any`).
    Required,
    /// This tool must be called.
    Named(&'a str),
    /// Anything else (an allowed subset and so on).
    Other,
}

/// `response_format`, `text.format`, `responseSchema`, `output_format` in neutral terms.
#[derive(Clone, Copy, Debug, Default)]
pub enum ResponseFormat<'a> {
    /// Plain text or absent.
    #[default]
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON by a schema.
    JsonSchema {
        /// The format's name (OpenAI).
        name: Option<&'a str>,
        /// Its description (OpenAI).
        description: Option<&'a str>,
        /// The schema itself.
        schema: &'a Value,
    },
    /// A grammar or another kind.
    Other(&'a Value),
}

/// Output limits and the settings that change what is billed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// Requested output, in tokens, and the field that it came in.
    pub max_output: Option<(u64, &'static str)>,
    /// Number of choices asked for (`n`, `candidateCount`).
    pub choices: Option<u64>,
    /// Reasoning effort, as spelled.
    pub effort: Option<&'a str>,
    /// Thinking budget in tokens (Anthropic `budget_tokens`, Gemini `thinkingBudget`).
    pub thinking_budget: Option<i64>,
    /// Thinking switched on (`enabled`, `adaptive`), off, or not mentioned.
    pub thinking: Option<&'a str>,
    /// The response is streamed.
    pub stream: bool,
}

/// Why part of a count can't be known from the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unbounded {
    /// Where the feature is asked for.
    pub place: Place,
    /// What it is, for a person.
    pub why: &'static str,
}
