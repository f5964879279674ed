//! Chat templates: text in, prompt out. Knows nothing of formats, models or tokens.
//!
//! [`ChatTemplate`] renders any published template in a sandbox; [`spans`] keeps track of whose text is where; [`json`] writes
//! JSON as Python does. Used by the counting of template families and by whoever wants to see a prompt.

#[cfg(feature = "templates")]
mod meter;
#[cfg(feature = "templates")]
mod sandbox;
pub(crate) mod spans;
#[cfg(feature = "templates")]
mod tokens;
#[cfg(feature = "templates")]
mod weigh;

#[cfg(feature = "templates")]
pub use sandbox::ChatTemplate;
