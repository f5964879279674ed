//! Filters and tests, and which of them look at so little that nothing is weighed for them.

use super::super::tokens::Kind;
use super::super::weigh::{SMALL, WEIGHED};
use super::{Argument, Part, Reader, Shape};

/// Filters that look at little of what they are given, or charge for it themselves.
fn is_light_filter(name: &str) -> bool {
    matches!(
        name,
        "abs"
            | "attr"
            | "batch"
            | "bool"
            | "chain"
            | "count"
            | "d"
            | "default"
            | "first"
            | "float"
            | "from_json"
            | "int"
            | "items"
            | "join"
            | "last"
            | "length"
            | "list"
            | "own"
            | "pprint"
            | "reverse"
            | "round"
            | "slice"
            | "string"
            | "tojson"
            | "zip"
    )
}

/// Filters whose arguments come out as they went in.
fn passes_arguments_on(filter: &str) -> bool {
    matches!(filter, "chain" | "d" | "default" | "zip")
}

/// Filters that do to each item what a name says.
fn is_for_each(filter: &str) -> bool {
    matches!(filter, "map" | "reject" | "rejectattr" | "select" | "selectattr")
}

/// Tests that look at little of what they are given.
fn is_light_test(name: &str) -> bool {
    matches!(
        name,
        "boolean"
            | "defined"
            | "divisibleby"
            | "escaped"
            | "even"
            | "false"
            | "filter"
            | "float"
            | "int"
            | "integer"
            | "iterable"
            | "mapping"
            | "none"
            | "number"
            | "odd"
            | "sameas"
            | "safe"
            | "sequence"
            | "string"
            | "test"
            | "true"
            | "undefined"
    )
}

/// Tests that compare: light where one side is a literal. `in` is none of them: what is sought in a literal text is printed for that.
fn compares(test: &str) -> bool {
    matches!(test, "==" | "!=" | "<" | "<=" | ">" | ">=" | "eq" | "equalto" | "ge" | "greaterthan" | "gt" | "le" | "lessthan" | "lt" | "ne")
}

impl<'s> Reader<'_, 's> {
    /// The filters and tests behind an operand, or behind the first filter of a block.
    pub(super) fn filters(&mut self, operand: Option<Part>) -> Option<Part> {
        let first = operand.map_or(self.at, |operand| operand.first);
        let mut part = operand.unwrap_or(Part { first, last: self.at.checked_sub(1)?, shape: Shape::Chain });
        loop {
            if self.takes_sign("|") {
                let (name, arguments) = self.filter_name_and_arguments()?;
                let light = match name.as_str() {
                    each if is_for_each(each) => self.is_light_for_each(each, &arguments),
                    name => is_light_filter(name),
                };
                if !light && part.shape != Shape::Scalar {
                    self.push_behind(part.last, WEIGHED);
                }
                part = self.part(first, Shape::Chain);
            } else if self.takes("is") {
                self.takes("not");
                let input = part;
                let name = self.dotted_name()?;
                let arguments = self.test_arguments()?;
                let literal = input.shape == Shape::Scalar || arguments.iter().any(|argument| argument.value.shape == Shape::Scalar);
                let light = match name.as_str() {
                    "in" => input.shape == Shape::Scalar,
                    name => is_light_test(name) || (literal && compares(name)),
                };
                if !light {
                    if input.shape != Shape::Scalar {
                        self.push_behind(input.last, WEIGHED);
                    }
                    self.put_behind_each(&arguments, WEIGHED);
                }
                part = self.part(first, Shape::Scalar);
            } else {
                return Some(part);
            }
        }
    }

    pub(super) fn filter_name_and_arguments(&mut self) -> Option<(String, Vec<Argument<'s>>)> {
        let name = self.dotted_name()?;
        let arguments = if self.is_sign("(") { self.arguments()? } else { Vec::new() };
        if is_for_each(&name) {
            // Visited once for every item.
            self.put_behind_each(&arguments, SMALL);
        } else if !passes_arguments_on(&name) {
            self.put_behind_each(&arguments, WEIGHED);
        }
        Some((name, arguments))
    }

    /// Whether `map`, `select` and the like do something light to each item, by the name that they are given as a literal.
    fn is_light_for_each(&self, filter: &str, arguments: &[Argument<'_>]) -> bool {
        if arguments.iter().any(|argument| argument.value.shape != Shape::Scalar) {
            return false;
        }
        let at = usize::from(filter.ends_with("attr"));
        let Some(named) = arguments.iter().filter(|argument| argument.keyword.is_none()).nth(at) else { return true };
        let token = (named.value.first == named.value.last).then(|| self.tokens.get(named.value.first)).flatten();
        let Some(name) = token.filter(|token| token.kind == Kind::Text).map(|token| token.text.trim_matches(['\'', '"'])) else {
            return false;
        };
        if filter == "map" { is_light_filter(name) } else { is_light_test(name) || compares(name) }
    }

    /// A test's arguments in brackets, or its one argument without.
    fn test_arguments(&mut self) -> Option<Vec<Argument<'s>>> {
        if self.is_sign("(") {
            return self.arguments();
        }
        let starts = self.tokens.get(self.at).is_some_and(|token| match token.kind {
            Kind::Name => !matches!(token.text, "and" | "or" | "else" | "is"),
            Kind::Text | Kind::Number => true,
            Kind::Sign => matches!(token.text, "-" | "[" | "{"),
        });
        if !starts {
            return Some(Vec::new());
        }
        let value = self.signed()?;
        Some(vec![Argument { keyword: None, value, bare: true }])
    }

    fn dotted_name(&mut self) -> Option<String> {
        let mut name = self.name()?.to_owned();
        while self.takes_sign(".") {
            name.push('.');
            name.push_str(self.name()?);
        }
        Some(name)
    }
}
