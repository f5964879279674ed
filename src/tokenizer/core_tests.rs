//! The core against `tiktoken-rs` (the published regexes and ranks): ids, counts, limits, every instruction set.
//!
//! Random pieces are made from a seed that is printed. `PLIMSOLL_PIECES` scales the number of random texts.

use super::blocks::{BLOCK, Classify};
use super::core::Core;
use super::deepseek;
use super::engine::Engine;
use super::prepare::Joins;
use super::reference::Reference;
use super::simd::{self, Job, Level};
use super::split::Split;
use super::vocabulary::Vocabulary;
use tiktoken_rs::CoreBPE;

/// What is published: a regex and ranks, or the ranks alone behind a split that is no single regex.
pub(super) enum Theirs {
    Whole(CoreBPE),
    Passes(CoreBPE),
}

impl Theirs {
    fn encode_ordinary(&self, text: &str) -> Vec<u32> {
        match self {
            Self::Whole(bpe) => bpe.encode_ordinary(text),
            Self::Passes(bpe) => {
                let mut ids = Vec::new();
                deepseek::for_pieces(text, |piece| ids.extend(bpe.encode_ordinary(piece)));
                ids
            }
        }
    }
}

/// Pairs of ours and theirs. The families without a published vocabulary here get `cl100k_base` ranks and their split.
pub(super) fn all() -> Vec<(Core, Theirs)> {
    let built_in = [
        (Core::new("o200k_base", Vocabulary::o200k(), Split::O200k), tiktoken_rs::o200k_base().unwrap()),
        (Core::new("cl100k_base", Vocabulary::cl100k(), Split::Cl100k), tiktoken_rs::cl100k_base().unwrap()),
        (Core::new("p50k_base", Vocabulary::p50k(), Split::Gpt2), tiktoken_rs::p50k_base().unwrap()),
        (Core::new("r50k_base", Vocabulary::r50k(), Split::Gpt2), tiktoken_rs::r50k_base().unwrap()),
    ];
    let mut all: Vec<_> = built_in.into_iter().map(|(ours, theirs)| (ours, Theirs::Whole(theirs))).collect();
    let cl100k = Vocabulary::cl100k();
    let ranks: Vec<(Vec<u8>, u32)> = (0..cl100k.limit()).filter_map(|id| Some((cl100k.token(id)?.to_vec(), id))).collect();
    let suffix = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)";
    let rest = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    let (upper, lower) = (r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]");
    for (split, regex) in [
        (Split::Llama3, format!(r"{suffix}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{rest}")),
        (Split::Qwen, format!(r"{suffix}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{rest}")),
        (
            Split::QwenMarks,
            format!(
                r"{suffix}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
            ),
        ),
        (
            Split::Kimi,
            format!(
                r"[\p{{Han}}]+|[^\r\n\p{{L}}\p{{N}}]?{upper}*{lower}+{suffix}?|[^\r\n\p{{L}}\p{{N}}]?{upper}+{lower}*{suffix}?|\p{{N}}{{1,3}}|{rest}"
            ),
        ),
        (
            Split::Tekken,
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+".to_owned(),
        ),
    ] {
        assert_eq!(Split::of_pattern(&regex), Some(split));
        let theirs = CoreBPE::new(ranks.iter().cloned().collect(), rustc_hash::FxHashMap::default(), &regex).unwrap();
        all.push((Core::from_ranks(format!("{split:?}"), &ranks, split).unwrap(), Theirs::Whole(theirs)));
    }
    let theirs = CoreBPE::new(ranks.iter().cloned().collect(), rustc_hash::FxHashMap::default(), "(?s).+").unwrap();
    all.push((Core::from_ranks("DeepSeek", &ranks, Split::DeepSeek).unwrap(), Theirs::Passes(theirs)));
    all
}

/// A short reproducible source of randomness.
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap() % limit
    }

    pub(super) fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

/// What the splits decide on: borders of every class, contractions, line ends, and characters at the edges of classes.
const ATOMS: &[&str] = &[
    "a",
    "b",
    "e",
    "s",
    "t",
    "ll",
    "re",
    "the",
    "ing",
    "A",
    "S",
    "T",
    "LL",
    "VE",
    "Ab",
    "'s",
    "'S",
    "'t",
    "'ll",
    "'Ll",
    "'ve",
    "'re",
    "'d",
    "'m",
    "'",
    "'l",
    "'v",
    "\"",
    " ",
    " ",
    "  ",
    "    ",
    "\t",
    "\n",
    "\r",
    "\r\n",
    "\n\n",
    "\u{b}",
    "\u{c}",
    "/",
    "//",
    "!",
    "(",
    "{",
    ".",
    ",",
    "=",
    "-",
    "_",
    "\0",
    "\u{1c}",
    "\u{7f}",
    "0",
    "1",
    "12",
    "345",
    "6789",
    "\u{85}",
    "\u{a0}",
    "\u{3000}",
    "\u{2028}",
    "é",
    "É",
    "ß",
    "ſ",
    "'ſ",
    "Ж",
    "ж",
    "你",
    "好",
    "々",
    "〇",
    "。",
    "，",
    "あ",
    "ア",
    "ー",
    "・",
    "゛",
    "\u{3099}",
    "\u{3040}",
    "\u{3097}",
    "一",
    "龥",
    "龦",
    "한",
    "ǅ",
    "ʰ",
    "ª",
    "\u{301}",
    "\u{fe0f}",
    "\u{200d}",
    "ा",
    "न",
    "٣",
    "Ⅷ",
    "½",
    "१",
    "😀",
    "👩",
    "𝔘",
    "𠀀",
    "\u{e0001}",
    "\u{10ffff}",
    "İ",
    "K",
    "ℹ",
    "🇩🇪",
    "<|endoftext|>",
    "function",
    " return",
    "aaaa",
    "====",
];

pub(super) fn text(random: &mut Random, most: usize) -> String {
    let few = random.below(3) == 0;
    let narrow: Vec<&str> = (0..4).map(|_| random.pick(ATOMS)).collect();
    let ascii = random.below(2) == 0;
    let mut text = String::new();
    for _ in 0..=random.below(most) {
        let atom = if few { random.pick(&narrow) } else { random.pick(ATOMS) };
        if !ascii || atom.is_ascii() {
            text.push_str(atom);
        }
    }
    text
}

fn same(ours: &Core, theirs: &Theirs, text: &str) {
    let expected = theirs.encode_ordinary(text);
    assert_eq!(ours.encode(text), expected, "{} {text:?}", ours.name());
    assert_eq!(ours.count(text), expected.len(), "{} {text:?}", ours.name());
    assert_eq!(ours.decode(&expected).unwrap(), text.as_bytes(), "{} {text:?}", ours.name());
}

pub(super) fn pieces() -> usize {
    std::env::var("PLIMSOLL_PIECES").ok().and_then(|scale| scale.parse().ok()).unwrap_or(500)
}

#[test]
fn random_texts_are_encoded_as_published() {
    let seed = 0x5EED_0001;
    println!("seed {seed:#x}");
    for (ours, theirs) in all() {
        let mut random = Random(seed);
        for _ in 0..pieces() {
            same(&ours, &theirs, &text(&mut random, 40));
        }
    }
}

#[test]
fn every_scalar_alone_and_beside_the_borders_of_classes() {
    // Each scalar between a few neighbours; the published regexes are slow, so many share a text, fenced by line ends and digits.
    // Without a raised `PLIMSOLL_PIECES` only a part of the rarer ones is tried.
    let (dense, sparse) = if pieces() >= 100_000 { (0x11_0000, 1) } else { (0x900, 61) };
    for (ours, theirs) in all() {
        let mut fenced = String::new();
        for scalar in (0..=0x10_FFFF).filter_map(char::from_u32) {
            if u32::from(scalar) >= dense && u32::from(scalar) % sparse != 0 {
                continue;
            }
            for (before, after) in [("", ""), ("a", "b"), ("A", "B"), (" ", "x"), ("!", "'s"), ("\u{301}", "1")] {
                fenced.extend([before, scalar.encode_utf8(&mut [0; 4]), after, "7\n"]);
            }
            if fenced.len() > 4_000 {
                same(&ours, &theirs, &fenced);
                fenced.clear();
            }
        }
        same(&ours, &theirs, &fenced);
    }
}

#[test]
fn blocks_agree_with_the_automaton_at_every_alignment_and_length() {
    let seed = 0x5EED_0002;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    for (mut ours, _) in all() {
        let best = ours.level();
        for _ in 0..pieces() / 10 {
            let long = text(&mut random, 300);
            let from = (0..long.len().min(70)).filter(|at| long.is_char_boundary(*at)).nth(random.below(60)).unwrap_or(0);
            let to = (from..=long.len().min(from + 300)).rev().find(|at| long.is_char_boundary(*at)).unwrap_or(from);
            let part = &long[from..to];
            ours.set_level(Level::Scalar);
            let expected = ours.encode(part);
            for level in levels(best) {
                ours.set_level(level);
                assert_eq!(ours.encode(part), expected, "{} {level:?} {part:?}", ours.name());
                // Twice: what the cache holds now, and what it held before.
                assert_eq!([(); 2].map(|()| ours.count(part)), [expected.len(); 2], "{} {level:?} {part:?}", ours.name());
            }
        }
        ours.set_level(best);
    }
}

fn levels(best: Level) -> Vec<Level> {
    match best {
        Level::Scalar => vec![],
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => vec![Level::Avx2],
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => vec![Level::Avx2, Level::Avx512],
    }
}

/// A text of whole tokens, which meets every border that a token has inside, and of characters of one script.
fn of_tokens(random: &mut Random, ours: &Core) -> String {
    const SCRIPTS: [(u32, u32); 12] = [
        (0x4E00, 0x9FFF),
        (0x4E00, 0x4F00),
        (0x3040, 0x30FF),
        (0xAC00, 0xD7A3),
        (0x0900, 0x097F),
        (0x0E00, 0x0E7F),
        (0x1780, 0x17FF),
        (0x0400, 0x045F),
        (0x0600, 0x06FF),
        (0x00C0, 0x017F),
        (0x3000, 0x303F),
        (0x1F300, 0x1F6FF),
    ];
    let (from, to) = SCRIPTS[random.below(SCRIPTS.len())];
    let mut bytes = Vec::new();
    for _ in 0..=random.below(60) {
        if random.below(2) == 0 {
            let id = u32::try_from(random.below(ours.vocabulary().limit() as usize)).unwrap();
            // Of wide ones there are few.
            let wide = (id..ours.vocabulary().limit()).filter_map(|id| ours.vocabulary().token(id)).find(|token| token[0] >= 0xE0);
            let token = if random.below(2) == 0 { ours.vocabulary().token(id) } else { wide };
            bytes.extend_from_slice(token.unwrap_or_default());
        } else {
            for _ in 0..=random.below(6) {
                let scalar = from + u32::try_from(random.below((to - from + 1) as usize)).unwrap();
                bytes.extend_from_slice(char::from_u32(scalar).unwrap_or('x').encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn texts_of_tokens_and_scripts_are_counted_as_published() {
    let seed = 0x5EED_0007;
    println!("seed {seed:#x}");
    for (mut ours, theirs) in all() {
        let best = ours.level();
        let mut random = Random(seed);
        for _ in 0..pieces() {
            let text = of_tokens(&mut random, &ours);
            let expected = theirs.encode_ordinary(&text);
            assert_eq!(ours.encode(&text), expected, "{} {text:?}", ours.name());
            for level in [Level::Scalar].into_iter().chain(levels(best)) {
                ours.set_level(level);
                assert_eq!(ours.count(&text), expected.len(), "{} {level:?} {text:?}", ours.name());
            }
        }
    }
}

struct Borders<'a>(&'a [u8; BLOCK], Joins<'a>);

impl Job for Borders<'_> {
    type Answer = (u64, u64);

    fn run<C: Classify>(self) -> (u64, u64) {
        // Characters that the block holds whole.
        let leads = C::wide(self.0).leads[1] & (u64::MAX >> 2);
        let rights = leads & leads << 3;
        (rights, rights & C::joined(self.0, leads, self.1))
    }
}

#[test]
fn borders_that_a_token_may_lie_across_are_those_found_one_by_one() {
    let seed = 0x5EED_000B;
    println!("seed {seed:#x}");
    let (mut seen, mut joined) = (0, 0);
    for (ours, _) in all() {
        let Some(joins) = ours.vocabulary().joins() else { continue };
        let mut random = Random(seed);
        for _ in 0..pieces() {
            let text = of_tokens(&mut random, &ours);
            for block in text.as_bytes().windows(BLOCK).step_by(7).filter_map(<[u8]>::first_chunk) {
                let expected = simd::run(Level::Scalar, Borders(block, joins));
                for level in levels(ours.level()) {
                    assert_eq!(simd::run(level, Borders(block, joins)), expected, "{} {level:?} {block:?}", ours.name());
                }
                seen += expected.0.count_ones();
                joined += expected.1.count_ones();
            }
        }
    }
    assert!(joined > 1_000 && seen > 2 * joined, "{joined} of {seen}");
}

#[test]
fn a_part_of_a_row_is_no_token_that_only_a_whole_piece_can_be() {
    // A blank and the first byte of the character merge first, so that the two together are a token only alone.
    let more: [&[u8]; 7] = [b" \xE7", b"\xE7\x8E", "王".as_bytes(), " 王".as_bytes(), "王王".as_bytes(), b"\xE5\x91", "命".as_bytes()];
    let tokens = (0..=255_u8).map(|byte| vec![byte]).chain(more.map(<[u8]>::to_vec));
    let ranks: Vec<(Vec<u8>, u32)> = tokens.zip(0..).collect();
    let regex = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    let theirs = CoreBPE::new(ranks.iter().cloned().collect(), rustc_hash::FxHashMap::default(), regex).unwrap();
    let ours = Core::from_ranks("whole", &ranks, Split::Llama3).unwrap();
    assert_eq!((ours.count(" 王"), ours.count(" 王命")), (1, 4));
    let seed = 0x5EED_000A;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    for _ in 0..pieces() {
        let text: String = (0..random.below(80)).map(|_| random.pick(&[" ", "王", "命", "a", "!", "王王", " 王"])).collect();
        same(&ours, &Theirs::Whole(theirs.clone()), &text);
    }
}

#[test]
fn strange_pieces_are_counted_as_published_and_tokens_among_them() {
    // The last ones are no two tokens merged: each is one only as a whole piece.
    let more: [&[u8]; 8] = [b"th", b"the", b" the", b"in", b"qz", b"zxqjkv", b" zxqjkv", b"=======-"];
    let tokens = (0..=255_u8).map(|byte| vec![byte]).chain(more.map(<[u8]>::to_vec));
    let ranks: Vec<(Vec<u8>, u32)> = tokens.zip(0..).collect();
    let regex = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
    let theirs = CoreBPE::new(ranks.iter().cloned().collect(), rustc_hash::FxHashMap::default(), regex).unwrap();
    let seed = 0x5EED_000B;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    for _ in 0..pieces() / 20 {
        let ours = Core::from_ranks("strange", &ranks, Split::Gpt2).unwrap();
        let mut text = String::new();
        // Strange ones and others by turns, so that each decision is taken both ways.
        for turn in 0..4 + random.below(4) {
            for _ in 0..random.below(400) {
                let letters: String = (0..4 + random.below(12)).map(|_| random.pick(&["q", "z", "x", "j", "k", "v", "t", "h"])).collect();
                let piece = if random.below(3) == turn % 3 { random.pick(&["zxqjkv", "the", "=======-", "in"]) } else { &letters };
                text.push_str(random.pick(&[" ", " ", "\n", "  "]));
                text.push_str(piece);
            }
        }
        same(&ours, &Theirs::Whole(theirs.clone()), &text);
    }
}

#[test]
fn a_cache_that_grows_and_overflows_never_guesses() {
    let seed = 0x5EED_0008;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    for mut ours in [Core::new("o200k_base", Vocabulary::o200k(), Split::O200k), Core::new("r50k_base", Vocabulary::r50k(), Split::Gpt2)] {
        ours.set_threads(1);
        // More distinct pieces of each length than the tables hold, and each again.
        let mut words = Vec::new();
        for length in [2, 5, 7, 8, 11, 15, 16, 30, 100, 300] {
            for _ in 0..12_000 / length.min(40) {
                words.push((0..length).map(|_| char::from(b'a' + u8::try_from(random.below(26)).unwrap())).collect::<String>());
            }
        }
        words.push("x".repeat(2 << 20));
        // More bytes of longer pieces than are kept.
        let long: String = (0..60_000).map(|_| format!(" {}", &words[random.below(words.len() - 1)].repeat(41)[..80])).collect();
        assert_eq!(ours.count(&long), ours.encode(&long).len(), "{}", ours.name());
        for _ in 0..if pieces() > 1_000 { 40 } else { 4 } {
            let mut text = String::new();
            for _ in 0..30_000 {
                text.push(' ');
                text.push_str(&words[random.below(words.len() - 1)]);
            }
            assert_eq!(ours.count(&text), ours.encode(&text).len(), "{}", ours.name());
        }
        for word in words.iter().rev().take(200) {
            let count = ours.encode(word).len();
            // A limit that stops the count early leaves nothing wrong behind.
            assert_eq!(ours.count_within(word, count / 2), (count <= count / 2).then_some(count));
            assert_eq!(ours.count(word), count, "{} {}", ours.name(), word.len());
        }
    }
}

#[test]
fn longer_pieces_that_hash_alike_are_told_apart() {
    // The first eight bytes are the length, which cancels the hash's state: all of these have one tag.
    let ours = Core::new("r50k_base", Vocabulary::r50k(), Split::Gpt2);
    let texts: Vec<String> = (0..200_usize)
        .map(|at| {
            let signs: String = (0..9).map(|digit| ['!', '#', '$', '%'][at >> (2 * digit) & 3]).collect();
            format!("\u{11}\0\0\0\0\0\0\0{signs}")
        })
        .collect();
    for _ in 0..2 {
        for text in &texts {
            assert_eq!(ours.count(text), ours.encode(text).len(), "{text:?}");
        }
    }
}

#[test]
fn pieces_that_repeat_are_told_from_those_that_nearly_do() {
    let seed = 0x5EED_000A;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    let signs = ["=", "-", "*", "#", "─", "。", "・", "→"];
    for ours in [Core::new("o200k_base", Vocabulary::o200k(), Split::O200k), Core::new("r50k_base", Vocabulary::r50k(), Split::Gpt2)] {
        let mut texts = Vec::new();
        for _ in 0..pieces().max(2_000) / 2 {
            let longest = [3, 52][random.below(2)];
            let period: Vec<&str> = (0..=random.below(longest)).map(|_| random.pick(&signs)).collect();
            let mut text: Vec<&str> = period.iter().copied().cycle().take(16 + random.below(180)).collect();
            texts.push(text.concat());
            // One sign of it is another.
            let at = random.below(text.len());
            text[at] = random.pick(&signs);
            texts.push(text.concat());
            // The same sign again and again, one more and one less.
            texts.extend([period[0].repeat(text.len()), period[0].repeat(text.len() - 1)]);
        }
        // First what is new, then what is remembered.
        for _ in 0..2 {
            for text in &texts {
                assert_eq!(ours.count(text), ours.encode(text).len(), "{} {text:?}", ours.name());
            }
        }
    }
}

#[test]
fn huge_texts_are_counted_in_parts() {
    // As parts of a text too long for one go would be.
    let ours = Core::new("cl100k_base", Vocabulary::cl100k(), Split::Cl100k);
    let mut random = Random(0x5EED_0009);
    for _ in 0..50 {
        let text = text(&mut random, 200);
        assert_eq!(ours.count_plainly(text.as_bytes()), ours.encode(&text).len(), "{text:?}");
    }
}

#[test]
fn limits_are_exact() {
    let seed = 0x5EED_0003;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    for (ours, _) in all() {
        for _ in 0..50 {
            let text = text(&mut random, 60);
            let count = ours.count(&text);
            for limit in 0..count + 3 {
                assert_eq!(ours.count_within(&text, limit), (count <= limit).then_some(count), "{limit} {text:?}");
            }
        }
    }
}

#[test]
fn the_slow_twin_agrees() {
    let seed = 0x5EED_0004;
    println!("seed {seed:#x}");
    for (ours, _) in all() {
        let tokens = (0..ours.vocabulary().limit()).filter_map(|id| Some((ours.vocabulary().token(id)?.to_vec(), id)));
        let Some(reference) = Reference::new(ours.name(), tokens) else { continue };
        let mut random = Random(seed);
        for _ in 0..pieces() / 5 {
            let text = text(&mut random, 30);
            assert_eq!(ours.encode(&text), reference.encode(&text), "{} {text:?}", ours.name());
        }
    }
}

#[test]
fn long_runs_end_where_they_do_character_by_character() {
    let seed = 0x5EED_0009;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    let runs =
        ["a", "Z", "aZ", " ", "\n", " \n", "\r\t", "7", "=", "-_/", "\u{1}", "'", "é", "你", "の", "\u{301}", "\u{3000}", "٣", "a你"];
    for (mut ours, theirs) in all() {
        let best = ours.level();
        for _ in 0..pieces() / 5 {
            let mut text = String::new();
            for _ in 0..=random.below(4) {
                let run = random.pick(&runs);
                text.extend(std::iter::repeat_n(run, random.below(200)));
                text.push_str(random.pick(&["", "", "x", " ", "\n", "/", "é"]));
            }
            let expected = theirs.encode_ordinary(&text);
            for level in std::iter::once(Level::Scalar).chain(levels(best)) {
                ours.set_level(level);
                assert_eq!(ours.encode(&text), expected, "{} {level:?} {text:?}", ours.name());
                assert_eq!(ours.count(&text), expected.len(), "{} {level:?} {text:?}", ours.name());
            }
        }
    }
}

#[test]
fn threads_share_a_large_text_exactly() {
    let seed = 0x5EED_0006;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    for (mut ours, _) in all() {
        ours.set_threads(4);
        let mut long = String::new();
        while long.len() < 2_000_000 {
            long.push_str(&text(&mut random, 200));
        }
        assert_eq!(ours.count(&long), ours.encode(&long).len(), "{}", ours.name());
    }
}
