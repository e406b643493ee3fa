//! What each operation costs on the wire, on a connection that has been used before.

use lease_core::store::{Holding, Page, SlotEnd, UnfinishedSlot};
use lease_core::{LeaseStore, Slot};
use lease_postgres::PostgresStore;
use lease_postgres::deadpool_postgres::{Manager, Pool};
use lease_testkit::Proxy;
use tokio_postgres::NoTls;

use crate::connections::proxied;
use crate::support::{LONG, Sandbox, TTL, holding, new_claim, take};

/// The round trips of what happens meanwhile.
async fn trips<T>(proxy: &Proxy, statement: impl Future<Output = T>) -> u64 {
    proxy.reset();
    statement.await;
    proxy.trips()
}

async fn counts(store: &PostgresStore, proxy: &Proxy, leases: u32) -> Vec<(&'static str, u64)> {
    let slot = |ms| Slot::from_millis(ms).unwrap();
    let mut counted = Vec::new();
    let held = take(store, "held").await;
    let batch: Vec<Holding> = {
        let mut batch = Vec::new();
        for n in 0..leases {
            let claim = new_claim(&format!("n{n}"));
            store.claim(&claim, LONG).await.unwrap();
            batch.push(holding(&claim));
        }
        batch
    };
    let (new, again, refused) = (new_claim("new"), new_claim("new"), new_claim("new"));
    let (name, holder) = (&held.name, &held.holder);
    counted.push(("claim, new", trips(proxy, store.claim(&new, LONG)).await));
    counted.push(("claim, held", trips(proxy, store.claim(&refused, LONG)).await));
    store.release(&new.name, &new.holder, LONG).await.unwrap();
    counted.push(("claim, free", trips(proxy, store.claim(&again, LONG)).await));
    counted.push(("renew", trips(proxy, store.renew(name, holder, TTL, LONG)).await));
    counted.push(("renew, lost", trips(proxy, store.renew(name, &new.holder, TTL, LONG)).await));
    counted.push(("renew_many, 1000", trips(proxy, store.renew_many(&batch, TTL, LONG)).await));
    counted.push(("verify", trips(proxy, store.verify(name, holder, LONG)).await));
    counted.push(("inspect", trips(proxy, store.inspect(name, LONG)).await));
    let page = Page { limit: 1_000, ..Page::default() };
    counted.push(("list, 1000", trips(proxy, store.list(&page, LONG)).await));
    let row = store.inspect(name, LONG).await.unwrap().row.unwrap();
    counted.push(("resign", trips(proxy, store.resign(name, row.term, LONG)).await));
    counted.push(("clear", trips(proxy, store.clear(name, &row.observed(), LONG)).await));
    let seen = store.inspect(name, LONG).await.unwrap().row.unwrap().observed();
    let taken = new_claim("held");
    counted.push(("claim_observed", trips(proxy, store.claim_observed(&taken, &seen, LONG)).await));
    counted.push(("release", trips(proxy, store.release(name, &taken.holder, LONG)).await));
    counted.push(("announce", trips(proxy, store.announce(name, LONG)).await));
    let round = new_claim("round");
    counted.push(("claim_slot, granted", trips(proxy, store.claim_slot(&round, slot(1), LONG)).await));
    counted.push(("claim_slot, refused", trips(proxy, store.claim_slot(&round, slot(1), LONG)).await));
    counted.push(("last_slot", trips(proxy, store.last_slot(&round.name, LONG)).await));
    store.release(&round.name, &round.holder, LONG).await.unwrap();
    let names = [round.name.clone()];
    counted.push(("unfinished_slots", trips(proxy, store.unfinished_slots(&names, LONG)).await));
    let term = store.inspect(&round.name, LONG).await.unwrap().row.unwrap().term;
    let unfinished = UnfinishedSlot { name: round.name.clone(), slot: slot(1), term };
    let rerun = new_claim("round");
    counted.push(("claim_rerun", trips(proxy, store.claim_rerun(&rerun, &unfinished, LONG)).await));
    let end = |holder| SlotEnd { name: round.name.clone(), holder, slot: slot(1), passed: None, lost: false };
    counted.push(("finish_slot", trips(proxy, store.finish_slot(&end(rerun.holder), LONG)).await));
    counted.push(("finish_slot, lost", trips(proxy, store.finish_slot(&end(round.holder), LONG)).await));
    counted
}

const EXPECTED: [(&str, u64); 21] = [
    ("claim, new", 1),
    ("claim, held", 1),
    ("claim, free", 1),
    ("renew", 1),
    ("renew, lost", 1),
    ("renew_many, 1000", 1),
    ("verify", 1),
    ("inspect", 1),
    ("list, 1000", 1),
    ("resign", 1),
    ("clear", 1),
    ("claim_observed", 1),
    ("release", 1),
    ("announce", 1),
    ("claim_slot, granted", 2),
    ("claim_slot, refused", 1),
    ("last_slot", 1),
    ("unfinished_slots", 1),
    ("claim_rerun", 1),
    ("finish_slot", 1),
    ("finish_slot, lost", 2),
];

#[tokio::test]
async fn each_operation_takes_the_round_trips_that_are_promised() {
    let sandbox = Sandbox::new().await;
    let (proxy, url) = proxied(&sandbox.url);
    let store = sandbox.options().open(&url).unwrap();
    // Connects.
    counts(&store, &proxy, 1_000).await;
    sandbox.run("TRUNCATE leases").await;
    assert_eq!(counts(&store, &proxy, 1_000).await, EXPECTED);
}

#[tokio::test]
async fn on_a_pool_of_the_programs_it_takes_as_many() {
    let sandbox = Sandbox::new().await;
    let (proxy, url) = proxied(&sandbox.url);
    let manager = Manager::new(url.parse().unwrap(), NoTls);
    let pool = Pool::builder(manager).max_size(4).build().unwrap();
    let store = sandbox.options().open_pool(pool).unwrap();
    // Connects.
    counts(&store, &proxy, 1_000).await;
    sandbox.run("TRUNCATE leases").await;
    assert_eq!(counts(&store, &proxy, 1_000).await, EXPECTED);
}

/// Names that statements use for other things.
#[tokio::test]
async fn tables_may_be_called_as_they_like() {
    let schema = crate::common::unique("lease_names");
    let sandbox = Sandbox::without_table(&crate::common::shared());
    sandbox.run(&format!("CREATE SCHEMA {schema}")).await;
    let (proxy, url) = proxied(&sandbox.url);
    for table in ["clock", "lease", "mine", "taken", "made", "held", "asked", "page", "user"] {
        let options = PostgresStore::options().schema(&schema).unwrap().table(table).unwrap();
        let store = options.open(&url).unwrap();
        store.migrate().await.unwrap();
        store.check().await.unwrap();
        counts(&store, &proxy, 1).await;
    }
}

/// What a claim costs on a connection that has not been made yet, beside the login.
#[tokio::test]
async fn a_new_connection_costs_two_round_trips_more() {
    let sandbox = Sandbox::new().await;
    let (proxy, url) = proxied(&sandbox.url);
    let store = sandbox.options().open(&url).unwrap();
    assert_eq!(trips(&proxy, store.claim(&new_claim("a"), LONG)).await, 3);
    assert_eq!(proxy.connections(), 1);
}
