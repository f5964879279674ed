//! Source code: imports, signatures and type headers stay with their line numbers' gaps counted; bodies go.

use super::lines::{is_error, render};

/// Words that open a line worth keeping, in the common languages.
const OPENERS: [&str; 30] = [
    "def ",
    "async def ",
    "class ",
    "fn ",
    "pub ",
    "impl",
    "struct ",
    "enum ",
    "trait ",
    "mod ",
    "use ",
    "import ",
    "from ",
    "func ",
    "function ",
    "export ",
    "interface ",
    "type ",
    "package ",
    "const ",
    "public ",
    "private ",
    "protected ",
    "static ",
    "#include",
    "#define",
    "namespace ",
    "template",
    "module ",
    "@",
];

/// A line without its editor's number (`12:`, `   12\t`, `12|`).
fn bare(line: &str) -> &str {
    let trimmed = line.trim_start();
    let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
    match trimmed.as_bytes().get(digits) {
        Some(b':' | b'\t' | b'|') if digits > 0 => &trimmed[digits + 1..],
        _ => line,
    }
}

fn opens(line: &str) -> bool {
    let line = bare(line).trim_start();
    OPENERS.iter().any(|word| line.starts_with(word))
}

/// Whether the text is source code: many openers, many indented lines.
pub(super) fn looks_like(text: &str) -> bool {
    let (mut lines, mut openers, mut indented, mut signatures) = (0, 0, 0, 0);
    for line in text.lines().take(400).filter(|l| !l.trim().is_empty()) {
        lines += 1;
        let bare = bare(line);
        indented += usize::from(bare.starts_with([' ', '\t']));
        if opens(line) {
            openers += 1;
            signatures += usize::from(bare.contains('(') || bare.trim_end().ends_with(['{', ':', ';']));
        }
    }
    lines >= 8 && openers * 25 >= lines && signatures >= 2 && indented * 4 >= lines
}

/// Keeps openers (outermost first when they don't all fit), error lines and the last line.
pub(super) fn shrink(text: &str, room: usize) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let depth = |line: &str| {
        let bare = bare(line);
        bare.len() - bare.trim_start().len()
    };
    let mut order: Vec<usize> = (0..lines.len()).filter(|i| opens(lines[*i])).collect();
    if order.len() < 2 {
        return None;
    }
    order.sort_by_cached_key(|i| (depth(lines[*i]), *i));
    let mut keep = vec![false; lines.len()];
    let mut left = room.saturating_sub(60);
    let last = lines.len() - 1;
    let errors = (0..lines.len()).filter(|i| lines[*i].contains("rror:") && is_error(lines[*i]));
    for i in [0, last].into_iter().chain(order).chain(errors) {
        // Most kept lines stand alone between gaps, whose markers cost about as much as a line.
        let price = lines[i].len().min(400) + 30;
        if keep[i] {
            continue;
        }
        if price > left {
            break;
        }
        left -= price;
        keep[i] = true;
    }
    Some(render(&lines, &keep))
}
