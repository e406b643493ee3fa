//! Each rule broken, in the ways there are: it is found, and by that rule alone.

use std::collections::BTreeSet;

use lease_testkit::rounds::Rule;

use crate::logs::Case;

const CASES: &[(Rule, Case)] = &[
    (
        Rule::FirstTwice,
        Case {
            what: "an instant that was finished is granted once more",
            log: "
                1000 w1 ran R @1000 t1
                1050 w2 ran R @1000 t2
                2000 w1 ran R @2000 t3
                3000 w1 ran R @3000 t4",
            row: [4, 3000, 0, 0],
        },
    ),
    (
        Rule::RerunTwice,
        Case {
            what: "a round runs a third time",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                1002 w1 killed
                1101 w2 begin R @1000 t2 asked=1100 rerun
                1102 w2 killed
                1200 w3 ran R @1000 t3 rerun
                2000 w3 ran R @2000 t4
                3000 w3 ran R @3000 t5",
            row: [5, 3000, 0, 1000],
        },
    ),
    (
        Rule::RerunOfFinished,
        Case {
            what: "a finished round runs again",
            log: "
                1000 w1 ran R @1000 t1
                1100 w2 ran R @1000 t2 rerun
                2000 w2 ran R @2000 t3
                3000 w2 ran R @3000 t4",
            row: [4, 3000, 0, 1000],
        },
    ),
    (
        Rule::RerunOfFinished,
        Case {
            what: "a round recorded as finished when its lease was lost is claimed again later",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                1020 w1 end R @1000 t1
                1030 w1 lost-recorded R @1000 t1
                2000 w1 ran R @2000 t2
                3001 w1 begin R @3000 t3 asked=3000
                3020 w1 end R @3000 t3
                3030 w1 lost-recorded R @3000 t3
                3030 w2 ran R @3000 t4 rerun",
            row: [4, 3000, 0, 3000],
        },
    ),
    (
        Rule::EndedTwice,
        Case {
            what: "an end is given back as cut short, and reached again",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                1020 w1 end R @1000 t1
                1030 w1 cut R @1000 t1
                1100 w2 ran R @1000 t2 rerun
                2000 w2 ran R @2000 t3
                3000 w2 ran R @3000 t4",
            row: [4, 3000, 0, 1000],
        },
    ),
    (
        Rule::Older,
        Case {
            what: "an instant begins that was skipped",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                2020 w1 end R @1000 t1
                2021 w1 skip R @1000 t1 upto=2000
                2030 w1 finished R @1000 t1
                2040 w1 ran R @2000 t2
                3000 w1 ran R @3000 t3",
            row: [3, 3000, 0, 0],
        },
    ),
    (
        Rule::Older,
        Case {
            what: "a round runs again that was given up for a later instant",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                1002 w1 killed
                2000 w2 ran R @2000 t2 superseded=1000
                2040 w2 ran R @1000 t3 rerun
                3000 w2 ran R @3000 t4",
            row: [4, 3000, 0, 0],
        },
    ),
    (
        Rule::PassedOver,
        Case {
            what: "an instant is passed over that nobody skipped",
            log: "
                1000 w1 ran R @1000 t1
                3000 w1 ran R @3000 t2",
            row: [2, 3000, 0, 0],
        },
    ),
    (
        Rule::PassedOver,
        Case {
            what: "a round runs again that nobody claimed first",
            log: "
                1000 w1 ran R @1000 t1
                2000 w1 ran R @2000 t2 rerun
                3000 w1 ran R @3000 t3",
            row: [3, 3000, 0, 2000],
        },
    ),
    (
        Rule::PassedOver,
        Case {
            what: "an instant is skipped by a round that was cut short",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                2021 w1 skip R @1000 t1 upto=2000
                2022 w1 killed
                3000 w2 ran R @3000 t2",
            row: [2, 3000, 0, 0],
        },
    ),
    (
        Rule::Superseded,
        Case {
            what: "a round given up is not named",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                1002 w1 killed
                2000 w2 ran R @2000 t2
                3000 w2 ran R @3000 t3",
            row: [3, 3000, 0, 0],
        },
    ),
    (
        Rule::Superseded,
        Case {
            what: "a round that came to its end, and was given back as cut short, is not named",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                1010 w1 end R @1000 t1
                1020 w1 cut R @1000 t1
                2000 w1 ran R @2000 t2
                3000 w1 ran R @3000 t3",
            row: [3, 3000, 0, 0],
        },
    ),
    (
        Rule::Superseded,
        Case {
            what: "another instant is named than the one given up",
            log: "
                1000 w1 ran R @1000 t1
                2001 w1 begin R @2000 t2 asked=2000
                2002 w1 killed
                3000 w2 ran R @3000 t3 superseded=1000",
            row: [3, 3000, 0, 0],
        },
    ),
    (
        Rule::Superseded,
        Case {
            what: "a round given up is named as if it had run again",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                1002 w1 killed
                2000 w2 ran R @2000 t2 superseded-rerun=1000
                3000 w2 ran R @3000 t3",
            row: [3, 3000, 0, 0],
        },
    ),
    (
        Rule::Superseded,
        Case {
            what: "a rerun given up is named as if it had not run again",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                1002 w1 killed
                1101 w2 begin R @1000 t2 asked=1100 rerun
                1102 w2 killed
                2000 w3 ran R @2000 t3 superseded=1000
                3000 w3 ran R @3000 t4",
            row: [4, 3000, 0, 1000],
        },
    ),
    (
        Rule::Superseded,
        Case {
            what: "a rerun names an instant",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                1002 w1 killed
                1100 w2 ran R @1000 t2 rerun superseded=1000
                2000 w2 ran R @2000 t3
                3000 w2 ran R @3000 t4",
            row: [4, 3000, 0, 1000],
        },
    ),
    (
        Rule::Superseded,
        Case {
            what: "a finished round is named as given up",
            log: "
                1000 w1 ran R @1000 t1
                2000 w1 ran R @2000 t2 superseded=1000
                3000 w1 ran R @3000 t3",
            row: [3, 3000, 0, 0],
        },
    ),
    (
        Rule::Terms,
        Case {
            what: "a term begins when a later one has begun",
            log: "
                2000 w2 ran R @2000 t2 superseded=1000
                2020 w1 begin R @1000 t1 asked=1000
                2021 w1 killed
                3000 w2 ran R @3000 t3",
            row: [3, 3000, 0, 0],
        },
    ),
    (
        Rule::Terms,
        Case {
            what: "a term is granted to two workers",
            log: "
                1000 w1 ran R @1000 t1
                2000 w1 ran R @2000 t2
                3000 w1 ran R @3000 t3
                3001 w2 begin R @3000 t3 asked=3000",
            row: [3, 3000, 0, 0],
        },
    ),
    (
        Rule::Terms,
        Case {
            what: "a term begins twice",
            log: "
                1000 w1 ran R @1000 t1
                2000 w1 ran R @2000 t2
                2001 w1 begin R @2000 t2 asked=2000
                3000 w1 ran R @3000 t3",
            row: [3, 3000, 0, 0],
        },
    ),
    (
        Rule::Overlap,
        Case {
            what: "a killed round was held after its rerun had begun",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                1100 w2 ran R @1000 t2 rerun
                1105 w1 held R @1000 t1
                1106 w1 killed
                2000 w2 ran R @2000 t3
                3000 w2 ran R @3000 t4",
            row: [4, 3000, 0, 1000],
        },
    ),
    (
        Rule::Overlap,
        Case {
            what: "a round ends, its lease held, after the next has begun, and its line comes before",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                2005 w1 end R @1000 t1
                2000 w2 ran R @2000 t2
                2020 w1 lost R @1000 t1
                3000 w2 ran R @3000 t3",
            row: [3, 3000, 0, 0],
        },
    ),
    (
        Rule::Unclaimed,
        Case {
            what: "a term is missing, and whoever died was gone long before or came after",
            log: "
                100 w1 started pid=1
                1000 w1 ran R @1000 t1
                1020 w1 killed
                4001 w2 begin R @2000 t2 asked=4000
                4020 w2 cut R @2000 t2
                5000 w2 ran R @3000 t4 superseded-rerun=2000
                5100 w3 started pid=3
                5101 w3 killed",
            row: [4, 3000, 0, 2000],
        },
    ),
    (
        Rule::Unclaimed,
        Case {
            what: "two terms are missing, and one worker has died",
            log: "
                1001 w1 killed
                2000 w2 ran R @2000 t3 superseded-rerun=1000
                3000 w2 ran R @3000 t4",
            row: [4, 3000, 0, 1000],
        },
    ),
    (
        Rule::Unclaimed,
        Case {
            what: "the last term is missing, and the claim that failed was of another name",
            log: "
                1000 w1 ran R @1000 t1
                2000 w1 ran R @2000 t2
                2020 w1 unsure other
                3001 w1 begin R @3000 t3 asked=3000
                3020 w1 cut R @3000 t3",
            row: [4, 3000, 3000, 3000],
        },
    ),
    (
        Rule::Unanswered,
        Case {
            what: "a round of whose end nobody says anything",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                1020 w2 killed
                2000 w1 ran R @2000 t2 superseded=1000
                3000 w1 ran R @3000 t3",
            row: [3, 3000, 0, 0],
        },
    ),
    (
        Rule::Unended,
        Case {
            what: "a round is finished without having come to its end",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                1030 w1 finished R @1000 t1
                2000 w1 ran R @2000 t2
                3000 w1 ran R @3000 t3",
            row: [3, 3000, 0, 0],
        },
    ),
    (
        Rule::Row,
        Case {
            what: "the row has forgotten that the last round is unfinished",
            log: "
                1000 w1 ran R @1000 t1
                2000 w1 ran R @2000 t2
                3001 w1 begin R @3000 t3 asked=3000
                3020 w1 killed",
            row: [3, 3000, 0, 0],
        },
    ),
    (
        Rule::Row,
        Case {
            what: "the row says that the last round ran again",
            log: "
                1000 w1 ran R @1000 t1
                2000 w1 ran R @2000 t2
                3000 w1 ran R @3000 t3",
            row: [3, 3000, 0, 3000],
        },
    ),
    (
        Rule::Row,
        Case {
            what: "an instant is unfinished that is not the last",
            log: "
                1000 w1 ran R @1000 t1
                2000 w1 ran R @2000 t2
                3000 w1 ran R @3000 t3",
            row: [3, 3000, 2000, 0],
        },
    ),
    (
        Rule::Row,
        Case {
            what: "the term of the row is an earlier one",
            log: "
                1000 w1 ran R @1000 t1
                2000 w1 ran R @2000 t2
                3000 w1 ran R @3000 t3",
            row: [2, 3000, 0, 0],
        },
    ),
    (
        Rule::Row,
        Case {
            what: "an instant is on record that is not in the plan",
            log: "
                1000 w1 ran R @1000 t1
                2000 w1 ran R @2000 t2
                3000 w1 ran R @3000 t3",
            row: [3, 4000, 0, 0],
        },
    ),
    (
        Rule::Row,
        Case {
            what: "the row has forgotten an end that was recorded when the lease was lost",
            log: "
                1000 w1 ran R @1000 t1
                2000 w1 ran R @2000 t2
                3001 w1 begin R @3000 t3 asked=3000
                3002 w1 cut R @3000 t3
                3101 w1 begin R @3000 t4 asked=3100 rerun
                3110 w1 end R @3000 t4
                3120 w1 lost-recorded R @3000 t4",
            row: [4, 3000, 3000, 3000],
        },
    ),
    (
        Rule::Unsettled,
        Case {
            what: "the last instant was never claimed",
            log: "
                1000 w1 ran R @1000 t1
                2000 w1 ran R @2000 t2",
            row: [2, 2000, 0, 0],
        },
    ),
    (
        Rule::Unsettled,
        Case {
            what: "the last round was cut short and not run again",
            log: "
                1000 w1 ran R @1000 t1
                2000 w1 ran R @2000 t2
                3001 w1 begin R @3000 t3 asked=3000
                3020 w1 cut R @3000 t3",
            row: [3, 3000, 3000, 0],
        },
    ),
    (Rule::Unsettled, Case { what: "nothing was ever claimed", log: "", row: [0, 0, 0, 0] }),
    (
        Rule::Strange,
        Case {
            what: "an instant that is not in the plan",
            log: "
                1000 w1 ran R @1000 t1
                2000 w1 ran R @2000 t2
                3000 w1 ran R @3000 t3
                3500 w1 held R @3500 t4",
            row: [3, 3000, 0, 0],
        },
    ),
    (
        Rule::Strange,
        Case {
            what: "two words of what became of a round",
            log: "
                1000 w1 ran R @1000 t1
                1050 w1 unrecorded R @1000 t1
                2000 w1 ran R @2000 t2
                3000 w1 ran R @3000 t3",
            row: [3, 3000, 0, 0],
        },
    ),
    (
        Rule::Strange,
        Case {
            what: "an end that is said twice",
            log: "
                1000 w1 ran R @1000 t1
                1010 w1 end R @1000 t1
                2000 w1 ran R @2000 t2
                3000 w1 ran R @3000 t3",
            row: [3, 3000, 0, 0],
        },
    ),
    (
        Rule::Strange,
        Case {
            what: "a term of two instants",
            log: "
                1000 w1 ran R @1000 t1
                1010 w1 held R @2000 t1
                2000 w1 ran R @2000 t2
                3000 w1 ran R @3000 t3",
            row: [3, 3000, 0, 0],
        },
    ),
    (
        Rule::Strange,
        Case {
            what: "a lease lost before its work began, of an instant that was finished",
            log: "
                1000 w1 ran R @1000 t1
                1050 w2 cut R @1000 t2
                2000 w1 ran R @2000 t3 superseded-rerun=1000
                3000 w1 ran R @3000 t4",
            row: [4, 3000, 0, 1000],
        },
    ),
    (
        Rule::Strange,
        Case {
            what: "an instant is skipped that is none of the plan's",
            log: "
                1000 w1 ran R @1000 t1
                1020 w1 skip R @1000 t1 upto=2500
                2000 w1 ran R @2000 t2
                3000 w1 ran R @3000 t3",
            row: [3, 3000, 0, 0],
        },
    ),
];

#[test]
fn each_rule_broken_is_found_by_that_rule_and_no_other() {
    for (rule, case) in CASES {
        let checked = case.check();
        let broken: BTreeSet<Rule> = checked.violations.iter().map(|violation| violation.rule).collect();
        let said: Vec<String> = checked.violations.iter().map(ToString::to_string).collect();
        assert_eq!(broken, [*rule].into(), "{}: {}", case.what, said.join("\n"));
    }
}

#[test]
fn every_rule_is_broken_by_a_case() {
    let broken: BTreeSet<Rule> = CASES.iter().map(|(rule, _)| *rule).collect();
    assert_eq!(broken.len(), Rule::Strange as usize + 1, "{broken:?}");
}
