//! Guarded transactions through diesel, and diesel-async where the server is another process.

pub mod mysql;
pub mod postgres;
pub mod sqlite;

use diesel::QueryableByName;
use diesel::backend::Backend;
use diesel::deserialize::Result;
use diesel::row::NamedRow;

diesel::table! {
    /// The accounts.
    accounts (name) {
        /// Whose.
        name -> Text,
        /// What is on it.
        balance -> BigInt,
    }
}

/// A row, of which it counts that it came.
struct Row;

impl<DB: Backend> QueryableByName<DB> for Row {
    fn build<'a>(_: &impl NamedRow<'a, DB>) -> Result<Self> {
        Ok(Self)
    }
}
