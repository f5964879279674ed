//! Vocabularies that are not built in: a folder each under the user's data folder, with a manifest.
//!
//! [`super::Tokenizer::by_name`] asks here last; the command line and the hub client fill it. Reads and writes
//! local files only. Guards that a folder is either whole or absent: everything is built beside it, checked, and moved
//! into place by one rename, one process at a time. Loaded engines are kept for the life of the process.

use super::engine::Engine;
use super::folder::{self, Found, read, unreadable};
use super::make::{self, Form, Made};
use super::prepared::{self, Source};
use super::{Tokenizer, known};
use crate::error::{Error, Kind, Result};
use crate::limits;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::SystemTime;
use twox_hash::XxHash3_128;

const MANIFEST: &str = "manifest.json";
/// A `tokenizer.json` rewritten so that the `tokenizers` crate loads it fast.
const CANONICAL: &str = "prepared.json";

/// What form a vocabulary's file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum VocabularyKind {
    /// Hugging Face `tokenizer.json`.
    TokenizerJson,
    /// `base64 rank` lines (`*.tiktoken`, Meta's `tokenizer.model`).
    Ranks,
    /// Mistral's `tekken.json`.
    Tekken,
}

/// One vocabulary of the store, as its manifest describes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Vocabulary {
    /// Name, as [`Tokenizer::by_name`] takes it.
    pub name: String,
    /// Form of the file.
    pub kind: VocabularyKind,
    /// The file: a name in the vocabulary's folder, or an absolute path where it was added by reference.
    pub file: PathBuf,
    /// xxh3-128 of the file, in hex.
    pub fingerprint: String,
    /// Where it came from, in the words of whoever added it.
    pub source: String,
    /// Licence, if named.
    pub licence: Option<String>,
    /// Chat templates and tokenizer settings kept beside the vocabulary, by file name.
    pub templates: Vec<String>,
    /// Whether the hot core serves it; what it can't serve exactly goes through the `tokenizers` crate.
    #[serde(default)]
    pub hot: bool,
    /// The form that loads fast where the core doesn't serve it, with its own fingerprint.
    prepared: Option<(String, String)>,
    /// Split of a rank file.
    split: Option<String>,
    /// Why the core doesn't serve the file, and the [`make::READING`] that found so; another one looks again.
    #[serde(default)]
    not_hot: Option<(u32, String)>,
}

impl Vocabulary {
    /// The same, served by the form that it was brought into.
    fn with(self, form: Option<&Form>) -> Self {
        let hot = matches!(form, Some(Form::Tables(_)));
        let (prepared, not_hot) = match form {
            Some(Form::Canonical { json, why }) => {
                (Some((CANONICAL.to_owned(), fingerprint_of(json))), Some((make::READING, (*why).to_owned())))
            }
            _ => (None, None),
        };
        Self { hot, prepared, not_hot, ..self }
    }

    /// Why the core doesn't serve the file, where this version would find the same.
    fn why_not_hot(&self) -> Option<&str> {
        self.not_hot.as_ref().filter(|(reading, _)| *reading == make::READING).map(|(_, why)| why.as_str())
    }
}

impl Form {
    fn file(&self) -> &'static str {
        match self {
            Self::Tables(_) => prepared::FILE,
            Self::Canonical { .. } => CANONICAL,
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Tables(bytes) => bytes,
            Self::Canonical { json, .. } => json.as_bytes(),
        }
    }
}

/// What [`VocabularyStore::add`] may be told.
#[derive(Clone, Debug, Default)]
pub struct AddOptions {
    /// Where the files came from; the folder's path when empty.
    pub source: String,
    /// Their licence.
    pub licence: Option<String>,
    /// Refer to the vocabulary's file instead of copying it.
    pub by_reference: bool,
    /// Named split of a rank file, for vocabularies that are not known by name.
    pub split: Option<String>,
}

/// A folder of vocabularies.
#[derive(Clone, Debug)]
pub struct VocabularyStore {
    root: PathBuf,
}

/// Engines loaded by this process, by their folder.
static LOADED: LazyLock<Mutex<HashMap<PathBuf, Arc<dyn Engine>>>> = LazyLock::new(Mutex::default);

/// What could not be loaded and won't be as long as its files stay as they are, by its folder.
static REFUSED: LazyLock<Mutex<HashMap<PathBuf, Refusal>>> = LazyLock::new(Mutex::default);

/// An error that reading the same files again would give again.
struct Refusal {
    seen: Seen,
    kind: Kind,
    message: String,
}

/// Which files a vocabulary had: the manifest's and the vocabulary's own, told by length and time of the last change.
#[derive(PartialEq, Eq)]
struct Seen([(u64, SystemTime); 2]);

impl Seen {
    fn of(folder: &Path, vocabulary: &Vocabulary) -> Option<Self> {
        let file = |path: PathBuf| std::fs::metadata(path).and_then(|seen| Ok((seen.len(), seen.modified()?))).ok();
        Some(Self([file(folder.join(MANIFEST))?, file(folder.join(&vocabulary.file))?]))
    }
}

/// The tokenizer of a vocabulary that isn't built in.
pub(super) fn find(name: &str) -> Result<Tokenizer> {
    VocabularyStore::user()?.load(name)
}

impl VocabularyStore {
    /// A store in a folder of the caller's. The folder need not exist yet.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The user's store: `$PLIMSOLL_HOME/models`, else `$XDG_DATA_HOME/plimsoll/models`, else `~/.local/share/plimsoll/models`.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when none of these variables is set.
    pub fn user() -> Result<Self> {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        set("PLIMSOLL_HOME")
            .or_else(|| set("XDG_DATA_HOME").map(|data| data.join("plimsoll")))
            .or_else(|| set("HOME").map(|home| home.join(".local/share/plimsoll")))
            .map(|home| Self::at(home.join("models")))
            .ok_or_else(|| {
                Error::new(Kind::Unavailable, "no folder for vocabularies: none of PLIMSOLL_HOME, XDG_DATA_HOME and HOME is set")
            })
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// All vocabularies present, by name. A folder without a readable manifest is left out.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when the folder exists and can't be read.
    pub fn list(&self) -> Result<Vec<Vocabulary>> {
        let entries = match std::fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(unreadable(&self.root, e)),
        };
        let mut names: Vec<String> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort_unstable();
        Ok(names.iter().filter(|name| check_name(name).is_ok()).filter_map(|name| self.get(name).ok()).collect())
    }

    /// One vocabulary's manifest.
    ///
    /// # Errors
    /// [`Kind::NotFound`] when it isn't present, [`Kind::Corrupt`] when its manifest can't be read.
    pub fn get(&self, name: &str) -> Result<Vocabulary> {
        let name = known::canonical(name);
        check_name(name)?;
        let path = self.folder(name).join(MANIFEST);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Err(Self::missing(name)),
            Err(e) => return Err(unreadable(&path, e)),
        };
        let damaged = || Error::new(Kind::Corrupt, format!("the manifest of vocabulary `{name}` is damaged; add the vocabulary anew"));
        let vocabulary: Vocabulary = serde_json::from_str(&text).map_err(|e| damaged().caused_by(e))?;
        // What is known of a vocabulary (its normalizer) is found by its name.
        if vocabulary.name == name { Ok(vocabulary) } else { Err(damaged()) }
    }

    /// The folder in which a vocabulary and the templates beside it lie.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.root.join(known::canonical(name))
    }

    /// Loads a vocabulary, once per process. One that can't be loaded is not read again until its files change.
    ///
    /// # Errors
    /// [`Kind::NotFound`] when it isn't present, [`Kind::Corrupt`] when its file isn't the one that was added,
    /// [`Kind::Unsupported`] when this build lacks the engine.
    pub fn load(&self, name: &str) -> Result<Tokenizer> {
        let name = known::canonical(name);
        check_name(name)?;
        let folder = self.folder(name);
        if let Some(engine) = LOADED.lock().unwrap_or_else(PoisonError::into_inner).get(&folder) {
            return Ok(Tokenizer::from_engine(Arc::clone(engine)));
        }
        let vocabulary = self.get(name)?;
        let seen = Seen::of(&folder, &vocabulary);
        if let Some(refused) = REFUSED.lock().unwrap_or_else(PoisonError::into_inner).get(&folder)
            && seen.as_ref() == Some(&refused.seen)
        {
            return Err(Error::new(refused.kind, refused.message.clone()));
        }
        let engine = Self::load_files(&folder, &vocabulary).or_else(|e| match self.get(name) {
            // Replaced since its manifest was read.
            Ok(now) if (&now.file, &now.fingerprint) != (&vocabulary.file, &vocabulary.fingerprint) => Self::load_files(&folder, &now),
            _ => Err(e),
        });
        let engine = engine.inspect_err(|e| {
            let stays = matches!(e.kind(), Kind::Unsupported | Kind::InvalidInput | Kind::Corrupt | Kind::LimitExceeded);
            if let Some(seen) = seen.filter(|_| stays) {
                let refusal = Refusal { seen, kind: e.kind(), message: e.to_string() };
                REFUSED.lock().unwrap_or_else(PoisonError::into_inner).insert(folder.clone(), refusal);
            }
        })?;
        LOADED.lock().unwrap_or_else(PoisonError::into_inner).insert(folder, Arc::clone(&engine));
        Ok(Tokenizer::from_engine(engine))
    }

    fn load_files(folder: &Path, vocabulary: &Vocabulary) -> Result<Arc<dyn Engine>> {
        // What only the crate serves needs no reading where there is no crate.
        if let Some(why) = vocabulary.why_not_hot()
            && !make::HAS_CRATE
        {
            return Err(make::needs_crate(&vocabulary.name, why));
        }
        match Self::load_prepared(folder, vocabulary) {
            Some(engine) => Ok(engine),
            None => Self::load_source(folder, vocabulary),
        }
    }

    /// The engine from its prepared form, when that is there and whole.
    fn load_prepared(folder: &Path, vocabulary: &Vocabulary) -> Option<Arc<dyn Engine>> {
        if let Some((file, fingerprint)) = &vocabulary.prepared {
            // What an earlier version left to the crate the core may serve now.
            vocabulary.why_not_hot()?;
            let text = read(&folder.join(file)).ok().filter(|text| fingerprint_of(text) == *fingerprint)?;
            return make::from_canonical(&vocabulary.name, &text).ok();
        }
        let source = Source::of(&vocabulary.fingerprint, &folder.join(&vocabulary.file), vocabulary.file.is_absolute())?;
        let (tables, recipe) = prepared::read(folder, MANIFEST, &source)?;
        Some(make::engine(&vocabulary.name, tables, recipe))
    }

    /// The engine from the vocabulary's own file, with its prepared form written again where that can be.
    fn load_source(folder: &Path, vocabulary: &Vocabulary) -> Result<Arc<dyn Engine>> {
        let name = &vocabulary.name;
        let path = folder.join(&vocabulary.file);
        let text = read(&path)?;
        if fingerprint_of(&text) != vocabulary.fingerprint {
            return Err(Error::new(Kind::Corrupt, format!("the file of vocabulary `{name}` is not the one that was added; add it anew")));
        }
        let source = Source::of(&vocabulary.fingerprint, &path, vocabulary.file.is_absolute());
        let Made { engine, prepared } =
            make::make(name, vocabulary.kind, &text, vocabulary.split.as_deref(), vocabulary.hot, source.as_ref())
                .map_err(|e| e.context(format!("loading vocabulary `{name}`")))?;
        let changed = vocabulary.clone().with(prepared.as_ref());
        // A store that can't be written to serves all the same, only slower.
        let written = match &prepared {
            // Told by a checksum when it is torn, so that nobody waits for the disk.
            Some(form) => replace(folder, form.file(), form.bytes(), false),
            None => Ok(()),
        };
        if written.is_ok()
            && (&changed.hot, &changed.prepared, &changed.not_hot) != (&vocabulary.hot, &vocabulary.prepared, &vocabulary.not_hot)
            && let Ok(manifest) = serde_json::to_vec_pretty(&changed)
            && replace(folder, MANIFEST, &manifest, true).is_ok()
            && changed.prepared.is_none()
        {
            let _ = std::fs::remove_file(folder.join(CANONICAL));
        }
        Ok(engine)
    }

    /// Adds (or replaces) a vocabulary from a model's folder: a plain one, or a repository of a Hugging Face cache.
    ///
    /// The file is loaded and tried first; for a vocabulary known by name it must give the known ids.
    ///
    /// # Errors
    /// [`Kind::NotFound`] when the folder holds no vocabulary, [`Kind::InvalidInput`] when the file is damaged or another
    /// vocabulary's, [`Kind::LimitExceeded`] when it is over the cap, [`Kind::Unavailable`] when files can't be written.
    pub fn add(&self, name: &str, from: &Path, options: &AddOptions) -> Result<Vocabulary> {
        let name = known::canonical(name);
        check_name(name)?;
        let doing = |e: Error| e.context(format!("adding vocabulary `{name}`"));
        let Found { path, kind, text, made: converted, companions } = folder::read_folder(from).map_err(doing)?;
        // What was made of a file can't be referred to.
        let outside = options.by_reference && converted.is_none();
        let split = options.split.clone().or_else(|| known::find(name).and_then(|known| known.split.clone()));
        let fingerprint = fingerprint_of(&text);
        let source = Source::of(&fingerprint, &path, outside);
        let made = make::make(name, kind, &text, split.as_deref(), false, source.as_ref()).map_err(doing)?;
        prove(name, made.engine.as_ref()).map_err(doing)?;

        let staging = Staging::new(&self.root, name)?;
        let file = if outside {
            std::path::absolute(&path).map_err(|e| unreadable(&path, e))?
        } else {
            let file = converted.map_or_else(|| PathBuf::from(path.file_name().unwrap_or_default()), PathBuf::from);
            staging.write(&file, text.as_bytes())?;
            file
        };
        for (name, content) in &companions {
            staging.write(Path::new(name), content.as_bytes())?;
        }
        if let Some(form) = &made.prepared {
            staging.write(Path::new(form.file()), form.bytes())?;
        }
        let vocabulary = Vocabulary {
            name: name.to_owned(),
            kind,
            file,
            fingerprint,
            source: if options.source.is_empty() { path.parent().unwrap_or(from).display().to_string() } else { options.source.clone() },
            licence: options.licence.clone(),
            templates: companions.into_iter().map(|(name, _)| name).collect(),
            hot: false,
            prepared: None,
            split: (kind == VocabularyKind::Ranks).then_some(split).flatten(),
            not_hot: None,
        }
        .with(made.prepared.as_ref());
        let manifest = serde_json::to_vec_pretty(&vocabulary)
            .map_err(|e| Error::new(Kind::Internal, "a manifest that can't be written as JSON").caused_by(e))?;
        staging.write(Path::new(MANIFEST), &manifest)?;
        let folder = self.folder(name);
        staging.publish(&folder)?;
        forget(&folder);
        Ok(vocabulary)
    }

    /// Removes a vocabulary and what lies beside it.
    ///
    /// # Errors
    /// [`Kind::NotFound`] when it isn't present.
    pub fn remove(&self, name: &str) -> Result<()> {
        let name = known::canonical(name);
        check_name(name)?;
        let folder = self.folder(name);
        if !folder.is_dir() {
            let present = self.list()?.into_iter().map(|vocabulary| vocabulary.name);
            let near = present.filter(|present| strsim::jaro_winkler(present, name) > 0.8);
            return Err(Error::new(Kind::NotFound, format!("vocabulary `{name}` is not installed")).suggest(near));
        }
        // Out of sight at once or not at all, so that nobody meets half of it. What can't be removed then is cleared away by the next add.
        let aside = self.root.join(format!(".{name}.{}.partial", std::process::id()));
        std::fs::rename(&folder, &aside).map_err(|e| unreadable(&folder, e))?;
        forget(&folder);
        let _ = std::fs::remove_dir_all(&aside);
        Ok(())
    }

    fn missing(name: &str) -> Error {
        if known::find(name).is_some() {
            let how = format!("vocabulary `{name}` is not installed; add its files with `plimsoll models add {name} --dir PATH`");
            return Error::new(Kind::NotFound, how);
        }
        let near = known::names().filter(|known| strsim::jaro_winkler(known, name) > 0.8).map(str::to_owned);
        Error::new(Kind::NotFound, format!("unknown tokenizer `{name}`")).suggest(near)
    }
}

/// Forgets what this process knew of a folder.
fn forget(folder: &Path) {
    LOADED.lock().unwrap_or_else(PoisonError::into_inner).remove(folder);
    REFUSED.lock().unwrap_or_else(PoisonError::into_inner).remove(folder);
}

/// Names become folders: lower-case letters, digits, `.`, `-` and `_`, not starting with a dot.
fn check_name(name: &str) -> Result<()> {
    let fine = (1..=limits::MAX_VOCABULARY_NAME).contains(&name.len())
        && !name.starts_with('.')
        && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'_'));
    if fine {
        return Ok(());
    }
    let shown: String = name.chars().take(limits::MAX_VOCABULARY_NAME).collect();
    Err(Error::new(Kind::NotFound, format!("unknown tokenizer `{shown}`: names are lower-case letters, digits, `.`, `-`, `_`")))
}

/// Tries an engine before it is trusted: text must come back, and a vocabulary known by name must give its known ids.
pub(super) fn prove(name: &str, engine: &dyn Engine) -> Result<()> {
    let probe = known::probe();
    let ids = engine.encode(probe);
    if let Some(expected) = known::find(name).and_then(|known| known.probe_ids.as_ref())
        && ids != *expected
    {
        return Err(Error::new(Kind::InvalidInput, format!("these are not the files of `{name}`: they give other ids for a known text")));
    }
    match engine.decode(&ids) {
        Ok(bytes) if bytes == probe.as_bytes() => Ok(()),
        _ => Err(Error::new(Kind::InvalidInput, "the vocabulary does not give a plain text back; it is damaged or of an unknown make")),
    }
}

fn fingerprint_of(text: &str) -> String {
    format!("{:032x}", XxHash3_128::oneshot(text.as_bytes()))
}

/// Puts a file into a vocabulary's folder at once, or not at all; `lasting` also where the machine stops just then.
fn replace(folder: &Path, file: &str, bytes: &[u8], lasting: bool) -> std::io::Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let partial = folder.join(format!(".{file}.{}.{number}.partial", std::process::id()));
    let written = File::create(&partial).and_then(|mut out| {
        std::io::Write::write_all(&mut out, bytes)?;
        if lasting {
            out.sync_all()?;
        }
        std::fs::rename(&partial, folder.join(file))
    });
    if written.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    written
}

/// A folder under construction; removed unless published.
struct Staging {
    path: PathBuf,
    /// Keeps others from publishing, while it lives; none where the file system can't.
    _alone: Option<File>,
}

impl Staging {
    /// Waits for others that add to the same store, and clears away what those left that were ended meanwhile.
    fn new(root: &Path, name: &str) -> Result<Self> {
        // A second one of this process where there is no lock. The leading dot keeps it out of listings.
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = root.join(format!(".{name}.{}-{number}.partial", std::process::id()));
        std::fs::create_dir_all(root).map_err(|e| unreadable(root, e))?;
        let alone = File::open(root).ok().filter(|root| root.lock().is_ok());
        if alone.is_some() {
            clear_leftovers(root);
        }
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).map_err(|e| unreadable(&path, e))?;
        Ok(Self { path, _alone: alone })
    }

    fn write(&self, file: &Path, bytes: &[u8]) -> Result<()> {
        let path = self.path.join(file);
        let written = File::create(&path).and_then(|mut out| {
            std::io::Write::write_all(&mut out, bytes)?;
            out.sync_all()
        });
        written.map_err(|e| unreadable(&path, e))
    }

    /// Moves the folder into place. An older one changes places with it at once where the system can, so that there is always
    /// one; else it is moved aside first.
    fn publish(self, folder: &Path) -> Result<()> {
        if !folder.exists() {
            return std::fs::rename(&self.path, folder).map_err(|e| unreadable(folder, e));
        }
        if exchange(&self.path, folder) {
            // What is under the old path now goes with `self`.
            return Ok(());
        }
        let old = self.path.with_extension("old");
        std::fs::rename(folder, &old).map_err(|e| unreadable(folder, e))?;
        if let Err(e) = std::fs::rename(&self.path, folder) {
            let _ = std::fs::rename(&old, folder);
            return Err(unreadable(folder, e));
        }
        let _ = std::fs::remove_dir_all(&old);
        Ok(())
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn exchange(new: &Path, old: &Path) -> bool {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, new, CWD, old, RenameFlags::EXCHANGE).is_ok()
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn exchange(_new: &Path, _old: &Path) -> bool {
    false
}

/// Removes folders that ended processes left half done, and moves back what one had just moved aside. Only for who holds the lock.
fn clear_leftovers(root: &Path) {
    let entries = std::fs::read_dir(root).into_iter().flatten().filter_map(std::io::Result::ok);
    for path in entries.map(|entry| entry.path()) {
        let Some(hidden) = path.file_name().and_then(|name| name.to_str()?.strip_prefix('.')) else { continue };
        let old = hidden.strip_suffix(".old");
        let Some((name, _)) = old.or_else(|| hidden.strip_suffix(".partial")).and_then(|hidden| hidden.rsplit_once('.')) else { continue };
        let folder = root.join(name);
        if old.is_some() && !folder.exists() && check_name(name).is_ok() {
            let _ = std::fs::rename(&path, folder);
        } else {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
