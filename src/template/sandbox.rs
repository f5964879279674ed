//! Chat templates in a sandbox: minijinja as transformers sets Jinja up, with bounds on time, memory and output.
//!
//! Called by the counting of template families and by hosts that want a prompt's text. A template can call nothing
//! outside; it has no clock (the date is given to it), no files and no includes. Anything it does wrong is an error of
//! ours, never a panic: an endless loop runs out of fuel, a huge output hits its cap, a deep recursion its limit. What minijinja does without
//! charging is charged by what [`super::meter`] writes into the template.

use super::weigh::weigh;
use super::{meter, spans, weigh as weighing};
use crate::error::{Error, Kind, Result};
use crate::json_text::{self, Style};
use crate::limits;
use minijinja::value::{Kwargs, StringInput, Value, ValueKind};
use minijinja::{Environment, ErrorKind, State};
use std::sync::Arc;

/// One compiled chat template.
#[derive(Clone)]
pub struct ChatTemplate {
    environment: Arc<Environment<'static>>,
}

impl std::fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatTemplate").finish_non_exhaustive()
    }
}

const NAME: &str = "chat_template";

impl ChatTemplate {
    /// Compiles a template. `date` is what `strftime_now` tells the template: year, month, day.
    ///
    /// # Errors
    /// [`Kind::InvalidInput`] with the line of a syntax error, [`Kind::LimitExceeded`] for a template over the cap.
    pub fn compile(source: &str, date: (u16, u8, u8)) -> Result<Self> {
        if source.len() > limits::MAX_TEMPLATE_BYTES {
            let cap = limits::MAX_TEMPLATE_BYTES;
            return Err(Error::new(Kind::LimitExceeded, format!("the chat template has {} bytes; at most {cap} are taken", source.len())));
        }
        let mut environment = environment(date)?;
        on_deep_stack(move || {
            let metered = meter::metered(source);
            // What can't be read is compiled as it is, for minijinja's word on what is wrong with it.
            environment.add_template_owned(NAME, metered.as_deref().unwrap_or(source).to_owned()).map_err(|e| failed(&e))?;
            metered.map_err(|place| not_understood(source, place))?;
            Ok(Self { environment: Arc::new(environment) })
        })
    }

    /// Renders the template over `context` (an object of `messages`, `tools`, `add_generation_prompt` …).
    ///
    /// # Errors
    /// [`Kind::InvalidInput`] when the template raises an exception or does something wrong; [`Kind::LimitExceeded`] when it
    /// runs too long, recurses too deep or writes too much.
    pub fn render(&self, context: &serde_json::Value) -> Result<String> {
        on_deep_stack(|| self.render_here(context))
    }

    fn render_here(&self, context: &serde_json::Value) -> Result<String> {
        let template = self.environment.get_template(NAME).map_err(|e| failed(&e))?;
        let mut out = Capped { bytes: Vec::new() };
        template.render_captured_to(Value::from(minijinja::value::Serde(context)), &mut out).map_err(|e| failed(&e))?;
        String::from_utf8(out.bytes).map_err(|_| Error::new(Kind::Internal, "a template wrote text that is not UTF-8"))
    }
}

/// Jinja as transformers sets it up, with the caps and without a template.
pub(super) fn environment(date: (u16, u8, u8)) -> Result<Environment<'static>> {
    let mut environment = Environment::new();
    let mut syntax = minijinja::syntax::SyntaxConfig::builder();
    let syntax = syntax.trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.map_err(|e| failed(&e))?);
    environment.set_fuel(Some(limits::TEMPLATE_FUEL));
    environment.set_recursion_limit(limits::TEMPLATE_RECURSION);
    environment.set_unknown_method_callback(method);
    environment.set_formatter(write_value);
    environment.add_filter("tojson", to_json);
    environment.add_filter("from_json", from_json);
    environment.add_filter("own", spans::own);
    environment.add_filter("string", |state: &State, value: &Value| weigh(state, value).map(|()| python_str(value)));
    environment.add_filter("pprint", |state: &State, value: &Value| weigh(state, value).map(|()| minijinja::filters::pprint(value)));
    environment.add_filter("join", join);
    environment.add_function("raise_exception", |state: &State, message: &Value| -> Result<Value, minijinja::Error> {
        weigh(state, message)?;
        let message = python_str(message);
        Err(minijinja::Error::new(ErrorKind::InvalidOperation, format!("the template refuses the request: {message}")))
    });
    environment.add_function("strftime_now", move |format: &str| strftime(format, date));
    // It prints all that the template knows, unweighed.
    environment.remove_global("debug");
    weighing::add_filters(&mut environment);
    Ok(environment)
}

/// Does `work` in a thread of its own with a deep stack: a template can be nested as deep as it is long, and nest values deeper still, and no
/// ordinary stack holds the calls that parse the one and drop the other.
fn on_deep_stack<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let work = std::sync::Mutex::new(Some(work));
    let take = || work.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    std::thread::scope(|scope| {
        let start = |bytes| {
            let run = || take().map_or_else(|| Err(Error::new(Kind::Internal, "a template's work was done before")), |work| work());
            std::thread::Builder::new().stack_size(bytes).spawn_scoped(scope, run)
        };
        // Where the system grants no address space for the deepest values, for ordinary ones.
        let [deepest, ordinary] = limits::TEMPLATE_STACKS;
        let thread = start(deepest).or_else(|_| start(ordinary));
        let thread = thread.map_err(|e| Error::new(Kind::Unavailable, "no thread could be started for a chat template").caused_by(e))?;
        thread.join().unwrap_or_else(|_| Err(Error::new(Kind::Internal, "a chat template made the sandbox panic")))
    })
}

/// Collects output up to the cap.
struct Capped {
    bytes: Vec<u8>,
}

impl std::io::Write for Capped {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.bytes.len().saturating_add(bytes.len()) > limits::MAX_PROMPT_BYTES {
            return Err(std::io::Error::new(std::io::ErrorKind::StorageFull, "output over the cap"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Our error for a tag that minijinja takes and the meter doesn't.
fn not_understood(source: &str, place: meter::NotUnderstood) -> Error {
    let line = 1 + source.get(..place.at).unwrap_or_default().matches('\n').count();
    let expected = "expected what chat templates are made of: expressions, for, if, set, with, macro, call, filter, generation";
    Error::new(Kind::InvalidInput, format!("the chat template has a tag at its line {line} that the sandbox doesn't take; {expected}"))
}

/// Our error for minijinja's: the message may quote the template, never the request.
fn failed(error: &minijinja::Error) -> Error {
    let line = error.line().map_or_else(String::new, |line| format!(" at its line {line}"));
    let detail = error.detail().unwrap_or_default();
    match error.kind() {
        ErrorKind::OutOfFuel => Error::new(Kind::LimitExceeded, format!("the chat template runs too long{line}")),
        ErrorKind::WriteFailure => {
            Error::new(Kind::LimitExceeded, format!("the chat template writes more than {} bytes{line}", limits::MAX_PROMPT_BYTES))
        }
        ErrorKind::InvalidOperation if detail.contains("recursion limit") => {
            Error::new(Kind::LimitExceeded, format!("the chat template recurses too deep{line}"))
        }
        kind => Error::new(
            Kind::InvalidInput,
            format!("the chat template fails{line}: {kind}{}{detail}", if detail.is_empty() { "" } else { ": " }),
        ),
    }
}

/// minijinja's `join`, which prints items before it charges for them.
fn join(
    state: &mut State,
    value: &Value,
    joiner: Option<StringInput<'_>>,
    attribute: Option<&str>,
    options: Kwargs,
) -> Result<Value, minijinja::Error> {
    weigh(state, value)?;
    minijinja::filters::join(state, value, joiner, attribute, options)
}

/// Python methods that templates call on strings, lists and mappings.
fn method(state: &mut State, value: &Value, name: &str, arguments: &[Value]) -> Result<Value, minijinja::Error> {
    // What a method reads; a look into a mapping reads little of it.
    match value.as_str() {
        Some(text) => state.consume_fuel(1 + text.len() as u64 / 64)?,
        None if matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) => weigh(state, value)?,
        None => {}
    }
    for argument in arguments {
        weigh(state, argument)?;
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, name, arguments)
}

/// Values as Python prints them: `True`, `None`.
fn write_value(out: &mut minijinja::Output, state: &mut State, value: &Value) -> Result<(), minijinja::Error> {
    let written = match value.as_str() {
        Some(text) => out.write_str(text),
        None if value.is_undefined() => Ok(()),
        None => {
            weigh(state, value)?;
            out.write_str(&python_str(value))
        }
    };
    written.map_err(|_| minijinja::Error::from(ErrorKind::WriteFailure))
}

/// Python's `str(value)`.
fn python_str(value: &Value) -> String {
    match value.kind() {
        ValueKind::String => value.as_str().unwrap_or_default().to_owned(),
        ValueKind::Undefined => String::new(),
        _ => python_repr(value),
    }
}

fn python_repr(value: &Value) -> String {
    match value.kind() {
        ValueKind::Bool => if value.is_true() { "True" } else { "False" }.to_owned(),
        ValueKind::None => "None".to_owned(),
        ValueKind::Undefined => String::new(),
        ValueKind::Number => {
            serde_json::to_value(value).map_or_else(|_| value.to_string(), |number| json_text::dumps(&number, Style::PYTHON))
        }
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            let mut out = String::new();
            json_text::push_repr(&mut out, text);
            out
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<String> = value.try_iter().map(|items| items.map(|item| python_repr(&item)).collect()).unwrap_or_default();
            format!("[{}]", items.join(", "))
        }
        ValueKind::Map => {
            let keys = value.try_iter().map(Iterator::collect::<Vec<_>>).unwrap_or_default();
            let entries: Vec<String> =
                keys.iter().map(|key| format!("{}: {}", python_repr(key), python_repr(&value.get_item(key).unwrap_or_default()))).collect();
            format!("{{{}}}", entries.join(", "))
        }
        _ => value.to_string(),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "a filter's signature")]
/// transformers' `tojson`: `json.dumps` without escapes for HTML and with non-ASCII text kept.
fn to_json(state: &State, value: &Value, positional: Option<usize>, options: Kwargs) -> Result<Value, minijinja::Error> {
    let wrong = |e: serde_json::Error| minijinja::Error::new(ErrorKind::InvalidOperation, format!("not JSON: {e}"));
    let indent = options.get::<Option<usize>>("indent")?.or(positional).map(|indent| indent.min(16));
    let separators = options.get::<Option<Vec<String>>>("separators")?;
    let style = Style {
        indent,
        compact: separators.is_some_and(|pair| pair.get(1).is_some_and(|colon| colon == ":")),
        ascii: options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        sorted: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
    };
    options.assert_all_used()?;
    weigh(state, value)?;
    let text = json_text::dumps(&serde_json::to_value(value).map_err(wrong)?, style);
    state.consume_fuel(text.len() as u64 / 64)?;
    Ok(Value::from(text))
}

/// llama.cpp's `from_json`.
fn from_json(text: &str) -> Result<Value, minijinja::Error> {
    let value: serde_json::Value =
        serde_json::from_str(text).map_err(|_| minijinja::Error::new(ErrorKind::InvalidOperation, "from_json: not valid JSON"))?;
    Ok(Value::from(minijinja::value::Serde(value)))
}

const MONTHS: [&str; 12] =
    ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The parts of Python's `strftime` that templates use; time of day is midnight.
fn strftime(format: &str, (year, month, day): (u16, u8, u8)) -> String {
    let month_name = MONTHS.get(usize::from(month).wrapping_sub(1)).copied().unwrap_or_default();
    // Sakamoto's method.
    let shifts = [0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4];
    let y = u32::from(year) - u32::from(month < 3 && year > 0);
    let shift = shifts.get(usize::from(month).wrapping_sub(1)).copied().unwrap_or(0);
    let weekday = DAYS[((y + y / 4 - y / 100 + y / 400 + shift + u32::from(day)) % 7) as usize];
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('Y') => out.push_str(&format!("{year:04}")),
            Some('y') => out.push_str(&format!("{:02}", year % 100)),
            Some('m') => out.push_str(&format!("{month:02}")),
            Some('d') => out.push_str(&format!("{day:02}")),
            Some('-') => match chars.next() {
                Some('d') => out.push_str(&day.to_string()),
                Some('m') => out.push_str(&month.to_string()),
                _ => {}
            },
            Some('B') => out.push_str(month_name),
            Some('b') => out.push_str(month_name.get(..3).unwrap_or(month_name)),
            Some('A') => out.push_str(weekday),
            Some('a') => out.push_str(weekday.get(..3).unwrap_or(weekday)),
            Some('H' | 'M' | 'S') => out.push_str("00"),
            Some('%') | None => out.push('%'),
            Some(other) => out.extend(['%', other]),
        }
    }
    out
}

#[cfg(test)]
#[path = "sandbox_tests.rs"]
mod tests;
