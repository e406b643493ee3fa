//! Parameters in, rows out. Nothing read is trusted: a row may have been changed by hand.

use std::str::FromStr;
use std::time::Duration;

use lease_core::store::{Claim, DbTime, LeaseRow, StoreError, millis};
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

/// The longest ttl in milliseconds that is added to a clock without overflow.
const TTL_MS_MAX: i64 = i64::MAX / 2;

/// A ttl as a statement carries it.
pub(crate) fn ttl_ms(ttl: Duration) -> Result<i64, StoreError> {
    let ms = millis(ttl);
    if (1..=TTL_MS_MAX).contains(&ms) {
        return Ok(ms);
    }
    let message = format!("ttl {ttl:?} is not between 1 ms and {TTL_MS_MAX} ms");
    Err(StoreError::new(ErrorKind::Invalid, message).without_effect())
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
    let name: LeaseName = name.parse()?;
    let cell = |index, column| Cell::new(row, name.as_str(), index, column);
    let lease = LeaseRow {
        holder: cell(2, "holder").parse()?,
        instance: cell(3, "instance").text()?.to_owned(),
        process: cell(4, "process").text()?.to_owned(),
        address: cell(5, "address").text()?.to_owned(),
        version: cell(6, "version").text()?.to_owned(),
        term: cell(7, "term").term()?,
        claimed_at: cell(8, "claimed_at_ms").time()?,
        renewed_at: cell(9, "renewed_at_ms").time()?,
        expires_at: cell(10, "expires_at_ms").time()?,
        ttl: cell(11, "ttl_ms").duration()?,
        resign_term: cell(12, "resign_term").integer()?,
        slot: cell(13, "slot_ms").slot()?,
        unfinished_slot: cell(14, "unfinished_slot_ms").slot()?,
        rerun_slot: cell(15, "rerun_slot_ms").slot()?,
        name: name.clone(),
    };
    Ok((now, Some(lease)))
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
        let number = self.integer()?;
        Term::new(number).ok_or_else(|| self.damaged(&number.to_string()))
    }

    /// A column that is 0 holds no slot.
    pub(crate) fn slot(&self) -> Result<Option<Slot>, Failure> {
        match self.integer()? {
            0 => Ok(None),
            ms => Slot::from_millis(ms).map(Some).ok_or_else(|| self.damaged(&ms.to_string())),
        }
    }

    fn duration(&self) -> Result<Duration, Failure> {
        let ms = self.integer()?;
        u64::try_from(ms).map(Duration::from_millis).map_err(|_| self.damaged(&ms.to_string()))
    }

    pub(crate) fn parse<T: FromStr>(&self) -> Result<T, Failure> {
        let text = self.text()?;
        text.parse().map_err(|_| self.damaged(&format!("{:?}", excerpt(text))))
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
        let Self { lease, column, .. } = self;
        let message = if lease.is_empty() {
            format!("a row holds {found} in column {column}, which no lease store writes")
        } else {
            format!("the row of {lease:?} holds {found} in column {column}, which no lease store writes")
        };
        StoreError::new(ErrorKind::Damaged, message).into()
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

/// The start of a text that may be long.
fn excerpt(text: &str) -> String {
    text.chars().take(40).collect()
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
