//! What differs between the OpenAI families and their two endpoints, as data.
//!
//! Read by the renderer of this family alone. Every constant is a count of markers and fixed words around a text;
//! all were recovered from recorded bills of 2025 and 2026 (November 2026).

use crate::format::Format;

/// Where a block of hidden text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// Behind the text of the first system or developer message; a message of its own where there is none.
    Joined,
    /// Always a message of its own.
    Apart,
}

/// How several calls in one assistant message are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parallel {
    /// As one call of a wrapper tool, and all results as one list.
    Wrapped,
    /// Each as if it stood alone.
    Single,
}

/// The name of the answer's format in the header of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerHeader {
    /// Not shown.
    None,
    /// Shown where the request has no tools.
    WithoutTools,
}

/// One family on one endpoint. Units are tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Start of the answer.
    pub(super) priming: i64,
    /// Around every message, without its role.
    pub(super) message: u64,
    /// On assistant texts of the history: the channel that they went to.
    pub(super) assistant_channel: u64,
    /// Around a call, without header and arguments.
    pub(super) call: u64,
    /// On a call that carries an id of its own beside its call id.
    pub(super) call_item_id: u64,
    /// More on such a call where a user's message follows its result at once.
    pub(super) interrupted_item_id: u64,
    /// Around a result, without name and content.
    pub(super) result: u64,
    /// Several calls in one message.
    pub(super) parallel: Parallel,
    /// Headings over the namespace of tools.
    pub(super) tools_heading: bool,
    /// Where the tools go.
    pub(super) tools: Placement,
    /// Correction on the tool block.
    pub(super) tools_correction: i64,
    /// Hidden text beside any tools.
    pub(super) tools_hidden: i64,
    /// Correction where the first tool has no description.
    pub(super) undescribed: i64,
    /// Where the answer's format goes; without tools, and with them.
    pub(super) schema: Placement,
    /// Around a format block that stands alone.
    pub(super) schema_frame: u64,
    /// The format's name in the answer's header.
    pub(super) answer_header: AnswerHeader,
    /// Whether `tool_choice` weighs anything.
    pub(super) choice: bool,
    /// How far a call that carries an id of its own may be off: the provider replays such a call as it was sampled.
    pub(super) item_id_bound: u64,
    /// How far each call of several in one message may be off, where no bill has shown them.
    pub(super) parallel_bound: u64,
    /// Whether reasoning of earlier turns stays in the prompt.
    pub(super) keeps_reasoning: bool,
    /// Added to each call by a gateway that rewrites the history before it asks the provider.
    pub(super) gateway_call: u64,
}

const CLASSIC_CHAT: Rules = Rules {
    priming: 3,
    message: 3,
    assistant_channel: 0,
    call: 3,
    call_item_id: 0,
    interrupted_item_id: 0,
    result: 6,
    parallel: Parallel::Wrapped,
    tools_heading: true,
    tools: Placement::Joined,
    tools_correction: -1,
    tools_hidden: 0,
    undescribed: 0,
    schema: Placement::Joined,
    schema_frame: 4,
    answer_header: AnswerHeader::WithoutTools,
    choice: true,
    item_id_bound: 0,
    parallel_bound: 0,
    keeps_reasoning: false,
    gateway_call: 0,
};

const CLASSIC_RESPONSES: Rules = Rules {
    call_item_id: 3,
    result: 4,
    parallel: Parallel::Single,
    tools_heading: false,
    tools: Placement::Apart,
    schema: Placement::Apart,
    schema_frame: 1,
    answer_header: AnswerHeader::None,
    ..CLASSIC_CHAT
};

/// o1, o3-mini.
const EARLY_O_CHAT: Rules = Rules {
    priming: 2,
    parallel: Parallel::Single,
    tools: Placement::Apart,
    tools_correction: 0,
    answer_header: AnswerHeader::None,
    schema: Placement::Apart,
    choice: false,
    item_id_bound: 4,
    parallel_bound: 3,
    ..CLASSIC_CHAT
};

/// o3, o4-mini: three more for a call and its result, however many calls there are.
const O_CHAT: Rules = Rules { call: 5, result: 7, parallel_bound: 0, ..EARLY_O_CHAT };

const O_RESPONSES: Rules =
    Rules { call_item_id: 3, result: 8, tools: Placement::Joined, tools_correction: -1, undescribed: -1, schema_frame: 0, ..O_CHAT };

const FIVE_CHAT: Rules = Rules {
    assistant_channel: 2,
    call: 7,
    result: 8,
    tools_correction: -1,
    tools_hidden: 82,
    undescribed: -1,
    parallel_bound: 6,
    ..O_CHAT
};

const FIVE_RESPONSES: Rules =
    Rules { call: 5, call_item_id: 3, interrupted_item_id: 3, tools_hidden: 0, schema_frame: 0, parallel_bound: 0, ..FIVE_CHAT };

/// A family of models that share a prompt layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// gpt-3.5, gpt-4, 4o, 4.1, 4.5.
    Classic,
    /// The first reasoning models: like classic, with text of their own that isn't known.
    EarlyReasoning,
    /// o1, o3-mini.
    EarlyO,
    /// o3, o4-mini.
    O,
    /// gpt-5 to gpt-5.5.
    Five,
    /// gpt-5.6 and later: as gpt-5, but reasoning of earlier turns stays.
    FiveSix,
}

impl Family {
    /// The family of a renderer's name.
    pub(super) fn of(renderer: &str) -> Self {
        match renderer {
            "openai-o1-mini" => Self::EarlyReasoning,
            "harmony-o1" => Self::EarlyO,
            "harmony-o" => Self::O,
            "harmony-5.6" | "harmony-6" => Self::FiveSix,
            name if name.starts_with("harmony") => Self::Five,
            _ => Self::Classic,
        }
    }

    /// Its rules on an endpoint. Formats that OpenAI doesn't serve are counted as Chat Completions.
    pub(super) fn rules(self, format: Format) -> Rules {
        match (self, format == Format::Responses) {
            (Self::Classic | Self::EarlyReasoning, false) => CLASSIC_CHAT,
            (Self::Classic | Self::EarlyReasoning, true) => CLASSIC_RESPONSES,
            (Self::EarlyO, false) => EARLY_O_CHAT,
            (Self::O, false) => O_CHAT,
            (Self::EarlyO | Self::O, true) => O_RESPONSES,
            (Self::Five, false) => FIVE_CHAT,
            (Self::Five, true) => FIVE_RESPONSES,
            (Self::FiveSix, responses) => Rules { keeps_reasoning: true, ..if responses { FIVE_RESPONSES } else { FIVE_CHAT } },
        }
    }
}
