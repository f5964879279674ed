//! The checked-in bindings are what the protos make: regenerates them, without protoc, and compares.
//!
//! After a change to a proto run it once with `PLIMSOLL_BLESS=1`, which writes the files instead. A new proto file
//! in `proto/plimsoll/v1/` is picked up by itself. Needs no feature of the crate, so that it runs while code waits for
//! bindings: `PLIMSOLL_BLESS=1 cargo test --no-default-features --test generated`.

use std::path::{Path, PathBuf};

/// What the bindings say of themselves, before what the generator says.
const HEAD: &str = "\
// The messages, clients and server traits of `proto/plimsoll/v1`, for `src/proto/mod.rs`, which includes them and says who uses them.
// Written by `tests/generated.rs` and never by hand: change a proto and let that test write this file again.
";

fn protos(root: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root.join("plimsoll/v1")).expect("the protos are part of the package");
    let mut files: Vec<_> =
        entries.filter_map(|entry| entry.ok().map(|e| e.path())).filter(|p| p.extension().is_some_and(|e| e == "proto")).collect();
    files.sort();
    files
}

#[test]
fn bindings_are_current() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.join("proto");
    let mut compiler = protox::Compiler::new([&root]).unwrap();
    compiler.include_imports(true).open_files(protos(&root)).unwrap();
    let descriptors = compiler.encode_file_descriptor_set();
    // Comments go into the bindings, not into the descriptors that the server carries.
    let commented = protox::compile(protos(&root), [&root]).unwrap();
    let out = tempfile::tempdir().unwrap();
    tonic_prost_build::configure().out_dir(out.path()).emit_rerun_if_changed(false).compile_fds(commented).unwrap();
    let bindings = [HEAD.as_bytes().to_vec(), std::fs::read(out.path().join("plimsoll.v1.rs")).unwrap()].concat();
    let made = [("plimsoll.v1.rs", bindings), ("descriptor.bin", descriptors)];
    for (name, bytes) in made {
        let file = here.join("src/proto").join(name);
        if std::env::var_os("PLIMSOLL_BLESS").is_some() {
            std::fs::write(&file, &bytes).unwrap();
        }
        let current = std::fs::read(&file).unwrap_or_default();
        assert!(current == bytes, "src/proto/{name} is not what the protos make; run `PLIMSOLL_BLESS=1 cargo test --test generated`");
    }
}
