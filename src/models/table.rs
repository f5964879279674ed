//! The model table: names to profiles, built once from the dated lists and the families.
//!
//! Called by the counter, the budget and the edges. A lookup tries the name as spelled, then its words with
//! served-as words, dates and version marks dropped, each host's own row before the common one; which words those
//! are is data. A name that fits nothing is an error with near names, never a guess: guessing is [`Models::find_nearest`].

use super::family::{Families, Family};
use super::name::{Key, is_opaque, percent_decoded, readings};
use super::rows::{self, Row};
use super::{Profile, Provider};
use crate::error::{Error, Kind, Result};
use crate::limits::MAX_MODEL_NAME_BYTES;
use rustc_hash::FxHashMap;
use std::sync::{Arc, OnceLock};

const CHECKED: &str = include_str!("../../data/models-checked.tsv");
const SEEDED: &str = include_str!("../../data/models-litellm.tsv");

/// Where a row came from; a later one wins over an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Layer {
    /// The built-in list made from LiteLLM's file.
    Seeded,
    /// An import at run time.
    Imported,
    /// The built-in list gone through by hand.
    Checked,
    /// The user's own file.
    Override,
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) profile: Arc<Profile>,
    pub(super) layer: Layer,
    /// The id's words, without its host.
    pub(super) key: Box<str>,
    aliases: Box<[Box<str>]>,
}

/// Profiles by name: the built-in data, an import, a user's overrides (the last wins).
///
/// ```
/// let models = plimsoll::Models::builtin();
/// let model = models.find("openrouter/anthropic/claude-haiku-4.5:thinking", None)?;
/// assert_eq!((model.id.as_str(), model.window), ("claude-haiku-4-5", Some(200_000)));
/// assert_eq!(models.find("gpt-4o-minj", None).unwrap_err().suggestions()[0], "gpt-4o-mini");
/// # Ok::<(), plimsoll::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Models {
    entries: Vec<Entry>,
    /// Ids and aliases as spelled, in lower case, of rows that hold on every host.
    spelled: FxHashMap<Box<str>, usize>,
    /// Their words.
    words: FxHashMap<Box<str>, usize>,
    /// Their words with trailing served-as words and dates dropped, where nothing else has that name.
    shortened: FxHashMap<Box<str>, usize>,
    /// Rows of one host, by its slug and their words.
    hosts: FxHashMap<Box<str>, FxHashMap<Box<str>, usize>>,
    /// Deployment names, in lower case, to model names.
    deployments: FxHashMap<Box<str>, Box<str>>,
}

impl Models {
    /// The built-in table. Built on first use (some milliseconds), shared afterwards.
    pub fn builtin() -> Arc<Self> {
        static ONCE: OnceLock<Arc<Models>> = OnceLock::new();
        Arc::clone(ONCE.get_or_init(|| {
            let mut models = Self::default();
            // Both texts are part of the build and tested to parse.
            let _ = models.add_text(CHECKED, Layer::Checked);
            let _ = models.add_text(SEEDED, Layer::Seeded);
            Arc::new(models)
        }))
    }

    /// The table of the hand-checked rows alone: what a new seed is made over.
    #[doc(hidden)]
    pub fn checked_only() -> Self {
        let mut models = Self::default();
        let _ = models.add_text(CHECKED, Layer::Checked);
        models
    }

    /// The profile of a model as named by a body, a flag or a provider's URL. Under a microsecond for a name spelled as
    /// in the table, a few for one that must be taken apart.
    ///
    /// # Errors
    /// [`Kind::UnknownModel`] with near names.
    pub fn find(&self, name: &str, provider: Option<&Provider>) -> Result<Arc<Profile>> {
        self.lookup(name, provider).map(|entry| Arc::clone(&entry.profile)).ok_or_else(|| self.unknown(name))
    }

    /// As [`Models::find`], and for an unknown name the profile of the nearest known model by the words they begin with,
    /// under the asked name and with a note that says so.
    ///
    /// # Errors
    /// [`Kind::UnknownModel`] when not even the first word is shared.
    pub fn find_nearest(&self, name: &str, provider: Option<&Provider>) -> Result<Arc<Profile>> {
        if let Some(entry) = self.lookup(name, provider) {
            return Ok(Arc::clone(&entry.profile));
        }
        let name_read = short(name);
        let last = readings(name_read).last().unwrap_or_default();
        let key = Key::new(last);
        let shared = |from: usize, other: &str| {
            (from + 1..=key.len())
                .rev()
                .find(|&to| other.strip_prefix(key.slice(from, to)).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')))
        };
        let from = (0..key.len()).take_while(|&from| from == 0 || key.leads(from - 1)).last().unwrap_or(0);
        let nearest = self
            .entries
            .iter()
            .enumerate()
            .filter_map(|(at, entry)| {
                shared(from, &entry.key).map(|words| (words, similarity(key.slice(from, key.len()), &entry.key), at, entry))
            })
            .max_by_key(|&(words, similar, at, _)| (words, similar, at));
        let (.., entry) = nearest.ok_or_else(|| self.unknown(name))?;
        let mut profile = entry.profile.as_ref().clone();
        if let Some(family) = Families::builtin().of(&key) {
            apply(family, &mut profile);
        }
        profile.notes = Some(format!("unknown model; limits of `{}`, the nearest known one", profile.id));
        last.clone_into(&mut profile.id);
        Ok(Arc::new(profile))
    }

    /// A profile for a model that no list knows, from limits the caller states; the name's family decides the rest.
    pub fn custom(&self, name: &str, window: u64, output_cap: Option<u64>) -> Arc<Profile> {
        let id = readings(short(name)).last().unwrap_or_default();
        let families = Families::builtin();
        let mut profile = blank(id, families.of(&Key::new(id)).unwrap_or_else(|| families.rest()));
        profile.window = Some(window);
        profile.output_cap = output_cap;
        "the caller".clone_into(&mut profile.source);
        Arc::new(profile)
    }

    /// All profiles, the checked ones first, in the lists' order. Ids of rows that hold on one host begin with its slug.
    pub fn list(&self) -> impl Iterator<Item = &Profile> {
        self.entries.iter().map(|entry| entry.profile.as_ref())
    }

    /// The other names that the lists give a model, by its id.
    pub fn aliases(&self, id: &str) -> impl Iterator<Item = &str> {
        self.entries.iter().filter(move |entry| entry.profile.id == id).flat_map(|entry| entry.aliases.iter().map(AsRef::as_ref))
    }

    /// Maps a deployment's name (alone, or as `provider/name` for one provider) to a model, as Azure's users must.
    ///
    /// # Errors
    /// [`Kind::UnknownModel`] with near names when the model isn't in the table.
    pub fn deploy(&mut self, deployment: &str, model: &str) -> Result<()> {
        self.find(model, None)?;
        self.deployments.insert(deployment.to_lowercase().into(), model.into());
        Ok(())
    }

    /// Adds a table text written by [`Models::to_text`], as an import.
    ///
    /// # Errors
    /// [`Kind::InvalidInput`] with the line that breaks the form; then nothing is added.
    pub fn merge_text(&mut self, text: &str) -> Result<()> {
        self.add_text(text, Layer::Imported)
    }

    /// The imported and seeded rows as text, for [`Models::merge_text`] and for the built-in list.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let (mut source, mut date) = ("", "");
        for entry in self.entries.iter().filter(|e| matches!(e.layer, Layer::Seeded | Layer::Imported)) {
            let profile = entry.profile.as_ref();
            if (profile.source.as_str(), profile.date.as_str()) != (source, date) {
                (source, date) = (&profile.source, &profile.date);
                out.extend(["@source\t", source, "\n@date\t", date, "\n"]);
            }
            let family_reasons = family_of(&profile.id).reasoning;
            let row = Row {
                id: &profile.id,
                window: profile.window,
                input_cap: profile.input_cap,
                output_cap: profile.output_cap,
                reasoning: (profile.reasoning != family_reasons).then_some(profile.reasoning),
                aliases: entry.aliases.iter().map(AsRef::as_ref).collect(),
                note: None,
                source,
                date,
            };
            rows::print(&row, &mut out);
            out.push('\n');
        }
        out
    }

    fn add_text(&mut self, text: &str, layer: Layer) -> Result<()> {
        for row in rows::parse(text)? {
            let family = family_of(row.id);
            let mut profile = blank(row.id, family);
            (profile.window, profile.input_cap, profile.output_cap) = (row.window, row.input_cap, row.output_cap);
            profile.reasoning = row.reasoning.unwrap_or(profile.reasoning);
            row.source.clone_into(&mut profile.source);
            row.date.clone_into(&mut profile.date);
            if let Some(note) = row.note {
                profile.notes = Some(note.to_owned());
            }
            self.add(profile, layer, row.aliases.iter().copied());
        }
        Ok(())
    }

    /// Adds or replaces a row. A row of a lower layer gives way; one of a higher layer stays.
    pub(super) fn add<'a>(&mut self, profile: Profile, layer: Layer, aliases: impl IntoIterator<Item = &'a str>) {
        let (host, bare) = split_host(&profile.id);
        let key = Key::new(bare);
        let known = match host {
            Some(host) => self.hosts.get(host).and_then(|rows| rows.get(key.as_str())).copied(),
            None => self.words.get(key.as_str()).copied(),
        };
        let aliases: Box<[Box<str>]> = aliases.into_iter().map(Into::into).collect();
        let (host, bare) = (host.map(Box::<str>::from), bare.to_lowercase());
        let entry = Entry { layer, key: key.as_str().into(), aliases: aliases.clone(), profile: Arc::new(profile) };
        let at = match known.filter(|&at| self.entries.get(at).is_some_and(|e| e.key == entry.key)) {
            Some(at) => {
                if let Some(old) = self.entries.get_mut(at).filter(|old| old.layer <= layer) {
                    *old = entry;
                }
                at
            }
            // An alias of a row of a higher layer: that row is the model.
            None if known.and_then(|at| self.entries.get(at)).is_some_and(|e| e.layer > layer) => return,
            None => {
                self.entries.push(entry);
                self.entries.len() - 1
            }
        };
        if let Some(host) = host {
            self.hosts.entry(host).or_default().insert(key.as_str().into(), at);
            return;
        }
        self.spelled.insert(bare.into(), at);
        self.words.insert(key.as_str().into(), at);
        for alias in &aliases {
            let words = Key::new(alias);
            let free = self
                .words
                .get(words.as_str())
                .and_then(|&at| self.entries.get(at))
                .is_none_or(|e| e.layer < layer || layer == Layer::Override);
            if free {
                self.spelled.insert(alias.to_lowercase().into(), at);
                self.words.insert(words.as_str().into(), at);
            }
        }
        let mut to = key.len();
        while key.trails(to) > 0 && key.trails(to) < to {
            to -= key.trails(to);
            if to < 2 {
                // One word alone names a maker or a line, not a model.
                break;
            }
            self.shortened.entry(key.slice(0, to).into()).or_insert(at);
        }
    }

    pub(super) fn lookup(&self, name: &str, provider: Option<&Provider>) -> Option<&Entry> {
        if name.is_empty() || name.len() > MAX_MODEL_NAME_BYTES {
            return None;
        }
        if !self.deployments.is_empty()
            && let Some(model) = self.deployed(name, provider)
        {
            return self.resolve(model, provider);
        }
        self.resolve(name, provider)
    }

    fn deployed(&self, name: &str, provider: Option<&Provider>) -> Option<&str> {
        let lower = name.to_lowercase();
        let bare = lower.rsplit('/').next().unwrap_or(&lower);
        let on_host = provider.and_then(|p| self.deployments.get(format!("{p}/{bare}").as_str()));
        on_host.or_else(|| self.deployments.get(lower.as_str())).or_else(|| self.deployments.get(bare)).map(AsRef::as_ref)
    }

    fn resolve(&self, name: &str, provider: Option<&Provider>) -> Option<&Entry> {
        if provider.is_none_or(|p| !self.hosts.contains_key(p.as_str()))
            && let Some(&at) = self.spelled.get(name)
        {
            return self.entries.get(at);
        }
        let name = percent_decoded(name);
        if is_opaque(&name) {
            return None;
        }
        let prefixed = || name.split_once('/').and_then(|(first, _)| Provider::of_slug(&first.to_lowercase()));
        let host = provider.cloned().or_else(prefixed).and_then(|p| self.hosts.get(p.as_str()));
        readings(&name).find_map(|reading| {
            let key = Key::new(reading);
            (0..key.len()).take_while(|&from| from == 0 || key.leads(from - 1)).find_map(|from| {
                let mut to = key.len();
                loop {
                    if let Some(entry) = self.at(host, key.slice(from, to)) {
                        return Some(entry);
                    }
                    let drop = Some(key.trails(to)).filter(|&n| n > 0).unwrap_or_else(|| key.trails_version(to));
                    if drop == 0 || to - drop <= from {
                        return None;
                    }
                    to -= drop;
                }
            })
        })
    }

    /// The row of exactly these words: the host's own, or the common one as that host changes it.
    fn at(&self, host: Option<&FxHashMap<Box<str>, usize>>, words: &str) -> Option<&Entry> {
        let own = |words: &str| host.and_then(|rows| rows.get(words)).and_then(|&at| self.entries.get(at));
        if let Some(entry) = own(words) {
            return Some(entry);
        }
        let common = self.words.get(words).or_else(|| self.shortened.get(words)).and_then(|&at| self.entries.get(at))?;
        own(&common.key).or(Some(common))
    }

    /// The row that has exactly these words as its id or alias, on every host.
    pub(super) fn named(&self, words: &str) -> Option<&Entry> {
        self.words.get(words).and_then(|&at| self.entries.get(at))
    }

    fn unknown(&self, name: &str) -> Error {
        let shown = short(name);
        if name.is_empty() {
            return Error::new(Kind::UnknownModel, "the model's name is empty");
        }
        if is_opaque(&percent_decoded(shown)) {
            return Error::new(
                Kind::UnknownModel,
                format!("`{shown}` does not say which model it runs; map it to a model in the overrides' [deployments]"),
            );
        }
        let key = Key::new(readings(shown).last().unwrap_or_default());
        let mut near: Vec<(u32, &str)> =
            self.entries.iter().map(|e| (similarity(key.as_str(), &e.key), e.profile.id.as_str())).filter(|(s, _)| *s >= 600).collect();
        near.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.len().cmp(&b.1.len())).then_with(|| a.1.cmp(b.1)));
        // Who has a model of his own is told how it comes to be known.
        let how = if near.is_empty() {
            "; `plimsoll models list` lists the known ones, and one of your own is added with `plimsoll models add NAME --dir PATH` or by a table (--models)"
        } else {
            ""
        };
        Error::new(Kind::UnknownModel, format!("unknown model `{shown}`{how}"))
            .suggest(near.into_iter().take(3).map(|(_, id)| id.to_owned()))
    }
}

/// A name cut to what an error may show.
fn short(name: &str) -> &str {
    let end = (0..=name.len().min(120)).rev().find(|&i| name.is_char_boundary(i)).unwrap_or(0);
    name.get(..end).unwrap_or_default()
}

/// 0 to 1000.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the score lies between 0 and 1")]
fn similarity(a: &str, b: &str) -> u32 {
    (strsim::jaro_winkler(a, b).mul_add(0.3, strsim::normalized_damerau_levenshtein(a, b) * 0.7) * 1000.0) as u32
}

/// A row id's host, if it names one, and the rest.
fn split_host(id: &str) -> (Option<&str>, &str) {
    match id.split_once('/') {
        Some((host, bare)) if super::provider::hosts().iter().any(|h| h.slug == host) => (Some(host), bare),
        _ => (None, id),
    }
}

/// The family that a row id belongs to.
fn family_of(id: &str) -> &'static Family {
    let (_, bare) = split_host(id);
    Families::builtin().of(&Key::new(bare)).unwrap_or_else(|| Families::builtin().rest())
}

/// A profile that knows its family and no limits yet.
pub(super) fn blank(id: &str, family: &Family) -> Profile {
    let mut profile = Profile { id: id.to_owned(), ..Profile::default() };
    apply(family, &mut profile);
    profile
}

/// Sets all that the family decides.
fn apply(family: &Family, profile: &mut Profile) {
    family.maker.clone_into(&mut profile.maker);
    family.tokenizer.clone_into(&mut profile.tokenizer);
    family.renderer.clone_into(&mut profile.renderer);
    profile.proxy = family.proxy;
    profile.image_rule = family.image_rule.map(str::to_owned);
    profile.reasoning = family.reasoning;
    profile.notes = family.note.map(str::to_owned);
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
