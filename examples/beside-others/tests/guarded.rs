//! What the recipes keep, for each library on each database.

#[path = "guarded/bank.rs"]
mod bank;
#[path = "guarded/ends.rs"]
mod ends;
#[path = "guarded/pay.rs"]
mod pay;

use std::time::Duration;

use bank::{Bank, On};
use beside_others::NotDone;
use pay::{Library, pay};
use tokio::time::sleep;

async fn under_the_lease_the_amount_is_moved(library: Library, on: On) {
    let bank = Bank::open(on).await;
    let lease = bank.claim().await;
    pay(library, &bank, &lease.tenure(), "bob", async || ()).await.unwrap();
    assert_eq!(bank.balances().await, [70, 130]);
    pay(library, &bank, &lease.tenure(), "bob", async || ()).await.unwrap();
    assert_eq!(bank.balances().await, [40, 160]);
}

async fn behind_a_successor_nothing_is_moved(library: Library, on: On) {
    let bank = Bank::open(on).await;
    let lease = bank.claim().await;
    assert!(bank.is_succeeded().await);
    let worked = async || panic!("the work was begun");
    let error = pay(library, &bank, &lease.tenure(), "bob", worked).await.unwrap_err();
    assert!(matches!(error, NotDone::Lost), "{error}");
    assert_eq!(bank.balances().await, [100, 100]);
}

async fn a_successor_in_the_middle_and_the_commit_exclude_each_other(library: Library, on: On) {
    let bank = Bank::open(on).await;
    let lease = bank.claim().await;
    let mut succeeded = None;
    let moved = pay(library, &bank, &lease.tenure(), "bob", async || {
        succeeded = Some(bank.is_succeeded_meanwhile().await);
    })
    .await;
    if on.keeps_successors_out() {
        moved.unwrap();
        assert_eq!(succeeded, Some(false), "it was let in beside the transaction");
        assert_eq!(bank.balances().await, [70, 130]);
        assert!(bank.is_succeeded().await, "it is still kept out behind the transaction");
    } else {
        assert_eq!(succeeded, Some(true), "it was kept out before the commit");
        let error = moved.unwrap_err();
        assert!(matches!(error, NotDone::Lost), "{error}");
        assert_eq!(bank.balances().await, [100, 100]);
    }
}

async fn of_work_that_fails_nothing_is_moved(library: Library, on: On) {
    let bank = Bank::open(on).await;
    let lease = bank.claim().await;
    let error = pay(library, &bank, &lease.tenure(), "eve", async || ()).await.unwrap_err();
    assert!(matches!(error, NotDone::Failed(_)), "{error}");
    assert_eq!(bank.balances().await, [100, 100], "what the work did before it failed");
}

async fn a_loss_in_the_middle_ends_the_work_and_nothing_is_moved(library: Library, on: On) {
    let bank = Bank::open(on).await;
    let lease = bank.claim().await;
    let tenure = lease.tenure();
    let meanwhile = async || {
        drop(lease);
        // The one that blocks is refused the commit.
        if !matches!((library, on), (Library::Diesel, On::Sqlite)) {
            sleep(Duration::from_secs(60)).await;
            panic!("the work goes on behind the loss");
        }
    };
    let error = pay(library, &bank, &tenure, "bob", meanwhile).await.unwrap_err();
    assert!(matches!(error, NotDone::Lost), "{error}");
    assert_eq!(bank.balances().await, [100, 100]);
}

macro_rules! guarded {
    ($($name:ident: $library:ident on $on:ident;)*) => {$(
        mod $name {
            use super::{Library, On};

            #[tokio::test(flavor = "multi_thread")]
            async fn under_the_lease_the_amount_is_moved() {
                super::under_the_lease_the_amount_is_moved(Library::$library, On::$on).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn behind_a_successor_nothing_is_moved() {
                super::behind_a_successor_nothing_is_moved(Library::$library, On::$on).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn a_successor_in_the_middle_and_the_commit_exclude_each_other() {
                super::a_successor_in_the_middle_and_the_commit_exclude_each_other(Library::$library, On::$on).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn of_work_that_fails_nothing_is_moved() {
                super::of_work_that_fails_nothing_is_moved(Library::$library, On::$on).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn a_loss_in_the_middle_ends_the_work_and_nothing_is_moved() {
                super::a_loss_in_the_middle_ends_the_work_and_nothing_is_moved(Library::$library, On::$on).await;
            }
        }
    )*};
}

guarded! {
    sqlx_on_postgres: Sqlx on Postgres;
    sqlx_on_mariadb: Sqlx on MariaDb;
    sqlx_on_mysql: Sqlx on MySql;
    sqlx_on_sqlite: Sqlx on Sqlite;
    diesel_on_postgres: Diesel on Postgres;
    diesel_on_mariadb: Diesel on MariaDb;
    diesel_on_mysql: Diesel on MySql;
    diesel_on_sqlite: Diesel on Sqlite;
    sea_orm_on_postgres: SeaOrm on Postgres;
    sea_orm_on_mariadb: SeaOrm on MariaDb;
    sea_orm_on_mysql: SeaOrm on MySql;
    sea_orm_on_sqlite: SeaOrm on Sqlite;
}
