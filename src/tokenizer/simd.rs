//! The one file with `unsafe`: byte classification with AVX-512 or AVX2, chosen at run time, and the loops compiled for them.
//!
//! Why it pays: the block splitter asks for nine bit masks of each 64 bytes; byte by byte that costs more than all the
//! rest together. Each `unsafe` block is either a call of an intrinsic that takes values, or an unaligned load from an
//! array that is as long as the load. The functions with a target feature are called only where [`level`] has found that
//! feature on this machine. Elsewhere (other architectures, old machines) the scalar automaton does everything and gives
//! the same answers.

#![allow(unsafe_code, reason = "the hot core's one file; see above")]
#![allow(clippy::cast_possible_wrap, clippy::cast_sign_loss, reason = "bytes and masks in the types that the intrinsics take")]

use super::blocks::{BLOCK, Classify, Masks, Scalar};

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
        if common && is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl") {
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
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512vl")]
fn run_avx512<J: Job>(job: J) -> J::Answer {
    job.run::<x86::Avx512>()
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{BLOCK, Classify, Masks};
    use std::arch::x86_64::{
        __m256i, _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_min_epu8, _mm256_movemask_epi8, _mm256_set1_epi8, _mm256_sub_epi8,
        _mm512_cmpeq_epi8_mask, _mm512_cmplt_epu8_mask, _mm512_loadu_si512, _mm512_movepi8_mask, _mm512_set1_epi8, _mm512_sub_epi8,
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
                    wide: _mm512_movepi8_mask(bytes),
                }
            }
        }
    }

    pub(super) struct Avx2;

    impl Classify for Avx2 {
        #[inline(always)]
        fn masks(block: &[u8; BLOCK]) -> Masks {
            // SAFETY: reached only from `run_avx2`, into which this is inlined; the two loads read the 64 bytes of `block`.
            unsafe {
                let low: __m256i = _mm256_loadu_si256(block.as_ptr().cast());
                let high: __m256i = _mm256_loadu_si256(block.as_ptr().add(32).cast());
                let join = |low: __m256i, high: __m256i| {
                    u64::from(_mm256_movemask_epi8(low) as u32) | u64::from(_mm256_movemask_epi8(high) as u32) << 32
                };
                let between = |from: u8, count: i8| {
                    let one = |bytes: __m256i| {
                        let offset = _mm256_sub_epi8(bytes, _mm256_set1_epi8(from as i8));
                        _mm256_cmpeq_epi8(_mm256_min_epu8(offset, _mm256_set1_epi8(count - 1)), offset)
                    };
                    join(one(low), one(high))
                };
                let is = |byte: u8| {
                    let wanted = _mm256_set1_epi8(byte as i8);
                    join(_mm256_cmpeq_epi8(low, wanted), _mm256_cmpeq_epi8(high, wanted))
                };
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
                    wide: join(low, high),
                }
            }
        }
    }
}
