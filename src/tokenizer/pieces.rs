//! The exact piece cache: token counts of pieces, by the pieces' own bytes.
//!
//! Three tables by length. **Tiny** pieces, up to 7 bytes, have one slot of 8 bytes each, which is read for eight pieces at once (see
//! [`Classify::tiny_of_block`]). **Short** ones, up to 15 bytes, lie in lines of four slots of 16 bytes; so do tiny ones that found their
//! slot taken, until one that comes again takes it over, as each eighth does. Those are looked up a batch at a time: first all keys are made and their
//! lines asked for, then each is compared with its line's four slots at once, so that no piece waits for memory alone and no branch
//! depends on a piece but that of a miss. **Longer** ones lie one behind the other in a row of bytes, found by hash.
//! Where new pieces are strange (base64, hashes: hardly any is a token), they are merged without being looked for among the tokens, and tables grow
//! late.
//! All hold the piece itself: a hit is a comparison and never a guess. Belongs to one call at a time (see `core.rs`).
//! Memory: 24 KiB at first, up to 10 MiB as pieces come: a page that is touched first costs more than a hundred lookups, so tables grow where they
//! are; and one that the processor has forgotten some ten, so the larger tables ask for huge ones.

#![allow(clippy::cast_possible_truncation, reason = "halves of words and masked indexes are meant")]

use super::blocks::Classify;
use super::prepare::{HASH, line_of};
use super::simd;

/// Slots in a line of short pieces: one cache line.
pub(super) const WAYS: usize = 4;
/// A line of short pieces: low and high half of each key, the count above the high one.
pub(super) type Line = [u64; 2 * WAYS];
/// Lines of short pieces at first and at most, as powers of two: 16 KiB and 2 MiB.
const FEWEST_BITS: u32 = 8;
const MOST_BITS: u32 = 15;
/// Slots of tiny pieces for each line of short ones.
const TINY_TO_LINE: u32 = 2;
/// Longest piece of each class.
pub(super) const TINY: usize = 7;
pub(super) const SHORT: usize = 15;
/// Bytes of longer pieces that are kept: one of a megabyte, say.
const ROW_BYTES: usize = 4 << 20;
/// Longer pieces that are kept, and the longest.
const ROW_PIECES: usize = 1 << 17;
const LONGEST: usize = ROW_BYTES / 4;
/// Bytes that a longer piece may repeat: characters of one to four bytes in ones, twos and more make this many.
const PERIOD: usize = 48;
/// Set in the length of one that does; no text has so many bytes.
const REPEATS: u32 = 1 << 31;
/// Places where a longer piece may be found: no more, whatever pieces somebody makes up.
const PROBES: usize = 8;
/// Pieces in a batch.
pub(super) const BATCH: usize = 256;
/// Room for the pieces of one more block than a batch needs, and for whole vectors.
pub(super) const ROOM: usize = BATCH + 72;
/// Where the high half of a short piece's slot holds its count, and a key nothing.
const COUNT_SHIFT: u32 = 60;
/// From this many lines on, as a power of two, tables are put on huge pages where the system has them, once they have served this many
/// batches (a million pieces): such a page costs milliseconds to get, which a single text would not earn back.
const HUGE_BITS: u32 = 14;
const HUGE_AFTER: u32 = 4_000;
/// So many new pieces decide whether the next ones are strange: when fewer than one of [`STRANGE`] was a token. To merge one that is a token
/// takes some six times what looking for one takes that is none.
const DECIDING: u32 = 64;
const STRANGE: u32 = 16;
/// For strange pieces tables grow late, and then so many times at once.
const STRANGE_STEP: u32 = 2;
/// Each of so many tiny pieces that are found in a line takes its slot from another.
const GIVES_WAY: usize = 8;
/// When tables grow to this many lines, as a power of two, thousands of pieces are new: what merging looks things up in, megabytes that a new
/// process reads here and there from memory, is then read in order once, which takes a fraction of that.
const READ_AHEAD_BITS: u32 = 9;

/// Counts of pieces seen before.
pub(super) struct PieceCache {
    tables: Tables,
    longer: Row,
}

/// Slots of tiny pieces and, in the middle, lines of short ones, a power of two of each; from the `first` word on, where a cache line starts.
/// There is room for the most from the beginning, which takes no memory before it is touched. An entry's place is the upper bits of its
/// hash, so that tables grow in place: what lies at `n` moves to `2n` or `2n + 1`.
struct Tables {
    words: Box<[u64]>,
    first: usize,
    bits: u32,
    /// Since the tables got their size: short pieces that were looked up in lines, those that were not there, and those that took another's slot.
    looked_up: usize,
    missed: usize,
    replaced: usize,
    strange: Strange,
    huge: bool,
    batches: u32,
}

/// Whether new short pieces are strange: hardly any of them a token, as in base64, hashes and ids. To look for such a piece among the tokens is
/// in vain, and it won't come again. Those of up to four bytes are tokens often enough whatever the text is.
#[derive(Clone, Copy, Default)]
struct Strange {
    now: bool,
    /// New pieces since that was decided, and the tokens among them.
    new: u32,
    tokens: u32,
}

/// Slots of tiny pieces, a power of two of them: the key inverted, and the count above.
#[derive(Clone, Copy)]
pub(super) struct Tiny<'a>(&'a [u64]);

/// Longer pieces.
#[derive(Default)]
struct Row {
    /// By hash: the hash's upper half, and below it where the piece's record starts, plus one. Zero where none.
    index: Vec<u64>,
    /// Records of what is kept: length, count (four bytes each), bytes.
    records: Vec<u8>,
    held: usize,
}

/// What of a longer piece is kept: one that repeats its first bytes to the end, as rules of `=` and long runs of spaces do, is those and its
/// length. Looking it up reads it, and not a second megabyte.
#[derive(Clone, Copy)]
struct Kept<'a> {
    bytes: &'a [u8],
    /// The piece's length, with [`REPEATS`].
    length: u32,
}

/// Pieces that stand one behind the other, and what their lookup needs.
pub(super) struct Batch {
    /// Where the first starts and each ends, as offsets in the text.
    pub(super) borders: [u32; ROOM],
    /// How many there are.
    pub(super) pieces: usize,
    /// Places of short pieces, tiny ones that their table does not hold among them; and how many.
    pub(super) short: [u32; ROOM],
    pub(super) shorts: usize,
    /// Places of longer pieces, and how many.
    pub(super) longer: [u32; ROOM],
    pub(super) longers: usize,
    /// Low and high halves of the keys of `short`, and their lines.
    low: [u64; ROOM],
    high: [u64; ROOM],
    lines: [u32; ROOM],
    /// Which of them their lines did not hold.
    missed: [u32; ROOM],
}

impl Batch {
    pub(super) fn new() -> Self {
        Self {
            borders: [0; ROOM],
            pieces: 0,
            short: [0; ROOM],
            shorts: 0,
            longer: [0; ROOM],
            longers: 0,
            low: [0; ROOM],
            high: [0; ROOM],
            lines: [0; ROOM],
            missed: [0; ROOM],
        }
    }

    /// Forgets its pieces; the next one starts at `at`.
    #[inline(always)]
    pub(super) fn clear(&mut self, at: u32) {
        self.borders[0] = at;
        (self.pieces, self.shorts, self.longers) = (0, 0, 0);
    }

    /// Adds a piece, which is looked at with the rest (see [`Classify::tiny`]).
    #[inline(always)]
    pub(super) fn push(&mut self, end: u32) {
        self.pieces += 1;
        self.borders[self.pieces] = end;
    }

    #[inline(always)]
    fn piece(&self, place: u32) -> (usize, usize) {
        (self.borders[place as usize] as usize, self.borders[place as usize + 1] as usize)
    }
}

/// Counts what the cache does not know.
pub(super) trait Make {
    /// Says that the count of a short piece will be asked for.
    fn expect<C: Classify>(&self, key: (u64, u64));
    /// The count of a piece of up to [`SHORT`] bytes whose key this is.
    fn short(&mut self, piece: &[u8], key: (u64, u64)) -> usize;
    /// The same without looking for it among the tokens first, which would be in vain for most of them.
    fn strange(&mut self, piece: &[u8]) -> usize;
    /// The count of a longer piece, and whether it is that; or some number over a limit that is not to be kept.
    fn longer(&mut self, piece: &[u8]) -> (usize, bool);
    /// Says that many pieces will have to be merged.
    fn expect_many(&self);
}

impl PieceCache {
    pub(super) fn new() -> Self {
        Self { tables: Tables::new(FEWEST_BITS, false), longer: Row::default() }
    }

    /// The table of tiny pieces.
    #[inline(always)]
    pub(super) fn tiny(&self) -> Tiny<'_> {
        let Tables { words, first, bits, .. } = &self.tables;
        Tiny(words.get(*first..).and_then(|words| words.get(..1 << (bits + TINY_TO_LINE))).unwrap_or(&[0]))
    }

    /// The tokens of a batch's pieces that are in its lists.
    #[inline(always)]
    pub(super) fn count_listed<C: Classify>(&mut self, text: &[u8], batch: &mut Batch, make: &mut impl Make) -> usize {
        self.tables.serve(make);
        let Self { tables, longer } = self;
        let (bits, turn, mut strange) = (tables.bits, tables.batches as usize, tables.strange);
        let (lines, tiny) = tables.parts();
        let shorts = batch.shorts.min(ROOM);
        for slot in 0..shorts {
            let (at, end) = batch.piece(batch.short[slot]);
            (batch.low[slot], batch.high[slot]) = short_key(text, at, end);
        }
        // Whole vectors: what lies behind the list is made and not read.
        let whole = shorts.next_multiple_of(8).min(ROOM);
        for ((line, low), high) in batch.lines[..whole].iter_mut().zip(&batch.low[..whole]).zip(&batch.high[..whole]) {
            *line = line_of(*low, *high, bits);
        }
        for line in &batch.lines[..shorts] {
            C::prefetch(lines, *line as usize);
        }
        let (mut count, mut missed) = (0, 0);
        for slot in 0..shorts {
            let Some(slots) = lines.get(batch.lines[slot] as usize) else { continue };
            let key = (batch.low[slot], batch.high[slot]);
            let Some(found) = slots.get(2 * C::find(slots, key) + 1) else {
                batch.missed[missed] = slot as u32;
                missed += 1;
                continue;
            };
            let of_piece = found >> COUNT_SHIFT;
            count += of_piece as usize;
            if is_tiny(key) {
                // The one in its slot gives way now and then, so that in the end the one that comes more often is there.
                let gives_way = (slot + turn).is_multiple_of(GIVES_WAY);
                put_tiny(tiny, key.0, of_piece, gives_way);
            }
        }
        for slot in &batch.missed[..missed] {
            let key = (batch.low[*slot as usize], batch.high[*slot as usize]);
            if !strange.holds(key) {
                make.expect::<C>(key);
            }
        }
        let mut replaced = 0;
        for slot in &batch.missed[..missed] {
            let slot = *slot as usize;
            let (at, end) = batch.piece(batch.short[slot]);
            let key = (batch.low[slot], batch.high[slot]);
            // A new tiny one takes its slot where nobody has it, and no other's place in a line.
            if is_tiny(key)
                && let Some(own) = tiny.get_mut(tiny_slot(key.0, bits + TINY_TO_LINE))
                && (*own == 0 || (*own ^ !key.0) & TINY_KEY == 0)
            {
                if *own == 0 {
                    let of_piece = if strange.holds(key) { make.strange(&text[at..end]) } else { make.short(&text[at..end], key) };
                    strange.learn(key, of_piece);
                    *own = !key.0 & TINY_KEY | (of_piece as u64) << 56;
                }
                count += (*own >> 56) as usize;
                continue;
            }
            let Some(slots) = lines.get_mut(batch.lines[slot] as usize) else { continue };
            let (of_piece, replaces) = missed_short::<C>(slots, key, &text[at..end], strange.holds(key), make);
            count += of_piece;
            replaced += usize::from(replaces);
            strange.learn(key, of_piece);
        }
        strange.decide();
        tables.strange = strange;
        tables.looked_up += shorts;
        tables.missed += missed;
        tables.replaced += replaced;
        for place in &batch.longer[..batch.longers] {
            let (at, end) = batch.piece(*place);
            count += longer.count(&text[at..end], make);
        }
        count
    }
}

impl Tables {
    /// Words for the slots of tiny pieces, and for all.
    const TINY_WORDS: usize = 1 << (MOST_BITS + TINY_TO_LINE);
    const WORDS: usize = Self::TINY_WORDS + ((2 * WAYS) << MOST_BITS);

    fn new(bits: u32, huge: bool) -> Self {
        const HUGE_PAGE: usize = 2 << 20;
        let alignment = if huge { HUGE_PAGE } else { 64 };
        // What is over to both sides of the aligned part takes no memory.
        let words = vec![0; Self::WORDS.next_multiple_of(HUGE_PAGE / 8) + alignment / 8].into_boxed_slice();
        let first = (alignment - words.as_ptr().addr() % alignment) % alignment / 8;
        // Whole pages, or the system has none to give.
        let length = Self::TINY_WORDS + ((2 * WAYS) << bits);
        if huge && let Some(aligned) = words.get(first..first + length.next_multiple_of(HUGE_PAGE / 8)) {
            simd::ask_for_huge_pages(aligned);
        }
        let mut tables = Self { words, first, bits, looked_up: 0, missed: 0, replaced: 0, strange: Strange::default(), huge, batches: 0 };
        let (lines, tiny) = tables.parts();
        // A page that is read before it is written faults twice.
        lines.fill([std::hint::black_box(0); 2 * WAYS]);
        tiny.fill(std::hint::black_box(0));
        tables
    }

    /// The lines of short pieces, and the slots of tiny ones.
    #[inline(always)]
    fn parts(&mut self) -> (&mut [Line], &mut [u64]) {
        let words = self.words.get_mut(self.first..).unwrap_or_default();
        let Some((tiny, lines)) = words.split_at_mut_checked(Self::TINY_WORDS) else { return Default::default() };
        let lines = lines.get_mut(..(2 * WAYS) << self.bits).unwrap_or_default();
        (lines.as_chunks_mut().0, tiny.get_mut(..1 << (self.bits + TINY_TO_LINE)).unwrap_or_default())
    }

    /// Gets ready for a batch.
    #[inline(always)]
    fn serve(&mut self, make: &impl Make) {
        self.batches = self.batches.saturating_add(1);
        // By then pieces that were counted again have cost about what the new pages will. Where they are strange and seven of eight new, few were.
        let room = WAYS << self.bits;
        let all_new = self.strange.now && self.missed / 7 > self.looked_up / 8 && self.bits >= READ_AHEAD_BITS;
        let (enough, steps) = if all_new { (2 * room, STRANGE_STEP) } else { (room / 8, 1) };
        if self.replaced > enough && self.bits < MOST_BITS {
            self.grow(steps);
            if self.bits == READ_AHEAD_BITS {
                make.expect_many();
            }
        } else if self.batches > HUGE_AFTER && !self.huge && self.bits >= HUGE_BITS {
            self.move_to_huge_pages();
        }
    }

    /// Twice as many lines and slots, `steps` times.
    #[cold]
    fn grow(&mut self, steps: u32) {
        let steps = steps.min(MOST_BITS - self.bits);
        self.bits += steps;
        let bits = self.bits;
        let (lines, tiny) = self.parts();
        let old = lines.len() >> steps;
        lines[old..].fill([0; 2 * WAYS]);
        for at in (0..old).rev() {
            let line = std::mem::replace(&mut lines[at], [0; 2 * WAYS]);
            for slot in line.as_chunks::<2>().0.iter().filter(|slot| **slot != [0; 2]) {
                let to = line_of(slot[0], slot[1] | 0xF << COUNT_SHIFT, bits) as usize;
                let free = lines.get_mut(to).and_then(|line| line.as_chunks_mut::<2>().0.iter_mut().find(|slot| **slot == [0; 2]));
                if let Some(free) = free {
                    *free = *slot;
                }
            }
        }
        let old = tiny.len() >> steps;
        tiny[old..].fill(0);
        for at in (0..old).rev() {
            let slot = std::mem::take(&mut tiny[at]);
            if slot != 0 {
                put_tiny(tiny, !slot | !TINY_KEY, slot >> 56, true);
            }
        }
        (self.looked_up, self.missed, self.replaced) = (0, 0, 0);
    }

    #[cold]
    fn move_to_huge_pages(&mut self) {
        let mut old = std::mem::replace(self, Self::new(self.bits, true));
        (self.looked_up, self.missed, self.replaced) = (old.looked_up, old.missed, old.replaced);
        (self.strange, self.batches) = (old.strange, old.batches);
        let ((lines, tiny), (old_lines, old_tiny)) = (self.parts(), old.parts());
        lines.copy_from_slice(old_lines);
        tiny.copy_from_slice(old_tiny);
    }
}

impl Strange {
    /// Whether a new piece with this key is taken for a strange one.
    #[inline(always)]
    fn holds(self, key: (u64, u64)) -> bool {
        self.now && Self::has_five_bytes(key)
    }

    /// Takes the count of a new piece in.
    #[inline(always)]
    fn learn(&mut self, key: (u64, u64), count: usize) {
        let five = Self::has_five_bytes(key);
        self.new += u32::from(five);
        self.tokens += u32::from(five && count == 1);
    }

    /// At the end of a batch: within one, what is looked for is what was asked for ahead.
    #[inline(always)]
    fn decide(&mut self) {
        if self.new >= DECIDING {
            *self = Self { now: self.tokens * STRANGE < self.new, new: 0, tokens: 0 };
        }
    }

    /// Behind a piece, its key has ones.
    #[inline(always)]
    fn has_five_bytes(key: (u64, u64)) -> bool {
        key.0 >> 32 != 0xFFFF_FFFF
    }
}

impl<'a> Tiny<'a> {
    #[inline(always)]
    pub(super) fn slots(self) -> &'a [u64] {
        self.0
    }

    /// As a power of two.
    #[inline(always)]
    pub(super) fn bits(self) -> u32 {
        self.0.len().trailing_zeros()
    }

    /// The count of a piece, by its key.
    #[inline(always)]
    fn get(self, key: u64) -> Option<usize> {
        let slot = *self.0.get(tiny_slot(key, self.bits()))?;
        ((slot ^ !key) & TINY_KEY == 0).then_some((slot >> 56) as usize)
    }
}

#[inline(always)]
fn put_tiny(slots: &mut [u64], key: u64, count: u64, over: bool) {
    let at = tiny_slot(key, slots.len().trailing_zeros());
    if let Some(slot) = slots.get_mut(at) {
        let own = !key & TINY_KEY | count << 56;
        *slot = if over || *slot == 0 { own } else { *slot };
    }
}

/// Whether a short piece is a tiny one: its key has ones from the eighth byte on.
#[inline(always)]
fn is_tiny((low, high): (u64, u64)) -> bool {
    high == u64::MAX && low >> 56 == 0xFF
}

impl Row {
    #[inline(never)]
    fn count(&mut self, piece: &[u8], make: &mut impl Make) -> usize {
        let kept = Kept::of(piece);
        let tag = kept.hash() >> 32;
        for at in self.places(tag) {
            let Some(entry) = self.index.get(at).filter(|entry| **entry != 0) else { break };
            if entry >> 32 == tag
                && let Some(count) = self.known(*entry as u32, kept)
            {
                return count;
            }
        }
        let (count, keep) = make.longer(piece);
        if keep && kept.bytes.len() <= LONGEST {
            self.put(tag, kept, count);
        }
        count
    }

    /// Where a piece's entry may be; none while there is no index.
    #[inline(always)]
    fn places(&self, tag: u64) -> impl Iterator<Item = usize> + use<> {
        let mask = self.index.len().wrapping_sub(1);
        (0..PROBES).map(move |step| (tag as usize + step) & mask)
    }

    /// The count in a record, if it is this piece's.
    #[inline(always)]
    fn known(&self, entry: u32, piece: Kept<'_>) -> Option<usize> {
        let (length, rest) = self.records.get(entry as usize - 1..)?.split_first_chunk()?;
        let (count, rest) = rest.split_first_chunk()?;
        let same = u32::from_le_bytes(*length) == piece.length && rest.get(..piece.bytes.len()) == Some(piece.bytes);
        same.then_some(u32::from_le_bytes(*count) as usize)
    }

    #[cold]
    fn put(&mut self, tag: u64, piece: Kept<'_>, count: usize) {
        if self.records.len() + piece.bytes.len() > ROW_BYTES || self.held >= ROW_PIECES {
            *self = Self::default();
        }
        if self.held * 2 >= self.index.len() {
            let old = std::mem::take(&mut self.index);
            self.index = vec![0; (old.len() * 2).max(64)];
            for entry in old.into_iter().filter(|entry| *entry != 0) {
                self.point(entry);
            }
        }
        self.held += 1;
        self.point(tag << 32 | (self.records.len() + 1) as u64);
        self.records.extend_from_slice(&piece.length.to_le_bytes());
        self.records.extend_from_slice(&(count as u32).to_le_bytes());
        self.records.extend_from_slice(piece.bytes);
    }

    /// Puts an entry into the index; when its places are taken, over the first.
    fn point(&mut self, entry: u64) {
        let mut places = self.places(entry >> 32);
        let first = places.next();
        let free = first.into_iter().chain(places).find(|at| self.index.get(*at) == Some(&0));
        if let Some(slot) = free.or(first).and_then(|at| self.index.get_mut(at)) {
            *slot = entry;
        }
    }
}

/// What of a slot of a tiny piece is key.
pub(super) const TINY_KEY: u64 = u64::MAX >> 8;

/// The tokens of the tiny pieces from `from` on that their table holds; the others' places go to the lists. What [`Classify::tiny`] must do.
#[inline(always)]
pub(super) fn count_tiny(text: &[u8], batch: &mut Batch, from: usize, table: Tiny<'_>) -> usize {
    let mut count = 0;
    for place in from..batch.pieces {
        let (at, end) = batch.piece(place as u32);
        let length = end - at;
        if length > SHORT {
            batch.longer[batch.longers] = place as u32;
            batch.longers += 1;
            continue;
        }
        if length <= TINY
            && let Some(known) = table.get(tiny_key(text, at, end))
        {
            count += known;
            continue;
        }
        batch.short[batch.shorts] = place as u32;
        batch.shorts += 1;
    }
    count
}

/// The bytes of a piece of at most [`TINY`], all ones behind. A slot holds it inverted, so that an empty one, zero, is no piece's.
#[inline(always)]
fn tiny_key(text: &[u8], at: usize, end: usize) -> u64 {
    let word = match text.get(at..at + 8).and_then(<[u8]>::first_chunk) {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => near_end(text, at) as u64,
    };
    word | u64::MAX << (8 * (end - at))
}

/// The slot, of `2^bits`, of a tiny piece. Made of what vectors can do.
#[inline(always)]
fn tiny_slot(key: u64, bits: u32) -> usize {
    let mixed = (key & 0xFFFF_FFFF).wrapping_mul(HASH[0]) ^ (key >> 32).wrapping_mul(HASH[1]);
    ((mixed ^ mixed >> 32) as u32).wrapping_mul(HASH[2] as u32) as usize >> (32 - bits)
}

/// The count of a short piece that its line does not hold, or did not when the batch was looked up; and whether it takes another's slot.
#[inline(always)]
fn missed_short<C: Classify>(slots: &mut Line, key: (u64, u64), piece: &[u8], strange: bool, make: &mut impl Make) -> (usize, bool) {
    if let Some(slot) = slots.get(2 * C::find(slots, key) + 1) {
        return ((slot >> COUNT_SHIFT) as usize, false);
    }
    let count = if strange { make.strange(piece) } else { make.short(piece, key) };
    let replaces = slots[2 * WAYS - 1] != 0;
    // The newest first; the oldest goes.
    slots.copy_within(..2 * (WAYS - 1), 2);
    slots[0] = key.0;
    slots[1] = key.1 & HIGH_KEY | (count as u64) << COUNT_SHIFT;
    (count, replaces)
}

/// What of a slot's high half is key.
pub(super) const HIGH_KEY: u64 = (1 << COUNT_SHIFT) - 1;

/// The key of the piece `text[at..end]` of at most [`SHORT`] bytes: its bytes, and all ones behind, which no text has.
#[inline(always)]
pub(super) fn short_key(text: &[u8], at: usize, end: usize) -> (u64, u64) {
    let (low, high) = ONES_BEHIND[(end - at) & 15];
    let word = text.get(at..at + 16).and_then(<[u8]>::first_chunk).map_or_else(|| near_end(text, at), |bytes| u128::from_le_bytes(*bytes));
    (word as u64 | low, (word >> 64) as u64 | high)
}

/// The 16 bytes from `at` on, zeros behind the end of the text.
#[cold]
#[inline(never)]
fn near_end(text: &[u8], at: usize) -> u128 {
    let mut padded = [0; 16];
    for (byte, from) in padded.iter_mut().zip(text.get(at..).unwrap_or_default()) {
        *byte = *from;
    }
    u128::from_le_bytes(padded)
}

/// By length: ones in the halves of a key behind a piece of it.
static ONES_BEHIND: [(u64, u64); SHORT + 1] = {
    let mut masks = [(0, 0); SHORT + 1];
    let mut bytes = 0;
    while bytes <= SHORT {
        let ones: u128 = u128::MAX << (8 * bytes);
        masks[bytes] = (ones as u64, (ones >> 64) as u64);
        bytes += 1;
    }
    masks
};

impl<'a> Kept<'a> {
    /// A piece of 16 bytes or more.
    #[inline(always)]
    fn of(piece: &'a [u8]) -> Self {
        let length = piece.len() as u32;
        match piece.split_at_checked(PERIOD) {
            Some((first, rest)) if piece.starts_with(rest) => Self { bytes: first, length: length | REPEATS },
            _ => Self { bytes: piece, length },
        }
    }

    #[inline(always)]
    fn hash(self) -> u64 {
        let mix = |state: u64, bytes: &[u8; 16]| {
            let word = u128::from_le_bytes(*bytes);
            let product = u128::from(word as u64 ^ state) * u128::from((word >> 64) as u64 ^ 0xD6E8_FEB8_6659_FD93);
            (product >> 64) as u64 ^ product as u64 ^ 0x9E37_79B9_7F4A_7C15
        };
        let (chunks, _) = self.bytes.as_chunks();
        let state = chunks.iter().fold(u64::from(self.length), mix);
        self.bytes.last_chunk().map_or(state, |last| mix(state, last))
    }
}
