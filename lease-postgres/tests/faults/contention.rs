//! Other people's transactions, and many claims at once.

use futures_util::future::join_all;
use lease_core::store::{ClaimAnswer, ConditionalAnswer, RenewAnswer, Renewed, SlotAnswer, UnfinishedSlot};
use lease_core::{LeaseStore, Slot, Term};
use test_servers::{Product, Server, Setup};

use crate::common::Sql;
use crate::support::{
    LONG, Sandbox, TTL, eventually, granted, holding, is_busy, is_pending, name, new_claim, renews, take,
    take_and_release,
};

/// Waits until somebody's statement waits for a lock on the table.
async fn somebody_waits(sandbox: &Sandbox, other: &Sql, count: i64) {
    let waiting = format!("SELECT count(*) {}", sandbox.who_waits());
    let waits = async || other.client.query_one(&waiting, &[]).await.unwrap().get::<_, i64>(0) >= count;
    eventually("a statement waits for a lock", waits).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_tasks_claim_sixty_four_new_names_and_then_one() {
    let sandbox = Sandbox::new().await;
    let store = sandbox.store();
    let claims: Vec<_> = (0..64).map(|n| new_claim(&format!("n{n}"))).collect();
    for answer in join_all(claims.iter().map(|claim| store.claim(claim, LONG))).await {
        assert_eq!(granted(answer), Term::FIRST);
    }
    let stores = [sandbox.store(), sandbox.store()];
    // Of two keys the older one is looked at first: each has its turn to be that, often enough that inserts meet.
    sandbox
        .run("ALTER TABLE leases DROP CONSTRAINT leases_pkey; ALTER TABLE leases ADD PRIMARY KEY (name)")
        .await;
    for round in 0..20 {
        let claims: Vec<_> = (0..64).map(|_| new_claim(&format!("one {round}"))).collect();
        let answers = claims.iter().zip(stores.iter().cycle()).map(|(claim, store)| store.claim(claim, LONG));
        let answers: Vec<_> = join_all(answers).await.into_iter().map(Result::unwrap).collect();
        let count = |wanted| answers.iter().filter(|answer| **answer == wanted).count();
        assert_eq!((count(ClaimAnswer::Granted(Term::FIRST)), count(ClaimAnswer::Held)), (1, 63));
    }
}

#[tokio::test]
async fn claims_of_every_kind_are_answered_while_another_transaction_has_the_row() {
    let sandbox = Sandbox::new().await;
    let (store, slot) = (sandbox.store(), Slot::from_millis(1).unwrap());
    let round = new_claim("a");
    store.claim_slot(&round, slot, LONG).await.unwrap();
    store.release(&round.name, &round.holder, LONG).await.unwrap();
    let seen = store.inspect(&round.name, LONG).await.unwrap().row.unwrap();
    let unfinished = UnfinishedSlot { name: round.name.clone(), slot, term: seen.term };
    // The lock of any change, and the one of a guarded transaction.
    for lock in ["FOR UPDATE", "FOR KEY SHARE"] {
        let other = sandbox.sql().await;
        other.run(&sandbox.text(&format!("BEGIN; SELECT FROM leases {lock}"))).await;
        let claim = new_claim("a");
        assert_eq!(store.claim(&claim, LONG).await.unwrap(), ClaimAnswer::Held, "{lock}");
        let later = Slot::from_millis(2).unwrap();
        assert_eq!(store.claim_slot(&claim, later, LONG).await.unwrap(), SlotAnswer::Held, "{lock}");
        let moved = ConditionalAnswer::Moved;
        assert_eq!(store.claim_observed(&claim, &seen.observed(), LONG).await.unwrap(), moved, "{lock}");
        assert_eq!(store.claim_rerun(&claim, &unfinished, LONG).await.unwrap(), moved, "{lock}");
        other.run("ROLLBACK").await;
    }
    assert_eq!(granted(store.claim(&new_claim("a"), LONG).await).get(), 2);
}

#[tokio::test]
async fn a_claim_beside_an_insert_that_is_not_committed_is_bounded_and_changes_nothing() {
    let sandbox = Sandbox::new().await;
    let store = sandbox.store();
    let other = sandbox.sql().await;
    let insert = "INSERT INTO leases (name, holder, term, claimed_at_ms, renewed_at_ms, expires_at_ms, ttl_ms) \
                  VALUES ('a', '00000000000000000000000000000000', 41, 1, 2, 3, 4)";
    other.run(&sandbox.text(&format!("BEGIN; {insert}"))).await;
    let claim = new_claim("a");
    is_busy(|within| store.claim(&claim, within)).await;
    let slot = Slot::from_millis(1).unwrap();
    is_busy(|within| store.claim_slot(&claim, slot, within)).await;
    // With time enough the answer comes with the other's end.
    let mut waiting = Box::pin(store.claim(&claim, LONG));
    assert!(is_pending(&mut waiting));
    somebody_waits(&sandbox, &sandbox.sql().await, 1).await;
    other.run("ROLLBACK").await;
    assert_eq!(granted(waiting.await), Term::FIRST);
}

#[tokio::test]
async fn a_renewal_waits_for_a_row_and_goes_through_when_the_other_transaction_ends() {
    let sandbox = Sandbox::new().await;
    let store = sandbox.store();
    let held = take(&store, "a").await;
    // The other changes the row, changes it and takes it back, or only locks it.
    for (lock, end) in [
        ("UPDATE leases SET version = 'x'", "COMMIT"),
        ("UPDATE leases SET holder = 'x'", "ROLLBACK"),
        ("SELECT FROM leases FOR UPDATE", "COMMIT"),
    ] {
        let other = sandbox.sql().await;
        other.run(&sandbox.text(&format!("BEGIN; {lock}"))).await;
        let mut renewal = Box::pin(store.renew(&held.name, &held.holder, TTL, LONG));
        assert!(is_pending(&mut renewal));
        somebody_waits(&sandbox, &sandbox.sql().await, 1).await;
        other.run(end).await;
        let renewed = renewal.await.unwrap();
        assert_eq!(renewed, RenewAnswer::Renewed(Renewed { step_down: false }), "{lock}");
    }
}

/// What is committed has expired; another renewal, whose answer was lost, is about to extend it.
#[tokio::test]
async fn a_renewal_of_an_expired_row_that_is_being_extended_waits_and_judges_the_new_version() {
    let sandbox = Sandbox::new().await;
    let store = sandbox.store();
    let held = take(&store, "a").await;
    sandbox.run("UPDATE leases SET expires_at_ms = 1").await;
    let other = sandbox.sql().await;
    other.run(&sandbox.text("BEGIN; UPDATE leases SET expires_at_ms = 9000000000000")).await;
    let mut renewal = Box::pin(store.renew(&held.name, &held.holder, TTL, LONG));
    assert!(is_pending(&mut renewal));
    somebody_waits(&sandbox, &sandbox.sql().await, 1).await;
    other.run("COMMIT").await;
    assert_eq!(renewal.await.unwrap(), RenewAnswer::Renewed(Renewed { step_down: false }));
    sandbox.run("UPDATE leases SET expires_at_ms = 1").await;
    assert_eq!(store.renew(&held.name, &held.holder, TTL, LONG).await.unwrap(), RenewAnswer::Lost);
}

#[tokio::test]
async fn a_renewal_that_waited_for_a_takeover_is_lost() {
    let sandbox = Sandbox::new().await;
    let store = sandbox.store();
    for end in ["holder = 'somebody', term = term + 1", "expires_at_ms = 0"] {
        let held = take(&store, &format!("of {end}")).await;
        let other = sandbox.sql().await;
        other.run(&sandbox.text(&format!("BEGIN; UPDATE leases SET {end}"))).await;
        let mut renewal = Box::pin(store.renew(&held.name, &held.holder, TTL, LONG));
        assert!(is_pending(&mut renewal));
        somebody_waits(&sandbox, &sandbox.sql().await, 1).await;
        other.run("COMMIT").await;
        assert_eq!(renewal.await.unwrap(), RenewAnswer::Lost, "{end}");
    }
}

#[tokio::test]
async fn a_write_that_never_gets_the_row_is_busy_and_changes_nothing() {
    let sandbox = Sandbox::new().await;
    let store = sandbox.store();
    let held = take(&store, "a").await;
    let before = store.inspect(&held.name, LONG).await.unwrap().row.unwrap();
    let other = sandbox.sql().await;
    other.run(&sandbox.text("BEGIN; SELECT FROM leases FOR UPDATE")).await;
    is_busy(|within| store.renew(&held.name, &held.holder, TTL, within)).await;
    is_busy(|within| store.release(&held.name, &held.holder, within)).await;
    let observed = before.observed();
    is_busy(|within| store.clear(&held.name, &observed, within)).await;
    is_busy(|within| store.resign(&held.name, Term::FIRST, within)).await;
    other.run("ROLLBACK").await;
    assert_eq!(store.inspect(&held.name, LONG).await.unwrap().row.unwrap(), before);
}

#[tokio::test]
async fn a_batch_leaves_out_a_row_that_another_transaction_has_and_renews_the_others() {
    let sandbox = Sandbox::new().await;
    let store = sandbox.store();
    let held = [take(&store, "a").await, take(&store, "b").await, take(&store, "c").await];
    let other = sandbox.sql().await;
    other.run(&sandbox.text("BEGIN; SELECT FROM leases WHERE name = 'b' FOR UPDATE")).await;
    let renewed = store.renew_many(&held.each_ref().map(holding), TTL, LONG).await.unwrap();
    assert_eq!(renewed.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
}

#[tokio::test]
async fn renewals_of_both_kinds_pass_the_lock_of_a_guarded_transaction() {
    let sandbox = Sandbox::new().await;
    let store = sandbox.store();
    let held = take(&store, "a").await;
    let other = sandbox.sql().await;
    other.run(&sandbox.text("BEGIN; SELECT FROM leases FOR KEY SHARE")).await;
    renews(&store, &held).await;
    assert!(store.renew_many(&[holding(&held)], TTL, LONG).await.unwrap()[0].is_some());
    store.release(&held.name, &held.holder, LONG).await.unwrap();
}

#[tokio::test]
async fn claims_and_renewals_that_wait_delay_no_batch_and_waiting_claims_no_renewal() {
    let sandbox = Sandbox::new().await;
    let store = sandbox.store();
    let (held, locked) = (take(&store, "held").await, take(&store, "locked").await);
    let other = sandbox.sql().await;
    let insert = "INSERT INTO leases (name, holder, term, claimed_at_ms, renewed_at_ms, expires_at_ms, ttl_ms) \
                  VALUES ('new', '00000000000000000000000000000000', 41, 1, 2, 3, 4)";
    other.run(&sandbox.text(&format!("BEGIN; {insert}"))).await;
    let claims: Vec<_> = (0..20).map(|_| new_claim("new")).collect();
    let mut waiting = Box::pin(join_all(claims.iter().map(|claim| store.claim(claim, LONG))));
    assert!(is_pending(&mut waiting));
    let watch = sandbox.sql().await;
    // As many as there are connections for claims.
    somebody_waits(&sandbox, &watch, 8).await;
    renews(&store, &held).await;

    other.run(&sandbox.text("SELECT FROM leases WHERE name = 'locked' FOR UPDATE")).await;
    let renewals = (0..20).map(|_| store.renew(&locked.name, &locked.holder, TTL, LONG));
    let mut renewals = Box::pin(join_all(renewals));
    assert!(is_pending(&mut renewals));
    somebody_waits(&sandbox, &watch, 16).await;
    assert!(store.renew_many(&[holding(&held)], TTL, LONG).await.unwrap()[0].is_some());
    other.run("COMMIT").await;
    assert!(waiting.await.into_iter().all(|answer| answer.is_ok()));
    assert!(renewals.await.into_iter().all(|answer| matches!(answer, Ok(RenewAnswer::Renewed(_)))));
}

/// Lets the first statements that write to the table fail, as contention would have them fail.
async fn fails_at_first(sandbox: &Sandbox, code: &str, times: i64) {
    let (fault, count) = (sandbox.text("fault_leases"), sandbox.text("count_leases"));
    sandbox
        .run(&format!(
            "DROP FUNCTION IF EXISTS {fault}() CASCADE; DROP SEQUENCE IF EXISTS {count}; CREATE SEQUENCE {count};
             CREATE FUNCTION {fault}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 IF nextval('public.{count}') <= {times} THEN RAISE EXCEPTION 'injected' USING ERRCODE = '{code}'; END IF;
                 RETURN NEW;
             END $$;
             CREATE TRIGGER fault BEFORE INSERT OR UPDATE ON leases FOR EACH ROW EXECUTE FUNCTION {fault}()"
        ))
        .await;
}

#[tokio::test]
async fn deadlocks_and_serialization_failures_are_tried_again_and_are_no_loss() {
    let sandbox = Sandbox::new().await;
    let store = sandbox.store();
    let held = take(&store, "held").await;
    for code in ["40P01", "40001"] {
        fails_at_first(&sandbox, code, 3).await;
        renews(&store, &held).await;
        fails_at_first(&sandbox, code, 3).await;
        assert!(store.renew_many(&[holding(&held)], TTL, LONG).await.unwrap()[0].is_some());
        fails_at_first(&sandbox, code, 3).await;
        take(&store, &format!("new after {code}")).await;
        fails_at_first(&sandbox, code, i64::MAX).await;
        is_busy(|within| store.renew(&held.name, &held.holder, TTL, within)).await;
        let claim = new_claim("never");
        is_busy(|within| store.claim(&claim, within)).await;
    }
    assert_eq!(store.inspect(&name("never"), LONG).await.unwrap().row, None);
}

#[tokio::test]
async fn updates_of_a_renewed_row_stay_on_their_page() {
    // On a server of its own: anybody's transaction keeps old versions of rows where they are.
    let arguments = vec!["-c".to_owned(), "autovacuum=off".to_owned()];
    let server = Server::start(Product::Postgres, Setup { arguments, ..Setup::default() });
    let sandbox = Sandbox::on(&server.url()).await;
    let store = sandbox.store();
    let mut held = Vec::new();
    for n in 0..20 {
        held.push(take(&store, &format!("n{n}")).await);
    }
    for _ in 0..20 {
        store.renew_many(&held.iter().map(holding).collect::<Vec<_>>(), TTL, LONG).await.unwrap();
    }
    take_and_release(&store, "other").await;
    drop(store);
    // A session hands in what it has counted when it ends.
    let sql = sandbox.sql().await;
    let counts = format!(
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = '{}'",
        sandbox.table
    );
    let mut hot = 0_i64;
    eventually("the updates have been counted", async || {
        let row = sql.client.query_one(&counts, &[]).await.unwrap();
        hot = row.get(1);
        row.get::<_, i64>(0) == 401
    })
    .await;
    assert_eq!(hot, 401);
}
