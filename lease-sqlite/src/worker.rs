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
use lease_core::store::StoreError;
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
        result.and(Err(StoreError::new(
            ErrorKind::Other,
            "a statement left its transaction open; it was undone",
        )))
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use lease_core::SystemClock;
    use lease_core::store::Effect;

    use super::*;
    use crate::limit::Limit;
    use crate::options::Table;

    const LONG: Duration = Duration::from_secs(60);

    /// A writer of a file of its own. The folder goes last.
    struct Bench {
        worker: Worker,
        _folder: tempfile::TempDir,
    }

    impl Bench {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("leases.db");
            let place = Place { path, table: Table::new("leases").unwrap(), role: Role::Write };
            Self { worker: Worker::start(place).unwrap(), _folder: folder }
        }

        async fn ask<T, F>(&self, within: Duration, statement: F) -> Result<T, StoreError>
        where
            T: Send + 'static,
            F: FnMut(&mut Connection) -> Result<T, Failure> + Send + 'static,
        {
            let limit = limit(within);
            let order = Order { create: true, ..limit.order() };
            limit.answer(self.worker.ask(order, statement)).await
        }
    }

    fn limit(within: Duration) -> Limit {
        let clock = SystemClock::shared().unwrap();
        Limit::new(&(clock as Arc<dyn lease_core::Clock>), within)
    }

    fn tables(connection: &mut Connection) -> Result<i64, Failure> {
        Ok(connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?)
    }

    #[tokio::test]
    async fn a_panic_is_answered_undone_and_survived() {
        let bench = Bench::new();
        let panicked = bench.ask(LONG, |db| -> Result<(), Failure> {
            db.execute_batch("BEGIN IMMEDIATE; CREATE TABLE half (x)")?;
            panic!("on purpose");
        });
        let error = panicked.await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Other, Effect::Unknown));
        assert!(error.to_string().contains("on purpose"), "{error}");
        assert_eq!(bench.ask(LONG, tables).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_transaction_left_open_is_undone_and_not_answered_as_done() {
        let bench = Bench::new();
        let left = bench.ask(LONG, |db| Ok(db.execute_batch("BEGIN IMMEDIATE; CREATE TABLE half (x)")?));
        assert_eq!(left.await.unwrap_err().kind(), ErrorKind::Other);
        assert_eq!(bench.ask(LONG, tables).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn an_error_inside_a_transaction_undoes_it() {
        let bench = Bench::new();
        let failed = bench.ask(LONG, |db| -> Result<(), Failure> {
            db.execute_batch("BEGIN IMMEDIATE; CREATE TABLE half (x)")?;
            Err(StoreError::new(ErrorKind::Full, "as if").without_effect().into())
        });
        assert!(failed.await.is_err());
        assert_eq!(bench.ask(LONG, tables).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_statement_that_hangs_is_given_up_and_what_waits_behind_it_is_not_begun_late() {
        let bench = Bench::new();
        let (resume, paused) = mpsc::channel::<()>();
        let order = Order { create: true, ..limit(LONG).order() };
        let hung = bench.worker.ask(order, move |_| {
            let _ = paused.recv();
            Ok(())
        });
        let error = limit(Duration::from_millis(50)).answer(hung).await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::Unknown));

        // Kept by hand, as by a caller whose own time is not over yet.
        let late = limit(Duration::from_millis(50)).order();
        let begun_late = bench.worker.ask(late, |_| Ok("begun"));
        while Instant::now() < late.until {
            tokio::task::yield_now().await;
        }
        resume.send(()).unwrap();
        let error = begun_late.await.unwrap().unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::None));
        assert_eq!(bench.ask(LONG, tables).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_statement_dropped_before_its_turn_is_not_run() {
        let bench = Bench::new();
        let (resume, paused) = mpsc::channel::<()>();
        let order = Order { create: true, ..limit(LONG).order() };
        let running = bench.worker.ask(order, move |_| {
            let _ = paused.recv();
            Ok(())
        });
        let dropped = bench.worker.ask(order, |db| Ok(db.execute_batch("CREATE TABLE ghost (x)")?));
        drop(dropped);
        resume.send(()).unwrap();
        running.await.unwrap().unwrap();
        assert_eq!(bench.ask(LONG, tables).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn contention_is_tried_again_until_the_time_is_over() {
        let bench = Bench::new();
        let busy = || rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_BUSY_SNAPSHOT), None);
        let mut tries = 0;
        let third = bench.ask(LONG, move |_| {
            tries += 1;
            if tries < 3 { Err(busy().into()) } else { Ok(tries) }
        });
        assert_eq!(third.await.unwrap(), 3);
        let never = bench.ask(Duration::from_millis(100), move |_| -> Result<(), _> { Err(busy().into()) });
        let error = never.await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Busy, Effect::None));
    }

    #[tokio::test]
    async fn the_thread_ends_and_the_file_is_closed_when_the_last_handle_is_dropped() {
        let bench = Bench::new();
        bench.ask(LONG, tables).await.unwrap();
        let thread = Arc::downgrade(&bench.worker.queue);
        drop(bench.worker);
        let give_up = Instant::now() + LONG;
        while thread.strong_count() > 0 {
            assert!(Instant::now() < give_up, "the thread still runs");
            tokio::task::yield_now().await;
        }
    }
}
