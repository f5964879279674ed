//! Which vocabularies are present: those built in, those that cargo features build in, and those that a store holds.
//!
//! Asked by the edges' listings; no count comes here. Reads manifests and the tables that are built in, never a vocabulary's file.

use super::builtin;
use super::bundled;
use super::store::VocabularyStore;
use crate::error::Result;
use base64::Engine as _;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::OnceLock;
use twox_hash::XxHash3_128;

/// A vocabulary that is present, wherever it lies.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PresentVocabulary {
    /// Name, as [`super::Tokenizer::by_name`] takes it.
    pub name: String,
    /// Whether it is part of this build; else it lies in the store.
    pub built_in: bool,
    /// Whether counts by this name take it. One in the store under the name of a built-in one is not taken, and one that a cargo
    /// feature builds in only where the store has none of its name.
    pub in_use: bool,
    /// xxh3-128 in hex: of the file that was added; of one that is built in, of its ranks written as a `*.tiktoken` file in their order,
    /// which for OpenAI's is the published file to the byte.
    pub fingerprint: String,
    /// Where it came from.
    pub source: String,
    /// Licence, if named.
    pub licence: Option<String>,
    /// The file of one that lies in the store: a name in its folder, or an absolute path where it was added by reference.
    pub file: Option<PathBuf>,
    /// Chat templates and tokenizer settings beside it, by file name.
    pub templates: Vec<String>,
}

impl PresentVocabulary {
    /// All that are present: built-in ones first, then those of the store by name. Without a store, the built-in ones alone.
    ///
    /// The first call of a process takes the fingerprints of what is built in: some 10 ms a megabyte of rank file.
    ///
    /// # Errors
    /// [`crate::Kind::Unavailable`] when the store's folder exists and can't be read; [`crate::Kind::Corrupt`] when a vocabulary that
    /// a feature builds in has a form unknown to this version.
    pub fn all(store: Option<&VocabularyStore>) -> Result<Vec<Self>> {
        let installed = store.map_or_else(|| Ok(Vec::new()), VocabularyStore::list)?;
        let fingerprints = fingerprints()?;
        let mut all: Vec<Self> = Vec::with_capacity(fingerprints.len() + installed.len());
        let own = builtin::ALL.iter().map(|own| (own.name, own.source, builtin::LICENCE, true));
        let bundled = bundled::ALL
            .iter()
            .map(|bundled| (bundled.name, bundled.source, bundled.licence, installed.iter().all(|other| other.name != bundled.name)));
        all.extend(own.chain(bundled).zip(fingerprints).map(|((name, source, licence, in_use), fingerprint)| Self {
            name: name.to_owned(),
            built_in: true,
            in_use,
            fingerprint: fingerprint.clone(),
            source: source.to_owned(),
            licence: Some(licence.to_owned()),
            file: None,
            templates: Vec::new(),
        }));
        all.extend(installed.into_iter().map(|installed| Self {
            in_use: builtin::ALL.iter().all(|own| own.name != installed.name),
            name: installed.name,
            built_in: false,
            fingerprint: installed.fingerprint,
            source: installed.source,
            licence: installed.licence,
            file: Some(installed.file),
            templates: installed.templates,
        }));
        Ok(all)
    }
}

/// Fingerprints of what is built in, in the order of [`builtin::ALL`] and then [`bundled::ALL`]. Taken from the tables that counts read, and
/// not written down beside them, so that they can't say one thing while the build holds another.
#[cfg_attr(
    not(any(feature = "vocab-qwen", feature = "vocab-glm")),
    expect(clippy::unnecessary_wraps, reason = "only what features build in can have an unknown form")
)]
fn fingerprints() -> Result<&'static [String]> {
    static TAKEN: OnceLock<Vec<String>> = OnceLock::new();
    if let Some(taken) = TAKEN.get() {
        return Ok(taken);
    }
    let mut taken = Vec::new();
    for own in &builtin::ALL {
        let tables = (own.tables)();
        taken.push(fingerprint((0..tables.limit()).filter_map(|id| Some((tables.token(id)?, id)))));
    }
    #[cfg(any(feature = "vocab-qwen", feature = "vocab-glm"))]
    for bundled in bundled::ALL {
        let mut tokens = bundled.ranks()?.tokens;
        tokens.sort_unstable_by_key(|(_, rank)| *rank);
        taken.push(fingerprint(tokens.iter().map(|(token, rank)| (token.as_slice(), *rank))));
    }
    Ok(TAKEN.get_or_init(|| taken))
}

/// xxh3-128 of tokens written as a `*.tiktoken` file.
fn fingerprint<'t>(tokens: impl Iterator<Item = (&'t [u8], u32)>) -> String {
    let mut hash = XxHash3_128::new();
    let mut line = String::new();
    for (token, rank) in tokens {
        line.clear();
        base64::engine::general_purpose::STANDARD.encode_string(token, &mut line);
        let _ = writeln!(line, " {rank}");
        hash.write(line.as_bytes());
    }
    format!("{:032x}", hash.finish_128())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_of_openais_are_those_of_the_published_files() {
        // xxh128sum of the files whose SHA-256 OpenAI's own library names, 2026-12-01.
        let published = [
            ("o200k_base", "dee5d4ced09a2db672a095e82ca109d6"),
            ("o200k_harmony", "dee5d4ced09a2db672a095e82ca109d6"),
            ("cl100k_base", "7cdb781bb5d59657aa5d7bf38900641a"),
            ("p50k_base", "1bfe2eadd49e9688f2d3fa62565e6e17"),
            ("r50k_base", "aa5ef69a716d8a563cb2fbe95939bd2d"),
        ];
        let all = PresentVocabulary::all(None).unwrap();
        let found: Vec<(&str, &str)> = all.iter().map(|one| (one.name.as_str(), one.fingerprint.as_str())).take(published.len()).collect();
        assert_eq!(found, published);
        assert!(all.iter().all(|one| one.built_in && one.in_use && one.licence.is_some() && one.file.is_none()));
    }

    #[test]
    fn a_rank_file_has_the_fingerprint_that_its_ranks_have() {
        let tokens: [(&[u8], u32); 3] = [(b"a", 0), (b"\xff", 1), (b"ab", 7)];
        let text = "YQ== 0\n/w== 1\nYWI= 7\n";
        assert_eq!(fingerprint(tokens.into_iter()), format!("{:032x}", XxHash3_128::oneshot(text.as_bytes())));
    }

    #[cfg(all(feature = "vocab-qwen", feature = "vocab-glm"))]
    #[test]
    fn what_features_build_in_is_listed_with_its_makers_licence() {
        let all = PresentVocabulary::all(None).unwrap();
        let bundled: Vec<_> = all[builtin::ALL.len()..].iter().map(|one| (one.name.as_str(), one.licence.as_deref())).collect();
        assert_eq!(bundled, [("qwen3", Some("Apache-2.0")), ("glm4", Some("MIT"))]);
        assert_ne!(all[all.len() - 1].fingerprint, all[all.len() - 2].fingerprint);
    }

    #[test]
    fn every_listed_name_is_found_and_by_the_one_in_use() {
        for one in PresentVocabulary::all(None).unwrap() {
            assert_eq!(super::super::Tokenizer::by_name_in(&one.name, &VocabularyStore::at("no-such-folder")).unwrap().name(), one.name);
        }
    }
}
