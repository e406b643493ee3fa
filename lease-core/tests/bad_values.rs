//! Inputs at random, most of them bad: never a panic, an error of one line, and what is taken reads back.
//!
//! `PROPTEST_RNG_SEED` tries others.

use std::time::{Duration, SystemTime};

use lease_core::store::RawRow;
use lease_testkit::bad_values;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// What matches a pattern, which is read once and not for each input.
fn like(pattern: &str) -> impl Strategy<Value = String> + use<> {
    proptest::string::string_regex(pattern).expect("a pattern")
}

/// This many inputs, the same ones each time.
fn inputs(count: u32) -> ProptestConfig {
    let mut config = ProptestConfig::with_cases(count);
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(7);
    }
    config.failure_persistence = None;
    config
}

/// Text of every kind of character, much of it about as long as may be.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => like("(\\PC|\\pC|\\pZ|[ -~]){0,12}"),
        1 => like("[a-zä€😀]{45,60}([a-z]{0,150})?"),
        1 => like("[A-Za-z0-9_]{0,70}"),
        1 => like("[0-9a-fA-F]{30,34}"),
    ]
}

/// What is nearly the facts of a process.
fn facts() -> impl Strategy<Value = String> {
    let number = || {
        prop_oneof![any::<i64>().prop_map(|n| n.to_string()), like("[+-]?[0-9]{0,3}"), Just("1".to_owned())]
    };
    (
        like("(boot=)?[a-f0-9-]{0,3}"),
        number(),
        number(),
        number(),
        number(),
        like("( group=[0-9-]{0,3})?( x)?"),
    )
        .prop_map(|(boot, pidns, timens, pid, start, rest)| {
            format!("{boot} pidns={pidns} timens={timens} pid={pid} start={start}{rest}")
        })
}

/// Numbers near the ends of what a column holds, near zero, and any.
fn number() -> impl Strategy<Value = i64> {
    prop_oneof![
        any::<i64>(),
        -2..=2_i64,
        i64::MAX - 2..=i64::MAX,
        i64::MIN..=i64::MIN + 2,
        1..4_000_000_000_000_i64
    ]
}

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (any::<u64>(), 0..1_000_000_000_u32).prop_map(|(seconds, nanos)| Duration::new(seconds, nanos)),
        (0..60_000_u64).prop_map(Duration::from_millis),
        (0..3_u64).prop_map(Duration::from_nanos),
        Just(Duration::MAX),
    ]
}

/// Parts that often keep the rules, and often break one by a little.
fn parts() -> impl Strategy<Value = [Duration; 6]> {
    let near = (31..2_000_u32, prop::array::uniform6(-2..=2_i32)).prop_map(|(unit, off)| {
        let ms = [30_u32, 4, 10, 20, 9, 1].map(|share| share * unit / 30 * 30);
        let mut parts = [Duration::ZERO; 6];
        for ((part, ms), off) in parts.iter_mut().zip(ms).zip(off) {
            *part = Duration::from_millis(u64::from(ms.saturating_add_signed(off)));
        }
        parts
    });
    prop_oneof![near, prop::array::uniform6(duration())]
}

fn row() -> impl Strategy<Value = RawRow> {
    let texts = prop::array::uniform4(like("(\\PC|\\pC){0,4}"));
    let name = prop_oneof![4 => Just("nightly".to_owned()), 1 => text()];
    let holder = prop_oneof![4 => like("[0-9a-f]{32}"), 1 => text()];
    let small = || prop_oneof![4 => 1..9_i64, 1 => number()];
    (name, holder, texts, small(), prop::array::uniform3(number()), prop::array::uniform5(small())).prop_map(
        |(name, holder, [instance, process, address, version], term, times, rest)| RawRow {
            name,
            holder,
            instance,
            process,
            address,
            version,
            term,
            claimed_at_ms: times[0],
            renewed_at_ms: times[1],
            expires_at_ms: times[2],
            ttl_ms: rest[0],
            resign_term: rest[1],
            slot_ms: rest[2],
            unfinished_slot_ms: rest[3],
            rerun_slot_ms: rest[4],
        },
    )
}

proptest! {
    #![proptest_config(inputs(4_000))]

    #[test]
    fn any_text_is_taken_as_it_is_or_refused_in_one_line(text in text()) {
        bad_values::text(&text);
    }

    #[test]
    fn what_is_nearly_the_facts_of_a_process_reads_back_or_is_refused(facts in facts()) {
        bad_values::text(&facts);
    }

    #[test]
    fn any_row_is_read_as_it_stands_or_called_damaged(row in row()) {
        bad_values::row(&row);
    }
}

proptest! {
    #![proptest_config(inputs(20_000))]

    #[test]
    fn any_numbers_are_instants_and_times_or_refused(ms in number(), other in number()) {
        bad_values::numbers(ms, other);
    }

    #[test]
    fn any_durations_are_timings_that_keep_the_rules_or_refused(parts in parts()) {
        bad_values::durations(parts);
    }

    #[test]
    fn any_instant_is_cut_to_its_millisecond_or_refused(is_before in any::<bool>(), since in duration()) {
        let epoch = SystemTime::UNIX_EPOCH;
        let instant = if is_before { epoch.checked_sub(since) } else { epoch.checked_add(since) };
        if let Some(instant) = instant {
            bad_values::instant(instant);
        }
    }
}
