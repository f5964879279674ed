//! A chat template that came with a vocabulary: rendered as servers render it, with who owns which text found afterwards.
//!
//! Used for models that are not described in `data/templates.json`, and where a profile asks for it (`installed:NAME`). The prompt is
//! exactly what the template gives; owners are found by looking for each text in it, so that a text which the template rewrites counts
//! as framing and the parts still sum to the total.

use super::turns::Turns;
use crate::count::PartKind;
use crate::error::{Error, Kind, Result};
use crate::format::{Conversation, ToolKind};
use crate::json_text::{Style, dumps};
use crate::limits;
use crate::template::ChatTemplate;
use crate::template::spans::Spanned;
use crate::tokenizer::{Tokenizer, Vocabulary, VocabularyStore};
use regex::Regex;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

/// A template with the tokens that it and the vocabulary name.
pub(super) struct Installed {
    source: String,
    /// `bos_token`, `eos_token` … as templates read them.
    tokens: Map<String, Value>,
    /// All special tokens' texts.
    specials: Vec<String>,
    /// The template for the day it was asked for last.
    compiled: Mutex<Option<(Date, ChatTemplate)>>,
    markers: OnceLock<Option<Regex>>,
}

/// Year, month, day.
type Date = (u16, u8, u8);

/// Length and time of the last change of the files that a template is read from.
type Stamps = Vec<Option<(u64, SystemTime)>>;

/// Templates read by this process, by the vocabulary's folder and whether there are tools: reading, compiling and making the pattern of special
/// tokens takes milliseconds, rendering a short conversation a tenth of one.
static READ: LazyLock<Mutex<Templates>> = LazyLock::new(Mutex::default);

type Templates = HashMap<(PathBuf, bool), (Stamps, Arc<Installed>)>;

/// Most templates that are kept.
const MOST_READ: usize = 64;

/// The template beside a vocabulary, if there is one; for requests with tools the one that is meant for them.
///
/// Cost: a read of the vocabulary's manifest, as long as its files stay as they are.
pub(super) fn find(store: &VocabularyStore, name: &str, tools: bool) -> Result<Option<Arc<Installed>>> {
    let vocabulary = match store.get(name) {
        Ok(vocabulary) => vocabulary,
        Err(e) if e.kind() == Kind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let folder = store.folder(&vocabulary.name);
    let stamp = |file: &String| std::fs::metadata(folder.join(file)).and_then(|seen| Ok((seen.len(), seen.modified()?))).ok();
    let stamps: Stamps = vocabulary.templates.iter().map(stamp).collect();
    let key = (folder, tools);
    if let Some((seen, installed)) = READ.lock().unwrap_or_else(PoisonError::into_inner).get(&key)
        && *seen == stamps
    {
        return Ok(Some(Arc::clone(installed)));
    }
    let Some(installed) = read(store, &vocabulary, tools)?.map(Arc::new) else { return Ok(None) };
    let mut known = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() >= MOST_READ {
        known.clear();
    }
    known.insert(key, (stamps, Arc::clone(&installed)));
    Ok(Some(installed))
}

fn read(store: &VocabularyStore, vocabulary: &Vocabulary, tools: bool) -> Result<Option<Installed>> {
    let name = &vocabulary.name;
    let read = |file: &str| text(store, vocabulary, file);
    let settings = |file: &str| -> Result<Value> {
        let Some(text) = read(file)? else { return Ok(Value::Null) };
        serde_json::from_str(&text).map_err(|e| {
            Error::new(
                Kind::InvalidInput,
                format!("`{file}` of vocabulary `{name}` is not valid JSON at line {} column {}", e.line(), e.column()),
            )
        })
    };
    let (config, alone) = (settings("tokenizer_config.json")?, settings("chat_template.json")?);
    let source = match read("chat_template.jinja")? {
        Some(source) => Some(source),
        None => match named(alone.get("chat_template"), tools).or_else(|| named(config.get("chat_template"), tools)) {
            Some(source) => Some(source),
            // A folder with one template of another name.
            None => match vocabulary.templates.iter().find(|file| has_ending(file, "jinja")) {
                Some(file) => read(file)?,
                None => None,
            },
        },
    };
    let Some(source) = source else { return Ok(None) };
    let token = |value: &Value| value.as_str().or_else(|| value.get("content")?.as_str()).map(str::to_owned);
    let maps = [settings("special_tokens_map.json")?, config];
    let mut tokens = Map::new();
    let mut specials = Vec::new();
    for (key, value) in maps.iter().filter_map(Value::as_object).flatten().filter(|(key, _)| key.ends_with("_token")) {
        if let Some(text) = token(value) {
            specials.push(text.clone());
            tokens.insert(key.clone(), text.into());
        }
    }
    let listed = maps.iter().filter_map(|map| map.get("added_tokens_decoder")?.as_object()).flatten();
    specials.extend(listed.filter_map(|(_, value)| token(value)));
    Ok(Some(Installed { source, tokens, specials, compiled: Mutex::default(), markers: OnceLock::new() }))
}

fn has_ending(file: &str, ending: &str) -> bool {
    Path::new(file).extension().is_some_and(|e| e.eq_ignore_ascii_case(ending))
}

/// A file beside a vocabulary; `None` when there is none of that name.
fn text(store: &VocabularyStore, vocabulary: &Vocabulary, file: &str) -> Result<Option<String>> {
    if !vocabulary.templates.iter().any(|name| name == file) {
        return Ok(None);
    }
    let path = store.folder(&vocabulary.name).join(file);
    let failed =
        |e: std::io::Error| Error::new(Kind::Unavailable, format!("`{}` can't be read: {}", path.display(), e.kind())).caused_by(e);
    if std::fs::metadata(&path).map_err(failed)?.len() > limits::MAX_VOCABULARY_BYTES {
        return Err(Error::new(Kind::LimitExceeded, format!("`{}` is over the cap for such files", path.display())));
    }
    std::fs::read_to_string(&path).map(Some).map_err(failed)
}

/// `chat_template` as settings hold it: a text, or a list of named ones.
fn named(value: Option<&Value>, tools: bool) -> Option<String> {
    let list = match value? {
        Value::String(text) => return Some(text.clone()),
        Value::Array(list) => list,
        _ => return None,
    };
    let find = |name: &str| {
        let found = list.iter().find(|one| one.get("name").and_then(Value::as_str) == Some(name));
        found.and_then(|one| one.get("template")?.as_str()).map(str::to_owned)
    };
    if tools { find("tool_use").or_else(|| find("default")) } else { find("default") }
}

impl Installed {
    /// What finds the special tokens in a prompt.
    pub(super) fn markers(&self, tokenizer: &Tokenizer) -> Result<Option<Regex>> {
        if let Some(known) = self.markers.get() {
            return Ok(known.clone());
        }
        let found = self.find_markers(tokenizer)?;
        Ok(self.markers.get_or_init(|| found).clone())
    }

    /// The template for a day.
    fn compiled(&self, date: Date) -> Result<ChatTemplate> {
        let mut last = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((day, template)) if *day == date => Ok(template.clone()),
            _ => {
                let template = ChatTemplate::compile(&self.source, date)?;
                *last = Some((date, template.clone()));
                Ok(template)
            }
        }
    }

    fn find_markers(&self, tokenizer: &Tokenizer) -> Result<Option<Regex>> {
        let mut all: Vec<String> =
            self.specials.iter().cloned().chain(tokenizer.special_tokens()).filter(|text| !text.is_empty()).collect();
        // The first alternative that fits wins, and the longest must.
        all.sort_by_key(|text| std::cmp::Reverse(text.len()));
        all.dedup();
        if all.is_empty() {
            return Ok(None);
        }
        let pattern: Vec<String> = all.iter().map(|text| regex::escape(text)).collect();
        let built = regex::RegexBuilder::new(&pattern.join("|")).size_limit(64 << 20).build();
        built.map(Some).map_err(|_| Error::new(Kind::LimitExceeded, "the vocabulary has more special tokens than can be searched for"))
    }

    /// Renders a conversation as servers do: whole tools, arguments as objects, every `chat_template_kwargs` passed.
    pub(super) fn render(&self, conversation: &Conversation<'_>, turns: &mut Turns, date: Date) -> Result<Spanned> {
        let mut context = self.tokens.clone();
        context.insert("messages".to_owned(), turns.published());
        context.insert("add_generation_prompt".to_owned(), true.into());
        let tools: Vec<&crate::format::Tool<'_>> = conversation.tools.iter().filter(|tool| tool.kind == ToolKind::Function).collect();
        let mut written = Vec::new();
        if !tools.is_empty() {
            let mut list = Vec::new();
            for tool in tools {
                let owner = turns.part(PartKind::ToolDefinition, &tool.place, None, Some(tool.name));
                if let Some(part) = turns.parts.get_mut(owner) {
                    part.server = tool.server().map(str::to_owned);
                }
                let function = Value::Object(super::whole_function(tool));
                let value = json!({"type": "function", "function": function});
                let forms =
                    [dumps(&value, Style::PYTHON), dumps(&function, Style::PYTHON), dumps(&function, Style::COMPACT), tool.name.to_owned()];
                written.push((owner, forms));
                list.push(value);
            }
            context.insert("tools".to_owned(), Value::Array(list));
        }
        if let Some(documents) = conversation.body.get("documents").filter(|documents| documents.is_array()) {
            context.insert("documents".to_owned(), documents.clone());
        }
        if let Some(thinking) = super::thinking(conversation) {
            context.insert("enable_thinking".to_owned(), thinking.into());
            context.insert("thinking".to_owned(), thinking.into());
        }
        if let Some(effort) = conversation.options.effort {
            context.insert("reasoning_effort".to_owned(), effort.into());
        }
        for (key, value) in conversation.body.get("chat_template_kwargs").and_then(Value::as_object).into_iter().flatten() {
            context.insert(key.clone(), value.clone());
        }
        let text = self.compiled(date)?.render(&Value::Object(context))?;
        let spans = owners(&text, turns, &written);
        Ok(Spanned { text, spans })
    }
}

/// Where each text of the request stands in the prompt: the turns' in order, the tools' wherever they are.
fn owners(prompt: &str, turns: &Turns, tools: &[(usize, [String; 4])]) -> Vec<(std::ops::Range<usize>, usize)> {
    let mut spans: Vec<(std::ops::Range<usize>, usize)> = Vec::new();
    for (owner, forms) in tools {
        let from = spans.last().map_or(0, |(range, _)| range.end);
        let found = forms.iter().find_map(|form| Some((from + prompt.get(from..)?.find(form.as_str())?, form.len())));
        if let Some((start, length)) = found {
            spans.push((start..start + length, *owner));
        }
    }
    let free = |spans: &[(std::ops::Range<usize>, usize)], range: &std::ops::Range<usize>| {
        spans.iter().all(|(taken, _)| range.end <= taken.start || taken.end <= range.start)
    };
    let mut at = 0;
    for (text, owner) in turns.owned_texts() {
        let text = text.trim();
        if text.is_empty() || owner == 0 {
            continue;
        }
        let mut from = at;
        while let Some(found) = prompt.get(from..).and_then(|rest| rest.find(text)) {
            let range = from + found..from + found + text.len();
            if free(&spans, &range) {
                at = range.end;
                spans.push((range, owner));
                break;
            }
            from = range.end;
        }
    }
    spans.sort_by_key(|(range, _)| range.start);
    spans
}
