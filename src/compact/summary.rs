//! Extractive summaries: task, decisions, what was done and touched, errors, open questions, last state; and the seam for others.
//!
//! Deterministic and offline: every line is taken from the exchanges themselves. A summary of a summary merges with it: sections
//! are read back and joined, never nested. Bounded in bytes; each section has a share, and what one leaves the next may use.

use super::history::{History, UnitKind};
use super::plan::SummaryTask;
use super::shrink::{is_error, prefix};
use super::standin;
use crate::check::carries_results;
use crate::error::Result;
use crate::format::{Arguments, ItemBody, Role, ToolContentBody};
use indexmap::{IndexMap, IndexSet};
use serde_json::Value;
use std::fmt::Write as _;

/// Writes summaries in a plan's stead: an endpoint, or whatever a host puts here.
pub trait Summarizer {
    /// A summary of `task.text` in at most `task.bound` tokens, as plain text.
    ///
    /// # Errors
    /// Whatever keeps it from answering; the plan then keeps its extractive summary.
    fn summarize(&self, task: &SummaryTask) -> Result<String>;
}

/// What a summary says, section by section.
#[derive(Clone, Debug, Default)]
pub(super) struct Digest {
    /// Messages that it stands for.
    pub(super) left: u64,
    keep: IndexSet<String>,
    task: Vec<String>,
    user: Vec<String>,
    decided: Vec<String>,
    done: IndexMap<String, u64>,
    touched: IndexSet<String>,
    errors: Vec<String>,
    open: Vec<String>,
    state: Vec<String>,
    /// Text of a summary that this file did not write (an endpoint's or a host's).
    prose: Vec<String>,
}

/// Longest entry, in bytes.
const ENTRY: usize = 240;
const TASK: usize = 700;
/// Most entries that a section keeps in memory: more can't be shown anyway.
const ENTRIES: usize = 64;

impl Digest {
    /// Gathers from units, oldest first.
    pub(super) fn of(history: &History<'_, '_>, units: &[usize], keep: &[String]) -> Self {
        let mut digest = Self::default();
        for at in units {
            let unit = &history.units[*at];
            for message in history.messages(unit) {
                let results = carries_results(message);
                let mut summaries = 0;
                for item in &message.items {
                    match &item.body {
                        ItemBody::Text(text) => {
                            digest.keep_from(text, keep);
                            if let Some((left, rest)) = standin::summary_parts(text).filter(|_| message.role == Role::User) {
                                digest.read(left, rest);
                                summaries += 1;
                            } else if unit.kind == UnitKind::User || results {
                                digest.user_says(text);
                            } else if message.role == Role::Assistant {
                                digest.assistant_says(text);
                            }
                        }
                        ItemBody::ToolCall(call) => {
                            *digest.done.entry(short(call.name, 48)).or_default() += 1;
                            match call.arguments {
                                Arguments::Text(text) => {
                                    digest.keep_from(text, keep);
                                    digest.touch(text);
                                }
                                Arguments::Json(value) => {
                                    let text = value.to_string();
                                    digest.keep_from(&text, keep);
                                    digest.touch(&text);
                                }
                                Arguments::None => {}
                            }
                        }
                        ItemBody::ToolResult(result) => {
                            for piece in &result.content {
                                match piece.body {
                                    ToolContentBody::Text(text) => digest.result_says(text, keep),
                                    ToolContentBody::Json(value) => digest.json_says(value, keep),
                                    _ => {}
                                }
                            }
                        }
                        _ => {}
                    }
                }
                digest.left += u64::from(summaries == 0 || summaries < message.items.len());
            }
        }
        digest
    }

    fn keep_from(&mut self, text: &str, keep: &[String]) {
        for word in keep {
            if !word.is_empty() && text.contains(word.as_str()) {
                self.keep.insert(word.clone());
            }
        }
    }

    fn user_says(&mut self, text: &str) {
        if self.task.is_empty() {
            self.task.push(short(text, TASK));
        } else {
            push(&mut self.user, short(text, ENTRY));
        }
        self.touch(prefix(text, 4_000));
        for question in sentences(text).filter(|s| s.ends_with('?')).take(2) {
            push(&mut self.open, short(question, ENTRY));
        }
    }

    fn assistant_says(&mut self, text: &str) {
        const SIGNS: [&str; 14] = [
            "decid", "will ", "i'll", "let's", "let me", "chose", "because", "plan", "fix", "found", "conclu", "instead", "should", "need",
        ];
        for sentence in sentences(text) {
            let lower = prefix(sentence, 400).to_lowercase();
            if SIGNS.iter().any(|sign| lower.contains(sign)) {
                push(&mut self.decided, short(sentence, ENTRY));
                break;
            }
        }
        if !text.trim().is_empty() {
            self.state = vec![short(text, 2 * ENTRY)];
            self.open.clear();
            if let Some(question) = sentences(text).filter(|s| s.ends_with('?')).last() {
                self.open.push(short(question, ENTRY));
            }
        }
        self.touch(prefix(text, 4_000));
    }

    fn result_says(&mut self, text: &str, keep: &[String]) {
        self.keep_from(text, keep);
        if standin::recognize(text).is_some() {
            return;
        }
        // The last error of a result names the cause as a rule; the first the symptom.
        let errors: Vec<&str> = text.lines().take(2_000).filter(|line| line.len() < 2_000 && is_error(line)).collect();
        for line in errors.first().into_iter().chain(errors.last().filter(|_| errors.len() > 1)) {
            push(&mut self.errors, short(line, ENTRY));
        }
    }

    fn json_says(&mut self, value: &Value, keep: &[String]) {
        match value {
            Value::String(text) => self.result_says(text, keep),
            Value::Array(items) => items.iter().take(200).for_each(|item| self.json_says(item, keep)),
            Value::Object(map) => map.values().take(200).for_each(|item| self.json_says(item, keep)),
            _ => {}
        }
    }

    /// Files, addresses and identifiers: words with a slash and a dot, a scheme, or letters and digits joined by signs.
    fn touch(&mut self, text: &str) {
        for word in text.split(|c: char| {
            c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '(' | ')' | ',' | '{' | '}' | '[' | ']' | '<' | '>' | ';' | '\\' | '=')
        }) {
            if self.touched.len() >= 4 * ENTRIES {
                return;
            }
            let word = word.trim_matches(|c: char| matches!(c, '.' | ':' | '!' | '?' | '*' | '#'));
            let bytes = word.len();
            if !(4..=100).contains(&bytes) {
                continue;
            }
            let dot = word.rsplit_once('.').is_some_and(|(stem, end)| {
                !stem.is_empty()
                    && (1..=5).contains(&end.len())
                    && end.bytes().all(|b| b.is_ascii_alphanumeric())
                    && !end.bytes().all(|b| b.is_ascii_digit())
            });
            let path = word.contains('/') && (dot || word.starts_with('/') || word.contains("://"));
            let id = word.bytes().any(|b| b.is_ascii_digit())
                && word.bytes().any(|b| b.is_ascii_uppercase())
                && word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'#'));
            if path || dot || id {
                // The newest mention counts for what is shown.
                self.touched.shift_remove(word);
                self.touched.insert(word.to_owned());
            }
        }
    }

    /// Reads a summary of this crate back.
    fn read(&mut self, left: u64, text: &str) {
        self.left = self.left.saturating_add(left);
        for line in text.lines() {
            let Some((head, rest)) = line.split_once(": ") else {
                if !line.trim().is_empty() {
                    push(&mut self.prose, line.to_owned());
                }
                continue;
            };
            match head {
                "Keep" => self.keep.extend(rest.split(", ").map(str::to_owned)),
                "Task" if self.task.is_empty() => self.task.push(rest.to_owned()),
                "Task" | "User" => push(&mut self.user, rest.to_owned()),
                "Decided" => push(&mut self.decided, rest.to_owned()),
                "Done" => {
                    for entry in rest.split(", ") {
                        let (name, times) = entry.rsplit_once(" ×").unwrap_or((entry, "1"));
                        *self.done.entry(name.to_owned()).or_default() += times.parse::<u64>().unwrap_or(1);
                    }
                }
                "Touched" => self.touched.extend(rest.split(", ").map(str::to_owned)),
                "Error" => push(&mut self.errors, rest.to_owned()),
                "Open" => push(&mut self.open, rest.to_owned()),
                "State" => self.state = vec![rest.to_owned()],
                _ => push(&mut self.prose, line.to_owned()),
            }
        }
    }

    /// The summary in at most about `room` bytes, head line included.
    pub(super) fn render(&self, reference: &str, room: usize) -> String {
        let mut out = standin::summary_head(self.left, reference);
        if !self.keep.is_empty() {
            let _ = write!(out, "\nKeep: {}", self.keep.iter().map(String::as_str).collect::<Vec<_>>().join(", "));
        }
        let room = room.saturating_sub(out.len());
        let mut left = room;
        let done: Vec<String> = self.done.iter().map(|(name, times)| format!("{name} ×{times}")).collect();
        let touched: Vec<String> = self.touched.iter().cloned().collect();
        // (name, entries, percent of the room, joined on one line)
        let sections: [(&str, &[String], usize, bool); 9] = [
            ("Task", &self.task, 22, false),
            ("State", &self.state, 14, false),
            ("Done", &done, 8, true),
            ("Error", &self.errors, 12, false),
            ("Touched", &touched, 14, true),
            ("Decided", &self.decided, 14, false),
            ("User", &self.user, 10, false),
            ("Open", &self.open, 6, false),
            ("", &self.prose, 10, false),
        ];
        let mut carried = 0;
        let mut parts: Vec<(usize, String)> = Vec::new();
        for (order, (name, entries, percent, joined)) in sections.iter().enumerate() {
            let share = (room * percent / 100 + carried).min(left);
            let text = section(name, entries, share, *joined);
            carried = share - text.len().min(share);
            left = left.saturating_sub(text.len());
            parts.push((order, text));
        }
        // Shown in the order of reading: what was asked, said, decided, done, met, and where it stands.
        for order in [0, 8, 6, 5, 2, 4, 3, 7, 1] {
            if let Some((_, text)) = parts.iter().find(|(o, _)| *o == order) {
                out.push_str(text);
            }
        }
        out
    }

    /// This digest with an older summary before it.
    pub(super) fn after(self, old: &str) -> Self {
        let mut merged = Self::default();
        if let Some((left, rest)) = standin::summary_parts(old) {
            merged.read(left, rest);
        }
        merged.left = merged.left.saturating_add(self.left);
        merged.keep.extend(self.keep);
        for entry in self.task.into_iter().chain(self.user) {
            if merged.task.is_empty() { merged.task.push(entry) } else { push(&mut merged.user, entry) }
        }
        for (list, new) in [(&mut merged.decided, self.decided), (&mut merged.errors, self.errors), (&mut merged.prose, self.prose)] {
            for entry in new {
                push(list, entry);
            }
        }
        for (name, times) in self.done {
            *merged.done.entry(name).or_default() += times;
        }
        for word in self.touched {
            merged.touched.shift_remove(&word);
            merged.touched.insert(word);
        }
        if !self.state.is_empty() {
            merged.state = self.state;
        }
        merged.open = self.open;
        merged
    }

    /// The identifiers that must be kept.
    pub(super) fn must_keep(&self) -> Vec<String> {
        self.keep.iter().cloned().collect()
    }
}

/// One section's lines: as many of the newest entries as the share holds, in order.
fn section(name: &str, entries: &[String], share: usize, joined: bool) -> String {
    let overhead = if name.is_empty() { 1 } else { name.len() + 3 };
    let mut chosen: Vec<&str> = Vec::new();
    let mut spent = if joined { overhead } else { 0 };
    for entry in entries.iter().rev() {
        let price = entry.len() + if joined { 2 } else { overhead };
        if spent + price > share {
            // A single long entry is cut rather than lost.
            if chosen.is_empty() && !joined && share > overhead + 40 {
                chosen.push(prefix(entry, share - overhead - 4));
            }
            break;
        }
        spent += price;
        chosen.push(entry);
    }
    if chosen.is_empty() {
        return String::new();
    }
    chosen.reverse();
    let head = if name.is_empty() { String::new() } else { format!("{name}: ") };
    if joined {
        return format!("\n{head}{}", chosen.join(", "));
    }
    chosen.iter().map(|entry| format!("\n{head}{entry}")).collect()
}

/// Adds an entry unless it is there; the oldest goes when there are too many.
fn push(list: &mut Vec<String>, entry: String) {
    if entry.is_empty() {
        return;
    }
    if let Some(at) = list.iter().position(|old| *old == entry) {
        list.remove(at);
    }
    if list.len() >= ENTRIES {
        list.remove(0);
    }
    list.push(entry);
}

/// One line of at most `bytes` bytes.
fn short(text: &str, bytes: usize) -> String {
    let mut out = String::new();
    for word in prefix(text, bytes * 2).split_whitespace() {
        if out.len() + word.len() + 1 > bytes {
            if out.is_empty() {
                out.push_str(prefix(word, bytes.saturating_sub(4)));
            }
            out.push('…');
            return out;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// Rough sentences of the first few thousand bytes.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    prefix(text, 8_000).split_inclusive(['\n', '.', '?', '!']).map(str::trim).filter(|s| s.len() > 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_reads_back_and_merges() {
        let mut digest = Digest { left: 3, ..Digest::default() };
        digest.user_says("Fix the bug in src/main.rs please. Is it urgent?");
        digest.assistant_says("I will patch src/lib.rs first.");
        *digest.done.entry("bash".into()).or_default() += 2;
        digest.result_says("ok\nTypeError: x is None\n", &[]);
        let text = digest.render("pg_0123456789abcdef", 900);
        let (left, rest) = standin::summary_parts(&text).unwrap();
        let mut merged = Digest::default();
        merged.read(left, rest);
        merged.read(left, rest);
        let again = merged.render("pg_0123456789abcdef", 900);
        assert!(again.contains("6 messages") && again.contains("bash ×4"));
        assert_eq!(again.matches("Fix the bug").count(), 2, "once as the task, once as what the user said later: {again}");
        assert_eq!(again.matches("TypeError").count(), 1);
        assert!(again.contains("src/main.rs") && again.contains("src/lib.rs"));
        assert!(merged.render("pg_0123456789abcdef", 300).len() <= 330);
    }

    #[test]
    fn identifiers_that_must_stay_stay() {
        let mut digest = Digest::default();
        digest.result_says("ticket PX-77 closed", &["PX-77".into(), "PX-78".into()]);
        let text = digest.render("pg_0123456789abcdef", 200);
        assert!(text.contains("PX-77") && !text.contains("PX-78"));
    }
}
