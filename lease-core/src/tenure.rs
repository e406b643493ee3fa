//! What work carries to know whether its lease is still held.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::client::Client;
use crate::driver::Command;
use crate::guard::CarriedRenewal;
use crate::state::LeaseState;
use crate::{Health, Holder, LeaseName, LossReason, Moment, Term, Timings};

tokio::task_local! {
    static CURRENT: Tenure;
}

/// The time during which a lease is held, as the work under it sees it: a cheap clone.
///
/// Give a clone to everything that acts under the lease, blocking threads and spawned tasks
/// included: the name is given back only when every clone is gone, so that it is never free while
/// our own work may still run. A clone kept for ever keeps the name for ever.
#[must_use = "work that does not look at its tenure does not learn of the loss"]
pub struct Tenure {
    state: Arc<LeaseState>,
    client: Arc<Client>,
}

impl Tenure {
    pub(crate) fn new(state: &Arc<LeaseState>, client: &Arc<Client>) -> Self {
        state.tenure_begins();
        Self { state: Arc::clone(state), client: Arc::clone(client) }
    }

    /// The tenure of the work that runs this code: inside [`Lease::run`](crate::Lease::run) and
    /// [`Tenure::scope`]. It is local to the task, so spawned tasks and threads need a clone of their own.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }

    /// Runs a future, typically one about to be spawned, with this as its [`Tenure::current`]. Dropping this drops it, and this tenure.
    pub async fn scope<F: Future>(self, future: F) -> F::Output {
        CURRENT.scope(self, future).await
    }

    /// The name.
    pub fn name(&self) -> &LeaseName {
        &self.state.name
    }

    /// The term, the fencing token for the outside world.
    pub fn term(&self) -> Term {
        self.state.term
    }

    /// The token of the claim.
    pub fn holder(&self) -> Holder {
        self.state.holder
    }

    /// Whether the lease is held. Reads the local clock and no flag alone: begun after the deadline
    /// it is never true, whatever a blocked runtime has kept from being noticed.
    ///
    /// What pauses between this and the act that follows it, only a fenced transaction survives.
    pub fn check(&self) -> bool {
        self.state.check()
    }

    /// How well it is held, for a liveness probe.
    pub fn health(&self) -> Health {
        self.state.health()
    }

    /// The moment, on the clock of the [`Leases`](crate::Leases), at which the lease is lost unless
    /// another renewal succeeds before.
    pub fn deadline(&self) -> Moment {
        self.state.deadline()
    }

    /// The timings of the lease.
    pub fn timings(&self) -> &Timings {
        &self.state.setup.timings
    }

    /// Whether the lease is held, else why not. Marks the loss when it is the first to see the deadline passed.
    pub(crate) fn held(&self) -> Result<(), LossReason> {
        self.state.held()
    }

    /// A renewal begins that a guarded transaction carries. For stores only: it counts when the transaction that moves the
    /// expiry of this [`holder`](Self::holder) is committed, and then **moves the deadline without asking anybody**.
    pub fn carry_renewal(&self) -> CarriedRenewal {
        CarriedRenewal::begin(&self.state)
    }

    /// Why the lease is no longer held; `None` while it is, or until the loss is noticed.
    pub fn reason(&self) -> Option<LossReason> {
        self.state.reason()
    }

    /// Waits until the lease is no longer held, and says why. At once if that is so already.
    /// Dropping the future leaves nothing behind.
    pub async fn lost(&self) -> LossReason {
        let mut status = self.state.status();
        match status.wait_for(|status| status.lost.is_some()).await {
            Ok(status) => status.lost.clone().unwrap_or(LossReason::Released),
            // The sender lives in the state that we hold.
            Err(_) => LossReason::Released,
        }
    }

    /// Whether the work is asked to end: see [`stopping`](Self::stopping).
    pub fn is_stopping(&self) -> bool {
        self.client.is_shutting_down() || self.state.is_stopping()
    }

    /// Waits until the work is asked to end: the [`Leases`](crate::Leases) shuts down, somebody asked
    /// this term to step down, nobody waits for the work any more, or the lease is lost. At once if
    /// that is so already. Until the work has really ended the name stays its holder's, save after a loss.
    /// Dropping the future leaves nothing behind.
    pub async fn stopping(&self) {
        let mut status = self.state.status();
        tokio::select! {
            biased;
            () = self.client.shutting_down() => {}
            _ = status.wait_for(|status| status.stopping || status.lost.is_some()) => {}
        }
    }
}

impl Clone for Tenure {
    fn clone(&self) -> Self {
        Self::new(&self.state, &self.client)
    }
}

impl Drop for Tenure {
    fn drop(&mut self) {
        if self.state.tenure_ends() {
            self.client.send(Command::Idle(self.state.id));
        }
    }
}

impl fmt::Debug for Tenure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tenure").field(&self.state).finish()
    }
}
