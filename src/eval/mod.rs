//! How far counts are from bills, on a log of the user's own: what `plimsoll eval` shows.
//!
//! Reads logs of requests with what their provider billed ([`Exchange`]), counts each request as if it were about to be
//! sent, and reports errors by provider, family and content ([`Report`]). Decides nothing about requests, keeps no
//! content: a report names exchanges by id alone.

mod apart;
mod learn;
mod log;
mod order;
mod print;
mod score;

pub use apart::Apart;
pub use learn::learn;
pub use log::{Exchange, Skipped, read_log};
pub use score::{Content, Group, Report, Row, evaluate};
