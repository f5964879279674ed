//! Prepared tables as a file beside the vocabulary that they were made of, so that later loads neither parse nor merge.
//!
//! Written and read by the store alone. A cache and nothing more: whatever is odd about the file (another version, another source,
//! a wrong checksum, tables that contradict themselves, another owner than the manifest beside it) makes it absent, and it is built
//! anew. Every index that the merge loop will follow is checked here, so that no file can make it panic or run on.

use super::byte_level::Recipe;
use super::prepare::{BUCKET, ID_LIMIT, JOIN_WORDS, NONE, Tables};
use crate::limits;
use serde::{Deserialize, Serialize};
use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;
use twox_hash::XxHash3_128;

/// The file's name in the vocabulary's folder.
pub(super) const FILE: &str = "prepared.tables";
/// First bytes. The number goes up when what follows, or how tables are prepared, changes.
const MAGIC: &[u8] = b"plimsoll prepared vocabulary 2\n";
/// Bytes of the checksum at the end.
const CHECKSUM: usize = 16;
/// Ids of single bytes and of pairs of bytes.
const BYTES: usize = 256 + 65_536;
/// Fewest lines of the table of words: its index has two bits or more.
const LINES: usize = 4;

/// The first line after the magic: what the tables were made of, and how long each is, in entries.
#[derive(Serialize, Deserialize)]
struct Head {
    source: Source,
    recipe: Recipe,
    lengths: [usize; 9],
}

/// The file that tables were made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Source {
    /// Its fingerprint.
    pub(super) fingerprint: String,
    /// Length, and time of the last change in ns since 1970, where it lies outside the store and may change.
    pub(super) outside: Option<(u64, u64)>,
}

impl Source {
    /// The source of a vocabulary's file at `path`.
    pub(super) fn of(fingerprint: &str, path: &Path, outside: bool) -> Option<Self> {
        let fingerprint = fingerprint.to_owned();
        if !outside {
            return Some(Self { fingerprint, outside: None });
        }
        let seen = std::fs::metadata(path).ok()?;
        let changed = seen.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(Self { fingerprint, outside: Some((seen.len(), u64::try_from(changed.as_nanos()).ok()?)) })
    }
}

/// The file's content.
pub(super) fn write(source: &Source, recipe: &Recipe, tables: &Tables) -> Option<Vec<u8>> {
    let lengths = [
        tables.bytes.len(),
        tables.pairs.len(),
        tables.filter.len(),
        tables.offsets.len(),
        tables.text.len(),
        tables.whole.len(),
        tables.joins.len(),
        tables.words.len(),
        recipe.ids.len(),
    ];
    let head = serde_json::to_vec(&Head { source: source.clone(), recipe: recipe.clone(), lengths }).ok()?;
    let mut out = Vec::with_capacity(head.len() + tables.pairs.len() * 72 + tables.text.len() * 2 + (1 << 20));
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&head);
    out.push(b'\n');
    out.extend_from_slice(tables.bytes.as_flattened());
    out.extend_from_slice(tables.pairs.as_flattened());
    out.extend_from_slice(tables.filter.as_flattened());
    out.extend_from_slice(tables.offsets.as_flattened());
    out.extend_from_slice(&tables.text);
    out.extend_from_slice(tables.whole.as_flattened());
    out.extend_from_slice(tables.joins.as_flattened());
    out.extend_from_slice(tables.words.as_flattened());
    out.extend(recipe.ids.iter().flat_map(|id| id.to_le_bytes()));
    let checksum = XxHash3_128::oneshot(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    Some(out)
}

/// Reads the file in `folder`, when it is there, whole, and made of `source`.
pub(super) fn read(folder: &Path, manifest: &str, source: &Source) -> Option<(Tables, Recipe)> {
    let path = folder.join(FILE);
    let seen = std::fs::metadata(&path).ok()?;
    if !same_owner(&seen, &folder.join(manifest)) || seen.len() > limits::MAX_VOCABULARY_BYTES {
        return None;
    }
    parse(std::fs::File::open(path).ok()?, seen.len(), source)
}

/// Whether a file belongs to whom the manifest belongs to.
#[cfg(unix)]
fn same_owner(seen: &std::fs::Metadata, manifest: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(manifest).is_ok_and(|manifest| manifest.uid() == seen.uid())
}

#[cfg(not(unix))]
fn same_owner(_seen: &std::fs::Metadata, _manifest: &Path) -> bool {
    true
}

/// Reads a file of `length` bytes straight into the tables: they are large, and each copy costs as much as reading.
fn parse(file: impl Read, length: u64, source: &Source) -> Option<(Tables, Recipe)> {
    let left = usize::try_from(length).ok()?.checked_sub(CHECKSUM)?;
    let mut rest = Rest { file: BufReader::new(file), left, hash: XxHash3_128::new() };
    if rest.take::<1>(MAGIC.len())?.as_flattened() != MAGIC {
        return None;
    }
    let mut head: Head = serde_json::from_slice(&rest.line()?).ok()?;
    if head.source != *source {
        return None;
    }
    let [bytes, pairs, filter, offsets, text, whole, joins, words, ids] = head.lengths;
    let tables = Tables {
        bytes: rest.take(bytes)?,
        pairs: rest.take(pairs)?,
        filter: rest.take(filter)?,
        offsets: rest.take(offsets)?,
        text: rest.take::<1>(text)?.into_flattened(),
        whole: rest.take(whole)?,
        joins: rest.take(joins)?,
        words: rest.take(words)?,
    };
    head.recipe.ids = rest.take(ids)?.into_iter().map(u32::from_le_bytes).collect();
    (rest.ends_with_its_checksum()? && sound(&tables, &head.recipe)).then_some((tables, head.recipe))
}

/// What is still to be read of a file.
struct Rest<R> {
    file: BufReader<R>,
    /// Bytes before the checksum.
    left: usize,
    /// Of all that was read.
    hash: XxHash3_128,
}

impl<R: Read> Rest<R> {
    /// The next `count` entries of `N` bytes. Never more memory than the file has bytes.
    fn take<const N: usize>(&mut self, count: usize) -> Option<Vec<[u8; N]>> {
        self.left = self.left.checked_sub(count.checked_mul(N)?)?;
        let mut entries = vec![[0; N]; count];
        self.file.read_exact(entries.as_flattened_mut()).ok()?;
        self.hash.write(entries.as_flattened());
        Some(entries)
    }

    /// The next line, without its end.
    fn line(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        (&mut self.file).take(self.left as u64).read_until(b'\n', &mut line).ok()?;
        self.left = self.left.checked_sub(line.len())?;
        self.hash.write(&line);
        (line.pop() == Some(b'\n')).then_some(line)
    }

    fn ends_with_its_checksum(mut self) -> Option<bool> {
        let mut checksum = [0; CHECKSUM];
        self.file.read_exact(&mut checksum).ok()?;
        let ends = self.left == 0 && self.file.read(&mut [0]).ok()? == 0;
        Some(ends && checksum == self.hash.finish_128().to_le_bytes())
    }
}

/// Whether everything that the merge loop follows stays inside the tables.
fn sound(tables: &Tables, recipe: &Recipe) -> bool {
    let Some(limit) = tables.offsets.len().checked_sub(1).filter(|limit| *limit < ID_LIMIT as usize) else { return false };
    let id = |id: &[u8; 4]| (u32::from_le_bytes(*id) as usize) < limit;
    let empty = |id: &[u8; 4]| u32::from_le_bytes(*id) == NONE;
    let offsets = || tables.offsets.iter().map(|at| u32::from_le_bytes(*at) as usize);
    tables.bytes.len() == BYTES
        && tables.bytes.iter().take(256).all(id)
        && tables.bytes.iter().all(|entry| id(entry) || empty(entry))
        && tables.pairs.len().is_power_of_two()
        && tables.pairs.len() >= BUCKET
        && tables.pairs.len() <= ID_LIMIT as usize
        && tables.filter.len() == tables.pairs.len()
        // A search ends at an empty slot: preparing leaves a fifth of them.
        && tables.pairs.as_flattened().as_chunks::<8>().0.iter().filter(|slot| **slot == [u8::MAX; 8]).count() > tables.pairs.len()
        && tables.pairs.as_flattened().as_chunks::<8>().0.iter().all(|slot| {
            let slot = u64::from_le_bytes(*slot);
            slot == u64::MAX || (slot & u64::from(ID_LIMIT - 1)) < limit as u64
        })
        && offsets().zip(offsets().skip(1)).all(|(from, to)| from <= to)
        && offsets().next_back() == Some(tables.text.len())
        && tables.whole.iter().all(id)
        && tables.joins.len() == JOIN_WORDS
        && tables.words.len().is_power_of_two()
        && tables.words.len() >= LINES
        && tables.words.len() <= ID_LIMIT as usize
        // So do searches for whole words.
        && tables.words.as_flattened().as_chunks::<16>().0.contains(&[0; 16])
        && (recipe.ids.is_empty() || recipe.ids.len() == limit)
}

#[cfg(test)]
mod tests {
    use super::super::byte_level::Pieces;
    use super::*;
    use crate::tokenizer::prepare;

    fn parse(file: &[u8], source: &Source) -> Option<(Tables, Recipe)> {
        super::parse(file, file.len() as u64, source)
    }

    fn file() -> (Vec<u8>, Source) {
        let mut tokens: Vec<(Vec<u8>, u32)> = (0..=255_u8).map(|byte| (vec![byte], u32::from(byte))).collect();
        tokens.extend([(b"ab".to_vec(), 256), (b"xyz".to_vec(), 257)]);
        let source = Source { fingerprint: "f".to_owned(), outside: None };
        (write(&source, &Recipe::plain(Pieces::Qwen, true), &prepare::prepare(&tokens).unwrap()).unwrap(), source)
    }

    #[test]
    fn reads_what_it_wrote() {
        let (file, source) = file();
        let (tables, recipe) = parse(&file, &source).unwrap();
        assert_eq!(recipe, Recipe::plain(Pieces::Qwen, true));
        assert_eq!(write(&source, &recipe, &tables).unwrap(), file);
    }

    #[test]
    fn whatever_is_odd_is_absent() {
        let (whole, source) = file();
        assert!(parse(&whole, &Source { fingerprint: "g".to_owned(), outside: None }).is_none());
        for at in (0..whole.len()).step_by(whole.len() / 97) {
            assert!(parse(&whole[..at], &source).is_none(), "cut at {at}");
            let mut changed = whole.clone();
            changed[at] ^= 0x40;
            assert!(parse(&changed, &source).is_none(), "changed at {at}");
        }
        // A right checksum does not help tables that lead out of themselves.
        let sealed = |damage: &dyn Fn(&mut Tables)| {
            let (mut tables, recipe) = parse(&whole, &source).unwrap();
            damage(&mut tables);
            write(&source, &recipe, &tables).unwrap()
        };
        let damages: [&dyn Fn(&mut Tables); 11] = [
            &|tables| tables.joins.truncate(7),
            &|tables| tables.words.truncate(3),
            &|tables| tables.words.fill([1; 64]),
            &|tables| tables.bytes[7] = NONE.to_le_bytes(),
            &|tables| tables.bytes[300] = 258_u32.to_le_bytes(),
            &|tables| tables.pairs[0][0..8].copy_from_slice(&1_000_000_u64.to_le_bytes()),
            &|tables| tables.pairs.truncate(7),
            &|tables| tables.filter.truncate(7),
            &|tables| tables.offsets[3] = 9_999_999_u32.to_le_bytes(),
            &|tables| tables.text.push(0),
            &|tables| tables.whole.push(258_u32.to_le_bytes()),
        ];
        for (number, damage) in damages.into_iter().enumerate() {
            assert!(parse(&sealed(damage), &source).is_none(), "damage {number}");
        }
    }
}
