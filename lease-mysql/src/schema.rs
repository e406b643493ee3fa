//! The table: its shape, making and upgrading it, and telling what is wrong with it.

use lease_core::ErrorKind;
use lease_core::store::{Identifier, StoreError};
use mysql_async::Row;

use crate::connection::Lent;
use crate::row::{Answer, Flight, Values, integer, string, text};
use crate::{error, sql};

/// The DDL, as [`create_table`](sql::create_table) sends it.
const SCHEMA: &str = include_str!("schema.sql");

/// What is there under the table's name.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    /// Type and engine; `None`: nothing that this user may see.
    kind: Option<(String, String)>,
    keys: Vec<KeyPart>,
    columns: Vec<Column>,
}

/// One column of a unique key.
#[derive(Debug, Clone)]
struct KeyPart {
    key: String,
    column: String,
    is_whole: bool,
}

#[derive(Debug, Clone)]
struct Column {
    name: String,
    data_type: String,
    not_null: bool,
    collation: String,
}

/// Looks at the table. Fails as any statement on it would when it is missing, or may not be read.
pub(crate) async fn inspect(lent: &mut Lent, table: &Identifier) -> Result<Shape, StoreError> {
    // The catalogue shows nothing of a table without a right on it; the table itself says why.
    lent.ask(&Flight::one(sql::touch(table), Vec::new())).await.map_err(StoreError::without_effect)?;
    let named = || vec![("table", text(table.as_str()))];
    let kind = lent.ask(&Flight::one(sql::TABLE_KIND, named())).await?;
    let keys = lent.ask(&Flight::one(sql::TABLE_KEYS, named())).await?;
    let columns = lent.ask(&Flight::one(sql::TABLE_COLUMNS, named())).await?;
    Shape::read(&kind, &keys, &columns)
}

impl Shape {
    fn read<'a>(kind: &'a [Answer], keys: &'a [Answer], columns: &'a [Answer]) -> Result<Self, StoreError> {
        let rows = |answers: &'a [Answer]| answers.iter().flat_map(|answer| &answer.rows);
        let text = |row: &Row, index| string(row, index, "", "of the catalogue");
        let kind =
            rows(kind).next().map(|row| Ok::<_, StoreError>((text(row, 0)?, text(row, 1)?))).transpose()?;
        let column = |row: &Row| {
            Ok(Column {
                name: text(row, 0)?,
                data_type: plain_type(&text(row, 1)?),
                not_null: text(row, 2)? == "NO",
                collation: text(row, 3)?,
            })
        };
        let part = |row: &Row| {
            let is_whole = integer(row, 2, "", "of the catalogue")? == 1;
            Ok(KeyPart { key: text(row, 0)?, column: text(row, 1)?, is_whole })
        };
        let keys = rows(keys).map(part).collect::<Result<_, StoreError>>()?;
        Ok(Self { kind, keys, columns: rows(columns).map(column).collect::<Result<_, StoreError>>()? })
    }

    /// What keeps this from being the lease table. Columns beyond ours are a later version's.
    pub(crate) fn problem(&self, table: &Identifier) -> Option<StoreError> {
        if let Some(foreign) = self.foreign(table) {
            return Some(foreign);
        }
        let missing = self.missing().next()?;
        let message = format!("table {table} has no column {:?}", name_of(missing));
        Some(StoreError::new(ErrorKind::Schema, message).with_advice(error::MIGRATE).without_effect())
    }

    /// Says by what this cannot even be an older lease table. Such a table is never altered.
    fn foreign(&self, table: &Identifier) -> Option<StoreError> {
        let why = match &self.kind {
            Some((kind, _)) if kind != "BASE TABLE" => format!("it is a {}", kind.to_ascii_lowercase()),
            Some((_, engine)) if !engine.eq_ignore_ascii_case("InnoDB") => {
                format!("its engine is {engine}, not InnoDB")
            }
            _ => {
                let by_column = || definitions().find_map(|definition| self.mismatch(definition));
                self.foreign_key().or_else(by_column).or_else(|| self.no_key())?
            }
        };
        let message = format!("{table} is not a lease table: {why}");
        Some(StoreError::new(ErrorKind::Schema, message).with_advice(error::ANOTHER_TABLE).without_effect())
    }

    /// A unique key that is not the name: two names might then be one, or a claim be refused for another name's sake.
    fn foreign_key(&self) -> Option<String> {
        let is_ours = |part: &KeyPart| part.key == "PRIMARY" && part.column == "name" && part.is_whole;
        let KeyPart { key, column, .. } = self.keys.iter().find(|part| !is_ours(part))?;
        Some(match (key.as_str(), column.as_str()) {
            ("PRIMARY", "name") => "its primary key is only a part of column name".to_owned(),
            ("PRIMARY", column) => format!("column {column} is in its primary key"),
            (key, _) => format!("it has another unique key, {key}"),
        })
    }

    fn no_key(&self) -> Option<String> {
        self.keys.is_empty().then(|| "column name is not its primary key".to_owned())
    }

    fn mismatch(&self, definition: &str) -> Option<String> {
        let name = name_of(definition);
        let data_type = definition.split_ascii_whitespace().nth(1)?;
        let collation = definition.split_once("COLLATE ").map_or("", |(_, rest)| name_of(rest));
        match self.columns.iter().find(|column| column.name == name) {
            Some(column) if column.data_type != data_type => {
                Some(format!("column {name} is {}, not {data_type}", column.data_type))
            }
            Some(column) if column.collation != collation => {
                Some(format!("column {name} is compared by {}, not {collation}", column.collation))
            }
            Some(column) if !column.not_null => Some(format!("column {name} can be NULL")),
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

/// A type as `schema.sql` writes it: MariaDB shows how wide a number is to be displayed.
fn plain_type(shown: &str) -> String {
    let shown = shown.to_ascii_uppercase();
    match shown.strip_prefix("BIGINT(").and_then(|rest| rest.split_once(')')) {
        Some((_, rest)) => format!("BIGINT{rest}"),
        None => shown,
    }
}

/// Each column's definition, as `schema.sql` has it: one on a line.
fn definitions() -> impl Iterator<Item = &'static str> {
    SCHEMA.lines().filter_map(|line| Some(line.strip_prefix("    ")?.trim_end_matches(',')))
}

fn name_of(definition: &str) -> &str {
    definition.split(' ').next().unwrap_or(definition)
}

/// Creates the table or adds the columns it lacks. A whole table is left alone, and neither a lock nor
/// a right to create is asked for then.
///
/// Every step commits by itself, and may be found done: what is left half way is completed by whoever
/// comes next.
pub(crate) async fn migrate(lent: &mut Lent, table: &Identifier) -> Result<(), StoreError> {
    let before = match inspect(lent, table).await {
        Ok(shape) => Some(shape),
        Err(error) if error::number(&error) == Some(error::NO_SUCH_TABLE) => None,
        Err(error) => return Err(error),
    };
    if let Some(shape) = before {
        match shape.problem(table) {
            None => return Ok(()),
            Some(_) => shape.foreign(table).map_or(Ok(()), Err)?,
        }
    }
    let named = vec![("table", text(table.as_str()))];
    lock(lent, named.clone()).await?;
    lent.ask(&Flight::one(sql::create_table(table), Vec::new())).await?;
    let shape = inspect(lent, table).await?;
    shape.foreign(table).map_or(Ok(()), Err)?;
    for definition in shape.missing() {
        match lent.ask(&Flight::one(sql::add_column(table, definition), Vec::new())).await {
            Err(error) if error::number(&error) != Some(error::DUPLICATE_COLUMN) => return Err(error),
            _ => {}
        }
    }
    lent.ask(&Flight::one(sql::MIGRATION_UNLOCK, named)).await?;
    Ok(())
}

async fn lock(lent: &mut Lent, named: Values) -> Result<(), StoreError> {
    let answers = lent.ask(&Flight::one(sql::MIGRATION_LOCK, named)).await?;
    let row = answers.first().and_then(|answer| answer.rows.first());
    if row.is_some_and(|row| integer(row, 0, "", "of the lock").is_ok_and(|had| had == 1)) {
        return Ok(());
    }
    let error = StoreError::new(ErrorKind::Busy, "another process is migrating the table");
    Err(error.with_advice("try again when it has ended").without_effect())
}
