//! Bodies from files or standard input, with the cap on size applied while reading.

use crate::error::{Error, Kind, Result};
use crate::format::{Detection, Format, Request};
use crate::limits;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A body and how its format was told.
pub(super) struct Body {
    pub(super) request: Request,
    pub(super) detection: Option<Detection>,
}

/// Reads a body; `-` is standard input.
pub(super) fn body(path: &Path, format: Option<Format>) -> Result<Body> {
    let bytes = bytes(path)?;
    let parsed = match format {
        Some(format) => Request::parse(&bytes, format).map(|request| Body { request, detection: None }),
        None => Request::detect(&bytes).map(|(request, detection)| Body { request, detection: Some(detection) }),
    };
    parsed.map_err(|e| e.context(format!("reading {}", shown(path))))
}

/// All bytes of a file or of standard input, up to the cap.
pub(super) fn bytes(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?
        .take(limits::MAX_BODY_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| Error::new(Kind::Unavailable, format!("{} can't be read", shown(path))).caused_by(e))?;
    Ok(bytes)
}

/// Opens a file or standard input.
pub(super) fn open(path: &Path) -> Result<Box<dyn Read>> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stdin()));
    }
    let file = File::open(path).map_err(|e| {
        let kind = if e.kind() == std::io::ErrorKind::NotFound { Kind::NotFound } else { Kind::Unavailable };
        Error::new(kind, format!("{} can't be opened", shown(path))).caused_by(e)
    })?;
    Ok(Box::new(file))
}

pub(super) fn shown(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { format!("`{}`", path.display()) }
}
