//! Each rule broken, in the ways there are: it is found, and by that rule alone.

use std::collections::BTreeSet;

use lease_core::store::DbTime;
use lease_testkit::rounds::Rule;

use crate::logs::Case;
use crate::{broken_claims, broken_words};

#[test]
fn each_rule_broken_is_found_by_that_rule_and_no_other() {
    for (rule, case) in broken_claims::CASES.iter().chain(broken_words::CASES) {
        let checked = case.check();
        let broken: BTreeSet<Rule> = checked.violations.iter().map(|violation| violation.rule).collect();
        let said: Vec<String> = checked.violations.iter().map(ToString::to_string).collect();
        assert_eq!(broken, [*rule].into(), "{}: {}", case.what, said.join("\n"));
    }
}

#[test]
fn every_rule_is_broken_by_a_case() {
    let broken: BTreeSet<Rule> =
        broken_claims::CASES.iter().chain(broken_words::CASES).map(|(rule, _)| *rule).collect();
    assert_eq!(broken.len(), Rule::Strange as usize + 1, "{broken:?}");
}

#[test]
fn a_row_that_is_held_at_the_end_breaks_a_rule() {
    let case = Case {
        what: "each instant runs to its end",
        log: "
            1000 w1 ran R @1000 t1
            2000 w1 ran R @2000 t2
            3000 w1 ran R @3000 t3
            3100 w1 done",
        row: [3, 3000, 0, 0],
    };
    let broken = |until| {
        let checked = case.check_held_until(DbTime::from_millis(until));
        checked.violations.iter().map(|violation| violation.rule).collect::<Vec<_>>()
    };
    assert_eq!(broken(3_150), []);
    assert_eq!(broken(3_151), [Rule::Row]);
}
