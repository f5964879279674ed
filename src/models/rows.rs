//! The table's text form: tab-separated lines, `#` comments, `@source` and `@date` for the rows below them.
//!
//! Read for the built-in data and for a stored import, written by [`super::Models::to_text`]. A line that breaks
//! the form is an error with its number; the built-in files are tested to hold none.

use crate::error::{Error, Result};

/// The cells of each line that holds data, with the line's number from 1.
pub(super) fn cells(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|(at, line)| (at + 1, line.split('\t').map(str::trim).collect()))
}

/// One row: what the list itself says of a model. The family says the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row<'a> {
    pub(super) id: &'a str,
    pub(super) window: Option<u64>,
    pub(super) input_cap: Option<u64>,
    pub(super) output_cap: Option<u64>,
    pub(super) reasoning: Option<bool>,
    pub(super) aliases: Vec<&'a str>,
    pub(super) note: Option<&'a str>,
    pub(super) source: &'a str,
    pub(super) date: &'a str,
}

/// All rows of a text.
pub(super) fn parse(text: &str) -> Result<Vec<Row<'_>>> {
    let (mut source, mut date) = ("", "");
    let mut rows = Vec::new();
    for (line, cells) in cells(text) {
        let cell = |i: usize| cells.get(i).copied().filter(|c| !c.is_empty() && *c != "-");
        match cells.first().copied() {
            Some("@source") => source = cell(1).unwrap_or_default(),
            Some("@date") => date = cell(1).unwrap_or_default(),
            _ => {
                let number =
                    |i: usize| cell(i).map(|c| tokens(c).map_err(|e| e.context(format!("line {line}, column {}", i + 1)))).transpose();
                rows.push(Row {
                    id: cell(0).ok_or_else(|| Error::invalid("", format!("line {line}: expected a model id")))?,
                    window: number(1)?,
                    input_cap: number(2)?,
                    output_cap: number(3)?,
                    reasoning: match cell(4) {
                        None => None,
                        Some("y") => Some(true),
                        Some("n") => Some(false),
                        Some(_) => return Err(Error::invalid("", format!("line {line}, column 5: expected `y`, `n` or `-`"))),
                    },
                    aliases: cell(5).map(|list| list.split(',').map(str::trim).collect()).unwrap_or_default(),
                    note: cell(6),
                    source,
                    date,
                });
            }
        }
    }
    Ok(rows)
}

/// A number of tokens as lists state it: a whole number from 1 to 2^40.
pub(super) fn tokens(cell: &str) -> Result<u64> {
    cell.parse()
        .ok()
        .filter(|n| (1..=crate::limits::MAX_WINDOW_TOKENS).contains(n))
        .ok_or_else(|| Error::invalid("", "expected a number of tokens from 1 to 2^40"))
}

/// One row as text, without its line end.
pub(super) fn print(row: &Row<'_>, out: &mut String) {
    use std::fmt::Write as _;
    let number = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let reasons = row.reasoning.map_or("-", |r| if r { "y" } else { "n" });
    let aliases = if row.aliases.is_empty() { "-".to_owned() } else { row.aliases.join(",") };
    let (window, input, output) = (number(row.window), number(row.input_cap), number(row.output_cap));
    // Writing to a String can't fail.
    let _ = write!(out, "{}\t{window}\t{input}\t{output}\t{reasons}\t{aliases}\t{}", row.id, row.note.unwrap_or("-"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_read_back_as_printed() {
        let text = "# c\n@source\tsomewhere\n@date\t2026-11-30\nx\t10\t-\t5\ty\ta,b\tnote\ny\t-\t-\t-\t-\t-\t-\n";
        let rows = parse(text).unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].source, rows[0].window, rows[0].aliases.clone()), ("somewhere", Some(10), vec!["a", "b"]));
        let mut printed = String::new();
        print(&rows[0], &mut printed);
        assert_eq!(printed, "x\t10\t-\t5\ty\ta,b\tnote");
    }

    #[test]
    fn bad_rows_name_line_and_column() {
        for (text, expected) in [
            ("\n-\t1", "line 2"),
            ("x\t0", "line 1, column 2"),
            ("x\t-\t-\t99999999999999999999", "line 1, column 4"),
            ("x\t-\t-\t-\tq", "column 5"),
        ] {
            assert!(parse(text).unwrap_err().to_string().contains(expected), "{text}");
        }
    }
}
