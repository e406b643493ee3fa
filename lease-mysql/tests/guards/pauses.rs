//! A process that is stopped, killed or cut off at every message of a guarded transaction, and its successor.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use lease_core::LeaseStore;
use lease_core::store::ClaimAnswer;
use lease_mysql::mysql_async::prelude::Queryable;
use lease_testkit::Direction::{self, ToClient, ToServer};
use nix::sys::signal::{Signal, kill};
use test_servers::Product;

use crate::child::Program;
use crate::support::{LONG, Sandbox, on_both};
use crate::world::{proxy, successor, until};

on_both! {
    a_process_stopped_at_any_message_commits_nothing_after_its_successors_claim
    a_process_that_goes_on_before_its_successor_gets_in_commits_nothing_afterwards
    a_message_that_is_late_commits_nothing_after_the_successors_claim
    a_process_killed_at_any_message_commits_nothing_after_its_successors_claim
    a_connection_cut_at_any_message_commits_nothing_after_its_successors_claim
}

/// What befalls the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Stopped until the successor has claimed.
    Stopped,
    /// Stopped, and the message comes only when the successor has claimed.
    Late,
    /// Stopped for a moment.
    Halted,
    Killed,
    Cut,
}

async fn a_process_stopped_at_any_message_commits_nothing_after_its_successors_claim(product: Product) {
    table(product, Fate::Stopped).await;
}

async fn a_process_that_goes_on_before_its_successor_gets_in_commits_nothing_afterwards(product: Product) {
    table(product, Fate::Halted).await;
}

async fn a_message_that_is_late_commits_nothing_after_the_successors_claim(product: Product) {
    table(product, Fate::Late).await;
}

async fn a_process_killed_at_any_message_commits_nothing_after_its_successors_claim(product: Product) {
    table(product, Fate::Killed).await;
}

async fn a_connection_cut_at_any_message_commits_nothing_after_its_successors_claim(product: Product) {
    table(product, Fate::Cut).await;
}

async fn table(product: Product, fate: Fate) {
    let (up, down) = messages(product).await;
    let cells = (1..=up).map(|k| (ToServer, k)).chain((1..=down).map(|k| (ToClient, k)));
    let cells = stream::iter(cells)
        .map(|(way, k)| async move { ((way as usize, k), cell(product, fate, way, k).await) });
    let outcomes: BTreeMap<_, _> = cells.buffer_unordered(6).collect().await;
    for ((way, k), (answer, rows)) in outcomes {
        println!(
            "{product:?}, {fate:?} before message {k} {}: {answer}, {rows} rows",
            ["to the server", "to the client"][way]
        );
    }
}

/// How many messages the transaction has each way.
async fn messages(product: Product) -> (u64, u64) {
    let sandbox = sandbox(product).await;
    let proxy = proxy(&sandbox);
    let mut program = Program::start(&sandbox.url, &sandbox.url_of("root", Some(proxy.port()))).await;
    proxy.reset();
    program.begin().await;
    assert_eq!(program.ended().await.as_deref(), Some("committed"));
    let count = |way| {
        proxy.log().iter().filter(|passed| passed.direction == way && passed.kind != "Quit").count() as u64
    };
    (count(ToServer), count(ToClient))
}

async fn sandbox(product: Product) -> Sandbox {
    let sandbox = Sandbox::new(product).await;
    sandbox.run("CREATE TABLE work (id BIGINT PRIMARY KEY)").await;
    sandbox
}

/// How the transaction ended, and how many rows there were when the successor had claimed, and for good.
async fn cell(product: Product, fate: Fate, way: Direction, k: u64) -> (String, usize) {
    let sandbox = sandbox(product).await;
    let proxy = proxy(&sandbox);
    let mut program = Program::start(&sandbox.url, &sandbox.url_of("root", Some(proxy.port()))).await;
    let pid = program.pid();
    let (befallen, has_befallen) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel();
    let befall = move |signal| {
        move || {
            kill(pid, signal).unwrap();
            befallen.send(()).unwrap();
            // Until then the message is in the proxy's hands.
            may_go_on.recv().unwrap();
        }
    };
    match fate {
        Fate::Stopped | Fate::Late | Fate::Halted => proxy.call_before(k, way, befall(Signal::SIGSTOP)),
        Fate::Killed => proxy.call_before(k, way, befall(Signal::SIGKILL)),
        Fate::Cut => proxy.cut_before(k, way),
    }
    program.begin().await;
    let befalls =
        async || if fate == Fate::Cut { proxy.planned() == 0 } else { has_befallen.try_recv().is_ok() };
    until("it has befallen the process", befalls).await;
    if fate != Fate::Late {
        // Nobody listens when it was cut.
        let _ = go_on.send(());
    }
    if fate == Fate::Halted {
        program.signal(Signal::SIGCONT);
    }

    let (store, claim) = (sandbox.store(), successor());
    until("the successor has claimed", async || {
        matches!(store.claim(&claim, LONG).await.unwrap(), ClaimAnswer::Granted(_))
    })
    .await;
    let at_the_claim = ids(&sandbox).await;
    if fate == Fate::Late {
        go_on.send(()).unwrap();
        until("the message has come", async || proxy.planned() == 0).await;
    }
    if matches!(fate, Fate::Stopped | Fate::Late) {
        program.signal(Signal::SIGCONT);
    }
    let answer = program.ended().await.unwrap_or_else(|| "killed".to_owned());
    // What might still come has its time to come, though none is needed.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let place = format!("{product:?}, {fate:?} before message {k} {way:?}: {answer}");
    assert_eq!(ids(&sandbox).await, at_the_claim, "{place}");
    let all = [1, 2, 3];
    match answer.as_str() {
        "committed" => assert_eq!(at_the_claim, all, "{place}"),
        "unknown" | "killed" => {
            assert!(at_the_claim.is_empty() || at_the_claim == all, "{place}: {at_the_claim:?}");
        }
        _ => assert!(at_the_claim.is_empty(), "{place}: {at_the_claim:?}"),
    }
    (answer, at_the_claim.len())
}

async fn ids(sandbox: &Sandbox) -> Vec<u64> {
    sandbox.other().await.query("SELECT id FROM work ORDER BY id").await.unwrap()
}
