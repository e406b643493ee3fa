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

use crate::attempt::{attempt, caught, no_answer};
use crate::client::{Client, Open};
use crate::clock::{Moment, sleep_until, timeout_at};
use crate::driver::{self, Command};
use crate::error::{Effect, Error, ErrorKind, StoreError};
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
    // Counted before the look, so that a close which this look does not see waits for the claim.
    let open = client.open();
    if client.is_shutting_down() {
        return Err(closed(&name));
    }
    let holder = Holder::mint().map_err(|error| {
        Error::own(ErrorKind::Other, format!("cannot mint a holder token for lease {name:?}: {error}"))
    })?;
    let (reply, answer) = oneshot::channel();
    let task = in_flight(Arc::clone(client), name.clone(), holder, reply, open);
    driver::in_background(&client.runtime, task);
    answer.await.unwrap_or_else(|_| Err(no_driver(&name)))
}

fn no_driver(name: &LeaseName) -> Error {
    let message = format!("cannot claim lease {name:?}: the runtime that renews has shut down");
    Error::own(ErrorKind::Runtime, message)
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
    let mut asking = pin!(caught(store.claim(&claim, timings.attempt())));
    let failed = |error| client.store_error("claim lease", &name, error);

    match timeout_at(&clock, started + timings.attempt(), asking.as_mut()).await {
        Some(Ok(ClaimAnswer::Granted(term))) => {
            let lease = granted::<H>(&client, (name.clone(), holder, term), started, open);
            // Refused when the caller has gone: the lease is dropped here, and so given back.
            drop(reply.send(lease.map(Some).ok_or_else(|| no_driver(&name))));
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
) -> Option<H> {
    tracing::info!(lease = %name, term = %term, "claimed");
    let state = LeaseState::new(client.next_id(), (name, holder, term), Arc::clone(&client.setup), started);
    let add = Command::Add(Arc::clone(&state), H::renewal(client, started), open);
    // None is handed out that nobody would renew; this one expires.
    client.send(add).then(|| H::of(state, Arc::clone(client)))
}

type Asking<'a> = Pin<&'a mut (dyn Future<Output = Result<ClaimAnswer, StoreError>> + Send + 'a)>;

/// Releases the token of a claim with unknown outcome. `asking` is the claim itself when it has not
/// answered yet: it goes on meanwhile, for a cancelled client does not cancel what the server is doing.
async fn release_ghost(client: &Client, name: &LeaseName, holder: &Holder, mut asking: Option<Asking<'_>>) {
    let (clock, timings) = (&client.setup.clock, &client.setup.timings);
    let until = clock.now() + timings.ttl();
    loop {
        let started = clock.now();
        let release = client.store.release(name, holder, timings.attempt());
        let mut release = pin!(attempt(clock, started + timings.attempt(), release));
        let (released, late) = beside(&mut asking, release.as_mut()).await;
        match released {
            Ok(ReleaseAnswer::Released) => break,
            // Not granted so far; it may be still.
            Ok(ReleaseAnswer::Gone) => {}
            Err(error) => {
                tracing::debug!(lease = %name, %error, "cannot release a claim of unknown outcome");
            }
        }
        let again = clock.now().max(started + timings.retry_interval());
        if surely_not_granted(late.as_ref()) || again >= until {
            break;
        }
        // A grant that has come to light is released at once, everything else at its time.
        if !matches!(late, Some(Ok(ClaimAnswer::Granted(_)))) {
            let answered = match &mut asking {
                Some(claim) => timeout_at(clock, again, claim.as_mut()).await,
                None => None,
            };
            match answered {
                Some(answer) => {
                    asking = None;
                    if surely_not_granted(Some(&answer)) {
                        break;
                    }
                }
                None => sleep_until(clock, again).await,
            }
        }
    }
    // A claim that has been found out is let come to its end.
    if let Some(claim) = asking {
        drop(timeout_at(clock, until, claim).await);
    }
}

/// Waits for `future` while the claim goes on. The second answer is the claim's, if it came meanwhile.
async fn beside<T>(
    asking: &mut Option<Asking<'_>>,
    mut future: impl Future<Output = T> + Unpin,
) -> (T, Option<Result<ClaimAnswer, StoreError>>) {
    let mut late = None;
    loop {
        let Some(claim) = asking else { return (future.await, late) };
        tokio::select! {
            biased;
            answer = claim.as_mut() => {
                late = Some(answer);
                *asking = None;
            }
            done = &mut future => return (done, late),
        }
    }
}

fn surely_not_granted(answer: Option<&Result<ClaimAnswer, StoreError>>) -> bool {
    match answer {
        Some(Ok(ClaimAnswer::Held)) => true,
        Some(Err(error)) => error.effect() == Effect::None,
        Some(Ok(ClaimAnswer::Granted(_))) | None => false,
    }
}
