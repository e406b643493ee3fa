//! The rows, and what statements have in common.

use std::collections::BTreeMap;
use std::num::ParseIntError;

use lease_core::store::{
    Claim, DbTime, Observed, RawRow, SlotRow, StoreError, damaged, slot_of, term_of, ttl_ms,
};
use lease_core::{ErrorKind, Holder, LeaseName, Slot, Term};

/// The first line of the file, which names the columns.
const HEADER: &str = "name\tholder\tinstance\tprocess\taddress\tversion\tterm\tclaimed_at_ms\trenewed_at_ms\t\
                      expires_at_ms\tttl_ms\tresign_term\tslot_ms\tunfinished_slot_ms\trerun_slot_ms";

/// The table during one statement.
pub(crate) struct Table {
    /// By name; the order of the map is that of the names' bytes.
    pub(crate) rows: BTreeMap<String, RawRow>,
    /// The one reading of the clock that all of the statement goes by.
    pub(crate) now: i64,
}

impl Table {
    /// The table in a file: a line for each row, its columns apart by tabs. No name and no identity
    /// text holds a control character, so no tab or line end needs to be escaped.
    pub(crate) fn read(text: &str, now: i64) -> Result<Self, StoreError> {
        let mut lines = text.lines();
        if lines.next() != Some(HEADER) {
            let message = "the first line of the table does not name the columns of a lease table";
            return Err(StoreError::new(ErrorKind::Schema, message));
        }
        let mut rows = BTreeMap::new();
        for line in lines {
            let row = raw_row(line)?;
            if let Some(other) = rows.insert(row.name.clone(), row) {
                return Err(damaged(&other.name, "name", "the name of another row"));
            }
        }
        Ok(Self { rows, now })
    }

    /// The table as a file has it.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{HEADER}\n");
        for row in self.rows.values() {
            let texts = [&row.name, &row.holder, &row.instance, &row.process, &row.address, &row.version];
            for column in texts {
                text.push_str(column);
                text.push('\t');
            }
            let numbers = [row.term, row.claimed_at_ms, row.renewed_at_ms, row.expires_at_ms, row.ttl_ms];
            let slots = [row.resign_term, row.slot_ms, row.unfinished_slot_ms, row.rerun_slot_ms];
            let numbers: Vec<String> = numbers.iter().chain(&slots).map(i64::to_string).collect();
            text.push_str(&numbers.join("\t"));
            text.push('\n');
        }
        text
    }

    /// A table without rows.
    pub(crate) fn empty() -> Self {
        Self { rows: BTreeMap::new(), now: 0 }
    }

    /// The row of `name`, if `holder` claimed it last.
    pub(crate) fn of(&mut self, name: &LeaseName, holder: &Holder) -> Option<&mut RawRow> {
        let row = self.rows.get_mut(name.as_str())?;
        (row.holder == holder.to_string()).then_some(row)
    }

    /// The row of `name`, if its holder and expiry are those seen before.
    pub(crate) fn as_observed(&mut self, name: &LeaseName, seen: &Observed) -> Option<&mut RawRow> {
        self.of(name, &seen.holder).filter(|row| row.expires_at_ms == seen.expires_at.as_millis())
    }

    pub(crate) fn is_free(&self, name: &LeaseName) -> bool {
        self.rows.get(name.as_str()).is_none_or(|row| row.expires_at_ms <= self.now)
    }

    /// Moves the expiry of a lease that is held.
    pub(crate) fn renew(&mut self, name: &LeaseName, holder: &Holder, ttl: i64) -> Option<&RawRow> {
        let now = self.now;
        let row = self.of(name, holder).filter(|row| row.expires_at_ms > now)?;
        row.renewed_at_ms = now;
        row.expires_at_ms = now + ttl;
        Some(row)
    }

    /// Gives `claim.name` to the claim, whoever had it, under the next term. Slots stay.
    pub(crate) fn grant(&mut self, claim: &Claim) -> Result<(Term, &mut RawRow), StoreError> {
        let (name, ttl) = (claim.name.as_str(), ttl_ms(claim.ttl)?);
        let before = self.rows.get(name);
        let term = before.map_or(0, |row| row.term).checked_add(1);
        let term = term.ok_or_else(|| damaged(name, "term", "the last term there is"))?;
        let granted = RawRow {
            name: name.to_owned(),
            holder: claim.holder.to_string(),
            instance: claim.instance.name().to_string(),
            process: claim.instance.process_facts().to_string(),
            address: claim.instance.address_text().to_string(),
            version: claim.instance.version_text().to_string(),
            term,
            claimed_at_ms: self.now,
            renewed_at_ms: self.now,
            expires_at_ms: self.now + ttl,
            ttl_ms: ttl,
            resign_term: before.map_or(0, |row| row.resign_term),
            slot_ms: before.map_or(0, |row| row.slot_ms),
            unfinished_slot_ms: before.map_or(0, |row| row.unfinished_slot_ms),
            rerun_slot_ms: before.map_or(0, |row| row.rerun_slot_ms),
        };
        let row = self.rows.entry(name.to_owned()).insert_entry(granted).into_mut();
        Ok((term_of(name, term)?, row))
    }

    /// The instant of `name` that was cut short and may run once more.
    pub(crate) fn cut_short(&self, name: &LeaseName) -> Result<Option<(Slot, Term)>, StoreError> {
        let Some(row) = self.rows.get(name.as_str()).filter(|_| self.is_free(name)) else {
            return Ok(None);
        };
        if row.unfinished_slot_ms != row.slot_ms {
            return Ok(None);
        }
        let slot = slot_of(name.as_str(), "slot_ms", row.slot_ms)?;
        if row.rerun_slot_ms >= row.slot_ms {
            return Ok(None);
        }
        let term = term_of(name.as_str(), row.term)?;
        Ok(slot.map(|slot| (slot, term)))
    }
}

/// Whether the holder of the row's term was asked to step down.
pub(crate) fn step_down(row: &RawRow) -> bool {
    row.resign_term == row.term
}

/// The part of a row by which a claim of an instant is judged.
pub(crate) fn slots(row: &RawRow) -> Result<SlotRow, StoreError> {
    Ok(SlotRow {
        term: term_of(&row.name, row.term)?,
        expires_at: DbTime::from_millis(row.expires_at_ms),
        last: slot_of(&row.name, "slot_ms", row.slot_ms)?,
        unfinished: slot_of(&row.name, "unfinished_slot_ms", row.unfinished_slot_ms)?,
        rerun: slot_of(&row.name, "rerun_slot_ms", row.rerun_slot_ms)?,
    })
}

/// One line of the file.
fn raw_row(line: &str) -> Result<RawRow, StoreError> {
    let columns: Vec<&str> = line.split('\t').collect();
    let [name, holder, instance, process, address, version, numbers @ ..] = &columns[..] else {
        return Err(not_a_row(line));
    };
    let numbers: Result<Vec<i64>, ParseIntError> = numbers.iter().map(|number| number.parse()).collect();
    let Ok(&[term, claimed, renewed, expires, ttl, resign_term, slot, unfinished, rerun]) =
        numbers.as_deref()
    else {
        return Err(not_a_row(line));
    };
    Ok(RawRow {
        name: (*name).to_owned(),
        holder: (*holder).to_owned(),
        instance: (*instance).to_owned(),
        process: (*process).to_owned(),
        address: (*address).to_owned(),
        version: (*version).to_owned(),
        term,
        claimed_at_ms: claimed,
        renewed_at_ms: renewed,
        expires_at_ms: expires,
        ttl_ms: ttl,
        resign_term,
        slot_ms: slot,
        unfinished_slot_ms: unfinished,
        rerun_slot_ms: rerun,
    })
}

fn not_a_row(line: &str) -> StoreError {
    damaged("", "1 to 15", &format!("{:?}", line.chars().take(40).collect::<String>()))
}
