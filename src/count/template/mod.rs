//! Open-weight models: the family's published template rendered as its host does, counted with its own vocabulary.
//!
//! `template:NAME` renderers come here, and `installed:NAME`, by which a model's own template is rendered that lies beside its vocabulary. The prompt is rendered with marks of who owns which text, cut at the template's
//! markers (one token each), and what lies between is counted as one text, so that the parts sum to the total
//! (invariant 1). Where the vocabulary isn't installed another stands in and the count is an estimate that says so.

mod family;
#[cfg(feature = "templates")]
mod installed;
mod pictures;
mod turns;

use super::render::RenderContext;
use super::{Breakdown, Confidence, PartKind, PromptPiece, RenderedPrompt};
use crate::error::{Error, Kind, Result};
use crate::format::{Conversation, ResponseFormat, Tool, ToolChoice, ToolKind};
use crate::json_text::{Style, dumps};
use crate::template::spans::{self, Spanned};
use crate::tokenizer::Tokenizer;
use family::{Case, Family, Grade, Habits};
use pictures::Pictures;
use regex::Regex;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use turns::Turns;

/// What templates are told of the day, where the caller says none. It only matters by its length, which hardly changes.
#[cfg(feature = "templates")]
const DATE: (u16, u8, u8) = (2026, 11, 30);
/// Hosts that render a model's own template as published.
#[cfg(feature = "templates")]
const AS_PUBLISHED: [&str; 3] = ["vllm", "sglang", "llama-cpp"];
/// What stands in for a vocabulary that isn't installed.
const STAND_IN: &str = "o200k_base";
/// How far a stand-in may be off, in percent: the vocabularies of 2026 differ by some 10% on English and code, more on other scripts.
const STAND_IN_PERCENT: u64 = 15;
/// How far a template that is only guessed may be off: a share of the whole, and so many tokens.
const GUESS: (u64, u64) = (4, 40);
/// How far hosts of whose habits nothing is recorded may be off, per tool and in all.
const UNKNOWN_HOST: (u64, u64) = (12, 8);
/// And one token in so many: hosts drop reasoning, re-serialize schemas or serve another snapshot (recorded bills, 2026-11-30).
const UNKNOWN_SHARE: u64 = 8;

pub(super) fn render(context: &RenderContext<'_>) -> Result<Breakdown> {
    weigh(context).map(|weighed| weighed.breakdown)
}

/// The prompt itself, in pieces.
pub(super) fn prompt(context: &RenderContext<'_>) -> Result<RenderedPrompt> {
    let renderer = context.profile.renderer.as_str();
    if !renderer.starts_with("template:") && !renderer.starts_with("installed") {
        let why = format!("the text that `{}` is given is not public: `{renderer}` counts without one", context.profile.id);
        return Err(Error::new(Kind::Unsupported, why));
    }
    let Weighed { breakdown, spanned, index } = weigh(context)?;
    let mut pieces = Vec::with_capacity(spanned.spans.len() * 2 + 1);
    let mut at = 0;
    for (range, owner) in spanned.spans {
        if range.start > at {
            pieces.push(PromptPiece { range: at..range.start, part: None });
        }
        at = range.end;
        pieces.push(PromptPiece { range, part: index.get(owner).copied().flatten().filter(|_| owner > 0) });
    }
    if at < spanned.text.len() {
        pieces.push(PromptPiece { range: at..spanned.text.len(), part: None });
    }
    Ok(RenderedPrompt { text: spanned.text, pieces, breakdown })
}

/// A counted prompt.
struct Weighed {
    breakdown: Breakdown,
    spanned: Spanned,
    /// Where each owner's part stands in the breakdown.
    index: Vec<Option<usize>>,
}

fn weigh(context: &RenderContext<'_>) -> Result<Weighed> {
    let mut breakdown = Breakdown::default();
    let (tokenizer, stand_in) = match (context.tokenizer)(&context.profile.tokenizer) {
        Ok(tokenizer) => (tokenizer, context.profile.proxy),
        Err(e) if matches!(e.kind(), Kind::NotFound | Kind::Unavailable | Kind::Unsupported) => {
            breakdown.note(format!("`{STAND_IN}` stands in for the model's own vocabulary: {e}"));
            ((context.tokenizer)(STAND_IN)?, true)
        }
        Err(e) => return Err(e),
    };
    let Prompt { grade, pattern, literal_text, add, exact, mut turns, spanned } = Prompt::of(context, &tokenizer)?;
    count(&spanned, pattern.as_deref(), literal_text, &tokenizer, &mut turns);

    let tools = context.conversation.tools.len() as u64;
    let total: u64 = turns.parts.iter().map(|part| part.tokens).sum();
    if let Some(frame) = turns.parts.first_mut() {
        frame.tokens = frame.tokens.saturating_add(add);
        match grade {
            Grade::Estimate => {
                frame.confidence = Confidence::Estimate;
                frame.bound = Some((total * GUESS.0 / 100).saturating_add(GUESS.1));
            }
            Grade::Exact if exact => {}
            Grade::Exact | Grade::Calibrated => {
                frame.confidence = Confidence::Calibrated;
                let frames = tools.saturating_mul(UNKNOWN_HOST.0).saturating_add(UNKNOWN_HOST.1);
                frame.bound = Some(frames.saturating_add(total / UNKNOWN_SHARE));
            }
        }
    }
    if stand_in {
        for part in &mut turns.parts {
            part.confidence = part.confidence.max(Confidence::Estimate);
            let share = part.tokens.saturating_mul(STAND_IN_PERCENT).div_ceil(100);
            part.bound = part.bound.map(|bound| bound.saturating_add(share));
        }
    }
    let mut index = Vec::with_capacity(turns.parts.len());
    for (number, part) in turns.parts.into_iter().enumerate() {
        let shown = part.tokens > 0 || number > 0;
        index.push(shown.then_some(breakdown.parts().len()));
        if shown {
            breakdown.push(part);
        }
    }
    for part in turns.media {
        breakdown.push(part);
    }
    for feature in &context.conversation.unbounded {
        let mut part = super::Part::exact(PartKind::Overhead, feature.place.clone(), 0);
        part.confidence = Confidence::Unbounded;
        part.bound = None;
        breakdown.push(part);
    }
    Ok(Weighed { breakdown, spanned, index })
}

/// A rendered prompt with all that is needed to count it.
struct Prompt {
    grade: Grade,
    /// What finds the special tokens in the text.
    pattern: Option<Cow<'static, Regex>>,
    literal_text: bool,
    /// Tokens that the host adds.
    add: u64,
    /// Recorded bills on this host agree, or the host is known to render as published.
    exact: bool,
    turns: Turns,
    spanned: Spanned,
}

impl Prompt {
    fn of(context: &RenderContext<'_>, tokenizer: &Tokenizer) -> Result<Self> {
        let renderer = context.profile.renderer.as_str();
        if let Some(name) = renderer.strip_prefix("installed") {
            let name = name.strip_prefix(':').unwrap_or(&context.profile.tokenizer);
            return Self::installed(context, name, tokenizer)?.ok_or_else(|| {
                let how =
                    format!("no chat template is installed with vocabulary `{name}`; add one with `plimsoll models add {name} --dir PATH`");
                Error::new(Kind::NotFound, how)
            });
        }
        let name = renderer.strip_prefix("template:").unwrap_or(renderer);
        let found = family::find(name)?.map(|family| (name, family));
        // What is not described here is rendered by the model's own template, where that is installed.
        if found.is_none_or(|(_, family)| family.grade == Grade::Estimate)
            && let Some(prompt) = Self::installed(context, &context.profile.tokenizer, tokenizer)?
        {
            return Ok(prompt);
        }
        let (name, family) = match found {
            Some(found) => found,
            None => {
                ("phi-4", family::find("phi-4")?.ok_or_else(|| Error::new(Kind::Unsupported, format!("unknown template family `{name}`")))?)
            }
        };
        Self::described(context, name, family)
    }

    /// By the template that lies beside the vocabulary; `None` where there is none.
    #[cfg(feature = "templates")]
    fn installed(context: &RenderContext<'_>, name: &str, tokenizer: &Tokenizer) -> Result<Option<Self>> {
        let conversation = context.conversation;
        let Some(store) = context.store else { return Ok(None) };
        let Some(installed) = installed::find(store, name, !conversation.tools.is_empty())? else { return Ok(None) };
        let mut turns = Turns::of(conversation, "\n", Pictures::Unknown);
        let date = context.as_of.map_or(DATE, crate::count::Day::parts);
        let doing = |e: Error| e.context(format!("rendering the chat template of `{name}`"));
        let spanned = installed.render(conversation, &mut turns, date).map_err(doing)?;
        let exact = context.provider.is_some_and(|provider| AS_PUBLISHED.contains(&provider.as_str()));
        let pattern = installed.markers(tokenizer)?.map(Cow::Owned);
        Ok(Some(Self { grade: Grade::Exact, pattern, literal_text: false, add: 0, exact, turns, spanned }))
    }

    #[cfg(not(feature = "templates"))]
    #[expect(clippy::unnecessary_wraps, reason = "fails only where templates are rendered")]
    fn installed(_context: &RenderContext<'_>, _name: &str, _tokenizer: &Tokenizer) -> Result<Option<Self>> {
        Ok(None)
    }

    /// By a family's template of ours and its host's habits.
    fn described(context: &RenderContext<'_>, name: &str, family: &'static Family) -> Result<Self> {
        let conversation = context.conversation;
        // Aliases that moved between snapshots are known by the name that the request used.
        let id = format!("{} {}", context.profile.id, conversation.model.unwrap_or_default()).to_lowercase();
        let habits = family::habits(
            family,
            &Case {
                family: name,
                provider: context.provider.map_or("", crate::models::Provider::as_str),
                id: &id,
                choice: choice(conversation),
                effort: conversation.options.effort.unwrap_or(""),
                format: conversation.format.as_str(),
                tools: !conversation.tools.is_empty(),
                response_kind: match conversation.response_format {
                    ResponseFormat::Text => "",
                    ResponseFormat::JsonObject => "json_object",
                    _ => "json_schema",
                },
                as_of: context.as_of,
            },
        )?;
        let joiner = habits.set.get("text_joiner").and_then(Value::as_str).unwrap_or_default();
        let pictures = habits.set.get("pictures").and_then(Value::as_str).or(family.pictures.as_deref());
        let mut turns = Turns::of(conversation, joiner, Pictures::of(pictures));
        let clashes = turns.texts().any(spans::clashes) || conversation.tools.iter().any(|tool| spans::clashes(&tool.raw.to_string()));
        if let Some(suffix) = habits.set.get("last_user_suffix").and_then(Value::as_str)
            && let Some(turn) = turns.list.iter_mut().rev().find(|turn| turn.role == crate::format::Role::User)
        {
            turn.text.push_str(suffix);
        }
        let tools = if habits.no_tools { Vec::new() } else { tools(conversation, &habits, &mut turns) };
        let spanned = Self::rendered(conversation, family, &habits, &turns, &tools, clashes)?;
        let pattern = Some(Cow::Borrowed(family::markers(family)?));
        Ok(Self { grade: family.grade, pattern, literal_text: family.literal_text, add: habits.add, exact: habits.exact, turns, spanned })
    }

    fn rendered(
        conversation: &Conversation<'_>,
        family: &Family,
        habits: &Habits,
        turns: &Turns,
        tools: &[Value],
        clashes: bool,
    ) -> Result<Spanned> {
        let mut variables = habits.set.clone();
        let listed: Vec<String> = tools
            .iter()
            .map(|tool| {
                let json = tool.get("json").and_then(Value::as_str).unwrap_or_default();
                let owner = tool.get("ref").and_then(Value::as_u64).and_then(|owner| usize::try_from(owner).ok());
                owner.filter(|_| !clashes).map_or_else(|| json.to_owned(), |owner| spans::marked(json, owner))
            })
            .collect();
        variables.insert("tools_json".to_owned(), format!("[{}]", listed.join(", ")).into());
        variables.insert("tools".to_owned(), Value::Array(tools.to_vec()));
        let mut messages = turns.context();
        if clashes {
            without_owners(&mut messages);
        }
        let any_result = turns.list.iter().any(|turn| turn.role == crate::format::Role::Tool);
        variables.insert("messages".to_owned(), messages);
        variables.insert("any_result".to_owned(), any_result.into());
        variables.insert("choice".to_owned(), choice(conversation).into());
        variables.insert("effort".to_owned(), conversation.options.effort.into());
        let thinking = thinking(conversation).map(Value::Bool).or_else(|| habits.set.get("default_thinking").cloned());
        variables.insert("thinking".to_owned(), thinking.unwrap_or(Value::Null));
        variables.insert("keep_thinking".to_owned(), keeps_thinking(conversation).into());
        let rendered = render_source(habits.template.unwrap_or(&family.template), &Value::Object(variables))?;
        Ok(if clashes { Spanned { text: rendered, spans: Vec::new() } } else { spans::split(&rendered) })
    }
}

/// Counts the prompt, run by run, into the parts that own it.
fn count(prompt: &Spanned, pattern: Option<&Regex>, literal_text: bool, tokenizer: &Tokenizer, turns: &mut Turns) {
    // Whose text a byte is: spans are ascending, and markers and runs are walked in order.
    let mut next = 0;
    let owner_at = |next: &mut usize, at: usize| {
        while prompt.spans.get(*next).is_some_and(|(range, _)| range.end <= at) {
            *next += 1;
        }
        prompt.spans.get(*next).filter(|(range, _)| range.contains(&at)).map_or(0, |(_, owner)| *owner)
    };
    let mut at = 0;
    let mut span = 0;
    for marker in pattern.iter().flat_map(|pattern| pattern.find_iter(&prompt.text)) {
        let owner = owner_at(&mut span, marker.start());
        if owner != 0 && literal_text {
            continue;
        }
        run(prompt, at..marker.start(), &mut next, tokenizer, turns);
        if let Some(part) = turns.parts.get_mut(owner) {
            part.tokens = part.tokens.saturating_add(1);
        }
        at = marker.end();
    }
    run(prompt, at..prompt.text.len(), &mut next, tokenizer, turns);
}

/// Counts one run between markers as a whole and shares its tokens out.
fn run(prompt: &Spanned, range: std::ops::Range<usize>, next: &mut usize, tokenizer: &Tokenizer, turns: &mut Turns) {
    let Some(text) = prompt.text.get(range.clone()).filter(|text| !text.is_empty()) else { return };
    let (mut borders, mut owners) = (Vec::new(), Vec::new());
    let mut at = range.start;
    while at < range.end {
        while prompt.spans.get(*next).is_some_and(|(span, _)| span.end <= at) {
            *next += 1;
        }
        let (end, owner) = match prompt.spans.get(*next) {
            Some((span, owner)) if span.start <= at => (span.end, *owner),
            Some((span, _)) => (span.start, 0),
            None => (range.end, 0),
        };
        at = end.min(range.end);
        borders.push(at - range.start);
        owners.push(owner);
    }
    let shares = if borders.len() == 1 { vec![tokenizer.count(text)] } else { tokenizer.count_shares(text, &borders) };
    for (owner, share) in owners.into_iter().zip(shares) {
        if let Some(part) = turns.parts.get_mut(owner) {
            part.tokens = part.tokens.saturating_add(share as u64);
        }
    }
}

/// Tools as the host hands them to the template.
fn tools(conversation: &Conversation<'_>, habits: &Habits, turns: &mut Turns) -> Vec<Value> {
    let mut out = Vec::with_capacity(conversation.tools.len());
    for tool in conversation.tools.iter().filter(|tool| tool.kind == ToolKind::Function) {
        let owner = turns.part(PartKind::ToolDefinition, &tool.place, None, Some(tool.name));
        if let Some(part) = turns.parts.get_mut(owner) {
            part.server = tool.server().map(str::to_owned);
        }
        let function = Value::Object(function(tool, habits));
        let value = match tool.raw.get("function") {
            _ if habits.bare => function.clone(),
            Some(_) if !habits.type_first => {
                let mut wrapper = tool.raw.as_object().cloned().unwrap_or_default();
                wrapper.insert("function".to_owned(), function.clone());
                Value::Object(wrapper)
            }
            _ => json!({"type": "function", "function": function}),
        };
        out.push(json!({
            "ref": owner,
            "json": dumps(&value, Style::PYTHON),
            "compact": dumps(&function, Style::COMPACT),
            "value": value,
            "function": function,
        }));
    }
    out
}

/// The function object of a tool, in chat's shape whatever the format.
fn whole_function(tool: &Tool<'_>) -> Map<String, Value> {
    match tool.raw.get("function").and_then(Value::as_object) {
        Some(function) => function.clone(),
        // Responses tools are flat; their other fields stay as they are.
        None if tool.raw.get("type").and_then(Value::as_str) == Some("function") => {
            let flat = tool.raw.as_object().into_iter().flatten();
            flat.filter(|(key, _)| *key != "type").map(|(key, value)| (key.clone(), value.clone())).collect()
        }
        None => {
            let mut function = Map::new();
            function.insert("name".to_owned(), tool.name.into());
            function.insert("description".to_owned(), tool.description.unwrap_or_default().into());
            function.insert("parameters".to_owned(), tool.parameters.cloned().unwrap_or_else(|| json!({})));
            function
        }
    }
}

/// The same as the host hands it on.
fn function(tool: &Tool<'_>, habits: &Habits) -> Map<String, Value> {
    let mut function = whole_function(tool);
    if !habits.strict {
        function.shift_remove("strict");
    }
    if let Some(fields) = &habits.fields {
        let mut chosen = Map::new();
        for field in fields {
            if let Some(value) = function.shift_remove(field) {
                chosen.insert(field.clone(), value);
            }
        }
        function = chosen;
    }
    if habits.fill {
        let text = |key: &str| function.get(key).filter(|value| value.is_string()).cloned().unwrap_or_else(|| "".into());
        let parameters = function.get("parameters").cloned().unwrap_or_else(|| json!({}));
        function =
            [("name".to_owned(), text("name")), ("description".to_owned(), text("description")), ("parameters".to_owned(), parameters)]
                .into_iter()
                .collect();
    }
    function
}

/// `tool_choice` in one word.
fn choice(conversation: &Conversation<'_>) -> &'static str {
    match conversation.tool_choice {
        ToolChoice::Default => "",
        ToolChoice::Auto => "auto",
        ToolChoice::None => "none",
        ToolChoice::Required => "required",
        ToolChoice::Named(_) => "named",
        ToolChoice::Other => "other",
    }
}

/// Whether thinking is switched on or off by any of the fields that servers read.
fn thinking(conversation: &Conversation<'_>) -> Option<bool> {
    let options = &conversation.options;
    match (options.thinking, options.effort) {
        (Some("disabled"), _) | (_, Some("none")) => return Some(false),
        (Some("enabled"), _) => return Some(true),
        _ => {}
    }
    let arguments = conversation.body.get("chat_template_kwargs")?;
    ["enable_thinking", "thinking"].iter().find_map(|key| arguments.get(key)?.as_bool())
}

/// GLM: `clear_thinking: false` keeps the reasoning of earlier turns.
fn keeps_thinking(conversation: &Conversation<'_>) -> bool {
    let body = conversation.body;
    let fields = [body.get("clear_thinking"), body.get("thinking").and_then(|thinking| thinking.get("clear_thinking"))];
    fields.into_iter().flatten().any(|value| value == &Value::Bool(false))
}

fn without_owners(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(without_owners),
        Value::Object(map) => {
            map.retain(|key, _| key != "ref" && key != "reasoning_ref");
            map.values_mut().for_each(without_owners);
        }
        _ => {}
    }
}

/// Renders a template of ours; compiled once per process.
#[cfg(feature = "templates")]
fn render_source(name: &str, variables: &Value) -> Result<String> {
    use crate::template::ChatTemplate;
    use std::collections::HashMap;
    use std::sync::{LazyLock, Mutex, PoisonError};
    static COMPILED: LazyLock<Mutex<HashMap<String, ChatTemplate>>> = LazyLock::new(Mutex::default);
    let known = COMPILED.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
    let template = if let Some(template) = known {
        template
    } else {
        let source = family::source(name).ok_or_else(|| Error::new(Kind::Internal, format!("no template named `{name}`")))?;
        let template = ChatTemplate::compile(source, DATE).map_err(|e| e.context(format!("compiling the template `{name}`")))?;
        COMPILED.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), template.clone());
        template
    };
    template.render(variables).map_err(|e| e.context(format!("rendering the template `{name}`")))
}

#[cfg(not(feature = "templates"))]
fn render_source(_name: &str, _variables: &Value) -> Result<String> {
    Err(Error::new(Kind::Unsupported, "this build can't count open-weight models: the feature `templates` is off"))
}

#[cfg(test)]
#[cfg(feature = "templates")]
mod tests {
    use super::*;
    use crate::count::ReasoningMemory;
    use crate::format::{Format, Request};
    use crate::models::Profile;

    /// The last message holds two of the characters that mark owners.
    const BODY: &str = r#"{"model": "m", "messages": [
        {"role": "system", "content": "sys"}, {"role": "user", "content": "größer <think> [INST]"},
        {"role": "assistant", "content": null, "reasoning_content": "why", "tool_calls": [{"id": "c1", "type": "function",
            "function": {"name": "f", "arguments": "{\"a\": {\"b\": [1, 2.0]}, \"s\": \"x\"}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "{\"ok\": true}"}, {"role": "user", "content": "\udb86\udf01and\udb86\udf03"}],
        "tools": [{"type": "function", "function": {"name": "f", "description": "d", "strict": true, "parameters": {"type": "object",
            "properties": {"a": {"type": "object", "properties": {"b": {"type": "array", "items": {"type": "integer"}}}}, "s": {"type": "string"}}}}}]}"#;

    fn count_with(renderer: &str, body: &str, tokenizer: &dyn Fn(&str) -> Result<Tokenizer>) -> Breakdown {
        let request = Request::parse(body.as_bytes(), Format::Chat).unwrap();
        let conversation = request.conversation().unwrap();
        let profile = Profile { renderer: renderer.to_owned(), tokenizer: "qwen3".to_owned(), ..Profile::default() };
        let memory = ReasoningMemory::default();
        let context = RenderContext {
            conversation: &conversation,
            profile: &profile,
            tokenizer,
            provider: None,
            memory: &memory,
            stream: None,
            store: None,
            as_of: None,
            known: None,
        };
        render(&context).unwrap_or_else(|e| panic!("{renderer}: {e}"))
    }

    #[test]
    fn every_family_renders_a_full_conversation_with_and_without_owners() {
        let plain = BODY.replace(r"\udb86\udf01", "").replace(r"\udb86\udf03", "");
        let o200k = |_: &str| Tokenizer::by_name(STAND_IN);
        for family in family::names() {
            let renderer = format!("template:{family}");
            let (coarse, fine) = (count_with(&renderer, BODY, &o200k), count_with(&renderer, &plain, &o200k));
            assert!(fine.total() > 20, "{family}");
            assert!(coarse.total() > fine.total(), "{family}");
            let user = fine.parts().iter().filter(|part| part.kind == PartKind::User).map(|part| part.tokens).sum::<u64>();
            assert!((4..30).contains(&user), "{family}: the user's text has {user} tokens");
        }
    }

    #[test]
    fn a_missing_vocabulary_gives_an_estimate_that_says_so() {
        let missing = |name: &str| match name {
            "qwen3" => Err(Error::new(Kind::NotFound, "not installed")),
            other => Tokenizer::by_name(other),
        };
        let breakdown = count_with("template:qwen3", BODY, &missing);
        assert_eq!(breakdown.confidence(), Confidence::Estimate);
        assert!(breakdown.bound().is_some_and(|bound| bound > 5));
        assert_eq!(breakdown.notes(), ["`o200k_base` stands in for the model's own vocabulary: not installed"]);
    }
}
