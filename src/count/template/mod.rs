//! Open-weight models: the family's published template rendered as its host does, counted with its own vocabulary.
//!
//! `template:NAME` renderers come here. The prompt is rendered with marks of who owns which text, cut at the template's
//! markers (one token each), and what lies between is counted as one text, so that the parts sum to the total
//! (invariant 1). Where the vocabulary isn't installed another stands in and the count is an estimate that says so.

mod family;
mod turns;

use super::render::RenderContext;
use super::{Breakdown, Confidence, PartKind};
use crate::error::{Error, Kind, Result};
use crate::format::{Conversation, ResponseFormat, Tool, ToolChoice, ToolKind};
use crate::json_text::{Style, dumps};
use crate::template::spans::{self, Spanned};
use crate::tokenizer::Tokenizer;
use family::{Case, Family, Grade, Habits};
use serde_json::{Map, Value, json};
use turns::Turns;

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
    let prompt = Prompt::of(context)?;
    let (tokenizer, stand_in) = match (context.tokenizer)(&context.profile.tokenizer) {
        Ok(tokenizer) => (tokenizer, context.profile.proxy),
        Err(e) if matches!(e.kind(), Kind::NotFound | Kind::Unavailable | Kind::Unsupported) => ((context.tokenizer)(STAND_IN)?, true),
        Err(e) => return Err(e),
    };
    let mut turns = prompt.turns;
    count(&prompt.spanned, prompt.family, &tokenizer, &mut turns)?;

    let tools = context.conversation.tools.len() as u64;
    let total: u64 = turns.parts.iter().map(|part| part.tokens).sum();
    if let Some(frame) = turns.parts.first_mut() {
        frame.tokens = frame.tokens.saturating_add(prompt.habits.add);
        match prompt.family.grade {
            Grade::Estimate => {
                frame.confidence = Confidence::Estimate;
                frame.bound = Some((total * GUESS.0 / 100).saturating_add(GUESS.1));
            }
            Grade::Exact if prompt.habits.exact => {}
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
    let mut breakdown = Breakdown::default();
    for (index, part) in turns.parts.into_iter().enumerate() {
        if part.tokens > 0 || index > 0 {
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
    Ok(breakdown)
}

/// A rendered prompt with all that is needed to count it.
struct Prompt {
    family: &'static Family,
    habits: Habits,
    turns: Turns,
    spanned: Spanned,
}

impl Prompt {
    fn of(context: &RenderContext<'_>) -> Result<Self> {
        let conversation = context.conversation;
        let renderer = context.profile.renderer.as_str();
        let name = renderer.strip_prefix("template:").unwrap_or(renderer);
        let (name, family) = match family::find(name)? {
            Some(family) => (name, family),
            None => {
                ("phi-4", family::find("phi-4")?.ok_or_else(|| Error::new(Kind::Unsupported, format!("unknown template family `{name}`")))?)
            }
        };
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
                response_format: !matches!(conversation.response_format, ResponseFormat::Text),
            },
        )?;
        let mut turns = Turns::of(conversation);
        let clashes = turns.texts().any(spans::clashes) || conversation.tools.iter().any(|tool| spans::clashes(&tool.raw.to_string()));
        if let Some(suffix) = habits.set.get("last_user_suffix").and_then(Value::as_str)
            && let Some(turn) = turns.list.iter_mut().rev().find(|turn| turn.role == crate::format::Role::User)
        {
            turn.text.push_str(suffix);
        }
        let tools = if habits.no_tools { Vec::new() } else { tools(conversation, &habits, &mut turns) };
        let spanned = Self::rendered(conversation, family, &habits, &turns, &tools, clashes)?;
        Ok(Self { family, habits, turns, spanned })
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
        let rendered = render_source(&family.template, &Value::Object(variables))?;
        Ok(if clashes { Spanned { text: rendered, spans: Vec::new() } } else { spans::split(&rendered) })
    }
}

/// Counts the prompt, run by run, into the parts that own it.
fn count(prompt: &Spanned, family: &Family, tokenizer: &Tokenizer, turns: &mut Turns) -> Result<()> {
    let pattern = family::markers(family)?;
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
    for marker in pattern.find_iter(&prompt.text) {
        let owner = owner_at(&mut span, marker.start());
        if owner != 0 && family.literal_text {
            continue;
        }
        run(prompt, at..marker.start(), &mut next, tokenizer, turns);
        if let Some(part) = turns.parts.get_mut(owner) {
            part.tokens = part.tokens.saturating_add(1);
        }
        at = marker.end();
    }
    run(prompt, at..prompt.text.len(), &mut next, tokenizer, turns);
    Ok(())
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
fn function(tool: &Tool<'_>, habits: &Habits) -> Map<String, Value> {
    let mut function = match tool.raw.get("function").and_then(Value::as_object) {
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
    };
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
    // The date only matters by its length, which never changes.
    const DATE: (u16, u8, u8) = (2026, 11, 30);
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
        let context =
            RenderContext { conversation: &conversation, profile: &profile, tokenizer, provider: None, memory: &memory, stream: None };
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
    }
}
