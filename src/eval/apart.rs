//! Exchanges whose recorded bill says nothing of the request: invented usage, another model's answer, an altered body.
//!
//! Built-in lists name recorded exchanges of the public record by id, with the reason; a user may add to them. Rows
//! listed here are reported apart and never scored.

use std::collections::HashMap;

const LISTS: [&str; 3] =
    [include_str!("../../data/openai-fakes.tsv"), include_str!("../../data/claude-apart.tsv"), include_str!("../../data/gemini-apart.tsv")];

/// Ids that are left out of the score, with the reason.
#[derive(Clone, Debug, Default)]
pub struct Apart {
    reasons: HashMap<String, String>,
}

impl Apart {
    /// The built-in lists.
    pub fn builtin() -> Self {
        let mut apart = Self::default();
        for list in LISTS {
            apart.add(list);
        }
        apart
    }

    /// Adds a list: an id, an optional sort, and a reason a line, split by tabs; `#` starts a comment. Of the sorts only
    /// `fake` and `other-model` (and none) are left out: the others are real bills of a rule that no longer holds.
    pub fn add(&mut self, list: &str) {
        for line in list.lines().filter(|line| !line.starts_with('#')) {
            let cells: Vec<&str> = line.split('\t').map(str::trim).collect();
            let (id, sort, reason) = match cells.as_slice() {
                [id, sort, reason, ..] => (*id, *sort, *reason),
                [id, reason] => (*id, "fake", *reason),
                _ => continue,
            };
            if matches!(sort, "fake" | "other-model") {
                self.reasons.insert(id.to_owned(), reason.to_owned());
            }
        }
    }

    /// Why an exchange is left out, if it is.
    pub fn reason(&self, id: &str) -> Option<&str> {
        self.reasons.get(id).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_two_or_three_columns() {
        let mut apart = Apart::default();
        apart.add("# note\na1\tinvented\nb2\tother-model\tanother answered\nc3\todd\tearly prompt\n\n");
        assert_eq!((apart.reason("a1"), apart.reason("b2"), apart.reason("c3")), (Some("invented"), Some("another answered"), None));
        assert!(Apart::builtin().reason("d300934dba18").is_some());
    }
}
