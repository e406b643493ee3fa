//! What the recipe keeps, on a real server.

use std::time::Duration;

use fence_with_sqlx::{TransferError, transfer};
use lease_core::store::{Claim, ConditionalAnswer};
use lease_core::{Claimed, Holder, Instance, Lease, LeaseName, LeaseStore, Leases};
use lease_postgres::PostgresStore;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{Connection, raw_sql};
use test_servers::{PgBouncer, Product, Server, Setup};

const PATIENCE: Duration = Duration::from_secs(60);

/// A schema of a test's own, with a lease table and two accounts of 100 each.
struct Bank {
    url: String,
    schema: String,
    store: PostgresStore,
}

impl Bank {
    async fn new() -> Self {
        Self::on(test_servers::shared(Product::Postgres)).await
    }

    async fn on(url: String) -> Self {
        let schema = format!("bank_{}", Holder::mint().unwrap());
        let mut connection = PgConnection::connect(&url).await.unwrap();
        let tables = format!(
            "CREATE SCHEMA {schema}; CREATE TABLE {schema}.accounts (name text PRIMARY KEY, balance bigint NOT NULL);
             INSERT INTO {schema}.accounts VALUES ('ann', 100), ('bob', 100)"
        );
        raw_sql(sqlx::AssertSqlSafe(tables)).execute(&mut connection).await.unwrap();
        let store = PostgresStore::options().schema(&schema).unwrap().open(&url).unwrap();
        store.migrate().await.unwrap();
        Self { url, schema, store }
    }

    async fn connect(&self) -> PgConnection {
        let mut connection = PgConnection::connect(&self.url).await.unwrap();
        let path = format!("SET search_path = {}", self.schema);
        raw_sql(sqlx::AssertSqlSafe(path)).execute(&mut connection).await.unwrap();
        connection
    }

    async fn balances(&self) -> Vec<i64> {
        let all = "SELECT balance FROM accounts ORDER BY name";
        sqlx::query_scalar(all).fetch_all(&mut self.connect().await).await.unwrap()
    }

    async fn lease(&self) -> Lease {
        let leases = Leases::new(self.store.clone()).unwrap();
        match leases.claim("bank").await.unwrap() {
            Claimed::Granted(lease) => lease,
            Claimed::Held(refusal) => panic!("{refusal:?}"),
        }
    }

    /// A claim of somebody who is sure that the holder is dead, whatever the clock says.
    async fn succeed(&self) -> ConditionalAnswer {
        let name = LeaseName::new("bank").unwrap();
        loop {
            let seen = self.store.inspect(&name, PATIENCE).await.unwrap().row.unwrap();
            let holder = Holder::mint().unwrap();
            let claim =
                Claim { name: name.clone(), holder, ttl: PATIENCE, instance: Instance::named("next") };
            let answer = self.store.claim_observed(&claim, &seen.observed(), PATIENCE).await.unwrap();
            let now = self.store.inspect(&name, PATIENCE).await.unwrap().row.unwrap();
            // Moved by a renewal in between: that is no answer to the question.
            if answer != ConditionalAnswer::Moved || now.observed() == seen.observed() {
                return answer;
            }
        }
    }

    /// Waits until some transaction waits for the accounts.
    async fn somebody_waits(&self) {
        let mut watcher = self.connect().await;
        let waiting = "SELECT count(*) FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
                       WHERE NOT l.granted AND a.query LIKE 'UPDATE accounts%' AND l.transactionid IS NOT NULL
                         AND a.pid IN (SELECT pid FROM pg_locks WHERE relation = 'accounts'::regclass)";
        let waits = async {
            while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut watcher).await.unwrap() == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, waits).await.expect("no transaction came to wait");
    }
}

#[tokio::test]
async fn under_the_lease_the_amount_is_moved_and_the_connection_comes_back() {
    let bank = Bank::new().await;
    let lease = bank.lease().await;
    let connection = bank.connect().await;
    let connection = transfer(&bank.store, &lease.tenure(), connection, ("ann", "bob", 30)).await.unwrap();
    assert_eq!(bank.balances().await, [70, 130]);
    transfer(&bank.store, &lease.tenure(), connection, ("bob", "ann", 30)).await.unwrap();
    assert_eq!(bank.balances().await, [100, 100]);
}

#[tokio::test]
async fn behind_a_successor_nothing_is_moved() {
    let bank = Bank::new().await;
    let lease = bank.lease().await;
    assert!(matches!(bank.succeed().await, ConditionalAnswer::Granted(_)));
    let error =
        transfer(&bank.store, &lease.tenure(), bank.connect().await, ("ann", "bob", 30)).await.unwrap_err();
    assert!(matches!(error, TransferError::Lost(_)), "{error}");
    assert_eq!(bank.balances().await, [100, 100]);
}

#[tokio::test]
async fn a_successor_is_kept_out_until_the_transaction_has_ended() {
    let bank = Bank::new().await;
    let lease = bank.lease().await;
    let (mut other, connection) = (bank.connect().await, bank.connect().await);
    let mut lock = other.begin().await.unwrap();
    raw_sql("SELECT FROM accounts WHERE name = 'bob' FOR UPDATE").execute(&mut *lock).await.unwrap();
    let tenure = lease.tenure();
    let moving = transfer(&bank.store, &tenure, connection, ("ann", "bob", 30));
    let meanwhile = async {
        bank.somebody_waits().await;
        assert_eq!(bank.succeed().await, ConditionalAnswer::Moved, "it was let in beside the transaction");
        lock.rollback().await.unwrap();
    };
    let (moved, ()) = tokio::join!(moving, meanwhile);
    moved.unwrap();
    assert_eq!(bank.balances().await, [70, 130]);
    assert!(matches!(bank.succeed().await, ConditionalAnswer::Granted(_)));
}

#[tokio::test]
async fn a_loss_ends_the_work_and_nothing_is_moved() {
    let bank = Bank::new().await;
    let lease = bank.lease().await;
    let (mut other, connection) = (bank.connect().await, bank.connect().await);
    let mut lock = other.begin().await.unwrap();
    raw_sql("SELECT FROM accounts WHERE name = 'bob' FOR UPDATE").execute(&mut *lock).await.unwrap();
    let tenure = lease.tenure();
    let moving = transfer(&bank.store, &tenure, connection, ("ann", "bob", 30));
    let meanwhile = async {
        bank.somebody_waits().await;
        drop(lease);
    };
    let (moved, ()) = tokio::join!(moving, meanwhile);
    let error = moved.unwrap_err();
    assert!(matches!(error, TransferError::Lost(_)), "{error}");
    lock.rollback().await.unwrap();
    assert_eq!(bank.balances().await, [100, 100]);
}

#[tokio::test]
async fn what_the_server_refuses_is_not_unknown() {
    let bank = Bank::new().await;
    let lease = bank.lease().await;
    let mut connection = bank.connect().await;
    let constraint = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'no'; END$$;
                      CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON accounts DEFERRABLE INITIALLY DEFERRED
                      FOR EACH ROW EXECUTE FUNCTION refuse()";
    raw_sql(constraint).execute(&mut connection).await.unwrap();
    let error = transfer(&bank.store, &lease.tenure(), connection, ("ann", "bob", 30)).await.unwrap_err();
    assert!(matches!(error, TransferError::Failed(_)), "{error}");
    assert_eq!(bank.balances().await, [100, 100]);
}

#[tokio::test]
async fn to_an_account_that_does_not_exist_nothing_is_moved() {
    let bank = Bank::new().await;
    let lease = bank.lease().await;
    let error =
        transfer(&bank.store, &lease.tenure(), bank.connect().await, ("ann", "eve", 30)).await.unwrap_err();
    assert!(matches!(&error, TransferError::NoAccount(name) if name == "eve"), "{error}");
    assert_eq!(bank.balances().await, [100, 100]);
}

/// The server takes a setting up some time after it was told of it: commits are made until one waits for a standby.
async fn commits_wait(bank: &Bank, admin: &mut PgConnection) {
    let mut probe = bank.connect().await;
    let committing = async {
        for n in 0.. {
            let made = raw_sql(sqlx::AssertSqlSafe(format!("CREATE TABLE probe{n} ()"))).execute(&mut probe);
            if made.await.is_err() {
                return;
            }
        }
    };
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE wait_event = 'SyncRep' AND query LIKE 'CREATE TABLE probe%'";
    let ending = async {
        while sqlx::query(end).fetch_all(&mut *admin).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let both = async { tokio::join!(committing, ending) };
    tokio::time::timeout(PATIENCE, both).await.expect("no commit waits for a standby");
}

/// It is committed, and waits for a standby that never comes, when its session is ended.
async fn ended_behind_the_commit(through_a_pooler: bool) {
    let server = Server::start(Product::Postgres, Setup::default());
    let bank = Bank::on(server.url()).await;
    let lease = bank.lease().await;
    let mut admin = bank.connect().await;
    let options: PgConnectOptions = bank.url.parse().unwrap();
    let path =
        format!("ALTER DATABASE {} SET search_path = {}", options.get_database().unwrap(), bank.schema);
    raw_sql(sqlx::AssertSqlSafe(path)).execute(&mut admin).await.unwrap();
    let pooler = PgBouncer::start(&server);
    let options = if through_a_pooler { pooler.url().parse().unwrap() } else { options };
    // As the pooler wants it.
    let options = options.extra_float_digits(None).statement_cache_capacity(0);
    let connection = PgConnection::connect_with(&options).await.unwrap();
    raw_sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'").execute(&mut admin).await.unwrap();
    raw_sql("SELECT pg_reload_conf()").execute(&mut admin).await.unwrap();
    commits_wait(&bank, &mut admin).await;
    let tenure = lease.tenure();
    let moving = transfer(&bank.store, &tenure, connection, ("ann", "bob", 30));
    let meanwhile = async {
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE wait_event = 'SyncRep' AND query = 'COMMIT' AND application_name <> 'lease'";
        let ended = async {
            while sqlx::query(end).fetch_all(&mut admin).await.unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, ended).await.expect("no commit came to wait");
    };
    let (moved, ()) = tokio::join!(moving, meanwhile);
    let error = moved.unwrap_err();
    assert!(matches!(error, TransferError::Unknown(_)), "{error}");
    let all = "SELECT balance FROM accounts ORDER BY name";
    let balances: Vec<i64> = sqlx::query_scalar(all).fetch_all(&mut admin).await.unwrap();
    assert_eq!(balances, [70, 130]);
}

#[tokio::test]
async fn a_session_that_is_ended_behind_the_commit_leaves_it_unknown() {
    ended_behind_the_commit(false).await;
}

#[tokio::test]
async fn a_pooler_that_loses_the_server_behind_the_commit_leaves_it_unknown() {
    ended_behind_the_commit(true).await;
}
