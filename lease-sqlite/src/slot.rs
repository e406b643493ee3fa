//! What is answered to a claim of an instant.

use lease_core::store::{DbTime, SlotAnswer, Superseded};
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
    let state =
        answer(connection, sql, named_params! {":name": name.as_str()}, |row| State::read(row, name))?;
    Ok(state.ok_or_else(no_clock)?.judge(slot))
}

struct State {
    now: DbTime,
    is_held: bool,
    last: Option<Slot>,
    unfinished: Option<Slot>,
    rerun: Option<Slot>,
}

impl State {
    fn read(row: &Row<'_>, name: &LeaseName) -> Result<Self, Failure> {
        let cell = |index, column| Cell::new(row, name.as_str(), index, column);
        let now = cell(0, "now").time()?;
        let expires_at = cell(1, "expires_at_ms");
        if expires_at.is_null()? {
            return Ok(Self { now, is_held: false, last: None, unfinished: None, rerun: None });
        }
        Ok(Self {
            now,
            is_held: expires_at.time()? > now,
            last: cell(2, "slot_ms").slot()?,
            unfinished: cell(3, "unfinished_slot_ms").slot()?,
            rerun: cell(4, "rerun_slot_ms").slot()?,
        })
    }

    fn judge(&self, slot: Slot) -> Result<Option<Superseded>, SlotAnswer> {
        let comes_at = DbTime::from_millis(slot.as_millis());
        if self.last >= Some(slot) {
            return Err(SlotAnswer::Passed);
        }
        if comes_at > self.now {
            return Err(SlotAnswer::NotYet(comes_at.since(self.now)));
        }
        if self.is_held {
            return Err(SlotAnswer::Held);
        }
        let given_up = self.unfinished.filter(|unfinished| self.last == Some(*unfinished));
        Ok(given_up.map(|slot| Superseded { slot, rerun: self.rerun == Some(slot) }))
    }
}
