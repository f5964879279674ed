//! Which models have more room than one that is too small.
//!
//! Called by the budget for its remedies. Offers the same maker's current models only: another maker's model
//! would count the request differently, so its room can't be promised.

use super::{Models, Profile};

impl Models {
    /// At most `most` ids of the same maker whose window and input cap take `need` tokens, the smallest first.
    pub(crate) fn larger(&self, profile: &Profile, need: u64, most: usize) -> Vec<String> {
        let room = |p: &Profile| p.window.into_iter().chain(p.input_cap).min();
        let mut fitting: Vec<(u64, &str)> = self
            .list()
            .filter(|p| p.maker == profile.maker && p.id != profile.id && p.renderer != "generic" && !p.id.contains('/'))
            .filter(|p| p.notes.as_deref().is_none_or(|notes| !notes.starts_with("retired")))
            .filter_map(|p| room(p).filter(|room| *room >= need).map(|room| (room, p.id.as_str())))
            .collect();
        // Stable: models of one size stay in the list's order.
        fitting.sort_by_key(|(room, _)| *room);
        fitting.into_iter().take(most).map(|(_, id)| id.to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_what_fits_of_the_same_maker() {
        let models = Models::builtin();
        let small = models.find("gpt-4o", None).unwrap();
        let offered = models.larger(&small, 150_000, 3);
        assert_eq!(offered.len(), 3);
        for id in &offered {
            let profile = models.find(id, None).unwrap();
            assert_eq!(profile.maker, "openai");
            assert!(profile.window.unwrap() >= 150_000 && profile.input_cap.is_none_or(|cap| cap >= 150_000), "{id}");
        }
        assert!(models.larger(&small, u64::MAX, 3).is_empty());
    }
}
