//! Finds added tokens in a text: leftmost first, and the longest of those that begin there.
//!
//! Built at every load of a vocabulary, so it is nothing but the sorted texts: Gemma has 6,400, for which an automaton takes longer to
//! build than all the rest of its load. Called by `byte_level` for each text; reads it once, and looks up only where some token's first byte stands.
//!
//! A look-up halves the sorted texts and then goes up the chain of those that begin each other. Hostile files make both long: ten thousand
//! tokens `a`, `aa`, `aaa`, … are one chain. So a comparison leaves out what both neighbours have been seen to share with the text, and
//! the chain has shortcuts: a look-up costs some logarithms and the bytes that the text shares with a token, at most
//! [`crate::limits::MAX_ADDED_TOKEN_BYTES`]; only tokens that all begin alike and end otherwise have them compared at each halving. An automaton
//! would read as much: to find the longest it too reads on, and goes back where nothing longer came of it.

use super::byte_level::Added;

/// The texts of one vocabulary that are found in ordinary text.
pub(super) struct Finder {
    /// Ascending, each once and none empty.
    texts: Vec<Text>,
    /// By first byte: where those texts begin in `texts`; they end where the next byte's begin.
    from: [u32; 257],
    /// The first bytes.
    heads: Vec<u8>,
}

struct Text {
    said: Box<str>,
    id: u32,
    /// The longest other text that this one begins with.
    shorter: Option<u32>,
    /// One of those that it begins with, or itself at the end of the chain. Together with `shorter` any of the chain is reached in a
    /// logarithm of steps, as in Myers' random-access lists (1983).
    far: u32,
    /// How many it begins with.
    depth: u32,
}

/// A token in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) id: u32,
}

impl Finder {
    /// `None` where nothing is to be found. Of a text that is given twice the first id counts.
    pub(super) fn of(added: &[Added]) -> Option<Self> {
        let mut matched: Vec<&Added> = added.iter().filter(|added| added.matched && !added.text.is_empty()).collect();
        matched.sort_by(|a, b| a.text.cmp(&b.text));
        matched.dedup_by(|later, first| later.text == first.text);
        if matched.is_empty() {
            return None;
        }
        let mut texts: Vec<Text> = Vec::with_capacity(matched.len());
        let mut from = [0; 257];
        // Those that may begin the next text, each beginning with the one before it.
        let mut open: Vec<u32> = Vec::new();
        for (at, added) in (0_u32..).zip(matched) {
            let begins = |shorter: &u32| texts.get(*shorter as usize).is_some_and(|shorter| added.text.starts_with(&*shorter.said));
            while open.last().is_some_and(|shorter| !begins(shorter)) {
                open.pop();
            }
            let shorter = open.last().copied();
            let (far, depth) = link(&texts, shorter, at);
            texts.push(Text { said: added.text.as_str().into(), id: added.id, shorter, far, depth });
            open.push(at);
            if let Some(first) = added.text.bytes().next() {
                from[usize::from(first) + 1] = at + 1;
            }
        }
        // Bytes that begin none: nothing lies between their borders.
        for byte in 1..from.len() {
            from[byte] = from[byte].max(from[byte - 1]);
        }
        let heads = (0..=u8::MAX).filter(|byte| from[usize::from(*byte)] < from[usize::from(*byte) + 1]).collect();
        Some(Self { texts, from, heads })
    }

    /// All tokens in `text`, in order and apart.
    pub(super) fn find_in<'f>(&'f self, text: &'f str) -> impl Iterator<Item = Hit> + 'f {
        let bytes = text.as_bytes();
        let mut at = 0;
        std::iter::from_fn(move || {
            while let Some(ahead) = bytes.get(at..).and_then(|rest| self.head(rest)) {
                at += ahead;
                let head = usize::from(bytes[at]);
                if let Some(found) = self.longest(self.from[head] as usize..self.from[head + 1] as usize, &bytes[at..]) {
                    let hit = Hit { start: at, end: at + found.said.len(), id: found.id };
                    at = hit.end;
                    return Some(hit);
                }
                at += 1;
            }
            None
        })
    }

    /// Where the first byte is that some text begins with.
    fn head(&self, rest: &[u8]) -> Option<usize> {
        match self.heads.as_slice() {
            [one] => memchr::memchr(*one, rest),
            [one, two] => memchr::memchr2(*one, *two, rest),
            [one, two, three] => memchr::memchr3(*one, *two, *three, rest),
            _ => rest.iter().position(|byte| self.from[usize::from(*byte)] < self.from[usize::from(*byte) + 1]),
        }
    }

    /// The longest of some texts that `rest` begins with.
    fn longest(&self, among: std::ops::Range<usize>, rest: &[u8]) -> Option<&Text> {
        let texts = self.texts.get(among)?;
        // All before `low` are at most `rest` and all from `high` on are greater. What `rest` shares with the text before `low` and with
        // that at `high`, all between them share with it too.
        let (mut low, mut high, mut low_shares, mut high_shares) = (0, texts.len(), 0, 0);
        while low < high {
            let middle = low.midpoint(high);
            let said = texts.get(middle)?.said.as_bytes();
            let shares = shared(said, rest, low_shares.min(high_shares));
            // A text that `rest` begins with is not greater.
            if said.get(shares).is_none_or(|byte| rest.get(shares).is_some_and(|other| byte < other)) {
                (low, low_shares) = (middle + 1, shares);
            } else {
                (high, high_shares) = (middle, shares);
            }
        }
        // Whatever `rest` begins with is not greater, and the last that isn't begins with all the others that `rest` does: those of its
        // chain that are no longer than what they share.
        let mut found = texts.get(low.checked_sub(1)?)?;
        while found.said.len() > low_shares {
            let far = self.texts.get(found.far as usize)?;
            // Not so far that one is passed which fits.
            found = if far.said.len() > low_shares && far.depth < found.depth { far } else { self.texts.get(found.shorter? as usize)? };
        }
        Some(found)
    }
}

/// The shortcut and the depth of a text that begins with `shorter`: twice as far as the one below where that has two of a length in a row.
fn link(texts: &[Text], shorter: Option<u32>, at: u32) -> (u32, u32) {
    let text = |at: u32| texts.get(at as usize);
    let Some(below) = shorter.and_then(text) else { return (at, 0) };
    let far = text(below.far).zip(text(below.far).and_then(|far| text(far.far)));
    let twice = far.filter(|(far, farther)| below.depth - far.depth == far.depth - farther.depth && far.depth < below.depth);
    (twice.map_or(shorter.unwrap_or(at), |(far, _)| far.far), below.depth + 1)
}

/// How many bytes two texts share at their beginning, of which `known` have been compared before.
fn shared(a: &[u8], b: &[u8], known: usize) -> usize {
    const BLOCK: usize = 32;
    let (a, b) = (a.get(known..).unwrap_or_default(), b.get(known..).unwrap_or_default());
    let blocks = a.as_chunks::<BLOCK>().0.iter().zip(b.as_chunks::<BLOCK>().0).take_while(|(a, b)| a == b).count() * BLOCK;
    let rest = a.iter().zip(b).skip(blocks).take_while(|(a, b)| a == b).count();
    known + blocks + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn added(texts: &[String]) -> Vec<Added> {
        texts.iter().zip(0..).map(|(text, id)| Added { text: text.clone(), id, matched: true }).collect()
    }

    /// The slow way: at each place the longest text that fits, by looking at all.
    fn slowly(texts: &[String], text: &str) -> Vec<Hit> {
        let (mut at, mut hits) = (0, Vec::new());
        while at < text.len() {
            let rest = &text.as_bytes()[at..];
            let fits = texts.iter().zip(0_u32..).filter(|(one, _)| !one.is_empty() && rest.starts_with(one.as_bytes()));
            // The first of equals, as the ids go up.
            match fits.max_by_key(|(one, id)| (one.len(), std::cmp::Reverse(*id))) {
                Some((one, id)) => {
                    hits.push(Hit { start: at, end: at + one.len(), id });
                    at += one.len();
                }
                None => at += 1,
            }
        }
        hits
    }

    #[test]
    fn nothing_to_find() {
        assert!(Finder::of(&[]).is_none());
        assert!(Finder::of(&added(&[String::new()])).is_none());
        assert!(Finder::of(&[Added { text: "x".to_owned(), id: 1, matched: false }]).is_none());
    }

    proptest! {
        #[test]
        fn finds_what_a_slow_search_finds(
            texts in proptest::collection::vec("[ab<é▁]{0,4}", 0..12),
            text in "[abc<>é▁ê]{0,40}",
        ) {
            let found: Vec<Hit> = Finder::of(&added(&texts)).iter().flat_map(|finder| finder.find_in(&text)).collect();
            prop_assert_eq!(found, slowly(&texts, &text));
        }

        /// Long chains, of which some lengths are missing, with branches.
        #[test]
        fn finds_in_chains_what_a_slow_search_finds(
            lengths in proptest::collection::vec((1_usize..150, "[bc]?"), 1..80),
            runs in proptest::collection::vec((0_usize..200, "[bcd]?"), 0..12),
        ) {
            let written = |runs: &[(usize, String)]| runs.iter().map(|(run, end)| "a".repeat(*run) + end).collect::<Vec<_>>();
            let (texts, text) = (written(&lengths), written(&runs).concat());
            let found: Vec<Hit> = Finder::of(&added(&texts)).iter().flat_map(|finder| finder.find_in(&text)).collect();
            prop_assert_eq!(found, slowly(&texts, &text));
        }
    }
}
