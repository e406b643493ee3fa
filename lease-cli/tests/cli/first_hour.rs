//! The errors that people meet first, run for real and kept in `docs/errors.md`.

mod page;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use lease_core::{LeaseName, TimingParts, Timings};
use test_servers::{Product, Server, Setup, Standby};

use crate::bench::Bench;
use page::{PASSWORD, Page};

const RUN: &[&str] = &["run", "nightly", "--", "true"];

/// A server of each product, with the user `app` that has a password.
struct Place {
    server: Server,
    bench: Bench,
}

impl Place {
    fn new(product: Product) -> Self {
        let mut setup = Setup::default();
        if product == Product::Postgres {
            let rules = "host all postgres all trust\nhost replication postgres all trust\nhost all all all scram-sha-256\n";
            setup.arguments = vec!["-c".to_owned(), "hba_file=rules.conf".to_owned()];
            setup.files = vec![("rules.conf".to_owned(), rules.to_owned())];
        }
        let place = Self { server: Server::start(product, setup), bench: Bench::new() };
        match product {
            Product::Postgres => {
                place.ask(&format!("CREATE ROLE app LOGIN PASSWORD '{PASSWORD}'"));
                place.ask("REVOKE CREATE ON SCHEMA public FROM PUBLIC");
            }
            Product::MariaDb | Product::MySql => {
                place.ask(&format!("CREATE USER app IDENTIFIED BY '{PASSWORD}'"));
                // Without any right in it the database itself would be refused.
                place.ask("CREATE TABLE test.other (id INT)");
                place.ask("GRANT SELECT ON test.other TO app");
            }
        }
        place
    }

    fn ask(&self, sql: &str) {
        self.server.ask(sql);
    }

    fn is_postgres(&self) -> bool {
        self.server.product() == Product::Postgres
    }

    /// The URL of the user `app`, with this password and for this database.
    fn url_with(&self, password: &str, database: Option<&str>) -> String {
        let (scheme, own) = if self.is_postgres() { ("postgres", "postgres") } else { ("mysql", "test") };
        let database = database.unwrap_or(own);
        format!("{scheme}://app:{password}@127.0.0.1:{}/{database}", self.server.port())
    }

    fn url(&self) -> String {
        self.url_with(PASSWORD, None)
    }

    /// Grants `app` all it needs, creating included.
    fn grant_all(&self) {
        if self.is_postgres() {
            self.ask("GRANT CREATE, USAGE ON SCHEMA public TO app");
        } else {
            self.ask("GRANT ALL ON test.* TO app");
        }
    }

    fn says(&self, page: &mut Page, arguments: &[&str]) {
        self.says_at(page, &self.url(), arguments);
    }

    fn says_at(&self, page: &mut Page, url: &str, arguments: &[&str]) {
        says(page, &self.bench, url, arguments);
    }
}

/// Runs `lease` on a database, and records it.
fn says(page: &mut Page, bench: &Bench, url: &str, arguments: &[&str]) {
    let outcome = bench.spawn(bench.lease(arguments).env("LEASE_DATABASE_URL", url)).wait();
    record(page, bench, url, arguments, &outcome);
}

fn record(page: &mut Page, bench: &Bench, url: &str, arguments: &[&str], outcome: &crate::bench::Outcome) {
    let folder = bench.path("");
    let folder = folder.to_str().unwrap().trim_end_matches('/');
    let place = url.rsplit_once('@').map_or("", |(_, place)| place);
    let port = place.rsplit_once(':').map_or("", |(_, rest)| rest.split('/').next().unwrap_or_default());
    let port =
        if port.is_empty() { ("<port>".to_owned(), "<port>") } else { (format!(":{port}"), ":<port>") };
    let words: Vec<_> = arguments.iter().map(|word| quoted(word)).collect();
    let command = format!("LEASE_DATABASE_URL={} lease {}", hidden(url), words.join(" "));
    let varies = [
        (folder, "<folder>"),
        (&*port.0, port.1),
        ("is held by *:", "<host>"),
        ("<host>:* ", "<pid>"),
        ("at 127.0.0.1:* ", "<port>"),
        (" since *,", "<time>"),
        ("last renewed *,", "<span>"),
        ("expires in * (", "<span>"),
        ("(error 1045: *))", "<reason>"),
        ("<reason>))", "<reason>)"),
        ("(error 1142: *)", "<reason>"),
        ("(error 1143: *)", "<reason>"),
        ("(error 1146: *)", "<reason>"),
        ("(error 1049: *)", "<reason>"),
        ("lookup address information: *; see", "<reason>"),
    ];
    page.said(&command, outcome, &varies);
}

/// The URL with its password as people write it on a page.
fn hidden(url: &str) -> String {
    url.replace(&format!(":{PASSWORD}x@"), ":<wrong password>@")
        .replace(&format!(":{PASSWORD}@"), ":<password>@")
}

fn quoted(word: &str) -> String {
    match word {
        "" => "''".to_owned(),
        word if word.contains('\n') => format!("$'{}'", word.replace('\n', "\\n")),
        word if word.len() > 100 => format!("\"$(printf '%0{}d')\"", word.len()),
        word => word.to_owned(),
    }
}

#[test]
fn what_is_said_in_the_first_hour_is_on_the_page() {
    let mut whole = Page::new();
    let page = &mut whole;
    let places = Product::ALL.map(Place::new);
    urls(page, &places);
    rights(page, &places);
    tables(page, &places);
    read_only(page, &places);
    held_and_lost(page, &places);
    damaged(page, &places);
    old_servers(page, &places);
    files(page);
    elsewhere(page);
    names(page);
    timings(page, &places);
    whole.finish();
}

fn urls(page: &mut Page, places: &[Place]) {
    let bench = &Bench::new();
    page.situation("The URL names no database that is known");
    says(page, bench, "redis://db.example/0", RUN);
    says(page, bench, &format!("redis://app:{PASSWORD}@db.example/0"), RUN);
    page.situation("Nothing listens at the URL");
    for scheme in ["postgres", "mysql"] {
        // A port that nobody is given by chance.
        says(page, bench, &format!("{scheme}://app:{PASSWORD}@127.0.0.1:1/app"), RUN);
    }
    page.situation("The host of the URL has no address");
    // No resolver is asked for a name that cannot be one.
    for scheme in ["postgres", "mysql"] {
        says(page, bench, &format!("{scheme}://app:{PASSWORD}@db..example/app"), RUN);
    }
    page.situation("The password is wrong");
    for place in places {
        place.says_at(page, &place.url_with(&format!("{PASSWORD}x"), None), RUN);
    }
    page.situation("The database does not exist");
    for place in places {
        if !place.is_postgres() {
            place.ask("GRANT ALL ON nowhere.* TO app");
        }
        place.says_at(page, &place.url_with(PASSWORD, Some("nowhere")), RUN);
    }
}

fn rights(page: &mut Page, places: &[Place]) {
    page.situation("The login may not create the table");
    for place in places {
        place.says(page, RUN);
        place.says(page, &["migrate"]);
    }
    page.situation("The login may not read the table, or not write it");
    for place in places {
        let superuser = place.server.url();
        place.bench.run(&["migrate", "--db", &superuser]).expect(0);
        place.says(page, &["status", "nightly"]);
        if place.is_postgres() {
            place.ask("GRANT SELECT ON leases TO app");
        } else {
            place.ask("GRANT SELECT ON test.leases TO app");
        }
        place.says(page, RUN);
        place.ask("DROP TABLE leases");
    }
}

fn tables(page: &mut Page, places: &[Place]) {
    let bench = &Bench::new();
    let database = rusqlite::Connection::open(bench.database()).unwrap();
    page.situation("There is no table");
    database.execute_batch("CREATE TABLE other (id INTEGER)").unwrap();
    says(page, bench, bench.url(), &["status", "nightly"]);
    for place in places {
        place.grant_all();
        place.says(page, &["status", "nightly"]);
    }
    page.situation("The table is of an earlier version");
    bench.run(&["migrate"]).expect(0);
    database.execute_batch("ALTER TABLE leases DROP COLUMN rerun_slot_ms").unwrap();
    says(page, bench, bench.url(), &["check"]);
    for place in places {
        place.bench.run(&["migrate", "--db", &place.url()]).expect(0);
        place.ask("ALTER TABLE leases DROP COLUMN rerun_slot_ms");
        place.says(page, &["check"]);
        place.ask("DROP TABLE leases");
    }
    page.situation("The table is something else");
    database.execute_batch("DROP TABLE leases; CREATE TABLE leases (id INTEGER, tenant TEXT)").unwrap();
    says(page, bench, bench.url(), RUN);
    for place in places {
        place.ask("CREATE TABLE leases (id INT, tenant VARCHAR(20))");
        if place.is_postgres() {
            place.ask("GRANT ALL ON leases TO app");
        }
        place.says(page, RUN);
        place.ask("DROP TABLE leases");
        place.bench.run(&["migrate", "--db", &place.url()]).expect(0);
    }
}

fn read_only(page: &mut Page, places: &[Place]) {
    page.situation("The server takes no writes");
    for place in places {
        match place.server.product() {
            Product::Postgres => {
                // A default is no bar: every transaction says that it writes.
                place.ask("ALTER ROLE app SET default_transaction_read_only = on");
                place.bench.run(&["run", "nightly", "--db", &place.url(), "--", "true"]).expect(0);
                place.ask("ALTER ROLE app RESET default_transaction_read_only");
            }
            Product::MariaDb => {
                place.ask("SET GLOBAL read_only = 1");
                place.says(page, RUN);
                place.ask("SET GLOBAL read_only = 0");
            }
            Product::MySql => {
                place.ask("SET GLOBAL super_read_only = 1");
                place.says(page, RUN);
                place.ask("SET GLOBAL super_read_only = 0");
                place.ask("SET GLOBAL read_only = 0");
            }
        }
    }
    page.situation("The server is a replica");
    let primary = &places[0];
    let standby = Standby::of(&primary.server);
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", standby.server().port());
    primary.says_at(page, &url, RUN);
}

fn held_and_lost(page: &mut Page, places: &[Place]) {
    let bench = &Bench::new();
    let all = || {
        let servers = places.iter().map(|place| (&place.bench, place.url(), Some(place)));
        std::iter::once((bench, bench.url().to_owned(), None)).chain(servers)
    };
    let holding = ["run", "nightly", "--", "sleep", "1000"];
    let hold = |bench: &Bench, url: &str, arguments: &[&str]| {
        let running = bench.spawn(bench.lease(arguments).env("LEASE_DATABASE_URL", url));
        bench.await_command("sleep 1000");
        running
    };
    page.situation("Somebody else holds the lease");
    for (bench, url, _) in all() {
        let holder = hold(bench, &url, &["run", "nightly", "--ttl", "1h", "--", "sleep", "1000"]);
        says(page, bench, &url, RUN);
        holder.signal(rustix::process::Signal::TERM);
        holder.wait().expect(143);
    }
    page.situation("The lease is lost while the command runs");
    for (bench, url, place) in all() {
        let holder = hold(bench, &url, &holding);
        if let Some(place) = place {
            place.ask("DELETE FROM leases");
        } else {
            let database = rusqlite::Connection::open(bench.database()).unwrap();
            database.busy_timeout(Duration::from_secs(60)).unwrap();
            database.execute_batch("DELETE FROM leases").unwrap();
        }
        record(page, bench, &url, &holding, &holder.wait().expect(70));
    }
}

fn damaged(page: &mut Page, places: &[Place]) {
    let change = "UPDATE leases SET holder = 'somebody'";
    page.situation("A row was changed by hand");
    let bench = &Bench::new();
    bench.run(RUN).expect(0);
    rusqlite::Connection::open(bench.database()).unwrap().execute_batch(change).unwrap();
    says(page, bench, bench.url(), &["status", "nightly"]);
    for place in places {
        place.bench.run(&["run", "nightly", "--db", &place.url(), "--", "true"]).expect(0);
        place.ask(change);
        place.says(page, &["status", "nightly"]);
        place.ask("DELETE FROM leases");
    }
}

fn old_servers(page: &mut Page, places: &[Place]) {
    page.situation("The server is too old");
    let postgres = &places[0];
    // What a server of version 13 answers.
    postgres.ask(
        "CREATE OR REPLACE FUNCTION pg_catalog.version() RETURNS text LANGUAGE sql STABLE AS \
         $$SELECT 'PostgreSQL 13.23'::text$$",
    );
    postgres.says(page, RUN);
    let arguments = vec!["--version=10.5.29-MariaDB".to_owned()];
    let server = Server::start(Product::MariaDb, Setup { arguments, ..Setup::default() });
    says(page, &postgres.bench, &format!("mysql://root@127.0.0.1:{}/test", server.port()), RUN);
}

/// What no machine of the tests has: the words that the tests of lease-sqlite hold its checks to.
fn elsewhere(page: &mut Page) {
    let words = |file: &str, begin: &str| {
        let text =
            fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../lease-sqlite/src").join(file));
        let text = text.unwrap();
        text.split('"')
            .find(|words| words.starts_with(begin))
            .unwrap_or_else(|| panic!("no test in {file} has {begin:?}"))
            .to_owned()
    };
    page.situation("The program was built on an SQLite that is too old");
    page.answered(
        "SqliteStore::open(\"leases.db\").await // the system's SQLite 3.41.2, without the feature `bundled`",
        &format!(
            "cannot open SQLite file leases.db: {}",
            words("connection.rs", "this program uses SQLite 3.41.2")
        ),
    );
    page.situation("The file is on a network file system");
    page.answered(
        "SqliteStore::open(\"/mnt/shared/leases.db\").await // on NFS",
        &format!(
            "cannot open SQLite file /mnt/shared/leases.db: {}",
            words("file_system.rs", "it is on a network file system (NFS)")
        ),
    );
}

fn files(page: &mut Page) {
    let bench = &Bench::new();
    let path = |name: &str| bench.path(name).to_str().unwrap().to_owned();
    page.situation("The file of SQLite is not there");
    says(page, bench, bench.url(), &["status", "nightly"]);
    page.situation("The folder of the file is not there");
    says(page, bench, &path("missing/leases.db"), RUN);
    page.situation("The file is a folder");
    fs::create_dir(bench.path("folder")).unwrap();
    says(page, bench, &path("folder"), RUN);
    page.situation("The file is something else");
    fs::write(bench.path("notes.txt"), "neither a database nor empty\n".repeat(100)).unwrap();
    says(page, bench, &path("notes.txt"), RUN);
    page.situation("The file may not be read, or not be written");
    bench.run(RUN).expect(0);
    for (mode, arguments) in [(0o000, &["status", "nightly"][..]), (0o444, RUN)] {
        fs::set_permissions(bench.database(), fs::Permissions::from_mode(mode)).unwrap();
        let outcome = bench.spawn(&mut bench.unprivileged(arguments)).wait();
        record(page, bench, bench.url(), arguments, &outcome);
    }
}

fn names(page: &mut Page) {
    let bench = &Bench::new();
    page.situation("The name cannot be one");
    for name in ["", &"0".repeat(192), "night\nly"] {
        says(page, bench, bench.url(), &["run", name, "--", "true"]);
    }
    for (code, name) in [("LeaseName::new(\"\")", ""), ("LeaseName::new(\"night\\nly\")", "night\nly")] {
        page.answered(code, &LeaseName::new(name).unwrap_err().to_string());
    }
}

fn timings(page: &mut Page, places: &[Place]) {
    let bench = &Bench::new();
    page.situation("The timings do not fit");
    says(page, bench, bench.url(), &["run", "nightly", "--ttl", "29ms", "--", "true"]);
    for place in &places[1..] {
        place.says(page, &["run", "nightly", "--ttl", "2s", "--", "true"]);
    }
    let whole = Timings::default().parts();
    let seconds = Duration::from_secs;
    for (code, parts) in [
        ("ttl: Duration::from_secs(10)", TimingParts { ttl: seconds(10), ..whole }),
        ("deadline: Duration::from_secs(12)", TimingParts { deadline: seconds(12), ..whole }),
        ("grace: Duration::from_secs(6)", TimingParts { grace: seconds(6), ..whole }),
        ("margin: Duration::ZERO", TimingParts { margin: Duration::ZERO, ..whole }),
        ("renew: Duration::from_secs(5)", TimingParts { renew: seconds(5), ..whole }),
        ("attempt: Duration::from_secs(6)", TimingParts { attempt: seconds(6), ..whole }),
    ] {
        let code = format!("Timings::new(TimingParts {{ {code}, ..Timings::default().parts() }})");
        page.answered(&code, &Timings::new(parts).unwrap_err().to_string());
    }
}
