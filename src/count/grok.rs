//! xAI's Grok: hidden text, tools and replayed reasoning by recorded usage, words by a public vocabulary.
//!
//! Called by the renderers' dispatch. The vocabulary is not published; `o200k_base` was within a token of the bill on all
//! ten history-free short texts recorded (2026-11-30). All figures stand in the table of [`super::proxy`].

use super::Breakdown;
use super::proxy;
use super::render::RenderContext;
use crate::error::Result;

pub(super) fn render(context: &RenderContext<'_>) -> Result<Breakdown> {
    proxy::render(context, false)
}
