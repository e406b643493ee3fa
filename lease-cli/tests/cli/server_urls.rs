//! Databases as their URLs name them, and those that cannot be used.

use std::net::TcpListener;

use test_servers::{Product, Server, Setup};

use crate::bench::Bench;

/// Every subcommand that asks the database something.
const ASKING: [&[&str]; 6] =
    [&["run", "x", "--", "touch", "ran"], &["status", "x"], &["list"], &["slots"], &["migrate"], &["check"]];

/// A server's URL with another user, or another database.
fn elsewhere(url: &str, user: &str, database: Option<&str>) -> String {
    let (scheme, rest) = url.split_once("://").unwrap();
    let (place, found) = rest.split_once('@').unwrap_or(("", rest)).1.split_once('/').unwrap();
    format!("{scheme}://{user}@{place}/{}", database.unwrap_or(found))
}

/// Runs each of [`ASKING`] on a database that cannot be used, and answers what was said. The password
/// `s3cret%40w0rd` is in no line of it, whatever is logged.
fn refusals(bench: &Bench, url: &str) -> Vec<String> {
    let start = |arguments: &&[&str], log: &str| {
        let mut command = bench.lease(arguments);
        // Once as an argument, otherwise in the environment.
        if arguments[0] == "list" {
            command.args(["--db", url]);
        } else {
            command.env("LEASE_DATABASE_URL", url);
        }
        bench.spawn(command.env("LEASE_LOG", log))
    };
    // All at once: each waits a while for a server that may only be restarting.
    let running: Vec<_> =
        ASKING.iter().map(|asking| [start(asking, "warn"), start(asking, "trace")]).collect();
    let lines = running.into_iter().map(|[plain, logged]| {
        let (line, logged) = (plain.wait().expect_line(69), logged.wait().expect(69));
        assert!(line.contains('(') || line.contains("; "), "it says what to do: {line}");
        assert!(!line.contains("migrate()"), "{line}");
        for text in [&line, &logged.out, &logged.err] {
            assert!(!text.contains("s3cret") && !text.contains("w0rd"), "{text}");
        }
        line
    });
    let lines = lines.collect();
    assert!(!bench.path("ran").exists());
    lines
}

#[test]
fn a_server_that_is_not_there_is_said_to_be_out_of_reach() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for scheme in ["postgres", "mysql"] {
        let bench = Bench::new();
        for line in refusals(&bench, &format!("{scheme}://me:s3cret%40w0rd@{nobody}/app")) {
            assert!(line.contains(&nobody.to_string()), "{line}");
        }
    }
}

#[test]
fn a_password_in_the_url_is_used_and_a_wrong_one_said_to_be_refused() {
    for product in Product::ALL {
        let (setup, grants): (Setup, &[&str]) = match product {
            Product::Postgres => {
                let rules = "host all postgres all trust\nhost all all all scram-sha-256\n";
                let setup = Setup {
                    arguments: vec!["-c".to_owned(), "hba_file=rules.conf".to_owned()],
                    files: vec![("rules.conf".to_owned(), rules.to_owned())],
                    ..Setup::default()
                };
                (
                    setup,
                    &["CREATE ROLE me LOGIN PASSWORD 's3cret@w0rd'", "GRANT CREATE ON SCHEMA public TO me"],
                )
            }
            Product::MariaDb | Product::MySql => (
                Setup::default(),
                &["CREATE USER me IDENTIFIED BY 's3cret@w0rd'", "GRANT ALL ON test.* TO me"],
            ),
        };
        let server = Server::start(product, setup);
        for grant in grants {
            server.ask(grant);
        }
        let bench = Bench::new();
        let url = |user: &str| elsewhere(&server.url(), user, None);
        let right = ["run", "x", "--db", &url("me:s3cret%40w0rd"), "--", "printenv", "LEASE_TERM"];
        assert_eq!(bench.run(&right).expect(0).out, "1\n", "{product}");
        for line in refusals(&bench, &url("me:s3cret%40w0rds")) {
            assert!(line.contains("login") || line.contains("denied"), "{product}: {line}");
            assert!(line.contains("user and password"), "{product}: {line}");
        }
    }
}

#[test]
fn a_database_that_is_missing_is_said_to_be_missing() {
    for product in Product::ALL {
        let bench = &Bench::on_server(product);
        let (_, rest) = bench.url().split_once("://").unwrap();
        let user = rest.split_once('@').unwrap().0.split(':').next().unwrap();
        for line in refusals(bench, &elsewhere(bench.url(), user, Some("lease_no_such_database"))) {
            assert!(line.contains("lease_no_such_database"), "{product}: {line}");
        }
    }
}

#[test]
fn urls_that_cannot_be_are_wrong_usage_and_no_password_is_shown() {
    let bench = Bench::new();
    for url in [
        "postgres://me:s3cret@w0rd@h/db",
        "postgres://me:s3cret w0rd@h:x/db",
        "postgres://me:s3cret'w0rd@h:x/db",
        "postgres://me:s3cret#w0rd@h/db",
        "postgres://h/db?password=s3cret%40w0rd&nothing=1",
        "postgresql:me:s3cret@h/db",
        "mysql://me:s3cret%40w0rd@h",
        "mysql://me:s3cret?w0rd@h/db",
        "mysql://me:s3cret%40w0rd@h:99999/db",
        "mariadb://me:s3cret%40w0rd@h/db?password=s3cret",
        "redis://me:s3cret w0rd@h/0?password=s3cret",
        // Mistyped: neither a scheme nor a path.
        "me:s3cret%40w0rd@h/db",
        "postgresql//me:s3cret@w0rd@h/db",
        "postgres;//me:s3cret@h",
        "//me:s3cret@h/db",
        "sqlite:me:s3cret@h/db",
        "me:s3cret\nw0rd\"@h/db",
    ] {
        for arguments in [&["check", "--db", url][..], &["run", "x", "--db", url, "--", "touch", "ran"]] {
            let line = bench.run(arguments).expect_line(64);
            assert!(!line.contains("s3cret") && !line.contains("w0rd"), "{line}");
        }
        // Given where nothing is expected.
        let flag = format!("--{url}");
        for arguments in [
            &["list", url][..],
            &["list", &flag],
            &["check", "--table", url],
            &["check", "--table", &url.replace("s3cret", &"s3cret".repeat(20))],
            &["run", "x", "--ttl", url, "--", "true"],
            &["run", "x", "--wait", url, "--", "true"],
        ] {
            let line = bench.run(arguments).expect_line(64);
            assert!(!line.contains("s3cret") && !line.contains("w0rd"), "{line}");
        }
    }
    assert!(!bench.path("ran").exists());
}

#[test]
fn a_url_with_a_password_is_not_taken_for_the_name_of_a_lease() {
    let bench = Bench::new();
    for url in ["postgres://me:s3cret@h/db", "postgresql//me:s3cret@h/db"] {
        for arguments in [&["run", url, "--", "touch", "ran"][..], &["status", url]] {
            let line = bench.run(arguments).expect_line(64);
            assert!(line.contains("--db") && !line.contains("s3cret"), "{line}");
        }
    }
    assert!(!bench.path("ran").exists() && !bench.database().exists());
    for name in ["https://example.org/a", "https://me@example.org/a", "sync:orders@eu"] {
        bench.run(&["run", name, "--", "true"]).expect(0);
    }
}

#[test]
fn a_path_that_looks_like_a_url_is_written_with_its_folder() {
    let bench = Bench::new();
    bench.run(&["run", "x", "--db", "./a:b@c.db", "--", "true"]).expect(0);
    assert!(bench.path("a:b@c.db").exists());
}

#[test]
fn the_schema_is_printed_without_a_server_in_the_dialect_of_its_url() {
    let bench = Bench::new();
    let schema = |url: &str, table: &str| bench.run(&["schema", "--db", url, "--table", table]).expect(0).out;
    let postgres = schema("postgres://me@192.0.2.1/app", "jobs.held");
    assert!(postgres.contains(r#"CREATE TABLE IF NOT EXISTS "jobs"."held""#), "{postgres}");
    for url in ["mysql://me@192.0.2.1/app", "mariadb://me@192.0.2.1/app"] {
        let mysql = schema(url, "held");
        assert!(mysql.contains("`held`") && mysql.contains("InnoDB"), "{mysql}");
    }
}
