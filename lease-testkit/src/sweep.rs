//! The sweep over the points at which something can go wrong: each operation that writes, disturbed before and after each
//! message or system call that it takes, and judged by a store that nothing disturbs.
//!
//! After each point the rows must be as before or as the operation leaves them, in every column; what was told must agree
//! with them (an answer: it took place; an error [without effect](lease_core::store::Effect::None): it did not and will
//! not); the token must give the name back, the next claim must be granted under the next term, and each instant must be
//! claimed, cut short or over by the rules of slots.
//!
//! | what is disturbed | how | where |
//! |---|---|---|
//! | claim, renew, renew many, release, claim observed, clear, resign, slot claim, finish, rerun | cut, cut with the server away, silence, late messages, SIGKILL, before and after each message each way | [`sweep`]; `tests/sweep.rs` of the servers' crates |
//! | connecting and logging in | the same, with a claim and a release | [`sweep`] |
//! | claim, renewal and release of a lease by `Leases` | cut, silence, late messages, server away | [`sweep_lives`] |
//! | the same statements in a file | SIGKILL before and after each system call that writes, locks, syncs, makes or removes one | [`Trial`]; `tests/sweep.rs` of `lease-sqlite` |
//! | rounds by `Leases` on servers | cut, and server away, before each message | `tests/slots/schedulers.rs` |
//! | reads of slots on servers | the same | `tests/slots/cuts.rs` |
//! | a guard's begin, business statements and commit, PostgreSQL | cut before and after, SIGKILL, SIGSTOP and lateness before each message | `tests/guards/{cuts,processes,silence}.rs` |
//! | the same, MySQL and MariaDB | cut, SIGKILL, SIGSTOP and lateness before each message | `tests/guards/pauses.rs` |
//! | the same, SQLite | SIGKILL and SIGSTOP at each step | `tests/guards/processes.rs` |
//!
//! Between two system calls a process changes nothing that outlives it but the index of a write-ahead log, in memory that is
//! shared: what a kill in there leaves, SQLite finds by its checksums.
//!
//! `LEASE_SWEEP=whole` runs every point; without it the dear ones are run in part, see [`Extent`].

mod case;
mod extent;
mod life;
mod mishap;
mod operation;
mod program;
mod wire;

pub use extent::Extent;
pub use life::sweep_lives;
pub use mishap::Mishap;
pub use operation::Operation;
pub use program::{Outcome, Trial, ask_as_told, is_a_program};
pub use wire::{Server, sweep};
