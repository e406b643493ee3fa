//! One connection that listens for as long as anybody in this process waits.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lease_core::store::{IoThread, Limit, Notices, Notifier, StoreError};
use lease_core::{Clock, ErrorKind, LeaseName};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tokio_postgres::Notification;

use super::process;
use crate::connection::Connection;
use crate::opener::Opener;
use crate::options::Table;
use crate::row::{Row, cell};
use crate::sql;

/// Ends what it does when it is dropped.
pub(crate) struct Listener(Arc<Ear>);

struct Ear {
    opener: Opener,
    clock: Arc<dyn Clock>,
    /// What the announcements of our table begin with.
    begin: String,
    notifier: Notifier,
    doing: Mutex<Doing>,
    pace: Pace,
}

enum Doing {
    Nothing,
    Listening(AbortHandle),
    /// A pooler is between: for good.
    Deaf,
}

/// How a connection that listens is looked after.
struct Pace {
    /// How often it is asked whether anybody is still interested.
    look: Duration,
    /// How long the server may take to say that it is still there.
    answer: Duration,
}

const PACE: Pace = Pace { look: Duration::from_secs(2), answer: Duration::from_secs(5) };

/// After so many looks the server is asked whether it is still there: nothing may ever come from it.
const LOOKS: u32 = 3;

/// For connecting, up to the moment when it listens.
const CONNECTING: Duration = Duration::from_secs(10);

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How long a connection that is wanted for more than hints is left to the others.
const NO_ROOM: Duration = Duration::from_secs(60);

impl Listener {
    pub(crate) fn new(opener: Opener, table: &Table, clock: &Arc<dyn Clock>) -> Self {
        Self::at(PACE, opener, table, clock)
    }

    fn at(pace: Pace, opener: Opener, table: &Table, clock: &Arc<dyn Clock>) -> Self {
        let (clock, begin) = (Arc::clone(clock), table.announced());
        let (notifier, doing) = (Notifier::new(), Mutex::new(Doing::Nothing));
        Self(Arc::new(Ear { opener, clock, begin, notifier, doing, pace }))
    }

    /// What is heard from now on, by a connection that is made now if there is none. `None` where sessions are shared.
    pub(crate) fn listen(&self, thread: &IoThread) -> Option<Notices> {
        if self.0.opener.sessions_are_shared() {
            return None;
        }
        // Before the look at what is done: whoever ends that looks for listeners first.
        let notices = self.0.notifier.listen();
        let mut doing = self.0.doing();
        match &*doing {
            Doing::Deaf => return None,
            Doing::Listening(task) if !task.is_finished() => {}
            Doing::Listening(_) | Doing::Nothing => {
                *doing = Doing::Listening(thread.spawn(Arc::clone(&self.0).run()).abort_handle());
            }
        }
        Some(notices)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Doing::Listening(task) = &*self.0.doing() {
            task.abort();
        }
    }
}

impl Ear {
    async fn run(self: Arc<Self>) {
        let mut pause = FIRST_PAUSE;
        while self.goes_on() {
            let listened = tokio::select! {
                // Renewals, claims and reads come first, where there are not connections enough for all.
                () = self.opener.no_room() => {
                    pause = NO_ROOM;
                    Err(ended("the server has no room for more connections"))
                }
                listened = self.listen(&mut pause) => listened,
            };
            if let Err(error) = listened {
                tracing::debug!(%error, "releases are not heard of; listening again in {pause:?}");
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }

    /// Whether anybody listens, and somebody can.
    fn goes_on(&self) -> bool {
        let mut doing = self.doing();
        let goes_on = matches!(*doing, Doing::Listening(_)) && self.notifier.is_heard();
        if matches!(*doing, Doing::Listening(_)) && !goes_on {
            *doing = Doing::Nothing;
        }
        goes_on
    }

    /// Listens on a connection until nobody is interested any more, or the connection has ended.
    async fn listen(&self, pause: &mut Duration) -> Result<(), StoreError> {
        let (notified, mut notifications) = mpsc::channel(64);
        let limit = Limit::new(&self.clock, CONNECTING);
        let connection = limit.bound(self.opener.notifying(notified).open()).await?;
        if connection.session.is_none() || is_anothers(&connection, &limit).await? {
            tracing::debug!(
                "a pooler is between: releases are not heard of, who waits looks again and again"
            );
            *self.doing() = Doing::Deaf;
            return Ok(());
        }
        // From before the first can come: nothing that is not taken in may keep an answer back.
        tokio::select! {
            () = self.take_in(&mut notifications) => Err(ended("the connection that listens has ended")),
            answer = self.keep_listening(&connection, &limit, pause) => answer,
        }
    }

    /// Until the connection has ended.
    async fn take_in(&self, notifications: &mut mpsc::Receiver<Notification>) {
        while let Some(notification) = notifications.recv().await {
            if let Some(name) = self.released(&notification) {
                self.notifier.given_back(Some(name));
            }
        }
    }

    /// The name, if it is one of our table's. Anybody may notify anything.
    fn released(&self, notification: &Notification) -> Option<LeaseName> {
        let name = notification.payload().strip_prefix(&self.begin);
        name.filter(|_| notification.channel() == sql::CHANNEL)?.parse().ok()
    }

    /// Until nobody is interested any more, or the server does not answer.
    async fn keep_listening(
        &self,
        connection: &Connection,
        limit: &Limit,
        pause: &mut Duration,
    ) -> Result<(), StoreError> {
        for statement in [sql::MAY_IDLE, sql::LISTEN] {
            say(connection, limit, statement).await?;
        }
        // What was released before nobody has heard of.
        self.notifier.given_back(None);
        loop {
            for _ in 0..LOOKS {
                sleep(self.pace.look).await;
                if !self.notifier.is_heard() {
                    return Ok(());
                }
            }
            let limit = Limit::new(&self.clock, self.pace.answer);
            if say(connection, &limit, sql::LISTENS).await?.is_empty() {
                return Err(ended("the session does not listen any more"));
            }
            *pause = FIRST_PAUSE;
        }
    }

    fn doing(&self) -> MutexGuard<'_, Doing> {
        self.doing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the session is in a process that is not the one that the login spoke of.
async fn is_anothers(connection: &Connection, limit: &Limit) -> Result<bool, StoreError> {
    let rows = say(connection, limit, sql::PROCESS).await?;
    let process = rows.first().map(|row| cell::<i64>(row, 0, "", "the process")).transpose()?;
    Ok(process != process::of_login(&connection.client).await.map(i64::from))
}

async fn say(connection: &Connection, limit: &Limit, statement: &str) -> Result<Vec<Row>, StoreError> {
    limit.bound(async { connection.say(limit, statement).await.answer }).await
}

fn ended(message: &str) -> StoreError {
    StoreError::new(ErrorKind::Unavailable, message).without_effect()
}

#[cfg(test)]
mod tests {
    use lease_core::SystemClock;
    use lease_core::store::Hint;
    use lease_testkit::{Direction, Proxy, Wire};
    use tokio::time::timeout;

    use super::*;
    use crate::options::PostgresOptions;

    const LONG: Duration = Duration::from_secs(120);

    #[tokio::test]
    async fn a_connection_that_hangs_does_not_go_unnoticed() {
        let url = test_servers::shared(test_servers::Product::Postgres);
        let (login, rest) = url.split_once('@').expect("a URL with a user");
        let (address, database) = rest.split_once('/').expect("a URL with a database");
        let proxy = Proxy::start(address, Wire::Postgres).unwrap();
        let url = format!("{login}@{}/{database}?sslmode=disable", proxy.addr());
        let (config, tls) = crate::url::parse(&url).unwrap();
        let clock: Arc<dyn Clock> = SystemClock::shared().unwrap();
        let pace = Pace { look: Duration::from_millis(50), answer: Duration::from_millis(500) };
        let opener = Opener::new(&config, tls).unwrap();
        let listener = Listener::at(pace, opener, &PostgresOptions::default().table, &clock);
        let thread = IoThread::start("test").unwrap();
        let (mut notices, name) = (listener.listen(&thread).unwrap(), LeaseName::new("a").unwrap());
        let looks = async |notices: &mut Notices| timeout(LONG, notices.about(&name)).await.ok();
        assert_eq!(looks(&mut notices).await, Some(Hint::Perhaps));
        proxy.hold(Direction::ToClient);
        // Of the new connection nothing comes either.
        let connects_again = async {
            while proxy.connections() < 2 {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(LONG, connects_again).await.expect("it connects again");
        proxy.release(Direction::ToClient);
        assert_eq!(looks(&mut notices).await, Some(Hint::Perhaps), "it listens again");
    }
}
