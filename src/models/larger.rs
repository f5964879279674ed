//! Which models have more room than one that is too small.

use super::{Models, Profile};

impl Models {
    /// At most `most` ids of the same maker whose window and input cap take `need` tokens, the smallest first.
    #[expect(clippy::unused_self, reason = "the table arrives next")]
    pub(crate) fn larger(&self, profile: &Profile, need: u64, most: usize) -> Vec<String> {
        let _ = (profile, need, most);
        Vec::new()
    }
}
