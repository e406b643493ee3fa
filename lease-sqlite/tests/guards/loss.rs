//! The lease is lost: before, within, and at the end.

use std::thread;

use lease_core::store::ClaimAnswer;
use lease_core::{GuardError, GuardedError, LeaseStore};

use crate::scene::{ENDLESS, INSERT, Scene, is_lost, the_guards};
use crate::support::{JOURNALS, Journal, LONG, TTL, eventually, granted, is_busy, name, new_claim};

#[tokio::test]
async fn a_lease_that_somebody_else_has_lets_no_statement_run() {
    for journal in JOURNALS {
        let scene = Scene::new(journal).await;
        scene.take_away();
        assert!(scene.tenure().check(), "the holder does not know yet");
        let mut connection = scene.connection();
        is_lost(&scene.store.guard(&scene.tenure()).begin(&mut connection));
        scene.is_free(&connection);
        let work = |_: &lease_sqlite::Guarded<'_>| -> Result<(), rusqlite::Error> { panic!("it ran") };
        let (connection, answer) = scene.store.guard(&scene.tenure()).run(Box::new(connection), work).await;
        is_lost(&the_guards(answer));
        scene.is_free(&connection);
    }
}

#[tokio::test]
async fn a_lease_whose_deadline_has_passed_or_whose_row_has_expired_lets_no_statement_run() {
    let scene = Scene::new(Journal::Wal).await;
    let mut connection = scene.connection();
    scene.sandbox.expire(&name("a"));
    is_lost(&scene.store.guard(&scene.tenure()).begin(&mut connection));
    let scene = Scene::new(Journal::Wal).await;
    scene.lose();
    is_lost(&scene.store.guard(&scene.tenure()).begin(&mut connection));
    assert!(connection.is_autocommit());
}

#[tokio::test]
async fn a_loss_while_the_lock_is_waited_for_ends_the_wait() {
    for is_lost in [true, false] {
        let scene = Scene::new(Journal::Wal).await;
        let other = scene.connection();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let guard = scene.store.guard(&scene.tenure());
        let looks = scene.clock.looks();
        let run = {
            let connection = Box::new(scene.connection());
            tokio::spawn(async move { guard.run(connection, |tx| tx.execute(INSERT, [])).await })
        };
        eventually("it asks again and again", || scene.clock.looks() > looks + 10).await;
        if is_lost {
            scene.lose();
            assert!(matches!(the_guards(run.await.unwrap().1), Err(GuardError::Lost(_))));
            other.execute_batch("ROLLBACK").unwrap();
        } else {
            other.execute_batch("ROLLBACK").unwrap();
            run.await.unwrap().1.unwrap();
        }
        assert_eq!(scene.rows(), i64::from(!is_lost));
    }
}

#[tokio::test]
async fn a_loss_ends_a_long_statement_and_leaves_no_transaction_and_nothing_behind() {
    for journal in JOURNALS {
        let scene = Scene::new(journal).await;
        let mut connection = scene.connection();
        let tx = scene.store.guard(&scene.tenure()).begin(&mut connection).unwrap();
        let mut endless = tx.prepare(ENDLESS).unwrap();
        let answer = thread::scope(|scope| {
            scope.spawn(|| scene.lose());
            endless.execute([])
        });
        drop(endless);
        answer.unwrap_err();
        // Others can write while the guard is in hand, and nothing it is used for is committed.
        assert!(tx.is_autocommit());
        scene.sandbox.other().execute(INSERT, []).unwrap();
        for sql in [INSERT, "BEGIN; INSERT INTO other VALUES (1); COMMIT", "CREATE TABLE x (y)"] {
            tx.execute_batch(sql).unwrap_err();
            if !tx.is_autocommit() {
                tx.execute_batch("ROLLBACK").unwrap();
            }
        }
        is_lost(&tx.commit());
        assert_eq!(scene.rows(), 1);
        scene.is_free(&connection);
    }
}

#[tokio::test]
async fn a_loss_ends_a_loop_of_short_statements_fresh_or_used_again() {
    let scene = Scene::new(Journal::Wal).await;
    let mut connection = scene.connection();
    let tx = scene.store.guard(&scene.tenure()).begin(&mut connection).unwrap();
    let mut statement = tx.prepare(INSERT).unwrap();
    for _ in 0..1_000 {
        statement.execute([]).unwrap();
    }
    scene.lose();
    tx.execute(INSERT, []).unwrap_err();
    assert!(!tx.is_autocommit());
    let again = (0..1_000).take_while(|_| statement.execute([]).is_ok()).count();
    assert!(again < 50, "{again} more");
    assert!(tx.is_autocommit());
    drop(statement);
    is_lost(&tx.commit());
    assert_eq!(scene.rows(), 0);
}

#[tokio::test]
async fn after_a_loss_the_work_may_still_roll_back() {
    let scene = Scene::new(Journal::Wal).await;
    let mut connection = scene.connection();
    let tx = scene.store.guard(&scene.tenure()).begin(&mut connection).unwrap();
    scene.lose();
    tx.execute_batch("ROLLBACK").unwrap();
    scene.sandbox.other().execute(INSERT, []).unwrap();
    is_lost(&tx.commit());
}

#[tokio::test]
async fn a_loss_before_the_commit_rolls_back_and_stands_before_the_works_own_error() {
    for journal in JOURNALS {
        let scene = Scene::new(journal).await;
        let mut connection = scene.connection();
        let tx = scene.store.guard(&scene.tenure()).begin(&mut connection).unwrap();
        tx.execute(INSERT, []).unwrap();
        scene.lose();
        is_lost(&tx.commit());
        assert_eq!(scene.rows(), 0);
        scene.is_free(&connection);
    }
    for fails in [true, false] {
        let scene = Scene::new(Journal::Wal).await;
        let (clock, guard) = (scene.clock.clone(), scene.store.guard(&scene.tenure()));
        let (connection, answer) = guard
            .run(Box::new(scene.connection()), move |tx| {
                tx.execute(INSERT, []).unwrap();
                clock.advance(TTL);
                if fails { Err("its own") } else { Ok(()) }
            })
            .await;
        assert!(matches!(answer, Err(GuardedError::Guard(GuardError::Lost(_)))), "{answer:?}");
        assert_eq!(scene.rows(), 0);
        scene.is_free(&connection);
    }
}

#[tokio::test]
async fn a_loss_while_the_commit_waits_for_readers_rolls_back() {
    let scene = Scene::new(Journal::Delete).await;
    let reader = scene.connection();
    reader.execute_batch("BEGIN; SELECT * FROM other").unwrap();
    let mut connection = scene.connection();
    let tx = scene.store.guard(&scene.tenure()).begin(&mut connection).unwrap();
    tx.execute(INSERT, []).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let late = scene.connection();
            late.busy_timeout(std::time::Duration::ZERO).unwrap();
            while late.query_row("SELECT count(*) FROM other", [], |row| row.get::<_, i64>(0)).is_ok() {}
            scene.lose();
        });
        is_lost(&tx.commit());
    });
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(scene.rows(), 0);
    scene.is_free(&connection);
}

#[tokio::test]
async fn an_open_transaction_keeps_claims_and_renewals_out_and_each_is_answered() {
    for journal in JOURNALS {
        let scene = Scene::new(journal).await;
        let (tenure, another) = (scene.tenure(), scene.sandbox.store().await);
        let mut connection = scene.connection();
        let tx = scene.store.guard(&tenure).begin(&mut connection).unwrap();
        tx.execute(INSERT, []).unwrap();
        assert_eq!(another.claim(&new_claim("a"), LONG).await.unwrap(), ClaimAnswer::Held);
        let free = new_claim("b");
        is_busy(|within| another.claim(&free, within)).await;
        let holder = tenure.holder();
        is_busy(|within| scene.store.renew(tenure.name(), &holder, TTL, within)).await;
        tx.commit().unwrap();
        granted(another.claim(&free, LONG).await);
        scene.store.renew(tenure.name(), &holder, TTL, LONG).await.unwrap();
        assert_eq!(scene.rows(), 1);
    }
}
