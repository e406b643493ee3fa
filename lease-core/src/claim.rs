//! A claim in flight: never cancelled, and never forgotten while it may still be granted.
//!
//! It runs as a task of its own on the runtime that renews, so a caller that goes away leaves it to
//! end by itself: a grant that nobody waits for is given back. A claim whose answer never came may
//! be granted by the database later (a ghost): its token is released again and again until one
//! release finds it, or a ttl has passed, after which such a grant would expire by itself.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::client::{Client, Open};
use crate::clock::{Moment, sleep_until, timeout_at};
use crate::driver::{self, Command};
use crate::error::{Effect, Error, ErrorKind, StoreError};
use crate::lease::no_answer;
use crate::renewal::Renewal;
use crate::state::LeaseState;
use crate::store::{Claim, ClaimAnswer, ReleaseAnswer};
use crate::{Holder, Lease, LeaseName, ManualLease, Term};

/// A lease in the making: how it will be renewed.
pub(crate) trait Handle: Send + 'static {
    fn of(state: Arc<LeaseState>, client: Arc<Client>) -> Self;
    fn renewal(client: &Client, claim_started: Moment) -> Option<Renewal>;
}

impl Handle for Lease {
    fn of(state: Arc<LeaseState>, client: Arc<Client>) -> Self {
        Self::new(state, client)
    }

    fn renewal(client: &Client, claim_started: Moment) -> Option<Renewal> {
        Some(Renewal::new(&client.setup.timings, claim_started))
    }
}

impl Handle for ManualLease {
    fn of(state: Arc<LeaseState>, client: Arc<Client>) -> Self {
        Self::new(state, client)
    }

    fn renewal(_: &Client, _: Moment) -> Option<Renewal> {
        None
    }
}

/// Claims a name once. `None`: it is held.
pub(crate) async fn claim<H: Handle>(client: &Arc<Client>, name: LeaseName) -> Result<Option<H>, Error> {
    if client.is_shutting_down() {
        return Err(closed(&name));
    }
    let holder = Holder::mint().map_err(|error| {
        Error::own(ErrorKind::Other, format!("cannot mint a holder token for lease {name:?}: {error}"))
    })?;
    let (reply, answer) = oneshot::channel();
    let task = in_flight(Arc::clone(client), name.clone(), holder, reply, client.open());
    driver::in_background(&client.runtime, task);
    answer.await.unwrap_or_else(|_| {
        Err(Error::own(
            ErrorKind::Runtime,
            format!("cannot claim lease {name:?}: the runtime that renews has shut down"),
        ))
    })
}

pub(crate) fn closed(name: &LeaseName) -> Error {
    Error::own(ErrorKind::Closed, format!("cannot claim lease {name:?}: Leases is shutting down"))
}

type Reply<H> = oneshot::Sender<Result<Option<H>, Error>>;

async fn in_flight<H: Handle>(
    client: Arc<Client>,
    name: LeaseName,
    holder: Holder,
    reply: Reply<H>,
    open: Open,
) {
    // The caller went away before anything was sent.
    if reply.is_closed() {
        return;
    }
    let (clock, timings) = (Arc::clone(&client.setup.clock), client.setup.timings);
    let claim = Claim { name: name.clone(), holder, ttl: timings.ttl(), instance: client.instance.clone() };
    let started = clock.now();
    let store = Arc::clone(&client.store);
    let mut asking = pin!(store.claim(&claim, timings.attempt()));
    let failed = |error| client.store_error("claim lease", &name, error);

    match timeout_at(&clock, started + timings.attempt(), asking.as_mut()).await {
        Some(Ok(ClaimAnswer::Granted(term))) => {
            let lease = granted::<H>(&client, (name, holder, term), started, open);
            // Refused when the caller has gone: the lease is dropped here, and so given back.
            drop(reply.send(Ok(Some(lease))));
        }
        Some(Ok(ClaimAnswer::Held)) => drop(reply.send(Ok(None))),
        Some(Err(error)) => {
            let effect = error.effect();
            drop(reply.send(Err(failed(error))));
            if effect == Effect::Unknown {
                release_ghost(&client, &name, &holder, None).await;
            }
        }
        None => {
            drop(reply.send(Err(failed(no_answer()))));
            release_ghost(&client, &name, &holder, Some(asking)).await;
        }
    }
}

fn granted<H: Handle>(
    client: &Arc<Client>,
    (name, holder, term): (LeaseName, Holder, Term),
    started: Moment,
    open: Open,
) -> H {
    tracing::info!(lease = %name, term = %term, "claimed");
    let state = LeaseState::new(client.next_id(), (name, holder, term), Arc::clone(&client.setup), started);
    client.send(Command::Add(Arc::clone(&state), H::renewal(client, started), open));
    H::of(state, Arc::clone(client))
}

type Asking<'a> = Pin<&'a mut (dyn Future<Output = Result<ClaimAnswer, StoreError>> + Send + 'a)>;

/// Releases the token of a claim with unknown outcome. `asking` is the claim itself when it has not
/// answered yet: it goes on, for a cancelled client does not cancel what the server is doing.
async fn release_ghost(client: &Client, name: &LeaseName, holder: &Holder, mut asking: Option<Asking<'_>>) {
    let (clock, timings) = (&client.setup.clock, &client.setup.timings);
    let until = clock.now() + timings.ttl();
    loop {
        let started = clock.now();
        let release = client.store.release(name, holder, timings.attempt());
        match timeout_at(clock, started + timings.attempt(), release).await {
            Some(Ok(ReleaseAnswer::Released)) => return,
            // Not granted so far; it may be still.
            Some(Ok(ReleaseAnswer::Gone)) => {}
            Some(Err(error)) => {
                tracing::debug!(lease = %name, %error, "cannot release a claim of unknown outcome");
            }
            None => tracing::debug!(lease = %name, "no answer to the release of a claim of unknown outcome"),
        }
        let again = clock.now().max(started + timings.retry_interval());
        if again >= until {
            return;
        }
        let answered = if let Some(claim) = &mut asking {
            timeout_at(clock, again, claim.as_mut()).await
        } else {
            sleep_until(clock, again).await;
            None
        };
        match answered {
            None => {}
            Some(Ok(ClaimAnswer::Held)) => return,
            Some(Err(error)) if error.effect() == Effect::None => return,
            Some(Ok(ClaimAnswer::Granted(_)) | Err(_)) => asking = None,
        }
    }
}
