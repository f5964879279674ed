//! Counts a log and scores the counts: rows, groups of rows, and the report.
//!
//! Fakes, unbounded requests and requests that can't be counted stay out of the scored groups and are reported apart.

use super::{Apart, Exchange, learn};
use crate::count::{Breakdown, Confidence, CountOptions, Counter, PartKind};
use crate::error::{Kind, Result};
use crate::format::{ItemBody, ResponseFormat};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a request holds, as far as counting differs by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Content {
    /// Text alone.
    Text,
    /// Tools, calls, results or structured output.
    Tools,
    /// Pictures, documents, sound or film.
    Media,
}

impl Content {
    /// The name in tables and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Tools => "tools",
            Self::Media => "media",
        }
    }
}

/// One request's score.
#[derive(Clone, Debug)]
pub struct Row {
    /// The exchange's id.
    pub id: String,
    /// Whose endpoint billed it.
    pub provider: String,
    /// The renderer that counted it, e.g. `openai-classic`, `claude-4.6`.
    pub family: String,
    /// The model asked for.
    pub model: String,
    /// What it holds.
    pub content: Content,
    /// Whether it replays reasoning whose cost no response of the log reports.
    pub unknown_reasoning: bool,
    /// What was billed, in tokens.
    pub billed: u64,
    /// The count, with its parts.
    pub breakdown: Breakdown,
}

impl Row {
    /// Count minus bill, in tokens.
    pub fn error(&self) -> i64 {
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        signed(self.breakdown.total()).saturating_sub(signed(self.billed))
    }

    /// The error's size as a share of the bill, in percent.
    pub fn percent(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a share for people")]
        let share = self.error().unsigned_abs() as f64 * 100.0 / self.billed.max(1) as f64;
        share
    }

    /// Whether the error stays within the count's own bound.
    pub fn holds(&self) -> bool {
        self.breakdown.bound().is_none_or(|bound| self.error().unsigned_abs() <= bound)
    }

    fn near(&self) -> bool {
        self.error().unsigned_abs() <= 2.max(self.billed / 100)
    }
}

/// Scores of the rows of one provider, family and content.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Number of rows.
    pub n: usize,
    /// Rows counted exactly.
    pub exact: usize,
    /// Rows within 1% or 2 tokens.
    pub near: usize,
    /// Median error, in percent of the bill.
    pub p50: f64,
    /// Error at the 95th percentile, likewise.
    pub p95: f64,
    /// The row with the largest error: id and count minus bill in tokens.
    pub worst: Option<(String, i64)>,
    /// Rows whose bound holds.
    pub held: usize,
    /// Rows counted under the bill by more than their bound.
    pub under: usize,
}

impl Group {
    /// The scores of `rows`.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Self {
        let mut group = Self::default();
        let mut errors = Vec::new();
        for row in rows {
            group.n += 1;
            group.exact += usize::from(row.error() == 0);
            group.near += usize::from(row.near());
            group.held += usize::from(row.holds());
            group.under += usize::from(!row.holds() && row.error() < 0);
            errors.push(row.percent());
            if group.worst.as_ref().is_none_or(|(_, worst)| row.error().unsigned_abs() > worst.unsigned_abs()) {
                group.worst = Some((row.id.clone(), row.error()));
            }
        }
        errors.sort_by(f64::total_cmp);
        // Nearest rank: the smallest error that at least this share of rows doesn't exceed.
        let at = |percent: usize| errors.get((errors.len() * percent).div_ceil(100).saturating_sub(1)).copied().unwrap_or(0.0);
        (group.p50, group.p95) = (at(50), at(95));
        group
    }
}

/// All of a log, scored.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Bounded rows, in the log's order.
    pub rows: Vec<Row>,
    /// Rows with text that only the provider knows.
    pub unbounded: Vec<Row>,
    /// Left out by list: id and reason.
    pub apart: Vec<(String, String)>,
    /// Not counted: the id and why.
    pub failed: Vec<(String, String)>,
    /// Exchanges without a billed count.
    pub without_usage: usize,
}

impl Report {
    /// Groups by provider, family and content.
    pub fn groups(&self) -> BTreeMap<(String, String, Content), Group> {
        let mut sorted: BTreeMap<_, Vec<&Row>> = BTreeMap::new();
        for row in &self.rows {
            sorted.entry((row.provider.clone(), row.family.clone(), row.content)).or_default().push(row);
        }
        sorted.into_iter().map(|(key, rows)| (key, Group::of(rows))).collect()
    }

    /// The `n` bounded rows with the largest errors in tokens.
    pub fn worst(&self, n: usize) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().filter(|row| row.error() != 0).collect();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.error().unsigned_abs()), row.id.as_str()));
        rows.truncate(n);
        rows
    }
}

/// Counts every exchange and scores it. What replayed reasoning costs is learned from the same log's responses.
///
/// # Errors
/// [`Kind::Internal`] alone: a request that can't be counted is a row of [`Report::failed`].
pub fn evaluate(exchanges: &[Exchange], counter: &Counter, apart: &Apart) -> Result<Report> {
    let memory = Arc::new(learn(exchanges));
    let mut report = Report::default();
    for exchange in exchanges {
        if let Some(reason) = apart.reason(&exchange.id) {
            report.apart.push((exchange.id.clone(), reason.to_owned()));
            continue;
        }
        let Some(billed) = exchange.billed else {
            report.without_usage += 1;
            continue;
        };
        let options = CountOptions {
            model: exchange.model.clone(),
            provider: exchange.provider.clone(),
            stream: exchange.stream,
            memory: Arc::clone(&memory),
            ..CountOptions::default()
        };
        let count = match counter.count(&exchange.request, &options) {
            Ok(count) => count,
            Err(error) if error.kind() == Kind::Internal => return Err(error),
            Err(error) => {
                report.failed.push((exchange.id.clone(), error.to_string()));
                continue;
            }
        };
        let unknown = |part: &crate::count::Part| part.kind == PartKind::Reasoning && part.confidence == Confidence::Estimate;
        let row = Row {
            id: exchange.id.clone(),
            provider: exchange.provider.as_ref().map_or_else(|| exchange.host.clone(), |p| p.as_str().to_owned()),
            family: count.profile.renderer.clone(),
            model: exchange.model.clone().unwrap_or_else(|| count.profile.id.clone()),
            content: content(exchange),
            unknown_reasoning: count.breakdown.parts().iter().any(unknown),
            billed,
            breakdown: count.breakdown,
        };
        if row.breakdown.bound().is_some() { report.rows.push(row) } else { report.unbounded.push(row) }
    }
    Ok(report)
}

fn content(exchange: &Exchange) -> Content {
    let Ok(view) = exchange.request.conversation() else { return Content::Text };
    let items = || view.messages.iter().flat_map(|message| &message.items);
    let attached = |body: &ItemBody<'_>| match body {
        ItemBody::Image(_) | ItemBody::File(_) | ItemBody::Audio(_) | ItemBody::Video(_) => true,
        ItemBody::ToolResult(result) => {
            use crate::format::ToolContentBody::{File, Image};
            result.content.iter().any(|content| matches!(content.body, Image(_) | File(_)))
        }
        _ => false,
    };
    if items().any(|item| attached(&item.body)) {
        return Content::Media;
    }
    let called = items().any(|item| matches!(item.body, ItemBody::ToolCall(_) | ItemBody::ToolResult(_)));
    let tools = called || !view.tools.is_empty() || !matches!(view.response_format, ResponseFormat::Text);
    if tools { Content::Tools } else { Content::Text }
}
