//! A service whose old version elects by `GET_LOCK` of MySQL or MariaDB: the version between.

use std::time::Duration;

use lease_core::{Instance, LeaseStore, Leases, Tenure};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};

use lease_mysql::MysqlStore;
use lease_mysql::mysql_async::{self, Conn, prelude::Queryable};

const OLD_NAME: &str = "nightly";

async fn old_lock(tenure: &Tenure) -> Result<Option<Conn>, mysql_async::Error> {
    let Ok(old) = timeout(BEAT * 5, Conn::from_url("mysql://app:secret@db.example/app")).await else {
        return Ok(None);
    };
    let mut old = old?;
    while tenure.check() && !tenure.is_stopping() {
        // The server lets it wait for a second.
        let asked = timeout(BEAT * 5, old.exec_first("SELECT GET_LOCK(?, 1)", (OLD_NAME,)));
        let Ok(got) = asked.await else {
            return Ok(None);
        };
        if got? == Some(Some(1)) {
            return Ok(Some(old));
        }
    }
    Ok(None)
}

/// Returns when the session does not answer, or has the lock no more. It also keeps `wait_timeout` from ending it.
async fn gone(old: &mut Conn) {
    let mine = "SELECT IS_USED_LOCK(?) = CONNECTION_ID()";
    while let Ok(Ok(Some(Some(1)))) = timeout(BEAT * 5, old.exec_first(mine, (OLD_NAME,))).await {
        sleep(BEAT).await;
    }
}

async fn give_back(old: Conn) {
    // The lock ends with its session.
    drop(timeout(BEAT * 5, old.disconnect()).await);
}

const BEAT: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = MysqlStore::open("mysql://app:secret@db.example/app")?;
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
