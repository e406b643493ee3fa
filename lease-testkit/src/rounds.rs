//! The trial of slots: processes that work a schedule, killed at random, and a log that must account for every instant.
//!
//! A [`Trial`] starts the workers, each a process of its own that calls [`work`], kills them, and at the end has [`check()`]
//! judge the log that the work itself has written. [The README](crate#the-trial-of-slots) shows a test.

mod check;
mod log;
mod pace;
mod plan;
mod running;
mod trial;
mod worker;

pub use check::{Account, Checked, Rule, Violation, check};
pub use log::{End, Entry, Event, Round};
pub use plan::{Order, Plan};
pub use trial::Trial;
pub use worker::work;
