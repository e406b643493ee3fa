//! What a store is opened with: refused in one line without its password, or taken without a word of it.
#![no_main]

use lease_core::{ErrorKind, LeaseStore};
use lease_testkit::bad_values;
use lease_postgres::PostgresStore;

/// In every URL whose text asks for it with `PW`, as a password.
const SECRET: &str = "xhunterxx";

libfuzzer_sys::fuzz_target!(|text: &str| {
    // A fuzzer that has learnt the word puts it where no password is.
    if text.contains(SECRET) {
        return;
    }
    let url = text.replacen("PW", SECRET, 1);
    // A password stands before the `@` of what names the server, and nowhere else is the word.
    let (_, rest) = text.split_once("://").unwrap_or_default();
    let server = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_password = server.contains(":PW@") && text.matches("PW").count() == 1;
    let secrets: &[&str] = if is_password { &[SECRET] } else { &[] };
    match PostgresStore::open(&url) {
        Err(error) if error.kind() == ErrorKind::Invalid => bad_values::refused(&error, ErrorKind::Invalid, secrets),
        // A certificate that is not there, say.
        Err(error) => bad_values::message(&error.to_string()),
        Ok(store) => bad_values::tells_none_of(&store.describe(), secrets),
    }
});
