//! The wire types of `proto/plimsoll/v1`: generated, checked in, compared by `tests/generated.rs`.
//!
//! Used by the server and the client alone; only `server/convert` and the error mapping beside this file see both
//! these and the domain. Edit the protos, never the generated file.

mod error;

pub(crate) use error::{detail_in, error_from_detail, error_from_status};
#[cfg(feature = "server")]
pub(crate) use error::{detail_of, status_of, status_with};

/// Messages, clients and server traits of `plimsoll.v1`.
#[allow(clippy::all, clippy::pedantic, missing_docs, unreachable_pub, reason = "generated")]
pub mod v1 {
    include!("plimsoll.v1.rs");
}

/// The protos' descriptors, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!("descriptor.bin");
