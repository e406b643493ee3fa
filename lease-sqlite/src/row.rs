//! Parameters in, rows out. Nothing read is trusted: a row may have been changed by hand.

use lease_core::store::{Claim, DbTime, LeaseRow, RawRow, StoreError, damaged, slot_of, term_of, ttl_ms};
use lease_core::{ErrorKind, LeaseName, Slot, Term};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Params, Row, ToSql};

use crate::error::Failure;

/// Runs a statement that answers with at most one row, to its end. With RETURNING the row comes
/// before the statement is through, and the driver's `query_row`, which stops there, drops the error
/// of what is left: outside a transaction that is the commit.
pub(crate) fn answer<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let value = read(row);
    while rows.next()?.is_some() {}
    value.map(Some)
}

/// A claim as the parameters of a statement.
pub(crate) struct ClaimParams {
    pub(crate) name: LeaseName,
    texts: [String; 6],
    ttl: i64,
}

impl ClaimParams {
    pub(crate) fn new(claim: &Claim) -> Result<Self, StoreError> {
        let Claim { name, holder, ttl, instance } = claim;
        let identity =
            [instance.name(), instance.process_facts(), instance.address_text(), instance.version_text()];
        let [instance, process, address, version] = identity.map(ToString::to_string);
        let texts = [name.to_string(), holder.to_string(), instance, process, address, version];
        Ok(Self { name: name.clone(), texts, ttl: ttl_ms(*ttl)? })
    }

    /// The parameters of every claim, and those of this kind of claim.
    pub(crate) fn with<'a>(
        &'a self,
        more: &[(&'static str, &'a dyn ToSql)],
    ) -> Vec<(&'static str, &'a dyn ToSql)> {
        let names = [":name", ":holder", ":instance", ":process", ":address", ":version"];
        let texts = self.texts.iter().map(|text| text as &dyn ToSql);
        names
            .into_iter()
            .zip(texts)
            .chain([(":ttl", &self.ttl as &dyn ToSql)])
            .chain(more.iter().copied())
            .collect()
    }
}

/// Names as one parameter. They have no control characters, so two signs are all there is to escape.
pub(crate) fn json_array(names: &[LeaseName]) -> String {
    let quoted: Vec<String> = names
        .iter()
        .map(|name| format!("\"{}\"", name.as_str().replace('\\', "\\\\").replace('"', "\\\"")))
        .collect();
    format!("[{}]", quoted.join(","))
}

/// The row of `sql::inspect` and `sql::list`: the clock, then the columns. `None` when the join found no row.
pub(crate) fn clock_and_lease(row: &Row<'_>) -> Result<(DbTime, Option<LeaseRow>), Failure> {
    let now = Cell::new(row, "", 0, "now").time()?;
    let name = Cell::new(row, "", 1, "name");
    if name.is_null()? {
        return Ok((now, None));
    }
    let name = name.text()?;
    let integer = |index, column| Cell::new(row, name, index, column).integer();
    let text = |index, column| Cell::new(row, name, index, column).text().map(str::to_owned);
    let raw = RawRow {
        name: name.to_owned(),
        holder: text(2, "holder")?,
        instance: text(3, "instance")?,
        process: text(4, "process")?,
        address: text(5, "address")?,
        version: text(6, "version")?,
        term: integer(7, "term")?,
        claimed_at_ms: integer(8, "claimed_at_ms")?,
        renewed_at_ms: integer(9, "renewed_at_ms")?,
        expires_at_ms: integer(10, "expires_at_ms")?,
        ttl_ms: integer(11, "ttl_ms")?,
        resign_term: integer(12, "resign_term")?,
        slot_ms: integer(13, "slot_ms")?,
        unfinished_slot_ms: integer(14, "unfinished_slot_ms")?,
        rerun_slot_ms: integer(15, "rerun_slot_ms")?,
    };
    Ok((now, Some(raw.parse()?)))
}

/// One value of an answer, with what is needed to say where a bad one stands.
pub(crate) struct Cell<'row, 'statement> {
    row: &'row Row<'statement>,
    lease: &'row str,
    index: usize,
    column: &'static str,
}

impl<'row, 'statement> Cell<'row, 'statement> {
    pub(crate) fn new(
        row: &'row Row<'statement>,
        lease: &'row str,
        index: usize,
        column: &'static str,
    ) -> Self {
        Self { row, lease, index, column }
    }

    pub(crate) fn integer(&self) -> Result<i64, Failure> {
        match self.value()? {
            ValueRef::Integer(number) => Ok(number),
            other => Err(self.damaged(&kind_of(other))),
        }
    }

    pub(crate) fn time(&self) -> Result<DbTime, Failure> {
        self.integer().map(DbTime::from_millis)
    }

    pub(crate) fn term(&self) -> Result<Term, Failure> {
        Ok(term_of(self.lease, self.integer()?)?)
    }

    pub(crate) fn slot(&self) -> Result<Option<Slot>, Failure> {
        Ok(slot_of(self.lease, self.column, self.integer()?)?)
    }

    pub(crate) fn name(&self) -> Result<LeaseName, Failure> {
        let text = self.text()?;
        let shown = || format!("{:?}", text.chars().take(40).collect::<String>());
        text.parse().map_err(|_| self.damaged(&shown()))
    }

    fn text(&self) -> Result<&'row str, Failure> {
        match self.value()? {
            ValueRef::Text(bytes) => str::from_utf8(bytes).map_err(|_| self.damaged("no UTF-8")),
            other => Err(self.damaged(&kind_of(other))),
        }
    }

    pub(crate) fn is_null(&self) -> Result<bool, Failure> {
        Ok(self.value()? == ValueRef::Null)
    }

    fn value(&self) -> Result<ValueRef<'row>, Failure> {
        Ok(self.row.get_ref(self.index)?)
    }

    fn damaged(&self, found: &str) -> Failure {
        damaged(self.lease, self.column, found).into()
    }
}

fn kind_of(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(_) => "a text".to_owned(),
        ValueRef::Blob(_) => "a blob".to_owned(),
    }
}

/// For a statement that always has a row, since the clock is in it.
pub(crate) fn no_clock() -> StoreError {
    StoreError::new(ErrorKind::Other, "SQLite did not tell its clock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_characters_come_out_of_the_array_as_they_went_in() {
        let texts = ["plain", r#"a"b\c"#, r"\\u0041\", "ä\u{2028}😀", "[1, null]"];
        let names = texts.map(|text| LeaseName::new(text).unwrap());
        let connection = Connection::open_in_memory().unwrap();
        let mut statement = connection.prepare("SELECT value FROM json_each(?1)").unwrap();
        let out = statement.query_map([json_array(&names)], |row| row.get(0)).unwrap();
        assert_eq!(out.collect::<Result<Vec<String>, _>>().unwrap(), texts);
    }
}
