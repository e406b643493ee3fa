//! How a transaction through sqlx on PostgreSQL ends when a statement waits, the server refuses the commit, or its answer is lost.

use std::time::Duration;

use beside_others::{NotDone, with_sqlx};
use lease_core::Tenure;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, Connection, raw_sql};
use test_servers::{PgBouncer, Product, Server, Setup};
use tokio::time::{sleep, timeout};

use crate::bank::{Bank, On, Store};

const PATIENCE: Duration = Duration::from_secs(60);

async fn connect(bank: &Bank) -> PgConnection {
    PgConnection::connect(&bank.url).await.unwrap()
}

/// Thirty from ann to bob.
async fn pay(bank: &Bank, tenure: &Tenure, connection: PgConnection) -> Result<(), NotDone> {
    let Store::Postgres(store) = &bank.store else { panic!("a bank on PostgreSQL") };
    let work = async |connection: &mut PgConnection| {
        with_sqlx::postgres::transfer(connection, "ann", "bob", 30).await
    };
    with_sqlx::postgres::guarded(store, tenure, connection, work).await.map(drop)
}

/// Waits until some transaction waits for the accounts.
async fn somebody_waits(bank: &Bank) {
    let mut watcher = connect(bank).await;
    let waiting = "SELECT count(*) FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
                   WHERE NOT l.granted AND a.query LIKE 'UPDATE accounts%' AND l.transactionid IS NOT NULL
                     AND a.pid IN (SELECT pid FROM pg_locks WHERE relation = 'accounts'::regclass)";
    let waits = async {
        while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut watcher).await.unwrap() == 0 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, waits).await.expect("no transaction came to wait");
}

#[tokio::test]
async fn a_loss_ends_the_work_in_the_middle_of_a_statement() {
    let bank = Bank::open(On::Postgres).await;
    let lease = bank.claim().await;
    let mut other = connect(&bank).await;
    let mut lock = other.begin().await.unwrap();
    raw_sql("SELECT FROM accounts WHERE name = 'bob' FOR UPDATE").execute(&mut *lock).await.unwrap();
    let tenure = lease.tenure();
    let moving = pay(&bank, &tenure, connect(&bank).await);
    let meanwhile = async {
        somebody_waits(&bank).await;
        drop(lease);
    };
    let (moved, ()) = tokio::join!(moving, meanwhile);
    let error = moved.unwrap_err();
    assert!(matches!(error, NotDone::Lost), "{error}");
    lock.rollback().await.unwrap();
    assert_eq!(bank.balances().await, [100, 100]);
}

#[tokio::test]
async fn what_the_server_refuses_is_not_unknown() {
    let bank = Bank::open(On::Postgres).await;
    let lease = bank.claim().await;
    let mut connection = connect(&bank).await;
    let constraint = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'no'; END$$;
                      CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON accounts DEFERRABLE INITIALLY DEFERRED
                      FOR EACH ROW EXECUTE FUNCTION refuse()";
    raw_sql(constraint).execute(&mut connection).await.unwrap();
    let error = pay(&bank, &lease.tenure(), connection).await.unwrap_err();
    assert!(matches!(error, NotDone::Failed(_)), "{error}");
    assert_eq!(bank.balances().await, [100, 100]);
}

/// What is `FATAL` is taken for no refusal, for it looks the same when it comes behind the commit.
#[tokio::test]
async fn a_session_that_is_ended_before_the_commit_leaves_it_unknown_too() {
    let bank = Bank::open(On::Postgres).await;
    let lease = bank.claim().await;
    let Store::Postgres(store) = &bank.store else { panic!("a bank on PostgreSQL") };
    let work = async |connection: &mut PgConnection| {
        with_sqlx::postgres::transfer(connection, "ann", "bob", 30).await?;
        let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(connection).await?;
        // It is waited for, ten seconds at most.
        let end = sqlx::query_scalar("SELECT pg_terminate_backend($1, 10000)").bind(pid);
        let ended: bool = end.fetch_one(&mut connect(&bank).await).await?;
        assert!(ended, "its session has not ended");
        Ok(())
    };
    let connection = connect(&bank).await;
    let moved = with_sqlx::postgres::guarded(store, &lease.tenure(), connection, work).await;
    let error = moved.unwrap_err();
    assert!(matches!(error, NotDone::Unknown(_)), "{error}");
    assert_eq!(bank.balances().await, [100, 100]);
}

/// The server takes a setting up some time after it was told of it: commits are made until one waits for a standby.
async fn commits_wait(bank: &Bank, admin: &mut PgConnection) {
    let mut probe = connect(bank).await;
    let committing = async {
        for n in 0.. {
            let made = raw_sql(AssertSqlSafe(format!("CREATE TABLE probe{n} ()"))).execute(&mut probe);
            if made.await.is_err() {
                return;
            }
        }
    };
    let ending = ended(admin, "query LIKE 'CREATE TABLE probe%'");
    let both = async { tokio::join!(committing, ending) };
    timeout(PATIENCE, both).await.expect("no commit waits for a standby");
}

/// Ends the session of a commit that waits for a standby, when there is one.
async fn ended(admin: &mut PgConnection, which: &str) {
    let end = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND {which}"
    );
    while sqlx::query(AssertSqlSafe(end.clone())).fetch_all(&mut *admin).await.unwrap().is_empty() {
        sleep(Duration::from_millis(10)).await;
    }
}

/// It is committed, and waits for a standby that never comes, when its session is ended.
async fn ended_behind_the_commit(through_a_pooler: bool) {
    let server = Server::start(Product::Postgres, Setup::default());
    let bank = Bank::on_postgres(server.url()).await;
    let lease = bank.claim().await;
    let mut admin = connect(&bank).await;
    // A pooler takes no options of a session.
    let options: PgConnectOptions = server.url().parse().unwrap();
    let path = sqlx::query_scalar("SELECT current_schema()::text").fetch_one(&mut admin).await;
    let (database, path): (_, String) = (options.get_database().unwrap(), path.unwrap());
    let path = format!("ALTER DATABASE {database} SET search_path = {path}");
    raw_sql(AssertSqlSafe(path)).execute(&mut admin).await.unwrap();
    let pooler = PgBouncer::start(&server);
    let options = if through_a_pooler { pooler.url().parse().unwrap() } else { options };
    // As the pooler wants it.
    let options = options.extra_float_digits(None).statement_cache_capacity(0);
    let connection = PgConnection::connect_with(&options).await.unwrap();
    raw_sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'").execute(&mut admin).await.unwrap();
    raw_sql("SELECT pg_reload_conf()").execute(&mut admin).await.unwrap();
    commits_wait(&bank, &mut admin).await;
    let tenure = lease.tenure();
    let moving = pay(&bank, &tenure, connection);
    let meanwhile = async {
        let commit = ended(&mut admin, "query = 'COMMIT' AND application_name <> 'lease'");
        timeout(PATIENCE, commit).await.expect("no commit came to wait");
    };
    let (moved, ()) = tokio::join!(moving, meanwhile);
    let error = moved.unwrap_err();
    assert!(matches!(error, NotDone::Unknown(_)), "{error}");
    assert_eq!(bank.balances().await, [70, 130]);
}

#[tokio::test]
async fn a_session_that_is_ended_behind_the_commit_leaves_it_unknown() {
    ended_behind_the_commit(false).await;
}

#[tokio::test]
async fn a_pooler_that_loses_the_server_behind_the_commit_leaves_it_unknown() {
    ended_behind_the_commit(true).await;
}
