//! Parameters in, rows out. Nothing read is trusted: a row may have been changed by hand.

use lease_core::store::{
    Claim, DbTime, LeaseRow, RawRow, SlotRow, SlotState, StoreError, UnfinishedSlot, damaged, slot_of,
    term_of, ttl_ms,
};
use lease_core::{ErrorKind, LeaseName, Term};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql, Type};

/// A statement and its parameters.
pub(crate) struct Question {
    pub(crate) sql: String,
    values: Vec<Value>,
}

/// A parameter, which brings the type that the statement means.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Text(String),
    Texts(Vec<String>),
    Integer(i64),
}

impl Question {
    pub(crate) fn new(sql: String, values: impl Into<Vec<Value>>) -> Self {
        Self { sql, values: values.into() }
    }

    pub(crate) fn types(&self) -> Vec<Type> {
        self.values.iter().map(Value::of_type).collect()
    }

    pub(crate) fn values(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.values.iter().map(Value::to_sql).collect()
    }

    pub(crate) fn typed(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        self.values.iter().map(|value| (value.to_sql(), value.of_type())).collect()
    }
}

impl Value {
    fn of_type(&self) -> Type {
        match self {
            Self::Text(_) => Type::TEXT,
            Self::Texts(_) => Type::TEXT_ARRAY,
            Self::Integer(_) => Type::INT8,
        }
    }

    fn to_sql(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Text(text) => text,
            Self::Texts(texts) => texts,
            Self::Integer(number) => number,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&LeaseName> for Value {
    fn from(name: &LeaseName) -> Self {
        name.as_str().into()
    }
}

impl From<&lease_core::Holder> for Value {
    fn from(holder: &lease_core::Holder) -> Self {
        holder.hex().as_str().into()
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl FromIterator<String> for Value {
    fn from_iter<T: IntoIterator<Item = String>>(texts: T) -> Self {
        Self::Texts(texts.into_iter().collect())
    }
}

/// The parameters of every claim, `$1` to `$7`, and those of this kind of claim.
pub(crate) fn claim_values(
    claim: &Claim,
    more: impl IntoIterator<Item = Value>,
) -> Result<Vec<Value>, StoreError> {
    let Claim { name, holder, ttl, instance } = claim;
    let identity =
        [instance.name(), instance.process_facts(), instance.address_text(), instance.version_text()];
    let mut values = vec![name.into(), holder.into()];
    values.extend(identity.map(|text| Value::from(text.as_str())));
    values.push(ttl_ms(*ttl)?.into());
    values.extend(more);
    Ok(values)
}

/// The term in the answer to a claim, if it was granted.
pub(crate) fn granted(rows: &[Row], name: &LeaseName) -> Result<Option<Term>, StoreError> {
    rows.first().map(|row| term_of(name.as_str(), cell(row, 0, name.as_str(), "term")?)).transpose()
}

/// One value of an answer; NULL and foreign types are not what a lease store writes.
pub(crate) fn cell<'row, T: FromSql<'row>>(
    row: &'row Row,
    index: usize,
    name: &str,
    column: &str,
) -> Result<T, StoreError> {
    row.try_get(index).map_err(|error| damaged(name, column, "no value of its type").with_source(error))
}

/// The clock, in the first column of statements that bring it along.
pub(crate) fn clock(row: &Row) -> Result<DbTime, StoreError> {
    cell(row, 0, "", "now").map(DbTime::from_millis)
}

/// The row of `sql::inspect` and `sql::list`: the clock, then the columns. `None` when the join found no row.
pub(crate) fn lease_row(row: &Row) -> Result<Option<LeaseRow>, StoreError> {
    let Some(name) = cell::<Option<String>>(row, 1, "", "name")? else { return Ok(None) };
    let text = |index, column| cell::<String>(row, index, &name, column);
    let number = |index, column| cell::<i64>(row, index, &name, column);
    let raw = RawRow {
        holder: text(2, "holder")?,
        instance: text(3, "instance")?,
        process: text(4, "process")?,
        address: text(5, "address")?,
        version: text(6, "version")?,
        term: number(7, "term")?,
        claimed_at_ms: number(8, "claimed_at_ms")?,
        renewed_at_ms: number(9, "renewed_at_ms")?,
        expires_at_ms: number(10, "expires_at_ms")?,
        ttl_ms: number(11, "ttl_ms")?,
        resign_term: number(12, "resign_term")?,
        slot_ms: number(13, "slot_ms")?,
        unfinished_slot_ms: number(14, "unfinished_slot_ms")?,
        rerun_slot_ms: number(15, "rerun_slot_ms")?,
        name,
    };
    raw.parse().map(Some)
}

/// The row of `sql::slot_state`.
pub(crate) fn slot_state(row: &Row, name: &LeaseName) -> Result<SlotState, StoreError> {
    let name = name.as_str();
    let number = |index, column| cell::<i64>(row, index, name, column);
    let now = clock(row)?;
    if cell::<Option<i64>>(row, 1, name, "term")?.is_none() {
        return Ok(SlotState { now, row: None });
    }
    let slot = |index, column| slot_of(name, column, number(index, column)?);
    let row = SlotRow {
        term: term_of(name, number(1, "term")?)?,
        expires_at: DbTime::from_millis(number(2, "expires_at_ms")?),
        last: slot(3, "slot_ms")?,
        unfinished: slot(4, "unfinished_slot_ms")?,
        rerun: slot(5, "rerun_slot_ms")?,
    };
    Ok(SlotState { now, row: Some(row) })
}

/// The row of `sql::unfinished_slots`.
pub(crate) fn unfinished_slot(row: &Row) -> Result<Option<UnfinishedSlot>, StoreError> {
    let text: String = cell(row, 0, "", "name")?;
    let slot = slot_of(&text, "unfinished_slot_ms", cell(row, 1, &text, "unfinished_slot_ms")?)?;
    let term = term_of(&text, cell(row, 2, &text, "term")?)?;
    let name = text.parse().map_err(|_| damaged("", "name", &format!("{text:?}")))?;
    Ok(slot.map(|slot| UnfinishedSlot { name, slot, term }))
}

/// For a statement that always has a row, since the clock is in it.
pub(crate) fn no_clock() -> StoreError {
    StoreError::new(ErrorKind::Other, "PostgreSQL did not tell its clock")
}
