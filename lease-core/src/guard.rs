//! What the guarded transactions of all stores have in common: who may still end them, and how they can end.
//!
//! A guarded transaction has two sides. The [`Guarding`] is the program's: it says when the commit begins and that
//! all is over. The [`Watcher`] is the store's: it waits, on a thread that the program does not block, for the moment at
//! which the session has to be ended from outside. Of a commit and the end of the session exactly one takes place.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::clock::Moment;
use crate::state::LeaseState;
use crate::store::StoreError;
use crate::sync::watch;
use crate::{ErrorKind, LossReason, Tenure};

/// How a guarded transaction came to its end, other than by being committed.
#[derive(Debug)]
#[non_exhaustive]
pub enum GuardError {
    /// The lease is not held any more. Nothing of the transaction is committed, nor will be.
    Lost(LossReason),
    /// The commit was sent and its answer never came: all of it is committed, or nothing. If it is, that came before
    /// any successor's claim. On MySQL and MariaDB also when the connection ended in the middle of a prepared statement, of which
    /// the guard does not know whether it commits implicitly; if it does not, nothing is committed.
    Unknown(StoreError),
    /// A statement of the program's ended the transaction before its commit: a `COMMIT`, or on MySQL and MariaDB one
    /// that commits implicitly. **What came before that statement may be committed**, and was not fenced at that moment; what
    /// came behind it is not.
    Ended(StoreError),
    /// It failed and is rolled back. After [`Busy`](ErrorKind::Busy) (a deadlock, a serialization failure, a wait
    /// for a lock) and whatever else [`retry_helps`](Self::retry_helps) says, run it again.
    Failed(StoreError),
}

impl GuardError {
    /// What went wrong, to match on. `None` for a lost lease, which is no error of the database.
    pub fn kind(&self) -> Option<ErrorKind> {
        match self {
            Self::Lost(_) => None,
            Self::Unknown(error) | Self::Ended(error) | Self::Failed(error) => Some(error.kind()),
        }
    }

    /// Whether the same transaction may be run again and can succeed then, with nothing done twice.
    pub fn retry_helps(&self) -> bool {
        let Self::Failed(error) = self else { return false };
        // In a database that was replaced there is no such lease.
        error.kind().retry_helps() && error.kind() != ErrorKind::Replaced
    }
}

impl fmt::Display for GuardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(reason) => {
                write!(f, "the transaction was not committed: its lease was lost: {reason}")
            }
            Self::Unknown(error) => {
                write!(
                    f,
                    "nobody knows whether the transaction was committed: {error} (look at what it wrote)"
                )
            }
            Self::Ended(error) => write!(
                f,
                "the transaction was ended by a statement of its own, and what came before that may be committed: {error}"
            ),
            Self::Failed(error) => {
                write!(f, "the transaction was rolled back: {error}")?;
                // The advice of the kind is about the store's statements; a database of its own would have no fence.
                if self.retry_helps() {
                    f.write_str(" (run it again while the lease is held)")
                } else {
                    Ok(())
                }
            }
        }
    }
}

impl StdError for GuardError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Lost(_) => None,
            Self::Unknown(error) | Self::Ended(error) | Self::Failed(error) => Some(error),
        }
    }
}

/// Why work in a guarded transaction did not end with its commit.
#[derive(Debug)]
pub enum GuardedError<E> {
    /// The work's own error, as it came. The transaction is rolled back.
    Work(E),
    /// The transaction's, which stands before the work's own: work whose lease is lost fails as its session is ended.
    Guard(GuardError),
}

impl<E> From<GuardError> for GuardedError<E> {
    fn from(error: GuardError) -> Self {
        Self::Guard(error)
    }
}

impl<E: fmt::Display> fmt::Display for GuardedError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Work(error) => error.fmt(f),
            Self::Guard(error) => error.fmt(f),
        }
    }
}

impl<E: StdError + 'static> StdError for GuardedError<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Work(error) => error.source(),
            Self::Guard(error) => error.source(),
        }
    }
}

/// Where a guarded transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// The commit is on its way, or will be at once: nobody ends the session any more.
    Committing,
    /// Committed, or rolled back: the session is the program's again.
    Over,
    /// The guard was dropped in the middle.
    Abandoned,
    /// The lease is lost: the session is being ended.
    Lost,
}

/// The program's side of a guarded transaction. Dropped before it is [`over`](Self::over), it leaves a
/// transaction whose session has to be ended.
#[derive(Debug)]
pub struct Guarding {
    tenure: Tenure,
    phase: watch::Sender<Phase>,
}

/// The store's side. It keeps the tenure, so the name is not given back before it is dropped.
#[derive(Debug)]
pub struct Watcher {
    tenure: Tenure,
    phase: watch::Sender<Phase>,
}

/// Why a session has to be ended.
#[derive(Debug, Clone)]
pub enum MustEnd {
    /// The lease is lost.
    Lost(LossReason),
    /// The guard was dropped with its transaction open.
    Abandoned,
}

impl Guarding {
    /// The two sides of a transaction that is about to begin.
    ///
    /// # Errors
    ///
    /// [`Lost`](GuardError::Lost): it must not.
    pub fn begin(tenure: &Tenure) -> Result<(Self, Watcher), GuardError> {
        let phase = watch::Sender::new(Phase::Open);
        let watcher = Watcher { tenure: tenure.clone(), phase: phase.clone() };
        let guarding = Self { tenure: tenure.clone(), phase };
        guarding.check()?;
        Ok((guarding, watcher))
    }

    /// The tenure of the lease.
    pub fn tenure(&self) -> &Tenure {
        &self.tenure
    }

    /// Whether the next statement may be sent.
    ///
    /// # Errors
    ///
    /// [`Lost`](GuardError::Lost): nothing more is to be sent.
    pub fn check(&self) -> Result<(), GuardError> {
        self.tenure.held().map_err(GuardError::Lost)
    }

    /// Whether the commit may be sent. When it may, the session is not ended by the watcher any more.
    ///
    /// # Errors
    ///
    /// [`Lost`](GuardError::Lost): it is to be rolled back, by the end of its session.
    pub fn commit_begins(&self) -> Result<(), GuardError> {
        self.check()?;
        let begins = self.phase.send_if_modified(|phase| {
            let is_open = *phase == Phase::Open;
            if is_open {
                *phase = Phase::Committing;
            }
            is_open
        });
        if begins {
            return Ok(());
        }
        // The watcher has seen a loss.
        Err(GuardError::Lost(self.tenure.reason().unwrap_or(LossReason::Refused)))
    }

    /// The transaction is over, by commit or rollback, and its session is nobody's business any more.
    ///
    /// # Errors
    ///
    /// [`Lost`](GuardError::Lost), which only a rollback can be answered: the session is being ended.
    pub fn over(self) -> Result<(), GuardError> {
        let over = self.phase.send_if_modified(|phase| {
            let is_ours = matches!(phase, Phase::Open | Phase::Committing);
            if is_ours {
                *phase = Phase::Over;
            }
            is_ours
        });
        if over {
            return Ok(());
        }
        Err(GuardError::Lost(self.tenure.reason().unwrap_or(LossReason::Refused)))
    }

    /// Runs the work of a transaction until it has ended or the lease is lost, when it is dropped.
    ///
    /// # Errors
    ///
    /// The work's own, or [`Lost`](GuardError::Lost), also when the work has ended meanwhile.
    pub async fn work<T, E>(&self, work: impl Future<Output = Result<T, E>>) -> Result<T, GuardedError<E>> {
        let outcome = tokio::select! {
            biased;
            reason = self.tenure.lost() => return Err(GuardError::Lost(reason).into()),
            outcome = work => outcome,
        };
        self.check()?;
        outcome.map_err(GuardedError::Work)
    }
}

impl Drop for Guarding {
    fn drop(&mut self) {
        self.phase.send_if_modified(|phase| {
            let is_open = *phase == Phase::Open;
            if is_open {
                *phase = Phase::Abandoned;
            }
            is_open
        });
    }
}

impl Watcher {
    /// Waits until the session has to be ended from outside, and says why; `None` when that will not be. From then on no
    /// commit begins, and another call answers the same.
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn must_end(&self) -> Option<MustEnd> {
        let mut phase = self.phase.subscribe();
        tokio::select! {
            biased;
            // The sender is ours.
            _ = phase.wait_for(|phase| *phase != Phase::Open) => {}
            _ = self.tenure.lost() => {
                self.phase.send_if_modified(|phase| {
                    let is_open = *phase == Phase::Open;
                    if is_open {
                        *phase = Phase::Lost;
                    }
                    is_open
                });
            }
        }
        // None of these is left for another that would answer otherwise.
        let phase = *self.phase.borrow();
        match phase {
            Phase::Lost => Some(MustEnd::Lost(self.tenure.reason().unwrap_or(LossReason::Refused))),
            Phase::Abandoned => Some(MustEnd::Abandoned),
            Phase::Open | Phase::Committing | Phase::Over => None,
        }
    }

    /// The tenure of the lease.
    pub fn tenure(&self) -> &Tenure {
        &self.tenure
    }
}

/// A renewal that is part of a guarded transaction and counts when that is committed: where one writer keeps all
/// others out, as in SQLite, it is the only one there can be meanwhile.
#[must_use = "it counts when `committed` is called"]
#[derive(Debug)]
pub struct CarriedRenewal {
    state: Arc<LeaseState>,
    started: Moment,
}

impl CarriedRenewal {
    pub(crate) fn begin(state: &Arc<LeaseState>) -> Self {
        let started = state.now();
        state.sent(started);
        Self { state: Arc::clone(state), started }
    }

    /// The transaction that moved the expiry to *now + ttl* is committed: the lease is held for a deadline from when
    /// this was begun, unless it has been lost meanwhile, which stays so. `step_down`: the holder was asked to, as
    /// [`Renewed`](crate::store::Renewed) says of a renewal of the store's.
    pub fn committed(self, step_down: bool) {
        self.state.renewed(self.started);
        if step_down {
            self.state.ask_step_down();
        }
    }
}
