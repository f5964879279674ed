//! Fetching a model's tokenizer and templates from a hub, into the hub client's own cache (feature `hub`).
//!
//! Called by the command line before [`crate::VocabularyStore::add`], which checks what came. The client honours `HF_HOME`,
//! `HF_TOKEN`, `HF_ENDPOINT` and `HF_HUB_OFFLINE`; resuming a broken transfer and comparing checksums are done here, as the client
//! does neither for plain files. Nothing here is reached by a count. A file gets its name in the cache when it is whole and
//! its checksum (which is its name) is right, never before.

use crate::error::{Error, Kind, Result};
use hf_hub::HFRepository;
use hf_hub::progress::{DownloadEvent, Progress, ProgressEvent, ProgressHandler};
use hf_hub::{HFClient, HFError};
use sha2::Digest as _;
use std::path::{Path, PathBuf};
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

struct Tell(OnProgress);

impl ProgressHandler for Tell {
    fn on_progress(&self, event: &ProgressEvent) {
        if let ProgressEvent::Download(DownloadEvent::Progress { files }) = event {
            for file in files {
                (self.0)(&file.filename, file.bytes_completed, file.total_bytes);
            }
        }
    }
}

/// Fetches a repository's tokenizer files and gives the folder that they lie in. Blocks; not for use inside an async runtime.
///
/// # Errors
/// [`Kind::NotFound`] when the repository or every vocabulary file is missing (or not cached, offline); [`Kind::Unavailable`] when
/// the hub can't be reached or refuses; [`Kind::InvalidInput`] for an id that isn't `owner/name`.
pub fn fetch(request: &HubRequest) -> Result<PathBuf> {
    let (owner, name) = hf_hub::split_id(&request.id);
    let plain = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains(['/', '\\']);
    if !plain(owner) || !plain(name) {
        return Err(Error::new(Kind::InvalidInput, "a hub id has the form `owner/name`"));
    }
    let offline = request.offline || std::env::var_os("HF_HUB_OFFLINE").is_some_and(|value| !value.is_empty() && value != "0");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::new(Kind::Internal, "the transfer can't be started").caused_by(e))?;
    runtime.block_on(async {
        let client = HFClient::new().map_err(|e| refused(&request.id, e))?;
        let repository = client.model(owner, name);
        let mut folder: Option<PathBuf> = None;
        for (index, file) in WANTED.iter().enumerate() {
            if index == VOCABULARIES && folder.is_none() {
                break;
            }
            if !offline {
                match whole(&client, &repository, file, request).await {
                    Ok(()) => {}
                    Err(Broken::Hub(HFError::EntryNotFound { .. })) => continue,
                    Err(Broken::Hub(e)) => return Err(refused(&request.id, e)),
                    Err(Broken::Ours(e)) => return Err(e),
                }
            }
            let fetched = repository
                .download_file()
                .filename(*file)
                .maybe_revision(request.revision.clone())
                .local_files_only(offline)
                .maybe_progress(request.progress.clone().map(|tell| Progress::new(Tell(tell))))
                .send()
                .await;
            match fetched {
                Ok(path) => {
                    proven(&request.id, &path)?;
                    folder = folder.or_else(|| path.parent().map(PathBuf::from));
                }
                Err(HFError::EntryNotFound { .. } | HFError::LocalEntryNotFound { .. }) => {}
                Err(e) => return Err(refused(&request.id, e)),
            }
        }
        folder.ok_or_else(|| {
            let what = if offline { "the cache holds no vocabulary of" } else { "no vocabulary file in" };
            Error::new(Kind::NotFound, format!("{what} `{}`; looked for {}", request.id, WANTED[..VOCABULARIES].join(", ")))
        })
    })
}

/// Why a transfer ended early.
enum Broken {
    Hub(HFError),
    Ours(Error),
}

impl From<HFError> for Broken {
    fn from(error: HFError) -> Self {
        Self::Hub(error)
    }
}

/// Brings a file's content into the client's cache, going on where an earlier transfer broke off. What the client does better by
/// itself (chunked storage, sizes that the hub doesn't tell) is left to it.
async fn whole(
    client: &HFClient,
    repository: &HFRepository<hf_hub::RepoTypeModel>,
    file: &str,
    request: &HubRequest,
) -> Result<(), Broken> {
    let told = match repository.get_file_metadata().filepath(file).maybe_revision(request.revision.as_deref()).send().await {
        Ok(told) => told,
        Err(HFError::MalformedResponse { .. }) => return Ok(()),
        Err(e) => return Err(e.into()),
    };
    let named_by_hash = matches!(told.etag.len(), 40 | 64) && told.etag.bytes().all(|b| b.is_ascii_hexdigit());
    if told.xet_hash.is_some() || told.file_size == 0 || !named_by_hash {
        return Ok(());
    }
    if told.file_size > crate::limits::MAX_VOCABULARY_BYTES {
        let (size, cap) = (told.file_size, crate::limits::MAX_VOCABULARY_BYTES);
        return Err(Broken::Ours(Error::new(
            Kind::LimitExceeded,
            format!("`{file}` of `{}` has {size} bytes; at most {cap} are taken", request.id),
        )));
    }
    let blobs = client.cache_dir().join(format!("models--{}", request.id.replace('/', "--"))).join("blobs");
    let blob = blobs.join(&told.etag);
    if blob.exists() {
        return Ok(());
    }
    let partial = blobs.join(format!("{}.incomplete", told.etag));
    let failed = |e: std::io::Error| {
        Broken::Ours(Error::new(Kind::Unavailable, format!("`{}` can't be written: {}", partial.display(), e.kind())).caused_by(e))
    };
    std::fs::create_dir_all(&blobs).map_err(failed)?;
    let mut have = std::fs::metadata(&partial).map_or(0, |seen| seen.len());
    if have > told.file_size {
        have = 0;
    }
    if have < told.file_size {
        let asked = (have > 0).then_some(have..told.file_size);
        let (length, mut stream) =
            repository.download_file_stream().filename(file).revision(told.commit_hash.clone()).maybe_range(asked).send().await?;
        // A server that does not know of ranges sends the whole file again.
        if have > 0 && length != Some(told.file_size - have) {
            have = 0;
        }
        let mut out = std::fs::OpenOptions::new().create(true).write(true).truncate(false).open(&partial).map_err(failed)?;
        out.set_len(have).map_err(failed)?;
        std::io::Seek::seek(&mut out, std::io::SeekFrom::End(0)).map_err(failed)?;
        while let Some(chunk) = stream.next().await {
            let chunk = chunk?;
            have = have.saturating_add(chunk.len() as u64);
            if have > told.file_size {
                break;
            }
            std::io::Write::write_all(&mut out, &chunk).map_err(failed)?;
            if let Some(tell) = &request.progress {
                tell(file, have, told.file_size);
            }
        }
        out.sync_all().map_err(failed)?;
        if have < told.file_size {
            let why = format!(
                "the hub broke off `{file}` of `{}` after {have} of {} bytes; the next try goes on there",
                request.id, told.file_size
            );
            return Err(Broken::Ours(Error::new(Kind::Unavailable, why)));
        }
    }
    if have != told.file_size || !matches_name(&partial, &told.etag).map_err(failed)? {
        let _ = std::fs::remove_file(&partial);
        return Err(Broken::Ours(damaged(&request.id, file)));
    }
    std::fs::rename(&partial, &blob).map_err(failed)
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
        for id in ["", "name", "a/b/c", "../b", "a/../b", "/b"] {
            let error = fetch(&HubRequest { id: id.to_owned(), offline: true, ..HubRequest::default() }).unwrap_err();
            assert_eq!(error.kind(), Kind::InvalidInput, "{id}");
        }
    }

    #[test]
    fn offline_and_not_cached_is_not_found() {
        let id = "nobody-of-this-name/nothing-of-this-name".to_owned();
        let error = fetch(&HubRequest { id, offline: true, ..HubRequest::default() }).unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound, "{error}");
    }
}
