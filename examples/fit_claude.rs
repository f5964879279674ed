//! Fits the prices of Claude text by kind on recorded usage, cross-validates them, and writes `data/claude-weights.json`.
//!
//! `cargo run --release --example fit_claude -- ../shared/ground-truth data/claude-weights.json 2026-11-30`
//! (without the last two arguments it only prints). Robust ridge regression: residuals beyond about their own scale count
//! linearly (Huber), near-duplicate conversations share one vote, and every price is pulled towards a prior, so that
//! kinds with little data keep a sane price. Errors are printed for rows whose whole group was left out of the fit.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a command for maintainers"
)]
#![allow(missing_docs, clippy::cast_possible_truncation, reason = "a command for maintainers")]

use plimsoll::fitting::{KIND_NAMES, KINDS, Kinds, claude_design};
use plimsoll::{Format, Models, Provider, Request};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

#[path = "../tests/common/mod.rs"]
mod common;

/// Where a price is pulled to: from the first fits, and for kinds with no recorded rows (CJK, other scripts) from the ratio
/// that the last published Claude vocabulary has to the public one on long texts, with the 5% that English has since gained.
const PRIOR: [f64; KINDS] = [1.05, 1.0, 1.2, 1.5, 1.15, 1.0, 0.6, 1.02, 1.15, 1.1, 1.05, 1.0, 1.05, 0.6, 0.25];
/// How far off a price may be, before it is scaled to what cross-validation shows: by how varied the kind is.
const SPREAD: [f64; KINDS] = [0.05, 0.05, 0.15, 0.3, 0.15, 0.3, 0.4, 0.25, 0.4, 0.7, 0.2, 0.2, 0.08, 0.5, 0.3];
/// Kinds with hardly a recorded row: their spread is not scaled.
const UNSEEN: [&str; 3] = ["cjk", "other_script", "symbol"];
/// Strength of the pull.
const RIDGE: f64 = 30.0;
/// Rounding and small framing, in tokens.
const FLOOR: f64 = 3.0;
const FOLDS: usize = 8;

struct Row {
    id: String,
    generation: String,
    kinds: Kinds,
    frame_spread: f64,
    /// Billed tokens beyond the frame, and billed tokens.
    text: f64,
    truth: f64,
    tools: bool,
    group: usize,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(folder) = args.first() else {
        eprintln!("usage: fit_claude GROUND_TRUTH_FOLDER [OUT.json DATE]");
        return;
    };
    let rows = read(folder);
    let old: Vec<&Row> = rows.iter().filter(|row| row.generation == "claude-4.6").collect();
    let groups = old.iter().map(|row| row.group).collect::<HashSet<_>>().len();
    println!("{} usable exchanges up to 4.6 in {groups} groups; {} later ones", old.len(), rows.len() - old.len());
    let mut scale = 0.0_f64;
    for seed in 0..4 {
        let predicted = cross_validated(&old, seed);
        for (label, tools) in [("text", false), ("tools", true)] {
            report(&format!("cross-validated, seed {seed}, {label}"), &old, &predicted, tools);
        }
        let needed = needed_scale(&old, &predicted);
        println!("  spread must be scaled by {needed:.2} to cover 99.5% of the rows left out");
        scale = scale.max(needed);
    }
    // A third more than what the rows left out needed: they are few, and alike.
    let scale = (scale * 4.0 / 3.0).max(0.75);
    let weights = fit(&old);
    let predicted: Vec<f64> = old.iter().map(|row| dot(&weights, &row.kinds.0)).collect();
    for (label, tools) in [("text", false), ("tools", true)] {
        report(&format!("in sample, {label}"), &old, &predicted, tools);
    }
    for (name, (weight, prior)) in KIND_NAMES.iter().zip(weights.iter().zip(PRIOR)) {
        println!("  {name:16} {weight:.3} (prior {prior})");
    }
    let later = ratio(&rows, &weights);
    println!("later generations: {:.3} to {:.3} of that price, middle {:.3}", later.0, later.2, later.1);
    if let [_, out, date, ..] = args.as_slice() {
        write(out, date, &weights, scale, later, &rows);
    }
}

/// Middle of the later generations' price, and how far off it may be: from the few texts seen, each a vote, widened by half.
fn ratio(rows: &[Row], weights: &[f64; KINDS]) -> (f64, f64, f64) {
    let mut ratios: Vec<f64> = rows
        .iter()
        .filter(|row| row.generation != "claude-4.6" && row.text > 25.0 && row.frame_spread < 20.0)
        .map(|row| row.text / dot(weights, &row.kinds.0))
        .collect();
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| ratios.get((share * (ratios.len().saturating_sub(1)) as f64).round() as usize).copied().unwrap_or(1.25);
    (at(0.0), at(0.5), at(1.0))
}

fn write(out: &str, date: &str, weights: &[f64; KINDS], scale: f64, later: (f64, f64, f64), rows: &[Row]) {
    let four = |x: f64| (x * 1e4).round() / 1e4;
    let (low, middle, high) = later;
    let half = ((high - low) / 2.0).max(0.15) * 1.5;
    let generations: Vec<Value> = [("claude-4.6", 1.0, 0.0, FLOOR), ("claude-4.7", middle, half, 8.0), ("claude-5", middle, half, 8.0)]
        .into_iter()
        .map(|(renderer, times, more, floor)| {
            let prices: Vec<f64> = weights.iter().map(|w| four(w * times)).collect();
            let spreads: Vec<f64> = (0..KINDS)
                .map(|k| four(SPREAD[k] * if UNSEEN.contains(&KIND_NAMES[k]) { times } else { scale * times } + weights[k] * more))
                .collect();
            json!({"renderer": renderer, "weights": prices, "spreads": spreads, "floor": floor})
        })
        .collect();
    let file = json!({
        "date": date,
        "source": format!("fitted on {} recorded exchanges by examples/fit_claude.rs; later generations share one ratio", rows.len()),
        "kinds": KIND_NAMES,
        "generations": generations,
    });
    std::fs::write(out, serde_json::to_string_pretty(&file).unwrap() + "\n").expect("the weights file can be written");
    println!("wrote {out}");
}

fn read(folder: &str) -> Vec<Row> {
    let models = Models::builtin();
    let apart: HashSet<&str> = include_str!("../data/claude-apart.tsv").lines().filter_map(|line| line.split('\t').next()).collect();
    let mut rows = Vec::new();
    let mut words: Vec<HashSet<String>> = Vec::new();
    for (name, format) in [
        ("anthropic", Format::Anthropic),
        ("anthropic_count_tokens", Format::Anthropic),
        ("converse", Format::Converse),
        ("chat", Format::Chat),
    ] {
        let path = format!("{folder}/{name}.jsonl.gz");
        for line in common::gunzip(std::path::Path::new(&path)).lines() {
            let exchange: Value = serde_json::from_str(line).expect("one exchange a line");
            let (id, model) = (exchange["id"].as_str().unwrap_or_default(), exchange["model"].as_str().unwrap_or_default());
            let host = exchange["host"].as_str().unwrap_or_default();
            if !model.contains("claude") || apart.contains(id) {
                continue;
            }
            let request = Request::parse(exchange["request"].to_string().as_bytes(), format).expect("a recorded body is JSON");
            let provider: Provider = host.parse().unwrap();
            let Ok(design) = claude_design(&request, Some(model), Some(&provider), &models) else { continue };
            let truth = common::billed_input(&exchange["usage"]).unwrap_or(0) as f64;
            if !design.settled || truth == 0.0 {
                continue;
            }
            let conversation = request.conversation().expect("it was read before");
            let text: Vec<String> = conversation.messages.iter().flat_map(|m| strings(m.raw)).collect();
            words.push(shingles(&text.join(" ")));
            rows.push(Row {
                id: id.to_owned(),
                generation: design.renderer,
                kinds: design.kinds,
                frame_spread: design.spread,
                text: truth - design.fixed as f64,
                truth,
                tools: !conversation.tools.is_empty(),
                group: 0,
            });
        }
    }
    let groups = grouped(&words);
    for (row, group) in rows.iter_mut().zip(groups) {
        row.group = group;
    }
    rows
}

/// All strings under `text`, `content`, `thinking` and the like; roles and ids are too short to matter.
fn strings(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) if text.len() < 20_000 => vec![text.clone()],
        Value::Array(list) => list.iter().flat_map(strings).collect(),
        Value::Object(map) => {
            map.iter().filter(|(key, _)| !["id", "data", "signature"].contains(&key.as_str())).flat_map(|(_, v)| strings(v)).collect()
        }
        _ => Vec::new(),
    }
}

fn shingles(text: &str) -> HashSet<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.len() < 4 {
        return HashSet::from([words.join(" ")]);
    }
    words.windows(4).map(|four| four.join(" ")).collect()
}

/// Texts that share more than half of the smaller one's four-word runs are one group.
fn grouped(texts: &[HashSet<String>]) -> Vec<usize> {
    let mut group: Vec<usize> = (0..texts.len()).collect();
    for i in 0..texts.len() {
        for j in 0..i {
            let shared = texts[i].intersection(&texts[j]).count();
            if shared * 2 > texts[i].len().min(texts[j].len()) && group[i] != group[j] {
                let (from, to) = (group[i], group[j]);
                group.iter_mut().filter(|g| **g == from).for_each(|g| *g = to);
            }
        }
    }
    group
}

fn cross_validated(rows: &[&Row], seed: u64) -> Vec<f64> {
    let fold = |row: &Row| {
        (row.group as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17 + seed as u32 * 5).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33
    };
    let mut predicted = vec![0.0; rows.len()];
    for left_out in 0..FOLDS as u64 {
        let kept: Vec<&Row> = rows.iter().filter(|row| fold(row) % FOLDS as u64 != left_out).copied().collect();
        let weights = fit(&kept);
        for (row, slot) in rows.iter().zip(&mut predicted) {
            if fold(row) % FOLDS as u64 == left_out {
                *slot = dot(&weights, &row.kinds.0);
            }
        }
    }
    predicted
}

fn fit(rows: &[&Row]) -> [f64; KINDS] {
    let mut votes: HashMap<usize, f64> = HashMap::new();
    for row in rows {
        *votes.entry(row.group).or_default() += 1.0;
    }
    let mut weights = PRIOR;
    for _ in 0..20 {
        let mut matrix = [[0.0; KINDS + 1]; KINDS];
        for (k, line) in matrix.iter_mut().enumerate() {
            line[k] = RIDGE;
            line[KINDS] = RIDGE * PRIOR[k];
        }
        for row in rows {
            let x = &row.kinds.0;
            let size = 3.0 + row.frame_spread + 0.03 * x.iter().sum::<f64>();
            let residual = (row.text - dot(&weights, x)) / size;
            let share = votes[&row.group].sqrt().recip() / residual.abs().max(1.0) / (size * size);
            for (i, line) in matrix.iter_mut().enumerate() {
                for j in 0..KINDS {
                    line[j] += share * x[i] * x[j];
                }
                line[KINDS] += share * x[i] * row.text;
            }
        }
        weights = solve(matrix);
    }
    weights
}

/// Gauss with pivots; the ridge keeps the matrix regular.
fn solve(mut m: [[f64; KINDS + 1]; KINDS]) -> [f64; KINDS] {
    for column in 0..KINDS {
        let pivot = (column..KINDS).max_by(|&a, &b| m[a][column].abs().total_cmp(&m[b][column].abs())).unwrap();
        m.swap(column, pivot);
        let head = m[column];
        for (row, line) in m.iter_mut().enumerate() {
            if row != column {
                let times = line[column] / head[column];
                for (value, above) in line.iter_mut().zip(head) {
                    *value -= times * above;
                }
            }
        }
    }
    std::array::from_fn(|k| m[k][KINDS] / m[k][k])
}

fn dot(a: &[f64; KINDS], b: &[f64; KINDS]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn needed_scale(rows: &[&Row], predicted: &[f64]) -> f64 {
    let mut needed: Vec<(f64, &str)> = rows
        .iter()
        .zip(predicted)
        .map(|(row, p)| {
            let beyond = ((row.text - p).abs() - FLOOR - row.frame_spread).max(0.0);
            (beyond / dot(&SPREAD, &row.kinds.0).max(1e-9), row.id.as_str())
        })
        .collect();
    needed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let worst: Vec<String> = needed.iter().rev().take(6).map(|(scale, id)| format!("{id} {scale:.2}")).collect();
    println!("  spreads fall short most by {}", worst.join(", "));
    needed.get((needed.len() as f64 * 0.995) as usize).map_or(1.0, |n| n.0)
}

fn report(title: &str, rows: &[&Row], predicted: &[f64], tools: bool) {
    let mut errors: Vec<(f64, f64, &str)> = rows
        .iter()
        .zip(predicted)
        .filter(|(row, _)| row.tools == tools)
        .map(|(row, p)| {
            let off = (row.text - p).round().abs();
            (off / row.truth * 100.0, off, row.id.as_str())
        })
        .collect();
    errors.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = |share: f64| errors.get((share * (errors.len() - 1) as f64).round() as usize).map_or(0.0, |e| e.0);
    let within = errors.iter().filter(|e| e.0 <= 4.0 || e.1 <= 3.0).count() as f64 / errors.len() as f64 * 100.0;
    let worst: Vec<String> = errors.iter().rev().take(4).map(|e| format!("{} {:.1}%", e.2, e.0)).collect();
    println!(
        "{title}: n {} p50 {:.2}% p95 {:.2}% within 4% or 3 tokens {within:.1}%; worst {}",
        errors.len(),
        at(0.5),
        at(0.95),
        worst.join(", ")
    );
}
