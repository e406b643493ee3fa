//! Whole clusters, simulated.

pub mod cluster;
mod command;
mod elsewhere;
pub mod report;

pub use command::{Choice, run};
