#![doc = include_str!("../README.md")]

#[doc(hidden)]
pub mod bad_values;
mod clock;
pub mod damage;
mod fault;
mod guard_suite;
mod memory;
mod proxy;
mod random;
pub mod rounds;
mod suite;
pub mod sweep;

pub use clock::ManualClock;
pub use fault::{Call, Fault, FaultStore, Op};
pub use guard_suite::{GuardCase, GuardSubject, GuardedWork, guard_cases, run_guard_case};
pub use memory::MemoryStore;
pub use proxy::{Direction, Passed, Proxy, Wire};
pub use suite::{Case, Damage, Subject, cases, run_case};
