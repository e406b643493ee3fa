//! What processes believed, asked and did, and what was done to them: histories, written while servers are attacked and
//! judged afterwards by [`check`](crate::check).
//!
//! A history is a folder. Each process (and each incarnation of it) writes a file of its own with a [`Writer`], one line per
//! [`Entry`]: a JSON object `{"at":…,"process":…,"incarnation":…,"event":…}`. The orchestrator, which starts and kills the
//! others and injects faults, is process 0 and writes the same way; at the end it adds the rows it finds.
//!
//! All runs on one machine, so all moments are of one clock, `CLOCK_BOOTTIME` ([`now`]), which is that of
//! [`SystemClock`](lease_core::SystemClock) too. Each [`Event`] says whether its moment is read before the thing itself
//! or after it: before, where something is going to be (so it was not earlier), after, where something was so (so it was not
//! later). A process may stand still for any time between the moment and the thing, or between it and the line; checkers go by
//! moments and never by where a line stands.
//!
//! To write one:
//! - [`Writer::create`] first thing in the process, then [`Event::Started`].
//! - The store goes into a [`RecordingStore`], which writes every statement and its answer.
//! - A [`Sampler`] runs a thread that says what the process believes, when it stood still, and what it uses. Work under a lease is
//!   [watched](Sampler::watch) while it runs.
//! - The rest is written by who knows it: [`Writer::tell`] (moment read now) or [`Writer::write`] (moment read before).
//!
//! A line that SIGKILL has torn is the last of its file and is left out by [`History::read`].

mod event;
mod fault;
mod reader;
mod recording;
mod resources;
mod sampler;
mod statement;
mod text;
mod writer;

pub use event::{Change, End, Entry, Event, Finish, Guard, LeaseId, Ledger, Loss, RoundId, Row, Setting};
pub use fault::{Fault, FaultKind};
pub use reader::History;
pub use recording::RecordingStore;
pub use resources::Sample;
pub use sampler::{Sampler, Watched};
pub use statement::{Answer, Ask, GivenUp, Name, Seen, Token};
pub use writer::{Writer, now};
