//! From the columns of a row to a [`LeaseRow`]. Nothing read is trusted: a row may have been changed by hand.

use std::time::Duration;

use crate::store::{DbTime, LeaseRow, StoreError};
use crate::{ErrorKind, Slot, Term};

/// A row as a driver reads it, every column of the table in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the columns, under their names")]
pub struct RawRow {
    pub name: String,
    pub holder: String,
    pub instance: String,
    pub process: String,
    pub address: String,
    pub version: String,
    pub term: i64,
    pub claimed_at_ms: i64,
    pub renewed_at_ms: i64,
    pub expires_at_ms: i64,
    pub ttl_ms: i64,
    pub resign_term: i64,
    pub slot_ms: i64,
    pub unfinished_slot_ms: i64,
    pub rerun_slot_ms: i64,
}

impl RawRow {
    /// The row, checked.
    ///
    /// # Errors
    ///
    /// [`Damaged`](ErrorKind::Damaged) names the lease, the column and what stands there.
    pub fn parse(self) -> Result<LeaseRow, StoreError> {
        let quoted = |text: &str| format!("{:?}", text.chars().take(40).collect::<String>());
        let name = self.name.parse().map_err(|_| damaged("", "name", &quoted(&self.name)))?;
        let holder = self.holder.parse().map_err(|_| damaged(&self.name, "holder", &quoted(&self.holder)))?;
        let ttl = u64::try_from(self.ttl_ms)
            .map_err(|_| damaged(&self.name, "ttl_ms", &self.ttl_ms.to_string()))?;
        Ok(LeaseRow {
            name,
            holder,
            term: term_of(&self.name, self.term)?,
            claimed_at: DbTime::from_millis(self.claimed_at_ms),
            renewed_at: DbTime::from_millis(self.renewed_at_ms),
            expires_at: DbTime::from_millis(self.expires_at_ms),
            ttl: Duration::from_millis(ttl),
            resign_term: self.resign_term,
            slot: slot_of(&self.name, "slot_ms", self.slot_ms)?,
            unfinished_slot: slot_of(&self.name, "unfinished_slot_ms", self.unfinished_slot_ms)?,
            rerun_slot: slot_of(&self.name, "rerun_slot_ms", self.rerun_slot_ms)?,
            instance: self.instance,
            process: self.process,
            address: self.address,
            version: self.version,
        })
    }
}

/// The term in a row of this name; an error of the kind `Damaged` unless it is positive.
pub fn term_of(name: &str, term: i64) -> Result<Term, StoreError> {
    Term::new(term).ok_or_else(|| damaged(name, "term", &term.to_string()))
}

/// The slot in a column of a row of this name, in ms since 1970 UTC. A column that is 0 holds none; one below is an error of the
/// kind `Damaged`.
pub fn slot_of(name: &str, column: &str, ms: i64) -> Result<Option<Slot>, StoreError> {
    match ms {
        0 => Ok(None),
        ms => Slot::from_millis(ms).map(Some).ok_or_else(|| damaged(name, column, &ms.to_string())),
    }
}

/// The error for a value that no lease store writes; `name` is empty when not even that can be read.
pub fn damaged(name: &str, column: &str, found: &str) -> StoreError {
    let row = if name.is_empty() { "a row".to_owned() } else { format!("the row of {name:?}") };
    let message = format!("{row} holds {found} in column {column}, which no lease store writes");
    let mend = match column {
        "name" if name.is_empty() => "delete the row, for no lease can have that name",
        // Not of a lease, but of the database's own tables.
        _ if name.is_empty() => ErrorKind::Damaged.advice(),
        "holder" => {
            "stop what uses the name, then set expires_at_ms to 0: the next claim writes the row anew"
        }
        _ => {
            "stop what uses the name, wait a ttl, then set the column to what stood there; a row that is deleted begins again with term 1"
        }
    };
    StoreError::new(ErrorKind::Damaged, message).with_advice(mend)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw() -> RawRow {
        RawRow {
            name: "nightly".to_owned(),
            holder: "0123456789abcdef0123456789abcdef".to_owned(),
            instance: "host:1".to_owned(),
            process: "boot 1".to_owned(),
            address: "192.0.2.7:80".to_owned(),
            version: "1.4".to_owned(),
            term: 7,
            claimed_at_ms: 1,
            renewed_at_ms: 2,
            expires_at_ms: 3,
            ttl_ms: 4,
            resign_term: 5,
            slot_ms: 6,
            unfinished_slot_ms: 0,
            rerun_slot_ms: 8,
        }
    }

    #[test]
    fn each_column_has_its_place() {
        let row = raw().parse().unwrap();
        assert_eq!((row.name.as_str(), row.holder.to_string()), ("nightly", raw().holder));
        let texts = [row.instance, row.process, row.address, row.version];
        assert_eq!(texts, ["host:1", "boot 1", "192.0.2.7:80", "1.4"]);
        let times = [row.claimed_at, row.renewed_at, row.expires_at].map(DbTime::as_millis);
        assert_eq!(times, [1, 2, 3]);
        assert_eq!((row.term.get(), row.ttl, row.resign_term), (7, Duration::from_millis(4), 5));
        let slots = [row.slot, row.unfinished_slot, row.rerun_slot].map(|slot| slot.map(Slot::as_millis));
        assert_eq!(slots, [Some(6), None, Some(8)]);
    }

    #[test]
    fn what_no_store_writes_is_named_with_its_place() {
        let error = |row: RawRow| {
            let error = row.parse().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged);
            error.to_string()
        };
        let says = "the row of \"nightly\" holds -1 in column slot_ms, which no lease store writes; stop what uses the name, wait a ttl, ";
        assert!(error(RawRow { slot_ms: -1, ..raw() }).starts_with(says));
        assert!(error(RawRow { term: 0, ..raw() }).contains("0 in column term"));
        assert!(error(RawRow { ttl_ms: -4, ..raw() }).contains("-4 in column ttl_ms"));
        assert!(error(RawRow { holder: "x".to_owned(), ..raw() }).contains("\"x\" in column holder"));
        let name = "two\nlines".to_owned();
        let of_name = error(RawRow { name, ..raw() });
        assert!(of_name.starts_with("a row holds \"two\\nlines\" in column name"), "{of_name}");
        assert!(of_name.ends_with("; delete the row, for no lease can have that name"), "{of_name}");
    }

    #[test]
    fn no_row_is_to_be_deleted_whose_name_is_one() {
        for column in ["name", "holder", "term", "slot_ms"] {
            assert!(!damaged("nightly", column, "x").to_string().contains("delete the row"), "{column}");
        }
        assert_eq!(damaged("", "version", "x").advice(), Some(ErrorKind::Damaged.advice()));
    }
}
