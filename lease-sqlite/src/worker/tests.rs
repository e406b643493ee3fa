use std::sync::mpsc;
use std::time::Duration;

use lease_core::SystemClock;
use lease_core::store::Effect;

use super::*;
use crate::files::Known;
use crate::options::Table;

const LONG: Duration = Duration::from_secs(60);

/// A writer of a file of its own. The folder goes last.
struct Bench {
    worker: Worker,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leases.db");
        let place =
            Place { path, table: Table::new("leases").unwrap(), role: Role::Write, known: Known::default() };
        Self { worker: Worker::start(place, None).unwrap(), folder }
    }

    async fn ask<T, F>(&self, within: Duration, statement: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&mut Connection) -> Result<T, Failure> + Send + 'static,
    {
        let limit = limit(within);
        answered(&limit, self.worker.ask(Order::within(&limit, Kind::Make), statement)).await
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

/// Lets the thread wait inside a statement until all of these stand in line, then go on.
struct Line<'a> {
    bench: &'a Bench,
    resume: mpsc::Sender<()>,
    first: oneshot::Receiver<Result<(), StoreError>>,
}

impl<'a> Line<'a> {
    fn new(bench: &'a Bench) -> Self {
        let (resume, paused) = mpsc::channel::<()>();
        let first = bench.worker.ask(Order::within(&limit(LONG), Kind::Make), move |db| {
            let _ = paused.recv();
            Ok(db.execute_batch("CREATE TABLE written (n)")?)
        });
        Self { bench, resume, first }
    }

    fn write<F>(&self, statement: F) -> oneshot::Receiver<Result<(), StoreError>>
    where
        F: FnMut(&mut Connection) -> Result<(), Failure> + Send + 'static,
    {
        self.bench.worker.ask(Order::within(&limit(LONG), Kind::Write), statement)
    }

    async fn go(self) {
        self.resume.send(()).unwrap();
        self.first.await.unwrap().unwrap();
    }
}

fn insert(connection: &mut Connection) -> Result<(), Failure> {
    connection.execute("INSERT INTO written VALUES (1)", [])?;
    Ok(())
}

fn rows(connection: &mut Connection) -> Result<i64, Failure> {
    Ok(connection.query_row("SELECT count(*) FROM written", [], |row| row.get(0))?)
}

#[tokio::test]
async fn writes_that_wait_in_line_share_a_commit_and_none_is_answered_before_it() {
    let bench = Bench::new();
    let line = Line::new(&bench);
    let mut early = line.write(insert);
    let (began, has_begun) = mpsc::channel();
    let (resume, paused) = mpsc::channel::<()>();
    let late = line.write(move |_| {
        began.send(()).unwrap();
        let _ = paused.recv();
        Ok(())
    });
    line.go().await;
    has_begun.recv().unwrap();
    let mut other = Connection::open(bench.folder.path().join("leases.db")).unwrap();
    assert_eq!(rows(&mut other).map_err(StoreError::from).unwrap(), 0);
    assert!(early.try_recv().is_err());
    resume.send(()).unwrap();
    late.await.unwrap().unwrap();
    early.await.unwrap().unwrap();
    assert_eq!(rows(&mut other).map_err(StoreError::from).unwrap(), 1);
}

#[tokio::test]
async fn a_statement_that_fails_or_panics_does_not_spoil_its_neighbours() {
    let bench = Bench::new();
    let line = Line::new(&bench);
    let before = line.write(insert);
    let fails = line.write(|db| {
        insert(db)?;
        Err(StoreError::new(ErrorKind::Damaged, "as if").into())
    });
    let between = line.write(insert);
    let panics = line.write(|db| {
        insert(db)?;
        panic!("on purpose")
    });
    let after = line.write(insert);
    line.go().await;
    for sound in [before, between, after] {
        sound.await.unwrap().unwrap();
    }
    for (failed, kind) in [(fails, ErrorKind::Damaged), (panics, ErrorKind::Other)] {
        let error = failed.await.unwrap().unwrap_err();
        assert_eq!((error.kind(), error.effect()), (kind, Effect::None));
    }
    assert_eq!(bench.ask(LONG, rows).await.unwrap(), 3);
}

#[tokio::test]
async fn whoever_leaves_while_neighbours_are_written_is_passed_over_and_they_are_answered() {
    let bench = Bench::new();
    let line = Line::new(&bench);
    let (hand_over, leaves) = mpsc::channel::<oneshot::Receiver<_>>();
    let before = line.write(move |db| {
        drop(leaves.recv());
        insert(db)
    });
    hand_over.send(line.write(insert)).unwrap();
    let after = line.write(insert);
    line.go().await;
    before.await.unwrap().unwrap();
    after.await.unwrap().unwrap();
    assert_eq!(bench.ask(LONG, rows).await.unwrap(), 2);
}

#[tokio::test]
async fn a_commit_that_fails_is_told_to_all_who_shared_it() {
    let bench = Bench::new();
    // Foreign keys that are looked at by the commit.
    let made = bench.ask(LONG, |db| {
        Ok(db.execute_batch(
            "PRAGMA foreign_keys = ON; CREATE TABLE parent (id INTEGER PRIMARY KEY);
             CREATE TABLE child (id REFERENCES parent DEFERRABLE INITIALLY DEFERRED)",
        )?)
    });
    made.await.unwrap();
    let line = Line::new(&bench);
    let sound = line.write(insert);
    let orphan = line.write(|db| Ok(db.execute_batch("INSERT INTO child VALUES (1)")?));
    line.go().await;
    for shared in [sound, orphan] {
        let error = shared.await.unwrap().unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Other, Effect::None));
    }
    assert_eq!(bench.ask(LONG, rows).await.unwrap(), 0);
}

#[tokio::test]
async fn what_is_committed_in_a_file_that_was_replaced_meanwhile_is_not_answered_as_done() {
    let bench = Bench::new();
    bench.ask(LONG, |db| Ok(db.execute_batch("CREATE TABLE written (n)")?)).await.unwrap();
    let path = bench.folder.path().join("leases.db");
    let limit = limit(LONG);
    let written = bench.worker.ask(Order::within(&limit, Kind::Write), move |db| {
        insert(db)?;
        std::fs::rename(&path, path.with_extension("moved")).unwrap();
        Ok(())
    });
    let error = written.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Replaced, Effect::Unknown));
    assert_eq!(bench.ask(LONG, tables).await.unwrap(), 0, "of the new file");
}

#[tokio::test]
async fn a_statement_that_hangs_is_given_up_and_what_waits_behind_it_is_not_begun_late() {
    let bench = Bench::new();
    let (resume, paused) = mpsc::channel::<()>();
    let order = Order::within(&limit(LONG), Kind::Make);
    let hung = bench.worker.ask(order, move |_| {
        let _ = paused.recv();
        Ok(())
    });
    let error = answered(&limit(Duration::from_millis(50)), hung).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::Unknown));

    // Kept by hand, as by a caller whose own time is not over yet.
    let late = Order::within(&limit(Duration::from_millis(50)), Kind::Make);
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
    let order = Order::within(&limit(LONG), Kind::Make);
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
