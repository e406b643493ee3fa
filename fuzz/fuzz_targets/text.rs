//! A text as the name of a lease, a table, a holder, an instance and the facts of a process.
#![no_main]

use lease_testkit::bad_values;

libfuzzer_sys::fuzz_target!(|text: &str| bad_values::text(text));
