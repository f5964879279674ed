//! What tools weigh, by tool and by server, and which to leave out for a budget.
//!
//! Called by hosts and the `mcp` command. Counts through the one [`Counter`], so that the figures are those of a real request.

use super::tools::Mapping;
use crate::count::{Confidence, CountOptions, Counter, PartKind};
use crate::error::{Error, Kind, Result};
use crate::format::{Format, Request};
use indexmap::IndexMap;
use serde_json::{Value, json};

/// One tool's weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCost {
    /// The provider's name.
    pub name: String,
    /// Its server.
    pub server: String,
    /// Tokens of its definition.
    pub tokens: u64,
}

/// One server's weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerCost {
    /// The server.
    pub server: String,
    /// How many tools.
    pub tools: usize,
    /// Tokens of all its definitions.
    pub tokens: u64,
}

/// What a mapping weighs in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCosts {
    /// Each tool, in the mapping's order.
    pub tools: Vec<ToolCost>,
    /// Each server, in the mapping's order.
    pub servers: Vec<ServerCost>,
    /// What comes with having tools at all (hidden prompts, framing).
    pub overhead: u64,
    /// All of it: what a request grows by.
    pub total: u64,
    /// How sure the figures are.
    pub confidence: Confidence,
}

/// Tools to leave out for a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaveOut {
    /// The provider's names, in the order in which to drop them.
    pub names: Vec<String>,
    /// Tokens that are left.
    pub tokens: u64,
    /// Whether that is within the budget.
    pub fits: bool,
}

impl Mapping {
    /// Weighs the tools in a small request of the mapping's format to the model that `options` names.
    ///
    /// # Errors
    /// As [`Counter::count`]; [`Kind::Unsupported`] for the `mcp` format, which nobody bills.
    pub fn costs(&self, counter: &Counter, options: &CountOptions) -> Result<ToolCosts> {
        let count = |tools: Vec<Value>| -> Result<crate::count::Breakdown> {
            let body = request(self.format(), tools)?;
            Ok(counter.count(&Request::parse(body.to_string().as_bytes(), self.format())?, options)?.breakdown)
        };
        let (bare, loaded) = (count(Vec::new())?, count(self.definitions())?);
        let total = loaded.total().saturating_sub(bare.total());
        let parts = loaded.parts().iter().filter(|part| part.kind == PartKind::ToolDefinition);
        let mut by_name: IndexMap<&str, u64> = IndexMap::new();
        for part in parts {
            let tokens = by_name.entry(part.name.as_deref().unwrap_or_default()).or_default();
            *tokens = tokens.saturating_add(part.tokens);
        }
        let tools: Vec<ToolCost> = self
            .tools()
            .map(|tool| ToolCost {
                name: tool.name.clone(),
                server: tool.server.clone(),
                tokens: by_name.get(tool.name.as_str()).copied().unwrap_or(0),
            })
            .collect();
        let mut servers: Vec<ServerCost> = Vec::new();
        for tool in &tools {
            match servers.iter_mut().find(|server| server.server == tool.server) {
                Some(server) => {
                    server.tools += 1;
                    server.tokens = server.tokens.saturating_add(tool.tokens);
                }
                None => servers.push(ServerCost { server: tool.server.clone(), tools: 1, tokens: tool.tokens }),
            }
        }
        let defined = tools.iter().fold(0_u64, |sum, tool| sum.saturating_add(tool.tokens));
        Ok(ToolCosts { tools, servers, overhead: total.saturating_sub(defined), total, confidence: loaded.confidence() })
    }
}

impl ToolCosts {
    /// Which tools to leave out so that the rest weighs at most `budget` tokens: the heaviest first, those in `used` (called before
    /// in the task) last.
    pub fn leave_out(&self, budget: u64, used: &[&str]) -> LeaveOut {
        let mut order: Vec<&ToolCost> = self.tools.iter().collect();
        order.sort_by(|a, b| {
            let called = |tool: &ToolCost| used.contains(&tool.name.as_str());
            called(a).cmp(&called(b)).then(b.tokens.cmp(&a.tokens)).then_with(|| a.name.cmp(&b.name))
        });
        let (mut left, mut names) = (self.total, Vec::new());
        for tool in order {
            if left <= budget {
                break;
            }
            left = left.saturating_sub(tool.tokens);
            names.push(tool.name.clone());
        }
        if names.len() == self.tools.len() {
            left = 0;
        }
        LeaveOut { names, tokens: left, fits: left <= budget }
    }

    /// The costs as JSON: one row a tool.
    pub fn to_json(&self) -> Value {
        self.tools.iter().map(|tool| json!({"name": tool.name, "server": tool.server, "tokens": tool.tokens})).collect()
    }

    /// The costs by server as JSON.
    pub fn servers_json(&self) -> Value {
        self.servers.iter().map(|server| json!({"server": server.server, "tools": server.tools, "tokens": server.tokens})).collect()
    }
}

/// The smallest request that may hold tools.
fn request(format: Format, tools: Vec<Value>) -> Result<Value> {
    let mut body = match format {
        Format::Chat | Format::Anthropic => json!({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 16}),
        Format::Responses => json!({"input": "Hi"}),
        Format::Gemini => json!({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}),
        Format::Converse => json!({"messages": [{"role": "user", "content": [{"text": "Hi"}]}]}),
        Format::Mcp => return Err(Error::new(Kind::Unsupported, "tools are weighed in a provider's format, not in MCP's own")),
    };
    if let (false, Some(map)) = (tools.is_empty(), body.as_object_mut()) {
        if format == Format::Converse {
            map.insert("toolConfig".to_owned(), json!({"tools": tools}));
        } else {
            map.insert("tools".to_owned(), Value::Array(tools));
        }
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heaviest_unused_go_first() {
        let tool = |name: &str, tokens| ToolCost { name: name.into(), server: "s".into(), tokens };
        let costs = ToolCosts {
            tools: vec![tool("a", 50), tool("b", 200), tool("c", 100)],
            servers: Vec::new(),
            overhead: 10,
            total: 360,
            confidence: Confidence::Exact,
        };
        assert_eq!(costs.leave_out(400, &[]), LeaveOut { names: vec![], tokens: 360, fits: true });
        assert_eq!(costs.leave_out(200, &[]).names, ["b"]);
        assert_eq!(costs.leave_out(250, &["b"]).names, ["c", "a"]);
        assert_eq!(costs.leave_out(5, &[]), LeaveOut { names: vec!["b".into(), "c".into(), "a".into()], tokens: 0, fits: true });
    }
}
