//! The counting core: split, look up, merge on a miss. The engine behind every rank vocabulary.
//!
//! Text goes through the block splitter 64 bytes at a time, or piece by piece through the scalar automaton where that
//! can't go; each piece's count comes from the piece cache, and on a miss from the merge loop. Caches are kept in a
//! few slots shared by all threads: a call takes a free one and gives it back, so that a clone of the tokenizer costs nothing
//! and memory doesn't grow with threads. Guards invariant 4; must not allocate per piece.

#![allow(clippy::cast_possible_truncation, reason = "texts are counted in parts of at most 2^30 bytes")]

use super::blocks::{self, BLOCK, Classify, Stretch};
use super::bpe::{self, Scratch, WINDOW};
use super::engine::Engine;
use super::pieces::{BATCH, Batch, Make, PieceCache};
use super::prepare::Joins;
use super::simd::{self, Job, Level};
use super::split::{self, Family, Split, View};
use super::vocabulary::Vocabulary;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Caches a tokenizer holds at most: more threads than this at once wait for each other.
const MOST_CACHES: usize = 16;
/// Texts of at least twice this many bytes are counted by several threads.
const SHARE_BYTES: usize = 256 << 10;
/// Longest text that is counted in one go: offsets in it must fit into 32 bits.
const LONGEST: usize = 1 << 30;
/// How far ahead of a block text is asked for, in bytes.
const AHEAD: usize = 512;
/// How far a safe border is looked for from where a share should end.
const BORDER_SEARCH: usize = 64 << 10;

/// A rank vocabulary with its way of splitting.
pub(crate) struct Core {
    name: String,
    vocabulary: Vocabulary,
    split: Split,
    caches: Box<[Mutex<Option<Box<State>>>]>,
    threads: usize,
    level: Level,
}

/// What one call at a time uses.
struct State {
    pieces: PieceCache,
    batch: Box<Batch>,
    scratch: Scratch,
}

impl State {
    fn new() -> Self {
        Self { pieces: PieceCache::new(), batch: Box::new(Batch::new()), scratch: Scratch::default() }
    }
}

/// Runs `$body` with `$family` as the type of a split's constants.
macro_rules! with_family {
    ($split:expr, $family:ident => $body:expr) => {
        match $split {
            Split::Gpt2 => {
                type $family = split::Gpt2;
                $body
            }
            Split::Cl100k => {
                type $family = split::Cl100k;
                $body
            }
            Split::O200k => {
                type $family = split::O200k;
                $body
            }
            Split::Llama3 => {
                type $family = split::Llama3;
                $body
            }
            Split::Qwen => {
                type $family = split::Qwen;
                $body
            }
            Split::QwenMarks => {
                type $family = split::QwenMarks;
                $body
            }
            Split::Tekken => {
                type $family = split::Tekken;
                $body
            }
            Split::Kimi => {
                type $family = split::Kimi;
                $body
            }
            Split::DeepSeek => {
                type $family = split::DeepSeek;
                $body
            }
        }
    };
}

pub(super) use with_family;

impl Core {
    /// A core over a vocabulary.
    pub(crate) fn new(name: impl Into<String>, vocabulary: Vocabulary, split: Split) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            name: name.into(),
            vocabulary,
            split,
            caches: (0..threads.min(MOST_CACHES)).map(|_| Mutex::new(None)).collect(),
            threads,
            level: simd::level(),
        }
    }

    /// A core over `(bytes, id)` tokens where a lower id merges first.
    ///
    /// # Errors
    /// What [`Vocabulary::from_ranks`] finds wrong.
    #[allow(dead_code, reason = "for rank files that a user brings")]
    pub(crate) fn from_ranks(name: impl Into<String>, tokens: &[(Vec<u8>, u32)], split: Split) -> crate::Result<Self> {
        Ok(Self::new(name, Vocabulary::from_ranks(tokens)?, split))
    }

    #[cfg(test)]
    pub(super) fn level(&self) -> Level {
        self.level
    }

    #[cfg(test)]
    pub(super) fn set_threads(&mut self, threads: usize) {
        self.threads = threads;
    }

    pub(super) fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Tests run each level that the machine has.
    #[cfg(test)]
    pub(super) fn set_level(&mut self, level: Level) {
        self.level = level;
    }

    /// A free cache, starting with the one this thread is likely to have used last.
    fn state(&self) -> MutexGuard<'_, Option<Box<State>>> {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static OWN: usize = THREADS.fetch_add(1, Ordering::Relaxed));
        let own = OWN.try_with(|own| *own).unwrap_or(0) % self.caches.len();
        let (before, after) = self.caches.split_at(own);
        after
            .iter()
            .chain(before)
            .find_map(|cache| cache.try_lock().ok())
            .unwrap_or_else(|| self.caches[own].lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn split(&self) -> Split {
        self.split
    }

    /// Number of tokens of one piece of at most [`WINDOW`] bytes.
    pub(super) fn count_piece(&self, piece: &[u8]) -> usize {
        let pass = Pass { vocabulary: &self.vocabulary, level: self.level, text: piece, limit: usize::MAX };
        uncached(pass, piece, &mut Scratch::default())
    }

    /// Appends the ids of one piece of any length.
    pub(super) fn encode_piece(&self, piece: &[u8], scratch: &mut Scratch, ids: &mut Vec<u32>) {
        bpe::encode_piece(&self.vocabulary, piece, scratch, ids);
    }

    /// Tokens of one long piece, as they become certain.
    pub(super) fn encode_long(&self, piece: &[u8], mut accept: impl FnMut(&[u32], &[usize])) {
        bpe::long(&self.vocabulary, piece, &mut Scratch::default(), |ids, starts| {
            accept(ids, starts);
            true
        });
    }

    /// Counts on this thread; some number over `limit` when the count is over it.
    fn count_here(&self, text: &[u8], limit: usize) -> usize {
        let mut state = self.state();
        let State { pieces, batch, scratch } = &mut **state.get_or_insert_with(|| Box::new(State::new()));
        let pass = Pass { vocabulary: &self.vocabulary, level: self.level, text, limit };
        with_family!(self.split, F => simd::run(self.level, Counting::<F> { pass, pieces, batch, scratch, family: std::marker::PhantomData }))
    }

    /// Counts, sharing out large texts among threads at borders where every split cuts.
    fn count_up_to(&self, text: &[u8], limit: usize) -> usize {
        if text.len() > LONGEST {
            return self.count_huge(text, limit);
        }
        let shares = (text.len() / SHARE_BYTES).min(self.threads);
        if shares < 2 {
            return self.count_here(text, limit);
        }
        let mut rest = text;
        let mut parts = Vec::with_capacity(shares);
        for share in (2..=shares).rev() {
            let Some(at) = safe_border(rest, rest.len() / share) else { break };
            let (part, after) = rest.split_at(at);
            parts.push(part);
            rest = after;
        }
        std::thread::scope(|scope| {
            let others: Vec<_> = parts.iter().map(|part| scope.spawn(|| self.count_here(part, limit))).collect();
            let mut count = self.count_here(rest, limit);
            for (other, part) in others.into_iter().zip(&parts) {
                // A thread can't fail but by a defect; counting its part here then shows it.
                count = count.saturating_add(other.join().unwrap_or_else(|_| self.count_here(part, limit)));
            }
            count
        })
    }
}

impl Core {
    /// Counts a text of more than [`LONGEST`] bytes, part by part, or piece by piece where it has no border.
    #[cold]
    fn count_huge(&self, mut text: &[u8], limit: usize) -> usize {
        let mut count = 0_usize;
        while text.len() > LONGEST && count <= limit {
            let Some(at) = safe_border(text, LONGEST - BORDER_SEARCH) else {
                return count + self.count_plainly(text);
            };
            let (part, rest) = text.split_at(at);
            count += self.count_up_to(part, limit - count);
            text = rest;
        }
        if count > limit { count } else { count + self.count_up_to(text, limit - count) }
    }

    /// Counts without a cache, and without a bound on lengths.
    pub(super) fn count_plainly(&self, text: &[u8]) -> usize {
        let (mut count, mut scratch) = (0, Scratch::default());
        with_family!(self.split, F => for_pieces::<F, blocks::Scalar>(text, |at, end| {
            count += match &text[at..end] {
                piece if piece.len() <= WINDOW => bpe::count_short(&self.vocabulary, piece),
                piece => bpe::count_long(&self.vocabulary, piece, usize::MAX, &mut scratch),
            };
            true
        }));
        count
    }
}

/// A byte offset near `from` at which every family cuts whatever stands before and after: a letter, then white space or
/// punctuation other than a quote. A word takes neither, and only a quote can open a contraction.
fn safe_border(text: &[u8], from: usize) -> Option<usize> {
    use super::classes::{LETTER, NEWLINE, OTHER, SPACE};
    let mut at = from;
    while at < text.len() && text[at] & 0xC0 == 0x80 {
        at += 1;
    }
    let mut before = 0;
    while at < text.len().min(from + BORDER_SEARCH) {
        let (class, length) = split::class_at(text, at, View::Plain);
        if before & LETTER != 0 && (class & (SPACE | NEWLINE) != 0 || (class == OTHER && text[at] != b'\'')) {
            return Some(at);
        }
        before = class;
        at += length;
    }
    None
}

impl Engine for Core {
    fn name(&self) -> &str {
        &self.name
    }

    fn count(&self, text: &str) -> usize {
        self.count_up_to(text.as_bytes(), usize::MAX)
    }

    fn count_within(&self, text: &str, limit: usize) -> Option<usize> {
        // Every token found is a token of the answer, so a running count over the limit settles it.
        let count = self.count_up_to(text.as_bytes(), limit);
        (count <= limit).then_some(count)
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        let mut scratch = Scratch::default();
        let (vocabulary, text) = (&self.vocabulary, text.as_bytes());
        with_family!(self.split, F => simd::run(self.level, Encoding::<F> { vocabulary, text, scratch: &mut scratch, ids: &mut ids, family: std::marker::PhantomData }));
        ids
    }

    fn core(&self) -> Option<&Core> {
        Some(self)
    }

    fn token_bytes(&self, id: u32) -> Option<Vec<u8>> {
        self.vocabulary.token(id).map(<[u8]>::to_vec)
    }
}

/// Calls `each` with the start and end of every piece until it answers `false`.
#[inline(always)]
pub(super) fn for_pieces<F: Family, C: Classify>(text: &[u8], mut each: impl FnMut(usize, usize) -> bool) {
    let mut at = 0;
    while at < text.len() {
        let base = at;
        let mut starts = if C::BLOCKS { block_starts::<F, C>(text, at) } else { 0 };
        let mut end =
            if starts == 0 { split::next::<F>(&mut Stretch::<C>::new(text), at) } else { base + starts.trailing_zeros() as usize };
        // One place where a piece is handed out, so that what is done with it is compiled into this loop.
        loop {
            if !each(at, end) {
                return;
            }
            at = end;
            starts &= starts.wrapping_sub(1);
            if starts == 0 {
                break;
            }
            end = base + starts.trailing_zeros() as usize;
        }
    }
}

/// Certain starts of the block at `at`, which is itself a start, as bits from there.
#[inline(always)]
fn block_starts<F: Family, C: Classify>(text: &[u8], at: usize) -> u64 {
    let mut padded = [0; BLOCK];
    let (block, length) = block_at(text, at, &mut padded);
    blocks::starts::<F, C>(block, length, &C::masks(block))
}

/// The block at `at` and how much of it is text; at the end of the text a copy with zeros behind.
#[inline(always)]
fn block_at<'a>(text: &'a [u8], at: usize, padded: &'a mut [u8; BLOCK]) -> (&'a [u8; BLOCK], usize) {
    let rest = &text[at..];
    if let Some(block) = rest.first_chunk() {
        return (block, BLOCK);
    }
    padded[..rest.len()].copy_from_slice(rest);
    (padded, rest.len())
}

/// What counting reads.
#[derive(Clone, Copy)]
struct Pass<'a> {
    vocabulary: &'a Vocabulary,
    level: Level,
    text: &'a [u8],
    limit: usize,
}

struct Counting<'a, F> {
    pass: Pass<'a>,
    pieces: &'a mut PieceCache,
    batch: &'a mut Batch,
    scratch: &'a mut Scratch,
    family: std::marker::PhantomData<F>,
}

impl<F: Family> Job for Counting<'_, F> {
    type Answer = usize;

    #[inline(always)]
    fn run<C: Classify>(self) -> usize {
        let Self { pass, pieces, batch, scratch, .. } = self;
        let text = pass.text;
        let joins = pass.vocabulary.joins();
        let mut at = 0;
        let mut piece_end = 0;
        let mut count = 0;
        loop {
            batch.clear(at as u32);
            // Pieces from here on have not been looked at.
            let mut fresh = 0;
            while batch.pieces < BATCH && at < text.len() {
                if C::BLOCKS && at >= piece_end {
                    let mut padded = [0; BLOCK];
                    let (block, length) = block_at(text, at, &mut padded);
                    C::prefetch(text, at + AHEAD);
                    let masks = C::masks(block);
                    let mut starts = blocks::starts::<F, C>(block, length, &masks);
                    if starts != 0 {
                        let end = starts.ilog2();
                        if masks.wide != 0
                            && let Some(joins) = joins
                        {
                            starts |= blocks::cuts::<C>(block, end, joins);
                        }
                        if fresh < batch.pieces {
                            count += C::tiny(text, batch, fresh, pieces.tiny());
                        }
                        count += C::tiny_of_block(text, block, starts, at as u32, batch, pieces.tiny());
                        fresh = batch.pieces;
                        at += end as usize;
                        continue;
                    }
                }
                if at >= piece_end {
                    piece_end = split::next::<F>(&mut Stretch::<C>::new(text), at);
                }
                at = match joins {
                    Some(joins) if wide(text, at, piece_end) => cut(text, at, piece_end, joins, batch),
                    _ => {
                        batch.push(piece_end as u32);
                        piece_end
                    }
                };
            }
            if fresh < batch.pieces {
                count += C::tiny(text, batch, fresh, pieces.tiny());
            }
            let mut missing = Missing { pass: Pass { limit: pass.limit.saturating_sub(count), ..pass }, scratch };
            count += pieces.count_listed::<C>(text, batch, &mut missing);
            if at >= text.len() || count > pass.limit {
                return count;
            }
        }
    }
}

/// Whether a piece may hold two characters of three bytes in a row.
#[inline(always)]
fn wide(text: &[u8], at: usize, end: usize) -> bool {
    end - at >= 6 && (text[at] >= 0xE0 || text[at + 1] >= 0xE0 || text[end - 3] >= 0xE0)
}

/// Adds the piece `text[at..end]`, or as much of it as the batch takes, in parts that no token lies across. Gives where it stopped.
#[inline(always)]
fn cut(text: &[u8], mut at: usize, end: usize, joins: Joins<'_>, batch: &mut Batch) -> usize {
    let mut left = 0;
    let mut left_alone = true;
    while at < end && batch.pieces < BATCH {
        let Some(&[first, second, third]) = text[at..end].first_chunk() else { break };
        if first & 0xF0 == 0xE0 {
            let right = u32::from(first) << 16 | u32::from(second) << 8 | u32::from(third);
            let right_alone = joins.alone(right);
            // Written in any case, and kept when it is a border: no branch could guess.
            batch.borders[batch.pieces + 1] = at as u32;
            batch.pieces += usize::from(!(left_alone | right_alone | joins.pair(left, right)));
            (left, left_alone) = (right, right_alone);
            at += 3;
        } else {
            left_alone = true;
            at += split::class_at(text, at, View::Plain).1;
        }
    }
    if batch.pieces < BATCH {
        batch.push(end as u32);
        return end;
    }
    batch.borders[batch.pieces] as usize
}

/// Counts pieces that the cache doesn't know.
struct Missing<'a> {
    pass: Pass<'a>,
    scratch: &'a mut Scratch,
}

impl Make for Missing<'_> {
    #[inline(always)]
    fn expect<C: Classify>(&self, (low, high): (u64, u64)) {
        let (words, line) = self.pass.vocabulary.word_line(low, high);
        C::prefetch(words, line);
    }

    #[inline(never)]
    fn short(&mut self, piece: &[u8], (low, high): (u64, u64)) -> usize {
        if self.pass.vocabulary.is_word(low, high) { 1 } else { parted(self.pass, piece, 2) }
    }

    fn strange(&mut self, piece: &[u8]) -> usize {
        if self.pass.vocabulary.whole(piece).is_some() { 1 } else { parted(self.pass, piece, 1) }
    }

    fn longer(&mut self, piece: &[u8]) -> (usize, bool) {
        let count = uncached(self.pass, piece, self.scratch);
        (count, count <= self.pass.limit)
    }

    #[cold]
    fn expect_many(&self) {
        self.pass.vocabulary.read_ahead();
    }
}

/// [`bpe::count_parted`], out of line, so that the loop around the cache stays small; compiled for the machine again.
#[cold]
#[inline(never)]
fn parted(pass: Pass<'_>, piece: &[u8], least: usize) -> usize {
    struct Parted<'a>(&'a Vocabulary, &'a [u8], usize);
    impl Job for Parted<'_> {
        type Answer = usize;
        #[inline(always)]
        fn run<C: Classify>(self) -> usize {
            bpe::count_parted(self.0, self.1, self.2)
        }
    }
    simd::run(pass.level, Parted(pass.vocabulary, piece, least))
}

#[inline(never)]
fn uncached(pass: Pass<'_>, piece: &[u8], scratch: &mut Scratch) -> usize {
    struct Long<'a>(&'a Vocabulary, &'a [u8], usize, &'a mut Scratch);
    impl Job for Long<'_> {
        type Answer = usize;
        #[inline(always)]
        fn run<C: Classify>(self) -> usize {
            let Self(vocabulary, piece, limit, scratch) = self;
            if piece.len() <= WINDOW { bpe::count_short(vocabulary, piece) } else { bpe::count_long(vocabulary, piece, limit, scratch) }
        }
    }
    simd::run(pass.level, Long(pass.vocabulary, piece, pass.limit, scratch))
}

struct Encoding<'a, F> {
    vocabulary: &'a Vocabulary,
    text: &'a [u8],
    scratch: &'a mut Scratch,
    ids: &'a mut Vec<u32>,
    family: std::marker::PhantomData<F>,
}

impl<F: Family> Job for Encoding<'_, F> {
    type Answer = ();

    #[inline(always)]
    fn run<C: Classify>(self) {
        let Self { vocabulary, text, scratch, ids, .. } = self;
        for_pieces::<F, C>(text, |at, end| {
            bpe::encode_piece(vocabulary, &text[at..end], scratch, ids);
            true
        });
    }
}

/// The scalar automaton's pieces, for tests.
#[cfg(test)]
pub(super) fn for_pieces_of(core: &Core, text: &[u8], mut each: impl FnMut(&[u8])) {
    with_family!(core.split, F => for_pieces::<F, blocks::Scalar>(text, |at, end| {
        each(&text[at..end]);
        true
    }));
}
