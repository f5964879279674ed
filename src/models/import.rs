//! LiteLLM's public price file, read for its limits and merged into the table.
//!
//! Called by `plimsoll models import` and by the example that renews the built-in list, so that both read the file
//! by the same rules. A maker's own entries define a model; another host's entry only adds a model that no maker
//! lists, since hosts' figures for one model contradict each other. Prices are not read.

use super::family::{Families, Family, Limits};
use super::name::{Key, is_serving_part};
use super::table::{Layer, Models, blank};
use crate::error::{Error, Kind, Result};
use crate::format::kind_of;
use crate::limits::{MAX_MODELS, MAX_WINDOW_TOKENS};
use crate::models::Profile;
use serde_json::{Map, Value};

/// What an import did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportReport {
    /// Models added.
    pub added: usize,
    /// Models whose limits were replaced.
    pub updated: usize,
    /// Entries that name a model the table has, with figures that are believed over the file's or equal to it.
    pub known: usize,
    /// Entries passed over: not for chat, without limits, from a host that isn't read, or without a model's name.
    pub skipped: usize,
}

impl Models {
    /// Merges LiteLLM's price file (`model_prices_and_context_window.json`); `source` and `date` (ISO) go into each row.
    /// Rows checked by hand and a user's overrides stay as they are.
    ///
    /// # Errors
    /// [`Kind::InvalidInput`] with the offset for broken JSON, or with the JSON Pointer of an entry of the wrong shape;
    /// [`Kind::LimitExceeded`] for too many entries. Then nothing is merged.
    pub fn import_litellm(&mut self, json: &[u8], source: &str, date: &str) -> Result<ImportReport> {
        let (_, value) = crate::format::json::parse(json).map_err(|e| e.context("reading the price file"))?;
        let Value::Object(entries) = &value else {
            return Err(Error::invalid("", format!("expected an object of models, found {}", kind_of(&value))));
        };
        if entries.len() > MAX_MODELS {
            return Err(Error::new(Kind::LimitExceeded, format!("{} entries; at most {MAX_MODELS} are read", entries.len())));
        }
        let mut report = ImportReport::default();
        let mut believed = Vec::new();
        for (name, entry) in entries {
            match read(name, entry)? {
                Some(found) => believed.push(found),
                None => report.skipped += 1,
            }
        }
        believed.sort_by_key(|found| found.rank);
        for found in believed {
            self.merge(&found, source, date, &mut report);
        }
        Ok(report)
    }

    fn merge(&mut self, found: &Found, source: &str, date: &str, report: &mut ImportReport) {
        let key = Key::new(&found.id);
        let families = Families::builtin();
        let family = families.of(&key).unwrap_or_else(|| families.rest());
        let direct = self.named(key.as_str());
        let fixed = direct.is_some_and(|e| matches!(e.layer, Layer::Checked | Layer::Override));
        let resolved = self.lookup(&found.id, None).or_else(|| self.lookup(&found.name, None));
        let same = resolved.is_some_and(|e| found.agrees(&e.profile));
        if fixed || same || (resolved.is_some() && found.rank > 0) {
            report.known += 1;
            return;
        }
        if direct.is_some() {
            report.updated += 1;
        } else {
            report.added += 1;
        }
        let mut profile = blank(&found.id, family);
        self.limit(found, family, &mut profile);
        profile.reasoning = profile.reasoning || found.reasoning;
        source.clone_into(&mut profile.source);
        date.clone_into(&mut profile.date);
        self.add(profile, Layer::Imported, []);
    }

    /// Reads "max input" and "max output" as the family's limits.
    fn limit(&self, found: &Found, family: &Family, profile: &mut Profile) {
        profile.output_cap = found.output;
        match (family.limits, found.input) {
            (Limits::Separate, input) => profile.input_cap = input,
            (Limits::Split, Some(input)) => {
                // Some entries of these families state the whole window instead.
                let whole = self.list().any(|p| p.maker == family.maker && p.input_cap.is_some() && p.window == Some(input));
                let output = found.output.unwrap_or(0);
                (profile.window, profile.input_cap) = if whole {
                    (Some(input), Some(input.saturating_sub(output)))
                } else {
                    (Some(input.saturating_add(output)), Some(input))
                };
            }
            (_, input) => {
                profile.window = input;
                // "As much as the window" is no cap.
                profile.output_cap = found.output.filter(|out| input.is_none_or(|window| *out < window));
            }
        }
    }
}

/// One entry that can be believed.
struct Found {
    /// 0 a maker's own entry.
    rank: u32,
    /// As in the file.
    name: String,
    id: String,
    input: Option<u64>,
    output: Option<u64>,
    reasoning: bool,
}

impl Found {
    /// Whether a profile says the same, give or take the one token by which lists differ.
    fn agrees(&self, profile: &Profile) -> bool {
        let near = |a: u64, b: Option<u64>| b.is_some_and(|b| a.abs_diff(b) <= 1);
        let input = self.input.is_none_or(|n| near(n, profile.window) || near(n, profile.input_cap));
        let output = self
            .output
            .is_none_or(|n| near(n, profile.output_cap) || (profile.output_cap.is_none() && profile.window.is_some_and(|w| n >= w)));
        input && output
    }
}

fn read(name: &str, entry: &Value) -> Result<Option<Found>> {
    let path = || format!("/{}", name.replace('~', "~0").replace('/', "~1"));
    let Value::Object(entry) = entry else {
        return Err(Error::invalid(path(), format!("expected an object, found {}", kind_of(entry))));
    };
    let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
    if !matches!(text("mode"), "chat" | "responses" | "completion") {
        return Ok(None);
    }
    let provider = text("litellm_provider");
    let host = super::provider::hosts().iter().find(|h| h.litellm.contains(&provider));
    let Some((host, rank)) = host.and_then(|h| h.rank.map(|rank| (h, rank))) else { return Ok(None) };
    let (input, output) = (limit(entry, "max_input_tokens", &path)?, limit(entry, "max_output_tokens", &path)?);
    let id = plain_id(name);
    let key = Key::new(&id);
    let named = key.len() > 0 && id.len() <= 100 && !id.contains([' ', '*', '\t', ',']) && id.chars().any(|c| c.is_ascii_alphabetic());
    let bucket = ["together-ai-", "fireworks-ai-", "ft:"].iter().any(|start| name.starts_with(start)) || name.contains("commitment");
    if !named || bucket || key.is_other() || input.is_none() {
        return Ok(None);
    }
    let own = host.maker.is_some_and(|maker| Families::builtin().of(&key).is_none_or(|f| f.maker == maker));
    let reasoning = entry.get("supports_reasoning").and_then(Value::as_bool).unwrap_or(false);
    Ok(Some(Found { rank: if own { 0 } else { rank }, name: name.to_owned(), id, input, output, reasoning }))
}

/// A limit: absent, null and non-numbers (the file's own specimen entry holds prose) count as not stated; a number must be sound.
fn limit(entry: &Map<String, Value>, field: &str, path: &impl Fn() -> String) -> Result<Option<u64>> {
    let Some(Value::Number(number)) = entry.get(field) else { return Ok(None) };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be whole and in range")]
    let whole = number.as_u64().or_else(|| number.as_f64().filter(|f| f.fract() == 0.0 && (0.0..9e15).contains(f)).map(|f| f as u64));
    match whole {
        Some(0) => Ok(None),
        Some(n) if n <= MAX_WINDOW_TOKENS => Ok(Some(n)),
        _ => Err(Error::invalid(format!("{}/{field}", path()), "expected a number of tokens from 0 to 2^40")),
    }
}

/// An entry's name without provider, region, vendor, serving date mark and version: the id of a new row.
fn plain_id(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name).to_lowercase();
    let mut id = last.as_str();
    while let Some((first, rest)) = id.split_once('.') {
        // `deepseek.v3` keeps its first part: what is left must begin with a word, not with a version.
        let word = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        if word < 2 || !is_serving_part(first) {
            break;
        }
        id = rest;
    }
    let id = id.split_once('@').map_or(id, |(bare, _)| bare);
    let id = id.strip_suffix(":0").map_or(id, |bare| ["-v1", "-v2", "-1"].iter().find_map(|mark| bare.strip_suffix(mark)).unwrap_or(bare));
    id.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import(json: &str) -> (Models, ImportReport) {
        let mut models = Models::checked_only();
        let report = models.import_litellm(json.as_bytes(), "test", "2026-11-30").unwrap();
        (models, report)
    }

    #[test]
    fn adds_new_models_and_keeps_checked_ones() {
        let (models, report) = import(
            r#"{"sample_spec":{"mode":"one of: chat","max_input_tokens":"prose"},
            "gpt-4o":{"mode":"chat","litellm_provider":"openai","max_input_tokens":1,"max_output_tokens":1},
            "gpt-5.7":{"mode":"responses","litellm_provider":"openai","max_input_tokens":272000,"max_output_tokens":128000,"supports_reasoning":true},
            "gpt-5.7-pro":{"mode":"chat","litellm_provider":"openai","max_input_tokens":400000,"max_output_tokens":128000},
            "gemini/gemini-9-flash":{"mode":"chat","litellm_provider":"gemini","max_input_tokens":1048576,"max_output_tokens":65536},
            "us.meta.llama9-3b-instruct-v1:0":{"mode":"chat","litellm_provider":"bedrock","max_input_tokens":128000,"max_output_tokens":128000},
            "dall-e":{"mode":"image_generation","litellm_provider":"openai"},
            "kyma/some-model":{"mode":"chat","litellm_provider":"kyma","max_input_tokens":5}}"#,
        );
        assert_eq!(report, ImportReport { added: 4, updated: 0, known: 1, skipped: 3 });
        let limits = |name: &str| models.find(name, None).map(|p| (p.window, p.input_cap, p.output_cap)).unwrap();
        assert_eq!(limits("gpt-4o"), (Some(128_000), None, Some(16_384)));
        assert_eq!(limits("gpt-5.7"), (Some(400_000), Some(272_000), Some(128_000)));
        assert_eq!(limits("gpt-5.7-pro"), (Some(400_000), Some(272_000), Some(128_000)));
        assert_eq!(limits("gemini-9-flash"), (None, Some(1_048_576), Some(65_536)));
        assert_eq!(limits("meta-llama/llama-9-3b-instruct"), (Some(128_000), None, None));
    }

    #[test]
    fn bad_files_are_errors_with_a_place_and_change_nothing() {
        let mut models = Models::checked_only();
        let before = models.list().count();
        for (json, path, offset) in [
            ("[]", Some(""), None),
            ("{\"a\":1}", Some("/a"), None),
            ("{\"x\":{\"mode\":\"chat\",\"litellm_provider\":\"openai\",\"max_input_tokens\":-4}}", Some("/x/max_input_tokens"), None),
            (
                "{\"o/x\":{\"mode\":\"chat\",\"litellm_provider\":\"openai\",\"max_input_tokens\":1e300}}",
                Some("/o~1x/max_input_tokens"),
                None,
            ),
            ("{\"x\":\n{,", None, Some(7)),
        ] {
            let error = models.import_litellm(json.as_bytes(), "test", "2026-11-30").unwrap_err();
            assert_eq!((error.kind(), error.path(), error.offset()), (Kind::InvalidInput, path, offset), "{json}");
        }
        assert_eq!(models.list().count(), before);
    }
}
