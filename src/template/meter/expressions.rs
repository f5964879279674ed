//! Expressions, by minijinja's grammar, weakest operator first; and what of them is weighed.

use super::super::tokens::Kind;
use super::super::weigh::{ADDED, INDEXED, SOUGHT, WEIGHED};
use super::{Argument, Part, Reader, Shape};

/// Deepest nesting of one expression. minijinja takes 75 brackets in one another; no published template comes near.
const DEPTH: usize = 400;

/// Largest index that is looked up unweighed: a string is walked up to it.
const NEAR: usize = 4096;

impl<'s> Reader<'_, 's> {
    pub(super) fn expression(&mut self) -> Option<Part> {
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

    pub(super) fn either(&mut self) -> Option<Part> {
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

    pub(super) fn signed(&mut self) -> Option<Part> {
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

    pub(super) fn arguments(&mut self) -> Option<Vec<Argument<'s>>> {
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
}

/// Whether a number is an index that is looked up in little time.
fn is_near(number: &str) -> bool {
    number.parse::<usize>().is_ok_and(|index| index <= NEAR)
}
