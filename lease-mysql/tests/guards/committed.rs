//! The closure form, and commits whose answer or connection is lost.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use lease_core::guard::{GuardError, GuardedError};
use lease_core::store::ClaimAnswer;
use lease_core::{ErrorKind, LossReason};
use lease_mysql::mysql_async::prelude::Queryable;
use lease_mysql::mysql_async::{Conn, Error};
use lease_mysql::{Bounds, Fence};
use lease_testkit::Direction::{ToClient, ToServer};
use test_servers::Product;

use crate::support::{Sandbox, TTL, on_both, shared_url};
use crate::world::{World, insert, proxy, through, until};

on_both! {
    the_closure_form_commits_and_gives_its_value
    an_error_of_the_works_own_rolls_back_and_comes_as_it_was
    a_panic_of_the_work_rolls_back_and_no_such_connection_goes_back_to_its_pool
    a_dropped_future_leaves_no_transaction_open
    a_transaction_dropped_outside_a_runtime_is_ended
    a_lost_lease_is_refused_at_the_commit
    a_lost_answer_to_the_commit_is_unknown
    a_connection_that_dies_before_the_commit_commits_nothing
    a_session_that_cannot_be_set_back_is_committed_and_nobodys
    a_claim_is_answered_at_once_whatever_the_transaction_is_at
    the_pieces_alone_keep_the_promise
    a_transaction_on_another_database_is_verified_before_and_after
}

#[derive(Debug, PartialEq)]
enum Mine {
    Driver(String),
    Enough(u8),
}

impl From<Error> for Mine {
    fn from(error: Error) -> Self {
        Self::Driver(error.to_string())
    }
}

async fn the_closure_form_commits_and_gives_its_value(product: Product) {
    let world = World::new(product).await;
    let pool = world.pool(vec!["SET @mine = 5"]);
    let (guard, conn) = (world.guard(), pool.get_conn().await.unwrap());
    let id = conn.id();
    // On a task of its own, too.
    let value = tokio::spawn(async move {
        guard
            .run(conn, async |tx| {
                insert(tx, 1).await?;
                insert(tx, 2).await?;
                Ok::<_, Mine>(tx.affected_rows())
            })
            .await
    });
    assert_eq!(value.await.unwrap().unwrap(), 1);
    assert_eq!(world.ids().await, [1, 2]);
    let mut conn = pool.get_conn().await.unwrap();
    assert_eq!(conn.id(), id);
    insert(&mut conn, 3).await.unwrap();
    assert_eq!(world.ids().await, [1, 2, 3]);
    drop(conn);
    pool.disconnect().await.unwrap();
}

async fn an_error_of_the_works_own_rolls_back_and_comes_as_it_was(product: Product) {
    let world = World::new(product).await;
    let pool = world.pool(Vec::new());
    let conn = pool.get_conn().await.unwrap();
    let id = conn.id();
    let answer = world
        .guard()
        .run(conn, async |tx| {
            insert(tx, 1).await?;
            Err::<(), _>(Mine::Enough(7))
        })
        .await;
    assert!(matches!(answer, Err(GuardedError::Work(Mine::Enough(7)))), "{answer:?}");
    let mut conn = pool.get_conn().await.unwrap();
    assert_eq!(conn.id(), id);
    insert(&mut conn, 2).await.unwrap();
    // The driver's own stays the work's, too.
    let answer = world
        .guard()
        .run(conn, async |tx| {
            insert(tx, 3).await?;
            insert(tx, 3).await?;
            Ok::<_, Mine>(())
        })
        .await;
    assert!(
        matches!(&answer, Err(GuardedError::Work(Mine::Driver(error))) if error.contains("1062")),
        "{answer:?}"
    );
    assert_eq!(world.ids().await, [2]);
    // What ended the transaction stands before it.
    let answer = world
        .guard()
        .run(world.conn().await, async |tx| {
            tx.query_drop("COMMIT").await?;
            insert(tx, 4).await?;
            Ok::<_, Mine>(())
        })
        .await;
    assert!(matches!(answer, Err(GuardedError::Guard(GuardError::Ended(_)))), "{answer:?}");
    assert_eq!(world.ids().await, [2]);
    pool.disconnect().await.unwrap();
}

async fn a_panic_of_the_work_rolls_back_and_no_such_connection_goes_back_to_its_pool(product: Product) {
    let world = World::new(product).await;
    let pool = world.pool(Vec::new());
    let conn = pool.get_conn().await.unwrap();
    let id = conn.id();
    let guard = world.guard();
    let run = guard.run(conn, async |tx| {
        insert(tx, 1).await?;
        assert_ne!(tx.affected_rows(), 1, "on purpose");
        Ok::<_, Mine>(())
    });
    assert!(AssertUnwindSafe(run).catch_unwind().await.is_err());
    let mut conn = pool.get_conn().await.unwrap();
    assert_ne!(conn.id(), id);
    world.gone(id).await;
    insert(&mut conn, 2).await.unwrap();
    assert_eq!(world.ids().await, [2]);
    drop(conn);
    pool.disconnect().await.unwrap();
}

async fn a_dropped_future_leaves_no_transaction_open(product: Product) {
    let world = World::new(product).await;
    let pool = world.pool(Vec::new());
    let conn = pool.get_conn().await.unwrap();
    let id = conn.id();
    let guard = world.guard();
    let run = guard.run(conn, async |tx| {
        insert(tx, 1).await?;
        tx.query_drop("SELECT SLEEP(60)").await?;
        Ok::<_, Mine>(())
    });
    let sleeps = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {id} AND INFO LIKE '%SLEEP%'"
    );
    tokio::select! {
        biased;
        answer = run => panic!("it cannot have slept: {answer:?}"),
        () = until("it runs", async || world.ask::<u64>(&sleeps).await[0] > 0) => {}
    }
    // The lease is held, and the name is not given back before the session is gone.
    world.gone(id).await;
    assert_ne!(pool.get_conn().await.unwrap().id(), id);
    assert_eq!(world.ids().await, [0; 0]);
    assert!(world.tenure.check());
    pool.disconnect().await.unwrap();
}

async fn a_transaction_dropped_outside_a_runtime_is_ended(product: Product) {
    let world = World::new(product).await;
    let pool = world.pool(Vec::new());
    let mut tx = world.guard().begin(pool.get_conn().await.unwrap()).await.unwrap();
    let id = tx.id();
    insert(&mut tx, 1).await.unwrap();
    std::thread::spawn(move || drop(tx)).join().unwrap();
    world.gone(id).await;
    assert_ne!(pool.get_conn().await.unwrap().id(), id);
    assert_eq!(world.ids().await, [0; 0]);
    pool.disconnect().await.unwrap();
}

async fn a_lost_lease_is_refused_at_the_commit(product: Product) {
    let world = World::new(product).await;
    let pool = world.pool(Vec::new());
    let mut tx = world.guard().begin(pool.get_conn().await.unwrap()).await.unwrap();
    let id = tx.id();
    insert(&mut tx, 1).await.unwrap();
    world.expire().await;
    assert!(matches!(world.claim().await, ClaimAnswer::Granted(_)));
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, GuardError::Lost(LossReason::Refused)), "{error:?}");
    // The connection is as before.
    let mut conn = pool.get_conn().await.unwrap();
    assert_eq!(conn.id(), id);
    insert(&mut conn, 2).await.unwrap();
    assert_eq!(world.ids().await, [2]);
    drop(conn);
    pool.disconnect().await.unwrap();
}

async fn a_lost_answer_to_the_commit_is_unknown(product: Product) {
    let world = World::new(product).await;
    let proxy = proxy(&world.sandbox);
    let mut tx = world.guard().begin(through(&proxy, &world.sandbox).await).await.unwrap();
    insert(&mut tx, 1).await.unwrap();
    proxy.cut_before(1, ToClient);
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, GuardError::Unknown(_)), "{error:?}");
    assert!(!error.retry_helps());
    assert_eq!(proxy.planned(), 0);
    until("it is committed", async || world.ids().await == [1]).await;
    // Nor when nothing comes any more: half of the grace after the loss.
    let mut tx = world.guard().begin(through(&proxy, &world.sandbox).await).await.unwrap();
    insert(&mut tx, 2).await.unwrap();
    proxy.hold(ToClient);
    let commit = tokio::spawn(tx.commit());
    until("it is committed", async || world.ids().await == [1, 2]).await;
    assert!(!commit.is_finished());
    world.lose().await;
    let error = commit.await.unwrap().unwrap_err();
    assert!(matches!(&error, GuardError::Unknown(error) if error.kind() == ErrorKind::Timeout), "{error:?}");
}

async fn a_connection_that_dies_before_the_commit_commits_nothing(product: Product) {
    let world = World::new(product).await;
    let proxy = proxy(&world.sandbox);
    let mut tx = world.guard().begin(through(&proxy, &world.sandbox).await).await.unwrap();
    let id = tx.id();
    insert(&mut tx, 1).await.unwrap();
    proxy.cut_before(1, ToServer);
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, GuardError::Unknown(_)), "{error:?}");
    assert_eq!(proxy.planned(), 0);
    let mut tx = world.guard().begin(through(&proxy, &world.sandbox).await).await.unwrap();
    insert(&mut tx, 2).await.unwrap();
    proxy.cut();
    insert(&mut tx, 3).await.unwrap_err();
    let error = tx.commit().await.unwrap_err();
    assert!(
        matches!(&error, GuardError::Failed(error) if error.kind() == ErrorKind::Unavailable),
        "{error:?}"
    );
    world.gone(id).await;
    assert_eq!(world.ids().await, [0; 0]);
}

async fn a_session_that_cannot_be_set_back_is_committed_and_nobodys(product: Product) {
    let world = World::new(product).await;
    let pool = world.pool(Vec::new());
    let mut tx = world.guard().begin(pool.get_conn().await.unwrap()).await.unwrap();
    let id = tx.id();
    insert(&mut tx, 1).await.unwrap();
    // Nobody does this; it makes the statement behind the commit fail.
    tx.query_drop("SET @lease_idle = 'nonsense'").await.unwrap();
    let conn = tx.commit().await.unwrap();
    assert_eq!(world.ids().await, [1]);
    drop(conn);
    world.gone(id).await;
    assert_ne!(pool.get_conn().await.unwrap().id(), id);
    pool.disconnect().await.unwrap();
}

async fn a_claim_is_answered_at_once_whatever_the_transaction_is_at(product: Product) {
    let world = World::new(product).await;
    // Open: the row is not locked, not for the claim and not for the renewal.
    let mut tx = world.guard().begin(world.conn().await).await.unwrap();
    insert(&mut tx, 1).await.unwrap();
    assert_eq!(world.claim().await, ClaimAnswer::Held);
    assert!(world.lease.renew().await.unwrap());
    tx.rollback().await.unwrap();
    // Between the fence and the commit: held, though the lease has expired meanwhile.
    let (fence, mut conn) = (world.store.fence(&world.tenure), world.conn().await);
    conn.query_drop("START TRANSACTION").await.unwrap();
    conn.exec_drop(fence.fence(), fence.parameters().to_vec()).await.unwrap();
    assert_eq!(world.claim().await, ClaimAnswer::Held);
    conn.query_drop("UPDATE leases SET expires_at_ms = 1").await.unwrap();
    assert_eq!(world.claim().await, ClaimAnswer::Held);
    conn.query_drop("COMMIT").await.unwrap();
    assert!(matches!(world.claim().await, ClaimAnswer::Granted(_)));
}

async fn the_pieces_alone_keep_the_promise(product: Product) {
    let world = World::new(product).await;
    let fence = world.store.fence(&world.tenure);
    let mut conn = world.conn().await;
    let verified = async |conn: &mut Conn| -> Option<i64> {
        conn.exec_first(fence.verify(), fence.parameters().to_vec()).await.unwrap()
    };
    // In two steps.
    conn.query_drop("START TRANSACTION").await.unwrap();
    assert_eq!(verified(&mut conn).await, Some(world.tenure.term().get()));
    insert(&mut conn, 1).await.unwrap();
    conn.exec_drop(fence.fence(), fence.parameters().to_vec()).await.unwrap();
    conn.query_drop("COMMIT").await.unwrap();
    // As one text.
    conn.query_drop("START TRANSACTION").await.unwrap();
    insert(&mut conn, 2).await.unwrap();
    conn.query_drop(fence.commit()).await.unwrap();
    assert_eq!(world.ids().await, [1, 2]);
    for one_text in [true, false] {
        conn.query_drop("START TRANSACTION").await.unwrap();
        insert(&mut conn, 3).await.unwrap();
        world.expire().await;
        assert_eq!(verified(&mut conn).await, None);
        let lost = if one_text {
            conn.query_drop(fence.commit()).await
        } else {
            conn.exec_drop(fence.fence(), fence.parameters().to_vec()).await
        };
        assert!(matches!(&lost, Err(Error::Server(error)) if error.code == Fence::LOST), "{lost:?}");
        assert_eq!(world.ids().await, [1, 2]);
        conn.query_drop("ROLLBACK").await.unwrap();
    }
    assert!(matches!(world.claim().await, ClaimAnswer::Granted(_)));
}

async fn a_transaction_on_another_database_is_verified_before_and_after(product: Product) {
    let world = World::new(product).await;
    // On a server that the store does not know.
    let other = if product == Product::MySql { Product::MariaDb } else { Product::MySql };
    let there = Sandbox::empty(&shared_url(other).await).await;
    there.run("CREATE TABLE work (id BIGINT PRIMARY KEY)").await;
    let guard = world.guard().on_another_database().bounds(Bounds::of_ttl(TTL));
    let ids =
        async || -> Vec<u64> { there.other().await.query("SELECT id FROM work ORDER BY id").await.unwrap() };
    let mut tx = guard.begin(there.other().await).await.unwrap();
    insert(&mut tx, 1).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(ids().await, [1]);
    // Ended by hand is found there, too.
    let mut tx = guard.begin(there.other().await).await.unwrap();
    tx.query_drop("COMMIT; START TRANSACTION").await.unwrap();
    insert(&mut tx, 2).await.unwrap();
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, GuardError::Ended(_)), "{error:?}");
    let mut tx = guard.begin(there.other().await).await.unwrap();
    insert(&mut tx, 3).await.unwrap();
    let mut unaware = guard.begin(there.other().await).await.unwrap();
    insert(&mut unaware, 4).await.unwrap();
    world.expire().await;
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, GuardError::Lost(LossReason::Refused)), "{error:?}");
    let error = guard.begin(there.other().await).await.unwrap_err();
    assert!(matches!(error, GuardError::Lost(LossReason::Refused)), "{error:?}");
    // A session there is ended as well, by a connection of its own.
    world.lose().await;
    let is_there = format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {}", unaware.id());
    until("the session there is gone", async || {
        there.other().await.query_first::<u64, _>(is_there.as_str()).await.unwrap() == Some(0)
    })
    .await;
    assert_eq!(ids().await, [1]);
}
