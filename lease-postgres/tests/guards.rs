//! Guarded transactions: what they promise, and what they cost.

#[path = "common/mod.rs"]
mod common;
#[path = "guards/endings.rs"]
mod endings;
#[path = "guards/losses.rs"]
mod losses;
#[path = "guards/outcomes.rs"]
mod outcomes;
#[path = "guards/support.rs"]
mod support;
