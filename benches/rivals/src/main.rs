//! Measures Plimsoll's counter beside other exact tokenizers, interleaved in one run, and prints one JSON line a figure.
//!
//! `rivals warm VOCABULARY CORPORA_DIR`: 2 kB messages, one thread, CPU time, the best and the median of many rounds.
//! `rivals hostile VOCABULARY`: 1 MB of one thing, several times by the same counters, which may remember it.
//! `rivals once VOCABULARY`: the same once, in a fresh process each.
//! `rivals cold VOCABULARY CORPORA_DIR`: the first pass over a whole corpus in a fresh process each.
//! `rivals open CORPORA_DIR VOCABULARIES_DIR`: 2 kB messages by vocabularies of open-weight models, each read from its `tokenizer.json`, in turns
//! with fastokens.
//! `rivals start`: time from `main` to the first count, and peak resident memory, in a fresh process each.
//! Every figure comes with a check that all counters gave the same answer; one that doesn't is reported and left out.

use std::hint::black_box;
use std::io::Read as _;
use std::time::Instant;

type Count = Box<dyn Fn(&str) -> usize>;

const NAMES: [&str; 5] = ["plimsoll", "fastokens", "toktok", "bpe-openai", "tiktoken-rs"];

fn published(vocabulary: &str) -> tiktoken_rs::CoreBPE {
    match vocabulary {
        "cl100k_base" => tiktoken_rs::cl100k_base(),
        _ => tiktoken_rs::o200k_base(),
    }
    .expect("the vocabulary is built in")
}

fn make(name: &str, vocabulary: &str) -> Count {
    match name {
        "plimsoll" => {
            let ours = plimsoll::Tokenizer::by_name(vocabulary).expect("the vocabulary is built in");
            Box::new(move |text| ours.count(text))
        }
        "fastokens" => {
            let published = published(vocabulary);
            let special = published.special_tokens();
            let ranks: Vec<(Vec<u8>, u32)> = (0..200_000)
                .filter_map(|id| Some((published.decode_bytes(&[id]).ok()?, id)))
                .filter(|(bytes, _)| !std::str::from_utf8(bytes).is_ok_and(|text| special.contains(text)))
                .collect();
            let config = fastokens::TiktokenConfig::from_preset(vocabulary).expect("a preset");
            let theirs = fastokens::Tokenizer::from_tiktoken_ranks(&ranks, config).expect("ranks load");
            Box::new(move |text| theirs.encode_ordinary(text).expect("encodes").len())
        }
        "toktok" => {
            let theirs = toktok::Tokenizer::builtin(vocabulary).expect("built in");
            Box::new(move |text| theirs.count(text.as_bytes()))
        }
        "bpe-openai" => {
            let theirs = if vocabulary == "cl100k_base" { bpe_openai::cl100k_base() } else { bpe_openai::o200k_base() };
            Box::new(move |text| theirs.count(text))
        }
        _ => {
            let theirs = published(vocabulary);
            Box::new(move |text| theirs.count_ordinary(text))
        }
    }
}

/// Of the calling thread: run it on one processor (`taskset`), so that nobody shares out work.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn corpus(folder: &str, name: &str) -> String {
    let file = std::fs::File::open(format!("{folder}/{name}.txt.gz")).expect("a corpus");
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("gzip of UTF-8");
    text
}

/// Of open-weight models, as `scripts/fetch-vocabularies` names their folders; the first holds o200k's ranks.
const OPEN: [&str; 5] = ["gpt-oss-json", "qwen3-json", "llama3-json", "deepseek-v3", "deepseek-v4"];

/// Ours and fastokens, of one `tokenizer.json`; `None` where fastokens can't read it.
fn of_file(store: &plimsoll::VocabularyStore, name: &str, folder: &std::path::Path) -> Option<Vec<(&'static str, Count)>> {
    let options = plimsoll::AddOptions { by_reference: true, ..plimsoll::AddOptions::default() };
    store.add(name, folder, &options).expect("the vocabulary is read");
    let ours = store.load(name).expect("it was added");
    let theirs = fastokens::Tokenizer::from_file(&folder.join("tokenizer.json"));
    let theirs = theirs.inspect_err(|error| eprintln!("{name}: fastokens: {error}")).ok()?;
    Some(vec![
        ("plimsoll", Box::new(move |text| ours.count(text))),
        ("fastokens", Box::new(move |text| theirs.encode_ordinary(text).expect("encodes").len())),
    ])
}

/// Fresh processes of each counter: one first pass differs from the next by a quarter, with the memory that it is given.
const FRESH: usize = 11;

const CORPORA: [&str; 5] = ["english", "code", "json", "chinese", "multi"];

fn messages(text: &str) -> Vec<&str> {
    let mut rest = text;
    let mut messages = Vec::new();
    while !rest.is_empty() {
        let mut at = rest.len().min(2_000);
        while !rest.is_char_boundary(at) {
            at += 1;
        }
        let (message, after) = rest.split_at(at);
        messages.push(message);
        rest = after;
    }
    messages
}

/// Best and median MB/s of each counter over interleaved rounds, and the median of its ratio to ours.
fn measure(kind: &str, vocabulary: &str, work: &str, texts: &[&str], counters: &[(&str, Count)], rounds: usize) {
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    let expected: Vec<usize> = texts.iter().map(|text| counters[0].1(text)).collect();
    let mut times = vec![Vec::new(); counters.len()];
    let exact: Vec<bool> = counters.iter().map(|(_, count)| texts.iter().zip(&expected).all(|(text, expected)| count(text) == *expected)).collect();
    for round in 0..rounds {
        for at in 0..counters.len() {
            let which = (at + round) % counters.len();
            let began = cpu_seconds();
            for text in texts {
                black_box(counters[which].1(black_box(text)));
            }
            times[which].push(cpu_seconds() - began);
        }
    }
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let ours = times[0].clone();
    for ((name, _), (times, exact)) in counters.iter().zip(times.iter_mut().zip(exact)) {
        let mut ratios: Vec<f64> = times.iter().zip(&ours).map(|(theirs, ours)| theirs / ours).collect();
        let ratio = median(&mut ratios);
        let mid = median(times);
        println!(
            r#"{{"kind":"{kind}","vocabulary":"{vocabulary}","work":"{work}","who":"{name}","best_mb_s":{:.2},"median_mb_s":{:.2},"ours_over_theirs":{ratio:.2},"same_count":{exact}}}"#,
            bytes as f64 / times[0] / 1e6,
            bytes as f64 / mid / 1e6,
        );
    }
}

fn hostile() -> Vec<(&'static str, String)> {
    const SIZE: usize = 1_000_000;
    let mut state = 0x5EED_u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let base64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letters: String = (0..SIZE).map(|_| char::from(b'a' + (random() % 26) as u8)).collect();
    let encoded: String = (0..SIZE).map(|_| char::from(base64[random() % 64])).collect();
    let digits: String = (0..SIZE).map(|_| char::from(b'0' + (random() % 10) as u8)).collect();
    let han: String = (0..SIZE / 3).map(|_| char::from_u32(0x4E00 + (random() % 0x5000) as u32).unwrap_or('一')).collect();
    let bytes: Vec<u8> = (0..SIZE / 2).map(|_| random() as u8).collect();
    vec![
        ("one letter", "a".repeat(SIZE)),
        ("spaces", " ".repeat(SIZE)),
        ("newlines", "\n".repeat(SIZE)),
        ("equals signs", "=".repeat(SIZE)),
        ("random letters", letters),
        ("base64", encoded),
        ("digits", digits),
        ("one Han run", han),
        ("random bytes", String::from_utf8_lossy(&bytes).into_owned()),
    ]
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().split(' ').next()?.parse().ok()).unwrap_or(0)
}

fn again(arguments: &[&str]) {
    let this = std::env::current_exe().expect("this program");
    std::process::Command::new(this).args(arguments).status().expect("it starts again");
}

fn main() {
    let began = Instant::now();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["warm", vocabulary, folder, ref rest @ ..] => {
            let counters: Vec<(&str, Count)> =
                NAMES.into_iter().filter(|name| rest.is_empty() || rest.contains(name)).map(|name| (name, make(name, vocabulary))).collect();
            for name in CORPORA {
                let text = corpus(folder, name);
                measure("warm", vocabulary, name, &messages(&text), &counters, 11);
            }
        }
        ["open", folder, vocabularies] => {
            let home = std::env::temp_dir().join(format!("plimsoll-rivals-{}", std::process::id()));
            let store = plimsoll::VocabularyStore::at(&home);
            for vocabulary in OPEN {
                let from = std::path::Path::new(vocabularies).join(vocabulary);
                let Some(counters) = from.is_dir().then(|| of_file(&store, vocabulary, &from)).flatten() else {
                    eprintln!("left out: {vocabulary}");
                    continue;
                };
                for name in CORPORA {
                    let text = corpus(folder, name);
                    measure("open", vocabulary, name, &messages(&text), &counters, 11);
                }
            }
            drop(std::fs::remove_dir_all(home));
        }
        ["hostile", vocabulary, ref rest @ ..] => {
            // The regex of tiktoken-rs overflows its stack on some of these.
            let counters: Vec<(&str, Count)> =
                NAMES.into_iter().take(4).filter(|name| rest.is_empty() || rest.contains(name)).map(|name| (name, make(name, vocabulary))).collect();
            for (name, text) in hostile() {
                measure("hostile", vocabulary, name, &[&text], &counters, 3);
            }
        }
        ["cold", vocabulary, folder] => {
            for name in CORPORA {
                for _ in 0..FRESH {
                    for who in NAMES {
                        again(&["cold-one", vocabulary, folder, name, who]);
                    }
                }
            }
        }
        ["cold-one", vocabulary, folder, name, who] => {
            let text = corpus(folder, name);
            let count = make(who, vocabulary);
            // Some set tables up when they are first used.
            black_box(count("How many tokens is this, then? 1234 ====\n\n  aaaa"));
            let began = cpu_seconds();
            let counted = count(&text);
            let seconds = cpu_seconds() - began;
            println!(
                r#"{{"kind":"cold","vocabulary":"{vocabulary}","work":"{name}","who":"{who}","mb_s":{:.2},"count":{counted}}}"#,
                text.len() as f64 / seconds / 1e6
            );
        }
        ["once", vocabulary] => {
            for (name, _) in hostile() {
                for _ in 0..FRESH {
                    for who in NAMES.into_iter().take(4) {
                        again(&["once-one", vocabulary, name, who]);
                    }
                }
            }
        }
        ["once-one", vocabulary, name, who] => {
            let text = hostile().into_iter().find(|(known, _)| *known == name).map(|(_, text)| text).expect("a kind of text");
            let count = make(who, vocabulary);
            // Some set tables up when they are first used.
            black_box(count("How many tokens is this, then? 1234 ==== \n\n  aaaa"));
            let began = cpu_seconds();
            let counted = count(&text);
            let seconds = cpu_seconds() - began;
            println!(
                r#"{{"kind":"once","vocabulary":"{vocabulary}","work":"{name}","who":"{who}","mb_s":{:.2},"count":{counted}}}"#,
                text.len() as f64 / seconds / 1e6
            );
        }
        ["start"] => {
            for _ in 0..5 {
                for who in NAMES {
                    again(&["start-one", who]);
                }
            }
        }
        ["start-one", who] => {
            let counted = make(who, "o200k_base")("How many tokens is this, then?");
            let elapsed = began.elapsed();
            println!(
                r#"{{"kind":"start","who":"{who}","ms":{:.3},"peak_kib":{},"count":{counted}}}"#,
                elapsed.as_secs_f64() * 1e3,
                peak_kib()
            );
        }
        _ => panic!("rivals warm|cold VOCABULARY CORPORA_DIR, hostile|once VOCABULARY, open CORPORA_DIR VOCABULARIES_DIR, or start"),
    }
}
