//! The sweep over the points at which something can go wrong: each operation that writes, disturbed before and after each
//! message or system call that it takes, and judged by a store that nothing disturbs.
//!
//! After each point the rows must be as before or as the operation leaves them, in every column; what was told must agree
//! with them (an answer: it took place; an error [without effect](lease_core::store::Effect::None): it did not and will
//! not); the token must give the name back, the next claim must be granted under the next term, and each instant must be
//! claimed, cut short or over by the rules of slots.
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
