#![doc = include_str!("../README.md")]

mod check;
mod connection;
mod courtesy;
mod error;
mod fence;
mod file_system;
mod files;
mod guard;
mod notices;
mod options;
mod path;
mod queue;
mod row;
mod schema;
mod slot;
mod sql;
mod store;
mod worker;

pub use fence::Fence;
pub use guard::{Guard, Guarded};
pub use options::SqliteOptions;
pub use store::SqliteStore;

/// The code in the project's own README is compiled with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct ProjectReadme;
