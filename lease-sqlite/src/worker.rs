//! The thread that owns a connection.
//!
//! Each store has two: one that writes and one that only reads, so that a read never stands in line
//! behind a write that waits for the lock. Nothing of the store runs on threads of the user's, whose
//! blocking pool may be full just when a renewal is due.
//!
//! One writing connection is enough, and is fairer than several: SQLite has one writer per file, a
//! line is first come, first served, and the lock goes to whoever happens to ask at the right moment.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use lease_core::ErrorKind;
use lease_core::store::{Limit, StoreError};
use rusqlite::{Connection, ffi};
use tokio::sync::oneshot;

use crate::connection::{Open, Place, Role};
use crate::courtesy::Courtesy;
use crate::error::Failure;
use crate::notices::Lookout;
use crate::queue::{Asked, Job, Kind, Order, Patience, Queue, Turn, set_patience};
use crate::{schema, sql};

/// A handle to the thread; dropping it lets the thread end.
pub(crate) struct Worker {
    queue: Arc<Queue>,
}

impl Worker {
    /// With a lookout it also looks whether others have committed, while somebody listens.
    pub(crate) fn start(place: Place, lookout: Option<Lookout>) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let served = Arc::clone(&queue);
        // Linux shows the first 15 bytes.
        let name = match place.role {
            Role::Write => "lease-sql-write",
            Role::Read => "lease-sql-read",
        };
        thread::Builder::new().name(name.to_owned()).spawn(move || serve(&served, &place, lookout))?;
        Ok(Self { queue })
    }

    /// Puts a statement in line. It is not run if the receiver is dropped before its turn.
    pub(crate) fn ask<T, F>(&self, order: Order, statement: F) -> oneshot::Receiver<Result<T, StoreError>>
    where
        T: Send + 'static,
        F: FnMut(&mut Connection) -> Result<T, Failure> + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let work = Asked { statement, answer: None, sender: Some(sender) };
        self.queue.push(Job::new(order, Box::new(work)));
        receiver
    }

    /// To be called when somebody has begun to listen.
    pub(crate) fn is_listened_to(&self) {
        self.queue.look_due_has_changed();
    }
}

/// Waits for a thread's answer. The statement may be running when this gives up: a disk may hang.
pub(crate) async fn answered<T>(
    limit: &Limit,
    answer: oneshot::Receiver<Result<T, StoreError>>,
) -> Result<T, StoreError> {
    limit.bound(async { answer.await.unwrap_or_else(|_| Err(thread_ended())) }).await
}

fn thread_ended() -> StoreError {
    StoreError::new(ErrorKind::Other, "the store's thread has ended, which is a bug")
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.queue.close();
    }
}

fn serve(queue: &Arc<Queue>, place: &Place, mut lookout: Option<Lookout>) {
    let mut open = None;
    let mut courtesy = Courtesy::new(Instant::now());
    loop {
        let mut jobs = match queue.take(|| lookout.as_ref().and_then(Lookout::due)) {
            Turn::Jobs(jobs) => jobs,
            Turn::Look => {
                set_patience(queue, Patience::none());
                if let Some(lookout) = &mut lookout {
                    lookout.look(place, &mut open);
                }
                continue;
            }
            Turn::End => return,
        };
        let now = Instant::now();
        for late in jobs.extract_if(.., |job| now >= job.order.until) {
            late.refuse();
        }
        let Some(first) = jobs.first() else { continue };
        if first.order.kind.joins() {
            thread::sleep(courtesy.pause(now));
        }
        let patience = Patience::of(&jobs);
        set_patience(queue, patience);
        match attempt(place, &mut open, &mut jobs) {
            Ok(()) => {
                for mut job in jobs {
                    job.work.settle(Ok(()));
                }
            }
            Err(stop) if stop.error.kind() == ErrorKind::Busy => {
                for job in &mut jobs {
                    job.contention = Some(stop.error.clone());
                }
                queue.wait_a_little(patience);
                queue.put_back(jobs);
                continue;
            }
            Err(stop) if stop.is_one_jobs && jobs.len() > 1 => {
                for job in &mut jobs {
                    job.alone = true;
                }
                queue.put_back(jobs);
            }
            Err(stop) => {
                for mut job in jobs {
                    job.work.settle(Err(stop.error.clone()));
                }
            }
        }
        courtesy.wrote(Instant::now());
        if let Some(lookout) = &mut lookout {
            lookout.served(now.elapsed());
        }
    }
}

/// What ended an attempt; all of it was undone, as far as the error's effect does not say otherwise.
struct Stop {
    error: StoreError,
    /// A statement failed; its neighbours may be sound.
    is_one_jobs: bool,
}

impl Stop {
    fn all(error: StoreError) -> Self {
        Self { error, is_one_jobs: false }
    }
}

/// One attempt at some jobs, on the open connection or a new one. Leaves no transaction open.
fn attempt(place: &Place, open: &mut Option<Open>, jobs: &mut [Job]) -> Result<(), Stop> {
    let kind = jobs[0].order.kind;
    if let Err(error) = compare(place, open)
        && !(kind.follows() && error.kind() == ErrorKind::Replaced)
    {
        return Err(Stop::all(error.without_effect()));
    }
    let opened = match open {
        Some(opened) => opened,
        None => {
            open.insert(place.open(kind == Kind::Make).map_err(|error| Stop::all(error.without_effect()))?)
        }
    };
    let connection = &mut opened.connection;
    let mut result =
        if kind.joins() { together(place, connection, jobs) } else { bare(place, connection, &mut jobs[0]) };
    if !connection.is_autocommit() {
        // Were a transaction left open, it would lock everybody out, and the answer would be about
        // something that was never committed.
        let undone = connection.execute_batch(sql::ROLLBACK);
        let left_open =
            || StoreError::new(ErrorKind::Other, "a statement left its transaction open; it was undone");
        result = result.and_then(|()| Err(Stop::all(left_open())));
        if undone.is_err() {
            let_go(place, open);
        }
    }
    match result {
        // The lock may have been waited for so long that the file has been replaced meanwhile, and what
        // was committed then is in the old one.
        Ok(()) if !kind.follows() => compare(place, open).map_err(Stop::all),
        Err(stop) if !leaves_the_connection_sound(stop.error.kind()) => {
            let_go(place, open);
            Err(stop)
        }
        result => result,
    }
}

/// Compares the file at the path with the one that is open, and lets go of one that was replaced. When
/// nobody can tell, the connection is kept, for only with it can it be told later.
pub(crate) fn compare(place: &Place, open: &mut Option<Open>) -> Result<(), StoreError> {
    let Some(opened) = open else { return Ok(()) };
    let same = place.still_holds(&opened.files);
    if same.as_ref().is_err_and(|error| error.kind() == ErrorKind::Replaced) {
        let_go(place, open);
    }
    same
}

/// Told before, for with the last connection its log goes.
pub(crate) fn let_go(place: &Place, open: &mut Option<Open>) {
    place.known.tell(None);
    *open = None;
}

/// Runs jobs in one transaction. Until its commit nothing has happened, whatever fails.
fn together(place: &Place, connection: &mut Connection, jobs: &mut [Job]) -> Result<(), Stop> {
    let undone = |error: StoreError| Stop::all(error.without_effect());
    say(connection, sql::BEGIN).map_err(|error| undone(error.into()))?;
    // The lock may have been waited for so long that some have left.
    for job in jobs.iter_mut().filter(|job| job.work.wanted()) {
        statement(place, connection, job)
            .map_err(|error| Stop { error: error.without_effect(), is_one_jobs: true })?;
    }
    say(connection, sql::COMMIT).map_err(|error| Stop::all(error.into()))
}

/// What answers nothing, prepared: to read it costs as much as to run it.
fn say(connection: &Connection, statement: &str) -> Result<(), Failure> {
    connection.prepare_cached(statement)?.execute([])?;
    Ok(())
}

fn bare(place: &Place, connection: &mut Connection, job: &mut Job) -> Result<(), Stop> {
    statement(place, connection, job).map_err(Stop::all)
}

fn statement(place: &Place, connection: &mut Connection, job: &mut Job) -> Result<(), StoreError> {
    match catch_unwind(AssertUnwindSafe(|| job.work.attempt(connection))) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(failure)) => Err(explain(place, connection, failure)),
        Err(panic) => Err(panicked(panic.as_ref())),
    }
}

fn explain(place: &Place, connection: &Connection, failure: Failure) -> StoreError {
    // SQLite has one code for everything that does not compile; the table says which it is.
    let missing = (failure.code() == Some(ffi::SQLITE_ERROR))
        .then(|| schema::inspect(connection, &place.table).ok()?.problem(&place.table))
        .flatten();
    match (missing, failure) {
        (Some(missing), Failure::Driver(source)) => missing.without_effect().with_source(source),
        (_, failure) => match place.role {
            Role::Read => StoreError::from(failure).without_effect(),
            Role::Write => failure.into(),
        },
    }
}

pub(crate) fn leaves_the_connection_sound(kind: ErrorKind) -> bool {
    use ErrorKind::{Busy, Full, Invalid, ReadOnly, Schema, Timeout};
    // On a full disk a new connection could not make the files that this one has.
    matches!(kind, Busy | Full | Invalid | ReadOnly | Schema | Timeout)
}

impl Job {
    /// Answers a job whose time is over.
    fn refuse(mut self) {
        let no_turn = || {
            StoreError::new(ErrorKind::Timeout, "earlier statements on this file took all the time there was")
                .without_effect()
        };
        let error = self.contention.take().unwrap_or_else(no_turn);
        self.work.settle(Err(error));
    }
}

fn panicked(panic: &(dyn Any + Send)) -> StoreError {
    let text = (panic.downcast_ref::<String>().map(String::as_str))
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    StoreError::new(ErrorKind::Other, format!("a statement panicked, which is a bug: {text}"))
}

#[cfg(test)]
mod tests;
