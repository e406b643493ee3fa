#![doc = include_str!("../README.md")]

mod check;
mod connection;
mod error;
mod lent;
mod opener;
mod options;
mod row;
mod schema;
mod server;
mod sql;
mod store;
mod url;

pub use options::MysqlOptions;
pub use store::MysqlStore;

/// The driver, whose pool and configuration a store can be opened with.
pub use mysql_async;
