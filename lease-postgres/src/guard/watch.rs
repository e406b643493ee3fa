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
    let question = Question::new(sql::END_GUARDED.to_owned(), [transaction.to_string().as_str().into()]);
    let rows = store.ask(Lane::Holder, Repeat::Always, within, question).await?;
    Ok(rows.is_empty())
}
