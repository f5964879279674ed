//! Renderer family: claude.

use super::Breakdown;
use super::render::RenderContext;
use crate::error::{Error, Kind, Result};

pub(super) fn render(context: &RenderContext<'_>) -> Result<Breakdown> {
    Err(Error::new(Kind::Unsupported, format!("renderer `{}` is not built yet", context.profile.renderer)))
}
