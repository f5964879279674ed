//! The appendable counter: a text that grows at its end or is cut back, with its exact count at every step.
//!
//! Text that is added can change the last pieces only, and can lower a count (two tokens become one). So the counter keeps
//! **checkpoints**, piece starts whose position and count depend on no byte beyond what was there: the automaton
//! reads through [`Watched`], which notes the furthest byte it looked at. A step recounts from the last checkpoint.
//! Where the last piece is itself long (a megabyte of one letter), the run that was scanned and the tokens that were made are kept, and
//! only the end is done again, until the new tokens share one with the old (see `bpe.rs` for why that is exact).
//! Guards invariant 3. Cost: linear in the text that is added, plus a few hundred bytes.

use super::Tokenizer;
use super::bpe::{self, Row, WINDOW};
use super::core::Core;
use super::split::{self, Family, Run, Source, Split, View};
use crate::error::{Error, Kind, Result};

/// Bytes between checkpoints.
const SPACING: usize = 256;
/// Runs from this length on are remembered.
const LONG_RUN: usize = 512;

/// Counts a text that grows at its end. Made by [`Tokenizer::appender`].
///
/// ```
/// let mut text = plimsoll::Tokenizer::by_name("o200k_base")?.appender();
/// text.extend("How many tok");
/// let mark = text.mark();
/// text.extend("ens?");
/// assert_eq!(text.count(), 4);
/// text.truncate(mark)?;
/// assert_eq!(text.text(), "How many tok");
/// # Ok::<(), plimsoll::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct AppendCounter {
    tokenizer: Tokenizer,
    text: String,
    count: usize,
    checkpoints: Vec<Checkpoint>,
    memory: Memory,
}

/// A length to which an [`AppendCounter`] can go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextMark {
    bytes: usize,
}

/// A piece start that later text can't move.
#[derive(Clone, Copy, Debug, Default)]
struct Checkpoint {
    at: usize,
    count: usize,
    /// All that decided it lies before this byte.
    seen: usize,
}

/// What is kept of a long last piece.
#[derive(Clone, Debug, Default)]
struct Memory {
    run: Option<KeptRun>,
    row: Row,
    row_start: usize,
    row_end: usize,
}

#[derive(Clone, Copy, Debug)]
struct KeptRun {
    key: (usize, u8, u8, View),
    run: Run,
}

impl AppendCounter {
    pub(super) fn new(tokenizer: Tokenizer) -> Self {
        Self { tokenizer, text: String::new(), count: 0, checkpoints: Vec::new(), memory: Memory::default() }
    }

    /// Adds text at the end.
    pub fn extend(&mut self, text: &str) {
        if !text.is_empty() {
            self.text.push_str(text);
            self.recount();
        }
    }

    /// Number of tokens of the whole text.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The text so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The current end, for [`Self::truncate`].
    pub fn mark(&self) -> TextMark {
        TextMark { bytes: self.text.len() }
    }

    /// Cuts the text back to a mark.
    ///
    /// # Errors
    /// [`Kind::InvalidInput`] when the mark is not one of this text: beyond its end, or inside a character.
    pub fn truncate(&mut self, mark: TextMark) -> Result<()> {
        if !self.text.is_char_boundary(mark.bytes) {
            return Err(Error::new(Kind::InvalidInput, "the mark does not belong to this text"));
        }
        if mark.bytes < self.text.len() {
            self.text.truncate(mark.bytes);
            while self.checkpoints.last().is_some_and(|last| last.seen > mark.bytes) {
                self.checkpoints.pop();
            }
            if self.memory.run.is_some_and(|kept| kept.run.end > mark.bytes) {
                self.memory.run = None;
            }
            self.memory.cut(mark.bytes);
            self.recount();
        }
        Ok(())
    }

    fn recount(&mut self) {
        let engine = self.tokenizer.engine();
        let Some(core) = engine.core() else {
            self.count = self.tokenizer.count(&self.text);
            return;
        };
        let mut from = self.checkpoints.last().copied().unwrap_or_default();
        let mut last_checkpoint = from.at;
        let (text, memory, checkpoints) = (self.text.as_bytes(), &mut self.memory, &mut self.checkpoints);
        while from.at < text.len() {
            let (end, seen) = core.watched_next(text, from.at, memory);
            from.count +=
                if end - from.at <= WINDOW { core.count_piece(&text[from.at..end]) } else { memory.count(core, text, from.at, end) };
            from.at = end;
            from.seen = from.seen.max(seen);
            if from.seen <= text.len() && end - last_checkpoint >= SPACING {
                checkpoints.push(from);
                last_checkpoint = end;
            }
        }
        self.count = from.count;
    }
}

impl Memory {
    /// Number of tokens of the long piece from `start` to `end`, redoing no more of it than its end.
    fn count(&mut self, core: &Core, text: &[u8], start: usize, end: usize) -> usize {
        if self.row_start != start || self.row.ids.is_empty() {
            self.row = Row::default();
            (self.row_start, self.row_end) = (start, start);
        } else if self.row_end == end {
            return self.row.ids.len();
        }
        let mut margin = WINDOW / 2;
        loop {
            let edge = self.row_end.min(end).saturating_sub(margin).max(start);
            let token = self.row.starts.partition_point(|at| *at < edge).saturating_sub(1);
            let base =
                if margin > self.row_end.saturating_sub(start) { start } else { self.row.starts.get(token).copied().unwrap_or(start) };
            let mut fresh = Row::default();
            core.encode_long(&text[base..end], |ids, starts| {
                fresh.ids.extend_from_slice(ids);
                fresh.starts.extend(starts.iter().map(|at| base + at));
            });
            let joint = if base == start { Some((0, 0)) } else { bpe::meet(&self.row, token, &fresh) };
            if let Some((old, new)) = joint {
                self.row.ids.truncate(old);
                self.row.starts.truncate(old);
                self.row.ids.extend_from_slice(&fresh.ids[new..]);
                self.row.starts.extend_from_slice(&fresh.starts[new..]);
                self.row_end = end;
                return self.row.ids.len();
            }
            margin = margin.saturating_mul(4);
        }
    }

    /// Forgets tokens that reach beyond a new end of the text.
    fn cut(&mut self, end: usize) {
        if self.row_end > end {
            let keep = self.row.starts.partition_point(|at| *at < end).saturating_sub(1);
            self.row.ids.truncate(keep);
            self.row.starts.truncate(keep);
            // What is left is a row of its own bytes: a prefix of tokens encodes the bytes that it covers.
            self.row_end = self.row.starts.last().copied().unwrap_or(0).min(end);
            self.row.ids.pop();
            self.row.starts.pop();
        }
    }
}

/// A text that may grow: notes how far the automaton looked, and remembers long runs.
struct Watched<'a> {
    text: &'a [u8],
    seen: usize,
    kept: &'a mut Option<KeptRun>,
}

impl Source for Watched<'_> {
    fn byte(&mut self, at: usize) -> Option<u8> {
        self.seen = self.seen.max(at + 1);
        self.text.get(at).copied()
    }

    fn class_in(&mut self, at: usize, view: View) -> (u8, usize) {
        self.seen = self.seen.max(at + 1);
        split::class_at(self.text, at, view)
    }

    fn run(&mut self, at: usize, set: u8, marked: u8, view: View) -> Run {
        let key = (at, set, marked, view);
        let begin = self.kept.filter(|kept| kept.key == key).map_or(Run { end: at, ..Run::default() }, |kept| kept.run);
        let run = split::extend_run(self.text, begin, set, marked, view);
        if run.end - at >= LONG_RUN {
            *self.kept = Some(KeptRun { key, run });
        }
        self.seen = self.seen.max(run.end + 1);
        run
    }

    fn han(&mut self, at: usize) -> usize {
        self.keep(at, 0, split::extend_han)
    }

    fn tail(&mut self, at: usize, slash: bool) -> usize {
        self.keep(at, 1 + u8::from(slash), |text, at| split::extend_tail(text, at, slash))
    }

    fn letters(&mut self, at: usize) -> usize {
        self.keep(at, 3, split::extend_letters)
    }
}

impl Watched<'_> {
    /// A run of its own kind, told apart by a class set that no rule asks for.
    fn keep(&mut self, at: usize, kind: u8, extend: impl Fn(&[u8], usize) -> usize) -> usize {
        let key = (at, 0, kind, View::Plain);
        let begin = self.kept.filter(|kept| kept.key == key).map_or(at, |kept| kept.run.end);
        let end = extend(self.text, begin);
        if end - at >= LONG_RUN {
            *self.kept = Some(KeptRun { key, run: Run { end, ..Run::default() } });
        }
        self.seen = self.seen.max(end + 1);
        end
    }
}

/// The end of the piece at `at`, and the byte before which all lies that decided it.
fn watched_next<F: Family>(text: &[u8], at: usize, memory: &mut Memory) -> (usize, usize) {
    let mut source = Watched { text, seen: 0, kept: &mut memory.run };
    let end = split::next::<F>(&mut source, at);
    (end, source.seen)
}

impl Core {
    fn watched_next(&self, text: &[u8], at: usize, memory: &mut Memory) -> (usize, usize) {
        super::core::with_family!(self.split(), F => watched_next::<F>(text, at, memory))
    }
}

#[cfg(test)]
#[path = "append_tests.rs"]
mod tests;
