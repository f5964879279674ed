//! The load line: a window's bar of system, tools, messages, results, margin, granted output and free room.
//!
//! Pure text from a count and a budget; used by `count`, `budget` and `compact`.

use super::paint::{Paint, Stretch};
use crate::budget::Budget;
use crate::count::Count;

/// Draws the bar and its legend for a terminal of `width` columns.
pub(super) fn draw(count: &Count, budget: &Budget, paint: Paint, width: usize) -> String {
    let mut tokens = [0_u64; Stretch::ALL.len()];
    for (kind, sum) in count.breakdown.by_kind() {
        add(&mut tokens, Stretch::of(kind), sum);
    }
    add(&mut tokens, Stretch::Margin, budget.margin);
    add(&mut tokens, Stretch::Output, if budget.fits { budget.granted } else { 0 });
    add(&mut tokens, Stretch::Free, if budget.fits { budget.free.unwrap_or(0) } else { 0 });
    let cells = width.saturating_sub(2).max(10);

    let mut out = String::from("[");
    for (stretch, cells) in share(&tokens, cells) {
        if paint.on() {
            let cell = if stretch == Stretch::Free { "·" } else { "█" };
            out.push_str(&paint.styled(stretch.style(), &cell.repeat(cells)));
        } else {
            out.extend(std::iter::repeat_n(stretch.letter(), cells));
        }
    }
    out.push_str("]\n");
    let legend: Vec<String> = Stretch::ALL
        .iter()
        .zip(tokens)
        .filter(|(stretch, tokens)| *tokens > 0 || **stretch == Stretch::Output)
        .map(|(stretch, tokens)| {
            let mark = if paint.on() { paint.styled(stretch.style(), "■") } else { stretch.letter().to_string() };
            format!("{mark} {} {}", stretch.name(), grouped(tokens))
        })
        .collect();
    out.push_str(&legend.join("  "));
    match budget.window {
        Some(window) => out.extend(["  of ", &grouped(window), " window"]),
        None => out.push_str("  (no shared window)"),
    }
    out
}

fn add(tokens: &mut [u64], stretch: Stretch, more: u64) {
    if let Some(slot) = Stretch::ALL.iter().position(|s| *s == stretch).and_then(|at| tokens.get_mut(at)) {
        *slot = slot.saturating_add(more);
    }
}

/// Cells for each stretch: proportional, at least one for anything that is there, and exactly `cells` in all.
fn share(tokens: &[u64], cells: usize) -> Vec<(Stretch, usize)> {
    let total: u128 = tokens.iter().map(|t| u128::from(*t)).sum();
    let mut shares: Vec<(Stretch, usize, u64)> = Stretch::ALL
        .iter()
        .zip(tokens)
        .filter(|(_, tokens)| **tokens > 0)
        .map(|(stretch, tokens)| {
            let exact = u128::from(*tokens) * cells as u128 / total.max(1);
            (*stretch, usize::try_from(exact).unwrap_or(cells).max(1), *tokens)
        })
        .collect();
    // Rounding and the one-cell minimum are settled on the largest stretch, where a cell matters least.
    loop {
        let drawn: usize = shares.iter().map(|s| s.1).sum();
        let Some(widest) = shares.iter_mut().max_by_key(|s| (s.1, s.2)) else { break };
        match drawn.cmp(&cells) {
            std::cmp::Ordering::Less => widest.1 += cells - drawn,
            std::cmp::Ordering::Greater if widest.1 > 1 => widest.1 -= 1,
            _ => break,
        }
    }
    shares.into_iter().map(|(stretch, cells, _)| (stretch, cells)).collect()
}

/// A number with its thousands set apart by a thin figure: `128,000`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_thousands() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (128_000, "128,000"), (u64::MAX, "18,446,744,073,709,551,615")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn the_bar_is_always_full_and_shows_everything_that_is_there() {
        for tokens in [[1, 1, 1, 1, 1, 1, 1_000_000], [0, 0, 5, 0, 0, 0, 0], [u64::MAX; 7], [3, 900, 40, 7_000, 12, 4_096, 100_000]] {
            for cells in [10, 57, 118] {
                let shares = share(&tokens, cells);
                assert_eq!(shares.iter().map(|s| s.1).sum::<usize>(), cells, "{tokens:?}");
                assert!(shares.iter().all(|s| s.1 > 0));
                assert_eq!(shares.len(), tokens.iter().filter(|t| **t > 0).count());
            }
        }
    }
}
