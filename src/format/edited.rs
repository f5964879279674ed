//! An edited request of which only the edited messages are read anew.
//!
//! Made by compaction, which tries a few edits of one long history: the new text is spliced, messages that no edit touches are taken over
//! from the old view under their new places, and the whole is parsed only when somebody asks for its value. Edits that reach beyond
//! the message list take the plain way. The view equals the one that reading the new text would give (checked in debug builds).

use super::edit::{Edit, Spans, splice};
use super::read::nth;
use super::{Conversation, ItemBody, Message, Request, Unbounded};
use crate::error::{Error, Kind, Result};
use serde_json::Value;
use std::collections::BTreeMap;

/// A request with edits made, and how to view it.
pub(crate) struct Edited<'r> {
    request: Request,
    reused: Option<Reused<'r>>,
}

/// What the view takes from the request before the edits.
struct Reused<'r> {
    base: &'r Conversation<'r>,
    list: &'r str,
    messages: Vec<Listed<'r>>,
}

enum Listed<'r> {
    Old(&'r Message<'r>),
    New(Value),
}

/// What is to happen to one element of the list.
#[derive(Default)]
struct Change<'e> {
    inserts: Vec<&'e str>,
    remove: bool,
    set: Option<&'e str>,
    below: Vec<Edit>,
}

impl<'r> Edited<'r> {
    /// As [`Request::edited`]. `conversation` is the request's view, `spans` those of its message list if they are known.
    ///
    /// # Errors
    /// As [`Request::edited`].
    pub(crate) fn of(request: &Request, conversation: &'r Conversation<'r>, spans: Option<&'r Spans<'_>>, edits: &[Edit]) -> Result<Self> {
        let edited = match spans.map(|spans| Self::in_list(request, conversation, spans, edits)).transpose()?.flatten() {
            Some(edited) => edited,
            None => Self { request: request.edited(edits)?, reused: None },
        };
        // Of larger ones the proof would take longer than all else that a debug build does.
        #[cfg(debug_assertions)]
        if request.text().len() < 1 << 20 {
            edited.prove(request, edits)?;
        }
        Ok(edited)
    }

    /// The edited request.
    pub(crate) fn request(&self) -> &Request {
        &self.request
    }

    /// Which listed messages no edit touched; empty when that is not known.
    pub(crate) fn untouched(&self) -> Vec<bool> {
        let messages = self.reused.iter().flat_map(|reused| &reused.messages);
        messages.map(|listed| matches!(listed, Listed::Old(_))).collect()
    }

    /// The same, to keep.
    pub(crate) fn into_request(self) -> Request {
        self.request
    }

    /// Edits of listed messages alone; `None` where an edit is of something else, or the list is none.
    fn in_list(request: &Request, base: &'r Conversation<'r>, spans: &'r Spans<'_>, edits: &[Edit]) -> Result<Option<Self>> {
        let old: Vec<&Message<'_>> = base.messages.iter().filter(|m| m.listed).collect();
        if old.len() != spans.len() {
            return Ok(None);
        }
        let mut changes: BTreeMap<usize, Change<'_>> = BTreeMap::new();
        for edit in edits {
            let Some((index, below)) = spans.split(edit.place()) else { return Ok(None) };
            let appends = matches!(edit, Edit::Insert { .. }) && below.is_empty();
            if index >= old.len() + usize::from(appends) {
                return Ok(None);
            }
            let change = changes.entry(index).or_default();
            match edit {
                Edit::Insert { json, .. } if below.is_empty() => change.inserts.push(json),
                Edit::Remove { .. } if below.is_empty() => change.remove = true,
                Edit::Set { json, .. } if below.is_empty() => change.set = Some(json),
                edit => change.below.push(edit.at(below)),
            }
        }
        let broken = |e| Error::new(Kind::InvalidInput, "an edit puts something in that is not JSON").caused_by(e);
        let parse = |json: &str| serde_json::from_str::<Value>(json).map_err(broken);
        let (mut messages, mut whole) = (Vec::with_capacity(old.len()), Vec::new());
        let mut next = changes.iter().peekable();
        for index in 0..=old.len() {
            let change = next.next_if(|(at, _)| **at == index).map(|(_, change)| change);
            let place = || nth(spans.place(), index);
            for json in change.into_iter().flat_map(|change| &change.inserts) {
                messages.push(Listed::New(parse(json)?));
                whole.push(Edit::Insert { place: place(), json: (*json).to_owned() });
            }
            let Some(message) = old.get(index) else { break };
            match change {
                Some(change) if change.remove => whole.push(Edit::Remove { place: place() }),
                Some(change) if change.set.is_some() || !change.below.is_empty() => {
                    let json = match change.set {
                        Some(json) => json.to_owned(),
                        None => splice(spans.element(index).unwrap_or_default(), &change.below)?,
                    };
                    messages.push(Listed::New(parse(&json)?));
                    whole.push(Edit::Set { place: place(), json });
                }
                _ => messages.push(Listed::Old(message)),
            }
        }
        let request = Request::of_text(spans.splice(&whole)?, request.format());
        Ok(Some(Self { request, reused: Some(Reused { base, list: spans.place(), messages }) }))
    }

    /// The view of the edited request. Its `body` is still the old one, which differs in the message list alone.
    ///
    /// # Errors
    /// As [`Request::conversation`].
    pub(crate) fn view(&self) -> Result<Conversation<'_>> {
        let Some(Reused { base, list, messages }) = &self.reused else { return self.request.conversation() };
        let inside = |u: &&Unbounded| index_in(list, &u.place).is_some();
        let first = base.unbounded.iter().position(|u| inside(&u)).unwrap_or(base.unbounded.len());
        let mut of_message: BTreeMap<usize, Vec<&Unbounded>> = BTreeMap::new();
        for unbounded in base.unbounded.iter().filter(inside) {
            of_message.entry(index_in(list, &unbounded.place).unwrap_or_default()).or_default().push(unbounded);
        }
        let mut unbounded: Vec<Unbounded> = base.unbounded.iter().take(first).cloned().collect();
        let mut all: Vec<Message<'_>> = base.messages.iter().filter(|m| !m.listed).cloned().collect();
        all.reserve(messages.len());
        for (index, listed) in messages.iter().enumerate() {
            let place = nth(list, index);
            all.push(match listed {
                Listed::New(raw) => super::message(base.format, base.body, raw, (index, place), &mut unbounded)?,
                Listed::Old(message) => {
                    for old in of_message.get(&message.index).into_iter().flatten() {
                        unbounded.push(Unbounded { place: moved(&old.place, &message.place, &place), why: old.why });
                    }
                    moved_message(message, index, place)
                }
            });
        }
        unbounded.extend(base.unbounded.iter().skip(first).filter(|u| !inside(u)).cloned());
        Ok(Conversation {
            format: base.format,
            body: base.body,
            model: base.model,
            messages: all,
            tools: base.tools.clone(),
            tool_choice: base.tool_choice,
            response_format: base.response_format,
            options: base.options,
            unbounded,
        })
    }

    /// The slow way gives the same text and the same view.
    #[cfg(debug_assertions)]
    fn prove(&self, request: &Request, edits: &[Edit]) -> Result<()> {
        let whole = request.edited(edits)?;
        assert_eq!(self.request.text(), whole.text());
        let seen = |view: Result<Conversation<'_>>| {
            view.map(|view| format!("{:?}", (&view.messages, &view.tools, &view.unbounded, view.options, view.model)))
                .map_err(|e| e.to_string())
        };
        assert_eq!(seen(self.view()), seen(whole.conversation()));
        Ok(())
    }
}

/// The index of the list's element that a place is in.
fn index_in(list: &str, place: &str) -> Option<usize> {
    place.strip_prefix(list)?.strip_prefix('/')?.split('/').next()?.parse().ok()
}

/// A place in one message as the same place in another.
fn moved(place: &str, from: &str, to: &str) -> String {
    format!("{to}{}", place.strip_prefix(from).unwrap_or(place))
}

fn moved_message<'a>(message: &Message<'a>, index: usize, place: String) -> Message<'a> {
    let mut message = message.clone();
    if message.place == place {
        return message;
    }
    for item in &mut message.items {
        item.place = moved(&item.place, &message.place, &place);
        if let ItemBody::ToolResult(result) = &mut item.body {
            for piece in &mut result.content {
                piece.place = moved(&piece.place, &message.place, &place);
            }
        }
    }
    Message { index, place, ..message }
}
