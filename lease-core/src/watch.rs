//! Watching who holds what, without ever claiming.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::client::Client;
use crate::clock::{Moment, sleep_until};
use crate::error::Error;
use crate::sighting::{Sighting, Standing};
use crate::store::{DbTime, Hint, Inspection, Notices, Page};
use crate::{ErrorKind, LeaseName, Leases, Term};

/// The longest between two looks when something was heard meanwhile.
const PACE: Duration = Duration::from_millis(100);

/// Rows read at once.
const PAGE: u32 = 500;

impl Leases {
    /// Watches a name: who holds it now, then every change that is seen. An observer like this never campaigns.
    ///
    /// # Errors
    ///
    /// An invalid name. A database that is away is not an error: see [`Watch::next`].
    pub fn watch<N>(&self, name: N) -> Result<Watch, Error>
    where
        N: TryInto<LeaseName>,
        Error: From<N::Error>,
    {
        Ok(Watch::new(self.client(), Scope::Name(name.try_into()?)))
    }

    /// Watches all names that begin with `prefix`, byte by byte; empty for all there are. Otherwise as [`watch`](Self::watch).
    pub fn watch_all(&self, prefix: &str) -> Watch {
        Watch::new(self.client(), Scope::Prefix(prefix.to_owned()))
    }
}

/// What a [`Watch`] has seen.
#[derive(Debug)]
pub enum Watched {
    /// The name as it is now: another term than before, or the same one held, expired or released.
    Now(Box<Sighting>),
    /// The database cannot be read, which is told once, and again when the kind of the error is another. It is tried
    /// again; what is [`Now`](Self::Now) afterwards is said again, changed or not.
    Away(Error),
}

/// A stream of what becomes of names, by looking again and again: once per [`renew`](crate::Timings::renew) interval,
/// when a row expires, and where the store hears of releases at once, though not more often than every
/// [`tick`](crate::Timings::tick) or 100 ms, whichever is less.
///
/// Of one name nothing is told out of order, and nothing that was not so when it was looked at. Changes between two
/// looks are told as the last of them: a term that came and went between them is not seen, and a renewal is no
/// change. The last state is always told.
pub struct Watch {
    client: Arc<Client>,
    scope: Scope,
    notices: Option<Notices>,
    /// What was told of each name; `None`: it is to be told again, whatever it is.
    known: BTreeMap<LeaseName, Option<State>>,
    ready: VecDeque<Watched>,
    /// The last look failed, and that it did for this reason was told.
    away: Option<ErrorKind>,
    /// When the last look began.
    looked: Moment,
    /// When to look again; `None`: now.
    due: Option<Moment>,
}

type State = (Option<Term>, Standing);

enum Scope {
    Name(LeaseName),
    Prefix(String),
}

impl Watch {
    fn new(client: &Arc<Client>, scope: Scope) -> Self {
        let client = Arc::clone(client);
        let notices = client.store.notices();
        let (known, ready) = (BTreeMap::new(), VecDeque::new());
        Self { client, scope, notices, known, ready, away: None, looked: Moment::default(), due: None }
    }

    /// Waits for the next; `None` once [`shutdown`](Leases::shutdown) is called. Dropping the future loses nothing: another
    /// call goes on where this one was.
    pub async fn next(&mut self) -> Option<Watched> {
        loop {
            if let Some(watched) = self.ready.pop_front() {
                return Some(watched);
            }
            if self.client.is_shutting_down() {
                return None;
            }
            if let Some(due) = self.due {
                let heard_of_it = tokio::select! {
                    biased;
                    () = self.client.shutting_down() => return None,
                    () = sleep_until(&self.client.setup.clock, due) => false,
                    _ = heard(&mut self.notices, &self.scope) => true,
                };
                if heard_of_it {
                    // A busy database may hint all the time.
                    self.due = Some(due.min(self.looked + self.client.setup.timings.tick().min(PACE)));
                    continue;
                }
                self.due = None;
            }
            self.looked = self.client.setup.clock.now();
            match self.look().await {
                Ok((seen, now)) => self.take_in(seen, now),
                Err(error) => {
                    self.known.values_mut().for_each(|state| *state = None);
                    if self.away.replace(error.kind()) != Some(error.kind()) {
                        self.ready.push_back(Watched::Away(error));
                    }
                    self.due =
                        Some(self.client.setup.clock.now() + self.client.setup.timings.retry_interval());
                }
            }
        }
    }

    /// What there is now, and the database's clock.
    async fn look(&self) -> Result<(Vec<Sighting>, DbTime), Error> {
        let prefix = match &self.scope {
            Scope::Name(name) => {
                let sighting = self.client.look(name).await?;
                let now = sighting.inspection().now;
                return Ok((vec![sighting], now));
            }
            Scope::Prefix(prefix) => prefix,
        };
        let mut page = Page { prefix: prefix.clone(), after: None, limit: PAGE };
        let mut seen = Vec::new();
        loop {
            let listing = self.client.ask(|store, within| store.list(&page, within)).await;
            let listing = listing.map_err(|error| self.client.store_error_of_many("list leases", error))?;
            let is_last = listing.rows.len() < PAGE as usize;
            for row in listing.rows {
                let name = row.name.clone();
                seen.push(self.client.sighting(name, Inspection { now: listing.now, row: Some(row) }));
            }
            if is_last {
                return Ok((seen, listing.now));
            }
            page.after = seen.last().map(|sighting| sighting.name().clone());
        }
    }

    fn take_in(&mut self, seen: Vec<Sighting>, now: DbTime) {
        self.away = None;
        let timings = self.client.setup.timings;
        let mut wait = timings.renew();
        let mut gone: BTreeSet<LeaseName> = self.known.keys().cloned().collect();
        for sighting in seen {
            wait = sighting.expires_in().map_or(wait, |left| wait.min(left));
            gone.remove(sighting.name());
            self.tell(sighting);
        }
        // Rows are not deleted by us; somebody else has done it.
        for name in gone {
            self.known.remove(&name);
            let sighting = self.client.sighting(name, Inspection { now, row: None });
            self.ready.push_back(Watched::Now(Box::new(sighting)));
        }
        self.due = Some(self.client.setup.clock.now() + wait.max(timings.tick()));
    }

    fn tell(&mut self, sighting: Sighting) {
        let state = Some((sighting.term(), sighting.standing()));
        if self.known.insert(sighting.name().clone(), state) != Some(state) {
            self.ready.push_back(Watched::Now(Box::new(sighting)));
        }
    }
}

async fn heard(notices: &mut Option<Notices>, scope: &Scope) -> Hint {
    match (notices, scope) {
        (Some(notices), Scope::Name(name)) => notices.about(name).await,
        (Some(notices), Scope::Prefix(prefix)) => notices.about_any(prefix).await,
        (None, _) => std::future::pending().await,
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("known", &self.known).finish_non_exhaustive()
    }
}
