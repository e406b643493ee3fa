//! The server's clock over both edges of daylight saving.

use std::time::{Duration, Instant};

use lease_core::LeaseStore;
use lease_core::store::{ClaimAnswer, RenewAnswer, millis};
use lease_mysql::MysqlStore;
use lease_mysql::mysql_async::{Opts, OptsBuilder, Pool};
use test_servers::{Product, Server, Setup};

use crate::support::{LONG, Sandbox, TTL, granted, name, new_claim, on_both, private, take};

on_both! {
    over_both_edges_of_daylight_saving_the_clock_is_right_and_no_lease_is_lost_or_stranded
}

/// In Europe/Berlin, 2026: 01:00 UTC on these days.
const EDGES: [u64; 2] = [1_774_746_000, 1_792_890_000];

/// The difference is not seen by a clock of whole seconds.
const CLOSE: i64 = 1_000;

async fn is_right(store: &MysqlStore, since: Duration, set: Instant) {
    let now = store.inspect(&name("clock"), LONG).await.unwrap().now.as_millis();
    let (from, to) = (millis(since), millis(since + set.elapsed()));
    assert!(from - CLOSE < now && now < to + CLOSE, "{now} is not between {from} and {to}");
}

async fn over_both_edges_of_daylight_saving_the_clock_is_right_and_no_lease_is_lost_or_stranded(
    product: Product,
) {
    let zone = vec!["--default-time-zone=Europe/Berlin".to_owned()];
    let setup = Setup { arguments: zone, stepped_clock: true, ..Setup::default() };
    let mut server = private(product, setup).await;
    let sandbox = Sandbox::empty(&server.url()).await;
    let own = sandbox.store();
    own.migrate().await.unwrap();
    let opts = OptsBuilder::from_opts(Opts::from_url(&sandbox.url).unwrap()).prefer_socket(false);
    // Its sessions stay in the server's time zone.
    let pooled = MysqlStore::options().open_pool(Pool::new(opts)).unwrap();
    for (n, edge) in EDGES.into_iter().enumerate() {
        let at = |server: &mut Server, minutes: i64| {
            let since = Duration::from_secs(edge.checked_add_signed(minutes * 60).unwrap());
            server.set_clock(since);
            (since, Instant::now())
        };
        for minutes in [-61, -31, -1, 0, 1, 29, 59, 61, 121] {
            let (since, set) = at(&mut server, minutes);
            is_right(&own, since, set).await;
            is_right(&pooled, since, set).await;
        }
        for (m, store) in [&own, &pooled].into_iter().enumerate() {
            // Two hours, from half an hour before.
            at(&mut server, -30);
            let held = take(store, &format!("{n} {m}")).await;
            for minutes in [-1, 1, 29, 31, 59, 61, 89] {
                at(&mut server, minutes);
                let refused = store.claim(&new_claim(held.name.as_str()), LONG).await.unwrap();
                assert_eq!(refused, ClaimAnswer::Held, "{minutes} min");
            }
            let renewed = store.renew(&held.name, &held.holder, TTL, LONG).await.unwrap();
            assert!(matches!(renewed, RenewAnswer::Renewed(_)));
            at(&mut server, 89 + 119);
            assert_eq!(store.claim(&new_claim(held.name.as_str()), LONG).await.unwrap(), ClaimAnswer::Held);
            at(&mut server, 89 + 121);
            assert_eq!(store.renew(&held.name, &held.holder, TTL, LONG).await.unwrap(), RenewAnswer::Lost);
            granted(store.claim(&new_claim(held.name.as_str()), LONG).await);
        }
    }
}
