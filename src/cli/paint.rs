//! Colours, or none: NO_COLOR, the terminal and `--color` decide once.

use crate::count::PartKind;
use anstyle::{AnsiColor, Style};

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum When {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Colours text, or leaves it as it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint {
    on: bool,
}

impl Paint {
    pub(super) fn new(when: When, terminal: bool) -> Self {
        let on = match when {
            When::Always => true,
            When::Never => false,
            When::Auto => {
                terminal
                    && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
                    && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
            }
        };
        Self { on }
    }

    /// Whether colours are on; without them pictures use letters instead.
    pub(super) fn on(self) -> bool {
        self.on
    }

    /// Text in a style.
    pub(super) fn styled(self, style: Style, text: &str) -> String {
        if self.on { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    pub(super) fn bold(self, text: &str) -> String {
        self.styled(Style::new().bold(), text)
    }

    pub(super) fn dim(self, text: &str) -> String {
        self.styled(Style::new().dimmed(), text)
    }

    pub(super) fn good(self, text: &str) -> String {
        self.styled(AnsiColor::Green.on_default().bold(), text)
    }

    pub(super) fn bad(self, text: &str) -> String {
        self.styled(AnsiColor::Red.on_default().bold(), text)
    }
}

/// One stretch of the load line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stretch {
    System,
    Tools,
    Messages,
    Results,
    Margin,
    Output,
    Free,
}

impl Stretch {
    pub(super) const ALL: [Self; 7] = [Self::System, Self::Tools, Self::Messages, Self::Results, Self::Margin, Self::Output, Self::Free];

    /// The stretch that a part's tokens belong to.
    pub(super) fn of(kind: PartKind) -> Self {
        match kind {
            PartKind::System => Self::System,
            PartKind::ToolDefinition | PartKind::ResponseFormat => Self::Tools,
            PartKind::ToolResult => Self::Results,
            _ => Self::Messages,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Tools => "tools",
            Self::Messages => "messages",
            Self::Results => "results",
            Self::Margin => "margin",
            Self::Output => "output",
            Self::Free => "free",
        }
    }

    /// The cell to draw when colours are off: each stretch is told apart by its letter.
    pub(super) fn letter(self) -> char {
        match self {
            Self::System => 'S',
            Self::Tools => 'T',
            Self::Messages => 'M',
            Self::Results => 'R',
            Self::Margin => '!',
            Self::Output => 'o',
            Self::Free => '.',
        }
    }

    pub(super) fn style(self) -> Style {
        match self {
            Self::System => AnsiColor::Blue.on_default(),
            Self::Tools => AnsiColor::Magenta.on_default(),
            Self::Messages => AnsiColor::Cyan.on_default(),
            Self::Results => AnsiColor::Yellow.on_default(),
            Self::Margin => AnsiColor::Red.on_default(),
            Self::Output => AnsiColor::Green.on_default(),
            Self::Free => AnsiColor::BrightBlack.on_default(),
        }
    }
}
