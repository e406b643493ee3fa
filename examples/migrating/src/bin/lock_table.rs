//! A service whose old version elects by a lock table in PostgreSQL: the version between.

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

const OLD_NAME: &str = "nightly";
const OLD_TTL: Duration = Duration::from_secs(60);
const TAKE: &str = "INSERT INTO locks (name, locked_by, locked_at, locked_until) \
    VALUES ($1, $2, now(), now() + interval '60 s') ON CONFLICT (name) DO UPDATE SET \
    locked_by = $2, locked_at = excluded.locked_at, locked_until = excluded.locked_until WHERE locks.locked_until <= now()";
const KEEP: &str = "UPDATE locks SET locked_until = now() + interval '60 s' WHERE name = $1 AND locked_by = $2 AND locked_until > now()";
const FREE: &str = "UPDATE locks SET locked_until = now() WHERE name = $1 AND locked_by = $2";

struct Old(Client, String); // the token of the claim, which nobody else has

async fn old_lock(tenure: &Tenure) -> Result<Option<Old>, tokio_postgres::Error> {
    let old = Old(connect().await?, tenure.holder().to_string());
    while tenure.check() && !tenure.is_stopping() {
        let Ok(taken) = timeout(OLD_TTL / 4, old.0.execute(TAKE, &[&OLD_NAME, &old.1])).await else {
            return Ok(None);
        };
        if taken? == 1 {
            return Ok(Some(old));
        }
        sleep(BEAT).await;
    }
    Ok(None)
}

/// Returns when the row is not ours, or cannot be renewed: with a quarter of its time left.
async fn gone(old: &mut Old) {
    sleep(OLD_TTL / 4).await;
    while let Ok(Ok(1)) = timeout(OLD_TTL / 4, old.0.execute(KEEP, &[&OLD_NAME, &old.1])).await {
        sleep(OLD_TTL / 4).await;
    }
}

async fn give_back(old: Old) {
    // If it fails, the row is free when it expires.
    drop(timeout(OLD_TTL / 4, old.0.execute(FREE, &[&OLD_NAME, &old.1])).await);
}
