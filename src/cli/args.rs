//! Arguments that several subcommands share: which body, which model, whose endpoint, which limits.

use super::input;
use crate::count::{CountOptions, Counter, Day};
use crate::error::{Error, Kind, Result};
use crate::format::{Conversation, Format};
use crate::models::{Choice, Models, Profile, Provider};
use clap::Args;
use std::path::PathBuf;
use std::sync::Arc;

/// The body to read.
#[derive(Args, Debug)]
pub(super) struct BodyArgs {
    /// Request body (JSON); `-` reads standard input.
    #[arg(default_value = "-", value_name = "FILE")]
    pub(super) file: PathBuf,
    /// Wire format of the body: auto, chat, responses, anthropic, gemini, converse or mcp.
    #[arg(short, long, default_value = "auto", value_parser = format_or_auto)]
    pub(super) format: FormatChoice,
}

/// A format, or `auto`.
#[derive(Clone, Copy, Debug)]
pub(super) struct FormatChoice(pub(super) Option<Format>);

fn format_or_auto(name: &str) -> std::result::Result<FormatChoice, String> {
    if name == "auto" {
        return Ok(FormatChoice(None));
    }
    name.parse().map(|format| FormatChoice(Some(format))).map_err(|e: Error| format!("{e}, or auto"))
}

/// The model and the endpoint.
#[derive(Args, Debug)]
pub(super) struct ModelArgs {
    /// Model, in any usual spelling (dated, with a provider's prefix); without it the one that the body names.
    #[arg(short, long, env = "PLIMSOLL_MODEL")]
    pub(super) model: Option<String>,
    /// Whose endpoint bills the request: a name (openai, azure, vertex, openrouter …) or a host name.
    #[arg(short, long, env = "PLIMSOLL_PROVIDER")]
    pub(super) provider: Option<String>,
    /// Context window in tokens, for a model that the table doesn't know (or to override it).
    #[arg(long, value_name = "TOKENS")]
    pub(super) window: Option<u64>,
    /// Cap on output in tokens, likewise.
    #[arg(long, value_name = "TOKENS")]
    pub(super) output_cap: Option<u64>,
    /// Count as on this day (YYYY-MM-DD): a name such as deepseek-chat meant other snapshots in the past.
    #[arg(long, value_name = "DAY")]
    pub(super) as_of: Option<Day>,
    /// For an unknown model, use the nearest known family instead of failing.
    #[arg(long)]
    pub(super) nearest: bool,
    #[command(flatten)]
    pub(super) table: TableArgs,
}

/// Where models come from beside the built-in table.
#[derive(Args, Debug)]
pub(super) struct TableArgs {
    /// Your own model table (TOML): wins over the built-in one and over imports.
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_MODELS")]
    pub(super) models: Option<PathBuf>,
}

impl TableArgs {
    /// The built-in table with the user's import and overrides.
    pub(super) fn load(&self) -> Result<Arc<Models>> {
        let mut models = Models::builtin();
        if let Some(imported) = super::models::imported()? {
            Arc::make_mut(&mut models).merge_text(&imported)?;
        }
        if let Some(path) = &self.models {
            let bytes = input::bytes(path)?;
            let text = std::str::from_utf8(&bytes).map_err(|e| {
                Error::new(Kind::InvalidInput, format!("{} is not UTF-8", input::shown(path))).at_offset(e.valid_up_to() as u64)
            })?;
            Arc::make_mut(&mut models).override_toml(text).map_err(|e| e.context(format!("reading {}", input::shown(path))))?;
        }
        Ok(models)
    }
}

impl ModelArgs {
    /// A counter over the table.
    pub(super) fn counter(&self) -> Result<Counter> {
        Ok(Counter::with_models(self.table.load()?))
    }

    /// The provider hint.
    pub(super) fn provider(&self) -> Result<Option<Provider>> {
        self.provider.as_deref().map(str::parse).transpose()
    }

    /// Options for one body: the model found, or made from the limits given.
    pub(super) fn options(&self, counter: &Counter, conversation: &Conversation<'_>) -> Result<CountOptions> {
        self.options_for(counter, conversation, None, self.provider()?)
    }

    /// The same for a body that comes with a model name and provider of its own; the flag's name is the fallback.
    pub(super) fn options_for(
        &self,
        counter: &Counter,
        conversation: &Conversation<'_>,
        model: Option<&str>,
        provider: Option<Provider>,
    ) -> Result<CountOptions> {
        let name = model.or(self.model.as_deref()).or(conversation.model);
        let profile = match name {
            Some(name) => Some(self.profile(counter, name, provider.as_ref())?),
            None => None,
        };
        Ok(CountOptions { provider, profile, as_of: self.as_of, ..CountOptions::default() })
    }

    fn profile(&self, counter: &Counter, name: &str, provider: Option<&Provider>) -> Result<Arc<Profile>> {
        let choice = Choice { nearest: self.nearest, window: self.window, output_cap: self.output_cap };
        counter.choose(name, provider, &choice)
    }
}
