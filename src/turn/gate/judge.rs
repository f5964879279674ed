//! The judgement of one turn: each call against everything that may stand against it, the gravest first.
//!
//! Called through [`Gate::judge`]. Pure but for the gate's own memory of what it let through.

use super::Gate;
use super::audit::AuditRecord;
use super::policy::{Risk, Verdict, Why};
use super::schema::Schema;
use crate::error::Error;
use crate::format::{Format, kind_of};
use crate::turn::answer::{Call, CallKind, Choice, Turn};
use crate::turn::fault::FaultKind;
use crate::turn::finish::{Action, Reason};
use crate::turn::reply::{self, Outcome};
use rustc_hash::FxHashSet;
use serde_json::{Value, json};
use twox_hash::XxHash3_64;

/// One call with its verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedCall {
    /// The call.
    pub call: Call,
    /// The index of its choice, as the provider numbers it.
    pub choice: u64,
    /// The parsed arguments, when they are a JSON object.
    pub arguments: Option<Value>,
    /// What may be done with it.
    pub verdict: Verdict,
    /// Why.
    pub why: Why,
    /// The same for a person (or the model): places and rules, no values.
    pub detail: String,
    /// The host's label.
    pub risk: Risk,
    /// Same call as one let through before (the verdict says what follows from it).
    pub repeat: bool,
}

/// The judgement of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// Every call of every choice, in order.
    pub calls: Vec<JudgedCall>,
    /// What to do with the turn as a whole.
    pub action: Action,
    /// The position (in [`Turn::choices`]) of the only choice whose calls may be run.
    pub choice: usize,
    /// There are more choices: their calls are refused, and only one message may go into the history.
    pub other_choices: bool,
    /// One record for each call.
    pub audit: Vec<AuditRecord>,
}

impl Judgement {
    /// The messages to send back for the refused calls, in the format's shape. Send them together with the results of the
    /// others: see [`reply::messages`], which takes both at once.
    pub fn refusals(&self, format: Format) -> Vec<Value> {
        reply::messages(format, &self.refused_outcomes())
    }

    /// The refused calls of the used choice as outcomes, for [`reply::messages`].
    pub fn refused_outcomes(&self) -> Vec<Outcome> {
        let used = self.calls.iter().filter(|judged| judged.verdict == Verdict::Refuse && judged.why != Why::OtherChoice);
        used.map(|judged| Outcome::error(&judged.call, refusal_text(judged))).collect()
    }

    /// The calls that may be run.
    pub fn runnable(&self) -> impl Iterator<Item = &JudgedCall> {
        self.calls.iter().filter(|judged| judged.verdict == Verdict::Run)
    }

    /// The judgement as JSON, in the shape of the command line's contract.
    pub fn to_json(&self) -> Value {
        json!({
            "action": self.action.as_str(),
            "choice": self.choice,
            "other_choices": self.other_choices,
            "calls": self.calls.iter().map(JudgedCall::to_json).collect::<Vec<_>>(),
            "audit": self.audit.iter().map(AuditRecord::to_json).collect::<Vec<_>>(),
        })
    }
}

impl JudgedCall {
    /// The call with its verdict as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "id": self.call.id,
            "name": self.call.name,
            "arguments": self.call.arguments,
            "choice": self.choice,
            "verdict": self.verdict.as_str(),
            "why": self.why.as_str(),
            "detail": self.detail,
            "risk": self.risk.as_str(),
            "repeat": self.repeat,
        })
    }
}

/// What the model is told of a refused call.
fn refusal_text(judged: &JudgedCall) -> String {
    let advice = match judged.why {
        Why::CutByLength => "It was not run. Call it again with shorter arguments, or split the work into several smaller calls.",
        Why::BadJson | Why::DuplicateKey | Why::BySchema | Why::Malformed => "It was not run. Correct the arguments and call it again.",
        Why::UnknownTool => "It was not run. Use only the tools that are offered.",
        Why::Duplicate | Why::Loop => "It was not run again. Use the result you already have, or do something else.",
        Why::TooLarge => "It was not run. Split the work into several smaller calls.",
        Why::TooManyCalls => "It was not run. Call it again in your next turn if it is still needed.",
        Why::Policy => "It was not run, because the host does not allow it.",
        _ => "It was not run.",
    };
    format!("This call was refused: {}. {advice}", judged.detail)
}

impl Gate {
    /// Judges every call of a turn. `choice` is the position of the choice that the host uses; `now_ms` its clock, for the record.
    pub fn judge(&mut self, turn: &Turn, choice: usize, now_ms: u64) -> Judgement {
        self.turns = self.turns.saturating_add(1);
        let mut judgement =
            Judgement { calls: Vec::new(), action: turn.action(choice), choice, other_choices: turn.choices.len() > 1, audit: Vec::new() };
        let mut ids = FxHashSet::default();
        let mut let_through = 0;
        for (position, found) in turn.choices.iter().enumerate() {
            for (nth, call) in found.calls.iter().enumerate() {
                let parsed = serde_json::from_str::<Value>(&call.arguments).ok();
                let hash = hash(&call.name, parsed.as_ref(), &call.arguments);
                let read_only = self.tools.as_ref().and_then(|tools| tools.get(&call.name)).is_some_and(|known| known.read_only);
                let (risk, best) = self.policy.of(&call.name, read_only);
                let times = self.seen.get(&hash).copied().unwrap_or(0);
                let last = nth + 1 == found.calls.len();
                let against = if position == choice {
                    let too_many = let_through >= self.policy.calls_per_turn;
                    let troubles = [
                        self.against(turn, found, call, parsed.as_ref(), last),
                        self.id_trouble(turn.format, call, &ids),
                        self.repeat_trouble(times),
                        too_many.then(|| refuse(Why::TooManyCalls, "this turn makes too many calls")),
                    ];
                    // The gravest decides; of equals the first.
                    troubles.into_iter().flatten().reduce(|first, next| if next.0 > first.0 { next } else { first })
                } else {
                    Some(refuse(Why::OtherChoice, "another choice of the same answer is used"))
                };
                let (verdict, why, detail) = match against {
                    Some((verdict, why, detail)) => (verdict.max(best), if best > verdict { Why::Policy } else { why }, detail),
                    None if best == Verdict::Run => (Verdict::Run, Why::Allowed, "whole, valid and allowed".to_owned()),
                    None => (best, Why::Policy, format!("the policy says `{}` for this tool", best.as_str())),
                };
                if verdict != Verdict::Refuse {
                    let_through += 1;
                    self.seen.insert(hash, times.saturating_add(1));
                }
                if position == choice
                    && let Some(id) = &call.id
                {
                    ids.insert(id.as_str());
                }
                judgement.audit.push(AuditRecord {
                    time_ms: now_ms,
                    turn: self.turns,
                    tool: call.name.clone(),
                    call_id: call.id.clone(),
                    hash: format!("{hash:016x}"),
                    argument_bytes: call.arguments.len(),
                    risk,
                    verdict,
                    why,
                });
                judgement.calls.push(JudgedCall {
                    call: call.clone(),
                    choice: found.index,
                    arguments: parsed.filter(Value::is_object),
                    verdict,
                    why,
                    detail,
                    risk,
                    repeat: times > 0,
                });
            }
        }
        self.ids.extend(ids.into_iter().map(str::to_owned));
        judgement
    }

    /// What stands against a call, apart from ids and repeats: the gravest first.
    fn against(&self, turn: &Turn, choice: &Choice, call: &Call, parsed: Option<&Value>, last: bool) -> Option<Trouble> {
        if let Some(fault) = turn.error() {
            return Some(refuse(Why::TurnIncomplete, format!("the answer isn't whole ({})", fault.kind.as_str())));
        }
        if !turn.ended_well {
            return Some(refuse(Why::TurnIncomplete, "the answer isn't whole"));
        }
        let cut = choice.finish.reason == Reason::Length && (last || !self.policy.run_before_cut);
        if cut {
            return Some(refuse(Why::CutByLength, "the answer was cut by the output limit before it was whole"));
        }
        if choice.finish.action == Action::RefusePartialCall && choice.finish.reason != Reason::Length {
            return Some(refuse(Why::Malformed, "the provider reports the call as malformed"));
        }
        if choice.finish.reason == Reason::ContentFilter {
            return Some(refuse(Why::Filtered, "the answer was stopped by a filter"));
        }
        if self.turns > self.policy.turns {
            return Some(refuse(Why::TooManyTurns, format!("the task has had its {} turns", self.policy.turns)));
        }
        if call.arguments.len() > self.policy.argument_bytes {
            return Some(refuse(
                Why::TooLarge,
                format!("the arguments have {} bytes; at most {} are taken", call.arguments.len(), self.policy.argument_bytes),
            ));
        }
        let known = match &self.tools {
            Some(tools) => match tools.get(&call.name) {
                Some(known) => Some(known),
                None => return Some(refuse(Why::UnknownTool, "no such tool is offered")),
            },
            None => None,
        };
        if call.kind != CallKind::Custom
            && let Some(trouble) = argument_trouble(call, parsed, known.map(|known| &known.schema))
        {
            return Some(trouble);
        }
        if choice.finish.reason == Reason::Unknown || !choice.finish.known {
            return Some(ask(Why::FinishUnknown, "the finish reason is unknown or missing, so that a cut can't be ruled out"));
        }
        if turn.faults.iter().any(|fault| fault.kind == FaultKind::DuplicateIndex) {
            return Some(ask(Why::Malformed, "the server gave several calls one index; they were kept apart by their ids"));
        }
        known.is_none().then(|| ask(Why::ToolsUnknown, "no tools were named, so that name and arguments can't be checked"))
    }

    /// An id that is missing, or was used before. Formats that match results by name need none.
    fn id_trouble(&self, format: Format, call: &Call, before: &FxHashSet<&str>) -> Option<Trouble> {
        match call.id.as_deref() {
            None if format == Format::Gemini || call.kind == CallKind::Legacy => None,
            None => Some(refuse(Why::IdMissing, "the call has no id, so that its result could not be told apart")),
            Some(id) if before.contains(id) => Some(refuse(Why::IdRepeated, "another call of this answer has the same id")),
            Some(id) if self.ids.contains(id) => Some(ask(Why::IdRepeated, "a call of an earlier turn had the same id")),
            Some(_) => None,
        }
    }

    fn repeat_trouble(&self, times: u32) -> Option<Trouble> {
        let repeats = self.policy.repeats;
        match times {
            0 => None,
            n if n > repeats || n == repeats && repeats > 1 => Some(refuse(Why::Loop, format!("the same call was made {n} times before"))),
            n if n == repeats => Some(refuse(Why::Duplicate, "the same call was made before")),
            _ if self.policy.on_repeat == Verdict::Run => None,
            n => Some((self.policy.on_repeat, Why::Duplicate, format!("the same call was made {n} times before"))),
        }
    }
}

type Trouble = (Verdict, Why, String);

fn refuse(why: Why, detail: impl Into<String>) -> Trouble {
    (Verdict::Refuse, why, detail.into())
}

fn ask(why: Why, detail: impl Into<String>) -> Trouble {
    (Verdict::Ask, why, detail.into())
}

/// Arguments that aren't one complete JSON object, or not the one that the schema asks for.
fn argument_trouble(call: &Call, parsed: Option<&Value>, schema: Option<&Schema>) -> Option<Trouble> {
    // Tools without parameters get an empty text from some servers.
    let none = call.arguments.trim_ascii().is_empty();
    let empty = json!({});
    let arguments = match parsed {
        Some(arguments) => arguments,
        None if none => &empty,
        None => {
            let error = serde_json::from_str::<serde::de::IgnoredAny>(&call.arguments).err();
            let offset = error.filter(|e| e.line() == 1).map(|e| e.column() as u64);
            let error = Error::invalid("", "the arguments are not complete JSON");
            let error = offset.map_or_else(|| Error::invalid("", "the arguments are not complete JSON"), |at| error.at_offset(at));
            return Some(refuse(Why::BadJson, error.to_string()));
        }
    };
    if !arguments.is_object() {
        return Some(refuse(Why::BadJson, format!("the arguments are {}; expected an object", kind_of(arguments))));
    }
    if let Some(key) = super::super::canonical::duplicate_key(&call.arguments) {
        return Some(refuse(Why::DuplicateKey, format!("the key `{key}` stands twice in the arguments")));
    }
    match schema {
        Some(Schema::Unusable(why)) => Some(ask(Why::SchemaUnusable, format!("the tool's schema can't be used: {why}"))),
        Some(schema) => schema.complaint(arguments).map(|complaint| refuse(Why::BySchema, complaint)),
        None => None,
    }
}

/// The identity of a call: its name and its arguments, whatever the order of keys and the spacing.
fn hash(name: &str, parsed: Option<&Value>, text: &str) -> u64 {
    let arguments = parsed.map_or_else(|| text.to_owned(), super::super::canonical::text);
    XxHash3_64::oneshot(format!("{name}\0{arguments}").as_bytes())
}
