//! The one file with `unsafe`: byte classification with AVX-512 or AVX2, chosen at run time, and the loops compiled for them.
//!
//! Why it pays: the block splitter asks for nine bit masks of each 64 bytes; byte by byte that costs more than all the
//! rest together. Each `unsafe` block is either a call of an intrinsic that takes values, or an unaligned load from an
//! array that is as long as the load. The functions with a target feature are called only where [`level`] has found that
//! feature on this machine. Elsewhere (other architectures, old machines) the scalar automaton does everything and gives
//! the same answers.

#![allow(unsafe_code, reason = "the hot core's one file; see above")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "bytes, masks and offsets in the types that the intrinsics take"
)]

use super::blocks::{BLOCK, Classify, Masks, Scalar};

/// Asks the system to back memory with huge pages as it is touched: some 400 pages of tables, each forgotten and found again, cost a
/// counter that is called now and then a third of its speed. Nothing happens where there are none.
pub(super) fn ask_for_huge_pages(memory: &[u64]) {
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: advice on memory that is borrowed here; it changes no content.
    unsafe {
        libc::madvise(memory.as_ptr().cast_mut().cast(), size_of_val(memory), libc::MADV_HUGEPAGE);
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = memory;
}

/// A piece of work that is compiled once for each kind of machine.
pub(super) trait Job {
    type Answer;
    fn run<C: Classify>(self) -> Self::Answer;
}

/// What this machine offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// The best level of this machine. The standard library keeps the answer, so that asking costs a load.
#[inline]
pub(super) fn level() -> Level {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let common = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt");
        if common
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("avx512vbmi2")
            && is_x86_feature_detected!("avx512vl")
        {
            return Level::Avx512;
        }
        if common {
            return Level::Avx2;
        }
    }
    Level::Scalar
}

/// Runs a job at a level that [`level`] gave, or a lower one.
#[inline]
pub(super) fn run<J: Job>(level: Level, job: J) -> J::Answer {
    match level {
        Level::Scalar => job.run::<Scalar>(),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `level` is only ever made by `level()`, which found these features, or in tests from levels it found.
        Level::Avx2 => unsafe { run_avx2(job) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx512 => unsafe { run_avx512(job) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn run_avx2<J: Job>(job: J) -> J::Answer {
    job.run::<x86::Avx2>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2")]
fn run_avx512<J: Job>(job: J) -> J::Answer {
    job.run::<x86::Avx512>()
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{BLOCK, Classify, Masks};
    use crate::tokenizer::blocks::{ByClass, Wide, classify};
    use crate::tokenizer::classes::{self, Table};
    use crate::tokenizer::pieces::{BATCH, Batch, Line, ROOM, SHORT, TINY, TINY_KEY, Tiny, WAYS};
    use crate::tokenizer::prepare::{HASH, JOIN_BITS, JOIN_FACTORS, Joins};
    #[allow(clippy::wildcard_imports, reason = "intrinsics carry their own prefix")]
    use std::arch::x86_64::*;

    /// By which halves of a line differ, the first slot of which neither does.
    static WAY: [u8; 256] = {
        let mut ways = [WAYS as u8; 256];
        let mut differs = 0_usize;
        while differs < 256 {
            let mut way = WAYS;
            while way > 0 {
                way -= 1;
                if (differs >> (2 * way)).trailing_zeros() >= 2 {
                    ways[differs] = way as u8;
                }
            }
            differs += 1;
        }
        ways
    };

    #[inline(always)]
    fn prefetch<T>(lines: &[T], line: usize) {
        if let Some(line) = lines.get(line) {
            // SAFETY: a hint about memory that `line` borrows; it reads nothing.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(line).cast()) }
        }
    }

    /// Looks up the tiny ones of eight pieces, given by their begins and ends in 64 bytes of text; only `lanes` count, and `place` is the first
    /// one's in the batch. Puts the others in the lists.
    #[inline(always)]
    unsafe fn lookup(bytes: __m512i, begins: __m512i, ends: __m512i, lanes: u8, place: usize, batch: &mut Batch, table: Tiny<'_>) -> usize {
        // SAFETY: inlined into functions that have the features. A place in the table is at most its length less one. A list has at most one
        // entry a piece, of which there are at most `ROOM - 8`, and each store writes eight.
        unsafe {
            let ones = _mm512_set1_epi64(-1);
            let length = _mm512_sub_epi64(ends, begins);
            let short = _mm512_mask_cmple_epu64_mask(lanes, length, _mm512_set1_epi64(SHORT as i64));
            let tiny = _mm512_mask_cmple_epu64_mask(lanes, length, _mm512_set1_epi64(TINY as i64));
            let spread = _mm512_broadcast_i32x4(_mm_set_epi64x(0x0808_0808_0808_0808, 0));
            let index = _mm512_add_epi8(_mm512_shuffle_epi8(begins, spread), _mm512_set1_epi64(0x0706_0504_0302_0100));
            let key = _mm512_or_si512(_mm512_permutexvar_epi8(index, bytes), _mm512_sllv_epi64(ones, _mm512_slli_epi64::<3>(length)));
            let times = |value: __m512i, at: usize| _mm512_mul_epu32(value, _mm512_set1_epi64(HASH[at] as i64));
            let mixed = _mm512_xor_si512(times(key, 0), times(_mm512_srli_epi64::<32>(key), 1));
            let mixed = times(_mm512_xor_si512(mixed, _mm512_srli_epi64::<32>(mixed)), 2);
            let slots = table.slots();
            let place_in_table = _mm512_srl_epi64(mixed, _mm_cvtsi64_si128(32 - i64::from(table.bits())));
            let place_in_table = _mm512_and_si512(place_in_table, _mm512_set1_epi64(slots.len() as i64 - 1));
            let slot = _mm512_mask_i64gather_epi64::<8>(_mm512_setzero_si512(), tiny, place_in_table, slots.as_ptr().cast());
            // (slot ^ !key) & TINY_KEY
            let differs = _mm512_ternarylogic_epi64::<0b1000_0010>(slot, key, _mm512_set1_epi64(TINY_KEY as i64));
            let known = _mm512_mask_testn_epi64_mask(tiny, differs, differs);
            let places = _mm256_add_epi32(_mm256_set1_epi32(place as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
            let unknown = short & !known;
            let longer = lanes & !short;
            let (shorts, longers) = (batch.shorts.min(ROOM - 8), batch.longers.min(ROOM - 8));
            _mm256_storeu_si256(batch.short.as_mut_ptr().add(shorts).cast(), _mm256_maskz_compress_epi32(unknown, places));
            _mm256_storeu_si256(batch.longer.as_mut_ptr().add(longers).cast(), _mm256_maskz_compress_epi32(longer, places));
            batch.shorts = shorts + unknown.count_ones() as usize;
            batch.longers = longers + longer.count_ones() as usize;
            _mm512_mask_reduce_add_epi64(known, _mm512_srli_epi64::<56>(slot)) as usize
        }
    }

    static PLACES: [u8; 64] = {
        let mut places = [0; 64];
        let mut at = 0;
        while at < 64 {
            places[at] = at as u8;
            at += 1;
        }
        places
    };

    pub(super) struct Avx512;

    impl Classify for Avx512 {
        #[inline(always)]
        fn masks(block: &[u8; BLOCK]) -> Masks {
            // SAFETY: reached only from `run_avx512`, into which this is inlined; the load reads the 64 bytes of `block`.
            unsafe {
                let bytes = _mm512_loadu_si512(block.as_ptr().cast());
                let between = |low: u8, count: i8| {
                    _mm512_cmplt_epu8_mask(_mm512_sub_epi8(bytes, _mm512_set1_epi8(low as i8)), _mm512_set1_epi8(count))
                };
                let is = |byte: u8| _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(byte as i8));
                let space = is(b' ');
                Masks {
                    upper: between(b'A', 26),
                    lower: between(b'a', 26),
                    digit: between(b'0', 10),
                    blank: between(9, 5) | space,
                    space,
                    newline: is(b'\n') | is(b'\r'),
                    quote: is(b'\''),
                    slash: is(b'/'),
                    control: between(0, 9) | between(14, 18) | is(0x7F),
                    wide: _mm512_movepi8_mask(bytes),
                }
            }
        }

        #[inline(always)]
        fn wide(block: &[u8; BLOCK]) -> Wide {
            // SAFETY: reached only from `run_avx512`, into which this is inlined; the load reads the 64 bytes of `block`.
            unsafe {
                let bytes = _mm512_loadu_si512(block.as_ptr().cast());
                let between = |low: u8, count: i8| {
                    _mm512_cmplt_epu8_mask(_mm512_sub_epi8(bytes, _mm512_set1_epi8(low as i8)), _mm512_set1_epi8(count))
                };
                Wide { leads: [between(0xC0, 32), between(0xE0, 16), between(0xF0, 16)], caseless: between(0xE5, 5) | between(0xEB, 2) }
            }
        }

        #[inline(always)]
        fn classes(block: &[u8; BLOCK], leads: u64, table: &'static Table) -> ByClass {
            // Characters of four bytes are few, and their classes lie elsewhere.
            let four = leads & Self::wide(block).leads[2];
            let mut found = if four == 0 { ByClass::default() } else { classify(block, four, |code| table.of(code)) };
            let leads = leads & !four;
            let mut places = [0_u8; 64];
            // In the order of the characters, not at their places.
            let (mut upper, mut lower, mut caseless, mut mark, mut uncovered, mut apart) = (0, 0, 0, 0, 0, 0);
            let characters = leads.count_ones() as usize;
            // SAFETY: reached only from `run_avx512`, into which this is inlined. The load and the store are of whole arrays of 64 bytes;
            // the loads of places are of 16 of them from a multiple of 16 under 64 on. A gather reads four bytes from a code under 2^16,
            // of a table with three bytes more.
            unsafe {
                let bytes = _mm512_loadu_si512(block.as_ptr().cast());
                let all = _mm512_loadu_si512(PLACES.as_ptr().cast());
                _mm512_storeu_si512(places.as_mut_ptr().cast(), _mm512_maskz_compress_epi8(leads, all));
                let same = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12));
                let mut done = 0;
                while done < characters {
                    let at = _mm512_cvtepu8_epi32(_mm_loadu_si128(places.as_ptr().add(done).cast()));
                    let index = _mm512_add_epi8(_mm512_shuffle_epi8(at, same), _mm512_set1_epi32(0x0302_0100));
                    let character = _mm512_permutexvar_epi8(index, bytes);
                    let six = |shift: u32| {
                        _mm512_and_si512(_mm512_srl_epi32(character, _mm_cvtsi32_si128(shift as i32)), _mm512_set1_epi32(0x3F))
                    };
                    let lead = _mm512_and_si512(character, _mm512_set1_epi32(0xFF));
                    let high = _mm512_or_si512(_mm512_slli_epi32::<6>(_mm512_and_si512(lead, _mm512_set1_epi32(0x1F))), six(8));
                    let three = _mm512_cmpge_epu32_mask(lead, _mm512_set1_epi32(0xE0));
                    // Three bytes: the lead has one bit less, and one group of six more follows.
                    let code = _mm512_and_si512(
                        _mm512_mask_or_epi32(high, three, _mm512_slli_epi32::<6>(high), six(16)),
                        _mm512_set1_epi32(0xFFFF),
                    );
                    let class = _mm512_i32gather_epi32::<1>(code, table.low.as_ptr().cast());
                    let lanes = 0xFFFF_u16 >> (16 - (characters - done).min(16));
                    let of = |class_bits: u8| {
                        u64::from(_mm512_mask_test_epi32_mask(lanes, class, _mm512_set1_epi32(i32::from(class_bits)))) << done
                    };
                    upper |= of(classes::UPPER);
                    lower |= of(classes::LOWER);
                    caseless |= of(classes::CASELESS);
                    mark |= of(classes::MARK);
                    uncovered |= of(classes::NUMBER | classes::SPACE);
                    apart |= of(classes::NEWLINE);
                    done += 16;
                }
                found.upper |= _pdep_u64(upper, leads);
                found.lower |= _pdep_u64(lower, leads);
                found.caseless |= _pdep_u64(caseless, leads);
                found.mark |= _pdep_u64(mark, leads);
                found.uncovered |= _pdep_u64(uncovered, leads);
                found.apart |= _pdep_u64(apart, leads);
            }
            found
        }

        #[inline(always)]
        fn joined(block: &[u8; BLOCK], leads: u64, joins: Joins<'_>) -> u64 {
            let mut places = [0_u8; 64];
            // In the order of the characters, not at their places.
            let (mut pairs, mut alone, mut done) = (0, 0, 0);
            let characters = leads.count_ones() as usize;
            let words = joins.0.as_flattened();
            // SAFETY: reached only from `run_avx512`, into which this is inlined. The load and the store are of whole arrays of 64 bytes;
            // the loads of places are of 16 of them from a multiple of 16 under 64 on. A gather reads four bytes at a multiple of four
            // from a bit under 2^18, or one of the 2^16 behind it, of a table of as many bits.
            unsafe {
                let bytes = _mm512_loadu_si512(block.as_ptr().cast());
                let all = _mm512_loadu_si512(PLACES.as_ptr().cast());
                _mm512_storeu_si512(places.as_mut_ptr().cast(), _mm512_maskz_compress_epi8(leads, all));
                let same = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12));
                let and = |value: __m512i, bits: i32| _mm512_and_si512(value, _mm512_set1_epi32(bits));
                let times = |value: __m512i, at: usize| _mm512_mullo_epi32(value, _mm512_set1_epi32(JOIN_FACTORS[at] as i32));
                let is_set = |bit: __m512i| {
                    let word = _mm512_i32gather_epi32::<4>(_mm512_srli_epi32::<5>(bit), words.as_ptr().cast());
                    let one = _mm512_sllv_epi32(_mm512_set1_epi32(1), and(bit, 31));
                    _mm512_test_epi32_mask(word, one)
                };
                while done < characters {
                    let at = _mm512_cvtepu8_epi32(_mm_loadu_si128(places.as_ptr().add(done).cast()));
                    let index = _mm512_shuffle_epi8(at, same);
                    // The first byte highest; and of the character that ends where this one starts.
                    let three =
                        |offsets: i32| and(_mm512_permutexvar_epi8(_mm512_add_epi8(index, _mm512_set1_epi32(offsets)), bytes), 0x00FF_FFFF);
                    let (left, right) = (three(0x00FD_FEFF), three(0x0000_0102));
                    let bit = times(_mm512_xor_si512(times(left, 0), right), 1);
                    pairs |= u64::from(is_set(_mm512_srli_epi32::<{ 32 - JOIN_BITS }>(bit))) << done;
                    let code = _mm512_or_si512(
                        and(_mm512_srli_epi32::<4>(right), 0xF000),
                        _mm512_or_si512(and(_mm512_srli_epi32::<2>(right), 0xFC0), and(right, 0x3F)),
                    );
                    alone |= u64::from(is_set(_mm512_or_si512(code, _mm512_set1_epi32(1 << JOIN_BITS)))) << done;
                    done += 16;
                }
                let alone = _pdep_u64(alone, leads);
                alone | alone << 3 | _pdep_u64(pairs, leads)
            }
        }

        #[inline(always)]
        fn find(line: &Line, key: (u64, u64)) -> usize {
            // SAFETY: reached only from `run_avx512`, into which this is inlined; the load reads the 64 bytes of `line`.
            unsafe {
                let slots = _mm512_loadu_si512(line.as_ptr().cast());
                let wanted = _mm512_mask_set1_epi64(_mm512_set1_epi64(key.0 as i64), 0b1010_1010, key.1 as i64);
                let below_count = _mm512_broadcast_i32x4(_mm_set_epi64x(i64::MAX >> 3, -1));
                // A bit for each half that differs.
                usize::from(WAY[usize::from(_mm512_test_epi64_mask(_mm512_xor_si512(slots, wanted), below_count))])
            }
        }

        #[inline(always)]
        fn tiny(text: &[u8], batch: &mut Batch, from: usize, table: Tiny<'_>) -> usize {
            let mut sum = 0;
            let mut place = from;
            while place < batch.pieces {
                let at = batch.borders[place] as usize;
                let Some(rest) = text.get(at..) else { break };
                // SAFETY: reached only from `run_avx512`, into which this is inlined. The load of text is masked to what there is of it; that of
                // borders reads nine from `place` on, at most `BATCH`, of an array that is longer by more.
                unsafe {
                    let bytes = _mm512_maskz_loadu_epi8(u64::MAX >> (64 - rest.len().clamp(1, 64)), rest.as_ptr().cast());
                    let borders = batch.borders.as_ptr().add(place.min(BATCH));
                    let from_here =
                        |borders: *const u32| _mm256_sub_epi32(_mm256_loadu_si256(borders.cast()), _mm256_set1_epi32(at as i32));
                    let (begins, ends) = (from_here(borders), from_here(borders.add(1)));
                    let lanes = 0xFF_u8 >> (8 - (batch.pieces - place).min(8));
                    // Those from the first on that begins too far on for a tiny piece wait for the next turn.
                    let outside = _mm256_mask_cmpgt_epu32_mask(lanes, begins, _mm256_set1_epi32(64 - TINY as i32));
                    let lanes = lanes & (outside.wrapping_sub(1) & !outside);
                    sum += lookup(bytes, _mm512_cvtepu32_epi64(begins), _mm512_cvtepu32_epi64(ends), lanes, place, batch, table);
                    place += lanes.count_ones() as usize;
                }
            }
            sum
        }

        #[inline(always)]
        fn tiny_of_block(_text: &[u8], block: &[u8; BLOCK], starts: u64, base: u32, batch: &mut Batch, table: Tiny<'_>) -> usize {
            let pieces = starts.count_ones() as usize;
            let from = batch.pieces.min(BATCH);
            batch.pieces = from + pieces;
            let mut sum = 0;
            // SAFETY: reached only from `run_avx512`, into which this is inlined. Loads and stores of bytes are of whole arrays of 64, or of
            // eight of them from a multiple of eight under 64 on. Borders: eight from at most `BATCH + 57` on, which is `ROOM - 15`.
            unsafe {
                let bytes = _mm512_loadu_si512(block.as_ptr().cast());
                let all = _mm512_loadu_si512(PLACES.as_ptr().cast());
                let (mut begins, mut ends) = ([0_u8; 64], [0_u8; 64]);
                _mm512_storeu_si512(begins.as_mut_ptr().cast(), _mm512_maskz_compress_epi8(starts | 1, all));
                _mm512_storeu_si512(ends.as_mut_ptr().cast(), _mm512_maskz_compress_epi8(starts, all));
                let mut done = 0;
                // Two vectors at least: how many pieces a block has can't be guessed, but that it is under 17 mostly can.
                while done < pieces || done < 16 {
                    let eight = |bytes: &[u8; 64]| _mm_loadl_epi64(bytes.as_ptr().add(done).cast());
                    let borders = _mm256_add_epi32(_mm256_cvtepu8_epi32(eight(&ends)), _mm256_set1_epi32(base as i32));
                    _mm256_storeu_si256(batch.borders.as_mut_ptr().add(from + 1 + done).cast(), borders);
                    let lanes = ((1_u64 << pieces) - 1) >> done;
                    sum += lookup(
                        bytes,
                        _mm512_cvtepu8_epi64(eight(&begins)),
                        _mm512_cvtepu8_epi64(eight(&ends)),
                        lanes as u8,
                        from + done,
                        batch,
                        table,
                    );
                    done += 8;
                }
            }
            sum
        }

        #[inline(always)]
        fn prefetch<T>(lines: &[T], line: usize) {
            prefetch(lines, line);
        }
    }

    /// The two halves of a block. Functions with the feature, as closures without it are not always compiled into what has it.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn halves(block: &[u8; BLOCK]) -> [__m256i; 2] {
        // SAFETY: the two loads read the 64 bytes of `block`.
        unsafe { [_mm256_loadu_si256(block.as_ptr().cast()), _mm256_loadu_si256(block.as_ptr().add(32).cast())] }
    }

    /// The upper bits of all bytes.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn joined_bits([low, high]: [__m256i; 2]) -> u64 {
        u64::from(_mm256_movemask_epi8(low) as u32) | u64::from(_mm256_movemask_epi8(high) as u32) << 32
    }

    /// Which bytes are one of the `count` from `from` on.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn between([low, high]: [__m256i; 2], from: u8, count: i8) -> u64 {
        let (from, last) = (_mm256_set1_epi8(from as i8), _mm256_set1_epi8(count - 1));
        let (low, high) = (_mm256_sub_epi8(low, from), _mm256_sub_epi8(high, from));
        joined_bits([_mm256_cmpeq_epi8(_mm256_min_epu8(low, last), low), _mm256_cmpeq_epi8(_mm256_min_epu8(high, last), high)])
    }

    /// Which bytes are `byte`.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn equal([low, high]: [__m256i; 2], byte: u8) -> u64 {
        let wanted = _mm256_set1_epi8(byte as i8);
        joined_bits([_mm256_cmpeq_epi8(low, wanted), _mm256_cmpeq_epi8(high, wanted)])
    }

    pub(super) struct Avx2;

    impl Classify for Avx2 {
        #[inline(always)]
        fn masks(block: &[u8; BLOCK]) -> Masks {
            // SAFETY: reached only from `run_avx2`, into which this is inlined.
            unsafe {
                let bytes = halves(block);
                let space = equal(bytes, b' ');
                Masks {
                    upper: between(bytes, b'A', 26),
                    lower: between(bytes, b'a', 26),
                    digit: between(bytes, b'0', 10),
                    blank: between(bytes, 9, 5) | space,
                    space,
                    newline: equal(bytes, b'\n') | equal(bytes, b'\r'),
                    quote: equal(bytes, b'\''),
                    slash: equal(bytes, b'/'),
                    control: between(bytes, 0, 9) | between(bytes, 14, 18) | equal(bytes, 0x7F),
                    wide: joined_bits(bytes),
                }
            }
        }

        #[inline(always)]
        fn wide(block: &[u8; BLOCK]) -> Wide {
            // SAFETY: reached only from `run_avx2`, into which this is inlined.
            unsafe {
                let bytes = halves(block);
                Wide {
                    leads: [between(bytes, 0xC0, 32), between(bytes, 0xE0, 16), between(bytes, 0xF0, 16)],
                    caseless: between(bytes, 0xE5, 5) | between(bytes, 0xEB, 2),
                }
            }
        }

        #[inline(always)]
        fn find(line: &Line, key: (u64, u64)) -> usize {
            // SAFETY: reached only from `run_avx2`, into which this is inlined; the loads read the two halves of `line`.
            unsafe {
                let wanted = _mm256_set_epi64x(key.1 as i64, key.0 as i64, key.1 as i64, key.0 as i64);
                let below_count = _mm256_broadcastsi128_si256(_mm_set_epi64x(i64::MAX >> 3, -1));
                let slots = [_mm256_loadu_si256(line.as_ptr().cast()), _mm256_loadu_si256(line.as_ptr().add(4).cast())];
                let first = _mm256_and_si256(_mm256_xor_si256(slots[0], wanted), below_count);
                let second = _mm256_and_si256(_mm256_xor_si256(slots[1], wanted), below_count);
                let none = _mm256_setzero_si256();
                let first = _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(first, none)));
                let second = _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(second, none)));
                usize::from(WAY[usize::from(!(first | second << 4) as u8)])
            }
        }

        #[inline(always)]
        fn prefetch<T>(lines: &[T], line: usize) {
            prefetch(lines, line);
        }
    }
}
