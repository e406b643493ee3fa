//! A service whose old version elects by an advisory lock of PostgreSQL: the version between.

use std::time::Duration;

use lease_core::{Instance, LeaseStore, Leases, Tenure};
use lease_postgres::PostgresStore;
use lease_postgres::tokio_postgres::{self, Client, NoTls};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};

const BEAT: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = PostgresStore::open("postgres://app:password@db1,db2/app?sslmode=verify-full")?;
    store.check().await?;
    let leases = Leases::builder(store).instance(Instance::current().version("2.0-both")).build()?;
    let (ending, mut terminated) = (leases.clone(), signal(SignalKind::terminate())?);
    tokio::spawn(async move {
        terminated.recv().await;
        ending.shutdown();
    });
    leases.elect("nightly", lead_with_old_lock).await?; // until the shutdown, or an error of the work's own
    leases.close().await;
    Ok(())
}

/// The work, as it stays.
async fn lead(tenure: Tenure) -> Result<(), std::io::Error> {
    println!("leading, term {}", tenure.term());
    tenure.stopping().await;
    Ok(())
}

/// The work under both. What goes wrong with the old lock ends this turn, not the election.
async fn lead_with_old_lock(tenure: Tenure) -> Result<(), std::io::Error> {
    let mut old = match old_lock(&tenure).await {
        Ok(Some(old)) => old,
        Ok(None) => return Ok(()),
        Err(error) => {
            eprintln!("the old lock cannot be had: {error}");
            return Ok(());
        }
    };
    let done = tokio::select! {
        done = lead(tenure) => done,
        () = gone(&mut old) => {
            eprintln!("the old lock is gone: stopping");
            Ok(())
        }
    };
    give_back(old).await; // and then the lease
    done
}

/// As the old version connects, but by a session of its own, and never through a pooler in transaction mode.
async fn connect() -> Result<Client, tokio_postgres::Error> {
    let url = "host=db1 dbname=app user=app password=secret connect_timeout=5 application_name=old-lock";
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Waits for the old lock; `None` if the lease is to be given back instead.
async fn old_lock(tenure: &Tenure) -> Result<Option<Client>, tokio_postgres::Error> {
    const KEY: i64 = 4711; // what the old version locks; two `int` are another lock than one `bigint`
    let old = connect().await?;
    while tenure.check() && !tenure.is_stopping() {
        let asked = timeout(BEAT * 5, old.query_one("SELECT pg_try_advisory_lock($1)", &[&KEY]));
        let Ok(answer) = asked.await else {
            return Ok(None);
        };
        if answer?.try_get::<_, bool>(0)? {
            return Ok(Some(old));
        }
        sleep(BEAT).await;
    }
    Ok(None)
}

/// Returns when the session does not answer any more.
async fn gone(old: &mut Client) {
    while let Ok(Ok(_)) = timeout(BEAT * 5, old.simple_query("SELECT 1")).await {
        sleep(BEAT).await;
    }
}

async fn give_back(old: Client) {
    // If it fails, the lock ends with its session.
    drop(timeout(BEAT * 5, old.simple_query("SELECT pg_advisory_unlock_all()")).await);
}
