//! Model profiles: what is known of each model, as dated data, never as code.

mod larger;
mod profile;
mod provider;
mod table;

pub use profile::Profile;
pub use provider::Provider;
pub use table::Models;
