//! Guarded transactions: what they promise, and what becomes of them when something goes wrong.

#[path = "guards/elsewhere.rs"]
mod elsewhere;
#[path = "guards/files.rs"]
mod files;
#[path = "guards/loss.rs"]
mod loss;
#[path = "guards/outcomes.rs"]
mod outcomes;
#[cfg(target_os = "linux")]
#[path = "guards/processes.rs"]
mod processes;
#[path = "guards/refusals.rs"]
mod refusals;
#[path = "guards/renewals.rs"]
mod renewals;
#[path = "guards/scene.rs"]
mod scene;
#[expect(dead_code, reason = "shared with the tests of faults")]
#[path = "faults/support.rs"]
mod support;
