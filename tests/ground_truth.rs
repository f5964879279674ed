//! Reads every recorded body as its format: JSON and caps hold on real traffic.

mod common;

use plimsoll::{Format, Request};

#[test]
fn every_recorded_body_parses() {
    for (name, format) in [("chat", Format::Chat), ("anthropic", Format::Anthropic), ("gemini", Format::Gemini)] {
        let Some(exchanges) = common::exchanges(name) else { return };
        for exchange in exchanges {
            let body = exchange["request"].to_string();
            Request::parse(body.as_bytes(), format).unwrap_or_else(|e| panic!("{}: {e}", exchange["id"]));
        }
    }
}
