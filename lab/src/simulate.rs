//! Whole clusters, simulated.

pub mod cluster;
mod command;
pub mod report;

pub use command::{Choice, run};
