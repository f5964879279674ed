//! The store: whole or absent, proven before trusted, typed errors.

use super::*;
use crate::tokenizer::folder::READS;
use base64::Engine as _;

/// A rank file of all bytes.
fn ranks() -> String {
    let lines: Vec<String> =
        (0..=255_u8).map(|byte| format!("{} {byte}\n", base64::engine::general_purpose::STANDARD.encode([byte]))).collect();
    lines.concat()
}

/// A tekken file of all bytes.
fn tekken(pattern: &str) -> String {
    let token = |byte: u8| serde_json::json!({"rank": byte, "token_bytes": base64::engine::general_purpose::STANDARD.encode([byte])});
    let config = serde_json::json!({"pattern": pattern, "default_vocab_size": 266, "default_num_special_tokens": 10});
    serde_json::json!({"config": config, "vocab": (0..=255).map(token).collect::<Vec<_>>()}).to_string()
}

fn folder_with(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

fn with_split() -> AddOptions {
    AddOptions { split: Some("llama3".to_owned()), ..AddOptions::default() }
}

#[test]
fn adds_lists_loads_and_removes() {
    let (home, model) =
        (tempfile::tempdir().unwrap(), folder_with(&[("x.tiktoken", &ranks()), ("chat_template.jinja", "{{ x }}"), ("README", "")]));
    let store = VocabularyStore::at(home.path().join("models"));
    assert!(store.list().unwrap().is_empty());
    let added = store.add("mine", model.path(), &with_split()).unwrap();
    assert_eq!((added.kind, added.templates.as_slice()), (VocabularyKind::Ranks, &["chat_template.jinja".to_owned()][..]));
    assert_eq!(store.list().unwrap().len(), 1);
    assert_eq!(store.load("mine").unwrap().count("héllo"), 6);
    store.add("mine", model.path(), &with_split()).unwrap();
    let left: Vec<_> = std::fs::read_dir(store.root()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["mine"]);
    store.remove("mine").unwrap();
    assert_eq!(store.load("mine").unwrap_err().kind(), Kind::NotFound);
    assert_eq!(store.remove("mine").unwrap_err().kind(), Kind::NotFound);
    store.add("mine", model.path(), &with_split()).unwrap();
    assert_eq!(store.remove("mime").unwrap_err().to_string(), "vocabulary `mime` is not installed; did you mean mine?");
}

#[test]
fn by_reference_keeps_the_file_where_it_is_and_notices_a_change() {
    let (home, model) = (tempfile::tempdir().unwrap(), folder_with(&[("x.tiktoken", &ranks())]));
    let store = VocabularyStore::at(home.path());
    let added = store.add("ref", model.path(), &AddOptions { by_reference: true, ..with_split() }).unwrap();
    assert_eq!(added.file, model.path().join("x.tiktoken"));
    std::fs::write(&added.file, ranks().replace(" 7\n", " 300\n")).unwrap();
    assert_eq!(store.load("ref").unwrap_err().kind(), Kind::Corrupt);
    std::fs::remove_file(&added.file).unwrap();
    assert_eq!(store.load("ref").unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn a_wrong_or_broken_file_is_refused_and_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let store = VocabularyStore::at(home.path());
    let all = ranks();
    // Merging it up would take hours.
    let long = format!("{all}{} 256\n", base64::engine::general_purpose::STANDARD.encode(vec![b'a'; 1 << 20]));
    let cases = [
        ("llama3", ("x.tiktoken", all.as_str()), Kind::InvalidInput),
        ("mine", ("x.tiktoken", "YQ== 0\n"), Kind::InvalidInput),
        ("mine", ("x.tiktoken", long.as_str()), Kind::InvalidInput),
        ("mine", ("tekken.json", "{\"config\":{}}"), Kind::InvalidInput),
        ("mine", ("tekken.json", &tekken(r"(a|a)*(?!x)b|[\s\S]")), Kind::Unsupported),
        ("mine", ("tekken.json", &tekken(r"\w+|\s")), Kind::Unsupported),
        // Values that would take gigabytes.
        ("mine", ("tokenizer.json", &format!("{{\"normalizer\":[{}0]}}", "0,".repeat(9 << 20))), Kind::LimitExceeded),
        ("mine", ("README", ""), Kind::NotFound),
        ("../mine", ("x.tiktoken", all.as_str()), Kind::NotFound),
    ];
    for (name, file, kind) in cases {
        let model = folder_with(&[file]);
        assert_eq!(store.add(name, model.path(), &with_split()).unwrap_err().kind(), kind, "{name} {}", file.0);
    }
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn a_cache_repository_is_followed_to_its_snapshot() {
    let (home, repository) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (revision, content) in [("aaa", "broken".to_owned()), ("bbb", ranks())] {
        std::fs::create_dir_all(repository.path().join("snapshots").join(revision)).unwrap();
        std::fs::write(repository.path().join("snapshots").join(revision).join("x.tiktoken"), content).unwrap();
    }
    std::fs::create_dir_all(repository.path().join("refs")).unwrap();
    std::fs::write(repository.path().join("refs/main"), "bbb").unwrap();
    assert!(VocabularyStore::at(home.path()).add("mine", repository.path(), &with_split()).is_ok());
}

#[test]
fn a_cache_repository_names_its_snapshot_and_no_other_folder() {
    let (home, other) = (tempfile::tempdir().unwrap(), folder_with(&[("x.tiktoken", &ranks())]));
    let repository = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(repository.path().join("snapshots")).unwrap();
    std::fs::create_dir_all(repository.path().join("refs")).unwrap();
    std::fs::write(repository.path().join("refs/main"), other.path().to_str().unwrap()).unwrap();
    let error = VocabularyStore::at(home.path()).add("mine", repository.path(), &with_split()).unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound, "{error}");
}

#[test]
fn one_file_of_a_folder_may_be_named() {
    let (home, model) =
        (tempfile::tempdir().unwrap(), folder_with(&[("x.tiktoken", &ranks()), ("tokenizer.json", "{"), ("c.jinja", "{{ x }}")]));
    let store = VocabularyStore::at(home.path());
    let added = store.add("mine", &model.path().join("x.tiktoken"), &with_split()).unwrap();
    assert_eq!((added.kind, added.templates.as_slice()), (VocabularyKind::Ranks, &["c.jinja".to_owned()][..]));
    let error = store.add("mine", &model.path().join("c.jinja"), &with_split()).unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidInput);
    assert!(error.to_string().contains("tokenizer.json, tekken"), "{error}");
}

#[test]
fn of_several_gguf_files_the_one_with_a_vocabulary_is_read() {
    let (home, model) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = VocabularyStore::at(home.path());
    let empty = [&b"GGUF"[..], &3_u32.to_le_bytes(), &[0; 16]].concat();
    std::fs::write(model.path().join("mmproj.gguf"), &empty).unwrap();
    let error = store.add("mine", model.path(), &AddOptions::default()).unwrap_err();
    assert!(error.to_string().contains("mmproj.gguf` holds no vocabulary"), "{error}");
    // The next one is read, and found damaged.
    std::fs::write(model.path().join("model.gguf"), "GGUF").unwrap();
    let error = store.add("mine", model.path(), &AddOptions::default()).unwrap_err();
    assert!(error.to_string().contains("ends inside its head"), "{error}");
}

/// Reading a pipe would wait for a writer for ever, and a device may have no end.
#[cfg(unix)]
#[test]
fn pipes_and_devices_are_refused() {
    let (home, model) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = VocabularyStore::at(home.path());
    for name in ["tokenizer.json", "x.gguf"] {
        let path = model.path().join(name);
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        let error = store.add("mine", model.path(), &AddOptions::default()).unwrap_err();
        assert!(error.to_string().contains("no plain file"), "{error}");
        std::fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let error = store.add("mine", model.path(), &AddOptions::default()).unwrap_err();
        assert_eq!((error.kind(), error.to_string().contains("no plain file")), (Kind::InvalidInput, true), "{error}");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn many_that_add_the_same_name_at_once_all_succeed_and_it_is_always_there() {
    let (home, model) = (tempfile::tempdir().unwrap(), folder_with(&[("x.tiktoken", &ranks())]));
    let store = VocabularyStore::at(home.path());
    store.add("mine", model.path(), &with_split()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10).for_each(|_| drop(store.add("mine", model.path(), &with_split()).unwrap())));
        }
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..100 {
                    // Where two folders can't change places at once there is none for a moment.
                    if cfg!(target_os = "linux") {
                        assert_eq!(store.load("mine").unwrap().count("héllo"), 6);
                    }
                }
            });
        }
    });
    assert_eq!(files(home.path()), ["mine"]);
}

#[test]
fn what_an_ended_process_left_is_cleared_away_or_moved_back() {
    let (home, model) = (tempfile::tempdir().unwrap(), folder_with(&[("x.tiktoken", &ranks())]));
    let store = VocabularyStore::at(home.path());
    store.add("other", model.path(), &with_split()).unwrap();
    std::fs::rename(home.path().join("other"), home.path().join(".other.1-0.old")).unwrap();
    for left in [".mine.1-0.partial", ".mine.1.partial", ".mine.1-0.old", ".x"] {
        std::fs::create_dir(home.path().join(left)).unwrap();
    }
    std::fs::create_dir(home.path().join("mine")).unwrap();
    store.add("mine", model.path(), &with_split()).unwrap();
    assert_eq!(files(home.path()), [".x", "mine", "other"]);
    assert!(store.load("other").is_ok());
}

#[test]
fn a_manifest_of_another_name_is_damage() {
    let (home, model) = (tempfile::tempdir().unwrap(), folder_with(&[("x.tiktoken", &ranks())]));
    let store = VocabularyStore::at(home.path());
    store.add("mine", model.path(), &with_split()).unwrap();
    std::fs::rename(home.path().join("mine"), home.path().join("mind")).unwrap();
    assert_eq!(store.load("mind").unwrap_err().kind(), Kind::Corrupt);
}

#[test]
fn an_unknown_name_suggests_near_ones() {
    let error = VocabularyStore::at("/nonexistent").load("gema3").unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    assert!(error.suggestions().contains(&"gemma3".to_owned()), "{error}");
}

/// What is in a vocabulary's folder.
fn files(folder: &std::path::Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn prepared_tables_are_written_again_when_they_are_damaged_or_gone() {
    let (home, model) = (tempfile::tempdir().unwrap(), folder_with(&[("x.tiktoken", &ranks())]));
    let store = VocabularyStore::at(home.path());
    assert!(store.add("mine", model.path(), &with_split()).unwrap().hot);
    let folder = store.folder("mine");
    let tables = folder.join(prepared::FILE);
    let whole = std::fs::read(&tables).unwrap();
    let vocabulary = store.get("mine").unwrap();
    for damage in [whole[..whole.len() / 2].to_vec(), vec![b'x'; 40], [&whole[..], b"x"].concat(), Vec::new()] {
        std::fs::write(&tables, damage).unwrap();
        assert!(VocabularyStore::load_prepared(&folder, &vocabulary).is_none());
        assert_eq!(store.load("mine").unwrap().count("héllo"), 6);
        assert_eq!(std::fs::read(&tables).unwrap(), whole);
        LOADED.lock().unwrap().remove(&folder);
    }
    std::fs::remove_file(&tables).unwrap();
    assert_eq!(store.load("mine").unwrap().count("héllo"), 6);
    assert_eq!(files(&folder), ["manifest.json", "prepared.tables", "x.tiktoken"]);
    assert_eq!(VocabularyStore::load_prepared(&folder, &vocabulary).unwrap().count("héllo"), 6);
    // The tables alone serve: the vocabulary's own file is not read again.
    LOADED.lock().unwrap().remove(&folder);
    std::fs::remove_file(folder.join("x.tiktoken")).unwrap();
    assert_eq!(store.load("mine").unwrap().count("héllo"), 6);
}

/// How many files `work` reads.
fn reads<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = READS.get();
    (work(), READS.get() - before)
}

#[test]
fn what_is_refused_is_read_once_until_it_changes() {
    let (home, model) = (tempfile::tempdir().unwrap(), folder_with(&[("x.tiktoken", &ranks())]));
    let store = VocabularyStore::at(home.path());
    let added = store.add("mine", model.path(), &AddOptions { by_reference: true, ..with_split() }).unwrap();
    std::fs::write(&added.file, ranks().replace(" 7\n", " 300\n")).unwrap();
    let (first, read) = reads(|| store.load("mine").unwrap_err());
    assert!(read > 0);
    for _ in 0..3 {
        let (again, read) = reads(|| store.load("mine").unwrap_err());
        assert_eq!((again.kind(), again.to_string(), read), (Kind::Corrupt, first.to_string(), 0));
    }
    std::fs::write(&added.file, ranks()).unwrap();
    assert_eq!(store.load("mine").unwrap().count("héllo"), 6);
}

/// A byte-level `tokenizer.json` whose split the core doesn't know.
fn foreign() -> String {
    let stand_ins = (0x21..=0x143_u32).filter(|c| !matches!(c, 0x7F..=0xA0 | 0xAD)).filter_map(char::from_u32);
    let vocabulary: serde_json::Map<_, _> = stand_ins.zip(0_u32..).map(|(c, id)| (c.to_string(), id.into())).collect();
    serde_json::json!({
        "version": "1.0", "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": false},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}]},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    })
    .to_string()
}

/// The manifest of a vocabulary that a build with the `tokenizers` crate added.
#[cfg(not(feature = "huggingface"))]
#[test]
fn what_needs_a_crate_that_this_build_lacks_is_not_read_to_say_so() {
    let home = tempfile::tempdir().unwrap();
    let store = VocabularyStore::at(home.path());
    let folder = store.folder("foreign");
    std::fs::create_dir_all(&folder).unwrap();
    let text = foreign();
    std::fs::write(folder.join("tokenizer.json"), &text).unwrap();
    let manifest = |reading: u32| {
        let manifest = serde_json::json!({"name": "foreign", "kind": "tokenizer-json", "file": "tokenizer.json",
            "fingerprint": fingerprint_of(&text), "source": "", "licence": null, "templates": [], "hot": false,
            "prepared": ["prepared.json", "0"], "split": null, "not_hot": [reading, "its split is odd"]});
        std::fs::write(folder.join(MANIFEST), manifest.to_string()).unwrap();
    };
    manifest(make::READING);
    let (error, read) = reads(|| store.load("foreign").unwrap_err());
    assert_eq!((error.kind(), read), (Kind::Unsupported, 0));
    assert!(error.to_string().contains("`huggingface`") && error.to_string().contains("its split is odd"), "{error}");
    // What another version found is looked at again, and once.
    manifest(make::READING + 1);
    let (error, read) = reads(|| store.load("foreign").unwrap_err());
    assert_eq!((error.kind(), read), (Kind::Unsupported, 1));
    assert!(error.to_string().contains("not one that the core knows"), "{error}");
    assert_eq!(reads(|| store.load("foreign").unwrap_err().kind()), (Kind::Unsupported, 0));
}

#[cfg(feature = "huggingface")]
#[test]
fn what_an_earlier_version_left_to_the_crate_is_looked_at_again() {
    let (home, model) = (tempfile::tempdir().unwrap(), folder_with(&[("tokenizer.json", &foreign())]));
    let store = VocabularyStore::at(home.path());
    let added = store.add("foreign", model.path(), &AddOptions::default()).unwrap();
    assert!(!added.hot && added.why_not_hot().is_some());
    let folder = store.folder("foreign");
    let load = || {
        forget(&folder);
        reads(|| store.load("foreign").unwrap().count("aqqé"))
    };
    assert_eq!(load(), (5, 1));
    // By an earlier reading: the manifest is brought up to date, and the next load reads the prepared form alone again.
    let old = Vocabulary { not_hot: None, ..added.clone() };
    std::fs::write(folder.join(MANIFEST), serde_json::to_vec(&old).unwrap()).unwrap();
    assert_eq!(load(), (5, 1));
    assert_eq!(store.get("foreign").unwrap().not_hot, added.not_hot);
    // One that the core serves gets tables in place of the crate's form.
    std::fs::remove_file(folder.join("prepared.json")).unwrap();
    let split = foreign().replace(r#""individual_digits":false"#, r#""individual_digits":true"#);
    assert_ne!(split, foreign());
    std::fs::write(folder.join("tokenizer.json"), &split).unwrap();
    std::fs::write(folder.join("prepared.json"), "{}").unwrap();
    let old = Vocabulary { fingerprint: fingerprint_of(&split), ..old };
    std::fs::write(folder.join(MANIFEST), serde_json::to_vec(&old).unwrap()).unwrap();
    assert_eq!(load(), (5, 1));
    assert!(store.get("foreign").unwrap().hot);
    assert_eq!(files(&folder), ["manifest.json", "prepared.tables", "tokenizer.json"]);
    assert_eq!(load(), (5, 0));
}
