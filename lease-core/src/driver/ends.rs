//! How leases end: the end of a round recorded, a name given back.

use std::sync::Arc;

use super::{Driver, Landed, Managed};
use crate::client::Open;
use crate::give_back::{Finish, announce, release};
use crate::state::{LeaseState, Settled};

/// A process that ends with thousands of leases must not queue thousands of statements whose bounds
/// all run from the same moment.
const RELEASES_AT_ONCE: usize = 32;

impl Driver {
    /// The owner of a round says that it ran to its end.
    pub(super) fn finish(&mut self, state: Arc<LeaseState>, finish: Finish, open: Open) {
        let id = state.id;
        let Some(managed) = self.leases.get_mut(&id) else {
            // Given back already, or being so, or expired.
            self.record(state, finish, open);
            return;
        };
        if managed.finishes.is_empty() {
            managed.record_by = state.grace_over();
            self.due.entry(managed.record_by).or_default().push(id);
        }
        managed.finishes.push((finish, open));
        // Its owner has marked the loss by now. Who looked at it since, and had not heard of this, renews it no more.
        self.look_at_all([id]);
    }

    /// Gives the name of an ended lease back once nothing of ours can act under it.
    pub(super) fn settle(&mut self, id: u64) {
        let settles = |managed: &&Managed| managed.ended && !managed.is_finishing();
        let Some(managed) = self.leases.get(&id).filter(settles) else { return };
        if managed.state.work_may_run() {
            self.due.entry(managed.state.row_expired_by()).or_default().push(id);
            return;
        }
        if let Some(Managed { state, open, .. }) = self.leases.remove(&id) {
            if state.is_gone() {
                state.settled(Settled::Done);
            } else {
                self.to_release.push_back((state, open));
                self.send_releases();
            }
        }
    }

    pub(super) fn send_releases(&mut self) {
        while self.releasing < RELEASES_AT_ONCE
            && let Some((state, open)) = self.to_release.pop_front()
        {
            self.releasing += 1;
            let (store, setup) = (Arc::clone(&self.store), Arc::clone(&self.setup));
            self.flights.push(Box::pin(async move {
                let is_free = release(&*store, &setup, &state).await;
                Landed::Released { state, is_free, open }
            }));
        }
    }

    /// Records the end of a round, as often as it was told, if its last tenure has gone or has had its time.
    pub(super) fn record_finishes(&mut self, id: u64) {
        let now = self.setup.clock.now();
        let Some(managed) = self.leases.get_mut(&id).filter(|managed| !managed.finishes.is_empty()) else {
            return;
        };
        if managed.state.work_may_run() && now < managed.record_by {
            return;
        }
        let finishes = std::mem::take(&mut managed.finishes);
        managed.recording += finishes.len();
        let state = Arc::clone(&managed.state);
        for (finish, open) in finishes {
            self.record(Arc::clone(&state), finish, open);
        }
    }

    /// Rounds that end at the same instant do not wait for each other.
    fn record(&mut self, state: Arc<LeaseState>, finish: Finish, open: Open) {
        let (store, setup) = (Arc::clone(&self.store), Arc::clone(&self.setup));
        self.flights.push(Box::pin(async move {
            let recorded = finish.record(&*store, &setup, &state).await;
            Landed::Recorded { state, recorded, open }
        }));
    }

    /// Apart from what gave the name back: neither its owner nor the next release waits for this as well.
    pub(super) fn announce(&mut self, state: Arc<LeaseState>, open: Open) {
        let (store, setup) = (Arc::clone(&self.store), Arc::clone(&self.setup));
        self.flights.push(Box::pin(async move {
            announce(&*store, &setup, &state.name).await;
            drop(open);
            Landed::Announced
        }));
    }

    /// A round is over. If that is not on record, the name is still to be given back.
    pub(super) fn land_recorded(&mut self, id: u64, on_record: bool) {
        let Some(managed) = self.leases.get_mut(&id) else { return };
        managed.recording -= 1;
        if !on_record {
            if !managed.is_finishing() {
                managed.state.end();
                managed.ended = true;
                self.settle(id);
            }
            return;
        }
        managed.state.end();
        managed.state.settled(Settled::Done);
        if let Some(Managed { state, finishes, .. }) = self.leases.remove(&id) {
            // Told again meanwhile.
            for (finish, open) in finishes {
                self.record(Arc::clone(&state), finish, open);
            }
        }
    }
}
