//! Arguments at random, most of them bad: never a panic, exit 64 with one line, and no password in it.
//!
//! `PROPTEST_RNG_SEED` tries others.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;

use clap::Parser;
use clap::error::ErrorKind;
use lease_core::store::DbTime;
use lease_testkit::bad_values;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::args::{Arguments, duration};
use crate::exit::{Failure, USAGE};
use crate::text::{for_users, one_line, second, span, visible, without_password_of, without_passwords};
use crate::{instant, refused, url};

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

/// The two halves of every password, with whatever may stand in one between them.
const SECRETS: [&str; 2] = ["Xhunter2", "Zsecret3"];

fn with_password() -> impl Strategy<Value = String> {
    (
        like("(postgres|postgresql|mysql|mariadb|sqlite|redis|Postgres|file|)(://|:|:/)"),
        like("[a-z]{0,3}|[%:@/]"),
        like("[:/?#@&=%\\[\\] ,;'\"a0]{0,3}|%[0-9a-fA-F]{2}|\\pC"),
        like("([a-z]{0,3}|\\[::1\\]|a,b)(:[0-9]{0,6})?(/[a-z%]{0,3})?(\\?[a-z=&]{0,5})?"),
    )
        .prop_map(|(scheme, user, between, host)| {
            format!("{scheme}{user}:{}{between}{}@{host}", SECRETS[0], SECRETS[1])
        })
}

fn word() -> impl Strategy<Value = OsString> {
    let known = prop::sample::select(vec![
        "run",
        "status",
        "list",
        "watch",
        "clear",
        "resign",
        "slots",
        "migrate",
        "schema",
        "check",
        "help",
        "--",
        "-h",
        "--db",
        "--table",
        "--ttl",
        "--wait",
        "--slot",
        "--held-exit",
        "--json",
        "--version",
        "name",
        "true",
        "5s",
        "@7",
        "l.db",
        "",
    ]);
    prop_oneof![
        8 => known.prop_map(OsString::from),
        2 => like("(\\PC|\\pC|\\pZ){0,6}").prop_map(OsString::from),
        1 => prop::collection::vec(any::<u8>(), 0..6).prop_map(OsString::from_vec),
        2 => with_password().prop_map(OsString::from),
    ]
}

/// As it is said on standard error.
fn said(failure: &Failure, given: &[OsString]) -> String {
    let message = for_users(&failure.message);
    let message =
        given.iter().fold(message, |message, given| without_password_of(&given.to_string_lossy(), &message));
    without_passwords(&one_line(&message))
}

proptest! {
    #![proptest_config(inputs(1_500))]

    #[test]
    fn any_words_are_arguments_or_refused_in_one_line_without_a_password(
        words in prop::collection::vec(word(), 0..8)
    ) {
        let all = [OsString::from("lease")].into_iter().chain(words.iter().cloned()).collect::<Vec<_>>();
        if let Err(error) = Arguments::try_parse_from(all)
            && !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion)
        {
            let failure = refused(&error);
            prop_assert_eq!(failure.code, USAGE);
            let said = said(&failure, &words);
            bad_values::message(&said);
            bad_values::tells_none_of(&said, &SECRETS);
        }
    }
}

proptest! {
    #![proptest_config(inputs(6_000))]

    #[test]
    fn what_names_a_database_is_read_or_refused_without_its_password(text in with_password()) {
        if let Err(failure) = url::parse(OsStr::new(&text)) {
            prop_assert_eq!(failure.code, USAGE);
            let said = said(&failure, &[OsString::from(&text)]);
            bad_values::message(&said);
            bad_values::tells_none_of(&said, &SECRETS);
        }
    }

    #[test]
    fn any_text_is_an_instant_that_reads_back_or_refused(
        text in like("@?[0-9]{0,20}(\\.[0-9]{0,5})?|[0-9]{4}-[0-2][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-6][0-9]:[0-6][0-9](\\.[0-9]{0,9})?(Z|[+-][0-9:]{0,5})?|(\\PC|\\pC){0,30}")
    ) {
        match instant::parse(&text) {
            Ok(slot) => prop_assert_eq!(instant::parse(&slot.to_string()), Ok(slot)),
            Err(error) => bad_values::message(&error),
        }
    }

    #[test]
    fn any_text_and_time_can_be_shown(text in like("(\\PC|\\pC|\\pZ|[@:/?= '\"]){0,24}"), ms in any::<i64>()) {
        prop_assert!(!one_line(&text).chars().any(char::is_control));
        prop_assert!(!visible(&text).chars().any(char::is_control));
        let _ = without_passwords(&text);
        bad_values::message(&second(DbTime::from_millis(ms)));
        bad_values::message(&span(std::time::Duration::from_millis(ms.unsigned_abs())));
    }

    #[test]
    fn any_duration_is_read_or_refused(text in like("[0-9]{0,22} ?(ms|s|m|h|days?|y|w|us|ns|M|x)?( ?[0-9]{1,3}(s|m))?|-?(\\PC|\\pC){0,6}")) {
        if let Err(error) = duration(&text) {
            bad_values::message(&one_line(&error));
        }
    }
}
