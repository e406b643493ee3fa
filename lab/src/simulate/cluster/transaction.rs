//! A guarded transaction of a client, made as the stores on servers make theirs.

use lease_core::clock::sleep_until;
use lease_core::guard::{Guarding, MustEnd, Watcher};
use lease_core::store::StoreError;
use lease_core::{Clock, GuardError, Tenure};
use lease_testkit::Op;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::link::Link;
use super::plan::Fence;
use super::time::{Nanos, nanos};

/// What a transaction needs.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) link: Link,
    pub(super) clock: Arc<dyn Clock>,
}

/// Runs one transaction, and counts how it ended.
pub(super) async fn transact(connection: &Connection, tenure: &Tenure) {
    let link = &connection.link;
    let ended = run(connection, tenure).await;
    link.world.with(|state| {
        let what = match ended {
            Ok(()) => "transactions committed",
            Err(GuardError::Lost(_)) => "guard refusals",
            Err(GuardError::Unknown(_)) => "transactions of unknown outcome",
            Err(_) => "transactions failed",
        };
        state.count(what);
        state.note(Some(link.node), what, tenure.name().as_str(), tenure.term().get());
    });
}

async fn run(connection: &Connection, tenure: &Tenure) -> Result<(), GuardError> {
    let Connection { link, clock } = connection;
    let (guarding, watcher) = Guarding::begin(tenure)?;
    let committing = Arc::new(AtomicBool::new(false));
    let (id, writes, pause, late) = link.world.with(|state| {
        let pause = state.random.below(nanos(state.setting.timings.attempt()) / 8);
        let late = state
            .random
            .percent(4)
            .then(|| state.setting.ttls(100) + state.random.below(state.setting.ttls(60)));
        (state.random.next(), state.random.within(1..4), pause, late)
    });
    tokio::spawn(watch(connection.clone(), watcher, id, Arc::clone(&committing)));

    let (name, holder, node) = (tenure.name().clone(), tenure.holder(), link.node);
    let born = link.world.with(|state| state.judge.standings[node].born);
    let begun = bounded(connection, tenure, {
        let name = name.clone();
        link.call(Op::Check, tenure.timings().attempt(), move |state| {
            if state.judge.standings[node].born != born {
                return Err(StoreError::new(lease_core::ErrorKind::Unavailable, "its client has gone")
                    .without_effect());
            }
            state.database.begin(id, &name, holder, node)
        })
    });
    if begun.await.map_err(GuardError::Failed)?.is_none() {
        // Nothing was begun, and the database says why.
        guarding.over()?;
        return Err(GuardError::Lost(lease_core::LossReason::Refused));
    }
    for _ in 0..writes {
        guarding.check()?;
        let written = link.call(Op::Check, tenure.timings().attempt(), move |state| state.database.write(id));
        let sleeping = sleep_until(clock, clock.now() + std::time::Duration::from_nanos(pause));
        let work = async {
            bounded(connection, tenure, written).await?;
            sleeping.await;
            Ok::<_, StoreError>(())
        };
        guarding.work(work).await.map_err(|error| match error {
            lease_core::GuardedError::Work(error) => GuardError::Failed(error),
            lease_core::GuardedError::Guard(error) => error,
        })?;
    }
    think(link).await;
    commit(connection, tenure, guarding, &committing, (id, late)).await
}

/// Now and then a program waits for something of its own before it commits, and no clock wakes it.
async fn think(link: &Link) {
    let (done, waits) = tokio::sync::oneshot::channel::<()>();
    let thinks = link.world.with(|state| {
        let thinks = state.random.percent(50);
        if thinks {
            let after = state.random.below(nanos(state.setting.timings.attempt()) / 4);
            state.after(
                after,
                super::world::Event::Answer(
                    link.node,
                    Box::new(move || {
                        let _ = done.send(());
                    }),
                ),
            );
        }
        thinks
    });
    if thinks {
        drop(waits.await);
    }
}

async fn commit(
    connection: &Connection,
    tenure: &Tenure,
    guarding: Guarding,
    committing: &AtomicBool,
    (id, late): (u64, Option<Nanos>),
) -> Result<(), GuardError> {
    let link = &connection.link;
    let is_carried = link.world.setting.fence == Fence::OneWriter;
    let carried = is_carried.then(|| tenure.carry_renewal());
    guarding.commit_begins()?;
    committing.store(true, Ordering::SeqCst);
    let (name, holder, ttl) = (tenure.name().clone(), tenure.holder(), tenure.timings().ttl());
    link.world.with(|state| {
        state.judge.committing.insert(id);
        // The server's own bound on a session whose client says nothing more.
        let bound = state.setting.ttls(300);
        state.after(bound, super::world::Event::EndSession(id));
        if !tenure.check() {
            state.violate("no commit begins after the loss", name.as_str());
        }
    });
    let statement = move |state: &mut super::world::State| {
        state.judge.committing.remove(&id);
        let committed = state.database.commit(id, ttl)?;
        match committed {
            Some(renewed) => {
                state.committed(name.as_str(), holder);
                if renewed {
                    state.prolonged(name.as_str(), holder);
                }
            }
            None => state.count("commits refused by the fence"),
        }
        Ok(committed)
    };
    let answer = if let Some(late) = late {
        link.world.with(|state| state.count("late commits"));
        bounded(connection, tenure, link.call_late(late, statement)).await
    } else {
        bounded(connection, tenure, link.call(Op::Check, tenure.timings().attempt(), statement)).await
    };
    match answer {
        Ok(Some(renewed)) => {
            if let Some(carried) = carried.filter(|_| renewed) {
                carried.committed(false);
            }
            guarding.over()
        }
        Ok(None) => Err(GuardError::Lost(lease_core::LossReason::Refused)),
        Err(error) => Err(GuardError::Unknown(error)),
    }
}

/// Waits for an answer for at most an attempt.
async fn bounded<T>(
    connection: &Connection,
    tenure: &Tenure,
    asking: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let clock = &connection.clock;
    tokio::select! {
        biased;
        answer = asking => answer,
        () = sleep_until(clock, clock.now() + tenure.timings().attempt()) => {
            Err(StoreError::new(lease_core::ErrorKind::Timeout, "no answer within the attempt"))
        }
    }
}

/// The store's side: ends the session, and keeps the name until that is done or, after a loss, for half of the grace.
async fn watch(connection: Connection, watcher: Watcher, id: u64, committing: Arc<AtomicBool>) {
    let Connection { link, clock } = &connection;
    let Some(why) = watcher.must_end().await else { return };
    let tenure = watcher.tenure();
    link.world.with(|state| {
        state.count("sessions ended by their guard");
        if committing.load(Ordering::SeqCst) {
            state.violate("of a commit and the end of its session one takes place", tenure.name().as_str());
        }
    });
    let patience = match why {
        MustEnd::Lost(_) => tenure.timings().grace() / 2,
        MustEnd::Abandoned => tenure.timings().ttl(),
    };
    let long = sleep_until(clock, clock.now() + patience);
    let lost = async {
        tenure.lost().await;
        sleep_until(clock, clock.now() + tenure.timings().grace() / 2).await;
    };
    let ending = async {
        loop {
            let end = link
                .call(Op::Check, tenure.timings().attempt(), move |state| Ok(state.database.end(id, true)));
            if bounded(&connection, tenure, end).await.is_ok() {
                return;
            }
            sleep_until(clock, clock.now() + tenure.timings().tick()).await;
        }
    };
    tokio::select! {
        biased;
        () = ending => return,
        () = long => {}
        () = lost => {}
    }
    link.world.with(|state| {
        state.judge.let_go.insert(id);
        let bound = state.setting.ttls(100);
        state.after(bound, super::world::Event::EndSession(id));
    });
}
