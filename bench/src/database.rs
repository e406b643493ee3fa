//! The database itself, asked through its bare driver: to set up what is measured, and for what it tells of itself.

use std::path::PathBuf;

use mysql_async::prelude::Queryable;
use rusqlite::types::ValueRef;
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::Outcome;
use crate::engine::{Engine, Place};

/// One connection, which stays what it was: settings of the session last.
pub(crate) struct Database {
    engine: Engine,
    table: String,
    connection: Connection,
}

enum Connection {
    Sqlite(rusqlite::Connection),
    Postgres(tokio_postgres::Client),
    Mysql(mysql_async::Conn),
}

/// What it tells of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// What the table takes on disk, with all that belongs to it.
    TableBytes,
    Rows,
    /// Connections of clients, this one too.
    Connections,
    /// What has been written to the log that makes commits durable, since the server was made or started.
    LogBytes,
    /// How often a row of the table was changed.
    Updates,
    /// How often of those without a word to any index.
    HotUpdates,
}

impl Database {
    /// With the table of that place, empty and new.
    pub(crate) async fn emptied(place: &Place) -> Outcome<Self> {
        let mut database = Self::connect(place).await?;
        database.run(&format!("DROP TABLE IF EXISTS {}", place.table)).await?;
        place.store().await?.migrate().await?;
        Ok(database)
    }

    /// With the table of that place, made if it is missing.
    pub(crate) async fn open(place: &Place) -> Outcome<Self> {
        place.store().await?.migrate().await?;
        Self::connect(place).await
    }

    async fn connect(place: &Place) -> Outcome<Self> {
        let connection = match place.engine {
            Engine::Sqlite => Connection::Sqlite(rusqlite::Connection::open(&place.at)?),
            Engine::Postgres => {
                let (client, connection) = tokio_postgres::connect(&place.at, NoTls).await?;
                tokio::spawn(connection);
                Connection::Postgres(client)
            }
            Engine::Mariadb | Engine::Mysql => {
                Connection::Mysql(mysql_async::Conn::from_url(&place.at).await?)
            }
        };
        Ok(Self { engine: place.engine, table: place.table.clone(), connection })
    }

    pub(crate) async fn run(&mut self, sql: &str) -> Outcome<()> {
        match &mut self.connection {
            Connection::Sqlite(connection) => connection.execute_batch(sql)?,
            Connection::Postgres(client) => client.batch_execute(sql).await?,
            Connection::Mysql(connection) => connection.query_drop(sql).await?,
        }
        Ok(())
    }

    /// Lets a text that counts with `WITH RECURSIVE` count as far as it wants.
    pub(crate) async fn let_count(&mut self) -> Outcome<()> {
        match self.engine {
            Engine::Sqlite | Engine::Postgres => Ok(()),
            Engine::Mariadb => self.run("SET SESSION max_recursive_iterations = 4294967295").await,
            Engine::Mysql => self.run("SET SESSION cte_max_recursion_depth = 4294967295").await,
        }
    }

    /// Has it do now what it would do some time after much was written: statistics, and what of the log can be put in its place.
    pub(crate) async fn tidy(&mut self) -> Outcome<()> {
        let table = &self.table;
        let texts = match self.engine {
            Engine::Sqlite => vec!["ANALYZE; PRAGMA wal_checkpoint(TRUNCATE)".to_owned()],
            Engine::Postgres => vec![format!("VACUUM (ANALYZE) {table}"), "CHECKPOINT".to_owned()],
            Engine::Mariadb | Engine::Mysql => vec![format!("ANALYZE TABLE {table}")],
        };
        for text in texts {
            self.run(&text).await?;
        }
        Ok(())
    }

    /// None where this engine does not tell it.
    pub(crate) async fn tell(&mut self, what: Told) -> Outcome<Option<u64>> {
        match what.sql(self.engine, &self.table) {
            Some(sql) => Ok(Some(self.text(&sql).await?.parse()?)),
            None => Ok(None),
        }
    }

    /// The file that holds the number of the server's process. None where the engine is in the process that asks.
    pub(crate) async fn pid_file(&mut self) -> Outcome<Option<PathBuf>> {
        let sql = match self.engine {
            Engine::Sqlite => return Ok(None),
            Engine::Postgres => "SELECT current_setting('data_directory') || '/postmaster.pid'",
            Engine::Mariadb | Engine::Mysql => {
                "SELECT IF(@@pid_file LIKE '/%', @@pid_file, CONCAT(@@datadir, @@pid_file))"
            }
        };
        Ok(Some(self.text(sql).await?.into()))
    }

    /// The last value of the first row.
    async fn text(&mut self, sql: &str) -> Outcome<String> {
        let text = match &mut self.connection {
            Connection::Sqlite(connection) => Some(connection.query_row(sql, [], |row| {
                Ok(match row.get_ref(row.as_ref().column_count() - 1)? {
                    ValueRef::Integer(number) => number.to_string(),
                    other => other.as_str()?.to_owned(),
                })
            })?),
            Connection::Postgres(client) => {
                let messages = client.simple_query(sql).await?;
                messages.iter().find_map(|message| match message {
                    SimpleQueryMessage::Row(row) => row.get(row.len() - 1).map(str::to_owned),
                    _ => None,
                })
            }
            Connection::Mysql(connection) => {
                let row: Option<mysql_async::Row> = connection.query_first(sql).await?;
                row.and_then(|row| row.get(row.len() - 1))
            }
        };
        Ok(text.ok_or_else(|| format!("the database tells nothing by {sql}"))?)
    }
}

impl Told {
    fn sql(self, engine: Engine, table: &str) -> Option<String> {
        let status = |name: &str| Some(format!("SHOW GLOBAL STATUS LIKE '{name}'"));
        let of_table = |column: &str| {
            Some(format!("SELECT {column} FROM pg_stat_user_tables WHERE relid = '{table}'::regclass"))
        };
        match (self, engine) {
            (Self::Rows, _) => Some(format!("SELECT count(*) FROM {table}")),
            (Self::TableBytes, Engine::Sqlite) => {
                Some("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size".to_owned())
            }
            (Self::TableBytes, Engine::Postgres) => Some(format!("SELECT pg_total_relation_size('{table}')")),
            (Self::TableBytes, Engine::Mariadb | Engine::Mysql) => {
                let view =
                    if engine == Engine::Mysql { "innodb_tablespaces" } else { "innodb_sys_tablespaces" };
                Some(format!(
                    "SELECT file_size FROM information_schema.{view} WHERE name = CONCAT(DATABASE(), '/{table}')"
                ))
            }
            (Self::Connections, Engine::Postgres) => {
                Some("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'".to_owned())
            }
            // What is no client's has no port.
            (Self::Connections, Engine::Mariadb | Engine::Mysql) => {
                Some("SELECT count(*) FROM information_schema.processlist WHERE host LIKE '%:%'".to_owned())
            }
            (Self::LogBytes, Engine::Postgres) => {
                Some("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')".to_owned())
            }
            (Self::LogBytes, Engine::Mariadb | Engine::Mysql) => status("Innodb_os_log_written"),
            (Self::Updates, Engine::Postgres) => of_table("n_tup_upd"),
            (Self::HotUpdates, Engine::Postgres) => of_table("n_tup_hot_upd"),
            _ => None,
        }
    }
}
