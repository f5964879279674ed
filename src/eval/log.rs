//! Reads logs: one exchange a line, in this project's own fields or as a proxy wrote it.
//!
//! Own fields: `id`, `host` or `provider`, `api` or `format`, `model`, `request`, `usage`, `stream`, `response`. A proxy's
//! pair holds `request` and `response` objects with `body` (an object or text) and, at either level, `url` or `path`.
//! Untrusted: lines are capped, broken ones are reported by number and skipped.

use crate::error::{Error, Kind, Result};
use crate::format::{Format, Request};
use crate::limits;
use crate::models::Provider;
use serde_json::{Map, Value};
use std::io::{BufRead, Read as _};

/// A request, who billed it, and what.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// Its name in reports: the log's own id, else the line's number.
    pub id: String,
    /// Whose endpoint answered, as the log names it.
    pub host: String,
    /// The same, understood.
    pub provider: Option<Provider>,
    /// The model asked for; `None`: the one that the body names.
    pub model: Option<String>,
    /// The body.
    pub request: Request,
    /// Whether the answer was streamed, if known.
    pub stream: Option<bool>,
    /// The answer: one value, or a stream's events.
    pub events: Vec<Value>,
    /// All input that was billed, cached input included, in tokens.
    pub billed: Option<u64>,
}

/// A line that is no exchange.
#[derive(Debug)]
pub struct Skipped {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub error: Error,
}

/// Reads a log to its end. Cost: one line in memory beside what is returned.
///
/// # Errors
/// [`Kind::Unavailable`] when the source can't be read; [`Kind::LimitExceeded`] for a line over the cap on bodies.
pub fn read_log(mut source: impl BufRead) -> Result<(Vec<Exchange>, Vec<Skipped>)> {
    let (mut exchanges, mut skipped, mut line, mut number) = (Vec::new(), Vec::new(), Vec::new(), 0);
    loop {
        line.clear();
        number += 1;
        let cap = 2 * limits::MAX_BODY_BYTES as u64;
        let read = source
            .by_ref()
            .take(cap)
            .read_until(b'\n', &mut line)
            .map_err(|e| Error::new(Kind::Unavailable, "the log can't be read").caused_by(e))?;
        if read == 0 {
            return Ok((exchanges, skipped));
        }
        if read as u64 == cap {
            return Err(Error::new(Kind::LimitExceeded, format!("line {number} of the log is over {cap} bytes")));
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let parsed =
            serde_json::from_slice(&line).map_err(|e| Error::new(Kind::InvalidInput, format!("line {number} is not JSON")).caused_by(e));
        match parsed.and_then(|entry: Map<String, Value>| exchange(&entry, number)) {
            Ok(exchange) => exchanges.push(exchange),
            Err(error) => skipped.push(Skipped { line: number, error }),
        }
    }
}

fn exchange(entry: &Map<String, Value>, number: usize) -> Result<Exchange> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    let sides = [entry.get("request"), entry.get("response")];
    let url = ["url", "path", "uri"].iter().find_map(|key| text(key).or_else(|| sides[0]?.get(*key)?.as_str())).unwrap_or_default();
    let body = sides[0].or_else(|| entry.get("body")).ok_or_else(|| Error::new(Kind::InvalidInput, "`request` is missing"))?;
    let mut body = unwrap(body)?;
    let named = text("api").or_else(|| text("format")).map(|name| name.split('.').next().unwrap_or(name));
    let format = match named.and_then(|name| name.parse::<Format>().ok()) {
        Some(format) => Some(format),
        None => of_url(url),
    };
    if matches!(format, Some(Format::Chat | Format::Responses)) {
        super::order::restore(&mut body);
    }
    let request = match format {
        Some(format) => Request::parse(body.to_string().as_bytes(), format)?,
        None => Request::detect_value(body)?.0,
    };
    let host = text("provider").or_else(|| text("host")).or_else(|| host_of(url)).unwrap_or("unknown").to_owned();
    let events = sides[1].map(events).unwrap_or_default();
    let usage = entry.get("usage").filter(|usage| usage.is_object());
    let billed = match usage {
        Some(usage) => billed(usage, request.format()),
        None => reported(&events, request.format()),
    };
    Ok(Exchange {
        id: text("id").map_or_else(|| format!("line {number}"), str::to_owned),
        provider: host.parse().ok().filter(|_| host != "unknown"),
        model: text("model").map(str::to_owned).or_else(|| model_of(url)),
        stream: entry.get("stream").and_then(Value::as_bool).or_else(|| url.contains("streamGenerateContent").then_some(true)),
        host,
        request,
        events,
        billed,
    })
}

/// A proxy's side of a pair: its `body`, parsed when it is text; a bare body as it is.
fn unwrap(side: &Value) -> Result<Value> {
    let inner = match side {
        Value::Object(map) if map.contains_key("body") && (map.contains_key("headers") || map.contains_key("url") || map.len() <= 3) => {
            &map["body"]
        }
        other => other,
    };
    match inner {
        Value::String(text) => {
            serde_json::from_str(text).map_err(|e| Error::new(Kind::InvalidInput, "the request's body is not JSON").caused_by(e))
        }
        other => Ok(other.clone()),
    }
}

/// The wire format of an endpoint's path.
fn of_url(url: &str) -> Option<Format> {
    let path = url.split(['?', '#']).next().unwrap_or(url).trim_end_matches('/');
    [
        ("/chat/completions", Format::Chat),
        ("/responses", Format::Responses),
        ("/messages", Format::Anthropic),
        ("enerateContent", Format::Gemini),
        ("/converse", Format::Converse),
        ("/converse-stream", Format::Converse),
    ]
    .into_iter()
    .find_map(|(end, format)| path.ends_with(end).then_some(format))
}

fn host_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    rest.split('/').next().filter(|host| !host.is_empty())
}

/// The model in `…/models/NAME:generateContent` or `…/model/NAME/converse`.
fn model_of(url: &str) -> Option<String> {
    let after = |mark: &str| url.rsplit_once(mark).map(|(_, rest)| rest);
    let name = after("/models/").or_else(|| after("/model/"))?.split([':', '/', '?']).next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// A response as JSON values: the body, a list's members, or the events of a stream.
fn events(response: &Value) -> Vec<Value> {
    let inner = match response {
        Value::Object(map) if map.contains_key("body") && (map.contains_key("status") || map.contains_key("headers") || map.len() == 1) => {
            &map["body"]
        }
        other => other,
    };
    match inner {
        Value::Null => Vec::new(),
        Value::Array(list) => list.clone(),
        Value::String(text) => {
            let streamed: Vec<Value> = text
                .lines()
                .filter_map(|line| line.strip_prefix("data:"))
                .filter_map(|data| serde_json::from_str(data.trim_start()).ok())
                .collect();
            match serde_json::from_str(text) {
                Ok(Value::Array(list)) => list,
                Ok(whole) if streamed.is_empty() => vec![whole],
                _ => streamed,
            }
        }
        other => vec![other.clone()],
    }
}

/// Billed input of a usage object.
fn billed(usage: &Value, format: Format) -> Option<u64> {
    let at = |key: &str| usage.get(key).and_then(Value::as_u64);
    let with = |base: &str, more: [&str; 2]| at(base).map(|n| more.iter().filter_map(|key| at(key)).fold(n, u64::saturating_add));
    match format {
        Format::Gemini => at("promptTokenCount"),
        Format::Anthropic => with("input_tokens", ["cache_creation_input_tokens", "cache_read_input_tokens"]),
        Format::Converse => with("inputTokens", ["cacheReadInputTokens", "cacheWriteInputTokens"]),
        _ => at("prompt_tokens").or_else(|| at("input_tokens")),
    }
}

/// Billed input as the response itself reports it; a stream's last word counts.
fn reported(events: &[Value], format: Format) -> Option<u64> {
    let places = ["/usage", "/usageMetadata", "/message/usage", "/response/usage", "/metadata/usage"];
    events.iter().rev().flat_map(|event| places.iter().filter_map(|place| event.pointer(place))).find_map(|usage| billed(usage, format))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Exchange {
        let (mut read, skipped) = read_log(line.as_bytes()).unwrap();
        assert!(skipped.is_empty(), "{skipped:?}");
        read.remove(0)
    }

    #[test]
    fn reads_own_fields() {
        let line = r#"{"id":"a","host":"api.anthropic.com","api":"anthropic","model":"claude-opus-4-6","stream":false,"request":{"messages":[]},
            "usage":{"input_tokens":3,"cache_creation_input_tokens":4,"cache_read_input_tokens":null}}"#;
        let exchange = one(&line.replace('\n', " "));
        assert_eq!((exchange.billed, exchange.request.format()), (Some(7), Format::Anthropic));
        assert_eq!((exchange.provider, exchange.stream), (Some(Provider::Anthropic), Some(false)));
    }

    #[test]
    fn reads_a_proxys_pairs() {
        let line = r#"{"request":{"url":"https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse","headers":{},"body":"{\"contents\":[]}"},"response":{"status":200,"body":"data: {\"usageMetadata\":{\"promptTokenCount\":9}}\n\ndata: {\"candidates\":[]}\n"}}"#;
        let exchange = one(line);
        assert_eq!((exchange.model.as_deref(), exchange.billed), (Some("gemini-2.5-pro"), Some(9)));
        assert_eq!((exchange.request.format(), exchange.provider, exchange.stream), (Format::Gemini, Some(Provider::AiStudio), Some(true)));
    }

    #[test]
    fn skips_broken_lines_by_number() {
        let (read, skipped) = read_log("{\n\n{\"id\":\"x\"}\n".as_bytes()).unwrap();
        assert!(read.is_empty());
        assert_eq!(skipped.iter().map(|s| s.line).collect::<Vec<_>>(), [1, 3]);
    }
}
