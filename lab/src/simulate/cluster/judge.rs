//! The invariants, held against everything that happens.
//!
//! The judge keeps a ledger of its own, written from the answers of the database in the order of its commits, and looks from
//! outside at what each client believes: [`Held`] cells hold the very tenures that work carries.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use futures_util::FutureExt;
use lease_core::{Holder, Tenure};

use super::plan::{Plan, Setting};
use super::rounds::Rounds;
use super::time::{Nanos, nanos};
use super::world::{LEADER, State, known};

/// A tenure as work carries it, and the judge's way to it.
pub(super) struct Held {
    pub(super) tenure: Tenure,
    /// Whether the driver renews it: else its owner does, by hand.
    pub(super) is_driven: bool,
    /// Whether it was held when the work had it: what is lost from the start keeps no name from being given back.
    pub(super) began: bool,
}

/// What a client is at, as far as the judge must know.
#[derive(Debug, Clone, Default)]
pub(super) struct Standing {
    pub(super) runs: bool,
    pub(super) stalled: bool,
    pub(super) closing: bool,
    /// Since when it has run without a stall, and been free to lead.
    pub(super) well_since: Nanos,
    pub(super) idle_since: Nanos,
    /// How often it has started.
    pub(super) born: u64,
    /// When a stall was at work last.
    pub(super) stalled_last: Nanos,
}

/// Which leases of a client must have called the failing hook by its end, and which may not.
#[derive(Debug, Clone, Default)]
pub(super) struct Stuck {
    pub(super) must: BTreeSet<(&'static str, i64)>,
    pub(super) may_not: BTreeSet<(&'static str, i64)>,
}

pub(super) struct Judge {
    pub(super) rounds: Rounds,
    pub(super) standings: Vec<Standing>,
    pub(super) stuck: Vec<Stuck>,
    /// The leases of each client that it was told to step down from, and that it holds when all ends.
    pub(super) asked_down: Vec<BTreeSet<(&'static str, i64)>>,
    pub(super) held_at_heal: Vec<BTreeSet<(&'static str, i64)>>,
    /// When all faults were over for good.
    pub(super) healed_at: Nanos,
    /// Commits that were begun and not heard of.
    pub(super) committing: BTreeSet<u64>,
    /// Sessions that nobody waits for any more.
    pub(super) let_go: BTreeSet<u64>,
    rows: BTreeMap<&'static str, Row>,
    held: Vec<Vec<Weak<Held>>>,
    violations: Vec<String>,
    holes: bool,
    /// Since when nothing has been wrong, and when the leader's name was last held.
    calm_since: Nanos,
    led: Nanos,
    /// The longest that it was free in a calm, in thousandths of what it may be.
    pub(super) slowest_return: u64,
}

/// The last claim of a name.
#[derive(Debug, Clone)]
struct Row {
    term: i64,
    holder: Holder,
    node: usize,
    expires_ms: i64,
    /// When a renewal was sent last.
    asked: Nanos,
}

impl Judge {
    pub(super) fn new(plan: &Plan, setting: &Setting) -> Self {
        Self {
            rounds: Rounds::new(setting.period_ms),
            standings: vec![Standing::default(); setting.clients],
            stuck: vec![Stuck::default(); setting.clients],
            asked_down: vec![BTreeSet::new(); setting.clients],
            held_at_heal: vec![BTreeSet::new(); setting.clients],
            healed_at: 0,
            committing: BTreeSet::new(),
            let_go: BTreeSet::new(),
            rows: BTreeMap::new(),
            held: vec![Vec::new(); setting.clients],
            violations: Vec::new(),
            holes: plan.holes,
            calm_since: 0,
            led: 0,
            slowest_return: 0,
        }
    }

    pub(super) fn violations(&self) -> &[String] {
        &self.violations
    }

    pub(super) fn forget(&mut self, node: usize) {
        self.held[node].clear();
    }

    /// The leases that the driver of a client renews and that are held.
    fn believed(&self, node: usize) -> Vec<Arc<Held>> {
        let held = self.held[node].iter().filter_map(Weak::upgrade);
        held.filter(|held| held.is_driven && held.tenure.check()).collect()
    }

    fn cells(&self, name: &str) -> Vec<Arc<Held>> {
        let all = self.held.iter().flatten().filter_map(Weak::upgrade);
        all.filter(|held| held.tenure.name().as_str() == name).collect()
    }
}

fn lease_of(held: &Held) -> (&'static str, i64) {
    (known(held.tenure.name().as_str()), held.tenure.term().get())
}

impl State {
    /// Says that an invariant is broken.
    pub(super) fn violate(&mut self, invariant: &'static str, detail: &str) {
        self.note(None, "VIOLATION", "-", 0);
        if self.judge.violations.len() < 20 {
            let seconds = self.now / 1_000_000_000;
            self.judge.violations.push(format!("{invariant}: {detail} (at {seconds} s)"));
        }
    }

    /// The same of what only holds outside the published holes.
    fn violate_unless_holes(&mut self, invariant: &'static str, detail: &str) {
        if self.judge.holes {
            self.count("beyond the limits");
        } else {
            self.violate(invariant, detail);
        }
    }

    /// A tenure is carried by work of this client from now on.
    pub(super) fn carried(&mut self, node: usize, held: &Arc<Held>) {
        self.judge.held[node].push(Arc::downgrade(held));
    }

    /// The database has granted a name.
    pub(super) fn granted(&mut self, node: usize, name: &str, holder: Holder, term: i64) {
        let name = known(name);
        self.note(Some(node), "granted", name, term);
        let before = self.judge.rows.get(name).cloned();
        let last = before.as_ref().map_or(0, |row| row.term);
        if term <= last {
            self.violate("terms strictly increase", &format!("{name}: {term} after {last}"));
        }
        if before.is_some_and(|row| row.expires_ms != 0 && row.node != node) {
            self.count("takeovers");
        }
        for held in self.judge.cells(name) {
            if held.tenure.holder() != holder && held.tenure.check() {
                let detail = format!("{name}: term {} beside term {term}", held.tenure.term());
                self.violate_unless_holes("at most one healthy believer", &detail);
            }
        }
        let expires_ms = self.expiry();
        self.judge.rows.insert(name, Row { term, holder, node, expires_ms, asked: self.now });
    }

    /// The database has moved an expiry.
    pub(super) fn prolonged(&mut self, name: &str, holder: Holder) {
        let expires_ms = self.expiry();
        if let Some(row) = self.judge.rows.get_mut(name).filter(|row| row.holder == holder) {
            row.expires_ms = expires_ms;
        }
    }

    /// A renewal is sent.
    pub(super) fn asked_to_prolong(&mut self, name: &str, holder: Holder) {
        let now = self.now;
        if let Some(row) = self.judge.rows.get_mut(name).filter(|row| row.holder == holder) {
            row.asked = now;
        }
    }

    /// A client was told of a step-down while it held the lease: it must say so to whoever listens, unless the work is asked
    /// to end anyway.
    pub(super) fn told_to_step_down(&mut self, node: usize, holder: Holder) {
        let goes_on = |held: &Held| held.tenure.stopping().now_or_never().is_none();
        let asked = self.judge.believed(node).into_iter();
        let asked = asked.filter(|held| held.tenure.holder() == holder && goes_on(held));
        self.judge.asked_down[node].extend(asked.map(|held| lease_of(&held)));
    }

    /// What a client holds now that nothing is wrong any more it gives back, unless it is lost yet.
    pub(super) fn will_give_back(&mut self, node: usize) {
        self.judge.healed_at = self.now;
        let held = self.judge.believed(node).into_iter();
        self.judge.held_at_heal[node] = held.map(|held| lease_of(&held)).collect();
    }

    /// What it held then and has not lost is free. Those it has lost are `lost`.
    pub(super) fn has_given_back(&mut self, node: usize, lost: &BTreeSet<(&'static str, i64)>) {
        for (name, term) in std::mem::take(&mut self.judge.held_at_heal[node]) {
            let row = self.judge.rows.get(name);
            let is_kept = row.is_some_and(|row| row.term == term && row.expires_ms != 0);
            // A transaction that is left open may keep it from being given back, until its bound.
            let calm = self.judge.calm_since <= self.judge.healed_at;
            if calm && is_kept && !lost.contains(&(name, term)) {
                self.violate("a name that is let go is given back", &format!("client {node}: {name}"));
            }
        }
    }

    /// A client has given a name back: nothing of it may act under that claim any more.
    pub(super) fn released(&mut self, name: &str, holder: Holder) {
        if self.judge.cells(name).iter().any(|held| held.began && held.tenure.holder() == holder) {
            self.violate("a name is given back after its work", known(name));
        }
    }

    /// The database has freed a name.
    pub(super) fn freed(&mut self, name: &str, by: Option<Holder>) {
        if let Some(row) = self.judge.rows.get_mut(name)
            && by.is_none_or(|holder| row.holder == holder)
        {
            row.expires_ms = 0;
        }
        let Some(holder) = by else { return };
        let open: Vec<u64> = self
            .database
            .sessions()
            .filter(|(_, session)| session.holder == holder)
            .map(|(id, _)| *id)
            .collect();
        for id in open {
            if !self.judge.committing.contains(&id) && !self.judge.let_go.contains(&id) {
                self.violate("a name is given back after its transactions", known(name));
            }
        }
    }

    /// The database has committed a guarded transaction.
    pub(super) fn committed(&mut self, name: &str, holder: Holder) {
        self.count("guarded commits");
        let row = self.judge.rows.get(name).cloned();
        if row.is_none_or(|row| row.holder != holder) {
            self.violate("no guarded commit after a later claim", known(name));
        }
    }

    /// Whether work of this client carries a tenure.
    pub(super) fn is_carrying(&self, node: usize) -> bool {
        self.judge.held[node].iter().any(|held| held.strong_count() > 0)
    }

    fn expiry(&self) -> i64 {
        self.database.now_ms() + i64::try_from(self.setting.timings.ttl().as_millis()).unwrap_or(i64::MAX / 4)
    }

    /// Looks at what a client believes, after it has done all that it had to do now; `all_rang`: and every alarm that is due
    /// has rung.
    pub(super) fn look_over(&mut self, node: usize, all_rang: bool) {
        self.judge.held[node].retain(|held| held.strong_count() > 0);
        let cells: Vec<_> = self.judge.held[node].iter().filter_map(Weak::upgrade).collect();
        let well = !self.judge.standings[node].stalled;
        let mut leads = false;
        for held in cells {
            let name = known(held.tenure.name().as_str());
            leads |= name == LEADER;
            if held.tenure.check() {
                self.look_at_believer(node, &held, name);
            } else if well && all_rang && held.tenure.reason().is_none() {
                self.violate("a loss is told by its deadline", name);
            }
        }
        if leads {
            self.judge.standings[node].idle_since = self.now;
        }
    }

    fn look_at_believer(&mut self, node: usize, held: &Held, name: &'static str) {
        if name == LEADER {
            self.judge.led = self.now;
        }
        let Some(row) = self.judge.rows.get(name).cloned() else {
            self.violate("who believes has claimed", name);
            return;
        };
        let (holder, timings) = (held.tenure.holder(), self.setting.timings);
        let left = row.expires_ms - self.database.now_ms();
        let grace = i64::try_from(timings.grace().as_millis()).unwrap_or(0);
        if row.holder != holder {
            self.violate_unless_holes("at most one healthy believer", name);
        } else if left < grace {
            // By the deadline the grace must still lie before the expiry.
            self.violate_unless_holes(
                "the row outlives belief and grace",
                &format!("{name}: {left} ms left"),
            );
        }
        let pace = nanos(timings.renew().max(timings.attempt()) + timings.tick() * 2) / 100 * 104;
        let since = row.asked.max(self.judge.standings[node].well_since);
        if held.is_driven && row.holder == holder && self.now.saturating_sub(since) > pace {
            self.violate("renewals go out at their pace", name);
        }
    }

    /// Looks at the whole: `disturbed` says that a fault is at work.
    pub(super) fn look_at_all(&mut self, disturbed: bool) {
        let disturbed = disturbed || self.strays > 0 || self.has_stray_session();
        if disturbed {
            self.judge.calm_since = self.now;
        }
        let timings = self.setting.timings;
        let poll = if self.setting.hears { timings.campaign_interval() * 6 / 5 } else { timings.renew() };
        let bound = nanos(timings.ttl() + timings.margin() + poll + timings.attempt() * 2) / 100 * 104;
        // Who has led stands aside, and who failed waits a little.
        let aside = nanos(timings.campaign_interval() * 3 / 2 + timings.renew() * 3);
        let candidates = self.judge.standings.iter().filter(|it| it.runs && !it.stalled && !it.closing);
        let ready = candidates.map(|it| it.well_since.max(it.idle_since.saturating_add(aside))).min();
        let Some(ready) = ready else { return };
        let since = ready.max(self.judge.calm_since).max(self.judge.led);
        let free = self.now.saturating_sub(since);
        self.judge.slowest_return = self.judge.slowest_return.max(free * 1_000 / bound);
        if free > bound {
            self.violate("after a heal the name is held again", LEADER);
            self.judge.led = self.now;
        }
    }

    /// A session whose holder carries it no more, or waits for it no more.
    fn has_stray_session(&self) -> bool {
        self.database.sessions().next().is_some()
            && self.database.sessions().any(|(id, session)| {
                let cells = self.judge.cells(session.name.as_str());
                let is_carried = cells.iter().any(|held| held.tenure.holder() == session.holder);
                !is_carried || self.judge.let_go.contains(id) || self.judge.committing.contains(id)
            })
    }
}
