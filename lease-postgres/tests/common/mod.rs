//! Names, logins and other people's connections on a real server.

use lease_core::Holder;
use tokio_postgres::{Client, NoTls};

/// The server that all tests share.
pub(crate) fn shared() -> String {
    test_servers::shared(test_servers::Product::Postgres)
}

/// A plain identifier that nobody else uses, in this run or another.
pub(crate) fn unique(begin: &str) -> String {
    format!("{begin}_{}", &Holder::mint().unwrap().to_string()[..16])
}

/// Somebody else's connection.
pub(crate) struct Sql {
    pub(crate) client: Client,
}

impl Sql {
    pub(crate) async fn connect(url: &str) -> Self {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        Self { client }
    }

    pub(crate) async fn run(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }
}

/// A role of a test's own, and how it logs in.
pub(crate) struct Role {
    pub(crate) name: String,
    pub(crate) url: String,
}

/// Makes a role that can log in, with these attributes.
pub(crate) async fn role(owner: &str, attributes: &str) -> Role {
    let name = unique("lease_role");
    Sql::connect(owner).await.run(&format!("CREATE ROLE {name} LOGIN PASSWORD 'secret' {attributes}")).await;
    let (user, rest) = owner.split_once('@').expect("the URL of a superuser");
    let scheme = user.split_once("://").expect("a URL").0;
    Role { url: format!("{scheme}://{name}:secret@{rest}"), name }
}

/// Defaults that would change what a statement does.
pub(crate) const HOSTILE: [&str; 10] = [
    "default_transaction_isolation = 'serializable'",
    "default_transaction_read_only = on",
    "default_transaction_deferrable = on",
    "synchronous_commit = off",
    "statement_timeout = '300ms'",
    "lock_timeout = '1ms'",
    "idle_in_transaction_session_timeout = '300ms'",
    "TimeZone = 'Asia/Kolkata'",
    "DateStyle = 'German'",
    "quote_all_identifiers = on",
];

/// Makes a schema in which a clock stands still, and an operator and a function of the server's say other things.
async fn shadow(sql: &Sql) -> String {
    let schema = unique("lease_shadow");
    sql.run(&format!(
        "CREATE SCHEMA {schema};
         CREATE FUNCTION {schema}.times(numeric, integer) RETURNS numeric LANGUAGE sql AS 'SELECT $1';
         CREATE OPERATOR {schema}.* (LEFTARG = numeric, RIGHTARG = integer, FUNCTION = {schema}.times);
         CREATE FUNCTION {schema}.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT to_timestamp(1)';
         CREATE FUNCTION {schema}.pg_is_in_recovery() RETURNS boolean LANGUAGE sql AS 'SELECT true'"
    ))
    .await;
    schema
}

/// A superuser, except that its sessions begin with [`HOSTILE`].
pub(crate) async fn hostile_role(owner: &str) -> Role {
    let (role, sql) = (role(owner, "SUPERUSER").await, Sql::connect(owner).await);
    for setting in HOSTILE {
        sql.run(&format!("ALTER ROLE {} SET {setting}", role.name)).await;
    }
    let path = format!("{}, pg_catalog", shadow(&sql).await);
    sql.run(&format!("ALTER ROLE {} SET search_path = {path}", role.name)).await;
    let hostile = Sql::connect(&role.url).await;
    assert!(hostile.client.execute("CREATE TABLE refused ()", &[]).await.is_err());
    role
}
