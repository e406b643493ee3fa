#![doc = include_str!("../README.md")]

mod check;
mod connection;
mod connections;
mod error;
mod fence;
mod guard;
mod notices;
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
pub use guard::{Bounds, Guard, Guardable, Guarded, Isolation};
pub use options::PostgresOptions;
pub use store::PostgresStore;
pub use {deadpool_postgres, tokio_postgres};
