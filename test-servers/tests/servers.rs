//! Each product as tests use it.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use test_servers::{Product, Server, Setup, shared};

/// One test per behaviour and product.
macro_rules! on_each_product {
    ($($test:ident)*) => {
        mod postgres { $(#[test] fn $test() { super::$test(super::Product::Postgres); })* }
        mod mariadb { $(#[test] fn $test() { super::$test(super::Product::MariaDb); })* }
        mod mysql { $(#[test] fn $test() { super::$test(super::Product::MySql); })* }
    };
}

on_each_product! {
    a_server_comes_back_on_its_port_with_its_data
    its_clock_moves_with_the_test
    a_paused_server_answers_when_it_goes_on
    the_shared_server_is_one_for_all
    it_takes_options_environment_and_files
}

#[test]
fn a_statement_reads_no_file_of_the_machine() {
    for product in [Product::MariaDb, Product::MySql] {
        let server = Server::start(product, Setup::default());
        assert_eq!(server.ask("SELECT LOAD_FILE('/etc/passwd')"), None, "{product}");
    }
}

fn a_server_comes_back_on_its_port_with_its_data(product: Product) {
    let mut server = Server::start(product, Setup::default());
    let url = server.url();
    server.ask("CREATE TABLE kept (n int)");
    server.ask("INSERT INTO kept VALUES (7)");
    server.stop();
    server.start_again();
    assert_eq!(server.ask("SELECT n FROM kept").as_deref(), Some("7"));
    server.kill();
    server.start_again();
    assert_eq!(server.ask("SELECT n FROM kept").as_deref(), Some("7"));
    assert_eq!(server.url(), url);
}

fn its_clock_moves_with_the_test(product: Product) {
    let mut server = Server::start(product, Setup { stepped_clock: true, ..Setup::default() });
    let shows = |server: &Server, wanted: i64| {
        let found = clock(server);
        assert!((found - wanted).abs() < 60, "{product}: {found}, not {wanted}");
    };
    shows(&server, now());
    server.step_clock(3600);
    shows(&server, now() + 3600);
    server.step_clock(-7200);
    shows(&server, now() - 3600);
    server.set_clock(Duration::from_secs(1_792_890_000));
    shows(&server, 1_792_890_000);
}

/// Seconds since 1970 by the server's clock.
fn clock(server: &Server) -> i64 {
    let now = match server.product() {
        Product::Postgres => "SELECT floor(extract(epoch FROM clock_timestamp()))::bigint",
        Product::MariaDb | Product::MySql => "SELECT FLOOR(UNIX_TIMESTAMP(SYSDATE()))",
    };
    server.ask(now).unwrap().parse().unwrap()
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().try_into().unwrap()
}

fn a_paused_server_answers_when_it_goes_on(product: Product) {
    let mut server = Server::start(product, Setup::default());
    server.pause();
    let port = server.port();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    // Only MariaDB and MySQL speak first; PostgreSQL would answer this wish for TLS with one byte.
    stream.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let silence = stream.read(&mut [0]).unwrap_err();
    assert_eq!(silence.kind(), ErrorKind::WouldBlock, "{product}: {silence}");
    server.resume();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 1);
}

fn the_shared_server_is_one_for_all(product: Product) {
    assert_eq!(shared(product), shared(product));
}

fn it_takes_options_environment_and_files(product: Product) {
    let files = vec![("note".to_owned(), "hello".to_owned())];
    let options = match product {
        Product::Postgres => ["-c", "default_transaction_isolation=serializable"].as_slice(),
        Product::MariaDb | Product::MySql => ["--sql-mode=", "--default-time-zone=Asia/Kolkata"].as_slice(),
    };
    let arguments = options.iter().map(ToString::to_string).collect();
    let environment = vec![("TZ".to_owned(), "Asia/Kolkata".to_owned())];
    let server = Server::start(product, Setup { arguments, environment, files, ..Setup::default() });
    assert_eq!(std::fs::read_to_string(server.data().join("note")).unwrap(), "hello");
    match product {
        Product::Postgres => {
            assert_eq!(server.ask("SHOW transaction_isolation").as_deref(), Some("serializable"));
        }
        Product::MariaDb | Product::MySql => {
            assert_eq!(server.ask("SELECT @@GLOBAL.sql_mode").as_deref(), Some(""));
            assert_eq!(server.ask("SELECT FROM_UNIXTIME(0)").as_deref(), Some("1970-01-01 05:30:00"));
            assert_eq!(server.ask("SELECT @@system_time_zone").as_deref(), Some("IST"));
            for (utc, local) in [("00:59:59", "02:59:59"), ("01:00:00", "02:00:00")] {
                let ask = format!("SELECT CONVERT_TZ('2026-10-25 {utc}', '+00:00', 'Europe/Berlin')");
                assert_eq!(server.ask(&ask), Some(format!("2026-10-25 {local}")));
            }
        }
    }
}
