//! The program as people run it: the real binary, real processes, real signals.

mod bad_input;
mod bench;
mod contention;
mod exits;
mod guardian;
mod running;
mod servers;
mod show;
mod slots;
mod terminal;
