//! What a guarded transaction costs on the wire.

use lease_core::Tenure;
use lease_testkit::Proxy;

use crate::support::{Scene, is_lost, proxied};

struct Counted {
    scene: Scene,
    held: crate::support::Holding,
    proxy: Proxy,
    url: String,
}

/// The store's own connections do not lead through the proxy.
async fn counted() -> Counted {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let (proxy, url) = proxied(&scene.url);
    Counted { scene, held, proxy, url }
}

impl Counted {
    fn tenure(&self) -> &Tenure {
        &self.held.tenure
    }
}

#[tokio::test]
async fn a_guarded_transaction_costs_the_round_trips_of_a_plain_one() {
    let counted = counted().await;
    let (scene, proxy) = (&counted.scene, &counted.proxy);
    let client = scene.client_at(&counted.url).await;
    proxy.reset();
    client.batch_execute("BEGIN").await.unwrap();
    client.batch_execute(&scene.insert(1)).await.unwrap();
    client.batch_execute("COMMIT").await.unwrap();
    let plain = proxy.trips();
    proxy.reset();
    let tx = scene.store.guard(counted.tenure()).begin(client).await.unwrap();
    assert_eq!(proxy.trips(), 1);
    tx.batch_execute(&scene.insert(2)).await.unwrap();
    let client = tx.commit().await.unwrap();
    assert_eq!((plain, proxy.trips()), (3, 3));
    proxy.reset();
    let tx = scene.store.guard(counted.tenure()).begin(client).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(proxy.trips(), 2);
}

#[tokio::test]
async fn a_beginning_that_finds_the_lease_lost_costs_one_more_for_its_rollback() {
    let counted = counted().await;
    let client = counted.scene.client_at(&counted.url).await;
    counted.scene.expire("a").await;
    counted.proxy.reset();
    is_lost(counted.scene.store.guard(counted.tenure()).begin(client).await);
    assert_eq!(counted.proxy.trips(), 2);
}
