//! Every cap on untrusted input, in one place, with its unit and its reason.
//!
//! Callers of any layer read them; nobody else may invent a cap. A value over a cap is a
//! [`crate::Kind::LimitExceeded`] error that names the cap.

/// Largest request body, in bytes. Real bodies with inline images reach some 50 MB.
pub const MAX_BODY_BYTES: usize = 256 << 20;

/// Largest gRPC message that the server takes unless configured otherwise, in bytes.
pub const DEFAULT_MESSAGE_BYTES: usize = 64 << 20;

/// Memory that a server's cache of texts' counts takes unless configured otherwise, in bytes: some 400,000 messages.
pub const DEFAULT_CACHE_BYTES: u64 = 64 << 20;

/// Memory that the bodies behind a server's prefix ids take unless configured otherwise, in bytes: some 100 histories of a megabyte.
pub const DEFAULT_PREFIX_BYTES: u64 = 128 << 20;

/// Deepest nesting of a JSON body. `serde_json`'s own recursion limit; real schemas stay under 40.
pub const MAX_JSON_DEPTH: usize = 127;

/// Most values in one JSON body. A parsed value takes up to some 80 bytes of memory while `0,` takes two
/// bytes of text, so that bytes alone don't bound memory.
pub const MAX_JSON_NODES: usize = 2_000_000;

/// Most messages (or input items, or contents) in one request.
pub const MAX_MESSAGES: usize = 100_000;

/// Most tool definitions in one request.
pub const MAX_TOOLS: usize = 20_000;

/// How often a recursive schema (`$ref` to itself) is unrolled before it is cut.
pub const MAX_SCHEMA_DEPTH: usize = 32;

/// Largest rendering of all tool schemas together, in bytes: `$ref`s inlined many times over can grow
/// exponentially.
pub const MAX_RENDERED_SCHEMA_BYTES: usize = 32 << 20;

/// Longest model name that is looked up, in bytes. Bedrock's ARNs reach some 200.
pub const MAX_MODEL_NAME_BYTES: usize = 512;

/// Largest window or cap that a list of models may state, in tokens: far above any model, far below where sums wrap.
pub const MAX_WINDOW_TOKENS: u64 = 1 << 40;

/// Most entries that an imported list of models may hold; LiteLLM's holds some 5,000.
pub const MAX_MODELS: usize = 100_000;

/// Largest vocabulary file, in bytes. The largest seen is 35 MB.
pub const MAX_VOCABULARY_BYTES: u64 = 256 << 20;

/// Most commas of a vocabulary's JSON: some as many values, each of which may take 80 bytes of memory. The largest seen has 1.9 million.
pub const MAX_VOCABULARY_VALUES: usize = 8 << 20;

/// Longest token of a `tokenizer.json`, in bytes: what the `tokenizers` crate holds. Real ones stay under 300.
pub const MAX_TOKEN_BYTES: usize = 65_535;

/// Longest added token of a `tokenizer.json` that is found in ordinary text, in bytes: each byte of a text may be compared with so many
/// before it is known that no such token begins there. The longest seen has 93.
pub const MAX_ADDED_TOKEN_BYTES: usize = 1_024;

/// Largest id of a token, plus one: tables are as long as it says. Real ones stay under 300,000.
pub const MAX_TOKEN_IDS: u32 = 1 << 21;

/// Longest silence of a hub unless `HF_HUB_DOWNLOAD_TIMEOUT` says otherwise, in seconds.
pub const HUB_SECONDS: u64 = 30;

/// Fewest bytes that a hub must send in that time, so that a transfer ends.
pub const MIN_HUB_BYTES: u64 = 4 << 10;

/// Most tries of one question to a hub that is busy, and most redirects that are followed.
pub const MAX_HUB_TRIES: u32 = 4;

/// Longest part of a hub id, and of a revision between its slashes, in bytes: the hub's own limit.
pub const MAX_HUB_NAME_BYTES: usize = 96;

/// Longest name of a vocabulary in the store, in bytes: it becomes a folder's name.
pub const MAX_VOCABULARY_NAME: usize = 64;

/// Largest text kept in a page store, in bytes: a body's largest part can't pass the body's cap.
pub const MAX_PAGE_ENTRY_BYTES: u64 = 256 << 20;

/// Most page borders remembered of texts read lately, in pages: some 10 MiB, enough for a thousand million characters.
pub const MAX_REMEMBERED_CUTS: usize = 1 << 18;

/// Most texts whose page borders are remembered.
pub const MAX_REMEMBERED_TEXTS: usize = 512;

/// Longest pattern of a page search, in bytes. People's patterns stay under 200.
pub const MAX_PATTERN_BYTES: usize = 4_096;

/// Largest compiled pattern of a page search, in bytes: bounds memory and time of counted repetitions.
pub const MAX_PATTERN_COMPILED_BYTES: usize = 2 << 20;

/// Work that one page search may do in the engine that needs no memory, in steps (states of the pattern times bytes of text):
/// some seconds.
pub const MAX_SEARCH_WORK: u64 = 1 << 28;

/// Most hits that one page search gives.
pub const MAX_SEARCH_HITS: usize = 1_000;

/// Largest answer of an endpoint that writes summaries, in bytes. A summary has some kB; thoughts before it some hundred.
pub const MAX_SUMMARY_BYTES: u64 = 4 << 20;

/// Largest chat template, in bytes. Published ones reach some 30 kB.
pub const MAX_TEMPLATE_BYTES: usize = 256 << 10;

/// Work that one rendering may do, in minijinja's units (some 64 bytes or one instruction each): a body of
/// [`MAX_BODY_BYTES`] is copied a few times; a loop without end stops within some seconds.
pub const TEMPLATE_FUEL: u64 = 20_000_000;

/// Stack of the thread that compiles and renders a template, in bytes: address space, of which only what is touched takes memory. A template
/// nests as deep as it is long, and with all its fuel some two million values, which are dropped one inside the other. The second where the
/// first is not to be had.
pub const TEMPLATE_STACKS: [usize; 2] = [1 << 30, 16 << 20];

/// Deepest nesting of a value that a template prints. Bodies nest up to [`MAX_JSON_DEPTH`].
pub const TEMPLATE_VALUE_DEPTH: usize = 2 * MAX_JSON_DEPTH;

/// Most that a template may have a filter such as `map` or `select` look at anew for each item, in values or 64 bytes of text.
pub const TEMPLATE_EACH_ARGUMENT: u64 = 256;

/// Deepest nesting of a template's calls and loops. Published ones stay under 20; schemas nest up to [`MAX_JSON_DEPTH`].
pub const TEMPLATE_RECURSION: usize = 200;

/// Longest prompt that a template may write, in bytes.
pub const MAX_PROMPT_BYTES: usize = 512 << 20;

/// Longest line of a streamed answer, in bytes. One line holds one event's JSON; those with inline images reach some 10 MB.
pub const MAX_SSE_LINE_BYTES: usize = 32 << 20;

/// Largest event of a streamed answer (its data lines together), in bytes.
pub const MAX_SSE_EVENT_BYTES: usize = 32 << 20;

/// Most bytes kept of one streamed answer: the assembled message with all its choices and calls.
pub const MAX_ANSWER_BYTES: usize = 128 << 20;

/// Most choices, output items, content blocks or parallel calls in one answer. Providers stop at some 128.
pub const MAX_ANSWER_PARTS: usize = 4096;

/// Most of a provider's error body that is looked at, in bytes. Real ones stay under some 10 kB.
pub const MAX_ERROR_BYTES: usize = 64 << 10;

/// How often a text cut by length is continued: the answer of a model that never ends must end somewhere.
pub const MAX_CONTINUATIONS: usize = 16;

/// Most schemas written for one tool when references are inlined.
pub const MAX_SCHEMA_NODES: usize = 10_000;

/// Most pages of tools taken from one MCP server: one that always names a next page must end.
pub const MAX_TOOL_PAGES: usize = 1000;

/// Most models whose limits are corrected in one process: the models that a host uses, many times over.
pub const MAX_CORRECTIONS: usize = 4096;

/// Most bytes that all streams followed by one server hold together: eight of the largest answers. A further piece over it ends its stream.
pub const MAX_FOLLOWED_BYTES: usize = 1 << 30;

/// Most bytes of headers in one frame of a binary event stream: the format's own limit.
pub const MAX_FRAME_HEADER_BYTES: usize = 128 << 10;

/// Largest frame of a binary event stream, in bytes: the format's own limit of 24 MiB of payload with its headers and checksums.
pub const MAX_FRAME_BYTES: usize = (24 << 20) + (128 << 10) + 16;

/// Most faults noted of one streamed answer; further notes say nothing new. A fatal one is always noted.
pub const MAX_FAULTS: usize = 64;
