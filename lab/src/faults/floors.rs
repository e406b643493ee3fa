//! What a run must have had to be worth something.

use std::time::Duration;

use super::backend::Backend;
use super::command::NIGHTLY;
use super::jobs::{FLOOR, HISTORIES, LEAST, Tier, commit_floor};
use super::kind::Kind;
use super::report::{Count, Report, Told};

/// What a tier demands of these engines and kinds and was not reached.
pub(crate) fn floors(tier: Tier, histories: &[Told], backends: &[Backend], kinds: &[Kind]) -> Vec<String> {
    let (count, least) = match tier {
        Tier::Commit => (HISTORIES, LEAST),
        Tier::Nightly => (NIGHTLY as usize, Duration::from_secs(60)),
        // Its length is all of it.
        Tier::Release => return Vec::new(),
    };
    let counts = Report::counts(histories);
    let mut below = Vec::new();
    for backend in backends {
        let name = backend.name();
        let long = histories.iter().filter(|told| told.backend == name && told.seconds >= least.as_secs());
        if long.count() < count {
            below.push(format!("{name}: fewer than {count} histories of {least:?}"));
        }
        for kind in Kind::of(*backend).into_iter().filter(|kind| kinds.contains(kind)) {
            let floor = if tier == Tier::Commit { commit_floor(*backend, kind) } else { FLOOR };
            let of_it = counts.get(name).and_then(|counts| counts.get(kind.name()));
            let Count { injected, guard_open, round_running } = of_it.copied().unwrap_or_default();
            if injected < floor || guard_open == 0 || round_running == 0 {
                below.push(format!(
                    "{name}: {} injected {injected} times of {floor}, {guard_open} with an open guard, {round_running} with a running round",
                    kind.name()
                ));
            }
        }
    }
    below
}

/// Engines of which too much was not judged: more than a tenth of the names by the register (one may be whatever there are), or more of the
/// names at a heal than were.
pub(crate) fn not_judged(histories: &[Told], backends: &[Backend]) -> Vec<String> {
    let mut below = Vec::new();
    for backend in backends {
        let name = backend.name();
        let of_it = || histories.iter().filter(|told| told.backend == name).map(|told| &told.summary);
        let sum = |of: fn(&crate::check::Summary) -> (usize, usize)| {
            of_it().map(of).fold((0, 0), |sum, (judged, not)| (sum.0 + judged, sum.1 + not))
        };
        let (judged, not) = sum(|summary| summary.names_judged);
        if not > 1 + (judged + not) / 10 || judged == 0 {
            below.push(format!("{name}: {not} names of {} were not judged by the register", judged + not));
        }
        let (judged, not) = sum(|summary| summary.recoveries);
        if not > judged || judged == 0 {
            below.push(format!("{name}: {not} names at heals of {} were not judged", judged + not));
        }
    }
    below
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A history in which each of these kinds came so often.
    fn told(kinds: &[Kind], injected: u64) -> Told {
        let count = Count { injected, guard_open: 1, round_running: 1 };
        let mut told = Told { backend: "mysql", seconds: 30, ..Told::default() };
        told.kinds = kinds.iter().map(|kind| (kind.name(), count)).collect::<BTreeMap<_, _>>();
        (told.summary.names_judged, told.summary.recoveries) = ((4, 0), (20, 10));
        told
    }

    #[test]
    fn a_tier_demands_its_histories_and_kinds_with_a_guard_and_a_round_open() {
        let kinds = [Kind::Cut, Kind::ServerKill];
        let commit = |histories: &[Told]| floors(Tier::Commit, histories, &[Backend::Mysql], &kinds);
        let enough = [told(&kinds, 10), told(&kinds, 10), told(&[], 0)];
        assert_eq!(commit(&enough), [""; 0]);
        assert_eq!(commit(&enough[..2]), ["mysql: fewer than 3 histories of 30s"]);
        assert_eq!(commit(&[told(&kinds, 10), told(&kinds[1..], 10), told(&[], 0)]).len(), 1);
        let mut idle = enough.clone();
        idle.iter_mut().flat_map(|told| told.kinds.values_mut()).for_each(|count| count.guard_open = 0);
        assert_eq!(commit(&idle).len(), 2);
        // The nightly tier has no lower floor for what takes long.
        let nightly = vec![Told { seconds: 60, ..told(&kinds, 0) }; 50];
        let one = |injected| Told { seconds: 60, ..told(&kinds, injected) };
        let below = |injected| {
            let histories: Vec<_> = nightly.iter().cloned().chain([one(injected)]).collect();
            floors(Tier::Nightly, &histories, &[Backend::Mysql], &kinds).len()
        };
        assert_eq!((below(20), below(19)), (0, 2));
    }

    #[test]
    fn what_was_mostly_not_judged_does_not_pass() {
        let judged = |histories: &[Told]| not_judged(histories, &[Backend::Mysql]).len();
        assert_eq!(judged(&[told(&[], 0)]), 0);
        let with = |names, recoveries| {
            let mut told = told(&[], 0);
            (told.summary.names_judged, told.summary.recoveries) = (names, recoveries);
            judged(&[told])
        };
        assert_eq!(with((3, 1), (10, 10)), 0);
        assert_eq!(with((2, 2), (10, 10)), 1);
        assert_eq!(with((18, 3), (10, 10)), 0);
        assert_eq!(with((17, 4), (10, 11)), 2);
        assert_eq!(with((0, 0), (0, 0)), 2);
    }
}
