//! The table: its shape, making and upgrading it, and telling what is wrong with it.

use lease_core::ErrorKind;
use lease_core::store::{Limit, StoreError};
use tokio_postgres::Client;

use crate::connection::{begin, tell};
use crate::connections::{Connections, Lane};
use crate::error::{ANOTHER_TABLE, MIGRATE, of_statement};
use crate::options::Table;
use crate::row::{Question, Row, cell};
use crate::sql;

/// The DDL, as [`create_table`](sql::create_table) sends it.
const SCHEMA: &str = include_str!("schema.sql");

/// What is there under the table's name.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    /// `None`: nothing.
    kind: Option<Kind>,
    columns: Vec<Column>,
}

#[derive(Debug)]
struct Kind {
    /// One letter, as in `pg_class`.
    relation: String,
    persistence: String,
    row_security: bool,
    /// The columns of each unique key, the primary one's with ` key` behind, one on a line.
    unique: String,
    inherited: bool,
}

#[derive(Debug)]
struct Column {
    name: String,
    data_type: String,
    not_null: bool,
    collation: String,
}

/// The questions by which the shape is learnt.
fn questions(table: &Table) -> [Question; 2] {
    [sql::TABLE_KIND, sql::TABLE_COLUMNS].map(|sql| Question::seldom(sql.to_owned(), table.values()))
}

pub(crate) async fn inspect(
    connections: &Connections,
    limit: &Limit,
    table: &Table,
) -> Result<Shape, StoreError> {
    let [kind, columns] = questions(table);
    let look = async |question| {
        connections.ask(Lane::Other, limit, question).await.map_err(StoreError::without_effect)
    };
    Shape::read(&look(&kind).await?, &look(&columns).await?)
}

async fn inspect_here(client: &Client, table: &Table) -> Result<Shape, StoreError> {
    let [kind, columns] = questions(table);
    Shape::read(&tell(client, &kind).await?, &tell(client, &columns).await?)
}

impl Shape {
    fn read(kind: &[Row], columns: &[Row]) -> Result<Self, StoreError> {
        let kind = kind.first().map(|row| {
            Ok::<_, StoreError>(Kind {
                relation: cell(row, 0, "", "relkind")?,
                persistence: cell(row, 1, "", "relpersistence")?,
                row_security: cell(row, 2, "", "row_security_active")?,
                unique: cell(row, 3, "", "indkey")?,
                inherited: cell(row, 4, "", "inhparent")?,
            })
        });
        let columns = columns.iter().map(|row| {
            Ok(Column {
                name: cell(row, 0, "", "attname")?,
                data_type: cell(row, 1, "", "atttypid")?,
                not_null: cell(row, 2, "", "attnotnull")?,
                collation: cell(row, 3, "", "collname")?,
            })
        });
        Ok(Self { kind: kind.transpose()?, columns: columns.collect::<Result<_, StoreError>>()? })
    }

    /// What keeps this from being a lease table that can be relied on. Columns beyond ours are a later version's.
    pub(crate) fn problem(&self, table: &Table) -> Option<StoreError> {
        let shown = table.shown();
        let Some(kind) = &self.kind else {
            let message = format!("table {shown} is missing");
            return Some(StoreError::new(ErrorKind::Schema, message).with_advice(MIGRATE));
        };
        if let Some(foreign) = self.foreign(table) {
            return Some(foreign);
        }
        if let Some(missing) = self.missing().next() {
            let what =
                if is_constraint(missing) { missing } else { &format!("column {:?}", name_of(missing)) };
            let message = format!("table {shown} has no {what}");
            return Some(StoreError::new(ErrorKind::Schema, message).with_advice(MIGRATE));
        }
        if kind.persistence == "u" {
            let message = format!("table {shown} is unlogged, so a crash empties it");
            let advice = format!("ALTER TABLE {table} SET LOGGED");
            return Some(StoreError::new(ErrorKind::NotDurable, message).with_advice(advice));
        }
        kind.row_security.then(|| {
            let message = format!("row security applies to this role on table {shown}");
            StoreError::new(ErrorKind::Denied, message)
                .with_advice("grant the role BYPASSRLS, or disable row security on the table")
        })
    }

    /// Says by what this cannot even be an older lease table. Such a table is never altered.
    fn foreign(&self, table: &Table) -> Option<StoreError> {
        let kind = self.kind.as_ref()?;
        let why = match kind.relation.as_str() {
            "r" if kind.persistence == "t" => "it is a temporary table".to_owned(),
            "r" if kind.inherited => "another table inherits from it".to_owned(),
            "r" => definitions()
                .filter(|definition| !is_constraint(definition))
                .find_map(|definition| self.mismatch(definition))
                .or_else(|| kind.foreign_key())?,
            "v" | "m" => "it is a view".to_owned(),
            "p" => "it is partitioned".to_owned(),
            "f" => "it is a foreign table".to_owned(),
            _ => "it is no table".to_owned(),
        };
        let message = format!("{} is not a lease table: {why}", table.shown());
        Some(StoreError::new(ErrorKind::Schema, message).with_advice(ANOTHER_TABLE))
    }

    fn mismatch(&self, definition: &str) -> Option<String> {
        let name = name_of(definition);
        let data_type = definition.split_ascii_whitespace().nth(1)?;
        match self.columns.iter().find(|column| column.name == name) {
            Some(column) if column.data_type != data_type => {
                Some(format!("column {name} is {}, not {data_type}", column.data_type))
            }
            Some(column) if !column.not_null => Some(format!("column {name} can be NULL")),
            Some(column) if name == "name" && column.collation != "C" => {
                Some(format!("column name is collated by {}, not by C", column.collation))
            }
            // What every version has had since the first carries no default.
            None if !definition.contains("DEFAULT") => Some(format!("it has no column {name:?}")),
            _ => None,
        }
    }

    /// The definitions of what a later version added, and of the second unique key.
    fn missing(&self) -> impl Iterator<Item = &'static str> {
        definitions().filter(|definition| {
            if is_constraint(definition) {
                !self.kind.as_ref().is_some_and(Kind::has_fence)
            } else {
                self.columns.iter().all(|column| column.name != name_of(definition))
            }
        })
    }
}

impl Kind {
    fn foreign_key(&self) -> Option<String> {
        (!self.unique.lines().any(|columns| columns == "name key"))
            .then(|| "its primary key is not name".to_owned())
    }

    fn has_fence(&self) -> bool {
        self.unique.lines().any(|columns| columns == "name,term" || columns == "term,name")
    }
}

/// Each column's definition and the constraint, as `schema.sql` has them: one on a line.
fn definitions() -> impl Iterator<Item = &'static str> {
    SCHEMA.lines().filter_map(|line| Some(line.strip_prefix("    ")?.trim_end_matches(',')))
}

fn is_constraint(definition: &str) -> bool {
    definition.starts_with("UNIQUE")
}

fn name_of(definition: &str) -> &str {
    definition.split(' ').next().unwrap_or(definition)
}

/// Creates the table or adds what it lacks. A whole table is left alone, and no right but to read the
/// catalogue is needed then: many processes start at once on a table that is there.
pub(crate) async fn migrate(
    connections: &Connections,
    limit: &Limit,
    table: &Table,
) -> Result<(), StoreError> {
    let shape = inspect(connections, limit, table).await?;
    if shape.kind.is_some() && shape.missing().next().is_none() {
        return shape.foreign(table).map_or(Ok(()), |foreign| Err(foreign.without_effect()));
    }
    let lent = connections.lend(Lane::Other, limit).await?;
    let made = make(lent.client(), limit, table).await;
    lent.end(made)
}

async fn make(client: &Client, limit: &Limit, table: &Table) -> Result<(), StoreError> {
    begin(client, limit).await?;
    tell(client, &Question::new(sql::MIGRATION_LOCK.to_owned(), [table.to_string().as_str().into()])).await?;
    let mut shape = inspect_here(client, table).await?;
    if shape.kind.is_none() {
        say(client, &sql::create_table(table)).await?;
        shape = inspect_here(client, table).await?;
    }
    if let Some(foreign) = shape.foreign(table) {
        return Err(foreign.without_effect());
    }
    say(client, sql::ALTER_BRIEFLY).await?;
    for definition in shape.missing() {
        say(client, &sql::add_column(table, definition)).await?;
    }
    say(client, sql::COMMIT).await
}

async fn say(client: &Client, sql: &str) -> Result<(), StoreError> {
    client.batch_execute(sql).await.map_err(of_statement)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leases() -> Table {
        crate::PostgresOptions::default().table
    }

    /// The shape of a table as `schema.sql` makes it.
    fn whole() -> Shape {
        let columns = definitions().filter(|definition| !is_constraint(definition)).map(|definition| {
            let data_type = definition.split_ascii_whitespace().nth(1).unwrap().to_owned();
            let collation = if data_type == "text" { "C" } else { "" }.to_owned();
            Column { name: name_of(definition).to_owned(), data_type, not_null: true, collation }
        });
        let unique = "name key\nname,term".to_owned();
        let (relation, persistence) = ("r".to_owned(), "p".to_owned());
        let kind = Kind { relation, persistence, row_security: false, unique, inherited: false };
        Shape { kind: Some(kind), columns: columns.collect() }
    }

    #[test]
    fn the_schema_has_the_columns_of_a_lease_row() {
        assert_eq!(whole().columns.len(), 15);
        assert!(whole().problem(&leases()).is_none());
    }

    #[test]
    fn what_is_not_the_lease_table_is_named() {
        type Change = fn(&mut Shape);
        let changes: [(Change, ErrorKind, &str); 12] = [
            (|shape| shape.kind = None, ErrorKind::Schema, "table leases is missing; run migrate()"),
            (|shape| drop(shape.columns.pop()), ErrorKind::Schema, "no column \"rerun_slot_ms\""),
            (
                |shape| shape.kind.as_mut().unwrap().unique = "name key".to_owned(),
                ErrorKind::Schema,
                "no UNIQUE (name, term)",
            ),
            (
                |shape| shape.kind.as_mut().unwrap().unique = "holder key\nname,term".to_owned(),
                ErrorKind::Schema,
                "primary key is not name",
            ),
            (|shape| drop(shape.columns.remove(0)), ErrorKind::Schema, "it has no column \"name\""),
            (|shape| shape.columns[6].data_type = "integer".to_owned(), ErrorKind::Schema, "term is integer"),
            (|shape| shape.columns[1].not_null = false, ErrorKind::Schema, "holder can be NULL"),
            (
                |shape| shape.columns[0].collation = "default".to_owned(),
                ErrorKind::Schema,
                "collated by default",
            ),
            (
                |shape| shape.kind.as_mut().unwrap().relation = "v".to_owned(),
                ErrorKind::Schema,
                "it is a view",
            ),
            (
                |shape| shape.kind.as_mut().unwrap().persistence = "u".to_owned(),
                ErrorKind::NotDurable,
                "unlogged",
            ),
            (
                |shape| shape.kind.as_mut().unwrap().inherited = true,
                ErrorKind::Schema,
                "another table inherits from it",
            ),
            (|shape| shape.kind.as_mut().unwrap().row_security = true, ErrorKind::Denied, "row security"),
        ];
        for (change, kind, says) in changes {
            let mut shape = whole();
            change(&mut shape);
            let problem = shape.problem(&leases()).unwrap();
            assert_eq!(problem.kind(), kind, "{problem}");
            assert!(problem.to_string().contains(says), "{problem} should say {says:?}");
        }
    }
}
