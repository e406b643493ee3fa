//! The database: the memory store, a clock that can be stepped, sessions with guarded transactions, and outages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use lease_core::store::{DbTime, StoreError};
use lease_core::{ErrorKind, Holder, LeaseName, LeaseStore};
use lease_testkit::{MemoryStore, Op};

use super::plan::{Broken, Fence};
use super::time::{ServerClock, TrueTime};

/// Whether the database answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    Full,
    /// Connections are refused.
    Refusing,
    /// Nothing answers.
    Silent,
    ReadOnly,
}

pub(super) struct Database {
    pub(super) memory: MemoryStore,
    pub(super) service: Service,
    pub(super) broken: Option<Broken>,
    pub(super) fence: Fence,
    time: Arc<TrueTime>,
    base_ms: i64,
    stepped_ms: i64,
    sessions: BTreeMap<u64, Session>,
    /// Ended before their transaction began: whatever of them arrives later finds no session.
    ended: BTreeSet<u64>,
}

/// A session with a guarded transaction that is open.
pub(super) struct Session {
    pub(super) name: LeaseName,
    pub(super) holder: Holder,
    pub(super) node: usize,
}

impl Database {
    pub(super) fn new(time: &Arc<TrueTime>, fence: Fence, broken: Option<Broken>) -> Self {
        let memory = MemoryStore::with_clock(Arc::new(ServerClock(Arc::clone(time))));
        let mut database = Self {
            memory,
            service: Service::Full,
            broken,
            fence,
            time: Arc::clone(time),
            base_ms: 0,
            stepped_ms: 0,
            sessions: BTreeMap::new(),
            ended: BTreeSet::new(),
        };
        let name = LeaseName::new("clock").expect("a name");
        database.base_ms = database.row(&name).0.as_millis();
        database
    }

    /// Its clock.
    pub(super) fn now_ms(&self) -> i64 {
        let passed = i64::try_from(self.time.now() / 1_000_000).unwrap_or(i64::MAX);
        self.base_ms + passed + self.stepped_ms
    }

    pub(super) fn step(&mut self, ms: i64) {
        self.memory.step_clock(ms);
        self.stepped_ms += ms;
    }

    /// Why a statement does not take place, if it does not.
    pub(super) fn refusal(&self, op: Op) -> Option<StoreError> {
        let reads = matches!(
            op,
            Op::Check
                | Op::Verify
                | Op::Inspect
                | Op::List
                | Op::UnfinishedSlots
                | Op::LastSlot
                | Op::Announce
        );
        let (kind, message) = match self.service {
            Service::Refusing => (ErrorKind::Unavailable, "connection refused"),
            Service::ReadOnly if !reads => (ErrorKind::ReadOnly, "read-only"),
            _ if !reads && self.fence == Fence::OneWriter && !self.sessions.is_empty() => {
                (ErrorKind::Busy, "another transaction is open")
            }
            _ => return None,
        };
        Some(StoreError::new(kind, message).without_effect())
    }

    /// Whether a transaction that is open keeps claims of the name out.
    pub(super) fn keeps_out(&self, name: &LeaseName) -> bool {
        self.fence == Fence::FromBegin
            && self.broken != Some(Broken::NoFence)
            && self.sessions.values().any(|session| session.name == *name)
    }

    pub(super) fn sessions(&self) -> impl Iterator<Item = (&u64, &Session)> {
        self.sessions.iter()
    }

    /// Those of a client.
    pub(super) fn sessions_of(&self, node: usize) -> Vec<u64> {
        self.sessions.iter().filter(|(_, session)| session.node == node).map(|(id, _)| *id).collect()
    }

    /// Begins a transaction, if the lease is held: `None`, it is not.
    pub(super) fn begin(
        &mut self,
        id: u64,
        name: &LeaseName,
        holder: Holder,
        node: usize,
    ) -> Result<Option<()>, StoreError> {
        if self.ended.remove(&id) {
            return Err(StoreError::new(ErrorKind::Unavailable, "the session was ended").without_effect());
        }
        if self.fence == Fence::OneWriter && !self.sessions.is_empty() {
            return Err(StoreError::new(ErrorKind::Busy, "another transaction is open").without_effect());
        }
        if !self.is_held(name, holder) {
            return Ok(None);
        }
        self.sessions.insert(id, Session { name: name.clone(), holder, node });
        Ok(Some(()))
    }

    /// A statement of a transaction.
    pub(super) fn write(&mut self, id: u64) -> Result<(), StoreError> {
        if self.sessions.contains_key(&id) { Ok(()) } else { Err(no_session()) }
    }

    /// Commits, if the lease is held: `None`, it is not, and all is rolled back. With the answer goes whether the expiry moved.
    pub(super) fn commit(&mut self, id: u64, ttl: Duration) -> Result<Option<bool>, StoreError> {
        let Some(session) = self.sessions.remove(&id) else { return Err(no_session()) };
        let fenced = self.fence == Fence::FromBegin || self.broken == Some(Broken::NoFence);
        if !fenced && !self.is_held(&session.name, session.holder) {
            return Ok(None);
        }
        let renews = self.fence == Fence::OneWriter && self.broken != Some(Broken::NoFence);
        if renews {
            let expires_at = self.now_ms() + i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX / 4);
            self.memory.edit_row(&session.name, |row| row.expires_at = DbTime::from_millis(expires_at));
        }
        Ok(Some(renews))
    }

    /// Ends a session, whatever it is at. Answers whether one was open.
    pub(super) fn end(&mut self, id: u64, not_begun_yet: bool) -> bool {
        let open = self.sessions.remove(&id).is_some();
        if !open && not_begun_yet {
            self.ended.insert(id);
        }
        open
    }

    fn is_held(&self, name: &LeaseName, holder: Holder) -> bool {
        let (now, row) = self.row(name);
        row.is_some_and(|row| row.holder == holder && row.is_live(now))
    }

    pub(super) fn row(&self, name: &LeaseName) -> (DbTime, Option<lease_core::store::LeaseRow>) {
        let seen = at_once(self.memory.inspect(name, Duration::ZERO)).expect("the table is there");
        (seen.now, seen.row)
    }
}

fn no_session() -> StoreError {
    StoreError::new(ErrorKind::Unavailable, "the session has ended").without_effect()
}

/// The answer of a store that waits for nothing.
pub(super) fn at_once<T>(asking: impl Future<Output = T>) -> T {
    asking.now_or_never().expect("the memory store waits for nothing")
}
