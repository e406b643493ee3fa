//! URLs at random, most of them bad: never a panic, one line of an error, and the password in none of it.
//!
//! `PROPTEST_RNG_SEED` tries others.

use lease_core::ErrorKind;
use lease_testkit::bad_values;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::Target;

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
const SECRETS: [&str; 2] = ["xhunterxx", "zsecretzz"];

fn password() -> impl Strategy<Value = String> {
    like("[:/?#@&=%\\[\\] ,;'\"a0]{0,3}|\\pC|%[0-9a-fA-F]{2}")
        .prop_map(|between| format!("{}{between}{}", SECRETS[0], SECRETS[1]))
}

fn query() -> impl Strategy<Value = String> {
    let parameter = prop_oneof![
        4 => like("(ssl-mode=(disabled|preferred|DISABLED|bad)?|pool_min=[0-9-]{0,3}|tcp_keepalive=[0-9]{0,5}|require_ssl=(true|x))"),
        1 => like("(ssl-ca|ssl-cert|ssl-key|socket|max_allowed_packet|wait_timeout|compression)=[a-z0-9.%/]{0,4}"),
        1 => like("(\\PC|\\pC){0,5}"),
    ];
    prop::collection::vec(parameter, 0..3).prop_map(|parameters| parameters.join("&"))
}

proptest! {
    #![proptest_config(inputs(8_000))]

    #[test]
    fn no_url_panics_or_tells_its_password(
        scheme in like("(mysql|mariadb|mysql:|postgres|MySQL|)"),
        user in like("[a-z]{0,3}|[%:@/]"),
        password in password(),
        host in like("([a-z]{0,3}|\\[::1\\]|\\[|127.0.0.1)(:[0-9]{0,6})?"),
        path in like("(/[a-z%]{0,3})?"),
        query in query(),
    ) {
        let url = format!("{scheme}://{user}:{password}@{host}{path}?{query}");
        match Target::of_url(&url) {
            Err(error) => bad_values::refused(&error, ErrorKind::Invalid, &SECRETS),
            Ok(target) => bad_values::tells_none_of(&target.place(), &SECRETS),
        }
    }

    #[test]
    fn no_text_at_all_panics(text in "((mysql|mariadb|postgres)://)?(\\PC|\\pC|[@:/?#&=%\\[\\],]){0,16}") {
        match Target::of_url(&text) {
            Err(error) => bad_values::refused(&error, ErrorKind::Invalid, &[]),
            Ok(target) => bad_values::message(&target.place()),
        }
    }
}
