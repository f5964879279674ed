//! Gemini generateContent: JSON to the neutral view.

use super::{Conversation, Request};
use crate::error::{Error, Kind, Result};

pub(super) fn view(request: &Request) -> Result<Conversation<'_>> {
    Err(Error::new(Kind::Unsupported, format!("the {} format is not read yet", request.format())))
}
