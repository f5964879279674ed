//! Where results and errors go, and the exit code that goes with them.
//!
//! The only file that prints. A closed pipe ends quietly: the reader has what it wanted.

use super::paint::{Paint, When};
use crate::error::{Error, Kind, Result};
use serde_json::{Value, json};
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// Done; the request fits.
    Done,
    /// The request does not fit.
    DoesNotFit,
    /// The input can't be used.
    BadInput,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(match status {
            Status::Done => 0,
            Status::DoesNotFit => 1,
            Status::BadInput => 2,
        })
    }
}

/// Standard output and error, as the flags want them.
#[derive(Debug)]
pub(super) struct Output {
    json: bool,
    paint: Paint,
    error_paint: Paint,
    width: usize,
}

impl Output {
    pub(super) fn new(json: bool, when: When) -> Self {
        let terminal = std::io::stdout().is_terminal();
        let width = std::env::var("COLUMNS").ok().and_then(|w| w.parse().ok()).unwrap_or(100_usize).clamp(40, 120);
        Self { json, paint: Paint::new(when, terminal), error_paint: Paint::new(when, std::io::stderr().is_terminal()), width }
    }

    /// Whether the caller wants JSON.
    pub(super) fn json(&self) -> bool {
        self.json
    }

    /// How to colour text for standard output.
    pub(super) fn paint(&self) -> Paint {
        self.paint
    }

    /// Columns to draw in.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Prints one JSON value on one line.
    pub(super) fn value(&mut self, value: &Value) -> Result<()> {
        self.line(&value.to_string())
    }

    /// Prints a line.
    pub(super) fn line(&mut self, text: &str) -> Result<()> {
        self.bytes(text.as_bytes())?;
        self.bytes(b"\n")
    }

    /// Prints bytes as they are.
    #[expect(clippy::unused_self, reason = "all output goes through one value, so that a test can stand in for it")]
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        match std::io::stdout().write_all(bytes) {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
            Err(e) => Err(Error::new(Kind::Unavailable, "standard output can't be written").caused_by(e)),
        }
    }

    /// Tells a person what went otherwise than wanted, on standard error.
    pub(super) fn note(&mut self, text: &str) {
        let label = self.error_paint.bad("warning");
        let _ = writeln!(std::io::stderr(), "{label}: {text}");
    }

    /// Prints an error and gives the exit code that goes with its kind.
    pub(super) fn fail(&mut self, error: &Error) -> Status {
        if self.json {
            let _ = self.value(&json!({"error": error.to_json()}));
        } else {
            let label = self.error_paint.bad("error");
            let _ = writeln!(std::io::stderr(), "{label}: {error}");
            let mut source = std::error::Error::source(error);
            while let Some(cause) = source {
                let _ = writeln!(std::io::stderr(), "  because: {cause}");
                source = cause.source();
            }
        }
        if error.kind() == Kind::OverBudget { Status::DoesNotFit } else { Status::BadInput }
    }
}
