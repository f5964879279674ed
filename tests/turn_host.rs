//! The example host, run to its end both ways: three rounds ending in `stop`, and a cut write refused and then done in blocks.

#![allow(clippy::unwrap_used, clippy::print_stdout, dead_code, reason = "the example's own code, compiled as a test")]

#[path = "../examples/host.rs"]
mod host;
