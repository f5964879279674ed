//! `plimsoll count --batch`: JSON Lines in, JSON Lines out, in order, one answer a line whatever the line holds; and the reading
//! of such lines, which `compact --batch` shares.

use super::args::{BodyArgs, ModelArgs};
use super::input;
use super::output::{Output, Status};
use crate::count::Counter;
use crate::error::{Error, Kind, Result};
use crate::format::{Format, Request};
use crate::limits;
use crate::models::Provider;
use serde_json::{Map, Value};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

pub(super) fn run(body: &BodyArgs, model: &ModelArgs, output: &mut Output) -> Result<Status> {
    let counter = model.counter()?;
    lines(&body.file, |line| output.value(&answer(line, &counter, body.format.0, model)))?;
    Ok(Status::Done)
}

/// Hands each line that is not blank to `answer`; of one over the cap only the start, which is still over it.
pub(super) fn lines(file: &Path, mut answer: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut reader = BufReader::new(input::open(file)?);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader
            .by_ref()
            .take(limits::MAX_BODY_BYTES as u64 + 1)
            .read_until(b'\n', &mut line)
            .map_err(|e| Error::new(Kind::Unavailable, format!("{} can't be read", input::shown(file))).caused_by(e))?;
        if read == 0 {
            return Ok(());
        }
        if line.len() > limits::MAX_BODY_BYTES {
            skip_line(&mut reader)?;
        }
        if !line.trim_ascii().is_empty() {
            answer(&line)?;
        }
    }
}

/// Drops the rest of a line that is over the cap, so that the next one is read from its start.
fn skip_line(reader: &mut impl std::io::BufRead) -> Result<()> {
    reader.skip_until(b'\n').map(drop).map_err(|e| Error::new(Kind::Unavailable, "the input can't be read").caused_by(e))
}

/// Answers one line: a count, or a typed error under the line's id.
fn answer(line: &[u8], counter: &Counter, format: Option<Format>, model: &ModelArgs) -> Value {
    let mut out = Map::new();
    let entry = match parse(line) {
        Ok(entry) => entry,
        Err(error) => {
            out.insert("id".into(), Value::Null);
            out.insert("error".into(), error.to_json());
            return Value::Object(out);
        }
    };
    out.insert("id".into(), entry.get("id").cloned().unwrap_or(Value::Null));
    match count(&entry, counter, format, model) {
        Ok(Value::Object(counted)) => out.extend(counted),
        Ok(_) => {}
        Err(error) => {
            out.insert("error".into(), error.to_json());
        }
    }
    Value::Object(out)
}

/// A line as an object.
pub(super) fn parse(line: &[u8]) -> Result<Map<String, Value>> {
    if line.len() > limits::MAX_BODY_BYTES {
        return Err(Error::new(Kind::LimitExceeded, format!("the line has more than {} bytes", limits::MAX_BODY_BYTES)));
    }
    match serde_json::from_slice(line) {
        Ok(Value::Object(entry)) => Ok(entry),
        Ok(other) => Err(Error::invalid("", format!("expected an object with `request`, found {}", crate::format::kind_of(&other)))),
        Err(e) => {
            Err(Error::new(Kind::InvalidInput, "the line is not valid JSON").at_offset(e.column().saturating_sub(1) as u64).caused_by(e))
        }
    }
}

fn count(entry: &Map<String, Value>, counter: &Counter, format: Option<Format>, model: &ModelArgs) -> Result<Value> {
    let text = |key: &str| match entry.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(other) => Err(Error::invalid(format!("/{key}"), format!("expected a string, found {}", crate::format::kind_of(other)))),
    };
    let request = entry.get("request").ok_or_else(|| Error::invalid("", "`request` is missing; expected a request body"))?;
    // The ground-truth spelling `api` is taken too, so that a recorded log can be fed in as it is.
    let named = match text("format")?.or(text("api")?) {
        None | Some("auto") => format,
        Some(name) => Some(name.split('.').next().unwrap_or(name).parse::<Format>().map_err(|e| e.at("/format"))?),
    };
    let (request, detected) = if let Some(format) = named {
        (Request::from_value(request.clone(), format)?, None)
    } else {
        let (request, told) = Request::detect_value(request.clone())?;
        (request, Some(told.because))
    };
    let provider = match text("provider")?.or(text("host")?) {
        Some(named) => Some(named.parse::<Provider>().map_err(|e| e.at("/provider"))?),
        None => model.provider()?,
    };
    let conversation = request.conversation()?;
    let options = model.options_for(counter, &conversation, text("model")?, provider)?;
    let mut out = counter.count(&request, &options)?.to_json();
    if let Value::Object(map) = &mut out {
        map.insert("format".into(), request.format().as_str().into());
        if let Some(because) = detected {
            map.insert("detected".into(), because.into());
        }
    }
    Ok(out)
}
