//! What a lease could cost at least: the shortest statements that do the job, prepared, through the bare driver. Nothing here uses a
//! crate of this workspace, and none of its SQL is ours.
//!
//! It knows what it will find, as a store does not: whether a name is on record, whether it is free. What it leaves out beside that
//! is all that makes a lease safe where defaults are not what they should be.

mod mysql;
mod postgres;
mod sqlite;

use crate::Outcome;
use crate::engine::{Engine, Place};
use crate::party::Party;

pub(crate) async fn join(place: &Place) -> Outcome<Box<dyn Party>> {
    Ok(match place.engine {
        Engine::Sqlite => Box::new(sqlite::Floor::open(&place.at)?),
        Engine::Postgres => Box::new(postgres::Floor::open(&place.at).await?),
        Engine::Mariadb | Engine::Mysql => Box::new(mysql::Floor::open(&place.at).await?),
    })
}

/// What the engine calls its version.
pub(crate) async fn version(place: &Place) -> Outcome<String> {
    match place.engine {
        Engine::Sqlite => Ok(rusqlite::version().to_owned()),
        Engine::Postgres => postgres::version(&place.at).await,
        Engine::Mariadb | Engine::Mysql => mysql::version(&place.at).await,
    }
}

/// Names that nobody has had, all of one party.
#[derive(Debug)]
struct Names {
    own: String,
    count: u64,
}

impl Names {
    fn new() -> Self {
        Self { own: crate::engine::fresh_name("floor"), count: 0 }
    }

    fn next(&mut self) -> String {
        self.count += 1;
        format!("{} {}", self.own, self.count)
    }
}

const HOLDER: &str = "0123456789abcdef0123456789abcdef";
const SOMEBODY_ELSE: &str = "fedcba9876543210fedcba9876543210";
