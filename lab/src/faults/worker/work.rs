//! The work under a lease: it says what it believes, and writes guarded transactions.

use std::sync::Mutex;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use lease_core::Tenure;
use tokio::time::{sleep, timeout};

use super::Worker;
use super::parent::{Said, While};
use crate::faults::ledger::{self, Entry};
use crate::history::{Event, Finish, Guard, LeaseId, Writer};

/// So often it is said that a name is held, at least.
const TELL: Duration = Duration::from_millis(100);

impl Worker {
    /// Works for so long under a lease, or until it is lost or asked to stop. One piece of work in three heeds no loss for half of
    /// the grace: the fence must hold it.
    pub(super) async fn work(self: &Arc<Self>, tenure: &Tenure, takes: Duration) {
        let lease = LeaseId::from(tenure);
        self.given_back.expect(&lease);
        self.writer.tell(Event::WorkBegan(lease.clone()));
        let all = Arc::new(AllOfIt { writer: self.writer.clone(), lease: lease.clone() });
        let _watched = self.sampler.watch(tenure);
        let is_stubborn = self.below(3) == 0;
        let lost = async {
            let reason = tenure.lost().await;
            self.writer.tell(Event::Lost { lease: lease.clone(), reason: (&reason).into() });
            if is_stubborn {
                sleep(tenure.timings().grace() / 2).await;
            }
        };
        tokio::select! {
            () = lost => {}
            () = self.work_on(tenure, &all, takes) => {}
        }
    }

    async fn work_on(&self, tenure: &Tenure, all: &Arc<AllOfIt>, takes: Duration) {
        let since = Instant::now();
        while since.elapsed() < takes {
            if tenure.check() {
                Said::Held(all.lease.name.to_string()).say();
            }
            if self.below(4) == 0 {
                self.transact(tenure, all).await;
            }
            tokio::select! {
                () = tenure.stopping() => break,
                () = sleep(TELL.min(takes)) => {}
            }
        }
    }

    async fn transact(&self, tenure: &Tenure, all: &Arc<AllOfIt>) {
        let tx = self.writer.number();
        let open = Arc::new(Open { all: Arc::clone(all), tx, state: Mutex::default() });
        open.tell(Guard::Began);
        let steps = {
            let open = Arc::clone(&open);
            Box::new(move |step: Guard| open.tell(step))
        };
        let Self { order, store, .. } = self;
        let entry = Entry {
            lease: all.lease.clone(),
            process: order.process,
            incarnation: order.incarnation,
            tx,
            open: self.part(0..15),
            steps,
        };
        let unless_it_ends = Unfinished(Arc::clone(&open));
        // As a program does that is not to hang: on a connection whose other end is gone nobody else bounds its own statements,
        // and its lease is renewed for as long as it waits.
        let written =
            timeout(tenure.timings().ttl(), ledger::write(store, &order.place, tenure, entry)).await;
        if let Ok(finish) = written {
            open.end(finish);
        }
        drop(unless_it_ends);
    }
}

/// Says that all of the work has ended when the last part of it is gone, by an abort too.
struct AllOfIt {
    writer: Writer,
    lease: LeaseId,
}

impl Drop for AllOfIt {
    fn drop(&mut self) {
        self.writer.tell(Event::WorkEnded(self.lease.clone()));
    }
}

/// A guarded transaction, as its history goes on.
struct Open {
    all: Arc<AllOfIt>,
    tx: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_over: bool,
    commits: bool,
    told: Option<While>,
}

impl Open {
    fn tell(&self, step: Guard) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_over {
            return;
        }
        match step {
            Guard::Verified => state.told = Some(While::guard()),
            Guard::Commits => state.commits = true,
            Guard::Ended(_) => *state = State { is_over: true, ..State::default() },
            Guard::Began | Guard::Wrote(_) => {}
        }
        let AllOfIt { writer, lease } = &*self.all;
        writer.tell(Event::Guard { tx: self.tx, lease: lease.clone(), step });
    }

    fn end(&self, finish: Finish) {
        self.tell(Guard::Ended(finish));
    }
}

/// Of a transaction whose future is dropped: nobody knows what became of a commit that had been sent.
struct Unfinished(Arc<Open>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        let commits = self.0.state.lock().unwrap_or_else(PoisonError::into_inner).commits;
        self.0.end(if commits { Finish::Unknown } else { Finish::Dropped });
    }
}
