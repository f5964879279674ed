//! The model's answer: what came back, whether it is whole, and what may be done with it.
//!
//! Hosts feed a [`Stream`] or read a whole body into a [`Turn`]. Pure functions over JSON and text: no clock, no network,
//! nothing is ever run. Guards invariant 11: a truncated or invalid tool call is never reported as safe to run.

mod answer;
mod assemble;
mod canonical;
mod classify;
mod continuation;
mod fault;
mod finish;
mod frames;
mod gate;
mod inspect;
mod peek;
mod read;
pub mod reply;
mod secrets;
mod sse;
mod stream;
mod tally;

pub use answer::{Call, CallKind, Choice, Turn};
pub use classify::{ErrorClass, ErrorOutcome, Remedy, classify};
pub use continuation::{CONTINUE, Continuation};
pub use fault::{Fault, FaultKind};
pub use finish::{Action, Finish, Reason};
pub use frames::{Frame, FrameKind, FrameReader};
pub use gate::{AuditRecord, Gate, JudgedCall, Judgement, Policy, Risk, Rule, Verdict, Why};
pub use inspect::{InspectOptions, Inspection, inspect, inspect_turn, read_answer};
pub use reply::{Content, Outcome};
pub use secrets::{Masked, mask_secrets};
pub use sse::{SseEvent, SseReader};
pub use stream::{Progress, Stream};
pub use tally::{Delta, Lane};

pub(crate) use peek::as_text as text_of;
