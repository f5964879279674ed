//! One tenant's view of a store: keep, read, search, stat. What hosts, compaction and the edges use.
//!
//! Knows how references are made and how texts are cut; knows no requests. Holds no state of its own: where the pages of texts read
//! lately end is remembered beside the cutting, since a model reads one result page after page.

use super::cut::{self, Cut};
use super::memory::{MemoryStore, not_found};
use super::search::{self, Hit};
use super::store::{Entry, PageStore};
use crate::error::{Error, Kind, Result};
use crate::limits;
use std::hash::Hasher as _;
use std::sync::Arc;
use twox_hash::XxHash3_64;

/// Tokens a page holds at most unless told otherwise.
const PAGE_TOKENS: usize = 2_000;

/// One tenant's pages in a store. Cheap to clone.
///
/// ```
/// let pages = plimsoll::Pages::in_memory();
/// let reference = pages.keep("first line\nsecond line\n")?;
/// assert_eq!(pages.search(&reference, "second", 10)?.0[0].line, 2);
/// assert_eq!(pages.read(&reference, 1)?.text, "first line\nsecond line\n");
/// # Ok::<(), plimsoll::Error>(())
/// ```
#[derive(Clone)]
pub struct Pages {
    store: Arc<dyn PageStore>,
    tenant: Arc<str>,
    page_tokens: usize,
    vocabulary: Arc<str>,
}

/// One page of a kept text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its number, from 1.
    pub number: usize,
    /// How many there are.
    pub of: usize,
    /// Line number of its first line, from 1.
    pub first_line: usize,
    /// Its size in tokens.
    pub tokens: usize,
    /// Its text.
    pub text: String,
}

/// What is known of a kept text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageStat {
    /// Its size in bytes.
    pub bytes: usize,
    /// Its lines.
    pub lines: usize,
    /// Its size in tokens: the sum over its pages.
    pub tokens: usize,
    /// Its pages.
    pub pages: usize,
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pages").field("tenant", &self.tenant).field("page_tokens", &self.page_tokens).finish_non_exhaustive()
    }
}

impl Pages {
    /// The pages of `tenant` in `store`.
    ///
    /// # Errors
    /// [`Kind::InvalidInput`] for a tenant name that is empty, over 128 bytes or holds control characters.
    pub fn new(store: Arc<dyn PageStore>, tenant: &str) -> Result<Self> {
        if tenant.is_empty() || tenant.len() > 128 || tenant.chars().any(char::is_control) {
            return Err(Error::new(Kind::InvalidInput, "a tenant's name has 1 to 128 bytes and no control characters"));
        }
        Ok(Self { store, tenant: Arc::from(tenant), page_tokens: PAGE_TOKENS, vocabulary: Arc::from("o200k_base") })
    }

    /// Pages in memory for this process alone: 256 MiB, the oldest go first.
    pub fn in_memory() -> Self {
        Self {
            store: Arc::new(MemoryStore::default()),
            tenant: Arc::from("local"),
            page_tokens: PAGE_TOKENS,
            vocabulary: Arc::from("o200k_base"),
        }
    }

    /// The same pages cut at another bound (tokens a page, by the vocabulary named).
    #[must_use]
    pub fn paged_by(mut self, page_tokens: usize, vocabulary: &str) -> Self {
        self.page_tokens = page_tokens;
        self.vocabulary = Arc::from(vocabulary);
        self
    }

    /// The tenant.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The reference under which [`Pages::keep`] keeps `text`: a hash of tenant and content. Pure.
    pub fn reference(&self, text: &str) -> String {
        reference("pg", &self.tenant, &[text])
    }

    /// Keeps a text; it is safe when this returns.
    ///
    /// # Errors
    /// As [`PageStore::put`].
    pub fn keep(&self, text: &str) -> Result<String> {
        let id = self.reference(text);
        self.keep_all(&[Entry { id: id.clone(), text: text.to_owned() }])?;
        Ok(id)
    }

    /// Keeps entries under their ids, all or none.
    pub(crate) fn keep_all(&self, entries: &[Entry]) -> Result<()> {
        self.store.put(&self.tenant, entries)
    }

    /// The whole text under a page reference or plan id.
    ///
    /// # Errors
    /// [`Kind::NotFound`] when absent, expired or another tenant's; [`Kind::Corrupt`] when damaged.
    pub fn text(&self, reference: &str) -> Result<String> {
        let shape = reference.len() <= 64 && reference.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let found = if shape { self.store.get(&self.tenant, reference)? } else { None };
        found.ok_or_else(|| not_found(reference))
    }

    /// Whether a reference can be read.
    pub fn holds(&self, reference: &str) -> bool {
        self.text(reference).is_ok()
    }

    /// One page, numbered from 1. The first page read of a text costs a count of all of it; further ones, by any handle of the
    /// process, fetch the text and hash it, as long as it is among those read lately.
    ///
    /// # Errors
    /// As [`Pages::text`]; [`Kind::NotFound`] too for a number past the last page.
    pub fn read(&self, reference: &str, number: usize) -> Result<Page> {
        let (text, pages) = self.cut(reference)?;
        let page = number.checked_sub(1).and_then(|i| pages.get(i)).ok_or_else(|| {
            Error::new(Kind::NotFound, format!("page {number} of `{reference}` does not exist; it has pages 1 to {}", pages.len()))
        })?;
        let of = pages.len();
        let text = text.get(page.bytes.clone()).unwrap_or_default().to_owned();
        Ok(Page { number, of, first_line: page.line, tokens: page.tokens, text })
    }

    /// The first `limit` lines that match a regular expression, and whether there are more. Linear in the text.
    ///
    /// # Errors
    /// As [`Pages::text`]; [`Kind::InvalidInput`] for a pattern that can't be used; [`Kind::LimitExceeded`]
    /// for one that takes too much work on this text.
    pub fn search(&self, reference: &str, pattern: &str, limit: usize) -> Result<(Vec<Hit>, bool)> {
        let pattern = search::compile(pattern)?;
        let (text, pages) = self.cut(reference)?;
        search::search(&text, &pages, &pattern, limit.clamp(1, limits::MAX_SEARCH_HITS))
    }

    /// Size of a kept text.
    ///
    /// # Errors
    /// As [`Pages::text`].
    pub fn stat(&self, reference: &str) -> Result<PageStat> {
        let (text, pages) = self.cut(reference)?;
        Ok(PageStat { bytes: text.len(), lines: text.lines().count(), tokens: pages.iter().map(|p| p.tokens).sum(), pages: pages.len() })
    }

    fn cut(&self, reference: &str) -> Result<(String, Arc<[Cut]>)> {
        let text = self.text(reference)?;
        let pages = cut::cut_lately(&text, self.page_tokens, &self.vocabulary)?;
        Ok((text, pages))
    }
}

/// `kind_` and sixteen hex digits over tenant and content. Short, since models pay for it in every stand-in; a
/// store refuses a second text under one id, so that a clash is an error and never a mix-up.
/// Of several texts the hash is that of them one after the other, with a zero byte between.
pub(crate) fn reference(kind: &str, tenant: &str, texts: &[&str]) -> String {
    let mut hash = XxHash3_64::with_seed(XxHash3_64::oneshot(tenant.as_bytes()));
    for (at, text) in texts.iter().enumerate() {
        if at > 0 {
            hash.write(&[0]);
        }
        hash.write(text.as_bytes());
    }
    format!("{kind}_{:016x}", hash.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_cannot_read_each_other() {
        let store: Arc<dyn PageStore> = Arc::new(MemoryStore::default());
        let (a, b) = (Pages::new(Arc::clone(&store), "a").unwrap(), Pages::new(store, "b").unwrap());
        let id = a.keep("secret").unwrap();
        assert_ne!(id, b.reference("secret"));
        for error in [b.read(&id, 1).unwrap_err(), b.search(&id, ".", 1).unwrap_err(), b.stat(&id).unwrap_err()] {
            assert_eq!(error.kind(), Kind::NotFound);
        }
        assert_eq!(a.stat(&id).unwrap(), PageStat { bytes: 6, lines: 1, tokens: 1, pages: 1 });
        assert_eq!(a.read(&id, 2).unwrap_err().kind(), Kind::NotFound);
        assert_eq!(a.read("../../etc/passwd", 1).unwrap_err().kind(), Kind::NotFound);
    }
}
