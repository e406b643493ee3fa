//! Who holds a name, and how it is handed over: on clocks, databases and probes that do as the test says.

#![expect(clippy::unchecked_time_subtraction, reason = "constants that a reader can subtract")]

mod common;

mod holders {
    pub(crate) mod abandoned;

    mod clear;
    mod dies;
    mod events;
    mod facts;
    mod frozen;
    mod health;
    #[cfg(target_os = "linux")]
    mod host_probe;
    mod observe;
    mod sighting;
    mod step_down;
    mod takeover;
    mod told;
    mod waiting;
    mod watch;
    mod watch_many;
}
