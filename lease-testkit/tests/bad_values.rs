//! Lines of a trial's log and orders to its workers, at random and nearly right: never a panic, and what is taken reads back.
//!
//! `PROPTEST_RNG_SEED` tries others.

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

/// A word of the log, or what looks like one.
fn word() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "w1",
        "started",
        "ask",
        "refused",
        "unsure",
        "begin",
        "held",
        "end",
        "skip",
        "stood",
        "killed",
        "died",
        "done",
        "finished",
        "lost-recorded",
        "lost",
        "unrecorded",
        "cut",
        "rerun",
        "name",
        "@7",
        "t1",
        "t0",
        "asked=3",
        "pid=4",
        "ms=5",
        "upto=9",
        "superseded=2",
        "superseded-rerun=2",
        "-1",
        "7",
    ]);
    prop_oneof![8 => known.prop_map(str::to_owned), 1 => like("(\\PC|\\pC|\\pZ){0,4}"), 1 => any::<i64>().prop_map(|n| n.to_string())]
}

/// A line with its words where they belong, but for some.
fn line() -> impl Strategy<Value = String> {
    let events = prop::sample::select(vec![
        "started pid=4",
        "ask name",
        "refused name asked=3",
        "unsure name asked=3",
        "begin name @7 t1 asked=3",
        "begin name @7 t1 asked=3 rerun superseded=2",
        "held name @7 t1",
        "skip name @7 t1 upto=9",
        "lost-recorded name @7 t1",
        "stood ms=5",
        "died",
    ]);
    (any::<i32>(), events, prop::option::of((0..8_usize, word()))).prop_map(|(at, event, change)| {
        let whole = format!("{at} w2 {event}");
        let mut words: Vec<&str> = whole.split(' ').collect();
        if let Some((index, word)) = &change {
            let index = index % words.len();
            words[index] = word;
        }
        words.join(" ")
    })
}

proptest! {
    #![proptest_config(inputs(5_000))]

    #[test]
    fn a_line_with_a_wrong_word_is_read_as_what_it_says_or_refused(line in line()) {
        bad_values::trial_text(&line);
    }

    #[test]
    fn words_in_any_order_are_no_panic(words in prop::collection::vec(word(), 0..10)) {
        bad_values::trial_text(&words.join(" "));
    }
}
