//! What threads of this crate share state by: the standard library's and tokio's; when races are explored, [shuttle]'s,
//! which plays every order of their steps that it is asked for.
//!
//! ```text
//! RUSTFLAGS="--cfg=lease_shuttle" cargo test -p lease-core --lib --target-dir target/shuttle races
//! ```
//!
//! [shuttle]: https://docs.rs/shuttle

#[cfg(not(lease_shuttle))]
pub(crate) use {
    std::sync::{Mutex, MutexGuard, atomic, mpsc},
    std::thread,
    tokio::sync::watch,
};

#[cfg(lease_shuttle)]
pub(crate) use {
    shuttle::sync::{Mutex, MutexGuard, atomic, mpsc},
    shuttle::thread,
};

#[cfg(lease_shuttle)]
pub(crate) mod watch;
