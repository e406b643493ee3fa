//! Of one name, no two leases are believed at the same moment.
//!
//! Only moments count at which `Tenure::check` answered true, or between two at which it did (a lost lease never comes
//! back). All are of the one clock of the machine, so no bound of clocks is needed. A process that is stopped says nothing; if it is
//! believed before and after, it was held meanwhile.

use std::collections::BTreeMap;

use lease_core::LeaseName;

use super::facts::{Facts, seconds};
use super::{Report, Rule, limits};
use crate::history::{Entry, Event, LeaseId};

struct Belief<'a> {
    lease: &'a LeaseId,
    since: u64,
    until: u64,
    line: &'a Entry,
}

pub(super) fn check(facts: &Facts<'_>, report: &mut Report) {
    let mut names: BTreeMap<&LeaseName, Vec<Belief<'_>>> = BTreeMap::new();
    for line in facts.entries {
        if let Event::Believed { lease, since, until } = &line.event {
            let belief = Belief { lease, since: *since, until: *until, line };
            names.entry(&lease.name).or_default().push(belief);
        }
    }
    for (name, mut beliefs) in names {
        beliefs.sort_by_key(|belief| belief.since);
        let mut told: Option<(&LeaseId, &LeaseId)> = None;
        let mut last: Option<usize> = None;
        for here in 0..beliefs.len() {
            let belief = &beliefs[here];
            if let Some(before) = last.map(|last| &beliefs[last])
                && before.lease != belief.lease
                && before.until >= belief.since
                && told != Some((before.lease, belief.lease))
            {
                told = Some((before.lease, belief.lease));
                let room = facts.setting(before.line).map_or(0, |setting| setting.grace + setting.margin);
                if limits::two_may_believe(facts, belief.since, room) || facts.is_edited(name.as_str()) {
                    report.summary.excused_believers += 1;
                } else {
                    let what = format!(
                        "at {} both term {} and term {} of {name} are believed",
                        seconds(facts, belief.since),
                        before.lease.term,
                        belief.lease.term
                    );
                    report.violation(Rule::Believers, what, [before.line, belief.line]);
                }
            }
            // The one that reaches furthest, for the next may overlap with that.
            if last.is_none_or(|last| beliefs[last].until < belief.until) {
                last = Some(here);
            }
        }
    }
}
