//! A lease in the hand of its owner.

use std::fmt;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::attempt;
use crate::client::Client;
use crate::driver::Command;
use crate::error::Error;
use crate::give_back::Finish;
use crate::state::{LeaseState, Settled};
use crate::store::{FinishAnswer, RenewAnswer};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::{ErrorKind, Health, Holder, LeaseName, LossReason, Moment, Slot, Tenure, Term};

/// A lease, renewed in the background from the moment it was granted: none is held unrenewed by accident.
///
/// Dropping it ends it: every [`Tenure`] is lost at once, and the name is given back when the last
/// tenure is gone, or else becomes free when the row expires, within a ttl. The drop neither blocks
/// nor panics, with or without a runtime.
#[must_use = "dropping a lease gives it back"]
pub struct Lease(Hold);

impl Lease {
    pub(crate) fn new(state: Arc<LeaseState>, client: Arc<Client>) -> Self {
        Self(Hold::new(state, client))
    }

    pub(crate) fn state(&self) -> &Arc<LeaseState> {
        &self.0.state
    }

    /// The name.
    pub fn name(&self) -> &LeaseName {
        &self.0.state.name
    }

    /// The term, the fencing token for the outside world.
    pub fn term(&self) -> Term {
        self.0.state.term
    }

    /// The token of the claim.
    pub fn holder(&self) -> Holder {
        self.0.state.holder
    }

    /// Whether the lease is held; see [`Tenure::check`].
    pub fn check(&self) -> bool {
        self.0.state.check()
    }

    /// How well it is held, for a liveness probe.
    pub fn health(&self) -> Health {
        self.0.state.health()
    }

    /// Why the lease is no longer held; `None` while it is.
    pub fn reason(&self) -> Option<LossReason> {
        self.0.state.reason()
    }

    /// The moment, on the clock of the [`Leases`](crate::Leases), at which the lease is lost unless
    /// another renewal succeeds before.
    pub fn deadline(&self) -> Moment {
        self.0.state.deadline()
    }

    /// A tenure, for work that is not run by [`Lease::run`]. The name is not given back before it is
    /// gone, and `run` waits for it as for any other: one that is kept only to watch keeps both.
    pub fn tenure(&self) -> Tenure {
        Tenure::new(&self.0.state, &self.0.client)
    }

    /// Gives the lease up: every [`Tenure`] is lost at once; when the last one is gone the name is
    /// given back, and this returns when that is so, or when the row has expired. Safe to repeat.
    ///
    /// # Errors
    ///
    /// The database could not be told within an attempt. It is told again until the row has
    /// expired, within a ttl; the error only says that the name is not free yet.
    ///
    /// Dropping the future changes nothing of that.
    pub async fn release(&self) -> Result<(), Error> {
        self.0.release().await
    }

    /// [`release`](Self::release), of a round that ran to its end; see [`SlotLease::finish`](crate::SlotLease::finish).
    pub(crate) async fn finish(&self, slot: Slot, passed: Option<Slot>) -> Result<FinishAnswer, Error> {
        self.0.finish(slot, passed).await
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lease").field(&self.0.state).finish()
    }
}

/// A lease that nobody renews but its owner, by [`renew`](Self::renew), for programs that want each
/// statement in their own hands. It is lost at the deadline like any other, and ends like a
/// [`Lease`] when dropped.
#[must_use = "dropping a lease gives it back"]
pub struct ManualLease(Hold);

impl ManualLease {
    pub(crate) fn new(state: Arc<LeaseState>, client: Arc<Client>) -> Self {
        Self(Hold::new(state, client))
    }

    /// The name.
    pub fn name(&self) -> &LeaseName {
        &self.0.state.name
    }

    /// The term, the fencing token for the outside world.
    pub fn term(&self) -> Term {
        self.0.state.term
    }

    /// The token of the claim.
    pub fn holder(&self) -> Holder {
        self.0.state.holder
    }

    /// Whether the lease is held; see [`Tenure::check`].
    pub fn check(&self) -> bool {
        self.0.state.check()
    }

    /// How well it is held, for a liveness probe.
    pub fn health(&self) -> Health {
        self.0.state.health()
    }

    /// Why the lease is no longer held; `None` while it is.
    pub fn reason(&self) -> Option<LossReason> {
        self.0.state.reason()
    }

    /// A tenure, for work under the lease.
    pub fn tenure(&self) -> Tenure {
        Tenure::new(&self.0.state, &self.0.client)
    }

    /// The moment by which the next renewal must have succeeded.
    pub fn deadline(&self) -> Moment {
        self.0.state.deadline()
    }

    /// Renews once and says whether the lease is still held: `false` is final. A success counts from
    /// the start of the call.
    ///
    /// # Errors
    ///
    /// The store failed or did not answer within an attempt: nothing is known; try again before the deadline.
    ///
    /// Dropping the future: as an error.
    pub async fn renew(&self) -> Result<bool, Error> {
        let Hold { state, client, .. } = &self.0;
        let started = state.now();
        if state.held().is_err() {
            return Ok(false);
        }
        state.sent(started);
        match attempt::renew(&*client.store, state, started).await {
            Ok(RenewAnswer::Renewed(renewed)) => {
                if state.renewed(started) {
                    tracing::debug!(lease = %state.name, term = %state.term, "renewed");
                }
                if renewed.step_down {
                    state.ask_step_down();
                }
                Ok(state.held().is_ok())
            }
            Ok(RenewAnswer::Lost) => {
                state.lose(&LossReason::Refused);
                Ok(false)
            }
            Err(error) => {
                let error = Arc::new(error);
                tracing::warn!(lease = %state.name, term = %state.term, %error, "renewal failed");
                state.renewal_failed(&error);
                Err(client.shared_store_error("renew lease", &state.name, error))
            }
        }
    }

    /// Gives the lease up: otherwise, errors and a dropped future among it, as [`Lease::release`].
    pub async fn release(&self) -> Result<(), Error> {
        self.0.release().await
    }
}

impl fmt::Debug for ManualLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualLease").field(&self.0.state).finish()
    }
}

/// The one owner of a lease.
struct Hold {
    state: Arc<LeaseState>,
    client: Arc<Client>,
    /// The lease is that of a round that ran to its end.
    finishing: AtomicBool,
}

impl Hold {
    fn new(state: Arc<LeaseState>, client: Arc<Client>) -> Self {
        Self { state, client, finishing: AtomicBool::new(false) }
    }

    async fn release(&self) -> Result<(), Error> {
        let mut status = self.state.status();
        // The failure of an attempt that was over before this call is not this call's answer.
        let earlier = status.borrow_and_update().settled.clone();
        self.end();
        let settled = async {
            if matches!(earlier, Settled::Done) || status.changed().await.is_err() {
                return Settled::Done;
            }
            match status.wait_for(|status| !matches!(status.settled, Settled::No)).await {
                Ok(status) => status.settled.clone(),
                // The sender lives in the state that we hold.
                Err(_) => Settled::Done,
            }
        };
        tokio::select! {
            biased;
            settled = settled => match settled {
                Settled::Failed(error) => {
                    Err(self.client.shared_store_error("release lease", &self.state.name, error))
                }
                Settled::No | Settled::Done => Ok(()),
            },
            // The driver has gone with its runtime: nobody will give the name back, it expires.
            () = self.client.driver_gone() => Err(Error::own(
                ErrorKind::Runtime,
                format!("cannot release lease {:?}: the runtime that renews has shut down; the row expires within its ttl", self.state.name),
            )),
        }
    }

    async fn finish(&self, slot: Slot, passed: Option<Slot>) -> Result<FinishAnswer, Error> {
        let (reply, answer) = oneshot::channel();
        let finish = Finish { slot, passed, reply };
        // From here on it is the driver that ends the lease, when this is on record.
        self.finishing.store(true, Ordering::SeqCst);
        self.client.send(Command::Finish(Arc::clone(&self.state), finish, self.client.open()));
        self.state.lose(&LossReason::Released);
        let answer = tokio::select! {
            biased;
            answer = answer => answer.ok(),
            () = self.client.driver_gone() => None,
        };
        match answer {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(error)) => {
                let what = format!("record the end of slot {slot} of lease");
                Err(self.client.shared_store_error(what, &self.state.name, error))
            }
            None => Err(Error::own(
                ErrorKind::Runtime,
                format!(
                    "cannot record the end of slot {slot} of lease {:?}: the runtime that renews has shut down",
                    self.state.name
                ),
            )),
        }
    }

    fn end(&self) {
        if self.finishing.load(Ordering::SeqCst) {
            return;
        }
        self.state.lose(&LossReason::Released);
        if !self.state.is_ended() {
            self.state.end();
            self.client.send(Command::Ended(self.state.id));
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.end();
    }
}
