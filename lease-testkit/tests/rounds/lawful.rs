//! What the rules allow: each case says what becomes of the instants, too.

use lease_testkit::rounds::Account;

use crate::logs::Case;

/// What becomes of the instants: ended, ended by their rerun, ended twice, given up, skipped.
const CASES: &[([u32; 5], Case)] = &[
    (
        [3, 0, 0, 0, 0],
        Case {
            what: "each instant runs to its end once, by one worker or another",
            log: "
                100 w1 started pid=1
                100 w2 started pid=2
                1001 w1 begin R @1000 t1 asked=1000
                1010 w1 held R @1000 t1
                1020 w1 end R @1000 t1
                1030 w1 finished R @1000 t1
                2000 w2 ran R @2000 t2
                3000 w1 ran R @3000 t3
                3100 w1 killed
                3100 w2 done",
            row: [3, 3000, 0, 0],
        },
    ),
    (
        [2, 1, 0, 0, 0],
        Case {
            what: "a round that is killed runs again",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                1010 w1 held R @1000 t1
                1011 w1 killed
                1100 w2 ran R @1000 t2 rerun
                2000 w2 ran R @2000 t3
                3000 w2 ran R @3000 t4",
            row: [4, 3000, 0, 1000],
        },
    ),
    (
        [1, 0, 0, 2, 0],
        Case {
            what: "a round that is killed is given up, and so is a rerun that is killed",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                1011 w1 killed
                2001 w2 begin R @2000 t2 asked=2000 superseded=1000
                2011 w2 died
                2101 w3 begin R @2000 t3 asked=2100 rerun
                2111 w3 killed
                3000 w4 ran R @3000 t4 superseded-rerun=2000",
            row: [4, 3000, 0, 2000],
        },
    ),
    (
        [2, 0, 1, 0, 0],
        Case {
            what: "an end that could not be recorded is reached twice, the last time at the end of the schedule",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                1020 w1 end R @1000 t1
                1021 w1 killed
                1100 w2 ran R @1000 t2 rerun
                2001 w2 begin R @2000 t3 asked=2000
                2020 w2 end R @2000 t3
                2021 w2 killed
                3001 w3 begin R @3000 t4 asked=3000
                3020 w3 end R @3000 t4
                3030 w3 unrecorded R @3000 t4 stood
                3101 w3 begin R @3000 t5 asked=3100 rerun
                3111 w3 killed",
            row: [5, 3000, 3000, 3000],
        },
    ),
    (
        [2, 0, 0, 1, 0],
        Case {
            what: "an end whose answer died with the worker is given up by the next instant, or was recorded",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                1020 w1 end R @1000 t1
                1021 w1 killed
                2001 w2 begin R @2000 t2 asked=2000 superseded=1000
                2002 w2 killed
                3001 w3 begin R @3000 t3 asked=3000 superseded=2000
                3020 w3 end R @3000 t3
                3021 w3 killed",
            row: [3, 3000, 0, 0],
        },
    ),
    (
        [2, 1, 0, 0, 0],
        Case {
            what: "an instant that was claimed without a word runs again",
            log: "
                100 w1 started pid=1
                900 w1 ask R
                901 w1 refused R asked=900
                1001 w1 ask R
                1011 w1 killed
                1100 w2 ran R @1000 t2 rerun
                2000 w2 ran R @2000 t3
                3000 w2 ran R @3000 t4",
            row: [4, 3000, 0, 1000],
        },
    ),
    (
        [0, 0, 0, 3, 0],
        Case {
            what: "an instant, a rerun and the last ones of the schedule that were claimed without a word",
            log: "
                100 w1 started pid=1
                1001 w1 ask R
                1011 w1 unsure R asked=1001
                2000 w1 ask R
                2001 w1 begin R @2000 t2 asked=2000 superseded=1000
                2005 w1 cut R @2000 t2 stood
                2006 w2 started pid=2
                2006 w2 ask R
                2007 w2 unsure R asked=2006
                2011 w3 started pid=3
                3001 w3 ask R
                3011 w3 died
                3012 w4 started pid=4
                3013 w4 ask R
                3020 w4 killed",
            row: [5, 3000, 3000, 3000],
        },
    ),
    (
        [1, 0, 0, 1, 1],
        Case {
            what: "a round skips the next instant, one that is not sure to have skipped does not",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                2020 w1 end R @1000 t1
                2021 w1 skip R @1000 t1 upto=2000
                2030 w1 finished R @1000 t1
                3001 w1 begin R @3000 t2 asked=3000
                3002 w1 killed
                3101 w2 begin R @3000 t3 asked=3100 rerun
                3102 w2 killed",
            row: [3, 3000, 3000, 3000],
        },
    ),
    (
        [2, 0, 0, 0, 1],
        Case {
            what: "a skip whose answer died with the worker has taken effect",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                2020 w1 end R @1000 t1
                2021 w1 skip R @1000 t1 upto=2000
                2022 w1 killed
                3000 w2 ran R @3000 t2",
            row: [2, 3000, 0, 0],
        },
    ),
    (
        [3, 0, 0, 0, 0],
        Case {
            what: "a skip whose answer died with the worker has not taken effect",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                2020 w1 end R @1000 t1
                2021 w1 skip R @1000 t1 upto=2000
                2022 w1 killed
                2100 w2 ran R @2000 t2 superseded=1000
                3000 w2 ran R @3000 t3",
            row: [3, 3000, 0, 0],
        },
    ),
    (
        [1, 1, 0, 1, 0],
        Case {
            what: "a worker that stood still says late what was true before its successor began",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                1110 w2 begin R @1000 t2 asked=1100 rerun
                1010 w1 held R @1000 t1
                1115 w1 cut R @1000 t1 stood
                1120 w2 end R @1000 t2
                1130 w2 finished R @1000 t2
                2002 w2 begin R @2000 t4 asked=2001 rerun
                2001 w1 begin R @2000 t3 asked=2000
                2003 w2 cut R @2000 t4 stood
                2003 w1 cut R @2000 t3 stood
                3000 w1 ran R @3000 t5 superseded-rerun=2000",
            row: [5, 3000, 0, 2000],
        },
    ),
    (
        [2, 0, 1, 0, 0],
        Case {
            what: "the end of a lost lease is recorded before it can run again, or while it does, or not",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                1010 w1 end R @1000 t1
                1030 w1 lost-recorded R @1000 t1 stood
                2001 w1 begin R @2000 t2 asked=2000
                2010 w1 end R @2000 t2
                2101 w2 begin R @2000 t3 asked=2100 rerun
                2105 w1 lost-recorded R @2000 t2 stood
                2110 w2 end R @2000 t3
                2130 w2 lost R @2000 t3 stood
                3001 w2 begin R @3000 t4 asked=3000
                3010 w2 end R @3000 t4
                3030 w2 lost-recorded R @3000 t4 stood",
            row: [4, 3000, 0, 2000],
        },
    ),
    (
        [2, 1, 0, 0, 0],
        Case {
            what: "a lease lost before its work began needs no other word",
            log: "
                1015 w1 cut R @1000 t1 stood
                1100 w2 ran R @1000 t2 rerun
                2000 w2 ran R @2000 t3
                3000 w2 ran R @3000 t4",
            row: [4, 3000, 0, 1000],
        },
    ),
    (
        [2, 0, 0, 1, 0],
        Case {
            what: "an end is recorded late, when its rerun has been claimed and killed",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                1010 w1 end R @1000 t1
                1101 w2 begin R @1000 t2 asked=1100 rerun
                1102 w2 killed
                2000 w3 ran R @2000 t3
                2100 w1 unrecorded R @1000 t1 stood
                3001 w1 begin R @3000 t4 asked=3000
                3002 w1 cut R @3000 t4 stood
                3101 w1 begin R @3000 t5 asked=3100 rerun
                3102 w1 cut R @3000 t5 stood",
            row: [5, 3000, 3000, 3000],
        },
    ),
    (
        [1, 0, 0, 1, 1],
        Case {
            what: "a round skips the next instant, the one before was claimed without a word",
            log: "
                1001 w1 ask R
                1002 w1 killed
                2001 w2 begin R @2000 t2 asked=2000 superseded=1000
                2010 w2 end R @2000 t2
                3020 w2 skip R @2000 t2 upto=3000
                3030 w2 finished R @2000 t2",
            row: [2, 3000, 0, 0],
        },
    ),
];

#[test]
fn what_the_rules_allow_is_allowed_and_accounted_for() {
    for (expected, case) in CASES {
        let checked = case.check();
        let broken: Vec<String> = checked.violations.iter().map(ToString::to_string).collect();
        assert!(broken.is_empty(), "{}: {}", case.what, broken.join("\n"));
        let account = checked.account;
        let found =
            [account.ended, account.ended_by_rerun, account.ended_twice, account.given_up, account.skipped];
        assert_eq!(found, *expected, "{}", case.what);
        assert_eq!(account.instants(), 3, "{}", case.what);
    }
}

#[test]
fn kills_and_deaths_are_counted_and_those_in_the_middle_of_a_round_apart() {
    let account = |what: &str| {
        let (_, case) = CASES.iter().find(|(_, case)| case.what.starts_with(what)).unwrap();
        let account = case.check().account;
        let Account { first_rounds, reruns, unclaimed, kills, kills_mid_round, deaths, .. } = account;
        [first_rounds, reruns, unclaimed, kills, kills_mid_round, deaths]
    };
    assert_eq!(account("each instant runs to its end once"), [3, 0, 0, 1, 0, 0]);
    assert_eq!(account("a round that is killed is given up"), [3, 1, 0, 2, 2, 1]);
    assert_eq!(account("an instant that was claimed without a word"), [2, 1, 1, 1, 0, 0]);
    // Between the end of the work and the word of what became of it is the middle still.
    assert_eq!(account("an end whose answer died"), [3, 0, 0, 3, 3, 0]);
}
