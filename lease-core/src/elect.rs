//! Waiting for a name, and holding it again and again.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::claim::{Answer, Wanted, claim, closed};
use crate::client::Client;
use crate::clock::{Moment, sleep_until};
use crate::error::{Error, ErrorKind};
use crate::leases::{Claimed, Leases, Refusal};
use crate::meter::Told;
use crate::store::{Hint, Notices, Observed};
use crate::takeover::{Look, Observer, Suspect, claim_past_the_dead};
use crate::{Lease, LeaseName, RunError, Tenure};

/// How many looks at a name hints can lead to ...
const LOOKS_PER_TICK: u32 = 20;

/// ... and the longest that one has to wait for that.
const PACE: Duration = Duration::from_millis(5);

impl Leases {
    /// Claims a name, waiting until it is granted or `within` has passed by the local clock.
    ///
    /// Between two attempts it sleeps until the holder's row expires, or the store hears that the name was given back, and
    /// looks meanwhile: every [`campaign_interval`](crate::Timings::campaign_interval) with up to a fifth more at random, and
    /// where the store hears nothing at least once per [`renew`](crate::Timings::renew) interval. A holder whose row
    /// it has seen unchanged for the row's whole ttl and a margin, on the local clock, is dead whatever the database's clock
    /// says: it would have renewed. The name is taken from it then.
    /// Failures that may pass (the database out of reach, busy, read-only) are waited out as well.
    ///
    /// It can take two attempts longer, and with a [probe](crate::LeasesBuilder::probe) four, when the database is slow to
    /// answer.
    ///
    /// Dropping the future leaves nothing behind: a claim in flight ends by itself, and a grant
    /// that nobody waits for is given back.
    ///
    /// # Errors
    ///
    /// An invalid name; a failure that waiting does not cure; when the time is over, the last
    /// failure; [`ErrorKind::Closed`] once [`shutdown`](Leases::shutdown) is called.
    pub async fn acquire<N>(&self, name: N, within: Duration) -> Result<Claimed, Error>
    where
        N: TryInto<LeaseName>,
        Error: From<N::Error>,
    {
        let name = name.try_into()?;
        let give_up = self.clock().now() + within;
        let asked = self.clock().now();
        let granted = campaign(self.client(), &name, Some(give_up)).await?;
        Ok(match granted {
            Some(lease) => Claimed::Granted(lease),
            None => Claimed::Held(Refusal::new(self.client(), name, asked)),
        })
    }

    /// Leads while it can, again and again, until [`shutdown`](Leases::shutdown): waits for the name
    /// as [`acquire`](Self::acquire) does, runs the work as [`Lease::run`] does, gives the name back,
    /// and stands aside for as long as another candidate may need to come and take it.
    ///
    /// A lost lease ends a round, not the election. Dropping the future is dropping
    /// [`acquire`](Self::acquire) or [`Lease::run`].
    ///
    /// # Errors
    ///
    /// What the work itself returned or panicked with, after the name was given back; or a failure
    /// of the store that waiting does not cure.
    pub async fn elect<N, F, Fut, E>(&self, name: N, work: F) -> Result<(), RunError<(), E>>
    where
        N: TryInto<LeaseName>,
        Error: From<N::Error>,
        F: Fn(Tenure) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Send + 'static,
    {
        let name = name.try_into().map_err(|invalid| RunError::Store(invalid.into()))?;
        let work = Arc::new(work);
        while !self.client().is_shutting_down() {
            let lease = match campaign(self.client(), &name, None).await {
                Ok(Some(lease)) => lease,
                Ok(None) => continue,
                Err(error) if error.kind() == ErrorKind::Closed => break,
                Err(error) => return Err(RunError::Store(error)),
            };
            let work = Arc::clone(&work);
            match lease.run(move |tenure| work(tenure)).await {
                Ok(()) | Err(RunError::Lost { .. }) => {}
                Err(error) => return Err(error),
            }
            // Longer than the longest that another candidate waits between two looks.
            let aside = self.timings().campaign_interval() * 6 / 5 + self.timings().tick();
            let again = self.clock().now() + self.client().with_jitter(aside);
            if pause(self.client(), &name, again).await.is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// Somebody waits for a name, until this is dropped.
struct Waiting<'a> {
    client: &'a Client,
    name: &'a LeaseName,
    since: Moment,
    end: &'static str,
}

impl<'a> Waiting<'a> {
    fn begin(client: &'a Client, name: &'a LeaseName) -> Self {
        client.setup.meter.tell(|| Told::WaitBegins(name.clone()));
        // What a future that is dropped leaves it at.
        Self { client, name, since: client.setup.clock.now(), end: "dropped" }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let (name, end) = (self.name, self.end);
        let took = self.client.setup.clock.now().since(self.since);
        self.client.setup.meter.tell(|| Told::WaitEnds { name: name.clone(), end, took });
    }
}

/// Claims until granted, at the latest at `give_up`. `None`: the name was held to the end.
async fn campaign(
    client: &Arc<Client>,
    name: &LeaseName,
    give_up: Option<Moment>,
) -> Result<Option<Lease>, Error> {
    let mut waiting = Waiting::begin(client, name);
    let outcome = claim_until_granted(client, name, give_up).await;
    waiting.end = match &outcome {
        Ok(Some(_)) => "granted",
        Ok(None) => "held",
        Err(error) if error.kind() == ErrorKind::Closed => "closed",
        Err(_) => "failed",
    };
    outcome
}

async fn claim_until_granted(
    client: &Arc<Client>,
    name: &LeaseName,
    give_up: Option<Moment>,
) -> Result<Option<Lease>, Error> {
    let clock = &client.setup.clock;
    // From before the first claim on, so that no release between a refusal and the wait goes unheard.
    let mut notices = client.store.notices();
    let mut observer = Observer::default();
    let mut wanted = Wanted::Name;
    loop {
        let took = matches!(wanted, Wanted::Observed(_));
        let is_last = give_up.is_some_and(|give_up| clock.now() >= give_up);
        let answer = match wanted {
            // No look follows on this one.
            Wanted::Name if is_last => claim_past_the_dead::<Lease>(client, name.clone(), wanted).await,
            _ => claim(client, name.clone(), wanted).await,
        };
        let answer = match answer {
            Ok(Answer::Granted { lease, .. }) => return Ok(Some(lease)),
            Ok(Answer::Refused(_)) => Ok(None),
            Err(error) if error.retry_helps() => Err(error),
            Err(error) => return Err(error),
        };
        if give_up.is_some_and(|give_up| clock.now() >= give_up) {
            return answer;
        }
        if let Err(error) = &answer {
            tracing::warn!(lease = %name, %error, "claim failed");
        }
        let waiting = async {
            if took {
                // It has moved since it was judged: a holder that lives, or another that took it. Never in a spin.
                sleep_until(clock, clock.now() + client.setup.timings.tick()).await;
            }
            wait(client, name, answer.is_ok(), give_up, &mut notices, &mut observer).await
        };
        wanted = tokio::select! {
            biased;
            () = client.shutting_down() => return Err(closed(name)),
            wanted = waiting => wanted,
        };
    }
}

/// Waits until a name that was refused, or could not be claimed, is worth another claim.
async fn wait(
    client: &Client,
    name: &LeaseName,
    was_refused: bool,
    give_up: Option<Moment>,
    notices: &mut Option<Notices>,
    observer: &mut Observer,
) -> Wanted {
    let (clock, timings) = (&client.setup.clock, &client.setup.timings);
    // Who hears nothing looks as often as the holder renews, so that a name that was given back is taken by then.
    let poll = if notices.is_some() { timings.campaign_interval() } else { timings.renew() * 5 / 6 };
    let mut looked = clock.now();
    let mut suspect = None;
    let mut next = if was_refused {
        match next_look(client, name, observer, &mut suspect).await {
            // Released between the two statements; do not spin if it is being taken.
            Next::Claim => Next::At(looked),
            next => next,
        }
    } else {
        Next::At(looked + client.with_jitter(timings.retry_interval()))
    };
    loop {
        let claim_at = match next {
            Next::Take(dead) => return Wanted::Observed(dead),
            Next::Claim => return Wanted::Name,
            Next::At(at) => at.max(looked + timings.tick()),
        };
        let claim_at = give_up.map_or(claim_at, |give_up| claim_at.min(give_up));
        let look_at = looked + client.with_jitter(poll);
        // Until the next look the process of a holder on this host is looked at, which costs no statement.
        let died = async {
            let Some(suspect) = &suspect else { return std::future::pending().await };
            loop {
                sleep_until(clock, clock.now() + timings.renew() / 2).await;
                if client.judge(suspect).is_some() {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = sleep_until(clock, claim_at) => return Wanted::Name,
            () = sleep_until(clock, look_at) => {}
            // By what row it holds the name now, the look says.
            () = died => {}
            hint = heard(notices, name) => {
                // A busy database may hint all the time, and anybody may say a name that is held.
                let worth_it = looked + (timings.tick() / LOOKS_PER_TICK).min(PACE);
                if hint == Hint::GivenBack && clock.now() >= worth_it {
                    return Wanted::Name;
                }
                sleep_until(clock, worth_it.min(claim_at)).await;
            }
        }
        looked = clock.now();
        next = next_look(client, name, observer, &mut suspect).await;
    }
}

/// Waits until the store has heard that the name may have been given back; for ever where it hears nothing.
async fn heard(notices: &mut Option<Notices>, name: &LeaseName) -> Hint {
    match notices {
        Some(notices) => notices.about(name).await,
        None => std::future::pending().await,
    }
}

/// What a look at a name that somebody holds, or has held, leads to.
enum Next {
    /// It is free.
    Claim,
    /// Its holder is proven dead: the state to take it by.
    Take(Observed),
    /// It expires, or its holder is proven dead, at this moment; or the look has failed.
    At(Moment),
}

/// A look that fails is not worth an error: then the next claim says what is wrong.
async fn next_look(
    client: &Client,
    name: &LeaseName,
    observer: &mut Observer,
    suspect: &mut Option<Suspect>,
) -> Next {
    let timings = &client.setup.timings;
    let sent = client.setup.clock.now();
    let Ok(seen) = client.inspect(name).await else { return Next::At(sent + timings.retry_interval()) };
    let answered = client.setup.clock.now();
    let look = observer.look(&seen, [sent, answered], timings);
    *suspect = client.suspect(&seen);
    if let Some(dead) = suspect.as_ref().and_then(|suspect| client.judge(suspect)) {
        return Next::Take(dead);
    }
    match look {
        Look::Free => Next::Claim,
        Look::Dead(dead) => Next::Take(dead),
        Look::Changed(dead_at) | Look::Unchanged(dead_at) => {
            let left = seen.row.as_ref().map_or(Duration::ZERO, |row| row.expires_at.since(seen.now));
            Next::At(dead_at.min(answered + left))
        }
    }
}

/// Sleeps until `until`; an error as soon as the shutdown is asked for.
pub(crate) async fn pause(client: &Client, name: &LeaseName, until: Moment) -> Result<(), Error> {
    tokio::select! {
        biased;
        () = client.shutting_down() => Err(closed(name)),
        () = sleep_until(&client.setup.clock, until) => Ok(()),
    }
}

impl Client {
    /// A duration and up to a fifth of it more, so that candidates do not stay in step. Without a
    /// random source they do, which is slow but not wrong.
    fn with_jitter(&self, least: Duration) -> Duration {
        least + least.mul_f64(self.setup.randomness.share() / 5.0)
    }
}
