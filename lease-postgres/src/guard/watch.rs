//! The store's side of a guarded transaction: its session is ended from outside when its lease is lost or its guard was dropped.

use std::time::Duration;

use lease_core::ErrorKind;
use lease_core::clock::sleep_until;
use lease_core::guard::{MustEnd, Watcher};
use lease_core::store::{Repeat, StoreError};

use super::guarded::Transaction;
use crate::PostgresStore;
use crate::connections::Lane;
use crate::row::Question;
use crate::sql;

/// How often the session is looked for: more and more seldom.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Watches where the store's statements run, which the program's threads do not block.
pub(super) fn spawn(store: &PostgresStore, watcher: Watcher, transaction: Transaction, patience: Duration) {
    let watching = Box::pin(watch(store.clone(), watcher, transaction, patience));
    store.spawn(watching);
}

/// The watcher, and with it the tenure, goes when the session has.
async fn watch(store: PostgresStore, watcher: Watcher, transaction: Transaction, patience: Duration) {
    let Some(why) = watcher.must_end().await else { return };
    let lease = watcher.tenure().name();
    match why {
        MustEnd::Lost(_) => {
            tracing::warn!(%lease, "ending the session of a guarded transaction whose lease is lost");
        }
        MustEnd::Abandoned => {
            tracing::debug!(%lease, "ending the session of a guarded transaction that was dropped");
        }
    }
    let clock = store.clock();
    let limit = store.limit(patience);
    let (mut pause, mut told) = (FIRST_PAUSE, false);
    loop {
        match end(&store, transaction, watcher.tenure().timings().attempt()).await {
            Ok(true) => return,
            Err(error) if !told => {
                told = true;
                let advice = if error.kind() == ErrorKind::Denied {
                    "it is another role's; until the server's own bounds end it no successor can claim"
                } else {
                    "asking again"
                };
                tracing::warn!(%lease, %error, "the session of a guarded transaction cannot be ended: {advice}");
            }
            Ok(false) | Err(_) => {}
        }
        if limit.left().is_zero() {
            tracing::warn!(%lease, "the session of a guarded transaction has not ended by the server's own bounds");
            return;
        }
        sleep_until(clock, clock.now() + pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Ends the session that has the transaction, and says whether there was none.
async fn end(store: &PostgresStore, transaction: Transaction, within: Duration) -> Result<bool, StoreError> {
    let values = [transaction.to_string().as_str().into(), transaction.pid.into()];
    let question = Question::new(sql::END_GUARDED.to_owned(), values);
    let rows = store.ask(Lane::Holder, Repeat::Always, within, question).await?;
    Ok(rows.is_empty())
}

#[cfg(test)]
mod tests {
    use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(120);

    async fn transaction_of(client: &Client) -> Transaction {
        let messages = client.simple_query(&sql::unfenced()).await.unwrap();
        let row = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        Transaction::read(row.unwrap()).unwrap()
    }

    #[tokio::test]
    async fn only_the_very_transaction_in_its_very_process_is_ended() {
        let url = test_servers::shared(test_servers::Product::Postgres);
        let store = PostgresStore::open(&url).unwrap();
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        client.batch_execute("BEGIN").await.unwrap();
        let transaction = transaction_of(&client).await;
        let mut elsewhere = transaction;
        elsewhere.pid += 1;
        assert!(end(&store, elsewhere, PATIENCE).await.unwrap());
        client.batch_execute("COMMIT; BEGIN").await.unwrap();
        let another = transaction_of(&client).await;
        assert!(end(&store, transaction, PATIENCE).await.unwrap());
        client.batch_execute("SELECT 1").await.unwrap();
        assert!(!end(&store, another, PATIENCE).await.unwrap());
        assert!(tokio::time::timeout(PATIENCE, connection).await.unwrap().unwrap().is_err());
    }
}
