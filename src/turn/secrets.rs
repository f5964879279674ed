//! Secrets in tool results: found by shape, masked, counted. Off unless a host asks.
//!
//! Called on a result before it goes to the model. Rules are data (`data/secret_rules.json`, dated). A rule set can't know every
//! secret: masking lowers the risk, it is no proof. Linear in the text's length for each rule.

use super::reply::{Content, Outcome};
use regex::{Captures, Regex};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Text without the secrets that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Masked {
    /// The text, each secret replaced by `[masked: RULE]`.
    pub text: String,
    /// How many of each rule.
    pub counts: BTreeMap<String, u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Check {
    None,
    Luhn,
    Entropy,
}

struct Rule {
    name: String,
    pattern: Regex,
    check: Check,
}

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    // Part of the crate, and a test reads every row: one that doesn't compile is left out, not a panic.
    let file: Value = serde_json::from_str(include_str!("../../data/secret_rules.json")).unwrap_or_default();
    file.get("rows").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default().iter().filter_map(rule).collect()
});

fn rule(row: &Value) -> Option<Rule> {
    let check = match row.get(2).and_then(Value::as_str) {
        None => Check::None,
        Some("luhn") => Check::Luhn,
        Some("entropy") => Check::Entropy,
        Some(_) => return None,
    };
    Some(Rule { name: row.get(0)?.as_str()?.to_owned(), pattern: Regex::new(row.get(1)?.as_str()?).ok()?, check })
}

/// Masks what looks like a secret.
///
/// ```
/// let masked = plimsoll::turn::mask_secrets("card 4111 1111 1111 1111, order 4111 1111 1111 1112");
/// assert_eq!(masked.text, "card [masked: card_number], order 4111 1111 1111 1112");
/// assert_eq!(masked.counts["card_number"], 1);
/// ```
pub fn mask_secrets(text: &str) -> Masked {
    let mut masked = Masked { text: text.to_owned(), counts: BTreeMap::new() };
    for rule in RULES.iter() {
        let mut found = 0_u64;
        let replaced = rule.pattern.replace_all(&masked.text, |captures: &Captures<'_>| {
            let whole = captures.get(0).map_or("", |all| all.as_str());
            let secret = captures.name("secret").map_or(whole, |secret| secret.as_str());
            let real = match rule.check {
                Check::None => true,
                Check::Luhn => luhn(secret),
                Check::Entropy => is_random(secret),
            };
            if !real || secret.starts_with("[masked") {
                return whole.to_owned();
            }
            found += 1;
            whole.replacen(secret, &format!("[masked: {}]", rule.name), 1)
        });
        if found > 0 {
            masked.text = replaced.into_owned();
            masked.counts.insert(rule.name.clone(), found);
        }
    }
    masked
}

impl Outcome {
    /// Masks the texts and data of this outcome; gives how many of each rule were found.
    pub fn mask_secrets(&mut self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for piece in &mut self.content {
            match piece {
                Content::Text(text) => *text = count(mask_secrets(text), &mut counts),
                Content::Json(value) => mask_value(value, &mut counts),
                Content::Image { .. } => {}
            }
        }
        counts
    }
}

/// Masks the strings inside a value; keys stay, but a telling key and its value are looked at together.
fn mask_value(value: &mut Value, counts: &mut BTreeMap<String, u64>) {
    match value {
        Value::String(text) => *text = count(mask_secrets(text), counts),
        Value::Array(list) => list.iter_mut().for_each(|value| mask_value(value, counts)),
        Value::Object(map) => {
            for (key, value) in map {
                if let Value::String(text) = value {
                    let lead = format!("{key}: ");
                    let masked = mask_secrets(&format!("{lead}{text}"));
                    if let Some(rest) = masked.text.strip_prefix(&lead).map(str::to_owned) {
                        *text = count(Masked { text: rest, counts: masked.counts }, counts);
                        continue;
                    }
                }
                mask_value(value, counts);
            }
        }
        _ => {}
    }
}

fn count(masked: Masked, counts: &mut BTreeMap<String, u64>) -> String {
    for (rule, found) in masked.counts {
        *counts.entry(rule).or_default() += found;
    }
    masked.text
}

/// The check digit of card numbers.
fn luhn(text: &str) -> bool {
    let digits = text.bytes().rev().filter(u8::is_ascii_digit).map(|byte| u32::from(byte - b'0'));
    let sum: u32 =
        digits.enumerate().map(|(at, digit)| if at % 2 == 0 { digit } else { [0, 2, 4, 6, 8, 1, 3, 5, 7, 9][digit as usize % 10] }).sum();
    sum.is_multiple_of(10)
}

/// Whether a value behind a telling name looks random, and not like a word, a type or a placeholder.
fn is_random(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let placeholder =
        ["example", "placeholder", "changeme", "your", "xxxx", "****", "redacted", "process.env", "os.environ", "${", "null", "undefined"];
    if placeholder.iter().any(|word| lower.contains(word)) {
        return false;
    }
    let mut seen = [0_u32; 256];
    value.bytes().for_each(|byte| seen[usize::from(byte)] += 1);
    #[expect(clippy::cast_precision_loss, reason = "a value is short")]
    let length = value.len() as f64;
    let entropy: f64 = seen.iter().filter(|&&n| n > 0).map(|&n| f64::from(n) / length).map(|p| -p * p.log2()).sum();
    let kinds = [char::is_lowercase as fn(char) -> bool, char::is_uppercase, |c| c.is_ascii_digit(), |c| c.is_ascii_punctuation()];
    let kinds = kinds.iter().filter(|kind| value.chars().any(kind)).count();
    entropy > 2.5 && kinds >= 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_rule_compiles() {
        let file: Value = serde_json::from_str(include_str!("../../data/secret_rules.json")).unwrap();
        for row in file["rows"].as_array().unwrap() {
            assert!(rule(row).is_some(), "{row}");
        }
    }

    #[test]
    fn shapes_are_masked_and_counted() {
        // Put together from pieces so that no scanner takes this file for a leak.
        let cases = [
            ("github_token", format!("ghp_{}", "a1B2".repeat(9))),
            ("anthropic_key", format!("sk-ant-{}", "x9".repeat(20))),
            ("openai_key", format!("sk-proj-{}", "x9".repeat(20))),
            ("aws_access_key", format!("AKIA{}", "ABCD2345".repeat(2))),
            ("google_key", format!("AIza{}", "x".repeat(35))),
            ("jwt", format!("eyJ{0}.eyJ{0}.{0}", "hbGciOiJ")),
            ("private_key", format!("-----BEGIN {0}-----\nMIIB\n-----END {0}-----", "RSA PRIVATE KEY")),
        ];
        for (rule, secret) in cases {
            let masked = mask_secrets(&format!("before {secret} after"));
            assert_eq!(masked.text, format!("before [masked: {rule}] after"));
            assert_eq!(masked.counts.get(rule), Some(&1));
        }
        let masked = mask_secrets("postgres://app:hunter22@db/x password = \"Tr0ub4dor&3x\"");
        assert_eq!(masked.text, "postgres://app:[masked: url_password]@db/x password = \"[masked: named_secret]\"");
    }

    #[test]
    fn ordinary_text_stays() {
        for text in [
            "password: string, the user's password",
            "api_key = os.environ[\"KEY\"]",
            "order 1234567890123456",
            "sk-learn is a library",
            "see https://example.com/a:b@c",
            "commit 3b18e512dba79e4c8300dd08aeb37f8e728b8dad",
        ] {
            assert_eq!(mask_secrets(text).text, text);
        }
    }

    #[test]
    fn data_is_masked_inside() {
        let mut value = json!({"user": "ann", "api_key": "9f8A7b6C5d4E3f2A", "deep": [{"n": 1, "card": "5500 0000 0000 0004"}]});
        let mut counts = BTreeMap::new();
        mask_value(&mut value, &mut counts);
        assert_eq!(value, json!({"user": "ann", "api_key": "[masked: named_secret]", "deep": [{"n": 1, "card": "[masked: card_number]"}]}));
        assert_eq!(counts.values().sum::<u64>(), 2);
    }
}
