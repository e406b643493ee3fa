//! Guarded transactions: none is committed after a successor's claim.

mod raw;
mod session;
mod watch;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lease_core::guard::{CarriedRenewal, Guarding};
use lease_core::store::{Effect, StoreError, VerifyAnswer};
use lease_core::{ErrorKind, GuardError, GuardedError, LossReason, Tenure};
use rusqlite::{Connection, ffi};

use crate::error::Failure;
use crate::queue::LOCK_POLL;
use crate::{SqliteStore, sql};
use watch::Watch;

/// How a guarded transaction is to be: made by [`SqliteStore::guard`].
#[derive(Debug, Clone)]
pub struct Guard {
    store: SqliteStore,
    tenure: Tenure,
    elsewhere: bool,
}

impl SqliteStore {
    /// A transaction under a lease of this store, on a connection of the program's own: see
    /// [Guarded transactions](crate#guarded-transactions).
    pub fn guard(&self, tenure: &Tenure) -> Guard {
        Guard { store: self.clone(), tenure: tenure.clone(), elsewhere: false }
    }
}

impl Guard {
    /// For data in another file than the leases: the lease is verified through the store, once the transaction has that
    /// file's lock and again before the commit, and the transaction carries no renewal.
    ///
    /// It promises less: a process paused behind the last look commits after a successor's *claim*. It still does not
    /// commit after the successor's first guarded transaction on that file has begun, for the file has one writer.
    pub fn on_another_database(mut self) -> Self {
        self.elsewhere = true;
        self
    }

    /// Begins the transaction, and verifies and renews the lease in it. Blocks the thread, waiting for the file's lock for
    /// at most an attempt of the lease's timings: on a runtime use [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// Nothing of it is left on the connection, but after `Unknown`.
    ///
    /// - [`Lost`](GuardError::Lost): no statement of the program's may run. [`Replaced`](LossReason::Replaced): the store's
    ///   file is not at its path any more.
    /// - [`Failed`](GuardError::Failed) of kind [`Busy`](ErrorKind::Busy): others kept the lock;
    ///   [`Invalid`](ErrorKind::Invalid): the connection is on another file, or on one that was replaced, has a second one
    ///   attached, a transaction open, a temporary trigger on the lease table, or keeps its locks;
    ///   [`NotDurable`](ErrorKind::NotDurable): its journal cannot undo the transaction;
    ///   [`Unavailable`](ErrorKind::Unavailable): the store is about to open its file again; and what SQLite says.
    /// - [`Unknown`](GuardError::Unknown): see [`rollback`](Guarded::rollback).
    pub fn begin<'c>(&self, connection: &'c mut Connection) -> Result<Guarded<'c>, GuardError> {
        self.begin_unless(connection, Arc::default())
    }

    /// Begins the transaction, runs the work on a thread where it may block, and commits if it succeeds.
    ///
    /// The connection comes back with the outcome, its transaction ended. An error of the work's own rolls back and comes
    /// back as it is, unless the lease is lost, which is answered first, or the transaction
    /// [cannot be rolled back](Guarded::rollback), before that. A panic rolls back and is resumed here; the connection is
    /// dropped.
    ///
    /// Dropping the future rolls the transaction back, a running statement of it being interrupted, unless its commit is
    /// on its way by then. The connection is dropped when the work has returned.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, and in one that is shutting down.
    pub async fn run<C, T, E, F>(&self, connection: C, work: F) -> (C, Result<T, GuardedError<E>>)
    where
        C: DerefMut<Target = Connection> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
        F: FnOnce(&Guarded<'_>) -> Result<T, E> + Send + 'static,
    {
        let abandoned = Arc::new(AtomicBool::new(false));
        let _unless_it_ends = Abandon(Arc::clone(&abandoned));
        let guard = self.clone();
        let task = tokio::task::spawn_blocking(move || {
            let mut connection = connection;
            let outcome = guard.work(&mut connection, abandoned, work);
            (connection, outcome)
        });
        match task.await {
            Ok(ended) => ended,
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            Err(error) => panic!("the runtime is shutting down: {error}"),
        }
    }

    fn work<T, E>(
        &self,
        connection: &mut Connection,
        abandoned: Arc<AtomicBool>,
        work: impl FnOnce(&Guarded<'_>) -> Result<T, E>,
    ) -> Result<T, GuardedError<E>> {
        let guarded = self.begin_unless(connection, abandoned)?;
        let outcome = work(&guarded);
        let outcome =
            guarded.watch.check().map_err(GuardedError::from).and(outcome.map_err(GuardedError::Work));
        match outcome {
            Ok(value) => guarded.commit().map(|()| value).map_err(GuardedError::from),
            Err(error) => guarded.rollback().map_err(GuardedError::from).and(Err(error)),
        }
    }

    fn begin_unless<'c>(
        &self,
        connection: &'c mut Connection,
        abandoned: Arc<AtomicBool>,
    ) -> Result<Guarded<'c>, GuardError> {
        let Self { store, tenure, elsewhere } = self;
        // No other thread ends the transaction: the progress handler does.
        let (guarding, _) = Guarding::begin(tenure)?;
        session::is_idle(connection).map_err(GuardError::Failed)?;
        if *elsewhere {
            session::is_off_the_file_of(store, connection).map_err(GuardError::Failed)?;
        } else {
            session::is_in_place(store, connection).map_err(out_of_place)?;
            session::is_on_the_file_of(store, connection).map_err(GuardError::Failed)?;
        }
        session::has_no_other_file(connection).map_err(failed)?;
        session::gives_locks_back(connection).map_err(failed)?;
        let busy_timeout = session::stop_waiting(connection).map_err(failed)?;
        let watch = Watch::new(guarding, abandoned);
        let (store, elsewhere) = (store.clone(), *elsewhere);
        let mut guarded = Guarded { connection, store, watch, busy_timeout, elsewhere, renewal: None };
        guarded.watch.install(guarded.connection).map_err(|error| failed(error.into()))?;
        match guarded.open() {
            Ok(()) => Ok(guarded),
            Err(error) => Err(guarded.undone(error)),
        }
    }
}

/// Tells, by being dropped, that nobody waits any more.
struct Abandon(Arc<AtomicBool>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// An open transaction under a lease, and the only way to its connection, to be used like one.
///
/// Dropped, it is rolled back. It keeps the [`Tenure`], so the name is not given back before it has ended.
///
/// Nested transactions are written out (`SAVEPOINT`, `RELEASE`, `ROLLBACK TO`), for the driver wants a `&mut Connection`
/// for them, with which the guard could be taken off.
#[must_use = "it is committed by `commit` and by nothing else"]
pub struct Guarded<'c> {
    connection: &'c mut Connection,
    store: SqliteStore,
    watch: Arc<Watch>,
    /// The connection's own, to be restored.
    busy_timeout: Duration,
    elsewhere: bool,
    /// And whether the holder was asked to step down.
    renewal: Option<(CarriedRenewal, bool)>,
}

impl Guarded<'_> {
    /// The tenure of the lease.
    pub fn tenure(&self) -> &Tenure {
        self.watch.tenure()
    }

    /// Commits, if the lease is still held. The lease has then been renewed as of the transaction's begin.
    ///
    /// With a rollback journal it waits for those who read, for at most an attempt.
    ///
    /// # Errors
    ///
    /// The transaction is over, and the connection the program's again.
    ///
    /// - [`Lost`](GuardError::Lost), [`Failed`](GuardError::Failed): surely not committed. `Failed` as well when the transaction
    ///   was gone: a `ROLLBACK` or `COMMIT` of the work's own, which is refused, or an error after which SQLite rolls back.
    /// - [`Unknown`](GuardError::Unknown): the disk failed while it was written to; the file has been replaced meanwhile, and
    ///   it is committed in the old one; or, as it says, it is open still: see [`rollback`](Self::rollback).
    pub fn commit(mut self) -> Result<(), GuardError> {
        self.try_commit().map_err(|error| self.undone(error))
    }

    fn try_commit(&mut self) -> Result<(), GuardError> {
        self.watch.check()?;
        if self.watch.is_undone() {
            let message = "a COMMIT or ROLLBACK of the work's own, or an error after which SQLite rolls back, ended it early";
            return Err(GuardError::Failed(StoreError::new(ErrorKind::Other, message).without_effect()));
        }
        // The work can attach one.
        session::has_no_other_file(self.connection).map_err(|error| self.lost_or(failed(error)))?;
        if self.elsewhere {
            self.verify_through_the_store()?;
            return self.send_commit();
        }
        session::is_in_place(&self.store, self.connection).map_err(out_of_place)?;
        self.send_commit()?;
        session::is_in_place(&self.store, self.connection).map_err(GuardError::Unknown)?;
        if let Some((renewal, step_down)) = self.renewal.take() {
            renewal.committed(step_down);
        }
        Ok(())
    }

    /// Rolls back.
    ///
    /// # Errors
    ///
    /// [`Unknown`](GuardError::Unknown): SQLite has not done it, and lets the connection commit nothing any more. Close it.
    pub fn rollback(mut self) -> Result<(), GuardError> {
        self.undo().map_err(left_open)
    }

    fn open(&mut self) -> Result<(), GuardError> {
        self.take_the_lock()?;
        session::can_be_undone(self.connection, !self.elsewhere)
            .map_err(|error| self.lost_or(failed(error)))?;
        if self.elsewhere {
            return self.verify_through_the_store();
        }
        session::is_in_place(&self.store, self.connection).map_err(out_of_place)?;
        session::has_no_trigger(self.connection, self.store.table())
            .map_err(|error| self.lost_or(failed(error)))?;
        // Counted from here on, not from before the lock was waited for: the expiry is written after this.
        let renewal = self.tenure().carry_renewal();
        let fence = self.store.fence(self.tenure());
        match session::verify_and_renew(self.connection, &fence) {
            Ok(Some(step_down)) => {
                self.renewal = Some((renewal, step_down));
                self.watch.check()
            }
            Ok(None) => Err(GuardError::Lost(LossReason::Refused)),
            Err(failure) => Err(self.lost_or(failed(failure))),
        }
    }

    fn take_the_lock(&mut self) -> Result<(), GuardError> {
        let limit = self.store.limit(self.tenure().timings().attempt());
        loop {
            self.watch.check()?;
            let Err(error) = self.connection.execute_batch(sql::BEGIN) else { return Ok(()) };
            let error = StoreError::from(Failure::from(error)).without_effect();
            if error.kind() != ErrorKind::Busy || limit.left().is_zero() {
                return Err(self.lost_or(GuardError::Failed(error)));
            }
            thread::sleep(LOCK_POLL);
        }
    }

    fn verify_through_the_store(&self) -> Result<(), GuardError> {
        match session::verify_through(&self.store, self.tenure()) {
            Ok(VerifyAnswer::Held(_)) => self.watch.check(),
            Ok(VerifyAnswer::Lost) => Err(GuardError::Lost(LossReason::Refused)),
            Err(error) => Err(self.lost_or(GuardError::Failed(error.without_effect()))),
        }
    }

    fn send_commit(&mut self) -> Result<(), GuardError> {
        let limit = self.store.limit(self.tenure().timings().attempt());
        // The work may have turned it on.
        self.connection.busy_timeout(Duration::ZERO).map_err(|error| failed(error.into()))?;
        loop {
            let (answer, passed) = self.watch.commit(|| self.connection.execute_batch(sql::COMMIT));
            let Err(error) = answer else { return Ok(()) };
            let is_open = !self.connection.is_autocommit();
            let error = StoreError::from(Failure::from(error));
            // Else it was under way, and a file may have taken it, or has and a hook of the program's, called after that, failed:
            // https://www.sqlite.org/lang_transaction.html, https://www.sqlite.org/c3ref/wal_hook.html
            let is_undone = self.watch.is_undone() && error.effect() == Effect::None;
            if !(is_open || !passed || is_undone) {
                return Err(GuardError::Unknown(error));
            }
            self.watch.check()?;
            if is_open && error.kind() == ErrorKind::Busy && session::is_in_wal_mode(self.connection) {
                let message = "a statement of the transaction has not ended, for its rows were forgotten";
                let error = StoreError::new(ErrorKind::Other, message).without_effect().with_source(error);
                return Err(GuardError::Failed(error));
            }
            if !is_open || error.kind() != ErrorKind::Busy || limit.left().is_zero() {
                return Err(GuardError::Failed(error.without_effect()));
            }
            thread::sleep(LOCK_POLL);
        }
    }

    /// A lost lease stands before the error that came of it.
    fn lost_or(&self, error: GuardError) -> GuardError {
        self.watch.check().err().unwrap_or(error)
    }

    /// The error of a transaction that is rolled back, if it can be.
    fn undone(&mut self, error: GuardError) -> GuardError {
        self.undo().map_or_else(left_open, |()| error)
    }

    fn undo(&mut self) -> Result<(), Failure> {
        watch::let_it_be_undone(self.connection);
        let mut tries = 0;
        while !self.connection.is_autocommit() {
            tries += 1;
            // An interrupt from elsewhere was meant for the work.
            if let Err(error) = self.connection.execute_batch(sql::ROLLBACK).map_err(Failure::from)
                && (tries == ROLLBACKS || error.code() != Some(ffi::SQLITE_INTERRUPT))
            {
                return Err(error);
            }
        }
        Ok(())
    }
}

/// How many a program that interrupts the connection again and again may hit. When rows were forgotten in mid-read each is hit.
const ROLLBACKS: usize = 1_000;

impl Deref for Guarded<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl Drop for Guarded<'_> {
    fn drop(&mut self) {
        // While a transaction is open that could not be undone, the hooks stay and let it be committed by nobody.
        if self.undo().is_ok() {
            watch::remove(self.connection);
        }
        let _ = self.connection.busy_timeout(self.busy_timeout);
    }
}

impl fmt::Debug for Guarded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guarded").field("tenure", self.tenure()).finish_non_exhaustive()
    }
}

/// An error before the commit.
fn failed(failure: Failure) -> GuardError {
    GuardError::Failed(StoreError::from(failure).without_effect())
}

/// An error of [`session::is_in_place`] before the commit.
fn out_of_place(error: StoreError) -> GuardError {
    if error.kind() == ErrorKind::Replaced {
        return GuardError::Lost(LossReason::Replaced(Arc::new(error)));
    }
    GuardError::Failed(error.without_effect())
}

/// An error of a rollback.
fn left_open(failure: Failure) -> GuardError {
    let error = StoreError::from(failure);
    let message = format!(
        "SQLite does not roll it back, and commits nothing on the connection any more, so close that: {error}"
    );
    GuardError::Unknown(StoreError::new(error.kind(), message).with_source(error))
}
