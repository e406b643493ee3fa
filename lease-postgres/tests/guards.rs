//! Guarded transactions: what they promise, and what they cost.

#[path = "guards/bounds.rs"]
mod bounds;
#[path = "common/mod.rs"]
mod common;
#[path = "guards/cuts.rs"]
mod cuts;
#[path = "guards/elsewhere.rs"]
mod elsewhere;
#[path = "guards/endings.rs"]
mod endings;
#[path = "guards/levels.rs"]
mod levels;
#[path = "guards/losses.rs"]
mod losses;
#[path = "guards/outcomes.rs"]
mod outcomes;
#[path = "guards/pieces.rs"]
mod pieces;
#[path = "guards/poolers.rs"]
mod poolers;
#[path = "guards/process.rs"]
mod process;
#[path = "guards/processes.rs"]
mod processes;
#[path = "guards/sessions.rs"]
mod sessions;
#[path = "guards/support.rs"]
mod support;
#[path = "guards/trips.rs"]
mod trips;
