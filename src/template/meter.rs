//! Rewrites a chat template so that nothing it does is free: what minijinja 3.1 visits without charging for it is weighed first.
//!
//! Called by the sandbox before compiling. minijinja charges fuel for instructions, for the bytes and slots that it makes and for the items
//! that a loop visits, but not for what it visits while it joins with `~`, compares, looks for, hashes or prints a value. Lists share what they
//! hold, so that a list of two of the same, forty times over, takes a few kilobytes and is visited for ever. The operators can't be replaced
//! from outside; their operands can: `a ~ b` becomes `a|weighed ~ b|weighed`, a filter that hands its value on after charging for it
//! ([`super::weigh`]). Rejected: minijinja's own parser, which it offers only without any promise, so that its version would have to be
//! pinned for everybody; and weighing lists where they are made, since `+`, `*` and filters make them as well.
//!
//! Most of what real templates do needs no weighing and stays as written: comparing with a literal, `+` of numbers, `|length`, `is defined`.
//! The rewriting keeps lines as they are. It must read expressions exactly as minijinja does; what it can't read it refuses, so that nothing
//! unweighed gets through.

use super::tokens::{Kind, Tag, Token, tags};
use super::weigh::{ADDED, INDEXED, SMALL, SOUGHT, WEIGHED};

/// Deepest nesting of one expression. minijinja takes 75 brackets in one another; no published template comes near.
const DEPTH: usize = 400;

/// Largest index that is looked up unweighed: a string is walked up to it.
const NEAR: usize = 4096;

/// Filters that look at little of what they are given, or charge for it themselves.
const LIGHT_FILTERS: &[&str] = &[
    "abs",
    "attr",
    "batch",
    "bool",
    "chain",
    "count",
    "d",
    "default",
    "first",
    "float",
    "from_json",
    "int",
    "items",
    "join",
    "last",
    "length",
    "list",
    "own",
    "pprint",
    "reverse",
    "round",
    "slice",
    "string",
    "tojson",
    "zip",
];

/// Those whose arguments come out as they went in.
const PASSING_FILTERS: &[&str] = &["chain", "d", "default", "zip"];

/// Filters that do to each item what a name says.
const EACH_FILTERS: &[&str] = &["map", "reject", "rejectattr", "select", "selectattr"];

/// Tests that look at little of what they are given.
const LIGHT_TESTS: &[&str] = &[
    "boolean",
    "defined",
    "divisibleby",
    "escaped",
    "even",
    "false",
    "filter",
    "float",
    "int",
    "integer",
    "iterable",
    "mapping",
    "none",
    "number",
    "odd",
    "sameas",
    "safe",
    "sequence",
    "string",
    "test",
    "true",
    "undefined",
];

/// Tests that compare: light where one side is a literal.
const COMPARING_TESTS: &[&str] =
    &["==", "!=", "<", "<=", ">", ">=", "eq", "equalto", "ge", "greaterthan", "gt", "in", "le", "lessthan", "lt", "ne"];

/// Why a template isn't rewritten: the byte at which it stops being understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotUnderstood {
    pub(super) at: usize,
}

/// The template with its free work weighed, and with the tags around what the model wrote (`generation`) made to do nothing.
///
/// Cost: linear in the template.
pub(super) fn metered(source: &str) -> Result<String, NotUnderstood> {
    let mut out = String::with_capacity(source.len() + source.len() / 8);
    let mut copied = 0;
    for tag in tags(source).map_err(|at| NotUnderstood { at })? {
        let mut reader = Reader { tokens: &tag.tokens, at: 0, depth: 0, marks: vec![Mark::default(); tag.tokens.len()] };
        if reader.tag(&tag).is_none() {
            let token = tag.tokens.get(reader.at).or(tag.tokens.last());
            return Err(NotUnderstood { at: token.map_or(copied, |token| token.at) });
        }
        for (token, mark) in tag.tokens.iter().zip(&reader.marks) {
            out.push_str(source.get(copied..token.at).unwrap_or_default());
            out.push_str(&mark.before);
            out.push_str(mark.instead.unwrap_or(token.text));
            out.push_str(&mark.after);
            copied = token.end();
        }
    }
    out.push_str(source.get(copied..).unwrap_or_default());
    Ok(out)
}

/// What is written around a token, or instead of it.
#[derive(Debug, Clone, Default)]
struct Mark {
    before: String,
    instead: Option<&'static str>,
    after: String,
}

/// A part of an expression: its first and last token, and what is known of its value.
#[derive(Debug, Clone, Copy)]
struct Part {
    first: usize,
    last: usize,
    shape: Shape,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// A literal that isn't a list or a mapping, or what is true or false: nothing to weigh.
    Scalar,
    /// Something that a filter can be put behind as it is.
    Chain,
    /// Something that needs brackets for that.
    Compound,
}

/// An argument of a call, a filter or a test.
struct Argument<'s> {
    keyword: Option<&'s str>,
    value: Part,
    /// Whether it stands without brackets: `is eq 1`.
    bare: bool,
}

/// Reads one tag by minijinja's grammar. Every method is one rule of it, named for what it reads, and ends with `None` where the tag doesn't
/// follow the rule.
struct Reader<'t, 's> {
    tokens: &'t [Token<'s>],
    at: usize,
    depth: usize,
    marks: Vec<Mark>,
}

impl<'s> Reader<'_, 's> {
    fn tag(&mut self, tag: &Tag<'s>) -> Option<()> {
        if tag.statement {
            self.statement()?;
        } else {
            self.expression()?;
        }
        (self.at == self.tokens.len()).then_some(())
    }

    fn statement(&mut self) -> Option<()> {
        let keyword = self.name()?;
        match keyword {
            "generation" => self.marks.first_mut()?.instead = Some("if true"),
            "endgeneration" => self.marks.first_mut()?.instead = Some("endif"),
            "if" | "elif" => self.either().map(drop)?,
            "for" => {
                while !self.takes("in") {
                    self.at += 1;
                    self.tokens.get(self.at)?;
                }
                self.either()?;
                if self.takes("if") {
                    self.expression()?;
                }
                self.takes("recursive");
            }
            "set" => self.assignment()?,
            "with" => {
                while self.at < self.tokens.len() {
                    self.target()?;
                    self.sign("=")?;
                    self.expression()?;
                    if self.at < self.tokens.len() {
                        self.sign(",")?;
                    }
                }
            }
            "macro" => {
                self.name()?;
                self.parameters()?;
            }
            "call" => {
                if self.is_sign("(") {
                    self.parameters()?;
                }
                self.expression()?;
            }
            "do" | "autoescape" => self.expression().map(drop)?,
            "filter" => {
                self.filter_name_and_arguments()?;
                self.filters(None)?;
            }
            "else" | "endif" | "endfor" | "endset" | "endwith" | "endmacro" | "endcall" | "endfilter" | "endautoescape" | "break"
            | "continue" => {}
            "block" | "endblock" => self.at = self.tokens.iter().take_while(|token| token.kind == Kind::Name).count(),
            // `include`, `import` and the like: a chat template stands alone.
            _ => return None,
        }
        Some(())
    }

    /// `a, b.c = 1, 2`, or the head of a block, `a | filter`.
    fn assignment(&mut self) -> Option<()> {
        let mut brackets = 0_usize;
        loop {
            match self.tokens.get(self.at).map(|token| token.text) {
                None => return Some(()),
                Some("=") if brackets == 0 => break,
                Some("|") if brackets == 0 => {
                    self.at += 1;
                    self.filter_name_and_arguments()?;
                    return self.filters(None).map(drop);
                }
                Some("(") => brackets += 1,
                Some(")") => brackets = brackets.checked_sub(1)?,
                Some(_) => {}
            }
            self.at += 1;
        }
        self.at += 1;
        self.expression()?;
        while self.is_sign(",") {
            self.at += 1;
            if self.at < self.tokens.len() {
                self.expression()?;
            }
        }
        Some(())
    }

    /// A name, or names in brackets, that something is given to.
    fn target(&mut self) -> Option<()> {
        if !self.is_sign("(") {
            return self.name().map(drop);
        }
        while !self.is_sign("=") {
            self.tokens.get(self.at)?;
            self.at += 1;
        }
        Some(())
    }

    fn parameters(&mut self) -> Option<()> {
        self.sign("(")?;
        while !self.is_sign(")") {
            self.name()?;
            if self.is_sign("=") {
                self.at += 1;
                self.expression()?;
            }
            if !self.is_sign(")") {
                self.sign(",")?;
            }
        }
        self.sign(")")
    }

    fn expression(&mut self) -> Option<Part> {
        self.nested(Self::conditional)
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Option<Part>) -> Option<Part> {
        self.depth += 1;
        if self.depth > DEPTH {
            return None;
        }
        let part = read(self);
        self.depth -= 1;
        part
    }

    fn conditional(&mut self) -> Option<Part> {
        let mut part = self.either()?;
        while self.takes("if") {
            self.either()?;
            if self.takes("else") {
                self.nested(Self::conditional)?;
            }
            part = self.compound(part.first);
        }
        Some(part)
    }

    fn either(&mut self) -> Option<Part> {
        let mut part = self.both()?;
        while self.takes("or") {
            self.both()?;
            part = self.compound(part.first);
        }
        Some(part)
    }

    fn both(&mut self) -> Option<Part> {
        let mut part = self.inverse()?;
        while self.takes("and") {
            self.inverse()?;
            part = self.compound(part.first);
        }
        Some(part)
    }

    fn inverse(&mut self) -> Option<Part> {
        let first = self.at;
        if self.takes("not") {
            self.nested(Self::inverse)?;
            return Some(self.part(first, Shape::Scalar));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Option<Part> {
        let mut left = self.sum()?;
        let first = left.first;
        let (mut compared, mut weighed) = (false, false);
        loop {
            let negated = self.takes("not");
            let seeks = self.takes("in");
            if negated && !seeks {
                return None;
            }
            if !seeks && !["==", "!=", "<", "<=", ">", ">="].iter().any(|sign| self.takes_sign(sign)) {
                break;
            }
            let right = self.sum()?;
            // What is sought in a text is printed for that.
            let heavy = left.shape != Shape::Scalar && (seeks || right.shape != Shape::Scalar);
            if heavy {
                // In a chain, `a < b < c`, the middle may have been weighed as a right side.
                if !weighed {
                    self.put_behind(left, WEIGHED);
                }
                self.put_behind(right, if seeks { SOUGHT } else { WEIGHED });
            }
            (left, compared, weighed) = (right, true, heavy && !seeks);
        }
        Some(if compared { self.part(first, Shape::Scalar) } else { left })
    }

    fn sum(&mut self) -> Option<Part> {
        let mut parts = vec![self.joined()?];
        let mut adds = false;
        while let Some(plus) = ["+", "-"].iter().position(|sign| self.takes_sign(sign)) {
            adds |= plus == 0;
            parts.push(self.joined()?);
        }
        self.fold(&parts, adds.then_some(ADDED))
    }

    fn joined(&mut self) -> Option<Part> {
        let mut parts = vec![self.product()?];
        while self.takes_sign("~") {
            parts.push(self.product()?);
        }
        self.fold(&parts, Some(WEIGHED))
    }

    fn product(&mut self) -> Option<Part> {
        let mut parts = vec![self.power()?];
        while ["*", "/", "//", "%"].iter().any(|sign| self.takes_sign(sign)) {
            parts.push(self.power()?);
        }
        self.fold(&parts, None)
    }

    fn power(&mut self) -> Option<Part> {
        let mut parts = vec![self.filtered()?];
        while self.takes_sign("**") {
            parts.push(self.filtered()?);
        }
        self.fold(&parts, None)
    }

    /// What operators of one rank make of their operands, each handed through `filter` first.
    fn fold(&mut self, parts: &[Part], filter: Option<&str>) -> Option<Part> {
        let (first, others) = parts.split_first()?;
        if others.is_empty() {
            return Some(*first);
        }
        for part in parts {
            if let Some(filter) = filter {
                self.put_behind(*part, filter);
            }
        }
        Some(self.compound(first.first))
    }

    /// An operand with its filters and tests.
    fn filtered(&mut self) -> Option<Part> {
        let operand = self.signed()?;
        self.filters(Some(operand))
    }

    fn signed(&mut self) -> Option<Part> {
        let first = self.at;
        if self.takes_sign("-") {
            let operand = self.nested(Self::signed)?;
            let shape = if operand.shape == Shape::Scalar { Shape::Scalar } else { Shape::Compound };
            return Some(self.part(first, shape));
        }
        let primary = self.nested(Self::primary)?;
        self.postfix(primary)
    }

    fn primary(&mut self) -> Option<Part> {
        let first = self.at;
        let token = *self.tokens.get(first)?;
        self.at += 1;
        let shape = match (token.kind, token.text) {
            (Kind::Number, _) | (Kind::Name, "true" | "True" | "false" | "False" | "none" | "None") => Shape::Scalar,
            // Minijinja takes these for names where it expects a value, and then reads on in ways of its own.
            (Kind::Name, "and" | "else" | "if" | "in" | "is" | "not" | "or") => return None,
            (Kind::Name, _) => Shape::Chain,
            (Kind::Text, _) => {
                while self.tokens.get(self.at).is_some_and(|token| token.kind == Kind::Text) {
                    self.at += 1;
                }
                Shape::Scalar
            }
            (_, "(") => {
                let mut items = 0;
                let mut shape = Shape::Chain;
                while !self.takes_sign(")") {
                    let item = self.expression()?;
                    items += 1;
                    if !self.is_sign(")") {
                        self.sign(",")?;
                        items += 1;
                    }
                    shape = if items == 1 && item.shape == Shape::Scalar { Shape::Scalar } else { Shape::Chain };
                }
                shape
            }
            (_, "[") => {
                while !self.takes_sign("]") {
                    self.expression()?;
                    if !self.is_sign("]") {
                        self.sign(",")?;
                    }
                }
                Shape::Chain
            }
            (_, "{") => {
                while !self.takes_sign("}") {
                    let key = self.expression()?;
                    self.put_behind(key, WEIGHED);
                    self.sign(":")?;
                    self.expression()?;
                    if !self.is_sign("}") {
                        self.sign(",")?;
                    }
                }
                Shape::Chain
            }
            _ => return None,
        };
        Some(self.part(first, shape))
    }

    /// Attributes, subscripts and calls.
    fn postfix(&mut self, mut part: Part) -> Option<Part> {
        let mut attribute = None;
        loop {
            let called = attribute.take();
            if self.takes_sign(".") {
                let token = *self.tokens.get(self.at)?;
                match token.kind {
                    Kind::Name => attribute = Some(token.text),
                    Kind::Number if is_near(token.text) => {}
                    Kind::Number => self.put_in_brackets(part, INDEXED),
                    Kind::Text | Kind::Sign => return None,
                }
                self.at += 1;
            } else if self.is_sign("[") {
                self.subscript(part)?;
            } else if self.is_sign("(") {
                let arguments = self.arguments()?;
                // The only built-in method that compares.
                if called == Some("changed") {
                    self.put_behind_each(&arguments, WEIGHED);
                }
            } else {
                return Some(part);
            }
            part = self.part(part.first, Shape::Chain);
        }
    }

    fn subscript(&mut self, of: Part) -> Option<()> {
        self.sign("[")?;
        let mut near = true;
        let mut key = None;
        let mut colons = 0;
        while !self.takes_sign("]") {
            if self.takes_sign(":") {
                colons += 1;
                continue;
            }
            let index = self.expression()?;
            let text = (index.first == index.last).then(|| self.tokens.get(index.first)).flatten();
            near &= index.shape == Shape::Scalar
                && text.is_some_and(|token| match token.kind {
                    Kind::Number => is_near(token.text),
                    Kind::Text | Kind::Name => true,
                    Kind::Sign => false,
                });
            key = Some(index);
        }
        if colons > 2 || (colons == 0 && key.is_none()) {
            return None;
        }
        if !near {
            self.put_in_brackets(of, INDEXED);
        }
        if let (0, Some(key)) = (colons, key) {
            self.put_behind(key, WEIGHED);
        }
        Some(())
    }

    fn arguments(&mut self) -> Option<Vec<Argument<'s>>> {
        let mut arguments = Vec::new();
        self.sign("(")?;
        while !self.takes_sign(")") {
            let spread = self.takes_sign("**") || self.takes_sign("*");
            let mut keyword = None;
            let mut value = self.expression()?;
            if !spread && self.is_sign("=") {
                let name = self.tokens.get(value.first).filter(|token| value.first == value.last && token.kind == Kind::Name)?;
                self.at += 1;
                keyword = Some(name.text);
                value = self.expression()?;
            }
            arguments.push(Argument { keyword, value, bare: false });
            if !self.is_sign(")") {
                self.sign(",")?;
            }
        }
        Some(arguments)
    }

    /// The filters and tests behind an operand, or behind the first filter of a block.
    fn filters(&mut self, operand: Option<Part>) -> Option<Part> {
        let first = operand.map_or(self.at, |operand| operand.first);
        let mut part = operand.unwrap_or(Part { first, last: self.at.checked_sub(1)?, shape: Shape::Chain });
        loop {
            if self.takes_sign("|") {
                let (name, arguments) = self.filter_name_and_arguments()?;
                let light = match name.as_str() {
                    each if EACH_FILTERS.contains(&each) => self.is_light_for_each(each, &arguments),
                    name => LIGHT_FILTERS.contains(&name),
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
                    name => LIGHT_TESTS.contains(&name) || (literal && COMPARING_TESTS.contains(&name)),
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

    fn filter_name_and_arguments(&mut self) -> Option<(String, Vec<Argument<'s>>)> {
        let name = self.dotted_name()?;
        let arguments = if self.is_sign("(") { self.arguments()? } else { Vec::new() };
        if EACH_FILTERS.contains(&name.as_str()) {
            // Visited once for every item.
            self.put_behind_each(&arguments, SMALL);
        } else if !PASSING_FILTERS.contains(&name.as_str()) {
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
        if filter == "map" { LIGHT_FILTERS.contains(&name) } else { LIGHT_TESTS.contains(&name) || COMPARING_TESTS.contains(&name) }
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

    fn part(&self, first: usize, shape: Shape) -> Part {
        Part { first, last: self.at.saturating_sub(1), shape }
    }

    fn compound(&self, first: usize) -> Part {
        self.part(first, Shape::Compound)
    }

    /// Puts a filter behind a part that has something to weigh.
    fn put_behind(&mut self, part: Part, filter: &str) {
        match part.shape {
            Shape::Scalar => {}
            Shape::Chain => self.push_behind(part.last, filter),
            Shape::Compound => {
                if let Some(mark) = self.marks.get_mut(part.first) {
                    mark.before.insert(0, '(');
                }
                if let Some(mark) = self.marks.get_mut(part.last) {
                    mark.after.push(')');
                }
                self.push_behind(part.last, filter);
            }
        }
    }

    fn put_behind_each(&mut self, arguments: &[Argument<'_>], filter: &str) {
        for argument in arguments {
            if argument.bare && argument.value.shape != Shape::Scalar {
                self.put_in_brackets(argument.value, filter);
            } else {
                self.put_behind(argument.value, filter);
            }
        }
    }

    fn put_in_brackets(&mut self, part: Part, filter: &str) {
        if let Some(mark) = self.marks.get_mut(part.first) {
            mark.before.insert(0, '(');
        }
        self.push_behind(part.last, filter);
        if let Some(mark) = self.marks.get_mut(part.last) {
            mark.after.push(')');
        }
    }

    fn push_behind(&mut self, token: usize, filter: &str) {
        if let Some(mark) = self.marks.get_mut(token) {
            mark.after.push('|');
            mark.after.push_str(filter);
        }
    }

    fn name(&mut self) -> Option<&'s str> {
        let token = self.tokens.get(self.at).filter(|token| token.kind == Kind::Name)?;
        self.at += 1;
        Some(token.text)
    }

    /// Steps over the name `word`, if it's next.
    fn takes(&mut self, word: &str) -> bool {
        let is_next = self.tokens.get(self.at).is_some_and(|token| token.kind == Kind::Name && token.text == word);
        self.at += usize::from(is_next);
        is_next
    }

    fn is_sign(&self, sign: &str) -> bool {
        self.tokens.get(self.at).is_some_and(|token| token.kind == Kind::Sign && token.text == sign)
    }

    /// Steps over `sign`, if it's next.
    fn takes_sign(&mut self, sign: &str) -> bool {
        let is_next = self.is_sign(sign);
        self.at += usize::from(is_next);
        is_next
    }

    fn sign(&mut self, sign: &str) -> Option<()> {
        self.takes_sign(sign).then_some(())
    }
}

/// Whether a number is an index that is looked up in little time.
fn is_near(number: &str) -> bool {
    number.parse::<usize>().is_ok_and(|index| index <= NEAR)
}

#[cfg(test)]
#[path = "meter_tests.rs"]
mod tests;
