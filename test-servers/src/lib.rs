#![doc = include_str!("../README.md")]
#![expect(
    clippy::missing_panics_doc,
    reason = "for tests: whatever goes wrong is a panic that says what to do"
)]

mod binaries;
mod clock;
mod data;
mod error;
mod folder;
mod install;
mod instance;
mod kept;
mod pgbouncer;
mod port;
mod process;
mod product;
mod server;
mod shared;
mod standby;
mod wire;
mod zones;

pub use clock::ProcessClock;
pub use error::Error;
pub use install::{install, install_program, install_tools};
pub use kept::{Kept, Left, down, kept, left, up};
pub use pgbouncer::PgBouncer;
pub use port::free as free_port;
pub use product::Product;
pub use server::{Server, Setup};
pub use shared::shared;
pub use standby::Standby;
