//! The rules of claims broken, in the ways there are.

use lease_testkit::rounds::Rule;

use crate::logs::Case;

pub(crate) const CASES: &[(Rule, Case)] = &[
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
                1030 w1 lost-recorded R @1000 t1 stood
                2000 w1 ran R @2000 t2
                3001 w1 begin R @3000 t3 asked=3000
                3020 w1 end R @3000 t3
                3030 w1 lost-recorded R @3000 t3 stood
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
                1030 w1 cut R @1000 t1 stood
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
                1020 w1 cut R @1000 t1 stood
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
];
