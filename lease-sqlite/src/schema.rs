//! The table: its shape, making and upgrading it, and telling what is wrong with it.

use lease_core::ErrorKind;
use lease_core::store::StoreError;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, named_params};

use crate::error::{ANOTHER_TABLE, Failure, MIGRATE};
use crate::options::Table;
use crate::sql;

/// The DDL, as [`create_table`](sql::create_table) sends it.
const SCHEMA: &str = include_str!("schema.sql");

/// What is there under the table's name.
pub(crate) struct Shape {
    /// `None`: nothing.
    kind: Option<String>,
    is_strict: bool,
    columns: Vec<Column>,
    /// Of the primary key, if it is not `BINARY`.
    collation: Option<String>,
}

struct Column {
    name: String,
    data_type: String,
    not_null: bool,
    is_key: bool,
}

pub(crate) fn inspect(connection: &Connection, table: &Table) -> Result<Shape, Failure> {
    let kind = connection
        .prepare(sql::TABLE_KIND)?
        .query_row(named_params! {":table": table.as_str()}, |row| Ok((row.get(0)?, row.get::<_, bool>(1)?)))
        .optional()?;
    let columns = connection
        .prepare(sql::TABLE_COLUMNS)?
        .query_map(named_params! {":table": table.as_str()}, |row| {
            Ok(Column {
                name: row.get(0)?,
                data_type: row.get(1)?,
                not_null: row.get(2)?,
                is_key: row.get::<_, i64>(3)? > 0,
            })
        })?
        .collect::<Result<_, _>>()?;
    let collation = connection
        .prepare(sql::KEY_COLLATION)?
        .query_row(named_params! {":table": table.as_str()}, |row| row.get(0))
        .optional()?;
    let is_strict = kind.as_ref().is_some_and(|(_, strict)| *strict);
    Ok(Shape { kind: kind.map(|(kind, _)| kind), is_strict, columns, collation })
}

impl Shape {
    /// What keeps this from being the lease table. Columns beyond ours are a later version's.
    pub(crate) fn problem(&self, table: &Table) -> Option<StoreError> {
        let table_name = table.as_str();
        let message = if self.kind.is_none() {
            format!("table {table_name} is missing")
        } else if let Some(foreign) = self.foreign(table) {
            return Some(foreign);
        } else if let Some(missing) = self.missing().next() {
            format!("table {table_name} has no column {:?}", name_of(missing))
        } else {
            return None;
        };
        Some(StoreError::new(ErrorKind::Schema, message).with_advice(MIGRATE))
    }

    /// Says by what this cannot even be an older lease table. Such a table is never altered.
    fn foreign(&self, table: &Table) -> Option<StoreError> {
        let kind = self.kind.as_deref()?;
        let why = if kind != "table" {
            format!("it is a {kind}")
        } else if !self.is_strict {
            "it is not STRICT".to_owned()
        } else if let Some(column) = self.columns.iter().find(|column| column.is_key && column.name != "name")
        {
            format!("column {} is in its primary key", column.name)
        } else if let Some(collation) = &self.collation {
            format!("name is compared by {collation}, not byte by byte")
        } else {
            definitions().find_map(|definition| self.mismatch(definition))?
        };
        let table = table.as_str();
        let message = format!("{table} is not a lease table: {why}");
        Some(StoreError::new(ErrorKind::Schema, message).with_advice(ANOTHER_TABLE))
    }

    fn mismatch(&self, definition: &str) -> Option<String> {
        let name = name_of(definition);
        let mut words = definition.split_ascii_whitespace().skip(1);
        let data_type = words.next()?;
        match self.columns.iter().find(|column| column.name == name) {
            Some(column) if column.data_type != data_type => {
                Some(format!("column {name} is {}, not {data_type}", column.data_type))
            }
            Some(column) if !column.not_null => Some(format!("column {name} can be NULL")),
            Some(column) if definition.contains("PRIMARY KEY") && !column.is_key => {
                Some(format!("column {name} is not its primary key"))
            }
            // What every version has had since the first carries no default.
            None if !definition.contains("DEFAULT") => Some(format!("it has no column {name:?}")),
            _ => None,
        }
    }

    /// The definitions of the columns that a later version added.
    fn missing(&self) -> impl Iterator<Item = &'static str> {
        definitions()
            .filter(|definition| self.columns.iter().all(|column| column.name != name_of(definition)))
    }
}

/// Each column's definition, as `schema.sql` has it: one on a line.
fn definitions() -> impl Iterator<Item = &'static str> {
    SCHEMA.lines().filter_map(|line| Some(line.strip_prefix("    ")?.trim_end_matches(',')))
}

fn name_of(definition: &str) -> &str {
    definition.split(' ').next().unwrap_or(definition)
}

/// Creates the table or adds the columns it lacks. A whole table is left alone, and the write lock
/// is not asked for then: many processes start at once on a table that is there.
pub(crate) fn migrate(connection: &mut Connection, table: &Table) -> Result<(), Failure> {
    if inspect(connection, table)?.problem(table).is_none() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute(&sql::create_table(table), [])?;
    let shape = inspect(&transaction, table)?;
    if let Some(foreign) = shape.foreign(table) {
        return Err(foreign.without_effect().into());
    }
    for definition in shape.missing() {
        transaction.execute(&sql::add_column(table, definition), [])?;
    }
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leases() -> Table {
        Table::new("leases").unwrap()
    }

    fn problem(ddl: &str) -> String {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(ddl).unwrap();
        let problem = inspect(&connection, &leases()).unwrap().problem(&leases());
        problem.map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn the_schema_is_read_as_sqlite_reads_it() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(SCHEMA).unwrap();
        let shape = inspect(&connection, &leases()).unwrap();
        let names: Vec<&str> = shape.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, definitions().map(name_of).collect::<Vec<_>>());
        assert_eq!(names.len(), 15);
        assert!(shape.problem(&leases()).is_none());
    }

    #[test]
    fn what_is_not_the_lease_table_is_named() {
        assert_eq!(problem(""), "table leases is missing; run migrate()");
        assert_eq!(problem(&SCHEMA.replace(") STRICT", ", later TEXT NOT NULL DEFAULT '') STRICT")), "");
        for (ddl, says) in [
            (
                SCHEMA.replace("    rerun_slot_ms INTEGER NOT NULL DEFAULT 0\n", "    x INTEGER\n"),
                "no column \"rerun_slot_ms\"",
            ),
            (SCHEMA.replace("STRICT, ", ""), "not STRICT"),
            (SCHEMA.replace("term INTEGER", "term TEXT"), "term is TEXT"),
            (SCHEMA.replace("holder TEXT NOT NULL", "holder TEXT"), "holder can be NULL"),
            (SCHEMA.replace("PRIMARY KEY", "COLLATE NOCASE PRIMARY KEY"), "name is compared by NOCASE"),
            (
                "CREATE TABLE leases (id INTEGER PRIMARY KEY, tenant TEXT) STRICT".to_owned(),
                "id is in its primary key",
            ),
            ("CREATE TABLE leases (tenant TEXT) STRICT".to_owned(), "no column \"name\""),
            ("CREATE VIEW leases AS SELECT 1 AS name".to_owned(), "it is a view"),
        ] {
            let problem = problem(&ddl);
            assert!(problem.contains(says), "{problem:?} should say {says:?}");
        }
    }

    #[test]
    fn a_table_of_somebody_elses_is_not_altered() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch("CREATE TABLE leases (name TEXT NOT NULL PRIMARY KEY, tenant TEXT) STRICT")
            .unwrap();
        let error = StoreError::from(migrate(&mut connection, &leases()).unwrap_err());
        assert_eq!(error.kind(), ErrorKind::Schema);
        assert_eq!(inspect(&connection, &leases()).unwrap().columns.len(), 2);
    }
}
