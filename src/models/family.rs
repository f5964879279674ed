//! Model families: the tokenizer, renderer, image rule and reading of limits that a name's beginning decides.
//!
//! Read from `data/families.tsv` once. The table asks for every row it builds; [`super::Models::custom`] for a
//! model that no list knows. The longest pattern of whole words wins, so there is no order to keep.

use super::name::Key;
use super::rows::cells;
use crate::error::{Error, Result};
use rustc_hash::FxHashMap;
use std::sync::OnceLock;

const FAMILIES: &str = include_str!("../../data/families.tsv");

/// How a list that knows only "max input" and "max output" is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limits {
    /// Max input is the window that input and output share.
    Shared,
    /// Max input is a cap of its own, and the window is the sum.
    Split,
    /// Two caps and no shared window.
    Separate,
}

/// What the models of a family share.
#[derive(Clone, Debug)]
pub(super) struct Family {
    pub(super) maker: &'static str,
    pub(super) limits: Limits,
    pub(super) tokenizer: &'static str,
    pub(super) renderer: &'static str,
    pub(super) image_rule: Option<&'static str>,
    pub(super) reasoning: bool,
    pub(super) proxy: bool,
    pub(super) note: Option<&'static str>,
}

/// All families.
#[derive(Debug)]
pub(super) struct Families {
    by_pattern: FxHashMap<Box<str>, Family>,
    rest: Family,
}

impl Families {
    /// The built-in families.
    pub(super) fn builtin() -> &'static Self {
        static ONCE: OnceLock<Families> = OnceLock::new();
        // The built-in text is tested to parse; were it ever broken, everything would be counted by the generic renderer.
        ONCE.get_or_init(|| Self::parse(FAMILIES).unwrap_or_else(|_| Self { by_pattern: FxHashMap::default(), rest: REST }))
    }

    fn parse(text: &'static str) -> Result<Self> {
        let (mut by_pattern, mut rest) = (FxHashMap::default(), REST);
        for (line, row) in cells(text) {
            let &[pattern, maker, limits, tokenizer, renderer, image, flags, note] = row.as_slice() else {
                return Err(Error::invalid("", format!("line {line}: expected 8 columns, found {}", row.len())));
            };
            let given = |cell: &'static str| (cell != "-").then_some(cell);
            let family = Family {
                maker,
                limits: match limits {
                    "shared" => Limits::Shared,
                    "split" => Limits::Split,
                    "separate" => Limits::Separate,
                    _ => return Err(Error::invalid("", format!("line {line}: expected `shared`, `split` or `separate`"))),
                },
                tokenizer,
                renderer,
                image_rule: given(image),
                reasoning: flags.contains('r'),
                proxy: flags.contains('p'),
                note: given(note),
            };
            if pattern == "*" {
                rest = family;
            } else if by_pattern.insert(Key::new(pattern).as_str().into(), family).is_some() {
                return Err(Error::invalid("", format!("line {line}: `{pattern}` was given before")));
            }
        }
        Ok(Self { by_pattern, rest })
    }

    /// The family of a name: the longest pattern that begins it, or begins it after words that only say who serves it.
    pub(super) fn of(&self, key: &Key) -> Option<&Family> {
        (0..key.len())
            .take_while(|&from| from == 0 || key.leads(from - 1))
            .find_map(|from| (from + 1..=key.len()).rev().find_map(|to| self.by_pattern.get(key.slice(from, to))))
    }

    /// The family of every model that has none: the generic renderer over a stand-in vocabulary.
    pub(super) fn rest(&self) -> &Family {
        &self.rest
    }
}

const REST: Family = Family {
    maker: "unknown",
    limits: Limits::Shared,
    tokenizer: "o200k_base",
    renderer: "generic",
    image_rule: None,
    reasoning: false,
    proxy: true,
    note: None,
};

#[cfg(test)]
mod tests {
    use super::*;

    fn renderer(name: &str) -> &'static str {
        Families::builtin().of(&Key::new(name)).map_or("none", |f| f.renderer)
    }

    #[test]
    fn built_in_text_parses() {
        assert!(Families::parse(FAMILIES).unwrap().by_pattern.len() > 150);
    }

    #[test]
    fn longest_pattern_wins() {
        for (name, expected) in [
            ("gpt-4o-mini-2024-07-18", "openai-classic"),
            ("gpt-4.1-nano", "openai-classic"),
            ("gpt-5.6-sol", "harmony-5.6"),
            ("gpt-6-luna", "harmony-6"),
            ("o1-mini", "openai-o1-mini"),
            ("o1-pro", "harmony-o1"),
            ("claude-3-5-haiku-20241022", "claude-4.6"),
            ("claude-opus-4-6", "claude-4.6"),
            ("claude-opus-4-7-20260416", "claude-4.7"),
            ("us.anthropic.claude-sonnet-5-v1:0", "claude-5"),
            ("gemini-2.5-flash-lite", "gemini-2.5"),
            ("gemini-1.5-pro", "gemini-2.0"),
            ("gemini-3.6-flash", "gemini-3"),
            ("amazon.nova-2-lite-v1:0", "nova-2"),
            ("Qwen3-8B", "template:qwen3"),
            ("qwen3.6-27b", "template:qwen3.6"),
            ("meta-llama-3.1-8b", "template:llama-3.1"),
            ("zai-glm-4.7", "template:glm-4.7"),
            ("opt-125m", "none"),
        ] {
            assert_eq!(renderer(name), expected, "{name}");
        }
    }
}
