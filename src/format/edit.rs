//! Edits as splices into the original text: what is not edited survives byte for byte, numbers included.
//!
//! Used by repair and compaction. Values are only read; text is what is written, because a parsed number may
//! not print as it came. A container that loses or gains members keeps the bytes (blanks too) of those that stay.
//! Guards invariant 5: no edits, same text.

use super::{Format, Place, Request};
use crate::error::{Error, Kind, Result};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Write as _;

/// One change of a body. Places are those of the *original* body, whatever else is edited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Puts JSON text in place of a value; a last key that its object lacks is added at the end.
    Set {
        /// Where.
        place: Place,
        /// JSON text.
        json: String,
    },
    /// Takes a member of an array or object away.
    Remove {
        /// Which.
        place: Place,
    },
    /// Puts JSON text before the array element at `place`; the array's length as index appends.
    /// Several at one place stand in the order given.
    Insert {
        /// Before which element.
        place: Place,
        /// JSON text.
        json: String,
    },
}

impl Edit {
    /// A [`Edit::Set`] that writes a string.
    pub fn set_text(place: impl Into<Place>, text: &str) -> Self {
        Self::Set { place: place.into(), json: quote(text) }
    }

    /// The same edit of another place.
    pub(super) fn at(&self, place: &str) -> Self {
        let place = place.to_owned();
        match self {
            Self::Set { json, .. } => Self::Set { place, json: json.clone() },
            Self::Remove { .. } => Self::Remove { place },
            Self::Insert { json, .. } => Self::Insert { place, json: json.clone() },
        }
    }

    /// The place that it names.
    pub fn place(&self) -> &str {
        match self {
            Self::Set { place, .. } | Self::Remove { place } | Self::Insert { place, .. } => place,
        }
    }
}

impl Request {
    /// The request with edits spliced into its text. An edit inside a value that another edit replaces or
    /// removes is lost with it. Costs a few scans of the text and one parse.
    ///
    /// # Errors
    /// [`Kind::InvalidInput`] when a place does not exist or the replacement is not JSON.
    pub fn edited(&self, edits: &[Edit]) -> Result<Self> {
        if edits.is_empty() {
            return Ok(self.clone());
        }
        Self::parse(splice(self.text(), edits)?.as_bytes(), self.format())
    }

    /// The bytes of the value at `place`, exactly as they came.
    ///
    /// # Errors
    /// [`Kind::InvalidInput`] when there is no such place.
    pub fn raw(&self, place: &str) -> Result<&str> {
        slice(self.text(), place)
    }

    /// A request of the same text under another format's name: for bodies that travel in envelopes.
    ///
    /// # Errors
    /// As [`Request::parse`].
    pub fn reread(&self, format: Format) -> Result<Self> {
        Self::parse(self.text().as_bytes(), format)
    }
}

/// JSON text of a string.
pub(crate) fn quote(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// Where the quote stands that ends the JSON string whose bytes after the opening quote these are. Looks at quotes alone, and at the
/// backslashes before each: most escapes are line breaks, which need no stop.
pub(crate) fn closing_quote(bytes: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'"', bytes).find(|at| bytes[..*at].iter().rev().take_while(|b| **b == b'\\').count() % 2 == 0)
}

/// The text with all edits made.
pub(crate) fn splice(text: &str, edits: &[Edit]) -> Result<String> {
    write_edited(&Scan::new(text), edits)
}

fn write_edited(scan: &Scan<'_, '_>, edits: &[Edit]) -> Result<String> {
    let mut root = Node::default();
    for edit in edits {
        let mut node = &mut root;
        for key in keys(edit.place()) {
            node = node.children.entry(key).or_default();
        }
        match edit {
            Edit::Set { json, .. } => node.set = Some(json),
            Edit::Remove { .. } => node.remove = true,
            Edit::Insert { json, .. } => node.inserts.push(json),
        }
    }
    if root.remove {
        return Err(Error::invalid("", "the whole body can't be removed"));
    }
    let mut out = String::with_capacity(scan.text.len());
    let start = scan.blanks(0);
    out.push_str(scan.cut(0, start)?);
    let end = scan.write(start, None, &root, "", &mut out)?;
    out.push_str(scan.cut(end, scan.text.len())?);
    Ok(out)
}

/// Where the elements of one array of a body stand. Costs one scan of the text; edits and look-ups below the array then cost what
/// they touch and a copy of the rest.
pub(crate) struct Spans<'t> {
    text: &'t str,
    place: Place,
    at: usize,
    members: Members<'t>,
    /// Those of the array inside an element that was asked for last, by the element's index.
    inner: RefCell<Option<(usize, Box<Self>)>>,
}

impl<'t> Spans<'t> {
    /// The spans of the array at a place.
    pub(crate) fn of(text: &'t str, place: &str) -> Result<Self> {
        let scan = Scan::new(text);
        let keys: Vec<Cow<'_, str>> = keys(place).collect();
        let (found, _) = scan.locate(scan.blanks(0), &keys)?;
        let (at, members) = found.filter(|(at, _)| scan.byte(*at) == b'[').ok_or_else(|| missing(place))?;
        Ok(Self { text, place: place.to_owned(), at, members, inner: RefCell::default() })
    }

    /// Where the array stands.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// How many elements it has.
    pub(crate) fn len(&self) -> usize {
        self.members.items.len()
    }

    /// The bytes of an element.
    pub(crate) fn element(&self, index: usize) -> Option<&'t str> {
        let (from, to) = self.members.items.get(index)?.value;
        self.text.get(from..to)
    }

    /// As [`slice`]. Asking for all elements of an array inside an element, in order, costs one scan of it too.
    pub(crate) fn slice(&self, place: &str) -> Result<&'t str> {
        let Some((index, below)) = self.split(place) else { return slice(self.text, place) };
        let element = self.element(index).ok_or_else(|| missing(place))?;
        if below.is_empty() {
            return Ok(element);
        }
        // The array nearest to the element: up to the first key that is an index.
        let borders = below.match_indices('/').map(|(at, _)| at).skip(1);
        let list = borders.map(|at| below.split_at(at)).find(|(_, rest)| rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit));
        if let Some((list, _)) = list {
            let mut inner = self.inner.borrow_mut();
            if inner.as_ref().is_none_or(|(at, spans)| *at != index || spans.place != list) {
                *inner = Self::of(element, list).ok().map(|spans| (index, Box::new(spans)));
            }
            if let Some((_, spans)) = &*inner {
                return spans.slice(below).map_err(|_| missing(place));
            }
        }
        slice(element, below).map_err(|_| missing(place))
    }

    /// The index of the element that a place is in, and the place inside it; `None` for places elsewhere.
    pub(crate) fn split<'p>(&self, place: &'p str) -> Option<(usize, &'p str)> {
        let rest = place.strip_prefix(&self.place)?.strip_prefix('/')?;
        let (index, below) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        Some((index.parse().ok()?, below))
    }

    /// As [`splice`].
    pub(crate) fn splice(&self, edits: &[Edit]) -> Result<String> {
        write_edited(&Scan { text: self.text, known: Some(self) }, edits)
    }
}

/// The bytes of the value at a JSON Pointer.
pub(crate) fn slice<'t>(text: &'t str, place: &str) -> Result<&'t str> {
    let scan = Scan::new(text);
    let start = scan.blanks(0);
    let mut value = None;
    for key in keys(place) {
        let members = scan.members(value.map_or(start, |(at, _)| at))?;
        let found = members.items.iter().enumerate().rev().find(|(i, m)| m.named(*i, &key)).map(|(_, m)| m.value);
        value = Some(found.ok_or_else(|| missing(place))?);
    }
    let (from, to) = value.map_or_else(|| scan.skip(start).map(|end| (start, end)), Ok)?;
    scan.cut(from, to)
}

/// What is to happen at one place and below it.
#[derive(Default)]
struct Node<'e> {
    set: Option<&'e str>,
    remove: bool,
    inserts: Vec<&'e str>,
    children: HashMap<Cow<'e, str>, Node<'e>>,
}

impl Node<'_> {
    fn is_empty(&self) -> bool {
        self.set.is_none() && !self.remove && self.children.is_empty()
    }
}

/// The unescaped keys of a JSON Pointer.
fn keys(place: &str) -> impl Iterator<Item = Cow<'_, str>> {
    place
        .split('/')
        .skip(1)
        .map(|key| if key.contains('~') { Cow::Owned(key.replace("~1", "/").replace("~0", "~")) } else { Cow::Borrowed(key) })
}

fn missing(place: &str) -> Error {
    Error::invalid(place, "there is no such place in the body")
}

fn broken() -> Error {
    Error::new(Kind::InvalidInput, "the text to edit is not valid JSON")
}

/// A reader of text that is known to be JSON; on anything else it errs instead of panicking.
struct Scan<'t, 'k> {
    text: &'t str,
    /// An array that was scanned already.
    known: Option<&'k Spans<'t>>,
}

/// A member of a container: its chunk (between brackets and commas), its key if any, its value.
struct Member<'t> {
    chunk: (usize, usize),
    key: Option<Cow<'t, str>>,
    value: (usize, usize),
}

impl Member<'_> {
    fn named(&self, index: usize, key: &str) -> bool {
        match &self.key {
            Some(own) => own == key,
            None => key.parse() == Ok(index),
        }
    }
}

struct Members<'t> {
    object: bool,
    items: Vec<Member<'t>>,
    end: usize,
}

impl<'t> Scan<'t, '_> {
    fn new(text: &'t str) -> Self {
        Self { text, known: None }
    }

    fn byte(&self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or(0)
    }

    fn cut(&self, from: usize, to: usize) -> Result<&'t str> {
        self.text.get(from..to).ok_or_else(broken)
    }

    fn blanks(&self, mut at: usize) -> usize {
        while matches!(self.byte(at), b' ' | b'\t' | b'\n' | b'\r') {
            at += 1;
        }
        at
    }

    /// End of the string that starts at `at`.
    fn string(&self, at: usize) -> Result<usize> {
        let rest = self.text.as_bytes().get(at + 1..).ok_or_else(broken)?;
        closing_quote(rest).map(|found| at + found + 2).ok_or_else(broken)
    }

    /// End of the value that starts at `at`.
    fn skip(&self, at: usize) -> Result<usize> {
        if let Some(known) = self.known.filter(|known| known.at == at) {
            return Ok(known.members.end);
        }
        let (mut at, mut depth) = (at, 0_usize);
        loop {
            match self.byte(at) {
                b'"' => at = self.string(at)?,
                b'{' | b'[' => {
                    depth += 1;
                    at += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1).ok_or_else(broken)?;
                    at += 1;
                }
                0 => return Err(broken()),
                b' ' | b'\t' | b'\n' | b'\r' | b',' | b':' => at += 1,
                _ => {
                    while !matches!(self.byte(at), b' ' | b'\t' | b'\n' | b'\r' | b',' | b':' | b']' | b'}' | b'"' | 0) {
                        at += 1;
                    }
                }
            }
            if depth == 0 {
                return Ok(at);
            }
        }
    }

    /// The members of the container that starts at `at`.
    fn members(&self, at: usize) -> Result<Members<'t>> {
        self.walk(at, |_, _, value| self.skip(value))
    }

    /// The container that the keys lead to from the value at `at`, if there is one, with where it starts; and the end of that value.
    fn locate(&self, at: usize, keys: &[Cow<'_, str>]) -> Result<(Option<(usize, Members<'t>)>, usize)> {
        let Some((first, rest)) = keys.split_first() else {
            let members = self.members(at)?;
            let end = members.end;
            return Ok((Some((at, members)), end));
        };
        let mut found = None;
        let members = self.walk(at, |index, key, value| {
            if key.map_or_else(|| first.parse() == Ok(index), |key| key == first) {
                let (inner, end) = self.locate(value, rest)?;
                // Of a key given twice the last one is the one that counts.
                found = inner;
                return Ok(end);
            }
            self.skip(value)
        })?;
        Ok((found, members.end))
    }

    /// The members of the container that starts at `at`; `value` finds the end of each value by its index, key and start.
    fn walk(&self, at: usize, mut value: impl FnMut(usize, Option<&Cow<'t, str>>, usize) -> Result<usize>) -> Result<Members<'t>> {
        let object = match self.byte(at) {
            b'{' => true,
            b'[' => false,
            _ => return Ok(Members { object: false, items: Vec::new(), end: self.skip(at)? }),
        };
        let close = if object { b'}' } else { b']' };
        let mut items = Vec::new();
        let mut chunk = at + 1;
        if self.byte(self.blanks(chunk)) == close {
            return Ok(Members { object, items, end: self.blanks(chunk) + 1 });
        }
        loop {
            let mut start = self.blanks(chunk);
            let key = if object {
                let end = self.string(start)?;
                let raw = self.cut(start, end)?;
                let key = if raw.contains('\\') {
                    Cow::Owned(serde_json::from_str(raw).map_err(|_| broken())?)
                } else {
                    Cow::Borrowed(raw.trim_matches('"'))
                };
                start = self.blanks(self.blanks(end) + 1);
                Some(key)
            } else {
                None
            };
            let end = value(items.len(), key.as_ref(), start)?;
            let stop = self.blanks(end);
            items.push(Member { chunk: (chunk, stop), key, value: (start, end) });
            match self.byte(stop) {
                b',' => chunk = stop + 1,
                b if b == close => return Ok(Members { object, items, end: stop + 1 }),
                _ => return Err(broken()),
            }
        }
    }

    /// Writes the value at `at` as `node` wants it; gives its end in the old text, which the caller may know.
    fn write(&self, at: usize, end: Option<usize>, node: &Node<'_>, place: &str, out: &mut String) -> Result<usize> {
        let end = || end.map_or_else(|| self.skip(at), Ok);
        if let Some(json) = node.set {
            out.push_str(json);
            return end();
        }
        if node.children.is_empty() {
            let end = end()?;
            out.push_str(self.cut(at, end)?);
            return Ok(end);
        }
        let scanned;
        let members = if let Some(known) = self.known.filter(|known| known.at == at) {
            &known.members
        } else {
            scanned = self.members(at)?;
            &scanned
        };
        let mut seen = 0;
        let mut kept = 0_usize;
        let comma = |out: &mut String, kept: &mut usize| {
            if *kept > 0 {
                out.push(',');
            }
            *kept += 1;
        };
        out.push(char::from(self.byte(at)));
        if members.items.is_empty() && !matches!(self.byte(at), b'{' | b'[') {
            return Err(missing(place));
        }
        let mut number = String::new();
        for (index, member) in members.items.iter().enumerate() {
            let key = if let Some(key) = &member.key {
                key
            } else {
                number.clear();
                let _ = write!(number, "{index}");
                number.as_str()
            };
            // Of a key given twice the last one is the one that counts.
            let last = |_: &&Node<'_>| !members.object || !members.items[index + 1..].iter().any(|m| m.key == member.key);
            let below = node.children.get(key).filter(last);
            if let Some(below) = below {
                seen += 1;
                for json in &below.inserts {
                    comma(out, &mut kept);
                    out.push_str(json);
                }
                if below.remove {
                    continue;
                }
            }
            comma(out, &mut kept);
            match below.filter(|b| !b.is_empty()) {
                Some(below) => {
                    out.push_str(self.cut(member.chunk.0, member.value.0)?);
                    let end = self.write(member.value.0, Some(member.value.1), below, &super::read::join(place, key), out)?;
                    out.push_str(self.cut(end, member.chunk.1)?);
                }
                None => out.push_str(self.cut(member.chunk.0, member.chunk.1)?),
            }
        }
        seen += Self::write_new(members, node, &mut kept, out);
        if seen < node.children.len() {
            return Err(missing(place));
        }
        out.push(if members.object { '}' } else { ']' });
        Ok(members.end)
    }

    /// Adds what stands past the last member: new keys of an object, elements appended to an array.
    fn write_new(members: &Members<'_>, node: &Node<'_>, kept: &mut usize, out: &mut String) -> usize {
        let mut new: Vec<(&Cow<'_, str>, &Node<'_>)> = node
            .children
            .iter()
            .filter(|(key, below)| {
                if members.object {
                    below.set.is_some() && !members.items.iter().any(|m| m.key.as_ref() == Some(*key))
                } else {
                    key.parse() == Ok(members.items.len()) && !below.inserts.is_empty() && below.is_empty()
                }
            })
            .collect();
        new.sort_by_key(|(key, _)| *key);
        for (key, below) in &new {
            for json in below.set.iter().chain(&below.inserts) {
                if *kept > 0 {
                    out.push(',');
                }
                *kept += 1;
                if members.object {
                    out.push_str(&quote(key));
                    out.push(':');
                }
                out.push_str(json);
            }
        }
        new.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "{ \"a\" : [ 1 , 2.50 ,{\"x\":\"\\\"]\"} ],\n \"big\": 123456789012345678901234567890, \"b\\u0061\":{} }";

    fn set(place: &str, json: &str) -> Edit {
        Edit::Set { place: place.into(), json: json.into() }
    }

    #[test]
    fn no_edit_changes_nothing_and_the_rest_keeps_its_bytes() {
        assert_eq!(splice(BODY, &[]).unwrap(), BODY);
        let out = splice(BODY, &[set("/a/1", "7")]).unwrap();
        assert_eq!(out, BODY.replace("2.50", "7"));
        assert_eq!(slice(BODY, "/big").unwrap(), "123456789012345678901234567890");
        assert_eq!(slice(BODY, "/a/2").unwrap(), "{\"x\":\"\\\"]\"}");
    }

    #[test]
    fn spans_edit_and_find_as_scans_of_the_whole_do() {
        let deep = "{\"a\":[{\"l\":[ 5,{\"m\":[6, 7 ]}],\"o\":{\"0\":1}}]}";
        let twice = "{\"a\":[7],\"a\": [ {\"x\":1} ,2 ], \"b\":{\"a\":[0]}}";
        for (text, list) in [(BODY, "/a"), (twice, "/a"), (twice, "/b/a"), ("[1,[2 , 3]]", "/1"), ("[ ]", ""), (deep, "/a")] {
            let spans = Spans::of(text, list).unwrap();
            for edits in [
                vec![set(&format!("{list}/0"), "9")],
                vec![set(&format!("{list}/0/x"), "9"), Edit::Insert { place: format!("{list}/1"), json: "8".into() }],
                vec![Edit::Remove { place: format!("{list}/0") }, set("/new", "1")],
                vec![Edit::Insert { place: format!("{list}/{}", spans.len()), json: "8".into() }],
            ] {
                assert_eq!(spans.splice(&edits).ok(), splice(text, &edits).ok(), "{text} {edits:?}");
            }
            for place in ["/0", "/1", "/9", "/0/x", "/2/x", "", "/b", "/0/l/0", "/0/l/1/m/0", "/0/l/1/m/1", "/0/l/7", "/0/o/0", "/0/l"] {
                for place in [format!("{list}{place}"), place.to_owned()] {
                    assert_eq!(spans.slice(&place).ok(), slice(text, &place).ok(), "{text} {place}");
                }
            }
        }
        for (text, list) in [(BODY, "/big"), (BODY, "/z"), (twice, "/b"), ("{", "/a"), ("[1", "")] {
            assert!(Spans::of(text, list).is_err());
        }
    }

    #[test]
    fn members_go_and_come() {
        let remove = |p: &str| Edit::Remove { place: p.into() };
        let insert = |p: &str, j: &str| Edit::Insert { place: p.into(), json: j.into() };
        assert_eq!(splice("[1, 2,3]", &[remove("/1")]).unwrap(), "[1,3]");
        assert_eq!(splice("[1]", &[remove("/0")]).unwrap(), "[]");
        assert_eq!(splice("[1,2]", &[remove("/0"), insert("/0", "8"), insert("/0", "9")]).unwrap(), "[8,9,2]");
        assert_eq!(splice("[]", &[insert("/0", "8")]).unwrap(), "[8]");
        assert_eq!(splice("[1]", &[insert("/1", "8")]).unwrap(), "[1,8]");
        assert_eq!(splice("{\"a\":1}", &[set("/b~1c", "2"), remove("/a")]).unwrap(), "{\"b/c\":2}");
        assert_eq!(splice("{\"a\":1,\"a\":2}", &[set("/a", "3")]).unwrap(), "{\"a\":1,\"a\":3}");
        assert_eq!(splice(BODY, &[set("/ba/q", "1")]).unwrap(), BODY.replace("{}", "{\"q\":1}"));
    }

    #[test]
    fn unknown_places_and_broken_text_are_errors() {
        for place in ["/z/1", "/a/9", "/a/0/x", "/big/1"] {
            assert!(splice(BODY, &[set(place, "1")]).is_err(), "{place}");
        }
        for text in ["{\"a\":[1,", "{\"a\"", "[\"", "{"] {
            assert!(splice(text, &[set("/a/0", "1")]).is_err());
            assert!(slice(text, "/a/0").is_err());
        }
    }
}
