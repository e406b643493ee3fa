//! The other rules broken, of time, of what workers say, and of the row at the end.

use lease_testkit::rounds::Rule;

use crate::logs::Case;

pub(crate) const CASES: &[(Rule, Case)] = &[
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
                2020 w1 lost R @1000 t1 stood
                3000 w2 ran R @3000 t3",
            row: [3, 3000, 0, 0],
        },
    ),
    (
        Rule::Unclaimed,
        Case {
            what: "a term is missing, and whoever died with a claim open was gone long before or came after",
            log: "
                100 w1 started pid=1
                1000 w1 ran R @1000 t1
                1015 w1 ask R
                1020 w1 killed
                4001 w2 begin R @2000 t2 asked=4000
                4020 w2 cut R @2000 t2 stood
                5000 w2 ran R @3000 t4 superseded-rerun=2000
                5100 w3 started pid=3
                5101 w3 ask R
                5101 w3 killed",
            row: [4, 3000, 0, 2000],
        },
    ),
    (
        Rule::Unclaimed,
        Case {
            what: "a term is missing, and every claim of whoever died or failed is answered, or is of another name",
            log: "
                900 w1 started pid=1
                900 w1 ask R
                901 w1 refused R asked=900
                1000 w1 ask R
                1000 w1 ran R @1000 t1
                1020 w1 ask other
                1021 w1 unsure R asked=1020
                1030 w1 killed
                2100 w2 ran R @2000 t3 rerun
                3000 w2 ran R @3000 t4",
            row: [4, 3000, 0, 2000],
        },
    ),
    (
        Rule::Unclaimed,
        Case {
            what: "a term is missing, and the claim open was that of a round that was lost before its work began",
            log: "
                1000 w1 ask R
                1001 w1 cut R @1000 t1 stood
                1002 w1 killed
                2000 w2 ran R @2000 t3 superseded-rerun=1000
                3000 w2 ran R @3000 t4",
            row: [4, 3000, 0, 1000],
        },
    ),
    (
        Rule::Unclaimed,
        Case {
            what: "a term is missing, and the claim that failed was sent afterwards",
            log: "
                1100 w2 ran R @1000 t2 rerun
                2000 w2 ran R @2000 t3
                3000 w2 ran R @3000 t4
                3100 w1 ask R
                3101 w1 unsure R asked=3100",
            row: [4, 3000, 0, 1000],
        },
    ),
    (
        Rule::Unclaimed,
        Case {
            what: "two terms are missing, and one worker has died",
            log: "
                1000 w1 ask R
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
                2010 w1 ask other
                2020 w1 unsure other asked=2010
                3001 w1 begin R @3000 t3 asked=3000
                3020 w1 cut R @3000 t3 stood",
            row: [4, 3000, 3000, 3000],
        },
    ),
    (
        Rule::Early,
        Case {
            what: "an instant begins before it has come",
            log: "
                1000 w1 ran R @1000 t1
                1498 w1 ran R @2000 t2
                3000 w1 ran R @3000 t3",
            row: [3, 3000, 0, 0],
        },
    ),
    (
        Rule::Early,
        Case {
            what: "an instant is skipped before it has come",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                1100 w1 end R @1000 t1
                1101 w1 skip R @1000 t1 upto=2000
                1102 w1 finished R @1000 t1
                3000 w1 ran R @3000 t2",
            row: [2, 3000, 0, 0],
        },
    ),
    (
        Rule::Expired,
        Case {
            what: "the round of a worker that was killed runs again at once",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                1010 w1 held R @1000 t1
                1011 w1 killed
                1045 w2 ran R @1000 t2 rerun
                2000 w2 ran R @2000 t3
                3000 w2 ran R @3000 t4",
            row: [4, 3000, 0, 1000],
        },
    ),
    (
        Rule::Unexcused,
        Case {
            what: "an end could not be recorded, and nothing stood still",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                1020 w1 end R @1000 t1
                1030 w1 unrecorded R @1000 t1
                1200 w2 ran R @1000 t2 rerun
                2000 w2 ran R @2000 t3
                3000 w2 ran R @3000 t4",
            row: [4, 3000, 0, 1000],
        },
    ),
    (
        Rule::Unexcused,
        Case {
            what: "a lease is lost, and its worker stood still before and after, another worker meanwhile, and it too briefly",
            log: "
                999 w1 stood ms=25
                1001 w1 begin R @1000 t1 asked=1000
                1010 w2 stood ms=25
                1010 w1 stood ms=24
                1020 w1 end R @1000 t1
                1030 w1 lost-recorded R @1000 t1
                1056 w1 stood ms=25
                2000 w2 ran R @2000 t2
                3000 w2 ran R @3000 t3",
            row: [3, 3000, 0, 0],
        },
    ),
    (
        Rule::Unexcused,
        Case {
            what: "a round is cut short, nothing stood still, and its worker is killed long afterwards",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                1020 w1 cut R @1000 t1
                2000 w2 ran R @2000 t2 superseded=1000
                2021 w1 killed
                3000 w2 ran R @3000 t3",
            row: [3, 3000, 0, 0],
        },
    ),
    (
        Rule::RerunOfFinished,
        Case {
            what: "a lease is lost and nothing to be recorded, and the round runs again",
            log: "
                1001 w1 begin R @1000 t1 asked=1000
                1020 w1 end R @1000 t1
                1030 w1 lost R @1000 t1 stood
                1200 w2 ran R @1000 t2 rerun
                2000 w2 ran R @2000 t3
                3000 w2 ran R @3000 t4",
            row: [4, 3000, 0, 1000],
        },
    ),
    (
        Rule::Strange,
        Case {
            what: "a round goes on when it was said what became of it",
            log: "
                1000 w1 ran R @1000 t1
                1012 w1 held R @1000 t1
                2000 w1 ran R @2000 t2
                3000 w1 ran R @3000 t3",
            row: [3, 3000, 0, 0],
        },
    ),
    (
        Rule::Strange,
        Case {
            what: "a word of a worker that was killed",
            log: "
                1000 w1 ran R @1000 t1
                1020 w1 killed
                1020 w1 stood ms=300
                2000 w2 ran R @2000 t2
                3000 w2 ran R @3000 t3",
            row: [3, 3000, 0, 0],
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
                3002 w1 cut R @3000 t3 stood
                3101 w1 begin R @3000 t4 asked=3100 rerun
                3110 w1 end R @3000 t4
                3120 w1 lost-recorded R @3000 t4 stood",
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
                3020 w1 cut R @3000 t3 stood",
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
                1050 w1 unrecorded R @1000 t1 stood
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
                1001 w1 begin R @1000 t1 asked=1000
                1010 w1 end R @1000 t1
                1010 w1 end R @1000 t1
                1012 w1 finished R @1000 t1
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
                1050 w2 cut R @1000 t2 stood
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
