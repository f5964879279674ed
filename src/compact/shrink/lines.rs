//! Logs and any other text: head, tail, and the lines that speak of errors; the rest is counted.
//!
//! A long single line keeps its head and tail. The fallback for every kind that its own file can't shrink.

use super::{prefix, suffix, without_blobs};

/// Longest line shown whole, in bytes.
const LINE: usize = 400;

/// Shrinks to about `room` bytes.
pub(super) fn shrink(text: &str, room: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() < 4 {
        return squeeze(&without_blobs(text), room);
    }
    // Shares of the room: errors first, since they are what is asked about later; then tail, then head.
    let mut keep = vec![false; lines.len()];
    let cost = |line: &str| line.len().min(LINE) + 1;
    let mut left = room.saturating_sub(40);
    let take = |order: &mut dyn Iterator<Item = usize>, share: usize, keep: &mut Vec<bool>, left: &mut usize| {
        let mut spent = 0;
        for i in order {
            if keep[i] {
                continue;
            }
            // A gap's marker costs too.
            let price = cost(lines[i]);
            if spent + price > share || price > *left {
                break;
            }
            keep[i] = true;
            spent += price;
            *left -= price;
        }
    };
    let total = left;
    take(&mut (0..lines.len()), total * 3 / 10, &mut keep, &mut left);
    take(&mut (0..lines.len()).rev(), total * 3 / 10, &mut keep, &mut left);
    let errors: Vec<usize> = (0..lines.len()).filter(|i| is_error(lines[*i])).collect();
    for i in errors {
        let price = cost(lines[i]) + 28;
        if !keep[i] && price <= left {
            keep[i] = true;
            left -= price;
        }
    }
    if !keep.contains(&true) {
        return squeeze(&without_blobs(text), room);
    }
    render(&lines, &keep)
}

/// The lines kept, with a marker for every gap.
pub(super) fn render(lines: &[&str], keep: &[bool]) -> String {
    let mut out = String::new();
    let mut gap = 0_usize;
    let flush = |gap: &mut usize, out: &mut String| {
        if *gap > 0 {
            let s = if *gap == 1 { "" } else { "s" };
            out.push_str(&format!("[… {gap} line{s} left out …]\n"));
            *gap = 0;
        }
    };
    for (line, keep) in lines.iter().zip(keep) {
        if !keep {
            gap += 1;
            continue;
        }
        flush(&mut gap, &mut out);
        out.push_str(&squeeze(&without_blobs(line), LINE));
        out.push('\n');
    }
    flush(&mut gap, &mut out);
    out
}

/// Head and tail of one long text.
pub(super) fn squeeze(text: &str, room: usize) -> String {
    if text.len() <= room {
        return text.to_owned();
    }
    let room = room.saturating_sub(36).max(16);
    let (head, tail) = (prefix(text, room * 6 / 10), suffix(text, room * 4 / 10));
    format!("{head}[… {} bytes left out …]{tail}", text.len() - head.len() - tail.len())
}

/// Whether a line speaks of something gone wrong.
pub(crate) fn is_error(line: &str) -> bool {
    const WORDS: [&str; 12] =
        ["error", "exception", "traceback", "panic", "fatal", "fail", "denied", "refused", "not found", "timed out", "cannot", "assert"];
    let bytes = line.as_bytes();
    WORDS.iter().any(|word| {
        let first = word.as_bytes()[0];
        memchr::memchr2_iter(first, first.to_ascii_uppercase(), bytes)
            .any(|at| bytes.get(at..at + word.len()).is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_tail_and_errors_stay() {
        let text: String = (0..1000).map(|i| if i == 500 { "Traceback: boom\n".into() } else { format!("line {i}\n") }).collect();
        let out = shrink(&text, 600);
        assert!(out.len() <= 640);
        for line in ["line 0\n", "line 999\n", "Traceback: boom\n", "lines left out"] {
            assert!(out.contains(line), "{line}");
        }
        assert_eq!(squeeze("short", 10), "short");
        assert!(squeeze(&"é".repeat(500), 99).len() < 120);
    }
}
