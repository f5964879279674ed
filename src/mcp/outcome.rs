//! What an MCP server answers to a call: results and errors to outcomes that go back to the model.
//!
//! Hosts call it with the JSON-RPC reply (or the bare `CallToolResult`). An error stays an error. What a provider's tool message
//! can't hold (sound, binary resources) is named in the text, with its size, and listed as left out.

use crate::tokenizer::Tokenizer;
use crate::turn::{Call, Content, Outcome};
use serde_json::{Value, json};

/// What sort of failure a call ended in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureClass {
    /// The two sides don't understand each other: a defect of host or server.
    Protocol,
    /// The arguments are wrong: the model can correct them.
    Arguments,
    /// The tool ran and said no: the model should know why.
    Business,
    /// No answer in time: it may have run.
    Timeout,
    /// It was cancelled.
    Cancelled,
    /// The server is gone or failed inside.
    Server,
}

impl FailureClass {
    /// The name used on the wire and in JSON output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Protocol => "protocol",
            Self::Arguments => "arguments",
            Self::Business => "business",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Server => "server",
        }
    }
}

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallFailure {
    /// What sort.
    pub class: FailureClass,
    /// The JSON-RPC code, if there was one.
    pub code: Option<i64>,
    /// The server's message.
    pub message: String,
}

impl CallFailure {
    /// What to tell the model: the class, the server's words, and whether the call may have had an effect.
    pub fn outcome(&self, call: &Call) -> Outcome {
        let advice = match self.class {
            FailureClass::Arguments => " Correct the arguments and call it again.",
            FailureClass::Timeout => " It may have had an effect: check before you call it again.",
            FailureClass::Protocol => " Calling it again will not help.",
            FailureClass::Business | FailureClass::Cancelled | FailureClass::Server => "",
        };
        Outcome::error(call, format!("Error ({}): {}.{advice}", self.class.as_str(), self.message.trim_end_matches('.')))
    }

    /// The failure as JSON.
    pub fn to_json(&self) -> Value {
        json!({"class": self.class.as_str(), "code": self.code, "message": self.message})
    }
}

/// The class of a JSON-RPC error object (`{"code", "message", "data"}`).
pub fn failure(error: &Value) -> CallFailure {
    let code = error.get("code").and_then(Value::as_i64);
    let message = error.get("message").and_then(Value::as_str).unwrap_or("the server gave no message").to_owned();
    let words = message.to_ascii_lowercase();
    let class = match code {
        // JSON-RPC 2.0; beyond it MCP's SDKs (-32000 closed, -32001 timeout, -32002 no such resource, -32042 needs the user) and LSP's cancelled.
        Some(-32700 | -32600 | -32601) => FailureClass::Protocol,
        Some(-32602) => FailureClass::Arguments,
        Some(-32800) => FailureClass::Cancelled,
        Some(-32001 | 408 | 504) => FailureClass::Timeout,
        _ if words.contains("timed out") || words.contains("timeout") => FailureClass::Timeout,
        _ if words.contains("cancelled") || words.contains("canceled") => FailureClass::Cancelled,
        Some(-32603 | -32000) => FailureClass::Server,
        _ => FailureClass::Business,
    };
    CallFailure { class, code, message }
}

/// A call's reply as an outcome: the JSON-RPC reply, its `result`, or its `error`. Also gives what was left out.
///
/// `structuredContent` replaces a text that only repeats it. A reply of no known shape is a protocol failure.
pub fn call_outcome(call: &Call, reply: &Value) -> (Outcome, Vec<String>) {
    if let Some(error) = reply.get("error").filter(|error| error.is_object()) {
        return (failure(error).outcome(call), Vec::new());
    }
    let result = reply.get("result").unwrap_or(reply);
    let is_error = result.get("isError").and_then(Value::as_bool) == Some(true);
    let structured = result.get("structuredContent").filter(|value| !value.is_null());
    let Some(blocks) = result.get("content").and_then(Value::as_array) else {
        if let Some(value) = structured {
            return (Outcome::of(call, vec![Content::Json(value.clone())], is_error), Vec::new());
        }
        let message = "the server's reply is no tool result".to_owned();
        return (CallFailure { class: FailureClass::Protocol, code: None, message }.outcome(call), Vec::new());
    };
    let (mut content, mut left_out) = (Vec::new(), Vec::new());
    for block in blocks {
        let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "text" => content.push(Content::Text(text("text").to_owned())),
            "image" => content.push(Content::Image { base64: text("data").to_owned(), mime: text("mimeType").to_owned() }),
            "resource_link" => {
                let name = block.get("title").and_then(Value::as_str).unwrap_or_else(|| text("name"));
                let about = if text("description").is_empty() { String::new() } else { format!(": {}", text("description")) };
                content.push(Content::Text(format!("[resource {name} at {}{about}]", text("uri"))));
            }
            "resource" => resource(block.get("resource").unwrap_or(&Value::Null), &mut content, &mut left_out),
            "audio" => {
                let said = format!("[sound, {}, {} bytes, not passed on]", text("mimeType"), bytes(text("data")));
                left_out.push(said.clone());
                content.push(Content::Text(said));
            }
            other => {
                let said = format!("[content of the type `{}`, not passed on]", other.chars().take(40).collect::<String>());
                left_out.push(said.clone());
                content.push(Content::Text(said));
            }
        }
    }
    if let Some(value) = structured {
        // The specification asks servers to repeat structured content as text for older clients.
        let repeats = |piece: &Content| matches!(piece, Content::Text(text) if serde_json::from_str::<Value>(text).is_ok_and(|parsed| parsed == *value));
        content.retain(|piece| !repeats(piece));
        content.push(Content::Json(value.clone()));
    }
    if content.is_empty() {
        content.push(Content::Text(if is_error { "the tool failed without a message" } else { "(no output)" }.to_owned()));
    }
    (Outcome::of(call, content, is_error), left_out)
}

/// An embedded resource: text goes on, pictures too, other bytes are named.
fn resource(resource: &Value, content: &mut Vec<Content>, left_out: &mut Vec<String>) {
    let text = |key: &str| resource.get(key).and_then(Value::as_str);
    let (uri, mime) = (text("uri").unwrap_or_default(), text("mimeType").unwrap_or_default());
    match (text("text"), text("blob")) {
        (Some(words), _) => content.push(Content::Text(format!("[resource {uri}]\n{words}"))),
        (None, Some(blob)) if mime.starts_with("image/") => content.push(Content::Image { base64: blob.to_owned(), mime: mime.to_owned() }),
        (None, blob) => {
            let said = format!("[resource {uri}, {mime}, {} bytes, not passed on]", bytes(blob.unwrap_or_default()));
            left_out.push(said.clone());
            content.push(Content::Text(said));
        }
    }
}

/// Bytes behind base64 text.
fn bytes(base64: &str) -> usize {
    base64.trim_end_matches('=').len() / 4 * 3 + base64.trim_end_matches('=').len() % 4 * 3 / 4
}

impl Outcome {
    /// Cuts texts and data over `tokens` to their head and tail. `page` stores the whole and gives the reference to name; without
    /// one (`None`) the text says that the rest is lost. Gives true when anything was cut. An error keeps its mark.
    pub fn limit(&mut self, tokens: usize, tokenizer: &Tokenizer, mut page: impl FnMut(&str) -> Option<String>) -> bool {
        let mut cut = false;
        for piece in &mut self.content {
            let whole = match piece {
                Content::Text(text) => text.clone(),
                Content::Json(value) => value.to_string(),
                Content::Image { .. } => continue,
            };
            if tokenizer.count_within(&whole, tokens).is_some() {
                continue;
            }
            let size = tokenizer.count(&whole);
            let how = match page(&whole) {
                Some(reference) => format!("the whole is stored as page `{reference}`; read it with read_tool_result"),
                None => "the rest is not stored".to_owned(),
            };
            // Shares by bytes come near enough: the notice leaves room for the difference.
            let keep = (whole.len() as u64).saturating_mul(tokens as u64) / (size as u64).max(1);
            let keep = usize::try_from(keep.saturating_mul(8) / 10).unwrap_or(usize::MAX);
            let (head, tail) = (floor(&whole, keep / 4 * 3), ceil(&whole, whole.len().saturating_sub(keep / 4)));
            let said = format!("{}\n[… cut: this result has {size} tokens; {how} …]\n{}", &whole[..head], &whole[tail.max(head)..]);
            *piece = Content::Text(said);
            cut = true;
        }
        cut
    }
}

fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

fn ceil(text: &str, at: usize) -> usize {
    (at..=text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;
    use crate::turn::{CallKind, reply};

    fn call() -> Call {
        Call { id: Some("c1".into()), name: "s__t".into(), arguments: "{}".into(), kind: CallKind::Function }
    }

    #[test]
    fn codes_have_classes() {
        for (code, message, class) in [
            (-32700, "x", FailureClass::Protocol),
            (-32601, "x", FailureClass::Protocol),
            (-32602, "x", FailureClass::Arguments),
            (-32603, "x", FailureClass::Server),
            (-32001, "Request timed out", FailureClass::Timeout),
            (-32000, "Connection closed", FailureClass::Server),
            (-32800, "x", FailureClass::Cancelled),
            (4001, "not enough money", FailureClass::Business),
        ] {
            assert_eq!(failure(&json!({"code": code, "message": message})).class, class, "{code}");
        }
    }

    #[test]
    fn every_kind_of_content_arrives_or_is_named() {
        let reply = json!({"result": {"content": [
            {"type": "text", "text": "{\"n\": 1}"}, {"type": "text", "text": "hello"},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"}, {"type": "audio", "data": "aGkh", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "file:///a", "name": "a"}, {"type": "resource", "resource": {"uri": "u", "text": "words"}},
            {"type": "resource", "resource": {"uri": "v", "mimeType": "application/zip", "blob": "aGkhaGkh"}}, {"type": "hologram"}],
            "structuredContent": {"n": 1}}});
        let (outcome, left_out) = call_outcome(&call(), &reply);
        assert_eq!((outcome.content.len(), left_out.len(), outcome.is_error), (8, 3, false));
        assert_eq!(outcome.content[7], Content::Json(json!({"n": 1})));
        assert!(left_out[0].contains("3 bytes") && left_out[1].contains("6 bytes"), "{left_out:?}");
    }

    #[test]
    fn failures_stay_failures() {
        for reply in [
            json!({"error": {"code": -32602, "message": "bad path"}}),
            json!({"result": {"content": [{"type": "text", "text": "no such file"}], "isError": true}}),
            json!({"result": {"content": [], "isError": true}}),
            json!("what"),
        ] {
            let (outcome, _) = call_outcome(&call(), &reply);
            assert!(outcome.is_error, "{reply}");
            let sent = reply::messages(Format::Chat, &[outcome]);
            assert!(sent[0]["content"].as_str().unwrap().starts_with("Error"), "{sent:?}");
        }
    }

    #[test]
    fn large_results_are_cut_and_paged() {
        let tokenizer = Tokenizer::by_name("o200k_base").unwrap();
        let mut outcome = Outcome::text(&call(), "line of text é\n".repeat(500));
        let mut stored = String::new();
        assert!(outcome.limit(200, &tokenizer, |whole| {
            stored = whole.to_owned();
            Some("p1".to_owned())
        }));
        let Content::Text(text) = &outcome.content[0] else { panic!("text stays text") };
        assert!(text.contains("page `p1`") && tokenizer.count(text) <= 260, "{}", tokenizer.count(text));
        assert_eq!(stored.len(), "line of text é\n".len() * 500);
        assert!(!Outcome::text(&call(), "short").limit(200, &tokenizer, |_| None));
    }
}
