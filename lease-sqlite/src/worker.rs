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

use lease_core::{ErrorKind, StoreError};
use rusqlite::{Connection, ffi};
use tokio::sync::oneshot;

use crate::connection::{Open, Place, Role};
use crate::error::Failure;
use crate::queue::{Asked, Job, Order, Queue, set_patience};
use crate::schema;

/// A handle to the thread; dropping it lets the thread end.
pub(crate) struct Worker {
    queue: Arc<Queue>,
}

impl Worker {
    pub(crate) fn start(place: Place) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let served = Arc::clone(&queue);
        // Linux shows the first 15 bytes.
        let name = match place.role {
            Role::Write => "lease-sql-write",
            Role::Read => "lease-sql-read",
        };
        thread::Builder::new().name(name.to_owned()).spawn(move || serve(&served, &place))?;
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
        self.queue.push(Job { order, work: Box::new(work), contention: None });
        receiver
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.queue.close();
    }
}

fn serve(queue: &Arc<Queue>, place: &Place) {
    let mut open = None;
    while let Some(mut job) = queue.take() {
        if !job.work.wanted() {
            continue;
        }
        set_patience(queue, job.order);
        match attempt(place, &mut open, &mut job) {
            Err(error) if error.kind() == ErrorKind::Busy && Instant::now() < job.order.until => {
                job.contention = Some(error);
                queue.put_back(job);
            }
            result => job.work.settle(result),
        }
    }
}

/// One attempt at a job, on the open connection or a new one. Leaves no transaction open.
fn attempt(place: &Place, open: &mut Option<Open>, job: &mut Job) -> Result<(), StoreError> {
    if Instant::now() >= job.order.until {
        return Err(job.contention.take().unwrap_or_else(no_turn));
    }
    if let Some(opened) = open
        && let Err(gone) = place.still_holds(opened)
    {
        *open = None;
        if !job.order.follow {
            return Err(gone.without_effect());
        }
    }
    let opened = match open {
        Some(opened) => opened,
        None => open.insert(place.open(job.order.create).map_err(StoreError::without_effect)?),
    };
    let result = run(place, &mut opened.connection, job);
    if let Err(error) = &result
        && !leaves_the_connection_sound(error.kind())
    {
        *open = None;
    }
    result
}

fn run(place: &Place, connection: &mut Connection, job: &mut Job) -> Result<(), StoreError> {
    let outcome = catch_unwind(AssertUnwindSafe(|| job.work.attempt(connection)));
    let result = match outcome {
        Ok(Ok(())) => Ok(()),
        Ok(Err(failure)) => Err(explain(place, connection, failure)),
        Err(panic) => Err(panicked(panic.as_ref())),
    };
    // A transaction is rolled back where it is dropped. Were one left open all the same, it would
    // lock everybody out, and the answer would be about something that was never committed.
    if connection.is_autocommit() {
        result
    } else {
        let _ = connection.execute_batch("ROLLBACK");
        result.and(Err(StoreError::new(ErrorKind::Other, "a statement left its transaction open; it was undone")))
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

fn leaves_the_connection_sound(kind: ErrorKind) -> bool {
    use ErrorKind::{Busy, Full, Invalid, ReadOnly, Schema, Timeout};
    // On a full disk a new connection could not make the files that this one has.
    matches!(kind, Busy | Full | Invalid | ReadOnly | Schema | Timeout)
}

fn no_turn() -> StoreError {
    StoreError::new(ErrorKind::Timeout, "earlier statements on this file took all the time there was")
        .without_effect()
}

fn panicked(panic: &(dyn Any + Send)) -> StoreError {
    let text = (panic.downcast_ref::<String>().map(String::as_str))
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    StoreError::new(ErrorKind::Other, format!("a statement panicked, which is a bug: {text}"))
}
