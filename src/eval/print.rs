//! A report as a table for a terminal, as JSON, and as the pages of `docs/accuracy.md`.
//!
//! Names exchanges by id and parts by place; shows no content.

use super::score::{Group, Report, Row};
use serde_json::{Value, json};
use std::fmt::Write as _;

fn share(part: usize, whole: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    let share = part as f64 * 100.0 / whole.max(1) as f64;
    share
}

fn worst(group: &Group) -> String {
    match &group.worst {
        Some((id, error)) if *error != 0 => format!("{error:+} ({id})"),
        _ => "0".to_owned(),
    }
}

/// One row of the table, for a terminal and for Markdown alike.
fn cells([provider, family, with]: [&str; 3], group: &Group) -> [String; 11] {
    let of_all = |rows| format!("{:.1}%", share(rows, group.n));
    [
        provider.to_owned(),
        family.to_owned(),
        with.to_owned(),
        group.n.to_string(),
        of_all(group.exact),
        of_all(group.near),
        format!("{:.2}%", group.p50),
        format!("{:.2}%", group.p95),
        of_all(group.held),
        format!("{:.2}%", share(group.under, group.n)),
        worst(group),
    ]
}

impl Report {
    /// The table, and below it the largest residuals part by part.
    pub fn to_text(&self, residuals: usize) -> String {
        let mut out = format!(
            "{:<14} {:<16} {:<6} {:>5} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}  {}\n",
            "PROVIDER", "FAMILY", "WITH", "N", "EXACT", "≤1%/2", "P50", "P95", "BOUND", "UNDER", "WORST"
        );
        let mut line = |name: [&str; 3], group: &Group| {
            let [provider, family, with, n, exact, near, p50, p95, held, under, worst] = cells(name, group);
            let _ = writeln!(
                out,
                "{provider:<14} {family:<16} {with:<6} {n:>5} {exact:>7} {near:>7} {p50:>7} {p95:>7} {held:>7} {under:>7}  {worst}"
            );
        };
        for ((provider, family, content), group) in &self.groups() {
            line([provider, family, content.as_str()], group);
        }
        line(["all", "", ""], &Group::of(&self.rows));
        let _ = writeln!(
            out,
            "{} unbounded, {} listed apart, {} without usage, {} not counted",
            self.unbounded.len(),
            self.apart.len(),
            self.without_usage,
            self.failed.len()
        );
        for row in self.worst(residuals) {
            let bound = row.breakdown.bound().unwrap_or(0);
            let _ = writeln!(out, "\n{} {} {}: {:+} of {} billed (±{bound})", row.id, row.provider, row.model, row.error(), row.billed);
            for part in row.breakdown.parts().iter().filter(|part| part.tokens > 0 || part.bound != Some(0)) {
                let (place, bound) = (if part.place.is_empty() { "-" } else { &part.place }, part.bound.unwrap_or(0));
                let name = part.name.as_deref().unwrap_or_default();
                let _ = writeln!(out, "  {:>8} ±{:<6} {:<16} {place} {name}", part.tokens, bound, part.kind.as_str());
            }
        }
        out
    }

    /// The same as JSON.
    pub fn to_json(&self, residuals: usize) -> Value {
        let group = |group: &Group| {
            json!({
                "n": group.n, "exact": group.exact, "near": group.near, "p50_percent": group.p50, "p95_percent": group.p95,
                "bound_holds": group.held, "under_beyond_bound": group.under,
                "worst": group.worst.as_ref().map(|(id, error)| json!({"id": id, "error_tokens": error})),
            })
        };
        let row = |row: &Row| {
            let part = |p: &crate::count::Part| {
                json!({"kind": p.kind.as_str(), "place": p.place, "name": p.name, "tokens": p.tokens, "bound": p.bound,
                    "confidence": p.confidence.as_str()})
            };
            json!({"id": row.id, "provider": row.provider, "family": row.family, "model": row.model, "with": row.content.as_str(),
                "billed": row.billed, "counted": row.breakdown.total(), "bound": row.breakdown.bound(),
                "parts": row.breakdown.parts().iter().map(part).collect::<Vec<_>>()})
        };
        let groups = self.groups();
        let named = groups.iter().map(|((provider, family, content), scores)| {
            let mut value = group(scores);
            value["provider"] = json!(provider);
            value["family"] = json!(family);
            value["with"] = json!(content.as_str());
            value
        });
        let pair = |(id, why): &(String, String)| json!({"id": id, "reason": why});
        json!({
            "groups": named.collect::<Vec<_>>(),
            "all": group(&Group::of(&self.rows)),
            "unbounded": self.unbounded.iter().map(|row| json!({"id": row.id, "provider": row.provider, "family": row.family})).collect::<Vec<_>>(),
            "apart": self.apart.iter().map(pair).collect::<Vec<_>>(),
            "failed": self.failed.iter().map(pair).collect::<Vec<_>>(),
            "without_usage": self.without_usage,
            "worst": self.worst(residuals).into_iter().map(row).collect::<Vec<_>>(),
        })
    }

    /// `docs/accuracy.md`: the table, the rows that we lose, and what is left out and why.
    pub fn to_markdown(&self) -> String {
        let mut out = String::from(
            "# Accuracy on recorded bills\n\nGenerated by `plimsoll eval --markdown docs/accuracy.md FILE…`; don't edit. Each row compares \
             counts made before sending with what the provider billed. *Near* is within 1% or 2 tokens; *bound* is the share of \
             counts whose own stated bound holds; *under* is the share counted too low by more than that bound.\n\n\
             | provider | family | with | n | exact | near | p50 | p95 | bound | under | worst |\n\
             | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n",
        );
        let mut line = |name: [&str; 3], group: &Group| {
            let _ = writeln!(out, "| {} |", cells(name, group).join(" | "));
        };
        for ((provider, family, content), group) in &self.groups() {
            line([provider, family, content.as_str()], group);
        }
        line(["**all**", "", ""], &Group::of(&self.rows));
        let _ = writeln!(
            out,
            "\n{} more requests use features whose text only the provider knows (server tools, stored contexts, files by address): \
             they are unbounded and not scored. {} carry no usage; {} could not be counted.\n\n## The largest residuals\n",
            self.unbounded.len(),
            self.without_usage,
            self.failed.len()
        );
        out.push_str("| exchange | provider | model | with | billed | counted | bound |\n| --- | --- | --- | --- | ---: | ---: | ---: |\n");
        for row in self.worst(25) {
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | ±{} |",
                row.id,
                row.provider,
                row.model,
                row.content.as_str(),
                row.billed,
                row.breakdown.total(),
                row.breakdown.bound().unwrap_or(0)
            );
        }
        let _ = writeln!(out, "\n## Bounds that did not hold\n");
        for row in self.rows.iter().filter(|row| !row.holds()) {
            let bound = row.breakdown.bound().unwrap_or(0);
            let _ = writeln!(out, "- {} ({}, {}): {:+} of {}, stated ±{bound}", row.id, row.provider, row.model, row.error(), row.billed);
        }
        let _ = writeln!(out, "\n## Left out, and why\n");
        for (id, reason) in &self.apart {
            let _ = writeln!(out, "- {id}: {reason}");
        }
        out
    }
}
