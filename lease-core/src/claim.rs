//! A claim in flight, of a name alone or of an instant with it: never cancelled, and never forgotten while
//! it may still be granted.
//!
//! It runs as a task of its own on the runtime that renews, so a caller that goes away leaves it to
//! end by itself: a grant that nobody waits for is given back. A claim whose answer never came may
//! be granted by the database later (a ghost): its token is released again and again until one
//! release finds it, or a ttl has passed, after which such a grant would expire by itself.

use std::borrow::Cow;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::attempt::{attempt, caught, no_answer};
use crate::client::{Client, Open};
use crate::clock::{Moment, sleep_until, timeout_at};
use crate::driver::{self, Command};
use crate::error::{Effect, Error, ErrorKind, StoreError};
use crate::give_back::announce;
use crate::meter::Told;
use crate::renewal::Renewal;
use crate::state::LeaseState;
use crate::store::{
    Claim, ClaimAnswer, ConditionalAnswer, Observed, ReleaseAnswer, SlotAnswer, Superseded, UnfinishedSlot,
};
use crate::{Holder, Lease, LeaseName, LeaseStore, ManualLease, Slot, Term};

/// What is claimed together with the name.
#[derive(Debug, Clone)]
pub(crate) enum Wanted {
    /// The name alone.
    Name,
    /// The name alone, from a holder that is proven dead, if the row is as it was judged.
    Observed(Observed),
    /// An instant of a schedule.
    Slot(Slot),
    /// The rerun of a round that was cut short.
    Rerun(UnfinishedSlot),
}

/// The answer to a claim: of the store with the term, of [`claim`] with the lease.
pub(crate) enum Answer<L> {
    Granted {
        lease: L,
        /// The instant given up for the one claimed.
        superseded: Option<Superseded>,
    },
    Refused(Refused),
}

/// Why a claim was not granted.
pub(crate) enum Refused {
    /// The name is held; of a rerun: something has moved since it was seen.
    Held,
    /// The instant, or a later one, has been claimed or skipped already.
    Passed,
    /// The instant comes in this long.
    NotYet(Duration),
}

impl Wanted {
    /// The claim, as a message names it.
    fn asked(&self) -> Cow<'static, str> {
        match self {
            Self::Name | Self::Observed(_) => "claim lease".into(),
            Self::Slot(slot) => format!("claim slot {slot} of lease").into(),
            Self::Rerun(UnfinishedSlot { slot, .. }) => {
                format!("claim the rerun of slot {slot} of lease").into()
            }
        }
    }

    /// The instant, if the claim is that of a round.
    fn slot(&self) -> Option<Slot> {
        match self {
            Self::Name | Self::Observed(_) => None,
            Self::Slot(slot) | Self::Rerun(UnfinishedSlot { slot, .. }) => Some(*slot),
        }
    }
}

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

/// Claims a name once.
pub(crate) async fn claim<H: Handle>(
    client: &Arc<Client>,
    name: LeaseName,
    wanted: Wanted,
) -> Result<Answer<H>, Error> {
    // Counted before the look, so that a close which this look does not see waits for the claim.
    let open = client.open();
    if client.is_shutting_down() {
        return Err(closed(&name));
    }
    let holder = client.setup.randomness.mint().map_err(|error| {
        Error::own(ErrorKind::Other, format!("cannot mint a holder token for lease {name:?}: {error}"))
    })?;
    let (reply, answer) = oneshot::channel();
    let task = in_flight(Arc::clone(client), (name.clone(), holder), wanted, reply, open);
    driver::in_background(&client.runtime, task);
    answer.await.unwrap_or_else(|_| Err(no_driver(&name)))
}

fn no_driver(name: &LeaseName) -> Error {
    let message = format!("cannot claim lease {name:?}: the runtime that renews has shut down");
    Error::own(ErrorKind::Runtime, message)
}

pub(crate) fn closed(name: &LeaseName) -> Error {
    Error::own(ErrorKind::Closed, format!("nothing more is asked of lease {name:?}: Leases is shutting down"))
}

type Reply<H> = oneshot::Sender<Result<Answer<H>, Error>>;

async fn in_flight<H: Handle>(
    client: Arc<Client>,
    (name, holder): (LeaseName, Holder),
    wanted: Wanted,
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
    let meter = &client.setup.meter;
    meter.tell(|| Told::Wanted(name.clone()));
    let mut asking = pin!(caught(ask(&*store, &claim, &wanted, timings.attempt())));
    let failed = |error| client.store_error(wanted.asked(), &name, error);

    let answer = timeout_at(&clock, started + timings.attempt(), asking.as_mut()).await;
    let took = clock.now().since(started);
    meter.tell(|| Told::Claim { name: name.clone(), answer: word(answer.as_ref()), took });
    match answer {
        Some(Ok(Answer::Granted { lease: term, superseded })) => {
            if matches!(wanted, Wanted::Observed(_)) {
                meter.tell(|| Told::TakenOver(name.clone()));
            }
            let slot = wanted.slot();
            tracing::info!(lease = %name, term = %term, slot = slot.map(tracing::field::display), "claimed");
            let state = LeaseState::new(
                client.next_id(),
                (name.clone(), holder, term),
                slot.is_some(),
                Arc::clone(&client.setup),
                started,
            );
            let lease = handed_out::<H>(&client, state, started, open);
            let answer = lease.map(|lease| Answer::Granted { lease, superseded });
            // Refused when the caller has gone: the lease is dropped here, and so given back.
            drop(reply.send(answer.ok_or_else(|| no_driver(&name))));
        }
        Some(Ok(Answer::Refused(refused))) => drop(reply.send(Ok(Answer::Refused(refused)))),
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

/// The answer as a figure names it.
fn word(answer: Option<&Result<Answer<Term>, StoreError>>) -> &'static str {
    match answer {
        Some(Ok(Answer::Granted { .. })) => "granted",
        Some(Ok(Answer::Refused(Refused::Held))) => "held",
        Some(Ok(Answer::Refused(Refused::Passed))) => "passed",
        Some(Ok(Answer::Refused(Refused::NotYet(_)))) => "not_yet",
        Some(Err(_)) | None => "failed",
    }
}

/// Asks the store for what is wanted.
async fn ask(
    store: &dyn LeaseStore,
    claim: &Claim,
    wanted: &Wanted,
    within: Duration,
) -> Result<Answer<Term>, StoreError> {
    let granted = |term| Answer::Granted { lease: term, superseded: None };
    let conditional = |answer| match answer {
        ConditionalAnswer::Granted(term) => granted(term),
        ConditionalAnswer::Moved => Answer::Refused(Refused::Held),
    };
    Ok(match wanted {
        Wanted::Name => match store.claim(claim, within).await? {
            ClaimAnswer::Granted(term) => granted(term),
            ClaimAnswer::Held => Answer::Refused(Refused::Held),
        },
        Wanted::Observed(observed) => conditional(store.claim_observed(claim, observed, within).await?),
        Wanted::Slot(slot) => match store.claim_slot(claim, *slot, within).await? {
            SlotAnswer::Granted { term, superseded } => Answer::Granted { lease: term, superseded },
            SlotAnswer::Held => Answer::Refused(Refused::Held),
            SlotAnswer::Passed => Answer::Refused(Refused::Passed),
            SlotAnswer::NotYet(wait) => Answer::Refused(Refused::NotYet(wait)),
        },
        Wanted::Rerun(unfinished) => conditional(store.claim_rerun(claim, unfinished, within).await?),
    })
}

/// `None`: there is nobody to renew it.
fn handed_out<H: Handle>(
    client: &Arc<Client>,
    state: Arc<LeaseState>,
    started: Moment,
    open: Open,
) -> Option<H> {
    let add = Command::Add(Arc::clone(&state), H::renewal(client, started), open);
    // This one expires.
    client.send(add).then(|| H::of(state, Arc::clone(client)))
}

type Asking<'a> = Pin<&'a mut (dyn Future<Output = Result<Answer<Term>, StoreError>> + Send + 'a)>;

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
            Ok(ReleaseAnswer::Released) => {
                announce(&*client.store, &client.setup, name).await;
                break;
            }
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
        if !matches!(late, Some(Ok(Answer::Granted { .. }))) {
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
) -> (T, Option<Result<Answer<Term>, StoreError>>) {
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

fn surely_not_granted(answer: Option<&Result<Answer<Term>, StoreError>>) -> bool {
    match answer {
        Some(Ok(Answer::Refused(_))) => true,
        Some(Err(error)) => error.effect() == Effect::None,
        Some(Ok(Answer::Granted { .. })) | None => false,
    }
}
