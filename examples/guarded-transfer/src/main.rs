//! Money is moved under a lease, in a plain transaction and in a guarded one, by a process that is stopped in the middle:
//! `README.md` shows it.
//!
//! `guarded-transfer [DATABASE]` tells the story; the process that is stopped in it is this program once more.

mod bank;
mod mysql;
mod postgres;
mod sqlite;
mod story;
mod worker;

use std::env;

use crate::bank::{Outcome, Tables, open};
use crate::worker::Way;

#[tokio::main]
async fn main() -> Outcome<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => story::tell(None).await,
        [database] => story::tell(Some(database)).await,
        // What the story starts.
        ["worker", way, database, tables] => {
            let way = Way::named(way).ok_or("a way is plain or guarded")?;
            let bank = open(database, &Tables::named(tables)?).await?;
            worker::work(bank.as_ref(), way).await
        }
        _ => Err("usage: guarded-transfer [a SQLite file | postgres://... | mysql://...]".into()),
    }
}
