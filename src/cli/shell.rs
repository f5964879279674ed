//! `plimsoll completions` and `plimsoll man`: files for shells and manual readers, made from the arguments themselves.

use super::output::{Output, Status};
use crate::error::{Error, Kind, Result};
use clap::Args;

/// Arguments of `completions`.
#[derive(Args, Debug)]
pub(super) struct CompletionsArgs {
    /// The shell to complete for.
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

pub(super) fn completions(args: &CompletionsArgs, command: &mut clap::Command, output: &mut Output) -> Result<Status> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "plimsoll", &mut script);
    output.bytes(&script)?;
    Ok(Status::Done)
}

pub(super) fn man(command: clap::Command, output: &mut Output) -> Result<Status> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command)
        .render(&mut page)
        .map_err(|e| Error::new(Kind::Internal, "the manual page can't be made").caused_by(e))?;
    output.bytes(&page)?;
    Ok(Status::Done)
}
