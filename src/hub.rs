//! Fetching a model's tokenizer and templates from a hub, into the hub client's own cache (feature `hub`).
//!
//! Called by the command line before [`crate::VocabularyStore::add`], which checks what came. The client resumes broken
//! transfers, compares checksums and honours `HF_HOME`, `HF_TOKEN`, `HF_ENDPOINT` and `HF_HUB_OFFLINE`; nothing here is reached by a
//! count. Never leaves a partial file: the client moves a file into its cache when it is whole.

use crate::error::{Error, Kind, Result};
use hf_hub::progress::{DownloadEvent, Progress, ProgressEvent, ProgressHandler};
use hf_hub::{HFClient, HFError};
use std::path::PathBuf;

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
            let fetched = repository
                .download_file()
                .filename(*file)
                .maybe_revision(request.revision.clone())
                .local_files_only(offline)
                .maybe_progress(request.progress.clone().map(|tell| Progress::new(Tell(tell))))
                .send()
                .await;
            match fetched {
                Ok(path) => folder = folder.or_else(|| path.parent().map(PathBuf::from)),
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
