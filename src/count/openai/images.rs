//! What a picture weighs: tile and patch rules, by the profile's image rule.
//!
//! Called by the renderer of this family and by others that bill pictures the same way. Rules are text in the
//! model table: `tile:BASE:TILE` and `patch:BUDGET:FACTOR:FRAME:DOUBT` (providers' pages and recorded bills, November 2026). A picture whose size isn't in
//! the body (a URL, a file id) gets the middle of what the rule allows, with the rest as its bound.

use crate::count::media;
use crate::format::Media;

/// Tokens of a picture and how far they may be off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::count) struct Weight {
    pub(in crate::count) tokens: u64,
    pub(in crate::count) bound: u64,
}

/// An image rule, read from the model table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::count) enum Rule {
    /// A base and so much for each 512-pixel tile.
    Tile { base: u64, tile: u64 },
    /// Patches of 32 pixels, at most `budget` of them, times a factor, and a frame; `doubt` is how far the factor may be
    /// off, in percent, where sources differ.
    Patch { budget: u32, factor: f64, frame: u64, doubt: u64 },
}

/// Longest side of a tiled picture after its first reduction, in pixels.
const TILE_LONG: f64 = 2048.0;
/// Shorter side of a tiled picture after its second reduction, in pixels.
const TILE_SHORT: f64 = 768.0;
/// Side of a tile, in pixels.
const TILE_SIDE: f64 = 512.0;
/// Side of a patch, in pixels.
const PATCH_SIDE: f64 = 32.0;
/// Longest side of a picture cut into patches, in pixels.
const PATCH_LONG: f64 = 2048.0;
/// Patch budget of `detail: low`: a picture of 512 by 512.
const LOW_BUDGET: u32 = 256;

impl Rule {
    /// Reads `tile:85:170`, `patch:1536:1.62` or `patch:1536:1.2:2:20`. Without a frame it is one token, as most bills show.
    pub(in crate::count) fn parse(rule: &str) -> Option<Self> {
        let mut cells = rule.split(':');
        match (cells.next()?, cells.next()?, cells.next()?) {
            ("tile", base, tile) => Some(Self::Tile { base: base.parse().ok()?, tile: tile.parse().ok()? }),
            ("patch", budget, factor) => Some(Self::Patch {
                budget: budget.parse().ok()?,
                factor: factor.parse().ok()?,
                frame: cells.next().map_or(Some(1), |cell| cell.parse().ok())?,
                doubt: cells.next().map_or(Some(0), |cell| cell.parse().ok())?,
            }),
            _ => None,
        }
    }

    /// What a picture weighs: exactly where its size is known, else the middle of the possible and a bound.
    pub(in crate::count) fn weigh(self, picture: &Media<'_>) -> Weight {
        let low = picture.detail == Some("low");
        if let Self::Tile { base, .. } = self
            && low
        {
            return Weight { tokens: base, bound: 0 };
        }
        if let Some((width, height)) = picture.base64.and_then(media::dimensions) {
            let tokens = self.sized(width, height, picture.detail);
            let bound = if let Self::Patch { doubt, .. } = self { (tokens * doubt).div_ceil(100) } else { 0 };
            return Weight { tokens, bound };
        }
        let (least, most) = self.range(low);
        Weight { tokens: least.midpoint(most), bound: (most - least).div_ceil(2) }
    }

    /// Least and most that any picture can weigh.
    fn range(self, low: bool) -> (u64, u64) {
        match self {
            Self::Tile { base, tile } => (base + tile, base + 8 * tile),
            Self::Patch { budget, factor, frame, doubt } => {
                let most = scaled(u64::from(if low { budget.min(LOW_BUDGET) } else { budget }), factor);
                (1 + frame, frame + most + (most * doubt).div_ceil(100))
            }
        }
    }

    /// Tokens of a picture of that size.
    pub(in crate::count) fn sized(self, width: u32, height: u32, detail: Option<&str>) -> u64 {
        let (width, height) = (f64::from(width.max(1)), f64::from(height.max(1)));
        match self {
            Self::Tile { base, tile } => {
                let fit = (TILE_LONG / width.max(height)).min(1.0);
                let (width, height) = (width * fit, height * fit);
                let fit = (TILE_SHORT / width.min(height)).min(1.0);
                base + tile * cells(width * fit, height * fit, TILE_SIDE)
            }
            Self::Patch { budget, factor, frame, .. } => {
                let budget = if detail == Some("low") { budget.min(LOW_BUDGET) } else { budget };
                frame + scaled(patches(width, height, f64::from(budget)), factor)
            }
        }
    }
}

/// Patches of a picture, shrunk to the budget where it has more.
fn patches(width: f64, height: f64, budget: f64) -> u64 {
    let fit = (PATCH_LONG / width.max(height)).min(1.0);
    let (width, height) = (width * fit, height * fit);
    let whole = cells(width, height, PATCH_SIDE);
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    if whole as f64 <= budget {
        return whole;
    }
    let shrink = (PATCH_SIDE * PATCH_SIDE * budget / (width * height)).sqrt();
    // A second reduction, so that one side holds a whole number of patches.
    let (across, down) = (width * shrink / PATCH_SIDE, height * shrink / PATCH_SIDE);
    let again = (across.floor().max(1.0) / across).min(down.floor().max(1.0) / down);
    cells(width * shrink * again, height * shrink * again, PATCH_SIDE)
}

/// Squares of a side that cover a picture. Sides that are whole but for rounding errors count as whole.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sides were shrunk to a few thousand pixels")]
fn cells(width: f64, height: f64, side: f64) -> u64 {
    let along = |length: f64| (length / side - 1e-9).ceil().max(1.0) as u64;
    along(width) * along(height)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a few thousand patches")]
fn scaled(patches: u64, factor: f64) -> u64 {
    (patches as f64 * factor - 1e-9).ceil().max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles() {
        let rule = Rule::parse("tile:85:170").unwrap();
        // 1024² fits 2048²; the short side goes to 768: 2 x 2 tiles.
        assert_eq!(rule.sized(1024, 1024, None), 85 + 4 * 170);
        // 2048 x 4096: to 1024 x 2048, then 768 x 1536: 2 x 3 tiles.
        assert_eq!(rule.sized(2048, 4096, Some("high")), 85 + 6 * 170);
        // Small pictures are not enlarged.
        assert_eq!(rule.sized(100, 600, None), 85 + 2 * 170);
        assert_eq!(
            rule.weigh(&Media { url: Some("https://e.org/a"), detail: Some("low"), ..Media::default() }),
            Weight { tokens: 85, bound: 0 }
        );
        let unknown = rule.weigh(&Media { url: Some("https://e.org/a"), ..Media::default() });
        assert_eq!((unknown.tokens - unknown.bound, unknown.tokens + unknown.bound), (255, 1445));
    }

    #[test]
    fn patches_within_and_over_the_budget() {
        let rule = Rule::parse("patch:1536:1.0:0").unwrap();
        assert_eq!(rule.sized(1024, 1024, None), 1024);
        // The provider's own example: 1800 x 2400 comes to 1452 patches.
        assert_eq!(rule.sized(1800, 2400, None), 1452);
        assert_eq!(Rule::parse("patch:1536:1.62").unwrap().sized(512, 512, None), 416);
        assert_eq!(rule.sized(1, u32::MAX, None), 64);
        assert!(Rule::parse("tile:x:1").is_none() && Rule::parse("").is_none());
    }
}
