//! What is answered to a claim of an instant.

use lease_core::store::{SlotAnswer, SlotRow, SlotState, Superseded};
use lease_core::{LeaseName, Slot};
use rusqlite::{Connection, Row, named_params};

use crate::error::Failure;
use crate::row::{Cell, answer, no_clock};

/// Reads the row with `sql::slot_state` and judges it: the refusal, or the instant that a grant gives up.
pub(crate) fn judge(
    connection: &Connection,
    sql: &str,
    name: &LeaseName,
    slot: Slot,
) -> Result<Result<Option<Superseded>, SlotAnswer>, Failure> {
    let state = answer(connection, sql, named_params! {":name": name.as_str()}, |row| read(row, name))?;
    Ok(state.ok_or_else(no_clock)?.judge(slot))
}

fn read(row: &Row<'_>, name: &LeaseName) -> Result<SlotState, Failure> {
    let cell = |index, column| Cell::new(row, name.as_str(), index, column);
    let now = cell(0, "now").time()?;
    let term = cell(1, "term");
    if term.is_null()? {
        return Ok(SlotState { now, row: None });
    }
    let row = SlotRow {
        term: term.term()?,
        expires_at: cell(2, "expires_at_ms").time()?,
        last: cell(3, "slot_ms").slot()?,
        unfinished: cell(4, "unfinished_slot_ms").slot()?,
        rerun: cell(5, "rerun_slot_ms").slot()?,
    };
    Ok(SlotState { now, row: Some(row) })
}
