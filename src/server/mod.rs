//! The gRPC service: parse, call, answer. Decides nothing about tokens.
//!
//! `plimsoll serve` and embedding hosts call [`run`] with a listener of theirs. One request's way: `rpc` (a method of
//! the service) → `pool` (admission, deadline, a blocking thread) → `convert` (wire to domain and back) → the core.
//! A further service adds its own proto, its own file beside `rpc`, and one line in `run`: see docs/grpc.md.

mod compact;
mod config;
mod convert;
mod pool;
mod rpc;
mod run;
mod turn;

pub use config::ServerConfig;
pub use run::{Ended, run};
