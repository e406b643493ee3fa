#![doc = include_str!("../README.md")]

mod check;
mod connection;
mod connections;
mod error;
mod fence;
mod guard;
mod opener;
mod options;
mod product;
mod row;
mod schema;
mod sql;
mod store;
mod tls;
mod url;

pub use fence::Fence;
pub use guard::{Bounds, Guard, Guarded, Isolation};
pub use options::MysqlOptions;
pub use store::MysqlStore;

/// The driver, whose pool and configuration a store can be opened with.
pub use mysql_async;
