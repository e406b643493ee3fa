//! Round trips, as counted on the wire.

use lease_core::store::{Page, SlotEnd, UnfinishedSlot};
use lease_core::{LeaseStore, Slot, Term};
use lease_mysql::MysqlStore;
use lease_mysql::mysql_async::Opts;
use lease_testkit::{Proxy, Wire};
use test_servers::Product;

use crate::support::{LONG, Sandbox, TTL, granted, holding, name, new_claim, on_both, take};

on_both! {
    each_operation_makes_as_many_round_trips_as_it_should
}

fn slot(n: i64) -> Slot {
    Slot::from_millis(n * 60_000).unwrap()
}

async fn each_operation_makes_as_many_round_trips_as_it_should(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let opts = Opts::from_url(&sandbox.url).unwrap();
    let proxy = Proxy::start((opts.ip_or_hostname(), opts.tcp_port()), Wire::MySql).unwrap();
    let url = sandbox.url_of("root", Some(proxy.port()));
    let store = MysqlStore::open(&format!("{url}?ssl-mode=DISABLED")).unwrap();
    // The first time a connection sees a statement it prepares it, which is a trip more.
    operations(&store, &proxy, "first ", true).await;
    operations(&store, &proxy, "", false).await;
}

/// Runs every operation once, on names of its own, and counts.
async fn operations(store: &MysqlStore, proxy: &Proxy, run: &str, warming_up: bool) {
    let count = |what: &str, trips: u64| {
        if !warming_up {
            assert_eq!(proxy.trips(), trips, "{what}: {:?}", proxy.log());
            println!("{what}: {trips}");
        }
        proxy.reset();
    };
    let text = |end: &str| format!("{run}{end}");
    proxy.reset();

    let first = take(store, &text("a")).await;
    count("claim of a new name", 2);
    store.claim(&new_claim(&text("a")), LONG).await.unwrap();
    count("claim of a held name", 2);
    store.renew(&first.name, &first.holder, TTL, LONG).await.unwrap();
    count("renew", 1);
    store.verify(&first.name, &first.holder, LONG).await.unwrap();
    count("verify", 1);
    store.resign(&first.name, Term::FIRST, LONG).await.unwrap();
    count("resign", 1);
    store.release(&first.name, &first.holder, LONG).await.unwrap();
    count("release", 1);
    store.release(&name(&text("none")), &first.holder, LONG).await.unwrap();
    count("release of what is gone", 1);
    granted(store.claim(&new_claim(&text("a")), LONG).await);
    count("claim of a free name", 1);
    let seen = store.inspect(&first.name, LONG).await.unwrap().row.unwrap().observed();
    count("inspect", 1);
    store.claim_observed(&new_claim(&text("a")), &seen, LONG).await.unwrap();
    count("claim observed", 1);
    store.clear(&first.name, &seen, LONG).await.unwrap();
    count("clear", 1);
    store.list(&Page { limit: 10, ..Page::default() }, LONG).await.unwrap();
    count("list", 1);

    let round = new_claim(&text("round"));
    store.claim_slot(&round, slot(1), LONG).await.unwrap();
    count("claim slot of a new name", 2);
    store.claim_slot(&new_claim(&text("round")), slot(1), LONG).await.unwrap();
    count("claim slot refused", 1);
    store.last_slot(&round.name, LONG).await.unwrap();
    count("last slot", 1);
    store.release(&round.name, &round.holder, LONG).await.unwrap();
    proxy.reset();
    store.unfinished_slots(std::slice::from_ref(&round.name), LONG).await.unwrap();
    count("unfinished slots", 1);
    let cut_short = UnfinishedSlot { name: round.name.clone(), slot: slot(1), term: Term::FIRST };
    let rerun = new_claim(&text("round"));
    store.claim_rerun(&rerun, &cut_short, LONG).await.unwrap();
    count("claim rerun", 1);
    let end =
        SlotEnd { name: rerun.name.clone(), holder: rerun.holder, slot: slot(1), passed: None, lost: false };
    store.finish_slot(&end, LONG).await.unwrap();
    count("finish slot", 1);
    store.finish_slot(&SlotEnd { holder: round.holder, ..end }, LONG).await.unwrap();
    count("finish slot of a lost round", 2);
    store.claim_slot(&new_claim(&text("round")), slot(2), LONG).await.unwrap();
    count("claim slot of a free name", 2);

    let leases: Vec<_> = (0..1000).map(|n| holding(&new_claim(&text(&format!("n{n}"))))).collect();
    store.renew_many(&leases, TTL, LONG).await.unwrap();
    count("renew many, a thousand", 1);
}
