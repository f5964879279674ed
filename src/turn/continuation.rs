//! Text that was cut by the output limit: the request for the rest, and the parts put together.
//!
//! Hosts call it when a turn's action is [`super::Action::ContinueText`]. For text only: a cut call can't be continued, it is
//! refused. The overlap that models repeat when they go on is removed, exactly or up to white space.

use super::answer::Turn;
use super::finish::Action;
use crate::error::{Error, Kind, Result};
use crate::format::{Format, Request};
use crate::limits;
use serde_json::{Value, json};

/// Gathers the parts of a text over several answers.
///
/// ```
/// use plimsoll::turn::Continuation;
/// let mut text = Continuation::new("The ship left the har");
/// text.push("left the harbour at noon.");
/// assert_eq!(text.text(), "The ship left the harbour at noon.");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Continuation {
    text: String,
    parts: usize,
}

/// What the model is asked in the follow-up.
pub const CONTINUE: &str =
    "Your answer was cut by the output limit. Continue it exactly where it stops, without repeating anything and without any introduction.";

/// Shortest overlap that is taken for a repetition, in bytes: less happens by chance.
const SHORTEST: usize = 8;

/// Longest overlap looked for, in bytes.
const LONGEST: usize = 4 << 10;

impl Continuation {
    /// Begins with the first part.
    pub fn new(first: impl Into<String>) -> Self {
        Self { text: first.into(), parts: 1 }
    }

    /// Begins with what a turn's choice said.
    ///
    /// # Errors
    /// [`Kind::InvalidInput`] when that choice isn't text cut by length.
    pub fn of(turn: &Turn, choice: usize) -> Result<Self> {
        match turn.choices.get(choice) {
            Some(found) if found.finish.action == Action::ContinueText && found.calls.is_empty() => Ok(Self::new(found.text.clone())),
            Some(_) => Err(Error::new(Kind::InvalidInput, "only text that was cut by length can be continued")),
            None => Err(Error::new(Kind::InvalidInput, format!("the turn has no choice {choice}"))),
        }
    }

    /// Appends the next part without what it repeats. Gives the bytes dropped.
    pub fn push(&mut self, next: &str) -> usize {
        self.parts = self.parts.saturating_add(1);
        let dropped = overlap(&self.text, next);
        self.text.push_str(&next[dropped..]);
        dropped
    }

    /// The text so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How many parts it is made of.
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// The follow-up request: the first one with the text so far as the assistant's, and the wish to go on.
    ///
    /// # Errors
    /// [`Kind::InvalidInput`] when the request has no message list; [`Kind::LimitExceeded`] after
    /// [`limits::MAX_CONTINUATIONS`] parts; [`Kind::Unsupported`] for `mcp`.
    pub fn request(&self, first: &Request) -> Result<Value> {
        if self.parts > limits::MAX_CONTINUATIONS {
            return Err(Error::new(Kind::LimitExceeded, format!("the text was continued {} times", limits::MAX_CONTINUATIONS)));
        }
        let (said, asked) = match first.format() {
            Format::Chat | Format::Anthropic => {
                (json!({"role": "assistant", "content": self.text}), json!({"role": "user", "content": CONTINUE}))
            }
            Format::Responses => (
                json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": self.text}]}),
                json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": CONTINUE}]}),
            ),
            Format::Gemini => {
                (json!({"role": "model", "parts": [{"text": self.text}]}), json!({"role": "user", "parts": [{"text": CONTINUE}]}))
            }
            Format::Converse => {
                (json!({"role": "assistant", "content": [{"text": self.text}]}), json!({"role": "user", "content": [{"text": CONTINUE}]}))
            }
            Format::Mcp => return Err(Error::new(Kind::Unsupported, "an MCP tool list has no text to continue")),
        };
        let key = match first.format() {
            Format::Gemini => "contents",
            Format::Responses => "input",
            _ => "messages",
        };
        let mut body = first.value().clone();
        let list = body.get_mut(key).ok_or_else(|| Error::invalid("", format!("`{key}` is missing; expected the message list")))?;
        // Responses take a bare text as the whole input.
        if let Value::String(text) = list {
            *list = json!([{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}]);
        }
        match list {
            Value::Array(list) => list.extend([said, asked]),
            other => return Err(Error::invalid(format!("/{key}"), format!("expected an array, found {}", crate::format::kind_of(other)))),
        }
        Ok(body)
    }
}

/// Bytes at the start of `next` that repeat the end of `text`: exactly, or up to the length and kind of white space.
fn overlap(text: &str, next: &str) -> usize {
    let tail = &text[floor(text, text.len().saturating_sub(LONGEST))..];
    let head = &next[..floor(next, next.len().min(LONGEST))];
    let exact = (SHORTEST..=tail.len().min(head.len()))
        .rev()
        .find(|&n| head.is_char_boundary(n) && tail.as_bytes()[tail.len() - n..] == head.as_bytes()[..n]);
    exact.or_else(|| tolerant(tail, head)).unwrap_or(0)
}

/// As above with runs of white space taken as equal. The words' own borders decide, so that it costs words times words.
fn tolerant(tail: &str, head: &str) -> Option<usize> {
    let words = |text: &str| -> Vec<(usize, usize)> {
        let start = text.as_ptr() as usize;
        text.split_whitespace().map(|word| (word.as_ptr() as usize - start, word.len())).collect()
    };
    let (ours, theirs) = (words(tail), words(head));
    for count in (1..=ours.len().min(theirs.len())).rev() {
        let mut same = ours[ours.len() - count..].iter().zip(&theirs[..count]);
        let letters: usize = theirs[..count].iter().map(|word| word.1).sum();
        // The last word may have been cut; then the repetition holds it whole and begins alike.
        let equal = same.all(|(our, their)| tail[our.0..our.0 + our.1] == head[their.0..their.0 + their.1]);
        if equal && letters >= SHORTEST {
            let (at, length) = theirs[count - 1];
            return Some(at + length);
        }
    }
    None
}

fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stitched(first: &str, next: &str) -> String {
        let mut text = Continuation::new(first);
        text.push(next);
        text.text().to_owned()
    }

    #[test]
    fn overlap_is_removed_and_nothing_else() {
        for (first, next, whole) in [
            ("one two three four", " five", "one two three four five"),
            ("one two three four", "three four five", "one two three four five"),
            ("a line\nand another li", "and another line", "a line\nand another line"),
            ("one  two\nthree four", "two three four five", "one  two\nthree four five"),
            ("the cat", "the dog", "the catthe dog"),
            ("ééééé", "ééééé!", "ééééé!"),
            ("", "all", "all"),
            ("all of it here", "", "all of it here"),
        ] {
            assert_eq!(stitched(first, next), whole, "{first:?} + {next:?}");
        }
    }

    #[test]
    fn any_cut_with_any_repeat_gives_the_text_back() {
        let text =
            "Ships carry a line on their hull; loaded past it they founder. Größe zählt.\nSecond line, no word twice: alpha beta gamma.";
        let borders: Vec<usize> = (0..=text.len()).filter(|&at| text.is_char_boundary(at)).collect();
        for &cut in &borders {
            for &from in borders.iter().filter(|&&from| from <= cut && (cut - from >= SHORTEST || from == cut)) {
                assert_eq!(stitched(&text[..cut], &text[from..]), text, "cut {cut} from {from}");
            }
        }
    }

    #[test]
    fn the_follow_up_keeps_the_request() {
        let request = Request::parse(br#"{"model":"m","input":"Tell me","x":1}"#, Format::Responses).unwrap();
        let body = Continuation::new("Once").request(&request).unwrap();
        assert_eq!((body["x"].as_u64(), body["input"].as_array().map(Vec::len)), (Some(1), Some(3)));
        assert_eq!(body["input"][1]["content"][0]["text"], "Once");
    }
}
