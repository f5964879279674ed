//! Pictures, documents, sound and film: tokens by generation and mode, from what the file itself says of its size.
//!
//! Recovered from recorded bills' own per-modality figures (July 2025 to August 2026); few sizes were seen, so that
//! only rules confirmed by several shapes are called exact. Files behind a URL can be of any size.

use super::family::{Generation, Mode};
use super::text::Weight;
use crate::count::{PartKind, media};
use crate::format::{ItemBody, Media, Message, Place, ToolContentBody, ToolResult};
use base64::Engine as _;
use regex::bytes::Regex;
use std::sync::OnceLock;

/// Tokens of one picture tile or one PDF page up to 2.5.
const TILE: u64 = 258;

/// Seconds and pages that a broken header may claim.
const MOST_UNITS: u64 = 1_000_000;

/// How many files the request carries: the older models look closer at a picture that is alone.
pub(super) fn attachments(messages: &[Message<'_>]) -> usize {
    let of = |body: &ItemBody<'_>| match body {
        ItemBody::Image(_) | ItemBody::Audio(_) | ItemBody::Video(_) => 1,
        ItemBody::File(file) => usize::from(!is_text(file)),
        ItemBody::ToolResult(result) => {
            result.content.iter().filter(|c| matches!(c.body, ToolContentBody::Image(_) | ToolContentBody::File(_))).count()
        }
        _ => 0,
    };
    messages.iter().flat_map(|message| &message.items).map(|item| of(&item.body)).sum()
}

fn is_text(file: &Media<'_>) -> bool {
    file.text.is_some() || file.base64.is_some() && file.mime.is_some_and(|mime| mime.starts_with("text/"))
}

/// A text file's text: it counts as text.
pub(super) fn plain_text(file: &Media<'_>) -> Option<String> {
    if let Some(text) = file.text {
        return Some(text.to_owned());
    }
    is_text(file).then(|| String::from_utf8_lossy(&bytes(file.base64.unwrap_or_default())).into_owned())
}

/// Files that a tool returned beside its response.
pub(super) fn of_result(result: &ToolResult<'_>, generation: Generation, mode: Mode, attachments: usize) -> Vec<(Place, PartKind, Weight)> {
    let mut out = Vec::new();
    for content in &result.content {
        let (body, file) = match &content.body {
            ToolContentBody::Image(file) => (ItemBody::Image(*file), file),
            ToolContentBody::File(file) => (ItemBody::File(*file), file),
            _ => continue,
        };
        let (kind, mut weight) = weigh(&body, file, generation, mode, attachments);
        if mode == Mode::Prompt && generation.is_three() {
            if file.base64.is_none() {
                // AI Studio bills nothing for a file that a tool's response names by URI (four recorded bills).
                weight = Weight::exact(0);
            } else if is_pdf(file) {
                weight = pdf(file, file_detail(file).map_or(1120, budget), generation, mode, attachments);
            }
        }
        out.push((content.place.clone(), kind, weight));
    }
    out
}

/// One file.
pub(super) fn weigh(body: &ItemBody<'_>, file: &Media<'_>, generation: Generation, mode: Mode, attachments: usize) -> (PartKind, Weight) {
    let mime = file.mime.unwrap_or_default();
    match body {
        ItemBody::Image(_) => (PartKind::Image, picture(file, generation, mode, attachments)),
        ItemBody::Audio(_) => (PartKind::File, sound(file, generation)),
        ItemBody::Video(_) => (PartKind::File, film(file, generation)),
        _ if mime.starts_with("audio/") => (PartKind::File, sound(file, generation)),
        _ if mime.starts_with("video/") => (PartKind::File, film(file, generation)),
        _ if is_pdf(file) => (PartKind::File, pdf(file, file_detail(file).map_or(560, budget), generation, mode, attachments)),
        _ => (PartKind::File, Weight::unbounded(TILE)),
    }
}

fn is_pdf(file: &Media<'_>) -> bool {
    file.mime.is_some_and(|mime| mime == "application/pdf") || file.base64.and_then(media::sniff) == Some("application/pdf")
}

/// A resolution that was asked for, and not the default.
fn file_detail<'a>(file: &Media<'a>) -> Option<&'a str> {
    file.detail.filter(|level| !level.ends_with("UNSPECIFIED"))
}

/// 3.x: most tokens of one picture at a resolution.
fn budget(level: &str) -> u64 {
    match level.rsplit('_').next().unwrap_or(level).to_ascii_uppercase().as_str() {
        "LOW" => 280,
        "MEDIUM" => 560,
        _ if level.to_ascii_uppercase().ends_with("ULTRA_HIGH") => 2240,
        _ => 1120,
    }
}

fn picture(file: &Media<'_>, generation: Generation, mode: Mode, attachments: usize) -> Weight {
    let size = file.base64.and_then(media::dimensions).map(|(w, h)| (u64::from(w), u64::from(h)));
    if generation.is_three() {
        let budget = file_detail(file).map_or(1120, budget);
        return match size {
            Some((w, h)) => Weight::exact(grid(w, h, budget)),
            // Nearly square pictures come to 34 by 32 patches of 1120; a long one loses up to a sixteenth.
            None => Weight::estimate(budget - budget / 35, budget / 16),
        };
    }
    match (size, generation, mode) {
        // AI Studio's 2.5 bills one tile for all pictures seen, the largest 597 by 566.
        (Some((w, h)), Generation::TwoFive, Mode::Prompt) if w.max(h) <= 768 => Weight::exact(TILE),
        (_, Generation::TwoFive, Mode::Prompt) => Weight::calibrated(TILE, 4 * TILE),
        (Some((w, h)), ..) if attachments <= 1 => Weight::exact(TILE * tiles(w, h)),
        (None, ..) if attachments <= 1 => Weight::estimate(5 * TILE, 5 * TILE),
        _ => Weight::calibrated(TILE, 0),
    }
}

/// 3.x: whole patches of a grid with the picture's own proportions that fits the budget.
fn grid(width: u64, height: u64, budget: u64) -> u64 {
    // floor(sqrt(budget·w/h)) without floats: the largest n with n²·h ≤ budget·w.
    let side = |a: u64, b: u64| (u128::from(budget) * u128::from(a) / u128::from(b.max(1))).isqrt();
    u64::try_from(side(width, height).max(1).saturating_mul(side(height, width).max(1))).unwrap_or(u64::MAX)
}

/// Up to 2.5: the whole picture, and its crops when it is larger than 384 pixels.
fn tiles(width: u64, height: u64) -> u64 {
    if width.max(height) <= 384 {
        return 1;
    }
    let unit = (width.min(height) * 2 / 3).clamp(256, 768);
    width.div_ceil(unit).saturating_mul(height.div_ceil(unit)).saturating_add(1)
}

fn pdf(file: &Media<'_>, budget: u64, generation: Generation, mode: Mode, attachments: usize) -> Weight {
    let Some(base64) = file.base64 else {
        return Weight::unbounded(if generation.is_three() { budget } else { TILE });
    };
    let (pages, (w, h)) = pages(&bytes(base64));
    let Some(pages) = pages else {
        return Weight::unbounded(if generation.is_three() { budget } else { TILE });
    };
    let page = if generation.is_three() {
        grid(w, h, budget)
    } else if pages == 1 && attachments <= 1 && !(generation == Generation::TwoFive && mode == Mode::Prompt) {
        TILE * tiles(w, h)
    } else {
        TILE
    };
    let tokens = pages.saturating_mul(page);
    Weight::calibrated(tokens, tokens / 20)
}

/// Page count and the first page's size in points (US letter where the file doesn't say in plain text).
fn pages(file: &[u8]) -> (Option<u64>, (u64, u64)) {
    static PAGE: OnceLock<Option<Regex>> = OnceLock::new();
    static COUNT: OnceLock<Option<Regex>> = OnceLock::new();
    static BOX: OnceLock<Option<Regex>> = OnceLock::new();
    let compile = |cell: &'static OnceLock<Option<Regex>>, pattern: &str| cell.get_or_init(|| Regex::new(pattern).ok()).as_ref();
    let marked = compile(&PAGE, r"(?-u)/Type\s*/Page[^s]").map_or(0, |re| re.find_iter(file).count() as u64);
    let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse::<f64>().ok();
    let counted = compile(&COUNT, r"(?-u)/Count\s+(\d{1,6})")
        .and_then(|re| re.captures_iter(file).filter_map(|c| std::str::from_utf8(c.get(1)?.as_bytes()).ok()?.parse::<u64>().ok()).max());
    let size = compile(&BOX, r"(?-u)/MediaBox\s*\[\s*([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)").and_then(|re| {
        let found = re.captures(file)?;
        let side =
            |from: usize, to: usize| Some((number(found.get(to)?.as_bytes())? - number(found.get(from)?.as_bytes())?).clamp(1.0, 20_000.0));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 1 to 20,000")]
        Some((side(1, 3)?.round() as u64, side(2, 4)?.round() as u64))
    });
    let pages = counted.unwrap_or(0).max(marked);
    ((1..=MOST_UNITS).contains(&pages).then_some(pages), size.unwrap_or((612, 792)))
}

fn sound(file: &Media<'_>, generation: Generation) -> Weight {
    let rate = if generation == Generation::TwoFive { 32 } else { 25 };
    match file.base64.and_then(|base64| super::duration::sound(&bytes(base64))) {
        Some(ms) => {
            let tokens = ms.saturating_mul(rate).div_ceil(1000);
            Weight::calibrated(tokens, tokens / 50 + 1)
        }
        None => Weight::unbounded(rate),
    }
}

fn film(file: &Media<'_>, generation: Generation) -> Weight {
    let (frame, rate) = match generation {
        Generation::Two => (TILE, 25),
        Generation::TwoFive => (263, 32),
        _ if file_detail(file).is_some_and(|level| budget(level) >= 1120) => (256, 25),
        _ => (64, 25),
    };
    match file.base64.and_then(|base64| super::duration::film(&bytes(base64))) {
        Some((ms, sounds)) => {
            let frames = ms.saturating_add(500) / 1000;
            let heard = if sounds { ms.saturating_mul(rate).div_ceil(1000) } else { 0 };
            let tokens = frames.max(1).saturating_mul(frame).saturating_add(heard);
            Weight::estimate(tokens, (tokens / 10).saturating_add(frame).saturating_add(heard))
        }
        None => Weight::unbounded(frame),
    }
}

/// Decoded bytes, forgiving line breaks, either alphabet and a cut last group.
fn bytes(base64: &str) -> Vec<u8> {
    let mut clean: Vec<u8> = base64
        .bytes()
        .filter_map(|byte| match byte {
            b'-' => Some(b'+'),
            b'_' => Some(b'/'),
            b'+' | b'/' => Some(byte),
            _ => byte.is_ascii_alphanumeric().then_some(byte),
        })
        .collect();
    if clean.len() % 4 == 1 {
        clean.pop();
    }
    let config = base64::engine::GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(base64::engine::DecodePaddingMode::Indifferent);
    base64::engine::GeneralPurpose::new(&base64::alphabet::STANDARD, config).decode(clean).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_keep_proportions_within_the_budget() {
        // Recorded: a square, 597 by 566, and PDF pages of A4 and letter size at half and full budget.
        assert_eq!(grid(128, 128, 1120), 33 * 33);
        assert_eq!(grid(597, 566, 1120), 34 * 32);
        assert_eq!(grid(595, 842, 560), 19 * 28);
        assert_eq!(grid(612, 792, 560), 20 * 26);
        assert_eq!(grid(612, 792, 1120), 29 * 38);
        assert_eq!(grid(100_000, 1, 1120), 10_583);
    }

    #[test]
    fn tiles_crop_by_the_shorter_side() {
        // Recorded: 1, 5 and 7 tiles.
        assert_eq!((tiles(8, 8), tiles(640, 480), tiles(540, 360)), (1, 5, 7));
    }

    #[test]
    fn pdf_pages_and_size() {
        let (pages, size) = pages(b"<< /Type /Pages /Count 2 >> << /Type /Page /MediaBox [0 0 595.28 841.89] >> << /Type /Page >>");
        assert_eq!((pages, size), (Some(2), (595, 842)));
        assert_eq!(super::pages(b"").0, None);
    }
}
