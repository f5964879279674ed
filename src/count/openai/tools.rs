//! The block of text that shows the model its tools.
//!
//! Called by the renderer of this family. One piece a tool, so that each weighs what its own text weighs inside the whole.

use super::rules::Rules;
use super::sheet::{Piece, Sheet, of_tool};
use super::{RenderContext, has_functions, schema};
use crate::count::{Confidence, Part, PartKind};
use crate::error::Result;
use crate::format::{Tool, ToolKind};

const HEADING: &str = "# Tools\n\n## functions\n\n";
const OPEN: &str = "namespace functions {\n\n";
const CLOSE: &str = "} // namespace functions";

/// The pieces of the tool block; empty without function tools. Adds the block's own constants to the frame.
pub(super) fn block<'t>(context: &RenderContext<'_>, rules: &Rules, sheet: &mut Sheet) -> Result<Vec<Piece<'t>>> {
    let tools = &context.conversation.tools;
    for tool in tools.iter().filter(|tool| tool.kind == ToolKind::BuiltIn) {
        sheet.unknown(definition(tool));
    }
    if !has_functions(context) {
        return Ok(Vec::new());
    }
    let shown: Vec<&Tool<'_>> = tools.iter().filter(|tool| tool.kind == ToolKind::Function && !tool.deferred).collect();
    let mut pieces = Vec::with_capacity(shown.len() + 2);
    let open = if rules.tools_heading { format!("{HEADING}{OPEN}") } else { OPEN.to_owned() };
    pieces.push(Piece::new(Part::exact(PartKind::Overhead, "/tools", 0), open));
    for tool in &shown {
        let text = schema::function(tool.name, tool.description, tool.parameters)?;
        pieces.push(Piece::new(graded(tool), text));
    }
    pieces.push(Piece::new(Part::exact(PartKind::Overhead, "/tools", 0), CLOSE));
    sheet.frame(rules.tools_correction + rules.tools_hidden);
    if shown.first().is_some_and(|tool| tool.description.is_none_or(str::is_empty)) {
        sheet.frame(rules.undescribed);
    }
    Ok(pieces)
}

fn definition(tool: &Tool<'_>) -> Part {
    of_tool(Part::exact(PartKind::ToolDefinition, tool.place.as_str(), 0), tool.name)
}

/// Free-form tools have a layout that no bill has shown yet.
fn graded(tool: &Tool<'_>) -> Part {
    let part = definition(tool);
    if tool.raw.get("type").and_then(serde_json::Value::as_str) == Some("custom") {
        return Part { confidence: Confidence::Estimate, bound: Some(100), ..part };
    }
    part
}
