//! The transaction: it buffers what is written, and applies it in one step with a look at the lease.

use std::future::pending;
use std::mem::take;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lease_core::guard::{CarriedRenewal, Guarding, MustEnd, Watcher};
use lease_core::store::{DbTime, LeaseRow, Page, StoreError};
use lease_core::{ErrorKind, GuardError, LeaseName, LeaseStore, LossReason, Tenure};
use lease_testkit::{GuardedWork, Op};
use tokio::task::yield_now;
use tokio::time::sleep;

use super::{Broken, Database, Shape, lock};

/// How long what is wrong takes.
const GAP: Duration = Duration::from_millis(20);
const LONG_GAP: Duration = Duration::from_secs(20);

pub(crate) struct Transaction {
    tenure: Tenure,
    /// Without one, nothing that this process knows of the lease is heeded.
    guarding: Option<Guarding>,
    session: Arc<Session>,
    /// How many renewals there had been when it began.
    renewals: usize,
    /// Where one writer keeps out all others, the lease's renewals too.
    carried: Option<CarriedRenewal>,
}

/// The server's side of it, which rolls back when it ends.
struct Session {
    database: Arc<Database>,
    name: LeaseName,
    /// What is written and not committed; `None` once it has ended.
    open: Mutex<Option<Vec<String>>>,
}

impl Transaction {
    pub(crate) async fn begin(database: &Arc<Database>, tenure: &Tenure) -> Result<Self, GuardError> {
        let (guarding, watcher) = match Guarding::begin(tenure) {
            Ok((guarding, watcher)) => (Some(guarding), Some(watcher)),
            Err(_) if database.is(Broken::BeginsThoughLostHere) => (None, None),
            Err(lost) => return Err(lost),
        };
        if database.is(Broken::LocksBeforeItsSession) && database.locks.take(tenure.name()) {
            sleep(GAP).await;
            database.locks.give(tenure.name());
        }
        let session = Session::begin(database, tenure.name())?;
        if let Some(watcher) = watcher {
            tokio::spawn(watch(watcher, Arc::clone(&session)));
        }
        let renewals = database.store.calls(Op::Renew);
        let is_renewed = database.locks.shape == Shape::OneWriter || database.is(Broken::RenewsOnlyHere);
        let carried = is_renewed.then(|| tenure.carry_renewal());
        let transaction = Self { tenure: tenure.clone(), guarding, session, renewals, carried };
        yield_now().await;
        if !database.is(Broken::NeverVerifies)
            && let Err(lost) = transaction.verify().await
        {
            transaction.session.end();
            return Err(lost);
        }
        Ok(transaction)
    }

    async fn verify(&self) -> Result<(), GuardError> {
        self.verify_and(|_, _| {}).await
    }

    /// Looks whether the lease is held, and acts in the same step if it is.
    async fn verify_and(&self, act: impl FnOnce(&mut LeaseRow, DbTime)) -> Result<(), GuardError> {
        let database = &self.session.database;
        let (now, row) = database.row(self.tenure.name()).await;
        let mut held = false;
        if row.is_some() {
            database.memory.edit_row(self.tenure.name(), |row| {
                held = row.holder == self.tenure.holder() && row.is_live(now);
                if database.is(Broken::RenewalEndsIt) {
                    held &= self.renewals == database.store.calls(Op::Renew);
                }
                if held {
                    act(row, now);
                }
            });
        }
        match held {
            true => Ok(()),
            false if database.is(Broken::LossIsFailure) => Err(busy()),
            false => Err(GuardError::Lost(LossReason::Refused)),
        }
    }

    /// Writes all this down for good, if the lease is held, and the renewal that is carried with it.
    async fn write_down(&self, notes: &[String]) -> Result<(), GuardError> {
        let database = &self.session.database;
        let renews = database.locks.shape == Shape::OneWriter
            && !(database.is(Broken::RenewsOnlyHere) || database.is(Broken::RenewsNothing));
        let ttl = i64::try_from(self.tenure.timings().ttl().as_millis()).expect("a ttl is short");
        self.verify_and(|row, now| {
            database.apply(notes);
            if renews {
                row.expires_at = DbTime::from_millis(now.as_millis() + ttl);
            }
        })
        .await
    }

    /// Commits what was written.
    async fn apply(&self, notes: Vec<String>) -> Result<(), GuardError> {
        let database = &self.session.database;
        match database.broken {
            Some(Broken::OnlyBeginVerifies | Broken::CommitsThoughLostHere) => database.apply(&notes),
            Some(Broken::CommitsAPart) => {
                let part = &notes[..notes.len() / 2];
                self.write_down(part).await?;
            }
            Some(Broken::EmptyCommitFails) if notes.is_empty() => return Err(busy()),
            Some(Broken::SaysCommitted) => {
                let _ = self.write_down(&notes).await;
            }
            Some(Broken::LosesAPart) => {
                let committed = self.write_down(&notes).await;
                if committed.is_err() {
                    database.apply(&notes[notes.len() / 2..]);
                }
                committed?;
            }
            Some(Broken::CommitsLater) => {
                if let Err(lost) = self.write_down(&notes).await {
                    let database = Arc::clone(database);
                    tokio::spawn(async move { database.apply(&notes) });
                    return Err(lost);
                }
            }
            Some(Broken::GapInCommit) => {
                self.verify().await?;
                sleep(GAP).await;
                database.apply(&notes);
            }
            Some(Broken::CommitOutlivesItsDrop) => {
                self.verify().await?;
                let (database, notes) = (Arc::clone(database), notes.clone());
                let commit = tokio::spawn(async move {
                    sleep(GAP).await;
                    database.apply(&notes);
                });
                commit.await.expect("it does not panic");
            }
            Some(Broken::UnlocksBeforeCommit) => {
                self.verify().await?;
                self.session.end();
                sleep(GAP).await;
                database.apply(&notes);
            }
            Some(Broken::LossIsFailureAtCommit) => self.write_down(&notes).await.map_err(|_| busy())?,
            Some(Broken::LossIsUnknownAtCommit) => self.write_down(&notes).await.map_err(|_| {
                GuardError::Unknown(StoreError::new(ErrorKind::Unavailable, "the server hung up"))
            })?,
            Some(Broken::DroppedCommitLeavesPart) => {
                let (one, other) = notes.split_at(notes.len() / 2);
                self.write_down(one).await?;
                yield_now().await;
                database.apply(other);
            }
            Some(Broken::FailsAfterRenewals) if database.store.calls(Op::Renew) > 0 => return Err(busy()),
            Some(Broken::LossSpreads) => {
                let all = Page { prefix: String::new(), after: None, limit: 100 };
                let listing = database.memory.list(&all, Duration::ZERO).await.map_err(GuardError::Failed)?;
                if listing.rows.iter().any(|row| row.term.get() > 1) {
                    return Err(GuardError::Lost(LossReason::Refused));
                }
                self.write_down(&notes).await?;
            }
            _ => self.write_down(&notes).await?,
        }
        if database.is(Broken::CommitReleases) {
            database.memory.edit_row(self.tenure.name(), |row| row.expires_at = DbTime::RELEASED);
        }
        Ok(())
    }
}

#[async_trait]
impl GuardedWork for Transaction {
    async fn write(&mut self, note: &str) -> Result<(), GuardError> {
        if self.session.database.is(Broken::WritesAtOnce) {
            self.session.database.apply(&[note.to_owned()]);
            return Ok(());
        }
        match &mut *lock(&self.session.open) {
            Some(open) => open.push(note.to_owned()),
            None if self.session.database.is(Broken::WritesAfterItsEnd) => {
                self.session.database.apply(&[note.to_owned()]);
            }
            None => return Err(busy()),
        }
        Ok(())
    }

    async fn commit(mut self: Box<Self>) -> Result<(), GuardError> {
        let database = Arc::clone(&self.session.database);
        let guarding = self.guarding.take();
        if let Some(guarding) = &guarding
            && !database.is(Broken::CommitsThoughLostHere)
        {
            guarding.commit_begins()?;
        }
        let notes = lock(&self.session.open).as_mut().map(take).unwrap_or_default();
        yield_now().await;
        let committed = self.apply(notes).await;
        if let Some(carried) = self.carried.take().filter(|_| committed.is_ok()) {
            carried.committed(false);
        }
        yield_now().await;
        if !database.is(Broken::KeepsLocksAfterCommit) {
            self.session.end();
        }
        if let Some(guarding) = guarding {
            // After a commit that was begun the session is ours.
            let _ = guarding.over();
        }
        committed
    }

    async fn roll_back(mut self: Box<Self>) -> Result<(), GuardError> {
        let notes = self.session.end();
        if self.session.database.is(Broken::RollbackCommits) {
            self.session.database.apply(&notes);
        }
        if let Some(carried) =
            self.carried.take().filter(|_| self.session.database.is(Broken::RenewsOnlyHere))
        {
            carried.committed(false);
        }
        self.guarding.take().map_or(Ok(()), Guarding::over)
    }
}

/// The connection is closed.
impl Drop for Transaction {
    fn drop(&mut self) {
        let database = Arc::clone(&self.session.database);
        if database.is(Broken::KeepsLocksAfterDrop) || database.is(Broken::KeepsLocksAfterCommit) {
            return;
        }
        let undone = self.session.end();
        if database.is(Broken::DropCommits) {
            database.apply(&undone);
        }
    }
}

impl Session {
    fn begin(database: &Arc<Database>, name: &LeaseName) -> Result<Arc<Self>, GuardError> {
        if database.locks.take(name) {
            let open = Mutex::new(Some(Vec::new()));
            return Ok(Arc::new(Self { database: Arc::clone(database), name: name.clone(), open }));
        }
        if database.is(Broken::ContentionIsLoss) {
            return Err(GuardError::Lost(LossReason::Refused));
        }
        Err(busy())
    }

    /// Ends it, if it has not ended, and names what is rolled back.
    fn end(&self) -> Vec<String> {
        let open = lock(&self.open).take();
        if open.is_some() {
            self.database.locks.give(&self.name);
        }
        open.unwrap_or_default()
    }
}

/// The store's side: ends the session when nobody else will.
async fn watch(watcher: Watcher, session: Arc<Session>) {
    let Some(why) = watcher.must_end().await else { return };
    if session.database.is(Broken::LossEndsNothing) && matches!(why, MustEnd::Lost(_)) {
        return;
    }
    if session.database.is(Broken::FreesEarly) {
        session.database.memory.edit_row(&session.name, |row| row.expires_at = DbTime::RELEASED);
        sleep(LONG_GAP).await;
    }
    if session.database.is(Broken::KeepsTheName) {
        pending::<()>().await;
    }
    if !session.database.is(Broken::KeepsLocksAfterDrop) {
        session.end();
    }
    drop(watcher);
}

fn busy() -> GuardError {
    GuardError::Failed(StoreError::new(ErrorKind::Busy, "another transaction is open").without_effect())
}
