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

mod expressions;
mod filters;

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

#[cfg(test)]
#[path = "meter_tests.rs"]
mod tests;
