//! What an operator asks of a name: who holds it, to free it when its holder is dead, to have its holder step down.

use std::fmt;
use std::time::Duration;

use crate::elect::pause;
use crate::error::Error;
use crate::sighting::{Sighting, Standing};
use crate::store::{ClearAnswer, Observed, ResignAnswer};
use crate::takeover::{Look, Observer};
use crate::{LeaseName, Leases};

impl Leases {
    /// Looks a name up, with one statement. A name that was never claimed is no error.
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Errors
    ///
    /// An invalid name; a failure of the store.
    pub async fn status<N>(&self, name: N) -> Result<Sighting, Error>
    where
        N: TryInto<LeaseName>,
        Error: From<N::Error>,
    {
        let name = name.try_into()?;
        self.client().look(&name).await
    }

    /// Frees a name whose holder is dead, and answers what it freed; a name that is free already is answered as it is.
    ///
    /// Dead is proven, never supposed: by the [probe](crate::LeasesBuilder::probe), or by a row that nobody has
    /// renewed for its whole ttl and a margin on our own clock, for which this watches it for at most `wait`: not at all
    /// where that proves nothing, and until it expires if that comes first. Nothing forces it. Freed is only the very state
    /// that was judged: a holder that renews before the statement keeps its lease. Slots and the term stay.
    ///
    /// Dropping the future: the name may be freed all the same, now or later, if it is still as it was judged.
    ///
    /// # Errors
    ///
    /// [`ClearError::Live`] for a holder that lives, or may; an invalid name; a failure of the store, after which the
    /// name may be free.
    pub async fn clear<N>(&self, name: N, wait: Duration) -> Result<Sighting, ClearError>
    where
        N: TryInto<LeaseName>,
        Error: From<N::Error>,
    {
        let name = name.try_into().map_err(Error::from)?;
        let (client, clock, timings) = (self.client(), self.clock(), self.timings());
        let give_up = clock.now() + wait;
        let mut observer = Observer::default();
        let mut first = true;
        loop {
            let sent = clock.now();
            let seen = client.inspect(&name).await;
            let now = clock.now();
            let seen = match seen {
                // Whoever has begun to watch does not give up for it.
                Err(error) if !first && error.retry_helps() && now < give_up => {
                    pause(client, &name, now + timings.retry_interval()).await?;
                    continue;
                }
                seen => seen?,
            };
            let look = observer.look(&seen, [sent, now], timings);
            let by_probe = client.proven_dead(&seen);
            let sighting = client.sighting(name.clone(), seen);
            let dead_at = match (look, by_probe) {
                (Look::Free, _) => return Ok(sighting),
                (_, Some(dead)) | (Look::Dead(dead), None) => return self.free(&name, dead, sighting).await,
                // Renewed under our eyes.
                (Look::Changed(_), None) if !first => return Err(ClearError::Live(Box::new(sighting))),
                (Look::Changed(dead_at) | Look::Unchanged(dead_at), None) => dead_at,
            };
            let free_at = dead_at.min(now + sighting.expires_in().unwrap_or_default());
            if free_at > give_up {
                return Err(ClearError::Live(Box::new(sighting)));
            }
            first = false;
            let again = free_at.min(now + timings.campaign_interval());
            pause(client, &name, again.max(now + timings.tick())).await?;
        }
    }

    async fn free(&self, name: &LeaseName, dead: Observed, judged: Sighting) -> Result<Sighting, ClearError> {
        let client = self.client();
        let cleared = client.ask(|store, within| store.clear(name, &dead, within)).await;
        match cleared.map_err(|error| client.store_error("clear lease", name, error))? {
            ClearAnswer::Cleared => {
                client.announce_apart(name.clone());
                Ok(judged)
            }
            ClearAnswer::Moved => match client.look(name).await? {
                live if live.standing() == Standing::Held => Err(ClearError::Live(Box::new(live))),
                // It was given back meanwhile.
                free => Ok(free),
            },
        }
    }

    /// Asks whoever holds a name now to step down: with its next renewal it learns of it, its work is told to stop
    /// ([`Tenure::stopping`](crate::Tenure::stopping)), and under [`elect`](Self::elect) it stands aside for as long as another
    /// candidate may need. Answers who was asked; a free name is answered as it is.
    ///
    /// Dropping the future: it may be asked all the same.
    ///
    /// # Errors
    ///
    /// An invalid name; a failure of the store, after which it may have been asked.
    pub async fn request_step_down<N>(&self, name: N) -> Result<Sighting, Error>
    where
        N: TryInto<LeaseName>,
        Error: From<N::Error>,
    {
        let name = name.try_into()?;
        let client = self.client();
        loop {
            let sighting = client.look(&name).await?;
            let Some(row) = sighting.row().filter(|_| sighting.standing() == Standing::Held) else {
                return Ok(sighting);
            };
            let asked = client.ask(|store, within| store.resign(&name, row.term, within)).await;
            match asked.map_err(|error| client.store_error("ask for the step-down of lease", &name, error))? {
                ResignAnswer::Asked => return Ok(sighting),
                // Another has it now: that one is asked.
                ResignAnswer::Moved => {
                    pause(client, &name, self.clock().now() + self.timings().tick()).await?;
                }
            }
        }
    }
}

/// Why a name was not freed.
#[derive(Debug)]
pub enum ClearError {
    /// Its holder lives, or may: nothing proves it dead.
    Live(Box<Sighting>),
    /// The name is invalid, or the store failed.
    Store(Error),
}

impl From<Error> for ClearError {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl fmt::Display for ClearError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Live(sighting) => {
                write!(
                    f,
                    "{sighting}; it is not cleared: end its process, ask it to step down, or wait until it expires"
                )
            }
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ClearError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Live(_) => None,
            Self::Store(error) => error.source(),
        }
    }
}
