//! Releases told from process to process, by `NOTIFY` and `LISTEN`: hints, which may be lost.

mod announcer;
mod listener;
mod process;

pub(crate) use announcer::Announcer;
pub(crate) use listener::Listener;
