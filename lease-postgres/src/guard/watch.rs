//! The store's side of a guarded transaction: its session is ended from outside when its lease is lost or its guard was dropped.

use std::pin::pin;
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
pub(super) fn spawn(
    store: &PostgresStore,
    watcher: Watcher,
    transaction: Transaction,
    patience: Option<Duration>,
) {
    let watching = Box::pin(watch(store.clone(), watcher, transaction, patience));
    store.spawn(watching);
}

/// The tenure goes when the session has, so that the name is not given back while the session works; after a loss within half of the
/// grace, for a server out of reach is no work that runs on. Without a patience nobody else will end the session.
async fn watch(store: PostgresStore, watcher: Watcher, transaction: Transaction, patience: Option<Duration>) {
    let Some(why) = watcher.must_end().await else { return };
    let (lease, attempt) = (watcher.tenure().name().clone(), watcher.tenure().timings().attempt());
    match why {
        MustEnd::Lost(_) => {
            tracing::warn!(%lease, "ending the session of a guarded transaction whose lease is lost");
        }
        MustEnd::Abandoned => {
            tracing::debug!(%lease, "ending the session of a guarded transaction that was dropped");
        }
    }
    let clock = store.clock();
    let limit = patience.map(|patience| store.limit(patience));
    let mut ending = pin!(async {
        let (mut pause, mut told, mut denied) = (FIRST_PAUSE, false, false);
        loop {
            // What was denied would be again, each time with a line in the server's log.
            let sql = if denied { sql::find_guarded() } else { sql::end_guarded() };
            match look(&store, sql, transaction, attempt).await {
                Ok(true) => return,
                Err(error) if !told => {
                    told = true;
                    denied = error.kind() == ErrorKind::Denied;
                    let advice = if denied {
                        "it is another role's; until the server's own bounds end it no successor can claim"
                    } else {
                        "asking again"
                    };
                    tracing::warn!(%lease, %error, "the session of a guarded transaction cannot be ended: {advice}");
                }
                Err(error) => denied |= error.kind() == ErrorKind::Denied,
                Ok(false) => {}
            }
            if limit.as_ref().is_some_and(|limit| limit.left().is_zero()) {
                tracing::warn!(%lease, "the session of a guarded transaction has not ended by the server's own bounds");
                return;
            }
            sleep_until(clock, clock.now() + pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    });
    let (lost, grace) = (watcher.tenure().clone(), watcher.tenure().timings().grace());
    let long_lost = async {
        lost.lost().await;
        sleep_until(clock, clock.now() + grace / 2).await;
    };
    tokio::select! {
        biased;
        () = &mut ending => return,
        () = long_lost => {}
    }
    drop((watcher, lost));
    ending.await;
}

/// Ends the session that has the transaction, or looks for it, and says whether there was none.
async fn look(
    store: &PostgresStore,
    sql: String,
    transaction: Transaction,
    within: Duration,
) -> Result<bool, StoreError> {
    let [number, pid, server_start] = transaction.values();
    let question = Question::seldom(sql, [number, pid, server_start]);
    let rows = store.ask(Lane::Holder, Repeat::Always, within, question).await?;
    Ok(rows.is_empty())
}

#[cfg(test)]
mod tests {
    use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(120);

    async fn transaction_of(client: &Client) -> Transaction {
        client.batch_execute("SET lease.lock_timeout = 0").await.unwrap();
        let messages = client.simple_query(&sql::unfenced()).await.unwrap();
        let row = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        Transaction::read(row.unwrap()).unwrap()
    }

    async fn end(store: &PostgresStore, transaction: Transaction) -> bool {
        look(store, sql::end_guarded(), transaction, PATIENCE).await.unwrap()
    }

    #[tokio::test]
    async fn only_the_very_transaction_in_its_very_process_and_server_is_ended() {
        let url = test_servers::shared(test_servers::Product::Postgres);
        let store = PostgresStore::open(&url).unwrap();
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        client.batch_execute("BEGIN").await.unwrap();
        let transaction = transaction_of(&client).await;
        assert!(end(&store, Transaction { pid: transaction.pid + 1, ..transaction }).await);
        assert!(end(&store, Transaction { server_start: transaction.server_start - 1, ..transaction }).await);
        client.batch_execute("COMMIT; BEGIN").await.unwrap();
        let another = transaction_of(&client).await;
        assert!(end(&store, transaction).await);
        let looked = look(&store, sql::find_guarded(), another, PATIENCE).await.unwrap();
        assert!(!looked, "it is open");
        client.batch_execute("SELECT 1").await.unwrap();
        assert!(!end(&store, another).await);
        assert!(tokio::time::timeout(PATIENCE, connection).await.unwrap().unwrap().is_err());
    }
}
