//! `plimsoll page`: read, search and size what compaction cut; and where the command line keeps it.

use super::output::{Output, Status};
use crate::compact::search_kept;
use crate::error::{Error, Kind, Result};
use crate::pages::{Clock, Pages};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Where pages are kept.
#[derive(Args, Debug)]
pub(super) struct StoreArgs {
    /// Folder of the page store; without it a folder of the user's own data.
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_STORE")]
    store: Option<PathBuf>,
    /// Whose pages: tenants can't read each other's.
    #[arg(long, default_value = "local")]
    tenant: String,
}

/// The time of day, for stores.
pub(super) fn clock() -> Clock {
    #[expect(clippy::disallowed_methods, reason = "the edge that tells the store the time")]
    std::sync::Arc::new(|| std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs()))
}

impl StoreArgs {
    /// The tenant's pages on disk.
    #[cfg(feature = "pages-disk")]
    pub(super) fn open(&self) -> Result<Pages> {
        use crate::pages::{DiskStore, StoreLimits};
        let folder = match &self.store {
            Some(folder) => folder.clone(),
            None => std::env::var_os("XDG_DATA_HOME")
                .map(PathBuf::from)
                .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share")))
                .map(|data| data.join("plimsoll"))
                .ok_or_else(|| Error::new(Kind::InvalidInput, "no folder for pages is known; name one with --store"))?,
        };
        Pages::new(std::sync::Arc::new(DiskStore::open(&folder, StoreLimits::default(), clock())?), &self.tenant)
    }

    /// Without the disk store pages would not outlive the process.
    #[cfg(not(feature = "pages-disk"))]
    pub(super) fn open(&self) -> Result<Pages> {
        let _ = (&self.store, &self.tenant);
        Err(Error::new(Kind::Unsupported, "this build has no page store on disk (feature `pages-disk`)"))
    }
}

/// Arguments of `page`.
#[derive(Args, Debug)]
pub(super) struct PageArgs {
    #[command(subcommand)]
    command: PageCommand,
}

#[derive(Subcommand, Debug)]
enum PageCommand {
    /// Print one page of a kept result.
    Read {
        /// Reference, such as `pg_0123456789abcdef`.
        reference: String,
        /// Page number, from 1.
        #[arg(long, default_value_t = 1)]
        page: usize,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Print the lines that match a regular expression.
    Search {
        /// Reference; with a plan's id (`pl_…`) all that the plan cut is searched.
        reference: String,
        /// Regular expression, matched line by line.
        regex: String,
        /// Most matches.
        #[arg(long, default_value_t = 50)]
        limit: usize,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Print the size of a kept result.
    Stat {
        /// Reference.
        reference: String,
        #[command(flatten)]
        store: StoreArgs,
    },
}

pub(super) fn run(args: &PageArgs, output: &mut Output) -> Result<Status> {
    match &args.command {
        PageCommand::Read { reference, page, store } => {
            let page = store.open()?.read(reference, *page)?;
            if output.json() {
                output.value(&json!({
                    "ref": reference, "page": page.number, "pages": page.of, "first_line": page.first_line,
                    "tokens": page.tokens, "text": page.text,
                }))?;
            } else {
                output.bytes(page.text.as_bytes())?;
            }
        }
        PageCommand::Search { reference, regex, limit, store } => {
            let (found, more) = search_kept(&store.open()?, reference, regex, *limit)?;
            if output.json() {
                let hits: Vec<Value> =
                    found.iter().map(|(r, hit)| json!({"ref": r, "line": hit.line, "page": hit.page, "text": hit.text})).collect();
                output.value(&json!({"ref": reference, "hits": hits, "more": more}))?;
            } else {
                for (reference, hit) in &found {
                    output.line(&format!("{reference}:{}:{}", hit.line, hit.text))?;
                }
            }
        }
        PageCommand::Stat { reference, store } => {
            let stat = store.open()?.stat(reference)?;
            if output.json() {
                output.value(&json!({
                    "ref": reference, "bytes": stat.bytes, "lines": stat.lines, "tokens": stat.tokens, "pages": stat.pages,
                }))?;
            } else {
                output.line(&format!("{} bytes, {} lines, {} tokens, {} pages", stat.bytes, stat.lines, stat.tokens, stat.pages))?;
            }
        }
    }
    Ok(Status::Done)
}
