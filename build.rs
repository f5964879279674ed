//! Nothing to prepare yet.

fn main() {}
