//! URLs at random, most of them bad: never a panic, one line of an error, and the password in none of it.
//!
//! `PROPTEST_RNG_SEED` tries others.

use lease_core::ErrorKind;
use lease_testkit::bad_values;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::parse;
use crate::opener::Opener;

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

fn password() -> impl Strategy<Value = String> {
    like("[:/?#@&=%\\[\\] ,;'\"a0]{0,3}|\\pC|%[0-9a-fA-F]{2}")
        .prop_map(|between| format!("{}{between}{}", SECRETS[0], SECRETS[1]))
}

fn query() -> impl Strategy<Value = String> {
    let parameter = prop_oneof![
        4 => like("(sslmode=(disable|allow|prefer|bad)?|application_name=[a-z%]{0,3}|connect_timeout=[0-9-]{0,3}|options=-c%20x)"),
        1 => like("(target_session_attrs|keepalives|hostaddr|sslcert|tcp_user_timeout|channel_binding)=[a-z0-9.%]{0,4}"),
        1 => like("(\\PC|\\pC){0,5}"),
    ];
    prop::collection::vec(parameter, 0..3).prop_map(|parameters| parameters.join("&"))
}

proptest! {
    #![proptest_config(inputs(8_000))]

    #[test]
    fn no_url_panics_or_tells_its_password(
        scheme in like("(postgres|postgresql|postgres:|mysql|Postgres|)"),
        user in like("[a-z]{0,3}|[%:@/]"),
        password in password(),
        host in like("([a-z]{0,3}|\\[::1\\]|\\[|%2Fsock|a,b)(:[0-9]{0,6})?"),
        path in like("(/[a-z%]{0,3})?"),
        query in query(),
        by_parameter in prop::sample::select(vec![None, None, None, Some("password"), Some("sslpassword")]),
    ) {
        let url = match by_parameter {
            None => format!("{scheme}://{user}:{password}@{host}{path}?{query}"),
            Some(parameter) => format!("{scheme}://{host}{path}?{query}&{parameter}={password}"),
        };
        match parse(&url) {
            Err(error) => bad_values::refused(&error, ErrorKind::Invalid, &SECRETS),
            Ok((config, tls)) => {
                bad_values::tells_none_of(&format!("{config:?} {tls:?}"), &SECRETS);
                match Opener::new(&config, tls) {
                    Ok(opener) => bad_values::tells_none_of(&opener.place(), &SECRETS),
                    Err(error) => bad_values::message(&error.to_string()),
                }
            }
        }
    }

    #[test]
    fn no_text_at_all_panics(text in "((postgres(ql)?|mysql)://)?(\\PC|\\pC|[@:/?#&=%\\[\\],]){0,16}") {
        if let Err(error) = parse(&text) {
            bad_values::refused(&error, ErrorKind::Invalid, &[]);
        }
    }
}
