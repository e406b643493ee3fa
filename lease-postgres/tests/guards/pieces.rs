//! The statements alone, over the driver.

use lease_core::store::ClaimAnswer;
use tokio_postgres::Client;

use crate::support::Scene;

async fn verified(client: &Client, fence: &lease_postgres::Fence) -> Option<i64> {
    let [name, holder] = fence.parameters();
    let row = client.query_opt(fence.verify(), &[&name, &holder]).await.unwrap()?;
    Some(row.get(0))
}

#[tokio::test]
async fn the_pieces_keep_the_promise_over_another_client() {
    let scene = Scene::new().await;
    let held = scene.hold("it's a").await;
    let fence = scene.store.fence(&held.tenure);
    let client = scene.client().await;
    client.batch_execute("BEGIN").await.unwrap();
    assert_eq!(verified(&client, &fence).await, Some(held.lease.term().get()));
    client.batch_execute(fence.bounds()).await.unwrap();
    let row = client.query_one("SHOW idle_in_transaction_session_timeout", &[]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), "1h");
    client.batch_execute(&scene.insert(1)).await.unwrap();
    scene.run(&format!("UPDATE {} SET expires_at_ms = 1", scene.table)).await;
    assert_eq!(scene.claim("it's a").await, ClaimAnswer::Held);
    client.batch_execute("COMMIT").await.unwrap();
    client.batch_execute("BEGIN").await.unwrap();
    assert_eq!(verified(&client, &fence).await, None, "an expired lease");
    client.batch_execute("ROLLBACK").await.unwrap();
    scene.succeed("it's a").await;
    client.batch_execute("BEGIN").await.unwrap();
    assert_eq!(verified(&client, &fence).await, None, "a successor's lease");
    assert_eq!(scene.rows().await, [1]);
}
