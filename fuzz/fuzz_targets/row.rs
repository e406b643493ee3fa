//! A row of a table that may be damaged.
#![no_main]

use lease_core::store::RawRow;
use lease_testkit::bad_values;

type Input = ([String; 6], [i64; 9]);

libfuzzer_sys::fuzz_target!(|input: Input| {
    let ([name, holder, instance, process, address, version], numbers) = input;
    let [
        term,
        claimed_at_ms,
        renewed_at_ms,
        expires_at_ms,
        ttl_ms,
        resign_term,
        slot_ms,
        unfinished_slot_ms,
        rerun_slot_ms,
    ] = numbers;
    bad_values::row(&RawRow {
        name,
        holder,
        instance,
        process,
        address,
        version,
        term,
        claimed_at_ms,
        renewed_at_ms,
        expires_at_ms,
        ttl_ms,
        resign_term,
        slot_ms,
        unfinished_slot_ms,
        rerun_slot_ms,
    });
});
