//! How long a successor is kept out by a program that stands still or is gone, when nobody but the server ends its
//! session. What was measured is in the README; run with `--nocapture` to measure again.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use lease_postgres::{Bounds, Guarded};
use lease_testkit::Direction;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::Client;

use crate::common::Sql;
use crate::support::{Holding, LONG, Scene, proxied};

/// What the bounds are made for. The lease itself lasts, so that the store ends nothing.
const TTL: Duration = Duration::from_secs(2);

/// A program in a transaction, whose connection lives as long as it is looked after.
struct Program {
    scene: Scene,
    _held: Holding,
    tx: Guarded<Client>,
}

/// What a program does until it stands still.
type Doing = for<'a> fn(&'a Program) -> futures_util::future::LocalBoxFuture<'a, ()>;

async fn begin(url: &str, scene: Scene, bounds: Bounds) -> Option<Program> {
    let held = scene.hold("a").await;
    let guard = scene.store.guard(&held.tenure).bounds(bounds);
    let tx = guard.begin(scene.client_at(url).await).await.ok()?;
    Some(Program { scene, _held: held, tx })
}

/// What the server says the program's session waits for.
async fn waits_for(scene: &Scene, event: &str) -> bool {
    let sql = Sql::connect(&scene.url).await;
    let query = "SELECT 1 FROM pg_stat_activity WHERE application_name = $1 AND wait_event = $2";
    let give_up = Instant::now() + TTL;
    while Instant::now() < give_up {
        if !sql.client.query(query, &[&scene.program, &event]).await.unwrap().is_empty() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

/// Sends a statement, and reads nothing of its answer any more.
fn send(program: &Program, statement: &str) {
    let mut sending = Box::pin(program.tx.simple_query(statement));
    assert!((&mut sending).now_or_never().is_none());
}

/// How long the successor is kept out after the program has come to the wait; again when a slow machine was in the way.
fn kept_out(what: &str, event: &str, doing: Doing, paused: fn(Runtime, &Scene)) -> Duration {
    kept_out_within(Bounds::of_ttl(TTL), what, event, doing, paused)
}

fn kept_out_within(
    bounds: Bounds,
    what: &str,
    event: &str,
    doing: Doing,
    paused: fn(Runtime, &Scene),
) -> Duration {
    let give_up = Instant::now() + LONG;
    let observer = runtime();
    loop {
        assert!(Instant::now() < give_up, "{what}: it never comes to wait for {event}");
        let theirs = runtime();
        let scene = observer.block_on(Scene::new());
        let url = scene.url.clone();
        let Some(program) = theirs.block_on(begin(&url, scene, bounds)) else { continue };
        theirs.block_on(async {
            doing(&program).await;
            // Its connection sends what there is to send.
            tokio::time::sleep(Duration::from_millis(50)).await;
        });
        if !observer.block_on(waits_for(&program.scene, event)) {
            continue;
        }
        let since = Instant::now();
        paused(theirs, &program.scene);
        observer.block_on(program.scene.expire("a"));
        observer.block_on(program.scene.succeed("a"));
        let time = since.elapsed();
        println!("{what}: {time:?} at a ttl of {TTL:?}");
        return time;
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Nobody reads from its connection any more, nor writes to it; it stays open.
fn stands_still(theirs: Runtime, _: &Scene) {
    std::mem::forget(theirs);
}

/// Its system closes the connection.
fn is_killed(theirs: Runtime, _: &Scene) {
    theirs.shutdown_background();
}

#[test]
fn paused_between_two_statements_it_is_ended_after_the_idle_bound() {
    let time = kept_out("idle", "ClientRead", |_| Box::pin(async {}), stands_still);
    assert!(time >= TTL / 2, "{time:?}");
}

#[test]
fn paused_inside_a_statement_it_is_ended_after_the_statement_bound() {
    let sleeps: Doing = |program| Box::pin(async { send(program, "SELECT pg_sleep(3600)") });
    let time = kept_out("in a statement", "PgSleep", sleeps, stands_still);
    assert!(time >= TTL * 2, "{time:?}");
}

#[test]
fn paused_inside_a_statement_that_ends_it_is_ended_after_the_idle_bound_more() {
    let sleeps: Doing = |program| Box::pin(async { send(program, "SELECT pg_sleep(5)") });
    let time = kept_out("in a statement that ends", "PgSleep", sleeps, stands_still);
    assert!(time >= TTL, "{time:?}");
}

#[test]
fn paused_while_a_large_result_is_unread_it_is_ended_after_the_unread_bound() {
    // Sent row by row. `FROM generate_series(...)` would be written to a file first, whole, which takes a slow machine longer
    // than the bound on a statement.
    const LARGE: &str = "SELECT repeat('x', 1000), generate_series(1, 10000000)";
    let reads: Doing = |program| Box::pin(async { send(program, LARGE) });
    let time = kept_out("a large result unread", "ClientWrite", reads, stands_still);
    assert!(time >= TTL / 2, "{time:?}");
}

#[test]
fn killed_inside_a_statement_it_is_ended_by_the_check_of_its_connection() {
    let sleeps: Doing = |program| Box::pin(async { send(program, "SELECT pg_sleep(3600)") });
    // Without any other that would.
    let bounds = Bounds::of_ttl(TTL).statement(None);
    kept_out_within(bounds, "killed in a statement", "PgSleep", sleeps, is_killed);
}

/// Nothing comes and nothing goes any more. Unlike with a host that has vanished, what the server sends is still acknowledged by
/// a system; then the bound on what is unread holds for what is not acknowledged.
#[test]
fn vanished_it_is_ended_by_the_bounds_of_one_that_stands_still() {
    let observer = runtime();
    for (statement, least) in [(None, TTL / 2), (Some("SELECT pg_sleep(3600)"), TTL * 2)] {
        let give_up = Instant::now() + LONG;
        loop {
            assert!(Instant::now() < give_up, "no program comes so far");
            let scene = observer.block_on(Scene::new());
            let (proxy, url) = proxied(&scene.url);
            let theirs = runtime();
            let Some(program) = theirs.block_on(begin(&url, scene, Bounds::of_ttl(TTL))) else { continue };
            if let Some(statement) = statement {
                theirs.block_on(async {
                    send(&program, statement);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                });
            }
            let event = if statement.is_some() { "PgSleep" } else { "ClientRead" };
            if !observer.block_on(waits_for(&program.scene, event)) {
                continue;
            }
            let since = Instant::now();
            proxy.hold(Direction::ToServer);
            proxy.hold(Direction::ToClient);
            is_killed(theirs, &program.scene);
            observer.block_on(program.scene.expire("a"));
            observer.block_on(program.scene.succeed("a"));
            let time = since.elapsed();
            println!("vanished, {statement:?}: {time:?} at a ttl of {TTL:?}");
            assert!(time >= least, "{time:?}");
            break;
        }
    }
}
