//! The mapping: servers' tool lists to one provider's tools, and names back to servers.
//!
//! Called by hosts and the `mcp` command. A pure function of the lists: the order of servers changes the order of tools and
//! nothing else. Tools that a provider can't take at all are an error; what is only lost in part is listed.

use super::names::{MAX_NAME, namespaced};
use super::schema::{Dropped, acceptable};
use crate::error::{Error, Kind, Result};
use crate::format::{Format, kind_of};
use crate::limits;
use indexmap::IndexMap;
use serde_json::{Map, Value, json};

/// One server's tools, as its `tools/list` gave them.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerTools {
    /// The server's name, as the host calls it.
    pub server: String,
    /// The tools, pages joined.
    pub tools: Vec<Value>,
    /// The last page names a further one: the list isn't whole.
    pub incomplete: bool,
}

/// One tool of one server, as a provider sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct MappedTool {
    /// The provider's name.
    pub name: String,
    /// The server.
    pub server: String,
    /// The server's own name for it.
    pub tool: String,
    /// The definition in the provider's shape (for Gemini one function declaration).
    pub definition: Value,
    /// What the provider's schema couldn't keep.
    pub dropped: Vec<Dropped>,
    /// The server says that it changes nothing. A hint, not a promise: believe it of servers you trust.
    pub read_only: bool,
}

/// Tools of several servers for one provider format.
#[derive(Clone, Debug, PartialEq)]
pub struct Mapping {
    format: Format,
    tools: IndexMap<String, MappedTool>,
}

impl ServerTools {
    /// Reads one or more pages of a `tools/list`: results, JSON-RPC replies around them, or bare arrays of tools.
    ///
    /// # Errors
    /// [`Kind::InvalidInput`] for another shape, with the page; a JSON-RPC error reply keeps its message.
    pub fn read(server: impl Into<String>, pages: &[Value]) -> Result<Self> {
        let server = server.into();
        let mut found = Self { server, tools: Vec::new(), incomplete: false };
        for (at, page) in pages.iter().enumerate() {
            let place = format!("/{at}");
            if let Some(error) = page.get("error").filter(|error| !error.is_null()) {
                let said = error.get("message").and_then(Value::as_str).unwrap_or("no message");
                return Err(
                    Error::new(Kind::Unavailable, format!("the server `{}` answered with an error: {said}", found.server)).at(place)
                );
            }
            let result = page.get("result").unwrap_or(page);
            let tools = result.get("tools").unwrap_or(result).as_array();
            let tools = tools.ok_or_else(|| Error::invalid(place, format!("expected a tools/list result, found {}", kind_of(result))))?;
            found.tools.extend(tools.iter().cloned());
            found.incomplete = result.get("nextCursor").and_then(Value::as_str).is_some_and(|cursor| !cursor.is_empty());
        }
        if found.tools.len() > limits::MAX_TOOLS {
            return Err(Error::new(Kind::LimitExceeded, format!("{} tools; at most {} are taken", found.tools.len(), limits::MAX_TOOLS)));
        }
        Ok(found)
    }
}

impl Mapping {
    /// Maps the tools of `servers` for `format`.
    ///
    /// ```
    /// use plimsoll::{Format, mcp::{Mapping, ServerTools}};
    /// let list = serde_json::json!({"tools": [{"name": "search", "inputSchema": {"type": "object"}}]});
    /// let mapping = Mapping::new(&[ServerTools::read("docs", &[list])?], Format::Chat)?;
    /// assert_eq!(mapping.definitions()[0]["function"]["name"], "docs__search");
    /// assert_eq!(mapping.resolve("docs__search"), Some(("docs", "search")));
    /// # Ok::<(), plimsoll::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Kind::InvalidInput`] for a tool without a name; [`Kind::Conflict`] for a server or tool named twice.
    pub fn new(servers: &[ServerTools], format: Format) -> Result<Self> {
        let mut tools: IndexMap<String, MappedTool> = IndexMap::new();
        for (nth, server) in servers.iter().enumerate() {
            if servers[..nth].iter().any(|earlier| earlier.server == server.server) {
                return Err(Error::new(Kind::Conflict, format!("two servers are named `{}`", server.server)));
            }
            for (at, raw) in server.tools.iter().enumerate() {
                let tool = raw.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
                let tool = tool.ok_or_else(|| Error::invalid(format!("/{at}"), format!("a tool of `{}` has no name", server.server)))?;
                let mapped = map(&server.server, tool, raw, format);
                if tools.contains_key(&mapped.name) {
                    return Err(Error::new(Kind::Conflict, format!("the server `{}` lists the tool `{tool}` twice", server.server)));
                }
                tools.insert(mapped.name.clone(), mapped);
            }
        }
        Ok(Self { format, tools })
    }

    /// The format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// All tools, in the servers' order.
    pub fn tools(&self) -> impl Iterator<Item = &MappedTool> {
        self.tools.values()
    }

    /// The provider's `tools` list (Converse: `toolConfig.tools`).
    pub fn definitions(&self) -> Vec<Value> {
        self.definitions_of(|_| true)
    }

    /// As [`Mapping::definitions`], of the tools that `keep` wants.
    pub fn definitions_of(&self, keep: impl Fn(&MappedTool) -> bool) -> Vec<Value> {
        let kept: Vec<Value> = self.tools.values().filter(|tool| keep(tool)).map(|tool| tool.definition.clone()).collect();
        // Gemini holds all functions in one tool.
        if self.format == Format::Gemini && !kept.is_empty() { vec![json!({"functionDeclarations": kept})] } else { kept }
    }

    /// The server and its own tool name behind a provider's name.
    pub fn resolve(&self, name: &str) -> Option<(&str, &str)> {
        self.tools.get(name).map(|tool| (tool.server.as_str(), tool.tool.as_str()))
    }

    /// A tool by the provider's name.
    pub fn get(&self, name: &str) -> Option<&MappedTool> {
        self.tools.get(name)
    }

    /// The reverse map as JSON: name → `{"server", "tool"}`.
    pub fn map_json(&self) -> Value {
        let entries = self.tools.values().map(|tool| (tool.name.clone(), json!({"server": tool.server, "tool": tool.tool})));
        Value::Object(entries.collect())
    }

    /// What the provider's schemas couldn't keep, as JSON.
    pub fn dropped_json(&self) -> Value {
        let all = self.tools.values().flat_map(|tool| tool.dropped.iter().map(move |lost| (tool, lost)));
        all.map(|(tool, lost)| json!({"tool": tool.name, "place": lost.place, "what": lost.what})).collect()
    }
}

fn map(server: &str, tool: &str, raw: &Value, format: Format) -> MappedTool {
    let name = namespaced(server, tool);
    debug_assert!(name.len() <= MAX_NAME);
    let (schema, mut dropped) = acceptable(raw.get("inputSchema").filter(|schema| !schema.is_null()), format);
    let words = raw.get("description").or_else(|| raw.get("title")).and_then(Value::as_str).filter(|words| !words.is_empty());
    let description = words.map(|words| cut(words, format, &mut dropped));
    for key in raw.as_object().into_iter().flatten().map(|(key, _)| key.as_str()) {
        // `outputSchema` and hints are for the host; no provider takes them.
        if !matches!(key, "name" | "title" | "description" | "inputSchema" | "annotations" | "_meta" | "icons" | "execution") {
            dropped.push(Dropped { place: String::new(), what: format!("the tool's `{}`, which providers don't take", cut_name(key)) });
        }
    }
    let mut definition = Map::new();
    if matches!(format, Format::Responses) {
        definition.insert("type".to_owned(), json!("function"));
    }
    definition.insert("name".to_owned(), json!(name));
    if let Some(description) = description {
        definition.insert("description".to_owned(), json!(description));
    }
    let (key, schema) = match format {
        Format::Anthropic => ("input_schema", schema),
        Format::Converse => ("inputSchema", json!({"json": schema})),
        Format::Mcp => ("inputSchema", schema),
        Format::Chat | Format::Responses | Format::Gemini => ("parameters", schema),
    };
    definition.insert(key.to_owned(), schema);
    if format == Format::Responses {
        // Left out it means true, which asks for a subset that MCP schemas don't keep to.
        definition.insert("strict".to_owned(), json!(false));
    }
    let definition = Value::Object(definition);
    let definition = match format {
        Format::Chat => json!({"type": "function", "function": definition}),
        Format::Converse => json!({"toolSpec": definition}),
        _ => definition,
    };
    let read_only = raw.pointer("/annotations/readOnlyHint").and_then(Value::as_bool) == Some(true);
    MappedTool { name, server: server.to_owned(), tool: tool.to_owned(), definition, dropped, read_only }
}

/// OpenAI refuses function descriptions over 1024 characters in chat (checked November 2026); others take long ones.
fn cut(words: &str, format: Format, dropped: &mut Vec<Dropped>) -> String {
    const MOST: usize = 1024;
    if format != Format::Chat || words.chars().count() <= MOST {
        return words.to_owned();
    }
    dropped.push(Dropped { place: "/description".to_owned(), what: format!("the description beyond {MOST} characters") });
    words.chars().take(MOST).collect()
}

fn cut_name(key: &str) -> String {
    key.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists() -> Vec<ServerTools> {
        let page = |names: &[&str], more: Option<&str>| {
            let tools: Vec<Value> =
                names.iter().map(|name| json!({"name": name, "description": "d", "inputSchema": {"type": "object"}})).collect();
            json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools, "nextCursor": more}})
        };
        vec![
            ServerTools::read("files", &[page(&["read", "write"], Some("2")), page(&["list"], None)]).unwrap(),
            ServerTools::read("web.site", &[json!([{"name": "read", "annotations": {"readOnlyHint": true}}])]).unwrap(),
        ]
    }

    #[test]
    fn names_survive_reordering_and_lead_back() {
        let forth = lists();
        let back: Vec<ServerTools> = forth.iter().rev().cloned().collect();
        for format in Format::ALL {
            let (one, two) = (Mapping::new(&forth, format).unwrap(), Mapping::new(&back, format).unwrap());
            for tool in one.tools() {
                assert_eq!(two.resolve(&tool.name), Some((tool.server.as_str(), tool.tool.as_str())));
                assert_eq!(two.get(&tool.name), Some(tool));
            }
        }
        let mapping = Mapping::new(&forth, Format::Chat).unwrap();
        assert_eq!(mapping.tools().filter(|tool| tool.read_only).count(), 1);
    }

    #[test]
    fn pages_are_joined_and_an_open_end_is_told() {
        let lists = lists();
        assert_eq!((lists[0].tools.len(), lists[0].incomplete), (3, false));
        let open = ServerTools::read("x", &[json!({"tools": [], "nextCursor": "more"})]).unwrap();
        assert!(open.incomplete);
        assert_eq!(ServerTools::read("x", &[json!({"error": {"code": -32601, "message": "no"}})]).unwrap_err().kind(), Kind::Unavailable);
        assert_eq!(ServerTools::read("x", &[json!(3)]).unwrap_err().path(), Some("/0"));
    }

    #[test]
    fn shapes_by_format() {
        let shape = |format| Mapping::new(&lists()[..1], format).unwrap().definitions();
        assert_eq!(shape(Format::Anthropic)[0]["input_schema"]["type"], "object");
        assert_eq!(shape(Format::Responses)[0]["strict"], false);
        assert_eq!(shape(Format::Converse)[0]["toolSpec"]["inputSchema"]["json"]["type"], "object");
        assert_eq!(shape(Format::Gemini)[0]["functionDeclarations"].as_array().map(Vec::len), Some(3));
    }

    #[test]
    fn a_name_given_twice_is_a_conflict() {
        let twice = [ServerTools::read("a", &[json!([{"name": "x"}, {"name": "x"}])]).unwrap()];
        assert_eq!(Mapping::new(&twice, Format::Chat).unwrap_err().kind(), Kind::Conflict);
        assert_eq!(Mapping::new(&[lists()[0].clone(), lists()[0].clone()], Format::Chat).unwrap_err().kind(), Kind::Conflict);
    }
}
