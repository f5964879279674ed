//! The store: whole or absent, proven before trusted, typed errors.

use super::*;
use base64::Engine as _;

/// A rank file of all bytes.
fn ranks() -> String {
    let lines: Vec<String> =
        (0..=255_u8).map(|byte| format!("{} {byte}\n", base64::engine::general_purpose::STANDARD.encode([byte]))).collect();
    lines.concat()
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
    let cases = [
        ("llama3", ("x.tiktoken", all.as_str()), Kind::InvalidInput),
        ("mine", ("x.tiktoken", "YQ== 0\n"), Kind::InvalidInput),
        ("mine", ("tekken.json", "{\"config\":{}}"), Kind::InvalidInput),
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
