//! Model names taken apart: the many spellings of one model made equal, by structure and data alone.
//!
//! Used by the table to find a row, by families to match a pattern, by the import to group entries. Knows no
//! model by name: which words may be dropped is in `data/names.tsv`. A name is untrusted input: it is cut at
//! [`crate::limits::MAX_MODEL_NAME_BYTES`] before any work.

use super::rows::cells;
use rustc_hash::FxHashSet;
use std::borrow::Cow;
use std::sync::OnceLock;

const WORDS: &str = include_str!("../../data/names.tsv");

/// Words that say where or how a model is served.
struct Words {
    leading: FxHashSet<&'static str>,
    /// As keys: `fp8` is two words.
    trailing: FxHashSet<String>,
    other: FxHashSet<&'static str>,
}

fn words() -> &'static Words {
    static WORDS_ONCE: OnceLock<Words> = OnceLock::new();
    WORDS_ONCE.get_or_init(|| {
        let of = |kind: &'static str| {
            let rows = cells(WORDS).filter(move |(_, row)| row.first() == Some(&kind));
            rows.flat_map(|(_, row)| row.into_iter().skip(1)).flat_map(str::split_whitespace)
        };
        Words {
            leading: of("leading").collect(),
            trailing: of("trailing").map(|word| Key::new(word).text).collect(),
            other: of("other").collect(),
        }
    })
}

/// A name as words joined by `-`: lower case, any separator, a border where two or more letters meet a digit
/// (`qwen3` = `qwen-3`, but `4o`, `8b`, `v3` and `o1` stay whole, so that `gpt-4` does not begin `gpt-4o`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    text: String,
    /// Where each word starts, and one past the end.
    starts: Vec<usize>,
}

impl Key {
    pub(super) fn new(name: &str) -> Self {
        let mut key = Self { text: String::with_capacity(name.len() + 8), starts: Vec::with_capacity(12) };
        let (mut letters, mut only_letters) = (0_usize, true);
        let mut rest = name.chars();
        while let Some(c) = rest.next() {
            // Some hosts write a dot between digits as `p`: `glm-4p6`.
            let dot = matches!(c, 'p' | 'P') && key.ends_in_digit() && rest.clone().next().is_some_and(|next| next.is_ascii_digit());
            if dot || !c.is_alphanumeric() && c != '+' {
                letters = 0;
                only_letters = true;
                key.border();
                continue;
            }
            if c.is_ascii_digit() {
                if only_letters && letters >= 2 {
                    key.border();
                }
                only_letters = false;
            } else {
                letters += 1;
            }
            if key.text.is_empty() || key.text.ends_with('-') {
                key.starts.push(key.text.len());
                letters = usize::from(!c.is_ascii_digit());
                only_letters = !c.is_ascii_digit();
            }
            match c {
                '+' => key.text.push_str("plus"),
                _ => key.text.extend(c.to_lowercase().filter(|c| c.is_alphanumeric())),
            }
        }
        if key.text.ends_with('-') {
            key.text.pop();
        }
        key.starts.push(key.text.len() + 1);
        key
    }

    fn ends_in_digit(&self) -> bool {
        self.text.bytes().next_back().is_some_and(|b| b.is_ascii_digit())
    }

    fn border(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with('-') {
            self.text.push('-');
        }
    }

    /// Number of words.
    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// The words from `from` to `to` (not included), joined.
    pub(super) fn slice(&self, from: usize, to: usize) -> &str {
        match (self.starts.get(from), self.starts.get(to)) {
            (Some(&start), Some(&end)) if from < to => self.text.get(start..end - 1).unwrap_or_default(),
            _ => "",
        }
    }

    /// All words, joined.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    fn word(&self, index: usize) -> &str {
        self.slice(index, index + 1)
    }

    /// Whether word `index` may be dropped from the front.
    pub(super) fn leads(&self, index: usize) -> bool {
        words().leading.contains(self.word(index))
    }

    /// Whether any word says that this is no chat model.
    pub(super) fn is_other(&self) -> bool {
        (0..self.len()).any(|i| words().other.contains(self.word(i)))
    }

    /// How many words may be dropped from the end of the first `to` words: a served-as word, or a date; 0 when none.
    pub(super) fn trails(&self, to: usize) -> usize {
        let back = |n: usize| to.checked_sub(n).map_or("", |i| self.word(i));
        let digits = |w: &str, n: usize| w.len() == n && w.bytes().all(|b| b.is_ascii_digit());
        let year = |w: &str| digits(w, 4) && w.starts_with("20");
        let last = back(1);
        if words().trailing.contains(last) {
            1
        } else if to >= 2 && words().trailing.contains(self.slice(to - 2, to)) {
            2
        } else if digits(last, 2) && digits(back(2), 2) {
            if year(back(3)) { 3 } else { 2 }
        } else if year(last) && digits(back(2), 2) {
            2
        } else {
            let long = last.len() >= 4 || last.len() == 3 && last.starts_with('0');
            usize::from(long && last.bytes().all(|b| b.is_ascii_digit()))
        }
    }

    /// As [`Key::trails`], for version marks such as `-v1:0`, `-1:0` and `-v2`.
    pub(super) fn trails_version(&self, to: usize) -> usize {
        let back = |n: usize| to.checked_sub(n).map_or("", |i| self.word(i));
        let version = |w: &str| w.len() > 1 && w.starts_with('v') && w.bytes().skip(1).all(|b| b.is_ascii_digit());
        match (back(2), back(1)) {
            (v, n) if (version(v) || v == "1") && n.len() == 1 && n.bytes().all(|b| b.is_ascii_digit()) => 2,
            (_, v) if version(v) => 1,
            _ => 0,
        }
    }
}

/// The places in a name from which on it may be read, the whole first: after each `/`, after an `ft:`.
pub(super) fn readings(name: &str) -> impl Iterator<Item = &str> {
    let rest = name.strip_prefix("ft:").map_or(name, |tuned| tuned.split(':').next().unwrap_or(tuned));
    std::iter::once(rest).chain(rest.match_indices('/').map(|(at, _)| rest.get(at + 1..).unwrap_or_default())).filter(|r| !r.is_empty())
}

/// Whether a whole dotted part of a name only says where or by whom a model is served.
pub(super) fn is_serving_part(part: &str) -> bool {
    words().leading.contains(part)
}

/// Whether the name is a resource whose model only its owner knows.
pub(super) fn is_opaque(name: &str) -> bool {
    name.starts_with("arn:")
        && ["application-inference-profile/", "provisioned-model/", "custom-model/", "imported-model/", "prompt-router/"]
            .iter()
            .any(|part| name.contains(part))
}

/// `%3A` and the like undone where they decode to text.
pub(super) fn percent_decoded(name: &str) -> Cow<'_, str> {
    if !name.contains('%') {
        return Cow::Borrowed(name);
    }
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let pair =
            tail.get(..2).filter(|_| first == b'%').and_then(|p| std::str::from_utf8(p).ok()).and_then(|p| u8::from_str_radix(p, 16).ok());
        bytes.push(pair.unwrap_or(first));
        rest = if pair.is_some() { tail.get(2..).unwrap_or_default() } else { tail };
    }
    String::from_utf8(bytes).map_or(Cow::Borrowed(name), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_model_have_one_key() {
        for (a, b) in [
            ("claude-haiku-4.5", "claude-haiku-4-5"),
            ("Qwen3-32B", "qwen-3-32b"),
            ("llama3.1:8b", "llama-3-1-8b"),
            ("gpt-oss:120b", "openai_gpt oss 120b".trim_start_matches("openai_")),
            ("command-r+", "command-rplus"),
            ("kimi-k2p5", "kimi-k2.5"),
            ("--GPT--4o--", "gpt-4o"),
        ] {
            assert_eq!(Key::new(a).as_str(), Key::new(b).as_str(), "{a} {b}");
        }
    }

    #[test]
    fn sizes_and_versions_stay_apart() {
        assert_eq!(Key::new("qwen3-8b").as_str(), "qwen-3-8b");
        assert_eq!(Key::new("qwen3.8-max").as_str(), "qwen-3-8-max");
        assert_eq!(Key::new("gpt-4o").as_str(), "gpt-4o");
        assert_eq!(Key::new("o1-mini").as_str(), "o1-mini");
        assert_eq!(Key::new("deepseek-v3.1").as_str(), "deepseek-v3-1");
    }

    #[test]
    fn dates_and_marks_trail() {
        for (name, dropped) in [
            ("gpt-4o-2024-08-06", 3),
            ("claude-sonnet-4-20250514", 1),
            ("gemini-2.5-pro-preview-05-06", 2),
            ("gemini-2.5-flash-preview-09-2025", 2),
            ("gemini-2.0-flash-001", 1),
            ("gpt-4-0613", 1),
            ("glm-4.5-air-fp8", 2),
            ("mistral-large-latest", 1),
            ("claude-opus-4", 0),
            ("gpt-4.1", 0),
        ] {
            let key = Key::new(name);
            assert_eq!(key.trails(key.len()), dropped, "{name}");
        }
        let key = Key::new("claude-3-7-sonnet-20250219-v1:0");
        assert_eq!(key.trails_version(key.len()), 2);
    }

    #[test]
    fn odd_input_is_harmless() {
        for name in ["", "-", "/", "%", "%%%", "%f", "%ff", "ft:", "ft::", "arn:", "É%C3%A9", "\u{0}\u{feff}", "١٢٣"] {
            let decoded = percent_decoded(name);
            for reading in readings(&decoded) {
                let key = Key::new(reading);
                assert_eq!(key.slice(0, key.len()), key.as_str());
                assert_eq!(key.trails(0) + key.trails_version(0), 0);
            }
        }
    }
}
