//! Faults on real servers: processes that use the library as programs do, attacked while they say what they believe.
//!
//! A [`Plan`] says which faults befall a history, by a seed. Each history has a database of its own, at least three workers (this
//! program again, as [`worker()`]), and a proxy before each. What all have said is judged by the [checkers](crate::check).

mod attack;
mod backend;
mod command;
mod crew;
mod disks;
mod figures;
mod floors;
mod ground;
mod inject;
mod jobs;
mod kind;
mod ledger;
mod order;
mod place;
mod plan;
mod random;
mod report;
mod spawn;
mod worker;
mod world;

pub use attack::Length;
pub use backend::Backend;
pub use command::{Choice, run};
pub use jobs::Tier;
pub use kind::{Kind, Setting};
pub use order::Order;
pub use place::Place;
pub use plan::{Injection, Moment, Plan};
pub use random::Random;

/// Why the lab itself cannot go on: for people.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The life of a worker, which this word orders.
///
/// # Errors
///
/// The word is no order, or the worker could not begin.
pub async fn worker(word: &str) -> Result<(), Failure> {
    worker::serve(Order::from_word(word)?).await
}
