//! What a case of the guard suite works with.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use lease_core::{GuardError, LeaseStore, Tenure};
use tokio::time::{Instant, sleep, timeout};

use super::owner::Owner;
use super::rival::{Rival, SOON};
use super::{GuardSubject, GuardedWork};
use crate::suite::context::Context;
use crate::suite::process::WITHIN;

/// How long anything may take that has no bound of its own, however slow the machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// A guard under test, on names that no other case and no other run uses.
pub(super) struct GuardContext {
    cx: Context,
    subject: Arc<dyn GuardSubject>,
    another: Arc<dyn LeaseStore>,
}

impl Deref for GuardContext {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.cx
    }
}

impl GuardContext {
    pub(super) async fn new(subject: Arc<dyn GuardSubject>) -> Self {
        let cx = Context::new(Arc::clone(&subject) as _);
        let another = subject.another().await;
        // So that it has its connection, and a rival's time is for its statements.
        let connected = in_time("inspect", another.inspect(&cx.name("clock"), WITHIN)).await;
        assert!(connected.is_ok(), "asked to inspect, the store failed: {connected:?}");
        Self { cx, subject, another }
    }

    /// See [`GuardSubject::one_writer`].
    pub(super) fn one_writer(&self) -> bool {
        self.subject.one_writer()
    }

    /// A process that holds a lease as long as nobody takes it.
    pub(super) async fn own(&self, end: &str) -> Owner {
        Owner::claim(self.shared_store(), self.name(end), Owner::lasting()).await
    }

    /// Another process, that would take the lease of an owner.
    pub(super) fn rival(&self, owner: &Owner) -> Rival {
        Rival::new(&self.another, owner, self.one_writer())
    }

    /// A guarded transaction, as the guard answers.
    pub(super) async fn try_begin(&self, tenure: &Tenure) -> Result<Work, GuardError> {
        let begin = in_time("begin a transaction", self.subject.begin(tenure));
        let inner = begin.await?;
        Ok(Work { inner, written: Vec::new(), prefix: format!("{}/", tenure.name()) })
    }

    /// A guarded transaction of a lease that is held.
    pub(super) async fn begin(&self, owner: &Owner) -> Work {
        match self.try_begin(&owner.tenure()).await {
            Ok(work) => work,
            Err(error) => panic!("no transaction begins under a lease that is held: {error}"),
        }
    }

    /// As `begin`, once the session of a transaction that was dropped keeps it out no more.
    pub(super) async fn begin_when_free(&self, owner: &Owner) -> Work {
        let patience = Patience::new("begin a transaction after another was dropped");
        loop {
            match self.try_begin(&owner.tenure()).await {
                Ok(work) => return work,
                Err(error) if error.retry_helps() => patience.wait(&error.to_string()).await,
                Err(error) => panic!("no transaction begins under a lease that is held: {error}"),
            }
        }
    }

    /// The notes of transactions under the lease of this name, in order.
    pub(super) async fn notes(&self, prefix: &str) -> Vec<String> {
        let mut notes = in_time("read what is committed", self.subject.committed(prefix)).await;
        notes.sort();
        notes
    }

    /// Holds the database to have none of these notes.
    pub(super) async fn nothing_of(&self, prefix: &str) {
        self.only(prefix, &[]).await;
    }

    /// Holds the database to have these notes and no others.
    pub(super) async fn only(&self, prefix: &str, expected: &[String]) {
        let mut expected = expected.to_vec();
        expected.sort();
        let notes = self.notes(prefix).await;
        assert!(notes == expected, "committed are {notes:?}\n  the promise says {expected:?}");
    }

    /// Holds the guard to serve the next holder of the name, and nothing more of the former one's to come to light
    /// meanwhile.
    pub(super) async fn passes_on(&self, owner: Owner, mut expected: Vec<String>) {
        let next = self.next_after(owner).await;
        let mut work = self.begin_when_free(&next).await;
        let prefix = work.prefix.clone();
        work.write("next").await;
        work.commit().await.unwrap_or_else(|error| panic!("the next holder's commit failed: {error}"));
        expected.push(format!("{prefix}next"));
        self.only(&prefix, &expected).await;
    }

    async fn next_after(&self, owner: Owner) -> Owner {
        let (name, holder) = (owner.name().clone(), owner.holder());
        drop(owner);
        let patience = Patience::new("claim a name that was given up");
        loop {
            // Where a session that is ending kept the owner itself from it: its clock stands still, it does not try again.
            drop(in_time("release", self.another.release(&name, &holder, SOON)).await);
            match Owner::try_claim(&self.another, &name, Owner::lasting()).await {
                Ok(next) => return next,
                Err(why) => patience.wait(&why).await,
            }
        }
    }
}

/// A guarded transaction of a case.
pub(super) struct Work {
    inner: Box<dyn GuardedWork>,
    written: Vec<String>,
    /// What its notes begin with: those of all transactions under its lease do.
    pub(super) prefix: String,
}

impl Work {
    /// Writes a note under a lease that is held.
    pub(super) async fn write(&mut self, end: &str) {
        if let Err(error) = self.try_write(end).await {
            panic!("a transaction under a lease that is held cannot write: {error}");
        }
    }

    pub(super) async fn try_write(&mut self, end: &str) -> Result<(), GuardError> {
        let note = format!("{}{end}", self.prefix);
        in_time("write", self.inner.write(&note)).await?;
        self.written.push(note);
        Ok(())
    }

    /// All that it has written, in order.
    pub(super) fn written(&self) -> Vec<String> {
        let mut written = self.written.clone();
        written.sort();
        written
    }

    pub(super) async fn commit(self) -> Result<(), GuardError> {
        in_time("commit", self.inner.commit()).await
    }

    pub(super) async fn roll_back(self) -> Result<(), GuardError> {
        in_time("roll back", self.inner.roll_back()).await
    }
}

/// Holds a guard's answer to be that the lease is lost.
#[track_caller]
pub(super) fn is_lost<T>(answer: Result<T, GuardError>) {
    match answer {
        Ok(_) => panic!("the guard goes on as if the lease were held; it is lost"),
        Err(GuardError::Lost(_)) => {}
        Err(error) => panic!("the guard says {error}\n  the promise says that the lease is lost"),
    }
}

/// The answer to something that has an end.
pub(super) async fn in_time<T>(what: &str, asking: impl Future<Output = T>) -> T {
    let answer = timeout(PATIENCE, asking).await;
    answer.unwrap_or_else(|_| panic!("asked to {what}, nothing answers within {PATIENCE:?}"))
}

/// For asking again and again.
pub(super) struct Patience {
    what: &'static str,
    since: Instant,
}

impl Patience {
    pub(super) fn new(what: &'static str) -> Self {
        Self { what, since: Instant::now() }
    }

    /// Waits a little, if there is time.
    pub(super) async fn wait(&self, why: &str) {
        assert!(self.since.elapsed() < PATIENCE, "{}: not within {PATIENCE:?}: {why}", self.what);
        sleep(Duration::from_millis(10)).await;
    }
}
