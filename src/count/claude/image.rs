//! Claude's image rule: one token a square of 28 by 28 pixels, and three more.
//!
//! Called by the renderer beside it. Sizes come from headers ([`super::super::media`]); a picture whose size can't be
//! read has the middle of what is possible, and a bound that covers all of it. Recorded bills confirm the rule for
//! pictures under both caps, 3-opus included; shrinking above them follows the maker's documentation (2026-11-30).

use super::super::media;
use crate::format::Media;

/// Pixels a side of one token's square.
const SQUARE: u64 = 28;
/// Tokens beside the squares, per picture.
const EACH: u64 = 3;

/// Tokens of a picture, and most that they may be off.
pub(super) fn tokens(media: &Media<'_>, rule: Option<&str>) -> (u64, f64) {
    let caps = Caps::of(rule);
    let Some((width, height)) = media.base64.and_then(media::dimensions) else {
        let half = caps.tokens / 2;
        return (half + EACH, f64::from(u32::try_from(half).unwrap_or(u32::MAX)));
    };
    let (width, height) = (u64::from(width), u64::from(height));
    let fitted = caps.fit(width, height);
    // Of 15 pictures billed, one (a JPEG of 640x480) cost one column of squares more; shrinking has not been seen in a bill.
    let column = f64::from(u32::try_from(fitted.0.min(fitted.1).div_ceil(SQUARE)).unwrap_or(u32::MAX));
    let spread = if fitted == (width, height) { column + 1.0 } else { column + 64.0 };
    (squares(fitted.0, fitted.1).saturating_add(EACH), spread)
}

fn squares(width: u64, height: u64) -> u64 {
    width.div_ceil(SQUARE).saturating_mul(height.div_ceil(SQUARE))
}

/// Largest side in pixels, and most squares.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Caps {
    side: u64,
    tokens: u64,
}

impl Caps {
    /// From a profile's rule `claude:SIDE:TOKENS`; without one, the caps of the 4.6 generation.
    fn of(rule: Option<&str>) -> Self {
        let mut numbers = rule.and_then(|rule| rule.strip_prefix("claude:")).unwrap_or_default().split(':').map(str::parse::<u64>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(side)), Some(Ok(tokens))) if side > 0 && tokens > 0 => Self { side, tokens },
            _ => Self { side: 1568, tokens: 1568 },
        }
    }

    /// The largest size of the same shape that keeps both caps.
    fn fit(self, width: u64, height: u64) -> (u64, u64) {
        let long = width.max(height);
        let scaled = |to: u64| {
            let side = |n: u64| u64::try_from(u128::from(n) * u128::from(to) / u128::from(long.max(1))).unwrap_or(u64::MAX).max(1);
            (side(width), side(height))
        };
        let keeps = |to: u64| {
            let (w, h) = scaled(to);
            to <= self.side && squares(w, h) <= self.tokens
        };
        if keeps(long) {
            return (width, height);
        }
        // The squares grow with the side, so the largest side that keeps the caps is found by halving.
        let (mut low, mut high) = (1, long.min(self.side));
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if keeps(middle) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        scaled(low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn under_the_caps_squares_and_three() {
        assert_eq!(squares(1001, 1001) + EACH, 1299);
        assert_eq!(squares(28, 29), 2);
    }

    #[test]
    fn shrinks_to_both_caps() {
        let caps = Caps::of(Some("claude:1568:1568"));
        // The maker's own example: 1075x1520 has 2,145 squares and becomes 924x1307.
        let (width, height) = caps.fit(1075, 1520);
        assert!((923..=924).contains(&width) && (1306..=1308).contains(&height), "{width}x{height}");
        assert!(squares(width, height) <= 1568);
        assert_eq!(caps.fit(1000, 1000), (1000, 1000));
        let (width, _) = caps.fit(100_000, 10);
        assert_eq!(width, 1568);
        assert_eq!(Caps::of(Some("claude:2576:4784")), Caps { side: 2576, tokens: 4784 });
        caps.fit(u64::MAX, 1);
    }

    #[test]
    fn unknown_size_is_bounded_by_the_cap() {
        let (tokens, spread) = tokens(&Media { url: Some("https://example.org/a.png"), ..Media::default() }, None);
        assert_eq!((tokens, spread), (787, 784.0));
    }
}
