//! Prepares the built-in vocabularies and the character classes, so that a process starts with tables it can read in place.
//!
//! Writes one file a table to `OUT_DIR`; `src/tokenizer/vocabulary.rs` and `classes.rs` embed them. The ranks come from
//! `tiktoken-rs`, the classes from `regex-syntax` (the tables that the published splits were tested with).

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a build that can't prepare its tables must stop")]

use std::collections::HashMap;
use std::path::Path;

#[allow(dead_code, clippy::inline_always, reason = "what reads the tables is the crate's")]
#[path = "src/tokenizer/prepare.rs"]
mod prepare;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/tokenizer/prepare.rs");
    let out = std::env::var_os("OUT_DIR").unwrap();
    let out = Path::new(&out);
    classes(out);
    let published = [
        ("o200k", tiktoken_rs::o200k_base().unwrap(), 200_000),
        ("cl100k", tiktoken_rs::cl100k_base().unwrap(), 100_300),
        ("p50k", tiktoken_rs::p50k_base().unwrap(), 50_400),
        ("r50k", tiktoken_rs::r50k_base().unwrap(), 50_400),
    ];
    std::thread::scope(|scope| {
        for (name, bpe, limit) in &published {
            scope.spawn(move || vocabulary(out, name, bpe, *limit));
        }
    });
}

fn vocabulary(out: &Path, name: &str, bpe: &tiktoken_rs::CoreBPE, limit: u32) {
    let special = bpe.special_tokens();
    let tokens: Vec<(Vec<u8>, u32)> = (0..limit)
        .filter_map(|id| Some((bpe.decode_bytes(&[id]).ok()?, id)))
        .filter(|(bytes, _)| !std::str::from_utf8(bytes).is_ok_and(|text| special.contains(text)))
        .collect();
    let tables = prepare::prepare(&tokens).unwrap();
    let write = |part: &str, bytes: &[u8]| std::fs::write(out.join(format!("{name}.{part}")), bytes).unwrap();
    write("bytes", tables.bytes.as_flattened());
    write("pairs", tables.pairs.as_flattened());
    write("filter", tables.filter.as_flattened());
    write("offsets", tables.offsets.as_flattened());
    write("text", &tables.text);
    write("whole", tables.whole.as_flattened());
    write("joins", tables.joins.as_flattened());
    write("words", tables.words.as_flattened());
}

/// The class bits of `classes.rs`.
fn classes(out: &Path) {
    let number_and_space = [(r"\p{N}", 16), (r"[\s--[\r\n]]", 32), (r"[\r\n]", 64)];
    let fill = |rest: u8, patterns: &[(&str, u8)]| {
        let mut of = vec![rest; 0x11_0000];
        for (pattern, bits) in patterns.iter().chain(&number_and_space) {
            for (from, to) in ranges(pattern) {
                of[from as usize..=to as usize].fill(*bits);
            }
        }
        of
    };
    let plain = fill(128, &[(r"[\p{Lu}\p{Lt}]", 1), (r"\p{Ll}", 2), (r"[\p{Lm}\p{Lo}]", 4), (r"\p{M}", 8)]);
    table(out, "class", &plain);
    let mut apart = plain;
    for (from, to) in ranges(r"\p{Han}") {
        for class in &mut apart[from as usize..=to as usize] {
            *class = if *class == 4 { 64 } else { 16 };
        }
    }
    table(out, "apart", &apart);
    let mut passes = fill(8, &[(r"[\p{P}\p{S}]", 128), (r"[\p{L}\p{M}]", 2)]);
    for (from, to) in [(0x3040, 0x30FF), (0x4E00, 0x9FA5)] {
        for class in &mut passes[from..=to] {
            *class = match *class {
                2 => 1,
                128 => 4,
                _ => 4 | 8,
            };
        }
    }
    table(out, "passes", &passes);
    let han: Vec<u8> = ranges(r"\p{Han}").into_iter().flat_map(|(from, to)| [from, to]).flat_map(u32::to_le_bytes).collect();
    std::fs::write(out.join("class.han"), han).unwrap();
}

/// One byte of class bits a code point: the lower ones flat, all of them in pages of 256 that are kept once.
fn table(out: &Path, name: &str, of: &[u8]) {
    std::fs::write(out.join(format!("{name}.low")), &of[..65_536 + 3]).unwrap();
    let mut pages: Vec<&[u8]> = Vec::new();
    let mut seen: HashMap<&[u8], u8> = HashMap::new();
    let mut index = Vec::new();
    for page in of.chunks(256) {
        index.push(*seen.entry(page).or_insert_with(|| {
            pages.push(page);
            u8::try_from(pages.len() - 1).unwrap()
        }));
    }
    std::fs::write(out.join(format!("{name}.index")), index).unwrap();
    std::fs::write(out.join(format!("{name}.pages")), pages.concat()).unwrap();
}

fn ranges(pattern: &str) -> Vec<(u32, u32)> {
    match regex_syntax::parse(pattern).unwrap().into_kind() {
        regex_syntax::hir::HirKind::Class(regex_syntax::hir::Class::Unicode(class)) => {
            class.iter().map(|range| (range.start() as u32, range.end() as u32)).collect()
        }
        other => panic!("{pattern} is not a class: {other:?}"),
    }
}
