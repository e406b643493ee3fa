//! A line of the log of a trial, and an order to a worker.
#![no_main]

use lease_testkit::bad_values;

libfuzzer_sys::fuzz_target!(|text: &str| bad_values::trial_text(text));
