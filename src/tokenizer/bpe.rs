//! Byte pair encoding of one piece, by ranks: the work behind a miss of the piece cache.
//!
//! **Short pieces** (up to [`WINDOW`] bytes) are merged in place: one key a byte, `rank << 11 | position`, so that the
//! smallest key is the lowest rank and, among equals, the leftmost; finding it is a plain minimum over a short array.
//!
//! **Long pieces** are merged in overlapping windows. A row of tokens is the encoding of its bytes exactly when each two
//! neighbours are (the first merge across a border would also happen with only those two tokens standing). So when
//! two overlapping windows share one token, span for span, the row made of the first window up to it and the second
//! from it has only neighbours that are neighbours in one of the two: it is the encoding. Windows share a token nearly at once
//! in practice; where they don't, the window grows, and past [`WIDEST`] the rest is merged with a heap. Time is linear
//! for as long as windows meet, `n log n` at worst.
//!
//! Called by the core and the appendable counter. Guards invariant 4.

#![allow(clippy::cast_possible_truncation, reason = "positions in a window are under 2^11")]

use super::prepare::NONE;
use super::vocabulary::Vocabulary;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Bytes of a window, and the longest piece that is merged at once.
pub(super) const WINDOW: usize = 256;
/// The widest window before the heap takes over; positions must fit into [`POSITION_BITS`].
const WIDEST: usize = 1 << POSITION_BITS;
const POSITION_BITS: u32 = 11;
/// Key of a part that can't merge with its right neighbour.
const IDLE: u32 = u32::MAX;

/// Tokens of a stretch of bytes: id and the byte at which each starts.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    pub(super) ids: Vec<u32>,
    pub(super) starts: Vec<usize>,
}

impl Row {
    fn clear(&mut self) {
        self.ids.clear();
        self.starts.clear();
    }
}

/// Parts in merging, as a linked list over byte positions. Reused so that nothing is allocated for a piece.
struct Parts<const N: usize> {
    keys: [u32; N],
    ids: [u32; N],
    next: [u16; N],
    previous: [u16; N],
}

impl<const N: usize> Parts<N> {
    /// Merges `bytes` (1 to `N` of them) until no two parts can be, and gives how many are left; `visit` gets each part's start and id.
    #[inline(always)]
    fn merge(vocabulary: &Vocabulary, bytes: &[u8], mut visit: impl FnMut(usize, u32)) -> usize {
        const { assert!(N.is_power_of_two() && N <= WIDEST) };
        let mut parts = Self { keys: [IDLE; N], ids: [0; N], next: [0; N], previous: [0; N] };
        let length = bytes.len().min(N);
        for at in 0..length {
            parts.ids[at] = vocabulary.byte(bytes[at]);
            parts.next[at] = at as u16 + 1;
            parts.previous[at] = (at as u16).wrapping_sub(1);
            if at + 1 < length {
                parts.keys[at] = key(vocabulary.byte_pair(bytes[at], bytes[at + 1]), at);
            }
        }
        let mut count = length;
        loop {
            let lowest = parts.keys.iter().fold(IDLE, |low, key| low.min(*key));
            if lowest == IDLE {
                break;
            }
            let at = lowest as usize & (N - 1);
            let id = lowest >> POSITION_BITS;
            let gone = usize::from(parts.next[at]) & (N - 1);
            let after = usize::from(parts.next[gone]);
            count -= 1;
            parts.ids[at] = id;
            parts.keys[gone] = IDLE;
            parts.next[at] = after as u16;
            parts.keys[at] = if after < length {
                parts.previous[after & (N - 1)] = at as u16;
                key(vocabulary.pair(id, parts.ids[after & (N - 1)]), at)
            } else {
                IDLE
            };
            if at > 0 {
                let before = usize::from(parts.previous[at]) & (N - 1);
                parts.keys[before] = key(vocabulary.pair(parts.ids[before], id), before);
            }
        }
        let mut at = 0;
        while at < length {
            visit(at, parts.ids[at & (N - 1)]);
            at = usize::from(parts.next[at & (N - 1)]);
        }
        count
    }
}

/// Number of tokens of `bytes` (1 to `N` of them) as [`Parts::merge`] makes them, or of parts when no more than `least` are left. Where a part
/// starts is a bit and keys stay in registers, so that no step waits for what the one before has written to memory; 32 are too many for that.
#[inline(always)]
fn merge_few<const N: usize>(vocabulary: &Vocabulary, bytes: &[u8], least: usize) -> usize {
    const { assert!(N.is_power_of_two() && N <= 16) };
    let length = bytes.len().min(N);
    let (mut keys, mut ids) = ([IDLE; N], [0; N]);
    for at in 0..length {
        ids[at] = vocabulary.byte(bytes[at]);
        if at + 1 < length {
            keys[at] = key(vocabulary.byte_pair(bytes[at], bytes[at + 1]), at);
        }
    }
    let mut starts = u64::MAX >> (64 - length.max(1));
    let mut count = length;
    loop {
        let lowest = keys.iter().fold(IDLE, |low, key| low.min(*key));
        if lowest == IDLE {
            break;
        }
        count -= 1;
        if count <= least {
            break;
        }
        let at = lowest as usize & (N - 1);
        let id = lowest >> POSITION_BITS;
        let behind = starts & (u64::MAX << (at + 1));
        let gone = behind.trailing_zeros() as usize & (N - 1);
        let after = behind & behind.wrapping_sub(1);
        starts ^= 1 << gone;
        ids[at] = id;
        let right = if after == 0 { IDLE } else { key(vocabulary.pair(id, ids[after.trailing_zeros() as usize & (N - 1)]), at) };
        for (place, slot) in keys.iter_mut().enumerate() {
            *slot = match place {
                _ if place == at => right,
                _ if place == gone => IDLE,
                _ => *slot,
            };
        }
        let ahead = starts & !(u64::MAX << at);
        if ahead != 0 {
            let before = ahead.ilog2() as usize & (N - 1);
            let left = key(vocabulary.pair(ids[before], id), before);
            for (place, slot) in keys.iter_mut().enumerate() {
                *slot = if place == before { left } else { *slot };
            }
        }
    }
    count
}

#[inline(always)]
fn key(rank: u32, at: usize) -> u32 {
    if rank == NONE { IDLE } else { rank << POSITION_BITS | at as u32 }
}

/// Number of tokens of a piece of 1 to [`WINDOW`] bytes.
#[inline(always)]
pub(super) fn count_short(vocabulary: &Vocabulary, piece: &[u8]) -> usize {
    if vocabulary.whole(piece).is_some() {
        return 1;
    }
    match piece.len() {
        0..=2 => merge_few::<2>(vocabulary, piece, 1),
        3..=8 => merge_few::<8>(vocabulary, piece, 1),
        9..=16 => merge_few::<16>(vocabulary, piece, 1),
        17..=32 => merged::<32>(vocabulary, piece),
        33..=64 => merged::<64>(vocabulary, piece),
        _ => merged::<WINDOW>(vocabulary, piece),
    }
}

/// Number of tokens of a piece of up to 16 bytes. When it is known to be no token, `least` is 2: its last two parts never merge, so that where
/// two are left, two is the answer. When it has five bytes and may be one that merging makes, `least` is 1.
#[inline(always)]
pub(super) fn count_parted(vocabulary: &Vocabulary, piece: &[u8], least: usize) -> usize {
    match *piece {
        [] | [_] | [_, _] => piece.len(),
        [a, b, c] => 3 - usize::from(vocabulary.byte_pair(a, b).min(vocabulary.byte_pair(b, c)) != NONE),
        [a, b, c, d] => four(vocabulary, [a, b, c, d]),
        _ if piece.len() <= 8 => merge_few::<8>(vocabulary, piece, least),
        _ => merge_few::<16>(vocabulary, piece, least),
    }
}

/// [`count_parted`] of four bytes: one merge, and whether there is another.
#[inline(always)]
fn four(vocabulary: &Vocabulary, [a, b, c, d]: [u8; 4]) -> usize {
    let [left, middle, right] = [[a, b], [b, c], [c, d]].map(|[first, second]| vocabulary.byte_pair(first, second));
    let lowest = left.min(middle).min(right);
    if lowest == NONE {
        return 4;
    }
    // The leftmost among equals.
    let goes_on = if left == lowest {
        right != NONE || vocabulary.pair(left, vocabulary.byte(c)) != NONE
    } else if middle == lowest {
        vocabulary.pair(vocabulary.byte(a), middle) != NONE || vocabulary.pair(middle, vocabulary.byte(d)) != NONE
    } else {
        left != NONE || vocabulary.pair(vocabulary.byte(b), right) != NONE
    };
    3 - usize::from(goes_on)
}

#[inline(always)]
fn merged<const N: usize>(vocabulary: &Vocabulary, piece: &[u8]) -> usize {
    Parts::<N>::merge(vocabulary, piece, |_, _| ())
}

/// Tokens of up to [`WIDEST`] bytes, into `row`, with starts from `base`.
#[inline(always)]
fn encode_window(vocabulary: &Vocabulary, bytes: &[u8], base: usize, row: &mut Row) {
    row.clear();
    let visit = |at: usize, id: u32| {
        row.ids.push(id);
        row.starts.push(base + at);
    };
    match bytes.len() {
        0..=16 => Parts::<16>::merge(vocabulary, bytes, visit),
        17..=64 => Parts::<64>::merge(vocabulary, bytes, visit),
        65..=WINDOW => Parts::<WINDOW>::merge(vocabulary, bytes, visit),
        _ => Parts::<WIDEST>::merge(vocabulary, bytes, visit),
    };
}

/// Appends the ids of a piece to `ids`.
pub(super) fn encode_piece(vocabulary: &Vocabulary, piece: &[u8], scratch: &mut Scratch, ids: &mut Vec<u32>) {
    if let Some(id) = vocabulary.whole(piece) {
        ids.push(id);
    } else if piece.len() <= WINDOW {
        encode_window(vocabulary, piece, 0, &mut scratch.current);
        ids.extend_from_slice(&scratch.current.ids);
    } else {
        long(vocabulary, piece, scratch, |accepted, _| {
            ids.extend_from_slice(accepted);
            true
        });
    }
}

/// Number of tokens of a piece of any length; may stop once it is over `limit`, with some number over it.
#[inline(always)]
pub(super) fn count_long(vocabulary: &Vocabulary, piece: &[u8], limit: usize, scratch: &mut Scratch) -> usize {
    if vocabulary.whole(piece).is_some() {
        return 1;
    }
    let mut count = 0;
    long(vocabulary, piece, scratch, |accepted, _| {
        count += accepted.len();
        count <= limit
    });
    count
}

/// Two windows' worth of tokens, kept between pieces.
#[derive(Default)]
pub(super) struct Scratch {
    current: Row,
    other: Row,
}

/// Encodes a piece in windows; `accept` gets ids and starts as they become certain and says whether to go on.
#[inline(always)]
pub(super) fn long(vocabulary: &Vocabulary, piece: &[u8], scratch: &mut Scratch, mut accept: impl FnMut(&[u32], &[usize]) -> bool) {
    let Scratch { current, other } = scratch;
    let mut width = WINDOW;
    // The current window: its bytes, its row, and the first token of it that was not yet accepted.
    let mut from = 0;
    let mut to = width.min(piece.len());
    let mut first = 0;
    encode_window(vocabulary, &piece[from..to], from, current);
    while to < piece.len() {
        // The next window starts on a token some way before this one's end: what follows may still change its last tokens.
        let margin = to - width / 4;
        let token = current.starts.partition_point(|start| *start < margin).saturating_sub(1);
        let meeting = if token > first {
            let start = current.starts[token];
            let end = (start + width).min(piece.len());
            if end - start == to - from && piece[start..end] == piece[from..to] {
                other.clear();
                other.ids.extend_from_slice(&current.ids);
                other.starts.extend(current.starts.iter().map(|at| at + (start - from)));
            } else {
                encode_window(vocabulary, &piece[start..end], start, other);
            }
            meet(current, token, other).map(|(left, right)| (left, right, start, end))
        } else {
            None
        };
        if let Some((left, right, start, end)) = meeting {
            if !accept(&current.ids[first..left], &current.starts[first..left]) {
                return;
            }
            std::mem::swap(current, other);
            (from, to, first) = (start, end, right);
            continue;
        }
        // No token in common: look wider, from the first token that is not settled.
        from = current.starts.get(first).copied().unwrap_or(from);
        first = 0;
        if width >= WIDEST {
            encode_heap(vocabulary, &piece[from..], from, current);
            break;
        }
        width *= 2;
        to = (from + width).min(piece.len());
        encode_window(vocabulary, &piece[from..to], from, current);
    }
    accept(&current.ids[first..], &current.starts[first..]);
}

/// The first token, span for span, that `left` from its token `from` on and `right` share.
#[inline(always)]
pub(super) fn meet(left: &Row, from: usize, right: &Row) -> Option<(usize, usize)> {
    let (mut l, mut r) = (from, 0);
    // The last token of `left` ends where its window was cut; its neighbour to come is unknown, but the token itself may stand.
    while let (Some(left_start), Some(right_start)) = (left.starts.get(l), right.starts.get(r)) {
        if left_start == right_start && left.ids[l] == right.ids[r] {
            return Some((l, r));
        }
        if left_start <= right_start { l += 1 } else { r += 1 }
    }
    None
}

/// Plain merging with a heap: any length, `n log n`. Also the middle ground between the fast road and the slow reference.
pub(super) fn encode_heap(vocabulary: &Vocabulary, bytes: &[u8], base: usize, row: &mut Row) {
    let mut ids: Vec<u32> = bytes.iter().map(|byte| vocabulary.byte(*byte)).collect();
    let mut next: Vec<usize> = (1..=bytes.len()).collect();
    let mut previous: Vec<usize> = (0..bytes.len()).map(|at| at.wrapping_sub(1)).collect();
    let mut heap: BinaryHeap<Reverse<(u32, usize, usize)>> = bytes
        .windows(2)
        .enumerate()
        .map(|(at, pair)| Reverse((vocabulary.byte_pair(pair[0], pair[1]), at, at + 2)))
        .filter(|Reverse((rank, _, _))| *rank != NONE)
        .collect();
    while let Some(Reverse((id, at, end))) = heap.pop() {
        // Entries are never taken out: one is stale when its pair is no longer the two parts from `at` to `end`.
        let gone = next[at];
        if ids[at] == NONE || gone >= bytes.len() || next[gone] != end || vocabulary.pair(ids[at], ids[gone]) != id {
            continue;
        }
        ids[at] = id;
        ids[gone] = NONE;
        next[at] = end;
        if end < bytes.len() {
            previous[end] = at;
            let rank = vocabulary.pair(id, ids[end]);
            if rank != NONE {
                heap.push(Reverse((rank, at, next[end])));
            }
        }
        if let Some(before) = previous.get(at).copied().filter(|before| *before < bytes.len()) {
            let rank = vocabulary.pair(ids[before], id);
            if rank != NONE {
                heap.push(Reverse((rank, before, end)));
            }
        }
    }
    row.clear();
    let mut at = 0;
    while at < bytes.len() {
        row.ids.push(ids[at]);
        row.starts.push(base + at);
        at = next[at];
    }
}

#[cfg(test)]
#[path = "bpe_tests.rs"]
mod tests;
