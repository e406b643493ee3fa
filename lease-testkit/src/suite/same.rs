//! Rows compared whole, and told apart by the column.

use lease_core::store::LeaseRow;

/// Holds a row that was found to be the one expected, column by column.
#[track_caller]
pub(crate) fn same_row<'row>(
    found: impl Into<Option<&'row LeaseRow>>,
    expected: impl Into<Option<&'row LeaseRow>>,
) {
    let differences = match (found.into(), expected.into()) {
        (None, None) => Vec::new(),
        (Some(found), None) => vec![format!("  a row was found where the contract says none: {found:?}")],
        (None, Some(expected)) => vec![format!("  no row was found where the contract says {expected:?}")],
        (Some(found), Some(expected)) => columns(found)
            .into_iter()
            .zip(columns(expected))
            .filter(|(found, expected)| found != expected)
            .map(|((column, found), (_, expected))| {
                format!("  {column} is {found}\n  the contract says {expected}")
            })
            .collect(),
    };
    assert!(differences.is_empty(), "the row is not what the contract says:\n{}", differences.join("\n"));
}

fn columns(row: &LeaseRow) -> [(&'static str, String); 15] {
    [
        ("name", format!("{:?}", row.name)),
        ("holder", format!("{:?}", row.holder)),
        ("instance", format!("{:?}", row.instance)),
        ("process", format!("{:?}", row.process)),
        ("address", format!("{:?}", row.address)),
        ("version", format!("{:?}", row.version)),
        ("term", format!("{:?}", row.term)),
        ("claimed_at", format!("{:?}", row.claimed_at)),
        ("renewed_at", format!("{:?}", row.renewed_at)),
        ("expires_at", format!("{:?}", row.expires_at)),
        ("ttl", format!("{:?}", row.ttl)),
        ("resign_term", format!("{:?}", row.resign_term)),
        ("slot", format!("{:?}", row.slot)),
        ("unfinished_slot", format!("{:?}", row.unfinished_slot)),
        ("rerun_slot", format!("{:?}", row.rerun_slot)),
    ]
}
