//! What a chat template pays for work that minijinja does for nothing.
//!
//! Called by the sandbox's filters and methods, and by the filters that [`super::meter`] puts behind operands. Charges fuel for all that
//! printing, comparing, hashing or looking through a value visits, before it's visited.

use crate::limits;
use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, ErrorKind, State};

/// A filter that hands on what it's given, once all that is in it is paid for.
pub(super) const WEIGHED: &str = "plimsoll_weighed";
/// The same for what is looked through: a mapping is only looked up in, and minijinja charges for text.
pub(super) const SOUGHT: &str = "plimsoll_sought";
/// The same for what `+` copies or chains: its items, not what is in them.
pub(super) const ADDED: &str = "plimsoll_added";
/// The same for what is indexed: text is walked up to the index.
pub(super) const INDEXED: &str = "plimsoll_indexed";
/// Hands on what is small, and refuses the rest: an argument that is visited for each of many items.
pub(super) const SMALL: &str = "plimsoll_small";

type Outcome = Result<Value, minijinja::Error>;

/// Gives the environment the filters of this module.
pub(super) fn add_filters(environment: &mut Environment<'_>) {
    environment.add_filter(WEIGHED, |state: &State, value: &Value| -> Outcome { weigh(state, value).map(|()| value.clone()) });
    environment.add_filter(SOUGHT, |state: &State, value: &Value| -> Outcome {
        if matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
            weigh(state, value)?;
        }
        Ok(value.clone())
    });
    environment.add_filter(ADDED, |state: &State, value: &Value| -> Outcome {
        if matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
            state.consume_fuel(1 + value.len().unwrap_or_default() as u64)?;
        }
        Ok(value.clone())
    });
    environment.add_filter(INDEXED, |state: &State, value: &Value| -> Outcome {
        state.consume_fuel(text_cost(value))?;
        Ok(value.clone())
    });
    environment.add_filter(SMALL, |state: &State, value: &Value| -> Outcome {
        let mut left = limits::TEMPLATE_EACH_ARGUMENT;
        visit(value, &mut |cost| {
            state.consume_fuel(cost)?;
            left = left.checked_sub(cost).ok_or_else(|| {
                minijinja::Error::new(ErrorKind::InvalidOperation, "recursion limit: a list or text is visited for each of many items")
            })?;
            Ok(())
        })?;
        Ok(value.clone())
    });
}

/// Charges for all that printing, comparing or hashing a value visits, and refuses one that is nested too deep for that.
pub(super) fn weigh(state: &State, value: &Value) -> Result<(), minijinja::Error> {
    visit(value, &mut |cost| state.consume_fuel(cost))
}

/// What a value costs by itself, in fuel: its text's length in minijinja's unit.
fn text_cost(value: &Value) -> u64 {
    1 + value.as_str().map_or(0, str::len) as u64 / 64
}

/// Walks a value without recursion and charges for each value in it. Lists that hold a list twice, which holds another twice, take little room
/// and are walked until the fuel is out.
fn visit(value: &Value, charge: &mut dyn FnMut(u64) -> Result<(), minijinja::Error>) -> Result<(), minijinja::Error> {
    let too_deep = || minijinja::Error::new(ErrorKind::InvalidOperation, "recursion limit: a value is nested too deep");
    let mut levels = Vec::new();
    let mut next = Some(value.clone());
    loop {
        if let Some(value) = next.take() {
            charge(text_cost(&value))?;
            if matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::Iterable) {
                if levels.len() >= limits::TEMPLATE_VALUE_DEPTH {
                    return Err(too_deep());
                }
                let map = (value.kind() == ValueKind::Map).then(|| value.clone());
                levels.push((map, value.try_iter()?));
            }
        }
        let Some((map, items)) = levels.last_mut() else { return Ok(()) };
        match (items.next(), map) {
            (Some(key), Some(map)) => {
                charge(text_cost(&key))?;
                next = Some(map.get_item(&key)?);
            }
            (Some(item), None) => next = Some(item),
            (None, _) => {
                levels.pop();
            }
        }
    }
}
