//! The figures by their names, as README.md promises them, and what they are set to.

use std::collections::HashMap;
use std::sync::Weak;
use std::time::Duration;

use metrics::{Label, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use super::Told;
use crate::state::{LeaseState, LossReason};
use crate::{LeaseName, Transition};

/// What is counted of each name by itself.
const COUNTED: [&str; 4] =
    ["lease_takeovers_total", "lease_handovers_total", "lease_step_down_requests_total", "lease_stuck_total"];

/// What is recorded of one client.
pub(super) struct Figures {
    /// On each figure.
    labels: Vec<Label>,
    /// What is held, by its name.
    held: HashMap<LeaseName, Held>,
    /// How many wait for a name.
    waiting: HashMap<LeaseName, u32>,
}

struct Held {
    id: u64,
    state: Weak<LeaseState>,
}

impl Figures {
    pub(super) fn new(labels: Vec<Label>) -> Self {
        Self { labels, held: HashMap::new(), waiting: HashMap::new() }
    }

    /// Records what has happened. What we go by ourselves comes before what a recorder is told, which may panic.
    pub(super) fn record(&mut self, told: &Told) {
        match told {
            Told::Wanted(name) => {
                if !self.held.contains_key(name) {
                    self.begin(name);
                }
            }
            Told::Claim { name, answer, took } => {
                counter!("lease_claims_total", self.of(name, Some(("answer", answer)))).increment(1);
                histogram!("lease_claim_duration_seconds", self.all("answer", answer)).record(*took);
            }
            Told::TakenOver(name) => counter!("lease_takeovers_total", self.of(name, None)).increment(1),
            Told::Granted { id, name, term, state } => {
                self.held.insert(name.clone(), Held { id: *id, state: Weak::clone(state) });
                if let Some(state) = state.upgrade() {
                    self.show(&state);
                }
                #[expect(clippy::cast_precision_loss, reason = "no name changes hands so often")]
                gauge!("lease_term", self.of(name, None)).set(term.get() as f64);
            }
            Told::Renewal { leases, answer, took } => {
                let labels = self.all("answer", answer);
                counter!("lease_renewals_total", labels.clone()).increment(count(*leases));
                histogram!("lease_renewal_duration_seconds", labels).record(*took);
            }
            Told::Changed { id, name, what } => self.changed(*id, name, what),
            Told::WaitBegins(name) => {
                *self.waiting.entry(name.clone()).or_default() += 1;
                self.show_waiting(name);
            }
            Told::WaitEnds { name, end, took } => {
                if let Some(waiting) = self.waiting.get_mut(name) {
                    *waiting = waiting.saturating_sub(1);
                }
                self.show_waiting(name);
                self.waiting.retain(|_, waiting| *waiting > 0);
                histogram!("lease_wait_duration_seconds", self.of(name, Some(("end", end)))).record(*took);
            }
        }
    }

    fn changed(&mut self, id: u64, name: &LeaseName, what: &Transition) {
        let figure = match what {
            // With more than this, as `Told::Granted`.
            Transition::Claimed => return,
            Transition::StepDownAsked => "lease_step_down_requests_total",
            Transition::Stuck => "lease_stuck_total",
            Transition::GivenBack => "lease_handovers_total",
            Transition::Lost(reason) => return self.lost(id, name, reason),
        };
        counter!(figure, self.of(name, None)).increment(1);
    }

    fn lost(&mut self, id: u64, name: &LeaseName, reason: &LossReason) {
        // This process may hold the name again by now.
        if self.held.get(name).is_none_or(|held| held.id == id) {
            self.held.remove(name);
            self.not_held(name);
        }
        if let Some(reason) = loss(reason) {
            counter!("lease_losses_total", self.of(name, Some(("reason", reason)))).increment(1);
        }
    }

    /// Looks at what is held: how old its last renewal is changes though nothing happens.
    pub(super) fn look(&mut self) {
        let mut gone = Vec::new();
        for (name, held) in &self.held {
            match held.state.upgrade() {
                Some(state) => self.show(&state),
                // Nobody had it in hand, and nobody tells that it was lost.
                None => gone.push(name.clone()),
            }
        }
        for name in gone {
            self.held.remove(&name);
            self.not_held(&name);
        }
        for name in self.waiting.keys() {
            self.show_waiting(name);
        }
    }

    /// The client is gone, and with it all that it held.
    pub(super) fn end(&mut self) {
        for name in self.held.keys() {
            self.not_held(name);
        }
    }

    fn show_waiting(&self, name: &LeaseName) {
        let waiting = self.waiting.get(name).copied().unwrap_or_default();
        gauge!("lease_waiting", self.of(name, None)).set(waiting);
    }

    fn show(&self, state: &LeaseState) {
        let health = state.health();
        let since = if health.held { health.renewed_ago } else { Duration::ZERO };
        gauge!("lease_held", self.of(&state.name, None)).set(f64::from(u8::from(health.held)));
        gauge!("lease_seconds_since_renewal", self.of(&state.name, None)).set(since);
    }

    /// What is counted of a name is there from the beginning: who looks for an increase does not see the first otherwise.
    fn begin(&self, name: &LeaseName) {
        self.not_held(name);
        for reason in ["deadline", "refused", "replaced"] {
            counter!("lease_losses_total", self.of(name, Some(("reason", reason)))).increment(0);
        }
        for answer in ["granted", "held", "failed"] {
            counter!("lease_claims_total", self.of(name, Some(("answer", answer)))).increment(0);
        }
        for figure in COUNTED {
            counter!(figure, self.of(name, None)).increment(0);
        }
    }

    fn not_held(&self, name: &LeaseName) {
        gauge!("lease_held", self.of(name, None)).set(0.0);
        gauge!("lease_seconds_since_renewal", self.of(name, None)).set(0.0);
    }

    /// The labels of a figure of one lease.
    fn of(&self, name: &LeaseName, also: Option<(&'static str, &'static str)>) -> Vec<Label> {
        let own = [Label::new("lease", name.as_str().to_owned())];
        let also = also.map(|(key, value)| Label::from_static_parts(key, value));
        own.into_iter().chain(also).chain(self.labels.iter().cloned()).collect()
    }

    /// The labels of a figure of all leases together.
    fn all(&self, key: &'static str, value: &'static str) -> Vec<Label> {
        let own = [Label::from_static_parts(key, value)];
        own.into_iter().chain(self.labels.iter().cloned()).collect()
    }
}

/// `None`: it was given up, which is no loss.
fn loss(reason: &LossReason) -> Option<&'static str> {
    match reason {
        LossReason::Refused => Some("refused"),
        LossReason::Deadline { .. } => Some("deadline"),
        LossReason::Replaced(_) => Some("replaced"),
        LossReason::Released => None,
    }
}

fn count(leases: usize) -> u64 {
    u64::try_from(leases).unwrap_or(u64::MAX)
}

pub(super) fn describe() {
    describe_gauge!("lease_held", Unit::Count, "1 while this process holds the lease, else 0");
    describe_gauge!("lease_term", Unit::Count, "The term under which this process held the lease last");
    describe_gauge!(
        "lease_seconds_since_renewal",
        Unit::Seconds,
        "How long ago the last successful renewal of a held lease began, by the local clock; 0 when it is not held"
    );
    describe_counter!("lease_claims_total", Unit::Count, "Claims sent, by their answer");
    describe_histogram!("lease_claim_duration_seconds", Unit::Seconds, "From sending a claim to its answer");
    describe_counter!("lease_takeovers_total", Unit::Count, "Leases taken from a holder proven dead");
    describe_counter!("lease_renewals_total", Unit::Count, "Leases asked to be renewed, by the answer");
    describe_histogram!(
        "lease_renewal_duration_seconds",
        Unit::Seconds,
        "From the start of an attempt to renew to its answer, however many leases it is for"
    );
    describe_counter!("lease_losses_total", Unit::Count, "Leases lost, by the reason");
    describe_counter!("lease_handovers_total", Unit::Count, "Leases given back, free for the next at once");
    describe_counter!("lease_step_down_requests_total", Unit::Count, "Requests to this process to step down");
    describe_counter!(
        "lease_stuck_total",
        Unit::Count,
        "Work that ran on after its lease and grace had ended"
    );
    describe_gauge!("lease_waiting", Unit::Count, "How many wait for the lease in this process");
    describe_histogram!(
        "lease_wait_duration_seconds",
        Unit::Seconds,
        "From the start of a wait for a lease to its end, by how it ended"
    );
}

#[cfg(test)]
mod tests {
    /// Every name that stands in this file, once.
    fn recorded() -> Vec<&'static str> {
        let code = include_str!("figures.rs").split("#[cfg(test)]").next().unwrap();
        let mut names: Vec<_> = code.split('"').filter(|text| text.starts_with("lease_")).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    #[test]
    fn the_front_page_lists_every_figure_and_none_that_is_not_recorded() {
        let page = include_str!("../../README.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `lease_")?.split('`').next());
        let mut listed: Vec<_> = rows.map(|name| format!("lease_{name}")).collect();
        listed.sort_unstable();
        assert_eq!(listed, recorded());
    }
}
