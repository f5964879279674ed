//! What each Claude model puts around a request: hidden tool prompts, thinking, how old thinking is treated.
//!
//! A dated table (`data/claude-models.tsv`), read once. Called by the renderer beside it; holds no code per model.

use crate::format::ToolChoice;
use std::sync::OnceLock;

const TABLE: &str = include_str!("../../../data/claude-models.tsv");

/// One row of the table. Tokens.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Habits {
    id: &'static str,
    auto: u64,
    any: u64,
    named: u64,
    /// Most that the hidden tool prompt may be off.
    pub(super) spread: f64,
    /// Added when thinking is enabled.
    pub(super) thinking_enabled: u64,
    /// Added when thinking is adaptive and there are no tools.
    pub(super) thinking_adaptive: u64,
    /// Whether thinking of earlier turns stays in the prompt; else only that of the tool loop under way.
    pub(super) keeps_thinking: bool,
    /// Added when some tools are deferred.
    pub(super) deferred: u64,
}

impl Habits {
    /// The row for a model id: the longest one that is a prefix of it, word by word. `None` for models of other makers.
    pub(super) fn of(id: &str) -> Option<&'static Self> {
        static ROWS: OnceLock<Vec<Habits>> = OnceLock::new();
        let rows = ROWS.get_or_init(|| TABLE.lines().filter_map(row).collect());
        rows.iter()
            .filter(|row| id.strip_prefix(row.id).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '@', ':'])))
            .max_by_key(|row| row.id.len())
    }

    /// The hidden tool prompt.
    pub(super) fn hidden(&self, choice: ToolChoice<'_>) -> u64 {
        match choice {
            ToolChoice::Required => self.any,
            ToolChoice::Named(_) => self.named,
            _ => self.auto,
        }
    }
}

fn row(line: &'static str) -> Option<Habits> {
    if line.starts_with('#') {
        return None;
    }
    let mut cells = line.split('\t');
    let id = cells.next()?;
    let mut number = || cells.next()?.parse::<u64>().ok();
    let (auto, any, named) = (number()?, number()?, number()?);
    let spread = u32::try_from(number()?).ok().map(f64::from)?;
    let (thinking_enabled, thinking_adaptive) = (number()?, number()?);
    let keeps_thinking = cells.next()? == "kept";
    let deferred = cells.next()?.parse().ok()?;
    Some(Habits { id, auto, any, named, spread, thinking_enabled, thinking_adaptive, keeps_thinking, deferred })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read() {
        let rows = TABLE.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(TABLE.lines().filter_map(row).count(), rows);
    }

    #[test]
    fn the_longest_prefix_by_words_wins() {
        let auto = |id: &str| Habits::of(id).map(|h| h.hidden(ToolChoice::Default));
        assert_eq!(auto("claude-sonnet-4"), Some(313));
        assert_eq!(auto("claude-sonnet-4-5"), Some(496));
        assert_eq!(auto("claude-opus-5-5"), Some(286));
        assert_eq!(auto("claude-3-5-sonnet-20240620"), Some(294));
        assert_eq!(auto("claudette"), None);
        assert_eq!(Habits::of("claude-haiku-4-5").map(|h| h.hidden(ToolChoice::Required)), Some(588));
    }
}
