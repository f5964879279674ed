//! A calendar day: which snapshot a model's name stood for.
//!
//! Given by the caller ([`super::CountOptions::as_of`]), compared with the days in the table of hosts' habits. Nothing here reads a clock.

use crate::error::{Error, Kind};
use std::fmt;
use std::str::FromStr;

/// A day, written `2026-11-30`.
///
/// ```
/// let day: plimsoll::Day = "2026-11-30".parse()?;
/// assert!(day > "2025-08-21".parse()?);
/// assert!("2026-13-01".parse::<plimsoll::Day>().is_err());
/// # Ok::<(), plimsoll::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize)]
#[serde(try_from = "String")]
pub struct Day {
    year: u16,
    month: u8,
    of_month: u8,
}

impl Day {
    /// Year, month and day.
    #[cfg(feature = "templates")]
    pub(crate) fn parts(self) -> (u16, u8, u8) {
        (self.year, self.month, self.of_month)
    }
}

impl FromStr for Day {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let read = || {
            let mut parts = text.split('-');
            let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
            let digits = |part: &str, length: usize| part.len() == length && part.bytes().all(|b| b.is_ascii_digit());
            if parts.next().is_some() || !digits(year, 4) || !digits(month, 2) || !digits(day, 2) {
                return None;
            }
            let made = Self { year: year.parse().ok()?, month: month.parse().ok()?, of_month: day.parse().ok()? };
            ((1..=12).contains(&made.month) && (1..=31).contains(&made.of_month)).then_some(made)
        };
        read().ok_or_else(|| Error::new(Kind::InvalidInput, "expected a day as YYYY-MM-DD"))
    }
}

impl TryFrom<String> for Day {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.of_month)
    }
}
