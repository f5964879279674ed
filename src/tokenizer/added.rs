//! Finds added tokens in a text: leftmost first, and the longest of those that begin there.
//!
//! Built at every load of a vocabulary, so it is nothing but the sorted texts: Gemma has 6,400, for which an automaton takes longer to
//! build than all the rest of its load. Called by `byte_level` for each text; reads it once, and looks up only where some token's first byte stands.

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
            texts.push(Text { said: added.text.as_str().into(), id: added.id, shorter: open.last().copied() });
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
        let texts = self.texts.get(among.clone())?;
        // Whatever `rest` begins with does not stand behind it, and the last that doesn't begins with all the others that `rest` does.
        let before = texts.partition_point(|text| text.said.as_bytes() <= rest).checked_sub(1)?;
        let mut found = texts.get(before)?;
        while !rest.starts_with(found.said.as_bytes()) {
            found = self.texts.get(found.shorter? as usize)?;
        }
        Some(found)
    }
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
    }
}
