//! Open-weight vocabularies against the makers' own tokenizers: the same ids on real texts, random ones and hostile ones.
//!
//! `tokenizer.json` files are compared with the `tokenizers` crate; rank files with Python's tiktoken and tekken with Mistral's
//! `mistral_common`, where the interpreter named by `PLIMSOLL_TEST_PYTHON` (else `python3`) has them. Needs the vocabularies of
//! `scripts/fetch-vocabularies`; whatever is missing is skipped, saying so.
#![cfg(feature = "huggingface")]
#![allow(clippy::unwrap_used, reason = "a test that can't set up must stop")]
#![allow(clippy::print_stdout, reason = "says what was compared, and why something was not")]

mod common;

use plimsoll::{AddOptions, Tokenizer, VocabularyStore};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tokenizers::pipeline::{EncodeOptions, Override, PipelineTokenizer};

fn fetched(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("PLIMSOLL_TEST_VOCABULARIES")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/target/vocabularies")), PathBuf::from);
    let folder = root.join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: no vocabulary {name}; run scripts/fetch-vocabularies");
    None
}

/// A fixed generator: the same texts every time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

/// What random texts are made of. Characters are old enough for every Unicode table in use.
const PIECES: &[&str] = &[
    " ",
    "  ",
    "\n",
    "\r\n",
    "\t",
    "\u{a0}",
    "\u{3000}",
    "a",
    "B",
    "the",
    " The",
    "don't",
    "I'LL",
    "'s",
    "'ſ",
    "12",
    "3456",
    "½",
    "٣",
    "é",
    "e\u{301}",
    "ß",
    "Ж",
    "ǅ",
    "日",
    "本語",
    "カナ",
    "・",
    "゛",
    "한",
    "ไทย",
    "नि",
    "ع",
    "א",
    "😀",
    "👩‍👧",
    "🇩🇪",
    ".",
    "...",
    "/",
    "//",
    "-",
    "_",
    "(",
    "})",
    "\"",
    "`",
    "'",
    "<",
    "|>",
    "<think>",
    "</think>",
    "<|im_start|>",
    "<｜User｜>",
    "<s>",
    "[INST]",
    "\u{0}",
    "\u{7f}",
    "\u{ad}",
    "\u{200d}",
    "\u{feff}",
    "=",
    "==",
    "#",
    "\\n",
    "ſ",
    "Å",
    "\u{212b}",
    "ﬁ",
    "한국",
    "▁",
    "Ġ",
    "<0x41>",
    "{",
    "\":",
    "://",
    "www.",
];

fn random_texts() -> Vec<String> {
    let mut random = Random(7);
    let mut texts: Vec<String> =
        (0..600).map(|_| (0..random.below(60)).map(|_| PIECES[random.below(PIECES.len())]).collect::<String>()).collect();
    // Long runs: one letter, one mark, blanks, digits, no space at all.
    for piece in ["a", "ab", " ", "\n", "1", "-", "日", "é", "😀", "\u{0}"] {
        texts.push(piece.repeat(3000));
        texts.push(format!("x{}y", piece.repeat(257)));
    }
    texts
}

/// Texts of recorded agent histories and requests: every string in them.
fn real_texts() -> Vec<String> {
    fn strings(value: &Value, out: &mut Vec<String>) {
        match value {
            Value::String(text) => out.push(text.clone()),
            Value::Array(list) => list.iter().for_each(|value| strings(value, out)),
            Value::Object(map) => map.values().for_each(|value| strings(value, out)),
            _ => {}
        }
    }
    let mut texts = Vec::new();
    for exchange in common::exchanges("chat").into_iter().flatten().chain(common::exchanges("anthropic").into_iter().flatten()) {
        strings(&exchange["request"], &mut texts);
    }
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/histories");
    for entry in std::fs::read_dir(shared).into_iter().flatten() {
        let file = std::fs::File::open(entry.unwrap().path()).unwrap();
        let value: Value = serde_json::from_reader(std::io::BufReader::new(flate2::read::GzDecoder::new(file))).unwrap();
        strings(&value, &mut texts);
    }
    if texts.is_empty() {
        println!("no recorded texts; random ones only");
    }
    for name in ["chinese", "multi"] {
        let path = format!("{}/../shared/corpora/{name}.txt.gz", env!("CARGO_MANIFEST_DIR"));
        let Ok(file) = std::fs::File::open(path) else { continue };
        let mut corpus = String::new();
        std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(file), &mut corpus).unwrap();
        let characters: Vec<char> = corpus.chars().take(200_000).collect();
        texts.extend(characters.chunks(700).map(|chunk| chunk.iter().collect::<String>()));
    }
    texts.sort();
    texts.dedup();
    // Base64 of pictures says nothing more after its first kilobytes.
    texts.retain(|text| text.len() < 200_000);
    texts
}

/// Adds a vocabulary to a store of its own name, so that tests that run side by side don't share folders.
fn add_to(store: &str, name: &str, folder: &Path) -> (Tokenizer, bool) {
    let store = VocabularyStore::at(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(store));
    let added =
        store.add(name, folder, &AddOptions { by_reference: true, ..AddOptions::default() }).unwrap_or_else(|e| panic!("{name}: {e}"));
    (store.load(name).unwrap(), added.hot)
}

/// Where two rows of ids first differ, for a message.
fn differ(text: &str, ours: &[u32], theirs: &[u32]) -> String {
    let at = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
    let row = |ids: &[u32]| format!("{:?}", ids.iter().skip(at).take(6).collect::<Vec<_>>());
    format!("{:?}: token {at}: {} instead of {}", text.chars().take(80).collect::<String>(), row(ours), row(theirs))
}

#[test]
fn tokenizer_json_files_as_the_tokenizers_crate() {
    let texts: Vec<String> = real_texts().into_iter().chain(random_texts()).collect();
    for name in ["qwen3-json", "deepseek-v3", "deepseek-v4", "llama3-json", "gpt-oss-json", "gemma3", "gemma2"] {
        let Some(folder) = fetched(name) else { continue };
        let (tokenizer, hot) = add_to("open-ids-json", name, &folder);
        let file = folder.join("tokenizer.json");
        let mut value: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        tokenizers::canonicalize_value(&mut value).unwrap();
        // Gemma 2 leaves out the byte token of the tab, which is a piece itself; the crate wants it, and never makes it.
        if name == "gemma2" {
            value["model"]["vocab"]["<0x09>"] = 300_000.into();
        }
        let theirs: PipelineTokenizer = tokenizers::from_json(&value.to_string()).unwrap();
        let options =
            EncodeOptions { add_special_tokens: false, encode_special_tokens: true, padding: Override::Off, truncation: Override::Off };
        let (mut ids, mut bytes) = (0, 0);
        let mut out = Vec::new();
        for text in &texts {
            out.clear();
            theirs.encode_into(text, &options, &mut out).unwrap();
            let expected: Vec<u32> = out.iter().map(|token| token.id()).collect();
            let ours = tokenizer.encode(text);
            assert!(ours == expected, "{name}: {}", differ(text, &ours, &expected));
            assert_eq!(tokenizer.count(text), ours.len(), "{name}");
            ids += ours.len();
            bytes += text.len();
        }
        println!("{name}: {} texts, {bytes} bytes, {ids} ids equal; served by {}", texts.len(), if hot { "the core" } else { "the crate" });
    }
}

/// Reads `{"kind", "path", "pattern", "nfc", "texts"}`, answers a list of lists of ids.
const PYTHON: &str = r#"
import json, sys, unicodedata
given = json.load(sys.stdin)
if given["kind"] == "tekken":
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer
    tokenizer = Tekkenizer.from_file(given["path"])
    encode = lambda text: tokenizer.encode(text, False, False)
elif given["kind"] == "json":
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(given["path"])
    tokenizer.encode_special_tokens = True
    encode = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
else:
    import base64, tiktoken
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in open(given["path"], "rb") if line.strip())}
    encoding = tiktoken.Encoding("given", pat_str=given["pattern"], mergeable_ranks=ranks, special_tokens={})
    encode = encoding.encode_ordinary
normal = (lambda text: unicodedata.normalize("NFC", text)) if given["nfc"] else (lambda text: text)
json.dump([encode(normal(text)) for text in given["texts"]], sys.stdout)
"#;

/// The makers' patterns of their rank files.
fn pattern(name: &str) -> (&'static str, bool) {
    match name {
        "qwen3" => {
            (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+", true)
        }
        "qwen3.6" => (
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            true,
        ),
        "llama3" | "glm4" => {
            (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+", false)
        }
        "llama4" => (
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            false,
        ),
        _ => (
            r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            false,
        ),
    }
}

/// Ids that Python gives, or `None` where it lacks what it takes.
fn python(given: &Value) -> Option<Vec<Vec<u32>>> {
    let interpreter = std::env::var_os("PLIMSOLL_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let mut child =
        Command::new(interpreter).args(["-c", PYTHON]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let (mut stdin, given) = (child.stdin.take()?, given.to_string());
    let writer = std::thread::spawn(move || stdin.write_all(given.as_bytes()).is_ok());
    let output = child.wait_with_output().ok()?;
    if !writer.join().unwrap_or(false) || !output.status.success() {
        return None;
    }
    serde_json::from_slice(&output.stdout).ok()
}

#[test]
fn rank_and_tekken_files_as_pythons_loaders() {
    let texts: Vec<String> = real_texts().into_iter().chain(random_texts()).collect();
    for name in ["qwen3", "qwen3.6", "llama3", "llama4", "kimi", "glm4", "tekken"] {
        let Some(folder) = fetched(name) else { continue };
        let file = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_file()).unwrap();
        let (kind, (pattern, nfc)) = if name == "tekken" { ("tekken", ("", false)) } else { ("ranks", pattern(name)) };
        let given = json!({"kind": kind, "path": file, "pattern": pattern, "nfc": nfc, "texts": texts});
        let Some(expected) = python(&given) else {
            println!("skipped: {name}: python has no {}", if kind == "tekken" { "mistral_common" } else { "tiktoken" });
            continue;
        };
        let (tokenizer, hot) = add_to("open-ids-ranks", name, &folder);
        assert!(hot, "{name} is not served by the core");
        let mut ids = 0;
        for (text, expected) in texts.iter().zip(&expected) {
            let ours = tokenizer.encode(text);
            assert!(ours == *expected, "{name}: {}", differ(text, &ours, expected));
            assert_eq!(tokenizer.count(text), ours.len(), "{name}");
            ids += ours.len();
        }
        println!("{name}: {} texts, {ids} ids equal", texts.len());
    }
}

/// What was made of GGUF files, read by Python's own `tokenizers`: independent of the crate that serves some of them here.
#[test]
fn converted_gguf_files_as_pythons_tokenizers() {
    let mut texts: Vec<String> = real_texts().into_iter().step_by(4).chain(random_texts()).collect();
    texts.push("🚀 rockets 🚀".to_owned());
    for name in ["command-r", "phi3", "llama2", "gemma4", "qwen3-gguf", "llama3-gguf"] {
        let Some(folder) = fetched(name) else { continue };
        let (tokenizer, hot) = add_to("open-ids-gguf", name, &folder);
        let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("open-ids-gguf").join(name).join("tokenizer.json");
        let Some(expected) = python(&json!({"kind": "json", "path": file, "pattern": "", "nfc": false, "texts": texts})) else {
            println!("skipped: {name}: python has no tokenizers");
            continue;
        };
        for (text, expected) in texts.iter().zip(&expected) {
            let ours = tokenizer.encode(text);
            assert!(ours == *expected, "{name}: {}", differ(text, &ours, expected));
        }
        println!("{name}: {} texts, ids equal; served by {}", texts.len(), if hot { "the core" } else { "the crate" });
    }
}

/// llama.cpp's own test texts and ids lie beside its vocabularies.
#[test]
fn gguf_files_give_their_makers_golden_ids() {
    for name in ["command-r", "phi3", "llama2", "gemma4", "qwen3-gguf", "llama3-gguf"] {
        let Some(folder) = fetched(name) else { continue };
        let (tokenizer, hot) = add_to("open-ids-golden", name, &folder);
        let file = |ending: &str| {
            let found = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
            found.into_iter().find(|path| path.extension().is_some_and(|e| e == ending)).map(|path| std::fs::read_to_string(path).unwrap())
        };
        let (texts, golden) = (file("inp").unwrap(), file("out").unwrap());
        let mut compared = 0;
        for (text, line) in texts.split("\n__ggml_vocab_test__\n").zip(golden.lines()) {
            let expected: Vec<u32> = line.split_whitespace().map(|id| id.parse().unwrap()).collect();
            let ours = tokenizer.encode(text);
            assert!(ours == expected, "{name}: {}", differ(text, &ours, &expected));
            assert_eq!(tokenizer.decode(&ours).unwrap(), text, "{name}");
            compared += 1;
        }
        assert!(compared > 30, "{name}: {compared} golden texts");
        println!("{name}: {compared} golden texts, ids equal; served by {}", if hot { "the core" } else { "the crate" });
    }
}
