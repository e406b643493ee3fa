//! A database for a test whose processes find their table by a URL alone.

use crate::common::{Sql, shared, unique};

/// A database of a test's own, empty.
pub(crate) struct Database {
    pub(crate) url: String,
    name: String,
}

impl Database {
    pub(crate) async fn new() -> Self {
        let (server, name) = (shared(), unique("lease_database"));
        Sql::connect(&server).await.run(&format!("CREATE DATABASE {name}")).await;
        Self { url: format!("{}/{name}", server.rsplit_once('/').expect("a URL with a database").0), name }
    }

    /// Drops it, whoever is still connected. A test that fails leaves it, to be looked at.
    pub(crate) async fn end(self) {
        Sql::connect(&shared()).await.run(&format!("DROP DATABASE {} WITH (FORCE)", self.name)).await;
    }
}
