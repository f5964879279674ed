//! Model profiles: what is known of each model, as dated data, never as code.
//!
//! [`Models`] finds a [`Profile`] by any spelling of a model's name; [`Provider`] says whose endpoint bills. The data
//! is in `data/`: families (tokenizer, renderer, image rule by name pattern), two lists of limits, names, hosts.

mod choice;
mod corrections;
mod family;
mod import;
mod larger;
mod name;
#[cfg(feature = "cli")]
mod overrides;
mod profile;
mod provider;
mod rows;
mod table;

pub use choice::Choice;
pub use corrections::{Correction, Corrections, LimitField};
pub use import::ImportReport;
pub use profile::Profile;
pub use provider::Provider;
pub use table::Models;
