//! A count as JSON: one shape for the command line, batches and the service's clients.
//!
//! Written by hand rather than derived, because the field names are a contract with scripts:
//! `total`, `confidence`, `bound`, `tokenizer`, `renderer`, `model`, `breakdown[]`, `by_kind`, `notes[]`.

use super::{Count, Part};
use serde_json::{Map, Value, json};

impl Part {
    /// The part as JSON; absent owners are left out, `bound` is null when unbounded.
    pub fn to_json(&self) -> Value {
        let mut out = Map::new();
        out.insert("kind".into(), self.kind.as_str().into());
        out.insert("path".into(), self.place.as_str().into());
        if let Some(role) = self.role {
            out.insert("role".into(), role.as_str().into());
        }
        if let Some(message) = self.message {
            out.insert("message".into(), message.into());
        }
        if let Some(name) = &self.name {
            out.insert("name".into(), name.as_str().into());
        }
        if let Some(server) = &self.server {
            out.insert("server".into(), server.as_str().into());
        }
        out.insert("tokens".into(), self.tokens.into());
        out.insert("confidence".into(), self.confidence.as_str().into());
        out.insert("bound".into(), self.bound.into());
        Value::Object(out)
    }
}

impl Count {
    /// The count as JSON. `by_kind` sums the breakdown; both sum to `total`.
    pub fn to_json(&self) -> Value {
        let breakdown = &self.breakdown;
        let mut by_kind = Map::new();
        for (kind, tokens) in breakdown.by_kind() {
            by_kind.insert(kind.as_str().into(), tokens.into());
        }
        json!({
            "total": breakdown.total(),
            "confidence": breakdown.confidence().as_str(),
            "bound": breakdown.bound(),
            "model": self.profile.id,
            "tokenizer": self.profile.tokenizer,
            "renderer": self.profile.renderer,
            "by_kind": by_kind,
            "breakdown": breakdown.parts().iter().map(Part::to_json).collect::<Vec<_>>(),
            "notes": breakdown.notes(),
        })
    }
}
