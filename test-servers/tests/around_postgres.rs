//! What stands around a PostgreSQL server.

use test_servers::{PgBouncer, Product, Server, Setup, Standby};

#[test]
fn a_standby_follows_only_reads_and_becomes_a_primary() {
    let primary = Server::start(Product::Postgres, Setup::default());
    primary.ask("CREATE TABLE t (n int)");
    let mut standby = Standby::of(&primary);
    assert_eq!(standby.server().ask("SELECT count(*) FROM t").as_deref(), Some("0"));
    assert_eq!(standby.server().ask("SELECT pg_is_in_recovery()").as_deref(), Some("t"));
    standby.promote();
    standby.server().ask("INSERT INTO t VALUES (1)");
    assert_eq!(standby.server().ask("SELECT pg_is_in_recovery()").as_deref(), Some("f"));
}

#[test]
fn a_pgbouncer_passes_statements_on_and_keeps_its_session() {
    let server = Server::start(Product::Postgres, Setup::default());
    let others = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    assert_eq!(server.ask(others).as_deref(), Some("0"));
    let bouncer = PgBouncer::start(&server);
    assert_eq!(server.ask(others).as_deref(), Some("1"));
    assert_ne!(bouncer.port(), server.port());
    assert_eq!(bouncer.url(), format!("postgres://postgres@127.0.0.1:{}/postgres", bouncer.port()));
}
