//! The trial of slots: processes that work a schedule, killed at random, and a log that must account for every instant.
//!
//! A [`Trial`] starts the workers, each a process of its own that calls [`work`], kills them, and at the end has [`check`]
//! judge the log that the work itself has written. Each process is the test's executable once more:
//!
//! ```no_run
//! use std::{env, process::Command, sync::Arc, time::Duration};
//! use lease_testkit::rounds::{Order, Trial, work};
//! # async fn open() -> Arc<dyn lease_core::LeaseStore> { unimplemented!() }
//!
//! # mod example { use super::*;
//! #[tokio::test]
//! # async fn unnamed() {}
//! # }
//! async fn what_a_worker_does() {
//!     if let Some(order) = Order::given() {
//!         work(order, open().await).await;
//!     }
//! }
//!
//! # mod another { use super::*;
//! #[tokio::test]
//! # async fn unnamed() {}
//! # }
//! async fn every_instant_is_accounted_for_though_processes_are_killed() {
//!     let worker = || {
//!         let mut command = Command::new(env::current_exe().unwrap());
//!         command.args(["what_a_worker_does", "--exact"]);
//!         command
//!     };
//!     Trial::new(Duration::from_secs(4)).run(open().await, worker).await;
//! }
//! ```

mod check;
mod log;
mod plan;
mod trial;
mod worker;

pub use check::{Account, Checked, Rule, Violation, check};
pub use log::{End, Entry, Event, Round};
pub use plan::{Order, Plan};
pub use trial::Trial;
pub use worker::work;
