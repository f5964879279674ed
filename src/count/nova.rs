//! Amazon Nova: words by a public vocabulary, tools and calls by recorded usage.
//!
//! Called by the renderers' dispatch. The vocabulary is not published; `o200k_base` equalled the bill on all 14 ordinary
//! texts of Nova 1 recorded (2026-11-30), capitals aside. All figures stand in the table of [`super::proxy`].

use super::Breakdown;
use super::proxy;
use super::render::RenderContext;
use crate::error::Result;

pub(super) fn render(context: &RenderContext<'_>) -> Result<Breakdown> {
    proxy::render(context, true)
}
