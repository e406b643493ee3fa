//! Numbers as instants and times, durations as timings.
#![no_main]

use std::time::{Duration, SystemTime};

use lease_testkit::bad_values;

type Input = (i64, i64, [(u64, u32); 6]);

libfuzzer_sys::fuzz_target!(|input: Input| {
    let (ms, other, durations) = input;
    bad_values::numbers(ms, other);
    let durations = durations.map(|(seconds, nanos)| Duration::new(seconds, nanos % 1_000_000_000));
    bad_values::durations(durations);
    for since in durations {
        for instant in [SystemTime::UNIX_EPOCH.checked_add(since), SystemTime::UNIX_EPOCH.checked_sub(since)] {
            if let Some(instant) = instant {
                bad_values::instant(instant);
            }
        }
    }
});
