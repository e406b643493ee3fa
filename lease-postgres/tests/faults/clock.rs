//! The server's clock over the edges of daylight saving time, on a server in Berlin.

use std::time::{Duration, Instant};

use lease_core::LeaseStore;
use lease_core::store::{Claim, ClaimAnswer, RenewAnswer, VerifyAnswer};
use test_servers::{Product, Server, Setup};

use crate::support::{LONG, Sandbox, granted, name, new_claim};

/// 2026-03-29 02:00 (02:00 becomes 03:00) and 2026-10-25 03:00 (03:00 becomes 02:00), local time; both 01:00 UTC.
const EDGES: [u64; 2] = [1_774_746_000, 1_792_890_000];

const HOUR: u64 = 3_600;

#[tokio::test]
async fn over_both_edges_the_clock_is_right_no_live_lease_is_lost_and_none_stranded() {
    let setup = Setup { stepped_clock: true, ..Setup::default() };
    let mut server = Server::start(Product::Postgres, setup);
    assert_eq!(server.ask("SHOW TimeZone").as_deref(), Some("Europe/Berlin"));
    server.set_clock(Duration::from_secs(EDGES[0] - 2 * HOUR));
    let sandbox = Sandbox::on(&server.url()).await;
    let store = sandbox.store();
    for edge in EDGES {
        server.set_clock(Duration::from_secs(edge - 2 * HOUR));
        let (long, short) = (claim("long", 5 * HOUR), claim("short", HOUR + HOUR / 2));
        for claim in [&long, &short] {
            granted(store.claim(claim, LONG).await);
        }
        // Every half hour from before the first of the two hours to after the second, and the edge itself.
        for (seconds, short_is_live) in [
            (edge - HOUR, true),
            (edge - HOUR / 2 - 60, true),
            (edge - HOUR / 2 + 60, false),
            (edge - 1, false),
            (edge + 1, false),
            (edge + HOUR / 2, false),
            (edge + HOUR + 1, false),
        ] {
            server.set_clock(Duration::from_secs(seconds));
            let began = Instant::now();
            let now = store.inspect(&long.name, LONG).await.unwrap().now.as_millis();
            let since = now - i64::try_from(seconds).unwrap() * 1_000;
            let latest = i64::try_from(began.elapsed().as_millis()).unwrap() + 1_000;
            assert!((-1_000..=latest).contains(&since), "{seconds}: off by {since} ms");
            let held = store.verify(&long.name, &long.holder, LONG).await.unwrap();
            assert!(matches!(held, VerifyAnswer::Held(_)), "{seconds}");
            let renewed = store.renew(&long.name, &long.holder, long.ttl, LONG).await.unwrap();
            assert!(matches!(renewed, RenewAnswer::Renewed(_)), "{seconds}");
            let other = store.claim(&claim("long", HOUR), LONG).await.unwrap();
            assert_eq!(other, ClaimAnswer::Held, "{seconds}");
            let held = store.verify(&short.name, &short.holder, LONG).await.unwrap();
            assert_eq!(matches!(held, VerifyAnswer::Held(_)), short_is_live, "{seconds}");
        }
        // What has expired can be had.
        granted(store.claim(&claim("short", HOUR), LONG).await);
        server.set_clock(Duration::from_secs(edge + 20 * HOUR));
        for free in ["long", "short"] {
            let freed = claim(free, HOUR);
            granted(store.claim(&freed, LONG).await);
            store.release(&name(free), &freed.holder, LONG).await.unwrap();
        }
    }
}

fn claim(text: &str, seconds: u64) -> Claim {
    Claim { ttl: Duration::from_secs(seconds), ..new_claim(text) }
}
