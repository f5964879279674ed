//! Fetching a model's tokenizer and templates from a hub, into the hub client's own cache (feature `hub`).
//!
//! Called by the command line before [`crate::VocabularyStore::add`], which checks what came. The client honours `HF_HOME`,
//! `HF_TOKEN`, `HF_ENDPOINT` and `HF_HUB_OFFLINE`; resuming a broken transfer, comparing checksums and naming files are done here:
//! the client does neither of the first two for plain files, and takes whatever names the hub gives for paths. A file gets its name in the
//! cache when it is whole and its checksum (which is its name) is right, never before. Nothing here is reached by a count.

use crate::error::{Error, Kind, Result};
use crate::limits;
use hf_hub::{HFClient, HFClientBuilder, HFError, HFRepository};
use sha2::Digest as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio_stream::StreamExt as _;

/// Files that a tokenizer may consist of. The first three are vocabularies, of which one must be there.
const WANTED: [&str; 7] = [
    "tokenizer.json",
    "tekken.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "chat_template.jinja",
    "chat_template.json",
    "special_tokens_map.json",
];
const VOCABULARIES: usize = 3;

/// Told how far a transfer is: the file's name, bytes done, bytes in all (0 when unknown).
pub type OnProgress = std::sync::Arc<dyn Fn(&str, u64, u64) + Send + Sync>;

/// What to fetch, and how.
#[derive(Clone, Default)]
pub struct HubRequest {
    /// Repository, `owner/name`.
    pub id: String,
    /// Branch, tag or commit; the main branch without it.
    pub revision: Option<String>,
    /// Take what the cache holds and ask nobody.
    pub offline: bool,
    /// Told of progress.
    pub progress: Option<OnProgress>,
}

impl std::fmt::Debug for HubRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HubRequest").field("id", &self.id).field("offline", &self.offline).finish_non_exhaustive()
    }
}

/// What a fetch gave.
#[derive(Debug)]
#[must_use]
pub struct HubFiles {
    folder: PathBuf,
    /// Files that nobody vouches for, because the hub named no checksum for them.
    unproven: Vec<Cached>,
}

/// A file of the cache.
#[derive(Debug)]
struct Cached {
    /// Its name in the snapshot.
    link: PathBuf,
    /// Where it lies, named by its checksum if the hub named one.
    blob: PathBuf,
    /// Whether this fetch brought it; else it was in the cache before.
    brought: bool,
}

impl HubFiles {
    /// The folder that the files lie in: a snapshot of the hub's cache.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Takes out of the cache what this fetch brought and nobody vouches for, because the files turned out to be of no use: the next try
    /// would take them for good. What was in the cache before stays, and what has its checksum is what the hub holds. Gives the error
    /// back, saying what was done, or what to delete.
    pub fn refused(self, error: Error) -> Error {
        if !matches!(error.kind(), Kind::InvalidInput | Kind::Corrupt | Kind::LimitExceeded) {
            return error;
        }
        let (brought, before): (Vec<Cached>, Vec<Cached>) = self.unproven.into_iter().partition(|file| file.brought);
        let removed = |file: &Cached| std::fs::remove_file(&file.link).and_then(|()| std::fs::remove_file(&file.blob));
        let (gone, stays): (Vec<Cached>, Vec<Cached>) = brought.into_iter().partition(|file| removed(file).is_ok());
        let error = if gone.is_empty() { error } else { error.context("the hub named no checksum, and what it sent is not kept") };
        let left: Vec<Cached> = before.into_iter().chain(stays).collect();
        if left.is_empty() {
            return error;
        }
        let names: Vec<String> = left.iter().map(|file| format!("`{}`", file.blob.display())).collect();
        error.context(format!("the cache holds files of which no checksum is known; to fetch them anew delete {}", names.join(", ")))
    }
}

/// How a transfer is told to end.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Longest silence.
    wait: Duration,
    /// Fewest bytes in that time.
    least: u64,
}

impl Pace {
    fn usual() -> Self {
        let seconds = std::env::var("HF_HUB_DOWNLOAD_TIMEOUT").ok().and_then(|seconds| seconds.parse().ok());
        let seconds = seconds.filter(|seconds| *seconds > 0).unwrap_or(limits::HUB_SECONDS);
        Self { wait: Duration::from_secs(seconds), least: limits::MIN_HUB_BYTES }
    }
}

/// Fetches a repository's tokenizer files and gives the folder that they lie in. Blocks; not for use inside an async runtime.
///
/// # Errors
/// [`Kind::NotFound`] when the repository or every vocabulary file is missing (or not cached, offline); [`Kind::Unavailable`] when
/// the hub can't be reached, falls silent or refuses; [`Kind::InvalidInput`] for an id that isn't `owner/name` and for a revision
/// that can't be one; [`Kind::Corrupt`] for a file of another checksum than was announced.
pub fn fetch(request: &HubRequest) -> Result<HubFiles> {
    fetch_from(request, HFClient::builder(), Pace::usual())
}

/// [`fetch`], from a hub and into a cache that a builder may name.
fn fetch_from(request: &HubRequest, client: HFClientBuilder, pace: Pace) -> Result<HubFiles> {
    let (owner, name) = hf_hub::split_id(&request.id);
    // Two dashes stand for the slash in the cache: `a--b/c` would lie where `a/b--c` does.
    if !plain(owner) || !plain(name) || request.id.contains("--") {
        return Err(Error::new(Kind::InvalidInput, "a hub id has the form `owner/name`: letters, digits, `.`, `-`, `_`"));
    }
    let revision = request.revision.as_deref().unwrap_or("main");
    if !revision.split('/').all(plain) {
        return Err(Error::new(Kind::InvalidInput, "a revision is a branch, a tag or a commit: letters, digits, `.`, `-`, `_`, `/`"));
    }
    let offline = request.offline || std::env::var_os("HF_HUB_OFFLINE").is_some_and(|value| !value.is_empty() && value != "0");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::new(Kind::Internal, "the transfer can't be started").caused_by(e))?;
    runtime.block_on(async {
        let hub = Hub::new(request, client, owner, name, revision, pace)?;
        let (mut folder, mut unproven) = (None, Vec::new());
        for (index, file) in WANTED.iter().enumerate() {
            if index == VOCABULARIES && folder.is_none() {
                break;
            }
            let Some(cached) = (if offline { hub.cached(file).await? } else { hub.whole(file).await? }) else { continue };
            folder = folder.or_else(|| cached.link.parent().map(PathBuf::from));
            if !proven(&request.id, &cached)? {
                unproven.push(cached);
            }
        }
        let folder = folder.ok_or_else(|| {
            let what = if offline { "the cache holds no vocabulary of" } else { "no vocabulary file in" };
            Error::new(Kind::NotFound, format!("{what} `{}`; looked for {}", request.id, WANTED[..VOCABULARIES].join(", ")))
        })?;
        Ok(HubFiles { folder, unproven })
    })
}

/// Whether a part of an id, a revision or an answer can be a file's name and nothing else.
fn plain(part: &str) -> bool {
    (1..=limits::MAX_HUB_NAME_BYTES).contains(&part.len())
        && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
        && !part.starts_with('.')
        && !part.contains("..")
}

/// What the hub says of a file. Its words become names of files and are checked before they do.
struct Told {
    etag: String,
    commit: String,
    /// None where the hub doesn't say.
    size: Option<u64>,
}

/// One repository of a hub.
struct Hub<'r> {
    request: &'r HubRequest,
    revision: &'r str,
    client: HFClient,
    repository: HFRepository<hf_hub::RepoTypeModel>,
    /// Asks without following redirects: what is wanted stands in the hub's own answer.
    asking: reqwest::Client,
    token: Option<String>,
    pace: Pace,
}

impl<'r> Hub<'r> {
    fn new(request: &'r HubRequest, client: HFClientBuilder, owner: &str, name: &str, revision: &'r str, pace: Pace) -> Result<Self> {
        let http = || {
            let agent = concat!("plimsoll/", env!("CARGO_PKG_VERSION"));
            reqwest::Client::builder().user_agent(agent).connect_timeout(pace.wait).read_timeout(pace.wait)
        };
        let failed = |e| Error::new(Kind::Internal, "the transfer can't be started").caused_by(e);
        let token = token();
        let mut builder = client.client(http().build().map_err(failed)?).retry_max_attempts(1);
        if let Some(token) = &token {
            builder = builder.token(token);
        }
        let client = builder.build().map_err(|e| refused(&request.id, e))?;
        let asking = http().redirect(reqwest::redirect::Policy::none()).build().map_err(failed)?;
        let repository = client.model(owner, name);
        Ok(Self { request, revision, client, repository, asking, token, pace })
    }

    fn folder(&self) -> PathBuf {
        self.client.cache_dir().join(format!("models--{}", self.request.id.replace('/', "--")))
    }

    fn unavailable(&self, why: impl std::fmt::Display) -> Error {
        Error::new(Kind::Unavailable, format!("fetching `{}`: {why}", self.request.id))
    }

    /// A file from the cache alone.
    async fn cached(&self, file: &str) -> Result<Option<Cached>> {
        let found = self.repository.download_file().filename(file).revision(self.revision).local_files_only(true).send().await;
        match found {
            Ok(link) => {
                let blob = std::fs::canonicalize(&link).unwrap_or_else(|_| link.clone());
                Ok(Some(Cached { link, blob, brought: false }))
            }
            Err(HFError::EntryNotFound { .. } | HFError::LocalEntryNotFound { .. }) => Ok(None),
            Err(e) => Err(refused(&self.request.id, e)),
        }
    }

    /// Asks for a file's checksum, commit and size; none where the repository has no such file.
    async fn told(&self, file: &str) -> Result<Option<Told>> {
        let (endpoint, revision) = (self.client.endpoint(), self.revision.replace('/', "%2F"));
        let mut url = reqwest::Url::parse(&format!("{endpoint}/{}/resolve/{revision}/{file}", self.request.id))
            .map_err(|e| self.unavailable("the hub's address is not a URL").caused_by(e))?;
        let mut tries = 0;
        loop {
            tries += 1;
            let mut asked = self.asking.head(url.clone());
            if let Some(token) = &self.token {
                asked = asked.bearer_auth(token);
            }
            let answer = match asked.send().await {
                Ok(answer) => answer,
                Err(e) if e.is_timeout() => return Err(self.unavailable("the hub does not answer in time").caused_by(e)),
                Err(e) => return Err(self.unavailable("the hub can't be reached").caused_by(e)),
            };
            let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok());
            let status = answer.status().as_u16();
            // A repository that is spelled otherwise. Only on the same host, which has the token already.
            if let Some(place) =
                header("location").filter(|place| (300..400).contains(&status) && place.starts_with('/') && !place.starts_with("//"))
            {
                if tries > limits::MAX_HUB_TRIES {
                    return Err(self.unavailable("the hub redirects without end"));
                }
                url = url.join(place).map_err(|e| self.unavailable("the hub redirects to what is no URL").caused_by(e))?;
                continue;
            }
            match (status, header("x-error-code")) {
                (200..=399, _) => {}
                (404 | 401, Some("RepoNotFound")) => {
                    let why = format!("fetching `{}`: no such repository, or it needs a token (HF_TOKEN)", self.request.id);
                    return Err(Error::new(Kind::NotFound, why));
                }
                (404, Some("RevisionNotFound")) => {
                    return Err(Error::new(Kind::NotFound, format!("fetching `{}`: no such revision", self.request.id)));
                }
                (404, _) => return Ok(None),
                (401 | 403, _) => return Err(self.unavailable("the hub wants a token with access (HF_TOKEN)")),
                (429 | 500..600, _) if tries < limits::MAX_HUB_TRIES => {
                    tokio::time::sleep(Duration::from_millis(100 << tries)).await;
                    continue;
                }
                (429, _) => return Err(self.unavailable("the hub asks to slow down; try again later")),
                _ => return Err(self.unavailable(format_args!("the hub answers with status {status}"))),
            }
            let etag = header("x-linked-etag").or_else(|| header("etag")).map(|etag| etag.trim_start_matches("W/").trim_matches('"'));
            let (Some(etag), Some(commit)) = (etag.filter(|etag| plain(etag)), header("x-repo-commit").filter(|commit| plain(commit)))
            else {
                return Err(self.unavailable("what answers is no hub, or a damaged one: it names no usable checksum (ETag) and commit"));
            };
            let size = header("x-linked-size").or_else(|| header("content-length").filter(|_| status < 300));
            return Ok(Some(Told { etag: etag.to_owned(), commit: commit.to_owned(), size: size.and_then(|size| size.parse().ok()) }));
        }
    }

    /// A file in the cache, fetched where it isn't there yet, going on where an earlier transfer broke off.
    async fn whole(&self, file: &str) -> Result<Option<Cached>> {
        let Some(told) = self.told(file).await? else { return Ok(None) };
        let cap = limits::MAX_VOCABULARY_BYTES;
        if let Some(size) = told.size.filter(|size| *size > cap) {
            let why = format!("`{file}` of `{}` has {size} bytes; at most {cap} are taken", self.request.id);
            return Err(Error::new(Kind::LimitExceeded, why));
        }
        let folder = self.folder();
        let blob = folder.join("blobs").join(&told.etag);
        let failed =
            |e: std::io::Error| Error::new(Kind::Unavailable, format!("`{}` can't be written: {}", blob.display(), e.kind())).caused_by(e);
        let brought = !blob.exists() && self.transfer(file, &told, &blob).await?;
        // As the client lays its cache out.
        let link = folder.join("snapshots").join(&told.commit).join(file);
        for made in [link.parent(), folder.join("refs").join(self.revision).parent()].into_iter().flatten() {
            std::fs::create_dir_all(made).map_err(failed)?;
        }
        if self.revision != told.commit {
            std::fs::write(folder.join("refs").join(self.revision), &told.commit).map_err(failed)?;
        }
        let _ = std::fs::remove_file(&link);
        point(&told.etag, &blob, &link).map_err(failed)?;
        Ok(Some(Cached { link, blob, brought }))
    }

    /// Brings a file's content into the cache. It gets its name when it is whole and its checksum is right. `false` when another process
    /// was faster.
    async fn transfer(&self, file: &str, told: &Told, blob: &Path) -> Result<bool> {
        let id = &self.request.id;
        let partial = PathBuf::from(format!("{}.incomplete", blob.display()));
        let failed = |e: std::io::Error| {
            Error::new(Kind::Unavailable, format!("`{}` can't be written: {}", partial.display(), e.kind())).caused_by(e)
        };
        if let Some(blobs) = blob.parent() {
            std::fs::create_dir_all(blobs).map_err(failed)?;
        }
        let mut out = std::fs::OpenOptions::new().create(true).write(true).truncate(false).open(&partial).map_err(failed)?;
        // Another process may be at the same file; where locks are not to be had, the checksum tells.
        let _ = out.lock();
        if blob.exists() {
            return Ok(false);
        }
        let (size, most) = (told.size, told.size.unwrap_or(limits::MAX_VOCABULARY_BYTES));
        let mut have = out.metadata().map_err(failed)?.len();
        if have > most || size.is_none() {
            have = 0;
        }
        if size != Some(have) {
            let asked = (have > 0).then_some(have..most);
            let opened =
                self.repository.download_file_stream().filename(file).revision(told.commit.clone()).maybe_range(asked).send().await;
            let (length, mut stream) = opened.map_err(|e| refused(id, e))?;
            // A server that does not know of ranges sends the whole file again.
            if have > 0 && length != Some(most - have) {
                have = 0;
            }
            out.set_len(have).map_err(failed)?;
            std::io::Seek::seek(&mut out, std::io::SeekFrom::End(0)).map_err(failed)?;
            let (mut since, mut then) = (Instant::now(), have);
            loop {
                let stopped = |what: &str, have: u64| {
                    self.unavailable(format_args!("the hub {what} at {have} bytes of `{file}`; the next try goes on there"))
                };
                let next = tokio::time::timeout(self.pace.wait, stream.next()).await;
                let Some(chunk) = next.map_err(|_| stopped("fell silent", have))? else { break };
                let Ok(chunk) = chunk else { break };
                have = have.saturating_add(chunk.len() as u64);
                if have > most {
                    break;
                }
                std::io::Write::write_all(&mut out, &chunk).map_err(failed)?;
                if let Some(tell) = &self.request.progress {
                    tell(file, have, size.unwrap_or(0));
                }
                if since.elapsed() > self.pace.wait {
                    if have - then < self.pace.least && size.is_none_or(|size| have < size) {
                        return Err(stopped("sends next to nothing", have));
                    }
                    (since, then) = (Instant::now(), have);
                }
            }
            out.sync_all().map_err(failed)?;
            if size.is_some_and(|size| have < size) {
                let why = format!("the hub broke off `{file}` of `{id}` after {have} of {most} bytes; the next try goes on there");
                return Err(Error::new(Kind::Unavailable, why));
            }
        }
        if have > most || !matches_name(&partial, &told.etag).map_err(failed)? {
            let _ = std::fs::remove_file(&partial);
            return Err(if have > most && size.is_none() {
                Error::new(
                    Kind::LimitExceeded,
                    format!("`{file}` of `{id}` does not end after {most} bytes, which is the most that is taken"),
                )
            } else {
                damaged(id, file)
            });
        }
        std::fs::rename(&partial, blob).map_err(failed)?;
        Ok(true)
    }
}

/// The user's token, found as the hub's own tools find it.
fn token() -> Option<String> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let stored = |path: PathBuf| Some(std::fs::read_to_string(path).ok()?.trim().to_owned()).filter(|token| !token.is_empty());
    if set("HF_HUB_DISABLE_IMPLICIT_TOKEN").is_some() {
        return None;
    }
    set("HF_TOKEN").or_else(|| stored(set("HF_TOKEN_PATH")?.into())).or_else(|| {
        let home = set("HF_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(PathBuf::from(set("XDG_CACHE_HOME")?).join("huggingface")));
        stored(home.or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache/huggingface")))?.join("token"))
    })
}

/// Makes a name in a snapshot for what lies among the blobs.
#[cfg(unix)]
fn point(etag: &str, _blob: &Path, link: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(Path::new("../../blobs").join(etag), link)
}

#[cfg(not(unix))]
fn point(_etag: &str, blob: &Path, link: &Path) -> std::io::Result<()> {
    std::fs::copy(blob, link).map(|_| ())
}

/// Compares a file of the cache with its checksum; `false` where none is known.
fn proven(id: &str, file: &Cached) -> Result<bool> {
    let name = file.blob.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !is_checksum(name) {
        return Ok(false);
    }
    if matches_name(&file.blob, name).unwrap_or(false) {
        return Ok(true);
    }
    // Both go, so that the next try fetches it anew.
    let _ = std::fs::remove_file(&file.link);
    let _ = std::fs::remove_file(&file.blob);
    Err(damaged(id, &file.link.file_name().unwrap_or_default().to_string_lossy()))
}

/// Whether a name is a checksum: SHA-256, or Git's SHA-1.
fn is_checksum(name: &str) -> bool {
    matches!(name.len(), 40 | 64) && name.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Whether a file has the checksum that it is named by. Names of any other kind say nothing.
fn matches_name(path: &Path, name: &str) -> std::io::Result<bool> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    if !is_checksum(name) {
        return Ok(true);
    }
    Ok(match name.len() {
        64 => hex(&sha2::Sha256::digest(std::fs::read(path)?)) == name.to_ascii_lowercase(),
        40 => {
            let content = std::fs::read(path)?;
            let mut hash = sha1::Sha1::new();
            hash.update(format!("blob {}\0", content.len()));
            hash.update(&content);
            hex(&hash.finalize()) == name.to_ascii_lowercase()
        }
        _ => true,
    })
}

fn damaged(id: &str, file: &str) -> Error {
    Error::new(Kind::Corrupt, format!("`{file}` of `{id}` came with another checksum than the hub announced; nothing of it is kept"))
}

fn refused(id: &str, error: HFError) -> Error {
    let (kind, why) = match &error {
        HFError::RepoNotFound { .. } => (Kind::NotFound, "no such repository, or it needs a token (HF_TOKEN)"),
        HFError::RevisionNotFound { .. } => (Kind::NotFound, "no such revision"),
        HFError::AuthRequired { .. } | HFError::Forbidden { .. } => (Kind::Unavailable, "the hub wants a token with access (HF_TOKEN)"),
        HFError::RateLimited { .. } => (Kind::Unavailable, "the hub asks to slow down; try again later"),
        HFError::InvalidParameter(_) => (Kind::InvalidInput, "the hub client refuses the name"),
        _ => (Kind::Unavailable, "the hub can't be reached or broke off; what was fetched is kept and the next try resumes"),
    };
    Error::new(kind, format!("fetching `{id}`: {why}")).caused_by(error)
}

#[cfg(test)]
#[path = "hub_tests.rs"]
mod tests;
