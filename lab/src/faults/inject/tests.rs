//! Each injector does what it says: seen by other means than those that it uses. Workers are stood in for by a script that lives
//! as long as its standard input.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;

use lease_core::ErrorKind;
use tokio::time::timeout;

use super::*;
use crate::faults::backend::Backend;
use crate::faults::ground::Ground;
use crate::faults::place::Place;
use crate::faults::world::Wanted;

/// However slow the machine.
const LONG: Duration = Duration::from_secs(60);

/// Long enough for a look that is sure to fall into it on any machine: each looks again and again.
const WHILE: Duration = Duration::from_secs(2);

const HOUR: Duration = Duration::from_secs(3_600);

async fn world(backend: Backend, folder: &Path) -> World {
    let script = folder.join("worker");
    fs::write(&script, "#!/bin/sh\nexec cat > /dev/null\n").unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let ground = Ground::start(backend, true).unwrap().map(Arc::new);
    let (history, file) = (folder.join("history"), folder.join("file"));
    let wanted = Wanted {
        backend,
        seed: 1,
        folder: &history,
        file: &file,
        ground,
        stepped_clock: true,
        program: Some(&script),
    };
    World::start(wanted).await.unwrap()
}

fn injection(kind: Kind, lasts: Duration) -> Injection {
    let (worker, moment, after) = (Some(0), Moment::Any, Duration::ZERO);
    Injection { kind, nth: 0, worker, moment, after, lasts, size: HOUR, message: 1 }
}

/// Whether a call through a worker's way goes well, in half a second.
async fn answers(place: &Place) -> Result<(), ErrorKind> {
    let looking = async {
        let store = place.store().await.map_err(|_| ErrorKind::Other)?.shared();
        let within = Duration::from_millis(500);
        store.inspect(&TAKEN.parse().unwrap(), within).await.map(drop).map_err(|error| error.kind())
    };
    timeout(LONG, looking).await.unwrap()
}

/// What has passed is over: on a busy machine an answer may take longer than one look waits.
async fn answers_again(place: &Place) {
    let since = Instant::now();
    while let Err(kind) = answers(place).await {
        assert!(since.elapsed() < LONG, "{place:?} does not answer any more: {kind:?}");
    }
}

/// Injects, and looks meanwhile until it is so; it is not so before and not for ever after.
async fn is_seen(world: &World, kind: Kind, lasts: Duration, mut so: impl AsyncFnMut() -> bool) {
    assert!(!so().await, "{kind:?} before it was injected");
    let fault = injection(kind, lasts);
    let mut seen = false;
    {
        let mut acting = std::pin::pin!(world.act(&fault));
        loop {
            tokio::select! {
                biased;
                done = &mut acting => {
                    assert!(done.unwrap(), "{kind:?} could not be injected");
                    break;
                }
                is_so = so() => seen |= is_so,
            }
        }
    }
    assert!(seen || lasts.is_zero(), "{kind:?} was not seen");
    let since = Instant::now();
    while so().await {
        assert!(since.elapsed() < LONG, "{kind:?} is not over");
    }
}

/// What the database's clock says.
async fn clock(world: &World) -> i64 {
    world.store.inspect(&TAKEN.parse().unwrap(), LONG).await.unwrap().now.as_millis()
}

async fn the_clock_is_set_there_and_back(world: &World) {
    let hour = i64::try_from(HOUR.as_millis()).unwrap();
    for (kind, by) in [(Kind::ClockForward, hour), (Kind::ClockBack, -hour)] {
        let before = clock(world).await;
        assert!(world.act(&injection(kind, Duration::ZERO)).await.unwrap());
        let by_which = clock(world).await - before - by;
        assert!((0..60_000).contains(&by_which), "{kind:?}: {by_which} ms off");
    }
}

async fn what_befalls_a_server_is_seen(backend: Backend, read_only: &str, sessions: &str, locked: &str) {
    let folder = tempfile::tempdir().unwrap();
    let world = world(backend, folder.path()).await;
    let ground = Arc::clone(world.ground.as_ref().unwrap());
    let ask = |sql: &str| ground.server(|server| server.ask(sql));
    let direct = world.direct.clone();
    let down = async || answers(&direct).await.is_err();
    is_seen(&world, Kind::ServerKill, WHILE, down).await;
    is_seen(&world, Kind::ServerStop, WHILE, down).await;
    is_seen(&world, Kind::ServerRestart, WHILE, down).await;
    the_clock_is_set_there_and_back(&world).await;
    is_seen(&world, Kind::ReadOnly, WHILE, async || {
        sleep(LOOK).await;
        ask(read_only).is_some_and(|on| matches!(on.as_str(), "on" | "1"))
    })
    .await;
    // The row is there to be locked.
    let claimed = lease_core::Leases::builder_shared(Arc::clone(&world.store))
        .timings(lease_core::Timings::from_ttl(HOUR).unwrap())
        .build()
        .unwrap();
    drop(claimed.claim(crate::faults::worker::ELECTED).await.unwrap());
    claimed.close().await;
    is_seen(&world, Kind::Blocker, WHILE, async || {
        sleep(LOOK).await;
        // The server shows its transactions as they were a tenth of a second ago at most, but only to who asks no more often.
        sleep(Duration::from_millis(150)).await;
        ask(locked).is_some_and(|count| count != "0")
    })
    .await;
    let idle = sessions.replace("DATABASE", crate::faults::ground::database_of(&direct));
    answers_again(&direct).await;
    assert_ne!(ask(&idle).as_deref(), Some("0"), "no session is idle");
    assert!(world.act(&injection(Kind::IdleKill, Duration::ZERO)).await.unwrap());
    let since = Instant::now();
    while ask(&idle).as_deref() != Some("0") {
        assert!(since.elapsed() < LONG, "sessions are left");
        sleep(LOOK).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_befalls_postgres_is_seen() {
    what_befalls_a_server_is_seen(
        Backend::Postgres,
        "SHOW default_transaction_read_only",
        "SELECT count(*) FROM pg_stat_activity WHERE datname = 'DATABASE' AND state = 'idle'",
        "SELECT count(*) FROM pg_locks WHERE mode = 'RowShareLock' AND granted",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_befalls_mariadb_is_seen() {
    let idle =
        "SELECT count(*) FROM information_schema.PROCESSLIST WHERE DB = 'DATABASE' AND COMMAND = 'Sleep'";
    let locked = "SELECT count(*) FROM information_schema.INNODB_TRX WHERE trx_rows_locked > 0";
    what_befalls_a_server_is_seen(Backend::Mariadb, "SELECT @@read_only", idle, locked).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_befalls_mysql_is_seen() {
    let idle =
        "SELECT count(*) FROM information_schema.PROCESSLIST WHERE DB = 'DATABASE' AND COMMAND = 'Sleep'";
    let locked = "SELECT count(*) FROM information_schema.INNODB_TRX WHERE trx_rows_locked > 0";
    what_befalls_a_server_is_seen(Backend::Mysql, "SELECT @@super_read_only", idle, locked).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_befalls_connections_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(Backend::Postgres, folder.path()).await;
    let through = {
        let port = world.proxies[0].port();
        let (login, rest) = world.direct.at.split_once('@').unwrap();
        let database = rest.split_once('/').unwrap().1;
        Place::new(Backend::Postgres, format!("{login}@127.0.0.1:{port}/{database}"))
    };
    let silent = async || answers(&through).await.is_err();
    for kind in [Kind::LostRequests, Kind::LostAnswers, Kind::Partition] {
        is_seen(&world, kind, WHILE, silent).await;
        answers_again(&world.direct).await;
    }
    let late = Injection { size: Duration::from_secs(1), ..injection(Kind::Latency, WHILE) };
    let (done, answered) = tokio::join!(world.act(&late), answers(&through));
    assert!(done.unwrap() && answered.is_err(), "nothing was late");
    answers_again(&through).await;

    let store = through.store().await.unwrap().shared();
    let name = TAKEN.parse().unwrap();
    store.inspect(&name, LONG).await.unwrap();
    let connections = world.proxies[0].connections();
    assert!(world.act(&injection(Kind::HalfOpen, Duration::ZERO)).await.unwrap());
    drop(store.inspect(&name, Duration::from_secs(1)).await);
    store.inspect(&name, LONG).await.unwrap();
    assert!(world.proxies[0].connections() > connections, "the connection was still good");

    let cut = injection(Kind::Cut, LONG);
    let connections = world.proxies[0].connections();
    let asks = async {
        loop {
            // The one that is cut fails.
            drop(store.inspect(&name, LONG).await);
            sleep(LOOK).await;
        }
    };
    tokio::select! {
        done = world.act(&cut) => assert!(done.unwrap(), "nothing was cut"),
        () = asks => {}
    }
    store.inspect(&name, LONG).await.unwrap();
    assert!(world.proxies[0].connections() > connections, "the connection was not cut");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_befalls_a_file_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(Backend::Sqlite, folder.path()).await;
    let path = Path::new(&world.direct.at).to_owned();
    is_seen(&world, Kind::ReadOnly, WHILE, async || {
        sleep(LOOK).await;
        fs::metadata(&path).is_ok_and(|file| file.mode() & 0o222 == 0)
    })
    .await;
    is_seen(&world, Kind::Blocker, WHILE, async || {
        sleep(LOOK).await;
        let other = rusqlite::Connection::open(&path).unwrap();
        other.busy_timeout(Duration::ZERO).unwrap();
        other.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_err()
    })
    .await;
    let inode = |path: &Path| fs::metadata(path).unwrap().ino();
    let rows = async || world.store.inspect(&TAKEN.parse().unwrap(), LONG).await;
    let before = inode(&path);
    is_seen(&world, Kind::Replace, WHILE, async || {
        sleep(LOOK).await;
        !path.exists()
    })
    .await;
    assert_ne!(inode(&path), before);
    drop(rows().await);
    rows().await.unwrap();
    // On a disk of this size it is not done.
    assert!(!world.act(&injection(Kind::FullDisk, WHILE)).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_befalls_workers_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let world = world(Backend::Sqlite, folder.path()).await;
    let state = async |wanted: char| {
        sleep(LOOK).await;
        world.crew.state(0) == Some(wanted)
    };
    is_seen(&world, Kind::ClientStop, WHILE, async || state('T').await).await;
    let first = world.crew.id(0);
    is_seen(&world, Kind::ClientKill, WHILE, async || {
        sleep(LOOK).await;
        world.crew.state(0).is_none()
    })
    .await;
    assert_eq!(world.crew.id(0), (first.0, first.1 + 1));
}
