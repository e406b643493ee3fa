//! Statements and parameters in, rows out. Nothing read is trusted: a row may have been changed by hand.

use lease_core::store::{
    Claim, DbTime, LeaseRow, RawRow, SlotRow, SlotState, StoreError, damaged, slot_of, term_of, ttl_ms,
};
use lease_core::{ErrorKind, LeaseName, Term};
use mysql_async::{Row, Value};

use crate::sql;

/// Named parameters of a statement.
pub(crate) type Values = Vec<(&'static str, Value)>;

/// What goes to the server in one trip.
#[derive(Debug, Clone)]
pub(crate) enum Flight {
    /// A statement with `:name`s in it: prepared once on each connection. Some errors of the server are an
    /// answer, too: that it wrote nothing.
    One { sql: String, values: Values, refusals: &'static [u16] },
    /// Statements without parameters.
    Many(Vec<String>),
}

impl Flight {
    pub(crate) fn one(sql: impl Into<String>, values: Values) -> Self {
        Self::One { sql: sql.into(), values, refusals: &[] }
    }

    /// The statements with their values written into them.
    pub(crate) fn written_out(&self) -> Vec<String> {
        match self {
            Self::One { sql, values, .. } => vec![written_out(sql, values)],
            Self::Many(statements) => statements.clone(),
        }
    }

    /// Whether an error of the server says that a statement which may write nothing did so.
    pub(crate) fn is_refusal(&self, number: u16) -> bool {
        matches!(self, Self::One { refusals, .. } if refusals.contains(&number))
    }
}

/// What the server answers to one statement.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) rows: Vec<Row>,
    /// What `LAST_INSERT_ID(...)` was in the statement; 0 when it did not come to it.
    pub(crate) id: u64,
    /// How many rows an INSERT has made, or an UPDATE has changed or found, as the connection was opened.
    pub(crate) rows_affected: u64,
}

impl Answer {
    /// What `LAST_INSERT_ID(...)` was in an UPDATE; 0 when no row matched.
    pub(crate) fn id(&self) -> Result<u64, StoreError> {
        if self.id == 0 && self.rows_affected > 0 {
            // A trigger's own statements take its value away; and no store writes a term of 0.
            let message = "a trigger on the lease table keeps the server from saying what a statement did, or the row holds no term; drop the trigger, or look at the row";
            return Err(StoreError::new(ErrorKind::Schema, message));
        }
        Ok(self.id)
    }

    /// Whether an UPDATE matched a row.
    pub(crate) fn matched(&self) -> Result<bool, StoreError> {
        Ok(self.id()? != 0)
    }

    /// The term that a claim was granted.
    pub(crate) fn term(&self, name: &LeaseName) -> Result<Option<Term>, StoreError> {
        let id = self.id()?;
        if id == 0 {
            return Ok(None);
        }
        let term = i64::try_from(id).map_err(|_| damaged(name.as_str(), "term", &id.to_string()))?;
        term_of(name.as_str(), term).map(Some)
    }
}

/// A text as a parameter.
pub(crate) fn text(text: impl AsRef<[u8]>) -> Value {
    Value::Bytes(text.as_ref().to_vec())
}

/// A claim as parameters.
pub(crate) fn claim_values(claim: &Claim) -> Result<Values, StoreError> {
    let Claim { name, holder, ttl, instance } = claim;
    Ok(vec![
        ("name", text(name.as_str())),
        ("holder", text(holder.hex().as_str())),
        ("instance", text(instance.name().to_string())),
        ("process", text(instance.process_facts().to_string())),
        ("address", text(instance.address_text().to_string())),
        ("version", text(instance.version_text().to_string())),
        ("ttl", Value::Int(ttl_ms(*ttl)?)),
    ])
}

/// Puts the values in the place of their names. Our statements have a colon nowhere else.
fn written_out(sql: &str, values: &[(&'static str, Value)]) -> String {
    let mut parts = sql.split(':');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        let value = values.iter().find(|(known, _)| *known == name).map(|(_, value)| value);
        match value {
            Some(Value::Int(number)) => out.push_str(&number.to_string()),
            Some(Value::Bytes(bytes)) => out.push_str(&sql::hex(bytes)),
            // Refused by the server, as a prepared statement would be by the driver.
            _ => out.extend([":", name]),
        }
        out.push_str(rest);
    }
    out
}

/// The row of `sql::inspect` and `sql::list`: the clock, then the columns. `None` when the join found no row.
pub(crate) fn clock_and_lease(row: &Row) -> Result<(DbTime, Option<LeaseRow>), StoreError> {
    let now = DbTime::from_millis(integer(row, 0, "", "now")?);
    if is_null(row, 1) {
        return Ok((now, None));
    }
    let name = string(row, 1, "", "name")?;
    let text = |index, column| string(row, index, &name, column);
    let number = |index, column| integer(row, index, &name, column);
    let lease = RawRow {
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
        name: name.clone(),
    };
    Ok((now, Some(lease.parse()?)))
}

/// The row of `sql::slot_state`.
pub(crate) fn slot_state(row: &Row, name: &LeaseName) -> Result<SlotState, StoreError> {
    let name = name.as_str();
    let number = |index, column| integer(row, index, name, column);
    let slot = |index, column| slot_of(name, column, number(index, column)?);
    let now = DbTime::from_millis(number(0, "now")?);
    if is_null(row, 1) {
        return Ok(SlotState { now, row: None });
    }
    let row = SlotRow {
        term: term_of(name, number(1, "term")?)?,
        expires_at: DbTime::from_millis(number(2, "expires_at_ms")?),
        last: slot(3, "slot_ms")?,
        unfinished: slot(4, "unfinished_slot_ms")?,
        rerun: slot(5, "rerun_slot_ms")?,
    };
    Ok(SlotState { now, row: Some(row) })
}

pub(crate) fn is_null(row: &Row, index: usize) -> bool {
    matches!(row.as_ref(index), None | Some(Value::NULL))
}

/// A number, which the text protocol writes in digits.
pub(crate) fn integer(row: &Row, index: usize, name: &str, column: &'static str) -> Result<i64, StoreError> {
    let found = row.as_ref(index);
    let number = match found {
        Some(Value::Int(number)) => Some(*number),
        Some(Value::UInt(number)) => i64::try_from(*number).ok(),
        Some(Value::Bytes(digits)) => str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()),
        _ => None,
    };
    number.ok_or_else(|| damaged(name, column, kind_of(found)))
}

pub(crate) fn string(
    row: &Row,
    index: usize,
    name: &str,
    column: &'static str,
) -> Result<String, StoreError> {
    match row.as_ref(index) {
        Some(Value::Bytes(bytes)) => {
            String::from_utf8(bytes.clone()).map_err(|_| damaged(name, column, "no UTF-8"))
        }
        found => Err(damaged(name, column, kind_of(found))),
    }
}

fn kind_of(value: Option<&Value>) -> &'static str {
    match value {
        None => "nothing",
        Some(Value::NULL) => "NULL",
        Some(Value::Bytes(_)) => "a text",
        Some(Value::Int(_) | Value::UInt(_)) => "a number",
        Some(Value::Float(_) | Value::Double(_)) => "a fraction",
        Some(Value::Date(..) | Value::Time(..)) => "a time",
    }
}

/// For a statement that always has a row.
pub(crate) fn no_row() -> StoreError {
    StoreError::new(ErrorKind::Other, "the server answered with no row where there is always one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_where_their_names_stood_and_need_no_quotes() {
        let values = vec![("name", text("it's :ttl")), ("ttl", Value::Int(-5)), ("ttl_ms", Value::Int(7))];
        let flight = Flight::one("SELECT :ttl, :ttl_ms,:name=(:ttl)", values);
        assert_eq!(flight.written_out(), ["SELECT -5, 7,X'69742773203A74746C'=(-5)"]);
        let flight = Flight::one("SELECT :name", vec![("name", text(""))]);
        assert_eq!(flight.written_out(), ["SELECT X''"]);
        // A value that is missing is not left out silently.
        assert_eq!(Flight::one("SELECT :other", Vec::new()).written_out(), ["SELECT :other"]);
    }
}
