//! Names that every provider takes, one for each tool of each server, the same whatever else is loaded.
//!
//! Used by the mapping. A name depends on its server's and its own name alone, so that adding, removing or reordering servers
//! renames nothing (and breaks no cached prefix). Where spelling has to change, a hash of the original keeps names apart.

use twox_hash::XxHash3_64;
/// Most characters of a tool name: OpenAI, Gemini and Converse stop at 64, Anthropic at 128 (November 2026).
pub(super) const MAX_NAME: usize = 64;

/// The provider's name of a server's tool: `server__tool` when both are plain, else shortened with a hash.
pub(super) fn namespaced(server: &str, tool: &str) -> String {
    let plain = format!("{}__{}", clean(server), clean(tool));
    // Names that could be read in two ways get the hash as well: `a__b` + `c` and `a` + `b__c`.
    let exact = plain.len() <= MAX_NAME
        && clean(server) == server
        && clean(tool) == tool
        && !server.contains("__")
        && !server.ends_with('_')
        && !tool.starts_with('_')
        && plain.starts_with(|first: char| first.is_ascii_alphabetic());
    if exact {
        return plain;
    }
    let hash = format!("{:08x}", XxHash3_64::oneshot(format!("{server}\0{tool}").as_bytes()) & 0xFFFF_FFFF);
    let plain = if plain.starts_with(|first: char| first.is_ascii_alphabetic()) { plain } else { format!("t{plain}") };
    let keep = MAX_NAME - hash.len() - 1;
    let kept = plain.get(..keep).unwrap_or(&plain).trim_end_matches('_');
    format!("{kept}_{hash}")
}

/// Only letters, digits, `_` and `-`, in ASCII; others become `_`. Never empty.
fn clean(name: &str) -> String {
    let cleaned: String = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' }).collect();
    if cleaned.is_empty() { "_".to_owned() } else { cleaned }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_stay_readable() {
        assert_eq!(namespaced("github", "create_issue"), "github__create_issue");
    }

    #[test]
    fn odd_names_are_valid_and_apart() {
        let pairs = [
            ("a__b", "c"),
            ("a", "b__c"),
            ("a_", "b"),
            ("a", "_b"),
            ("a.b", "c"),
            ("a b", "c"),
            ("é", "ü"),
            ("", ""),
            ("1", "2"),
            ("server", "x.y"),
            ("server", "x/y"),
            ("server", "x_y"),
            ("a", &"t".repeat(80)),
            ("a", &"t".repeat(81)),
            ("s", "日本"),
            ("s", "日木"),
        ];
        let mut names: Vec<String> = pairs.iter().map(|(server, tool)| namespaced(server, tool)).collect();
        for name in &names {
            assert!(name.len() <= MAX_NAME && name.starts_with(|c: char| c.is_ascii_alphabetic()), "{name}");
            assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'), "{name}");
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), pairs.len());
    }
}
