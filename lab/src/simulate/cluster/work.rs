//! What work does under a lease: well-behaved or not.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use lease_core::clock::sleep_until;
use lease_core::{Clock, Moment, Tenure};

use super::judge::Held;
use super::link::Link;
use super::time::{Nanos, nanos};
use super::transaction::{Connection, transact};

/// How work behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Ends by itself, or when it is told to.
    Short,
    /// Goes on until it is told to end.
    Long,
    Fails,
    Panics,
    /// Heeds nothing, until its end.
    Deaf,
    /// Leaves something behind that heeds nothing, until its end.
    LeavesChild,
}

/// Why work did not succeed.
#[derive(Debug)]
pub(super) enum Unwell {
    /// By itself.
    Failed,
    /// It was told to end.
    Told,
}

/// Runs work of some style to its end.
pub(super) async fn work(link: Link, clock: Arc<dyn Clock>, tenure: Tenure) -> Result<(), Unwell> {
    let (style, lasts) = link.world.with(|state| {
        let style = state.random.weighted(&[
            (30, Style::Short),
            (40, Style::Long),
            (8, Style::Fails),
            (6, Style::Panics),
            (8, Style::Deaf),
            (10, Style::LeavesChild),
        ]);
        let hundredths = match style {
            Style::Long => 3_000,
            Style::Deaf | Style::LeavesChild => 400,
            _ => 250,
        };
        let most = state.setting.ttls(hundredths);
        state.note(Some(link.node), "work begins", tenure.name().as_str(), tenure.term().get());
        (style, state.random.below(most))
    });
    let connection = Connection { link, clock };
    if style == Style::LeavesChild {
        let child = linger(connection.clone(), tenure.clone(), lasts);
        tokio::spawn(child);
    }
    let holder = tenure.holder();
    let ended = act(&connection, tenure, style, lasts).await;
    if let Ok(()) | Err(Unwell::Told) = ended {
        connection.link.world.with(|state| state.round_returned(holder, ended.is_err()));
    }
    ended
}

/// Acts under a lease, again and again.
async fn act(connection: &Connection, tenure: Tenure, style: Style, lasts: Nanos) -> Result<(), Unwell> {
    let Connection { link, clock } = connection;
    let held = hold(link, tenure, true);
    let until = clock.now() + Duration::from_nanos(lasts);
    let heeds = style != Style::Deaf;
    while clock.now() < until {
        let again = link.world.with(|state| {
            let step = nanos(state.setting.timings.renew());
            clock.now() + Duration::from_nanos(step / 4 + state.random.below(step * 2))
        });
        tokio::select! {
            biased;
            _ = held.tenure.lost(), if heeds => return Err(Unwell::Told),
            () = held.tenure.stopping(), if heeds => {
                return if link.world.with(|state| state.random.percent(50)) { Ok(()) } else { Err(Unwell::Told) };
            }
            () = sleep_until(clock, again.min(until)) => {}
        }
        let busy = link.world.with(|state| state.random.percent(25));
        if busy {
            transact(connection, &held.tenure).await;
        }
    }
    match style {
        Style::Fails => Err(Unwell::Failed),
        // Without the hook that writes of panics.
        Style::Panics => resume_unwind(Box::new("the work panics, as it should")),
        _ => Ok(()),
    }
}

/// Hands a tenure to work where the judge sees it.
pub(super) fn hold(link: &Link, tenure: Tenure, is_driven: bool) -> Arc<Held> {
    // Of a claim that is granted while the client closes, only a lease that is lost is had.
    let began = tenure.check();
    let held = Arc::new(Held { tenure, is_driven, began });
    link.world.with(|state| state.carried(link.node, &held));
    held
}

/// A child of work that heeds nothing: it trips the failing hook if it outlives the grace, and not otherwise.
async fn linger(connection: Connection, tenure: Tenure, lasts: Nanos) {
    let Connection { link, clock } = &connection;
    let held = hold(link, tenure, true);
    let until = clock.now() + Duration::from_nanos(lasts * 3 / 2);
    let mut lost = None;
    while clock.now() < until {
        tokio::select! {
            biased;
            _ = held.tenure.lost(), if lost.is_none() => lost = Some(clock.now()),
            () = sleep_until(clock, until) => {}
        }
    }
    let Some(lost) = lost else { return };
    judge_grace(link, &held.tenure, lost, clock.now());
}

/// Says whether the failing hook must have been called by now.
fn judge_grace(link: &Link, tenure: &Tenure, lost: Moment, now: Moment) {
    let grace = tenure.timings().grace();
    let key = (super::world::known(tenure.name().as_str()), tenure.term().get());
    link.world.with(|state| {
        let stalls = state.now.saturating_sub(state.judge.standings[link.node].stalled_last);
        // A stall in between moves what the child sees, and when alarms ring.
        if stalls <= nanos(now.since(lost)) / 100 * 104 {
            return;
        }
        let due = &mut state.judge.stuck[link.node];
        if now.since(lost) > grace.mul_f64(1.12) {
            due.must.insert(key);
        } else if now.since(lost) < grace.mul_f64(0.99) {
            due.may_not.insert(key);
        }
    });
}
