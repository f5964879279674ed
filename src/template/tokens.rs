//! The tags of a Jinja template and their tokens, as minijinja reads them with its ordinary delimiters.
//!
//! Called by [`super::meter`]. Where a place reads in two ways, or in none, the answer is that it isn't understood: nothing here guesses.

/// One token of a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'s> {
    pub(super) kind: Kind,
    pub(super) text: &'s str,
    /// Where it starts, in bytes.
    pub(super) at: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Name,
    /// A string with its quotes.
    Text,
    Number,
    /// An operator, a bracket, a comma.
    Sign,
}

impl Token<'_> {
    pub(super) fn end(&self) -> usize {
        self.at + self.text.len()
    }
}

/// `{{ … }}` or `{% … %}` without what surrounds the tokens.
#[derive(Debug)]
pub(super) struct Tag<'s> {
    /// Whether it's a statement, not an expression to print.
    pub(super) statement: bool,
    pub(super) tokens: Vec<Token<'s>>,
}

/// All tags of a template outside its comments and raw blocks; the byte where reading stops making sense.
pub(super) fn tags(source: &str) -> Result<Vec<Tag<'_>>, usize> {
    let mut tags = Vec::new();
    let mut at = 0;
    while let Some((start, mark)) = next_mark(source, at) {
        let body = start + 2 + usize::from(rest(source, start + 2).starts_with(['-', '+']));
        match mark {
            b'#' => at = body + rest(source, body).find("#}").ok_or(start)? + 2,
            b'%' => {
                if let Some(length) = lone_tag(rest(source, body), "raw") {
                    at = after_raw(source, body + length).ok_or(start)?;
                    continue;
                }
                let (tokens, end) = tokens(source, body, "%}")?;
                tags.push(Tag { statement: true, tokens });
                at = end;
            }
            _ => {
                let (tokens, end) = tokens(source, body, "}}")?;
                tags.push(Tag { statement: false, tokens });
                at = end;
            }
        }
    }
    Ok(tags)
}

fn rest(source: &str, at: usize) -> &str {
    source.get(at..).unwrap_or_default()
}

/// The next `{{`, `{%` or `{#`: where it is, and its second byte.
fn next_mark(source: &str, from: usize) -> Option<(usize, u8)> {
    let mut at = from;
    loop {
        at += rest(source, at).find('{')?;
        match source.as_bytes().get(at + 1) {
            Some(mark @ (b'{' | b'%' | b'#')) => return Some((at, *mark)),
            _ => at += 1,
        }
    }
}

/// The length of `WORD %}` at the start of `text`, if that's what stands there.
fn lone_tag(text: &str, word: &str) -> Option<usize> {
    let space = |c: char| c.is_ascii_whitespace();
    let after = text.trim_start_matches(space).strip_prefix(word)?.trim_start_matches(space);
    let after = after.strip_prefix(['-', '+']).unwrap_or(after).strip_prefix("%}")?;
    Some(text.len() - after.len())
}

fn after_raw(source: &str, from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += rest(source, at).find("{%")? + 2;
        let signed = usize::from(rest(source, at).starts_with(['-', '+']));
        if let Some(length) = lone_tag(rest(source, at + signed), "endraw") {
            return Some(at + signed + length);
        }
    }
}

/// The tokens from `at` to the tag's end, and where the tag ends.
fn tokens<'s>(source: &'s str, mut at: usize, close: &str) -> Result<(Vec<Token<'s>>, usize), usize> {
    let mut tokens: Vec<Token<'s>> = Vec::new();
    let mut open = 0_usize;
    loop {
        let text = rest(source, at);
        let here = text.trim_start_matches(|c: char| c.is_ascii_whitespace());
        at += text.len() - here.len();
        if open == 0 {
            let unsigned = here.strip_prefix(['-', '+']).filter(|after| after.starts_with(close)).unwrap_or(here);
            if unsigned.starts_with(close) {
                return Ok((tokens, at + here.len() - unsigned.len() + close.len()));
            }
        }
        let (kind, length) = token(here, tokens.last()).ok_or(at)?;
        let text = here.get(..length).ok_or(at)?;
        match text {
            "(" | "[" | "{" => open += 1,
            ")" | "]" | "}" => open = open.checked_sub(1).ok_or(at)?,
            _ => {}
        }
        tokens.push(Token { kind, text, at });
        at += length;
    }
}

/// The kind and length of the token at the start of `text`, which isn't white space.
fn token(text: &str, before: Option<&Token<'_>>) -> Option<(Kind, usize)> {
    let first = text.chars().next()?;
    match first {
        '\'' | '"' => {
            let mut escaped = false;
            let closing = |c: char| {
                let closes = !escaped && c == first;
                escaped = !escaped && c == '\\';
                closes
            };
            let inside = text.get(1..)?.find(closing)?;
            Some((Kind::Text, inside + 2))
        }
        '0'..='9' => number(text, before.is_some_and(|token| token.text == ".")).map(|length| (Kind::Number, length)),
        _ if is_word(first) => Some((Kind::Name, text.find(|c| !is_word(c)).unwrap_or(text.len()))),
        _ => {
            let two = ["//", "**", "==", "!=", ">=", "<="];
            if two.iter().any(|sign| text.starts_with(sign)) {
                return Some((Kind::Sign, 2));
            }
            "+-*/%.,:~|=><()[]{}".contains(first).then_some((Kind::Sign, 1))
        }
    }
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// The length of a number: `12`, `0x1f`, `1_000`, `1.5`, `2e-3`. After a dot it's an index, without a fraction.
fn number(text: &str, is_index: bool) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    if bytes.first() == Some(&b'0') && matches!(bytes.get(1), Some(b'b' | b'B' | b'o' | b'O' | b'x' | b'X')) {
        at = 2 + bytes.iter().skip(2).take_while(|byte| byte.is_ascii_hexdigit() || **byte == b'_').count();
    } else {
        let (mut whole, mut exponent) = (true, false);
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'0'..=b'9' | b'_' => {}
                b'.' if whole && !is_index && !rest(text, at + 1).starts_with(|c| is_word(c) && !c.is_ascii_digit()) => whole = false,
                b'e' | b'E' if !exponent => {
                    (whole, exponent) = (false, true);
                    at += usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
                }
                _ => break,
            }
            at += 1;
        }
    }
    // A word that touches a number would be read otherwise elsewhere.
    (!rest(text, at).starts_with(is_word)).then_some(at)
}
