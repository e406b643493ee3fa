//! Rounds of a schedule, on clocks and a database moved by hand.

#![expect(clippy::unchecked_time_subtraction, reason = "constants that a reader can subtract")]

mod common;

mod slots {
    pub(crate) mod job;

    mod claim;
    mod claim_unknown;
    mod finish;
    mod finish_lost;
    mod instants;
    mod readme;
    mod renewed;
    mod replicas;
    mod returned;
    mod run;
    mod step;
    mod wait;
}
