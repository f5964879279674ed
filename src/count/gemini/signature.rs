//! Thought signatures: what the reasoning behind them costs when it is replayed.
//!
//! A signature can't be tokenized. It costs exactly the thoughts that the response which made it reported, if the host
//! counts it at all: by generation, mode and the signature's own wrapping. Not remembered: estimated from its length.

use super::super::render::RenderContext;
use super::family::{Generation, Mode};
use super::text::Weight;
use crate::format::{ItemBody, Message, Role};
use base64::Engine as _;

/// First byte of a bare signature, as Google's hosts make them since the summer of 2026.
const BARE: u8 = 0x01;
/// First bytes of a signature wrapped in a message (fields 1 and 2), all that was seen before.
const WRAPPED: [u8; 2] = [0x0a, 0x12];

/// Index of the message from which on signatures are still part of the prompt: the newest user message that answers no call.
pub(super) fn current_turn(messages: &[Message<'_>]) -> usize {
    let starts = |message: &Message<'_>| {
        message.listed && message.role == Role::User && !message.items.iter().any(|item| matches!(item.body, ItemBody::ToolResult(_)))
    };
    messages.iter().rposition(starts).unwrap_or(0)
}

/// What one signature weighs.
pub(super) fn weigh(signature: &str, current: bool, generation: Generation, mode: Mode, context: &RenderContext<'_>) -> Weight {
    let first = first_byte(signature);
    let real = first.is_some_and(|byte| byte == BARE || WRAPPED.contains(&byte));
    // Hosts that have no signature send an agreed stand-in text, which costs nothing.
    if !real || generation == Generation::Two || !(current || generation == Generation::ThreeSix) {
        return Weight::exact(0);
    }
    let tokens = context.memory.recall(signature).map_or_else(|| estimate(signature, generation), Weight::exact);
    match (generation, mode) {
        (Generation::TwoFive, Mode::Prompt) => match context.stream {
            Some(true) => tokens,
            Some(false) => Weight::exact(0),
            None => Weight::estimate(0, tokens.tokens.saturating_add(tokens.bound.unwrap_or(0))),
        },
        // Counted in all recorded bills but one, so that the bound of an unknown one reaches down to nothing.
        (Generation::TwoFive, Mode::Strings) => match tokens.bound {
            Some(0) => tokens,
            _ => Weight::estimate(tokens.tokens, tokens.tokens.max(tokens.bound.unwrap_or(0))),
        },
        (_, Mode::Strings) if first != Some(BARE) => Weight::exact(0),
        _ => tokens,
    }
}

/// Tokens by decoded length. Fitted 2026-11-30 on 246 responses with one signature: median error 6%, worst 60%.
fn estimate(signature: &str, generation: Generation) -> Weight {
    let bytes = super::super::media::byte_len(signature);
    let tokens = if generation.is_three() {
        (bytes.saturating_mul(27) / 100).saturating_sub(20)
    } else {
        (bytes.saturating_mul(22) / 100).saturating_sub(4)
    };
    let share = if generation.is_three() { tokens / 3 } else { tokens / 2 };
    Weight::estimate(tokens, share.saturating_add(25))
}

/// The first decoded byte, in either alphabet.
fn first_byte(signature: &str) -> Option<u8> {
    let head = signature.get(..4)?.replace('-', "+").replace('_', "/");
    base64::engine::general_purpose::STANDARD.decode(head).ok()?.first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_signatures_from_stand_ins() {
        assert_eq!(first_byte("CosCAY89"), Some(0x0a));
        assert_eq!(first_byte("EjQKMgEM"), Some(0x12));
        assert_eq!(first_byte("AY89a1-O"), Some(0x01));
        assert_eq!(first_byte("skip_thought_signature_validator"), Some(0xb2));
        assert_eq!(first_byte("ab"), None);
        assert_eq!(first_byte("é€"), None);
    }
}
