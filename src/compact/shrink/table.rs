//! Tables (CSV, TSV, Markdown, piped): the header and a sample of rows stay, the rest is counted.

use super::lines::render;

/// The delimiter when the text is a table: nearly all lines have the same number of it.
pub(super) fn delimiter(text: &str) -> Option<char> {
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).take(40).collect();
    if lines.len() < 5 {
        return None;
    }
    ['\t', '|', ',', ';'].into_iter().find(|delimiter| {
        let count = |line: &str| line.matches(*delimiter).count();
        let wanted = count(lines[lines.len() / 2]);
        let least = if matches!(delimiter, ',' | ';') { 2 } else { 1 };
        wanted >= least && lines.iter().filter(|line| count(line) == wanted).count() * 10 >= lines.len() * 9
    })
}

/// Keeps the header (with a Markdown rule), rows from the head and the last row.
pub(super) fn shrink(text: &str, room: usize) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let header = lines.iter().position(|line| !line.trim().is_empty())?;
    let rule = lines.get(header + 1).is_some_and(|line| line.chars().all(|c| matches!(c, '|' | '-' | ':' | '+' | '=' | ' ')));
    let body = header + 1 + usize::from(rule);
    let mut keep = vec![false; lines.len()];
    let mut left = room.saturating_sub(40);
    let mut take = |i: usize| {
        let price = lines.get(i).map_or(usize::MAX, |l| l.len().min(400) + 1);
        let fits = price <= left && i < lines.len();
        if fits {
            left -= price;
            keep[i] = true;
        }
        fits
    };
    if !(0..body).all(&mut take) || !take(lines.len() - 1) {
        return None;
    }
    // Two thirds of the rest from the head, in order; then evenly spread ones, so that a sorted table shows its range.
    let rows = lines.len() - 1 - body;
    let per_row = (text.len() / lines.len()).max(1);
    let fit = room / per_row;
    let head = (fit * 2 / 3).min(rows);
    if !(body..body + head).all(&mut take) {
        return Some(render(&lines, &keep));
    }
    let spread = (fit / 6).min(rows - head);
    for k in 1..=spread {
        let i = body + head + (rows - head) * k / (spread + 1);
        if i + 1 < lines.len() && !take(i) {
            break;
        }
    }
    Some(render(&lines, &keep))
}
