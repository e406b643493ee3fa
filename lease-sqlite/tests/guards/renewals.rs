//! The renewal that a transaction carries.

use std::time::Duration;

use lease_core::{Claimed, ErrorKind, LeaseStore, Leases, LossReason, RunError, Timings};
use lease_sqlite::Guarded;
use lease_testkit::{Fault, FaultStore, ManualClock, Op};
use tokio::sync::oneshot;

use crate::scene::{ENDLESS, INSERT, Scene, count, is_lost};
use crate::support::{JOURNALS, Journal, LONG, Sandbox, TTL, eventually};

/// The store's own renewals get no turn at all here.
#[tokio::test]
async fn transactions_that_follow_on_each_other_for_longer_than_the_ttl_keep_the_lease() {
    for journal in JOURNALS {
        let sandbox = Sandbox::new(journal).await;
        let (store, clock) = (sandbox.store().await, ManualClock::new());
        let faults = FaultStore::new(store.clone(), clock.clone());
        for op in [Op::Renew, Op::RenewMany] {
            faults.always(op, Fault::FailBefore(ErrorKind::Busy));
        }
        let timings = Timings::from_ttl(TTL).unwrap();
        let leases = Leases::builder(faults.clone()).timings(timings).clock(clock.clone()).build().unwrap();
        let Claimed::Granted(lease) = leases.claim("a").await.unwrap() else { panic!("held") };
        let mut connection = sandbox.other();
        let expiry = |connection: &rusqlite::Connection| -> i64 {
            connection.query_row("SELECT expires_at_ms FROM leases", [], |row| row.get(0)).unwrap()
        };
        let mut last = expiry(&connection);
        let step = timings.attempt() / 10 * 9;
        for _ in 0..6 {
            // The database's clock goes by milliseconds.
            let now = "SELECT unixepoch('subsec') * 1000";
            let now = || connection.query_row(now, [], |row| row.get::<_, f64>(0)).unwrap();
            let begun = now();
            eventually("a millisecond passes", || now() > begun).await;
            let tx = store.guard(&lease.tenure()).begin(&mut connection).unwrap();
            tx.execute(INSERT, []).unwrap();
            clock.play(step).await;
            tx.commit().unwrap();
            assert!(expiry(&connection) > last);
            last = expiry(&connection);
        }
        assert!(step * 6 > timings.ttl());
        assert!(lease.check());
        assert!(faults.calls(Op::Renew) + faults.calls(Op::RenewMany) > 6);
        clock.play(timings.deadline()).await;
        assert!(!lease.check());
    }
}

#[tokio::test]
async fn a_transaction_longer_than_the_deadline_is_lost_and_renews_nothing() {
    let scene = Scene::new(Journal::Wal).await;
    let mut connection = scene.connection();
    let expiry = "SELECT expires_at_ms FROM leases";
    let before: i64 = connection.query_row(expiry, [], |row| row.get(0)).unwrap();
    let tx = scene.store.guard(&scene.tenure()).begin(&mut connection).unwrap();
    scene.clock.advance(Timings::from_ttl(TTL).unwrap().deadline());
    is_lost(&tx.commit());
    let after: i64 = connection.query_row(expiry, [], |row| row.get(0)).unwrap();
    assert_eq!(after, before);
}

/// No renewal of the store's gets in meanwhile.
#[tokio::test]
async fn a_statement_that_outlasts_the_deadline_is_interrupted_and_the_work_ends_as_lost() {
    for journal in JOURNALS {
        let sandbox = Sandbox::new(journal).await;
        let (store, clock) = (sandbox.store().await, ManualClock::new());
        let timings = Timings::from_ttl(TTL).unwrap();
        let leases = Leases::builder(store.clone()).timings(timings).clock(clock.clone()).build().unwrap();
        let Claimed::Granted(lease) = leases.claim("a").await.unwrap() else { panic!("held") };
        let connection = Box::new(sandbox.other());
        let (begun, has_begun) = oneshot::channel();
        let run = tokio::spawn(lease.run(move |tenure| async move {
            let work = move |tx: &Guarded<'_>| {
                begun.send(()).unwrap();
                tx.execute(ENDLESS, [])
            };
            store.guard(&tenure).run(connection, work).await.1
        }));
        has_begun.await.unwrap();
        clock.play(timings.deadline()).await;
        match run.await.unwrap() {
            Err(RunError::Lost { reason: LossReason::Deadline { .. }, .. }) => {}
            other => panic!("{other:?}"),
        }
        sandbox.other().execute(INSERT, []).unwrap();
        assert_eq!(count(&sandbox.other()), 1);
    }
}

#[tokio::test]
async fn what_is_rolled_back_renews_nothing() {
    let scene = Scene::new(Journal::Wal).await;
    let deadline = scene.tenure().deadline();
    scene.clock.advance(Duration::from_secs(1));
    let mut connection = scene.connection();
    scene.store.guard(&scene.tenure()).begin(&mut connection).unwrap().rollback().unwrap();
    assert_eq!(scene.tenure().deadline(), deadline);
    scene.store.guard(&scene.tenure()).begin(&mut connection).unwrap().commit().unwrap();
    assert_eq!(scene.tenure().deadline(), deadline + Duration::from_secs(1));
}

#[tokio::test]
async fn a_holder_that_is_asked_to_step_down_hears_of_it_by_a_commit() {
    for commits in [false, true] {
        let scene = Scene::new(Journal::Wal).await;
        let mut connection = scene.connection();
        let (name, term) = (scene.tenure().name().clone(), scene.tenure().term());
        scene.store.resign(&name, term, LONG).await.unwrap();
        let tx = scene.store.guard(&scene.tenure()).begin(&mut connection).unwrap();
        if commits {
            tx.commit().unwrap();
        } else {
            tx.rollback().unwrap();
        }
        assert_eq!(scene.tenure().is_stopping(), commits);
    }
}
