//! What a host allows: rules by tool name, limits, and the words for verdicts.
//!
//! Plain data, made by hosts, read by the judge. The default asks about nothing but what can't be known, and refuses
//! whatever isn't whole and valid.

/// What may be done with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Whole, valid, allowed.
    Run,
    /// A person (or the host) has to decide.
    Ask,
    /// Not to be run; the judgement carries the message to send back.
    Refuse,
}

impl Verdict {
    /// The name used on the wire and in JSON output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Ask => "ask",
            Self::Refuse => "refuse",
        }
    }
}

/// Why a verdict is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Why {
    /// Nothing stands against it.
    Allowed,
    /// A rule of the policy says so.
    Policy,
    /// No tools were named to the gate, so that nothing can be checked.
    ToolsUnknown,
    /// The tool isn't among those offered.
    UnknownTool,
    /// The answer isn't whole.
    TurnIncomplete,
    /// The answer was cut by a limit.
    CutByLength,
    /// The provider's filter or the model's refusal ended the answer.
    Filtered,
    /// The finish reason isn't known, or is missing.
    FinishUnknown,
    /// The provider says that the call itself is malformed.
    Malformed,
    /// Another choice of the same answer is used.
    OtherChoice,
    /// The arguments aren't complete JSON, or not an object.
    BadJson,
    /// A key stands twice in the arguments: readers differ in which one they take.
    DuplicateKey,
    /// The arguments break the tool's schema.
    BySchema,
    /// The tool's schema itself can't be used, so that arguments can't be checked.
    SchemaUnusable,
    /// No id to answer to.
    IdMissing,
    /// The id was used before.
    IdRepeated,
    /// The same call was let through before.
    Duplicate,
    /// The same call again and again.
    Loop,
    /// Arguments over the policy's size.
    TooLarge,
    /// Over the policy's calls per turn.
    TooManyCalls,
    /// Over the policy's turns.
    TooManyTurns,
}

impl Why {
    /// The name used on the wire and in JSON output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Policy => "policy",
            Self::ToolsUnknown => "tools_unknown",
            Self::UnknownTool => "unknown_tool",
            Self::TurnIncomplete => "turn_incomplete",
            Self::CutByLength => "cut_by_length",
            Self::Filtered => "filtered",
            Self::FinishUnknown => "finish_unknown",
            Self::Malformed => "malformed",
            Self::OtherChoice => "other_choice",
            Self::BadJson => "bad_json",
            Self::DuplicateKey => "duplicate_key",
            Self::BySchema => "schema",
            Self::SchemaUnusable => "schema_unusable",
            Self::IdMissing => "id_missing",
            Self::IdRepeated => "id_repeated",
            Self::Duplicate => "duplicate",
            Self::Loop => "loop",
            Self::TooLarge => "too_large",
            Self::TooManyCalls => "too_many_calls",
            Self::TooManyTurns => "too_many_turns",
        }
    }
}

/// How much harm a call can do, in the host's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Risk {
    /// Changes nothing.
    ReadOnly,
    /// Changes something that can be put right.
    Write,
    /// Can't be undone, costs money, or reaches other people.
    HighRisk,
    /// The host said nothing about it.
    Unlabelled,
}

impl Risk {
    /// The name used on the wire and in JSON output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read_only",
            Self::Write => "write",
            Self::HighRisk => "high_risk",
            Self::Unlabelled => "unlabelled",
        }
    }
}

/// One rule: tools whose name matches get this risk label and at best this verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The tool's name; `*` stands for any run of characters.
    pub pattern: String,
    /// The label for the audit record.
    pub risk: Risk,
    /// The best verdict that a matching call can get.
    pub verdict: Verdict,
}

impl Rule {
    /// A rule.
    pub fn new(pattern: impl Into<String>, risk: Risk, verdict: Verdict) -> Self {
        Self { pattern: pattern.into(), risk, verdict }
    }
}

/// What a host allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The first rule that matches a tool's name decides; without one, `otherwise` does.
    pub rules: Vec<Rule>,
    /// The verdict where no rule matches.
    pub otherwise: Verdict,
    /// Most calls let through in one turn.
    pub calls_per_turn: usize,
    /// Most turns judged by one gate: a bound on the loop.
    pub turns: u32,
    /// How often the same call (name and canonical arguments) may be let through in a task before it is refused as a
    /// duplicate. One more try than this by the model is flagged as a loop.
    pub repeats: u32,
    /// Verdict for a repeat within that bound, after the first: a read may be repeated, a write rather not.
    pub on_repeat: Verdict,
    /// Largest arguments, in bytes.
    pub argument_bytes: usize,
    /// Lets the complete calls before the last one of an answer cut by length be judged on their own. The last is refused always.
    pub run_before_cut: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            otherwise: Verdict::Run,
            calls_per_turn: 32,
            turns: 100,
            repeats: 3,
            on_repeat: Verdict::Ask,
            argument_bytes: 1 << 20,
            run_before_cut: false,
        }
    }
}

impl Policy {
    /// The label and the best verdict for a tool.
    pub(super) fn of(&self, name: &str, read_only: bool) -> (Risk, Verdict) {
        let rule = self.rules.iter().find(|rule| matches(&rule.pattern, name));
        let unlabelled = if read_only { Risk::ReadOnly } else { Risk::Unlabelled };
        rule.map_or((unlabelled, self.otherwise), |rule| (rule.risk, rule.verdict))
    }
}

/// Whether `name` matches `pattern`, in which `*` stands for any run of characters. Linear in practice: it goes back to
/// the last star only.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(byte) if *byte == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    n = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern.get(p..).unwrap_or_default().iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("read*", "read_file", true),
            ("*__delete*", "github__delete_repo", true),
            ("*file", "file_read", false),
            ("a*b*c", "a-b-b-c", true),
            ("read", "read_file", false),
            ("", "", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
