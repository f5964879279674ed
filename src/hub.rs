//! Fetching a model's tokenizer and templates from a hub, into the hub client's own cache (feature `hub`).
//!
//! Called by the command line before [`crate::VocabularyStore::add`], which checks what came. The client honours `HF_HOME`,
//! `HF_TOKEN`, `HF_ENDPOINT` and `HF_HUB_OFFLINE`; resuming a broken transfer, comparing checksums and naming files are done here:
//! the client does neither of the first two for plain files, and takes whatever names the hub gives for paths. A file gets its name in the
//! cache when it is whole and its checksum (which is its name) is right, never before. Nothing here is reached by a count.

use crate::error::{Error, Kind, Result};
use crate::limits;
use hf_hub::{HFClient, HFError, HFRepository};
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

/// Fetches a repository's tokenizer files and gives the folder that they lie in. Blocks; not for use inside an async runtime.
///
/// # Errors
/// [`Kind::NotFound`] when the repository or every vocabulary file is missing (or not cached, offline); [`Kind::Unavailable`] when
/// the hub can't be reached, falls silent or refuses; [`Kind::InvalidInput`] for an id that isn't `owner/name` and for a revision
/// that can't be one; [`Kind::Corrupt`] for a file of another checksum than was announced.
pub fn fetch(request: &HubRequest) -> Result<PathBuf> {
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
        let hub = Hub::new(request, owner, name, revision)?;
        let mut folder: Option<PathBuf> = None;
        for (index, file) in WANTED.iter().enumerate() {
            if index == VOCABULARIES && folder.is_none() {
                break;
            }
            let Some(path) = (if offline { hub.cached(file).await? } else { hub.whole(file).await? }) else { continue };
            proven(&request.id, &path)?;
            folder = folder.or_else(|| path.parent().map(PathBuf::from));
        }
        folder.ok_or_else(|| {
            let what = if offline { "the cache holds no vocabulary of" } else { "no vocabulary file in" };
            Error::new(Kind::NotFound, format!("{what} `{}`; looked for {}", request.id, WANTED[..VOCABULARIES].join(", ")))
        })
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
    /// Longest silence.
    wait: Duration,
}

impl<'r> Hub<'r> {
    fn new(request: &'r HubRequest, owner: &str, name: &str, revision: &'r str) -> Result<Self> {
        let seconds = std::env::var("HF_HUB_DOWNLOAD_TIMEOUT").ok().and_then(|seconds| seconds.parse().ok());
        let wait = Duration::from_secs(seconds.filter(|seconds| *seconds > 0).unwrap_or(limits::HUB_SECONDS));
        let http = || {
            let agent = concat!("plimsoll/", env!("CARGO_PKG_VERSION"));
            reqwest::Client::builder().user_agent(agent).connect_timeout(wait).read_timeout(wait)
        };
        let failed = |e| Error::new(Kind::Internal, "the transfer can't be started").caused_by(e);
        let token = token();
        let mut builder = HFClient::builder().client(http().build().map_err(failed)?).retry_max_attempts(1);
        if let Some(token) = &token {
            builder = builder.token(token);
        }
        let client = builder.build().map_err(|e| refused(&request.id, e))?;
        let asking = http().redirect(reqwest::redirect::Policy::none()).build().map_err(failed)?;
        let repository = client.model(owner, name);
        Ok(Self { request, revision, client, repository, asking, token, wait })
    }

    fn folder(&self) -> PathBuf {
        self.client.cache_dir().join(format!("models--{}", self.request.id.replace('/', "--")))
    }

    fn unavailable(&self, why: impl std::fmt::Display) -> Error {
        Error::new(Kind::Unavailable, format!("fetching `{}`: {why}", self.request.id))
    }

    /// A file from the cache alone.
    async fn cached(&self, file: &str) -> Result<Option<PathBuf>> {
        let found = self.repository.download_file().filename(file).revision(self.revision).local_files_only(true).send().await;
        match found {
            Ok(path) => Ok(Some(path)),
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
    async fn whole(&self, file: &str) -> Result<Option<PathBuf>> {
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
        if !blob.exists() {
            self.transfer(file, &told, &blob).await?;
        }
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
        Ok(Some(link))
    }

    /// Brings a file's content into the cache. It gets its name when it is whole and its checksum is right.
    async fn transfer(&self, file: &str, told: &Told, blob: &Path) -> Result<()> {
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
            return Ok(());
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
                let slow = |have: u64| {
                    self.unavailable(format_args!("the hub fell silent at {have} bytes of `{file}`; the next try goes on there"))
                };
                let Some(chunk) = tokio::time::timeout(self.wait, stream.next()).await.map_err(|_| slow(have))? else { break };
                let Ok(chunk) = chunk else { break };
                have = have.saturating_add(chunk.len() as u64);
                if have > most {
                    break;
                }
                std::io::Write::write_all(&mut out, &chunk).map_err(failed)?;
                if let Some(tell) = &self.request.progress {
                    tell(file, have, size.unwrap_or(0));
                }
                if since.elapsed() > self.wait {
                    if have - then < limits::MIN_HUB_BYTES && size.is_none_or(|size| have < size) {
                        return Err(slow(have));
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
        std::fs::rename(&partial, blob).map_err(failed)
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

/// Compares a file of the cache with its checksum, which the cache has as the name of what the file links to.
fn proven(id: &str, path: &Path) -> Result<()> {
    let Ok(blob) = std::fs::canonicalize(path) else { return Ok(()) };
    let name = blob.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if matches_name(&blob, name).unwrap_or(false) {
        return Ok(());
    }
    // Both go, so that the next try fetches it anew.
    let _ = std::fs::remove_file(path);
    let _ = std::fs::remove_file(&blob);
    Err(damaged(id, &path.file_name().unwrap_or_default().to_string_lossy()))
}

/// Whether a file has the checksum that it is named by: SHA-256, or Git's SHA-1. Names of any other kind say nothing.
fn matches_name(path: &Path, name: &str) -> std::io::Result<bool> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    if !name.bytes().all(|b| b.is_ascii_hexdigit()) {
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
mod tests {
    use super::*;

    #[test]
    fn ids_are_checked_before_anything_is_asked() {
        for id in ["", "name", "a/b/c", "../b", "a/../b", "/b", "a/b?c", "a/b#c", "a/b%2f", "a/ b", "a/b\n", "a--b/c", "é/b"] {
            let error = fetch(&HubRequest { id: id.to_owned(), offline: true, ..HubRequest::default() }).unwrap_err();
            assert_eq!(error.kind(), Kind::InvalidInput, "{id}");
        }
    }

    #[test]
    fn revisions_are_no_paths() {
        for revision in ["", "..", "../../x", "/tmp/x", "a//b", "a\n", "refs/../../x"] {
            let request = HubRequest { id: "a/b".to_owned(), revision: Some(revision.to_owned()), offline: true, ..HubRequest::default() };
            assert_eq!(fetch(&request).unwrap_err().kind(), Kind::InvalidInput, "{revision}");
        }
    }

    #[test]
    fn offline_and_not_cached_is_not_found() {
        let id = "nobody-of-this-name/nothing-of-this-name".to_owned();
        let error = fetch(&HubRequest { id, offline: true, ..HubRequest::default() }).unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound, "{error}");
    }
}
