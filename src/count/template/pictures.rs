//! What a picture weighs in open-weight models, by the processors that their makers publish.
//!
//! Called by the turns beside this file, which know sizes from the pictures' own heads. Text has nothing to do with it.

/// How a family takes pictures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pictures {
    /// Not described: Mistral's rule stands in.
    #[default]
    Unknown,
    /// Patches of 28 pixels after shrinking to 1,540 on the longer side; one token a row more.
    Mistral,
    /// Patches of 16 pixels after shrinking to 1,024 on the longer side; one token a row more.
    Pixtral,
    /// Tiles of 336 pixels, at most 16, and the whole once more.
    Llama4,
    /// The same on Bedrock, which bills more tiles than the published rule gives, by a rule that one bill does not show.
    Llama4OnBedrock,
}

impl Pictures {
    /// By its name in the table of families.
    pub(super) fn of(name: Option<&str>) -> Self {
        match name {
            Some("mistral") => Self::Mistral,
            Some("pixtral") => Self::Pixtral,
            Some("llama4") => Self::Llama4,
            Some("llama4-bedrock") => Self::Llama4OnBedrock,
            _ => Self::Unknown,
        }
    }

    /// Tokens of a picture, and how far that may be off. `None` where its size is not known.
    pub(super) fn tokens(self, size: Option<(u32, u32)>) -> (u64, u64) {
        match (self, size) {
            // Recorded bills differ by a token or two from one to the next.
            (Self::Mistral, Some(size)) => (mistral(size), mistral(size) / 50 + 4),
            // The two bills there are had 24 and 39 of 1,404 more.
            (Self::Pixtral, Some(size)) => (pixtral(size), pixtral(size) / 25 + 4),
            (Self::Pixtral, None) => (2_100, 2_100),
            (Self::Llama4, Some(size)) => (llama4(size), 8),
            // A picture of two by two tiles was billed as three by three.
            (Self::Llama4OnBedrock, Some(size)) => (llama4(size), llama4(size).saturating_mul(3) / 2),
            // Between one tile and sixteen.
            (Self::Llama4 | Self::Llama4OnBedrock, None) => (727, 1_740),
            // Other families tile, and bill up to 2.5 times as much for the same picture.
            (Self::Unknown, Some(size)) => (mistral(size), mistral(size).saturating_mul(2)),
            (Self::Mistral | Self::Unknown, None) => (1_000, 2_100),
        }
    }
}

fn mistral(size: (u32, u32)) -> u64 {
    patches(size, 1_540, 28)
}

fn pixtral(size: (u32, u32)) -> u64 {
    patches(size, 1_024, 16)
}

/// Patches of a picture that is shrunk to `longest`, and one more a row.
fn patches((width, height): (u32, u32), longest: u64, patch: u64) -> u64 {
    let (width, height) = (u64::from(width), u64::from(height));
    let longer = width.max(height).max(1);
    let shrink = |side: u64| if longer > longest { (side * longest).div_ceil(longer) } else { side };
    let (columns, rows) = (shrink(width).div_ceil(patch), shrink(height).div_ceil(patch));
    rows * (columns + 1)
}

fn llama4((width, height): (u32, u32)) -> u64 {
    const TILE: u64 = 336;
    const MOST: u64 = 16;
    /// Patches of a tile after shuffling.
    const PATCHES: u64 = 144;
    let (width, height) = (u64::from(width).max(1), u64::from(height).max(1));
    // The grid that enlarges least, else the one that shrinks least; of equals the smallest. Scales are fractions, compared crosswise.
    let scale = |(columns, rows): (u64, u64)| {
        let (across, down) = ((columns * TILE, width), (rows * TILE, height));
        if across.0 * down.1 <= down.0 * across.1 { across } else { down }
    };
    let grids = (1..=MOST).flat_map(|columns| (1..=MOST / columns).map(move |rows| (columns, rows)));
    let best = grids.min_by(|a, b| {
        let (first, second) = (scale(*a), scale(*b));
        let order = (first.0 * second.1).cmp(&(second.0 * first.1));
        let enlarges = |scale: (u64, u64)| scale.0 >= scale.1;
        let by_scale = match (enlarges(first), enlarges(second)) {
            (true, true) => order,
            (false, false) => order.reverse(),
            (true, false) => std::cmp::Ordering::Less,
            (false, true) => std::cmp::Ordering::Greater,
        };
        by_scale.then((a.0 * a.1).cmp(&(b.0 * b.1)))
    });
    let (columns, rows) = best.unwrap_or((1, 1));
    // Start, the whole with its mark, end; and for several tiles a separator after each.
    let whole = 1 + 1 + PATCHES + 1;
    if columns * rows == 1 { whole } else { whole + rows * columns * (PATCHES + 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_weigh_what_their_processors_say() {
        // Two by two tiles and two by one: 290 apart, as on recorded bills.
        assert_eq!(llama4((597, 566)), 727);
        assert_eq!(llama4((400, 301)), 437);
        assert_eq!(llama4((336, 336)), 147);
        assert_eq!(llama4((1, 1)), 147);
        assert_eq!(llama4((10_000, 10_000)), 147 + 16 * 145);
        assert_eq!(llama4((10_000, 100)), 147 + 16 * 145);
        assert_eq!(llama4((u32::MAX, 0)), 147 + 16 * 145);
        assert_eq!(mistral((28, 28)), 2);
        assert_eq!(mistral((3_080, 1_540)), 28 * 56);
        assert_eq!(pixtral((597, 566)), 36 * 39);
        assert_eq!(pixtral((2_048, 1_024)), 32 * 65);
    }
}
