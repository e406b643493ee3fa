//! Parameters in, rows out. Nothing read is trusted: a row may have been changed by hand.

use lease_core::store::{
    Claim, DbTime, LeaseRow, RawRow, SlotRow, SlotState, StoreError, UnfinishedSlot, damaged, slot_of,
    term_of, ttl_ms,
};
use lease_core::{ErrorKind, LeaseName, Term};
/// Values as text.
pub(crate) use tokio_postgres::SimpleQueryRow as Row;

/// A statement and its parameters, which go out with it as text: what is asked is one message, however many
/// statements are in it.
pub(crate) struct Question {
    pub(crate) sql: String,
    values: Vec<Value>,
    is_kept: bool,
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
        Self { sql, values: values.into(), is_kept: true }
    }

    /// One that is asked seldom, or in words that a `search_path` has a say in: it is not prepared, and always has the settings in
    /// front.
    pub(crate) fn seldom(sql: String, values: impl Into<Vec<Value>>) -> Self {
        Self { is_kept: false, ..Self::new(sql, values) }
    }

    /// Whether it is prepared where it is asked in a session that is ours alone.
    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// `pg_catalog.text, pg_catalog.int8`.
    pub(crate) fn types(&self) -> String {
        self.values.iter().map(Value::of_type).collect::<Vec<_>>().join(", ")
    }

    /// The values, as many literals.
    pub(crate) fn literals(&self) -> String {
        let mut literals = String::with_capacity(self.len());
        for (index, value) in self.values.iter().enumerate() {
            if index > 0 {
                literals.push_str(", ");
            }
            value.push_to(&mut literals);
        }
        literals
    }

    /// The statement with its values in the places of its parameters.
    pub(crate) fn in_line(&self) -> String {
        let mut text = String::with_capacity(self.sql.len() + self.len());
        let mut parts = self.sql.split('$');
        text.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let behind = part.trim_start_matches(|sign: char| sign.is_ascii_digit());
            let place = part[..part.len() - behind.len()].parse::<usize>();
            let value = place.ok().and_then(|place| self.values.get(place.checked_sub(1)?));
            let value = value.expect("a statement of ours has a `$` only where it has a value");
            value.push_to(&mut text);
            text.push_str("::");
            text.push_str(value.of_type());
            text.push_str(behind);
        }
        text
    }

    /// About as many bytes as the values take.
    fn len(&self) -> usize {
        self.values.iter().map(|value| value.len() + 16).sum()
    }
}

impl Value {
    fn of_type(&self) -> &'static str {
        match self {
            Self::Text(_) => "pg_catalog.text",
            Self::Texts(_) => "pg_catalog.text[]",
            Self::Integer(_) => "pg_catalog.int8",
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Texts(texts) => texts.iter().map(|text| text.len() + 3).sum(),
            Self::Integer(_) => 20,
        }
    }

    /// Puts a literal behind the text that is read alike whatever the session's settings are.
    fn push_to(&self, text: &mut String) {
        match self {
            Self::Text(value) => push_quoted(text, value),
            Self::Texts(values) => {
                let mut array = String::with_capacity(self.len() + 2);
                for value in values {
                    array.push(if array.is_empty() { '{' } else { ',' });
                    array.push('"');
                    push_escaped(&mut array, value, '"', '\\');
                    array.push('"');
                }
                array.push_str(if array.is_empty() { "{}" } else { "}" });
                push_quoted(text, &array);
            }
            Self::Integer(number) => {
                text.push('\'');
                text.push_str(&number.to_string());
                text.push('\'');
            }
        }
    }
}

/// A literal, which is read alike whatever the session's settings are.
pub(crate) fn quoted(value: &str) -> String {
    let mut text = String::with_capacity(value.len() + 8);
    push_quoted(&mut text, value);
    text
}

fn push_quoted(text: &mut String, value: &str) {
    text.push_str("E'");
    push_escaped(text, value, '\'', '\'');
    text.push('\'');
}

/// A backslash is escaped by another, in SQL as in an array; a quote by what is told.
fn push_escaped(text: &mut String, value: &str, quote: char, by: char) {
    let mut rest = value;
    while let Some(index) = rest.find(['\\', quote]) {
        text.push_str(&rest[..index]);
        let sign = if rest[index..].starts_with('\\') { '\\' } else { quote };
        text.push(if sign == quote { by } else { '\\' });
        text.push(sign);
        rest = &rest[index + 1..];
    }
    text.push_str(rest);
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
pub(crate) fn cell<'row, T: Cell<'row>>(
    row: &'row Row,
    index: usize,
    name: &str,
    column: &str,
) -> Result<T, StoreError> {
    let no_value = || damaged(name, column, "no value of its type");
    let text = row.try_get(index).map_err(|error| no_value().with_source(error))?;
    T::read(text).ok_or_else(no_value)
}

/// What can be read from the text of a value, where there is one.
pub(crate) trait Cell<'row>: Sized {
    fn read(text: Option<&'row str>) -> Option<Self>;
}

impl<'row> Cell<'row> for &'row str {
    fn read(text: Option<&'row str>) -> Option<Self> {
        text
    }
}

impl Cell<'_> for String {
    fn read(text: Option<&str>) -> Option<Self> {
        text.map(str::to_owned)
    }
}

impl Cell<'_> for i64 {
    fn read(text: Option<&str>) -> Option<Self> {
        text?.parse().ok()
    }
}

impl Cell<'_> for bool {
    fn read(text: Option<&str>) -> Option<Self> {
        match text? {
            "t" => Some(true),
            "f" => Some(false),
            _ => None,
        }
    }
}

impl<'row, T: Cell<'row>> Cell<'row> for Option<T> {
    fn read(text: Option<&'row str>) -> Option<Self> {
        match text {
            None => Some(None),
            some => T::read(some).map(Some),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_in_the_places_of_their_parameters() {
        let texts = [r#"a"b\'"#, "c"].map(str::to_owned);
        let values: [Value; 4] =
            [r"it's \ $2".into(), (-7).into(), texts.into_iter().collect(), [].into_iter().collect()];
        let question = Question::new("SELECT $1 || $3, $2, $2 + $4".to_owned(), values);
        assert_eq!(
            question.types(),
            "pg_catalog.text, pg_catalog.int8, pg_catalog.text[], pg_catalog.text[]"
        );
        assert_eq!(question.literals(), r#"E'it''s \\ $2', '-7', E'{"a\\"b\\\\''","c"}', E'{}'"#);
        assert_eq!(
            question.in_line(),
            r#"SELECT E'it''s \\ $2'::pg_catalog.text || E'{"a\\"b\\\\''","c"}'::pg_catalog.text[], '-7'::pg_catalog.int8, '-7'::pg_catalog.int8 + E'{}'::pg_catalog.text[]"#
        );
    }
}
