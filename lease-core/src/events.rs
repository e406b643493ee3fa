//! What becomes of the leases of this process, told in order to one hook on a thread of its own.

use std::io;
use std::sync::Arc;

use crate::sync::{mpsc, thread};
use crate::{LeaseName, LossReason, Term};

/// A lease of this process has changed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Event {
    /// The lease.
    pub name: LeaseName,
    /// Its term.
    pub term: Term,
    /// What has happened.
    pub what: Transition,
}

/// What has happened to a lease. Of one lease they come in the order in which they stand here.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Transition {
    /// It was granted.
    Claimed,
    /// Somebody asked its holder to step down.
    StepDownAsked,
    /// It is not held any more, by our own giving up too.
    Lost(LossReason),
    /// Work runs on though the grace has ended.
    Stuck,
    /// The database has been told: the name is free.
    GivenBack,
}

/// The way to the hook; without one, nowhere.
#[derive(Debug, Clone, Default)]
pub(crate) struct Events(Option<mpsc::Sender<Event>>);

/// What [`LeasesBuilder::on_event`](crate::LeasesBuilder::on_event) is given.
pub(crate) type EventHook = Arc<dyn Fn(&Event) + Send + Sync>;

impl Events {
    /// Starts the thread of the hook. It ends when the last lease and handle of the client have gone.
    pub(crate) fn start(hook: EventHook) -> io::Result<Self> {
        let (events, heard) = mpsc::channel::<Event>();
        thread::Builder::new().name("lease-events".to_owned()).spawn(move || {
            for event in heard {
                hook(&event);
            }
        })?;
        Ok(Self(Some(events)))
    }

    /// Never waits: a hook that is slow or blocks is behind, and holds up nothing.
    pub(crate) fn tell(&self, name: &LeaseName, term: Term, what: Transition) {
        if let Some(events) = &self.0 {
            // A hook that panicked has ended its thread.
            drop(events.send(Event { name: name.clone(), term, what }));
        }
    }
}
