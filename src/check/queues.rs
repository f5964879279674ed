//! Things that wait in order under a key, such as open calls by their id: the first or last of a key without a walk over all.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Indices by key, each key's in the order given. What is gone is skipped, and forgotten once met.
pub(crate) struct Queues<K>(HashMap<K, VecDeque<usize>>);

impl<K> Default for Queues<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Queues<K> {
    /// Puts an index at the end of its key's queue.
    pub(crate) fn push(&mut self, key: K, index: usize) {
        self.0.entry(key).or_default().push_back(index);
    }

    /// The first index of a key that is not gone.
    pub(crate) fn first(&mut self, key: &K, gone: impl Fn(usize) -> bool) -> Option<usize> {
        let queue = self.0.get_mut(key)?;
        while queue.front().is_some_and(|at| gone(*at)) {
            queue.pop_front();
        }
        queue.front().copied()
    }

    /// The last one.
    pub(crate) fn last(&mut self, key: &K, gone: impl Fn(usize) -> bool) -> Option<usize> {
        let queue = self.0.get_mut(key)?;
        while queue.back().is_some_and(|at| gone(*at)) {
            queue.pop_back();
        }
        queue.back().copied()
    }
}
