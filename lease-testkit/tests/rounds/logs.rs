//! Logs as they are written in these tests, and rows.

use std::collections::BTreeMap;
use std::time::Duration;

use lease_core::store::{DbTime, SlotRow};
use lease_core::{LeaseName, Slot, Term};
use lease_testkit::rounds::{Checked, Entry, Plan, check};

/// One name, `rounds-0`, with the instants 1000, 2000 and 3000, and leases of 100 ms.
pub(crate) fn plan() -> Plan {
    let ttl = Duration::from_millis(100);
    Plan { seed: 0, names: 1, instants: 3, first_ms: 1_000, every_ms: 1_000, ttl }
}

/// A log, and the row at the end: term, last instant, unfinished and rerun, 0 for none.
pub(crate) struct Case {
    pub(crate) what: &'static str,
    pub(crate) log: &'static str,
    pub(crate) row: [i64; 4],
}

impl Case {
    pub(crate) fn check(&self) -> Checked {
        self.check_held_until(DbTime::RELEASED)
    }

    /// With a row that is held until then.
    pub(crate) fn check_held_until(&self, expires_at: DbTime) -> Checked {
        let log: Vec<Entry> = self.log.lines().flat_map(|line| self.entries(line.trim())).collect();
        let [term, last, unfinished, rerun] = self.row;
        let row = Term::new(term).map(|term| SlotRow {
            term,
            expires_at,
            last: Slot::from_millis(last),
            unfinished: Slot::from_millis(unfinished),
            rerun: Slot::from_millis(rerun),
        });
        let name: LeaseName = "rounds-0".parse().unwrap();
        let rows: BTreeMap<LeaseName, SlotRow> = row.map(|row| (name, row)).into_iter().collect();
        check(&plan(), &log, &rows)
    }

    /// `R` stands for the name. `1000 w1 ran R @1000 t1`, and more words if need be, for a round asked for at 1000 that
    /// runs to its end and is finished; `stood` behind a line for one before it that says that its worker stood still.
    fn entries(&self, line: &str) -> Vec<Entry> {
        let line = line.replace('R', "rounds-0");
        let lines = match line.split(' ').collect::<Vec<_>>()[..] {
            [""] => vec![],
            [at, worker, "ran", name, slot, term, ref more @ ..] => {
                let asked: i64 = at.parse().unwrap();
                let (more, round) = (more.join(" "), format!("{name} {slot} {term}"));
                vec![
                    format!("{} {worker} begin {round} asked={asked} {more}", asked + 1),
                    format!("{} {worker} end {round}", asked + 10),
                    format!("{} {worker} finished {round}", asked + 12),
                ]
            }
            [at, worker, .., "stood"] => {
                vec![format!("{at} {worker} stood ms=25"), line.trim_end_matches(" stood").to_owned()]
            }
            _ => vec![line],
        };
        let parsed = lines.iter().map(|line| line.parse());
        parsed.collect::<Result<_, _>>().unwrap_or_else(|problem| panic!("{}: {problem}", self.what))
    }
}
