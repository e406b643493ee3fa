//! How a transaction ends when nothing is lost.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::{hint, io, thread};

use lease_core::{ErrorKind, GuardError, GuardedError};
use lease_sqlite::Guarded;
use rusqlite::hooks::Wal;
use rusqlite::{Connection, InterruptHandle};

use crate::scene::{ENDLESS, INSERT, Scene, has_failed, the_guards};
use crate::support::{JOURNALS, Journal};

#[tokio::test]
async fn what_is_committed_is_seen_by_others_and_the_connection_is_as_it_was() {
    for journal in JOURNALS {
        let scene = Scene::new(journal).await;
        let mut connection = scene.connection();
        let tx = scene.store.guard(&scene.tenure()).begin(&mut connection).unwrap();
        tx.execute(INSERT, []).unwrap();
        assert_eq!(tx.tenure().term().get(), 1);
        assert_eq!(scene.rows(), 0);
        tx.commit().unwrap();
        assert_eq!(scene.rows(), 1);
        scene.is_free(&connection);
    }
}

#[tokio::test]
async fn what_is_rolled_back_or_dropped_is_gone_and_the_connection_is_as_it_was() {
    for journal in JOURNALS {
        let scene = Scene::new(journal).await;
        let mut connection = scene.connection();
        let tx = scene.store.guard(&scene.tenure()).begin(&mut connection).unwrap();
        tx.execute(INSERT, []).unwrap();
        tx.rollback().unwrap();
        assert_eq!(scene.rows(), 0);
        let tx = scene.store.guard(&scene.tenure()).begin(&mut connection).unwrap();
        tx.execute(INSERT, []).unwrap();
        drop(tx);
        assert_eq!(scene.rows(), 0);
        scene.is_free(&connection);
    }
}

#[tokio::test]
async fn savepoints_work_inside() {
    let scene = Scene::new(Journal::Wal).await;
    let mut connection = scene.connection();
    let tx = scene.store.guard(&scene.tenure()).begin(&mut connection).unwrap();
    tx.execute(INSERT, []).unwrap();
    tx.execute_batch(&format!(
        "SAVEPOINT s; {INSERT}; ROLLBACK TO s; RELEASE s; SAVEPOINT t; {INSERT}; RELEASE t"
    ))
    .unwrap();
    tx.commit().unwrap();
    assert_eq!(scene.rows(), 2);
}

#[tokio::test]
async fn the_closure_form_commits_and_gives_the_connection_back() {
    let scene = Scene::new(Journal::Wal).await;
    let guard = scene.store.guard(&scene.tenure());
    let (connection, answer) = guard.run(Box::new(scene.connection()), |tx| tx.execute(INSERT, [])).await;
    assert_eq!(answer.unwrap(), 1);
    assert_eq!(scene.rows(), 1);
    scene.is_free(&connection);
}

#[tokio::test]
async fn an_error_of_the_work_rolls_back_and_comes_back_as_it_was() {
    let scene = Scene::new(Journal::Wal).await;
    let guard = scene.store.guard(&scene.tenure());
    let work = |tx: &Guarded<'_>| {
        tx.execute(INSERT, []).unwrap();
        Err::<(), _>(io::Error::from_raw_os_error(42))
    };
    let (connection, answer) = guard.run(Box::new(scene.connection()), work).await;
    match answer {
        Err(GuardedError::Work(error)) => assert_eq!(error.raw_os_error(), Some(42)),
        other => panic!("{other:?}"),
    }
    assert_eq!(scene.rows(), 0);
    scene.is_free(&connection);
}

#[tokio::test]
async fn a_panic_of_the_work_rolls_back_and_goes_on() {
    let scene = Scene::new(Journal::Wal).await;
    let guard = scene.store.guard(&scene.tenure());
    let connection = Box::new(scene.connection());
    let work = |tx: &Guarded<'_>| -> Result<(), io::Error> {
        tx.execute(INSERT, []).unwrap();
        panic!("its own words");
    };
    let task = tokio::spawn(async move { guard.run(connection, work).await });
    let panic = task.await.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"its own words"));
    assert_eq!(scene.rows(), 0);
    scene.sandbox.other().execute(INSERT, []).unwrap();
}

#[tokio::test]
async fn a_dropped_future_interrupts_the_work_and_rolls_back() {
    for journal in JOURNALS {
        let scene = Scene::new(journal).await;
        let (begun, mut has_begun) = tokio::sync::oneshot::channel();
        let (left, has_left) = tokio::sync::oneshot::channel();
        let guard = scene.store.guard(&scene.tenure());
        let run = guard.run(Box::new(scene.connection()), move |tx| {
            begun.send(()).unwrap();
            let answer = tx.execute(ENDLESS, []).map(|_| ());
            // Outside the transaction by now.
            left.send((answer.is_err(), tx.execute(INSERT, []).is_err())).unwrap();
            Ok::<_, rusqlite::Error>(())
        });
        tokio::select! {
            _ = run => panic!("it ended"),
            _ = &mut has_begun => {}
        }
        assert_eq!(has_left.await.unwrap(), (true, true));
        scene.sandbox.other().execute(INSERT, []).unwrap();
        assert_eq!(scene.rows(), 1, "{journal:?}");
    }
}

#[tokio::test]
async fn a_future_that_is_dropped_while_the_work_computes_commits_nothing() {
    let scene = Scene::new(Journal::Wal).await;
    let (begun, mut has_begun) = tokio::sync::oneshot::channel();
    let (go, may_go) = std::sync::mpsc::channel::<()>();
    let guard = scene.store.guard(&scene.tenure());
    let run = guard.run(Box::new(scene.connection()), move |tx| {
        tx.execute(INSERT, []).unwrap();
        begun.send(()).unwrap();
        may_go.recv().unwrap();
        Ok::<_, rusqlite::Error>(())
    });
    tokio::select! {
        _ = run => panic!("it ended"),
        _ = &mut has_begun => {}
    }
    go.send(()).unwrap();
    // Waits for the lock.
    scene.sandbox.other().execute(INSERT, []).unwrap();
    assert_eq!(scene.rows(), 1);
}

#[tokio::test]
async fn a_lock_that_others_keep_is_contention() {
    for journal in JOURNALS {
        let scene = Scene::impatient(journal).await;
        let other = scene.connection();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let guard = scene.store.guard(&scene.tenure());
        let (connection, answer) =
            guard.clone().run(Box::new(scene.connection()), |tx| tx.execute(INSERT, [])).await;
        let answer = the_guards(answer);
        assert!(answer.as_ref().is_err_and(GuardError::retry_helps), "{answer:?}");
        has_failed(answer, ErrorKind::Busy);
        other.execute_batch("ROLLBACK").unwrap();
        assert_eq!(guard.run(connection, |tx| tx.execute(INSERT, [])).await.1.unwrap(), 1);
    }
}

#[tokio::test]
async fn a_commit_waits_for_readers_of_a_rollback_journal_and_gives_up_as_contention() {
    for patient in [true, false] {
        let scene =
            if patient { Scene::new(Journal::Delete).await } else { Scene::impatient(Journal::Delete).await };
        let reader = scene.connection();
        reader.execute_batch("BEGIN; SELECT * FROM other").unwrap();
        let mut connection = scene.connection();
        let tx = scene.store.guard(&scene.tenure()).begin(&mut connection).unwrap();
        tx.execute(INSERT, []).unwrap();
        if patient {
            thread::scope(|scope| {
                scope.spawn(|| {
                    // A commit that waits lets nobody begin to read.
                    let late = scene.connection();
                    late.busy_timeout(std::time::Duration::ZERO).unwrap();
                    while late.query_row("SELECT count(*) FROM other", [], |row| row.get::<_, i64>(0)).is_ok()
                    {
                    }
                    let reader = reader;
                    reader.execute_batch("COMMIT").unwrap();
                });
                tx.commit().unwrap();
            });
            assert_eq!(scene.rows(), 1);
        } else {
            has_failed(tx.commit(), ErrorKind::Busy);
            reader.execute_batch("COMMIT").unwrap();
            assert_eq!(scene.rows(), 0);
        }
        scene.is_free(&connection);
    }
}

#[tokio::test]
async fn a_commit_that_the_database_refuses_has_failed_and_is_rolled_back() {
    let scene = Scene::new(Journal::Wal).await;
    let mut connection = scene.connection();
    connection
        .execute_batch(
            "PRAGMA foreign_keys = ON; CREATE TABLE parent (id INTEGER PRIMARY KEY);
             CREATE TABLE child (id REFERENCES parent DEFERRABLE INITIALLY DEFERRED)",
        )
        .unwrap();
    let tx = scene.store.guard(&scene.tenure()).begin(&mut connection).unwrap();
    tx.execute_batch("INSERT INTO child VALUES (1); INSERT INTO other VALUES (1)").unwrap();
    has_failed(tx.commit(), ErrorKind::Other);
    assert_eq!(scene.rows(), 0);
    scene.is_free(&connection);
}

/// In WAL mode nobody else keeps a commit out.
#[tokio::test]
async fn a_commit_with_rows_of_a_write_forgotten_has_failed_at_once_and_is_no_contention() {
    let scene = Scene::new(Journal::Wal).await;
    let mut connection = scene.connection();
    let tx = scene.store.guard(&scene.tenure()).begin(&mut connection).unwrap();
    let sql = "INSERT INTO other VALUES (1), (2) RETURNING x";
    let mut rows = Box::leak(Box::new(tx.prepare(sql).unwrap())).query([]).unwrap();
    rows.next().unwrap();
    std::mem::forget(rows);
    let looks = scene.clock.looks();
    has_failed(tx.commit(), ErrorKind::Other);
    assert!(scene.clock.looks() < looks + 100, "it waited");
    assert!(connection.is_autocommit());
    assert_eq!(scene.rows(), 0);
}

/// It is called when all is committed, and its error is told as the commit's.
#[tokio::test]
async fn a_commit_behind_which_the_programs_own_hook_fails_is_not_said_to_have_failed() {
    fn fail(_: &mut Wal, _: i32) -> rusqlite::Result<()> {
        Err(rusqlite::Error::InvalidQuery)
    }
    let scene = Scene::new(Journal::Wal).await;
    let mut connection = scene.connection();
    connection.wal_hook(Some(fail)).unwrap();
    let tx = scene.store.guard(&scene.tenure()).begin(&mut connection).unwrap();
    tx.execute(INSERT, []).unwrap();
    let answer = tx.commit();
    assert!(matches!(answer, Err(GuardError::Unknown(_))), "{answer:?}");
    assert_eq!(scene.rows(), 1);
}

/// What SQLite would commit by itself: without the guard each of these leaves a row behind.
#[tokio::test]
async fn nothing_is_committed_but_by_the_guard() {
    let full = "PRAGMA main.max_page_count = 1; INSERT INTO other SELECT zeroblob(1000000)";
    for ways_out in [
        "COMMIT",
        "END",
        "ROLLBACK",
        "INSERT OR ROLLBACK INTO one VALUES (1)",
        "ROLLBACK; BEGIN IMMEDIATE",
        "ROLLBACK; SAVEPOINT s",
        full,
    ] {
        for ways_in in [
            INSERT,
            "BEGIN; INSERT INTO other VALUES (1); COMMIT",
            "SAVEPOINT t; INSERT INTO other VALUES (1); RELEASE t",
            "RELEASE s",
        ] {
            let scene = Scene::new(Journal::Wal).await;
            let mut connection = scene.connection();
            connection.execute_batch("CREATE TABLE one (x UNIQUE); INSERT INTO one VALUES (1)").unwrap();
            let tx = scene.store.guard(&scene.tenure()).begin(&mut connection).unwrap();
            tx.execute(INSERT, []).unwrap();
            let _ = tx.execute_batch(ways_out);
            let _ = tx.execute(INSERT, []);
            let _ = tx.execute_batch(ways_in);
            let is_whole = !tx.is_autocommit() && ways_out == full;
            let answer = tx.commit();
            assert_eq!(answer.is_ok(), is_whole, "{ways_out}; {ways_in}: {answer:?}");
            if !is_whole {
                has_failed(answer, ErrorKind::Other);
                assert_eq!(scene.rows(), 0, "{ways_out}; {ways_in}");
            }
            connection.execute_batch("PRAGMA main.max_page_count = 1000000").unwrap();
            scene.is_free(&connection);
        }
    }
}

/// Leaves a statement running that nobody can end, and an interrupt that hits all others until it has ended.
fn leave_what_cannot_be_rolled_back(tx: &Guarded<'_>, interrupt: &InterruptHandle) {
    tx.execute(INSERT, []).unwrap();
    let statement = Box::leak(Box::new(tx.prepare("SELECT x FROM other UNION ALL SELECT 1").unwrap()));
    let mut rows = statement.query([]).unwrap();
    rows.next().unwrap();
    std::mem::forget(rows);
    interrupt.interrupt();
}

#[tokio::test]
async fn what_cannot_be_rolled_back_is_committed_by_nobody_and_is_told() {
    for ending in ["rollback", "commit", "drop", "run"] {
        let scene = Scene::new(Journal::Wal).await;
        let mut connection = Box::new(scene.connection());
        let (interrupt, guard) = (connection.get_interrupt_handle(), scene.store.guard(&scene.tenure()));
        let answer = if ending == "run" {
            let work = move |tx: &Guarded<'_>| {
                leave_what_cannot_be_rolled_back(tx, &interrupt);
                Err::<(), _>("its own")
            };
            let answer;
            (connection, answer) = guard.run(connection, work).await;
            the_guards(answer)
        } else {
            let tx = guard.begin(&mut connection).unwrap();
            leave_what_cannot_be_rolled_back(&tx, &interrupt);
            match ending {
                "rollback" => tx.rollback(),
                "commit" => tx.commit(),
                _ => {
                    drop(tx);
                    Ok(())
                }
            }
        };
        if ending != "drop" {
            assert!(matches!(&answer, Err(GuardError::Unknown(_))), "{ending}: {answer:?}");
            let text = answer.unwrap_err().to_string();
            assert!(text.contains("close") && !text.contains('\n'), "{text}");
        }
        assert!(!connection.is_autocommit(), "{ending}");
        connection.execute_batch("COMMIT").unwrap_err();
        assert_eq!(scene.rows(), 0);
    }
}

#[tokio::test]
async fn interrupts_from_elsewhere_leave_no_transaction_open() {
    let scene = Scene::new(Journal::Wal).await;
    let mut connection = scene.connection();
    let interrupt = connection.get_interrupt_handle();
    let (rolls_back, interrupts, over) = (AtomicBool::new(false), AtomicU32::new(0), AtomicBool::new(false));
    let left_open = thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                if rolls_back.load(Ordering::SeqCst) {
                    interrupt.interrupt();
                    interrupts.fetch_add(1, Ordering::SeqCst);
                }
                (0..500).for_each(|_| hint::spin_loop());
            }
        });
        let mut left_open = 0;
        for _ in 0..1_000 {
            // One more interrupt may be on its way.
            let Ok(tx) = scene.store.guard(&scene.tenure()).begin(&mut connection) else { continue };
            let _ = tx.execute(INSERT, []);
            let before = interrupts.load(Ordering::SeqCst);
            rolls_back.store(true, Ordering::SeqCst);
            while interrupts.load(Ordering::SeqCst) == before {
                thread::yield_now();
            }
            let _ = tx.rollback();
            left_open += u32::from(!connection.is_autocommit());
            rolls_back.store(false, Ordering::SeqCst);
            while !connection.is_autocommit() {
                let _ = connection.execute_batch("ROLLBACK");
            }
        }
        over.store(true, Ordering::SeqCst);
        left_open
    });
    assert_eq!(left_open, 0);
}

#[tokio::test]
async fn a_guard_that_is_forgotten_commits_nothing() {
    let scene = Scene::new(Journal::Wal).await;
    for is_dropped in [true, false] {
        let mut connection = scene.connection();
        let tx = scene.store.guard(&scene.tenure()).begin(&mut connection).unwrap();
        tx.execute(INSERT, []).unwrap();
        std::mem::forget(tx);
        if !is_dropped {
            connection.execute_batch("COMMIT").unwrap_err();
        }
        // With its transaction open.
        drop(connection);
        scene.sandbox.other().execute(INSERT, []).unwrap();
    }
    assert_eq!(scene.rows(), 2);
}

#[tokio::test]
async fn the_pieces_alone_make_the_same_transaction() {
    let scene = Scene::new(Journal::Wal).await;
    let (fence, connection) = (scene.store.fence(&scene.tenure()), scene.connection());
    let verify = |connection: &Connection| {
        connection.query_row(fence.verify(), fence.parameters(), |row| row.get::<_, i64>(0))
    };
    connection.execute_batch(fence.begin()).unwrap();
    assert_eq!(verify(&connection).unwrap(), 1);
    connection.execute(INSERT, []).unwrap();
    connection.execute_batch(fence.commit()).unwrap();
    assert_eq!(scene.rows(), 1);
    scene.take_away();
    connection.execute_batch(fence.begin()).unwrap();
    assert!(matches!(verify(&connection), Err(rusqlite::Error::QueryReturnedNoRows)));
}
