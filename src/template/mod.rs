//! Chat templates: text in, prompt out. Knows nothing of formats, models or tokens.
//!
//! [`ChatTemplate`] renders any published template in a sandbox; `meter` rewrites it before, so that nothing it does is free, by what `tokens`
//! reads of it and `weigh` charges; [`spans`] keeps track of whose text is where. Used by the counting of template families and by
//! whoever wants to see a prompt.

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
