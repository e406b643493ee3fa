//! The store's side of a guarded transaction: its session is ended from outside when its lease is lost or its guard was dropped.

use std::pin::pin;
use std::time::Duration;

use lease_core::ErrorKind;
use lease_core::clock::sleep_until;
use lease_core::guard::{MustEnd, Watcher};
use lease_core::store::StoreError;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};

use crate::MysqlStore;
use crate::error::{Failure, is_gone, of_opening};
use crate::sql;

/// How often the session is looked for: more and more seldom.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Runs where the store's statements run, which the program's threads do not block.
///
/// The tenure goes when the session has, so that the name is not given back while the session works, and its locks keep no successor
/// waiting; after a loss within half of the grace, for a server out of reach is no work that runs on.
pub(super) async fn watch(
    store: MysqlStore,
    there: Option<Opts>,
    watcher: Watcher,
    mark: String,
    patience: Duration,
) {
    let Some(why) = watcher.must_end().await else { return };
    let (lease, within) = (watcher.tenure().name().clone(), watcher.tenure().timings().attempt());
    match why {
        MustEnd::Lost(_) => {
            tracing::warn!(%lease, "ending the session of a guarded transaction whose lease is lost");
        }
        MustEnd::Abandoned => {
            tracing::debug!(%lease, "ending the session of a guarded transaction that was dropped");
        }
    }
    let lost = watcher.tenure().clone();
    let mut ending = pin!(async {
        let clock = store.clock();
        let give_up = clock.now() + patience.min(A_YEAR);
        let (mut pause, mut told) = (FIRST_PAUSE, false);
        loop {
            let ended = match &there {
                None => store.end_guarded(&mark, within).await,
                Some(opts) => store.limit(within).bound(end_there(opts, &mark)).await,
            };
            match ended {
                Ok(true) => return,
                Err(error) if !told => {
                    told = true;
                    let advice = if error.kind() == ErrorKind::Denied {
                        "it is another user's; the server's own bounds will"
                    } else {
                        "asking again"
                    };
                    tracing::warn!(%lease, %error, "the session of a guarded transaction cannot be ended: {advice}");
                }
                Ok(false) | Err(_) => {}
            }
            if clock.now() >= give_up {
                tracing::warn!(%lease, "the session of a guarded transaction has not ended by the server's own bounds");
                return;
            }
            sleep_until(clock, clock.now() + pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    });
    let (clock, grace) = (store.clock(), lost.timings().grace());
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

/// As good as ever, and can be added to any clock.
const A_YEAR: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Ends the session on a server that the store does not know, and says whether there was none.
async fn end_there(opts: &Opts, mark: &str) -> Result<bool, StoreError> {
    let with_tls = opts.ssl_opts().is_some();
    let mut conn = Conn::new(opts.clone()).await.map_err(|error| of_opening(error, with_tls))?;
    let killed = conn.query_drop(sql::end_guarded(mark)).await;
    drop(conn.disconnect().await);
    is_gone(killed.map_err(|error| Failure::from(error).into()))
}
