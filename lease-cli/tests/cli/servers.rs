//! The program on PostgreSQL, MariaDB and MySQL.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use test_servers::{PgBouncer, Product, Server, Setup};

use crate::bench::{Bench, Outcome, eventually};

fn on_each(test: impl Fn(&Bench, Product)) {
    for product in Product::ALL {
        test(&Bench::on_server(product), product);
    }
}

#[test]
fn a_command_runs_under_a_lease_that_every_subcommand_then_knows() {
    on_each(|bench, product| {
        assert!(bench.run(&["migrate"]).expect(0).out.contains("up to date"), "{product}");
        assert!(bench.run(&["check"]).expect(0).out.contains("can carry leases"));
        assert!(bench.run(&["list"]).expect(0).out.contains("no lease has been taken yet"));
        for term in ["1\n", "2\n"] {
            assert_eq!(bench.run(&["run", "x", "--", "printenv", "LEASE_TERM"]).expect(0).out, term);
        }
        assert_eq!(bench.run(&["run", "y", "--", "sh", "-c", "exit 7"]).code, Some(7));
        let status = bench.status("x");
        assert_eq!((&status["lease"]["term"], &status["lease"]["state"]), (&2.into(), &"released".into()));
        let place = status["database"].as_str().unwrap();
        assert!(place.contains(&product.to_string()) && place.contains("127.0.0.1"), "{place}");
        let list: Value = serde_json::from_str(&bench.run(&["list", "--json"]).expect(0).out).unwrap();
        let names: Vec<_> = list["leases"].as_array().unwrap().iter().map(|lease| &lease["name"]).collect();
        assert_eq!(names, ["x", "y"]);
    });
}

#[test]
fn a_held_lease_is_refused_with_its_holder_and_waited_for() {
    on_each(|bench, product| {
        let holder = bench.start(&["run", "x", "--ttl", "1h", "--", "sleep", "1000"]);
        let command = bench.await_command("sleep 1000");
        let line = bench.run(&["run", "x", "--", "touch", "ran"]).expect_line(75);
        assert!(line.contains(&format!(":{} since", holder.pid())), "{line}");
        assert!(line.contains("127.0.0.1:"), "{product}: {line}");
        let successor = bench.start(&["run", "x", "--wait", "10m", "--", "printenv", "LEASE_TERM"]);
        command.signal(Signal::TERM);
        assert_eq!(successor.wait().expect(0).out, "2\n");
        holder.wait().expect(143);
        assert!(!bench.path("ran").exists());
    });
}

#[test]
fn an_instant_is_run_once_and_a_round_cut_short_once_more() {
    on_each(|bench, product| {
        let slot = ["run", "x", "--slot", "2020-01-01T00:00:00Z"];
        let round = bench.start(&[&slot[..], &["--ttl", "1h", "--", "sleep", "1000"]].concat());
        let command = bench.await_command("sleep 1000");
        let line = bench.run(&[&slot[..], &["--", "touch", "ran"]].concat()).expect_line(0);
        assert!(line.contains("claimed or skipped"), "{product}: {line}");
        let later = ["run", "x", "--slot", "@1577836860"];
        let line = bench.run(&[&later[..], &["--", "touch", "ran"]].concat()).expect_line(75);
        assert!(line.contains(&format!(":{} since", round.pid())), "{product}: {line}");
        let rerun = ["run", "--rerun", "x", "--", "printenv", "LEASE_SLOT", "LEASE_RERUN"];
        let line = bench.run(&rerun).expect_line(75);
        assert!(line.contains(&format!(":{} since", round.pid())), "{product}: {line}");
        command.signal(Signal::TERM);
        assert!(round.wait().expect_line(143).contains("--rerun"));
        assert_eq!(bench.run(&rerun).expect(0).out, "2020-01-01T00:00:00Z\n1\n", "{product}");
        assert!(bench.run(&rerun).expect_line(0).contains("is not rerun"));
        assert_eq!(bench.run(&[&later[..], &["--", "printenv", "LEASE_TERM"]].concat()).expect(0).out, "3\n");
        let table = bench.run(&["slots"]).expect(0).out;
        let cells: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(cells, ["x", "finished", "2020-01-01T00:01:00Z", "2020-01-01T00:00:00Z"], "{product}");
        assert!(!bench.path("ran").exists());
    });
}

#[test]
fn of_eight_at_once_one_runs_the_instant() {
    on_each(|bench, product| {
        bench.run(&["migrate"]).expect(0);
        let round = ["run", "x", "--slot", "@1577836860", "--ttl", "1h", "--", "sh", "-c", "echo x >>reran"];
        let running: Vec<_> = (0..8).map(|_| bench.start(&round)).collect();
        for each in running {
            each.wait().expect(0);
        }
        assert_eq!(bench.await_file("reran"), "x\n", "{product}");
    });
}

#[test]
fn a_claim_by_somebody_else_that_is_under_way_is_waited_for_a_moment() {
    let bench = Bench::on_server(Product::Postgres);
    bench.run(&["run", "x", "--", "true"]).expect(0);
    bench.in_postgres(async |session, table| {
        // Whatever it comes to in the end.
        session.batch_execute(&format!("BEGIN; UPDATE {table} SET instance = ''")).await?;
        let begun = Instant::now();
        let line = bench.run(&["run", "x", "--slot", "@1577836860", "--", "touch", "ran"]).expect_line(75);
        assert!(line.contains("not run for 2020-01-01T00:01:00Z: \"x\" is free now, but"), "{line}");
        assert!(line.contains("being claimed by somebody else; try again, or use --wait"), "{line}");
        assert!(begun.elapsed() >= Duration::from_secs(5));
        Ok(())
    });
    assert!(!bench.path("ran").exists());
}

#[test]
fn an_instant_found_claimed_after_a_claim_that_failed_may_be_our_own() {
    let bench = Bench::on_server(Product::Postgres);
    let holder = bench.start(&["run", "x", "--ttl", "1h", "--", "sleep", "1000"]);
    bench.await_command("sleep 1000");
    let slot = ["run", "x", "--slot", "@1577836860", "--ttl", "3s", "--wait", "10m", "--", "touch", "ran"];
    let waiting = bench.spawn(bench.lease(&slot).env("LEASE_LOG", "warn,lease=debug"));
    eventually("a first claim", || waiting.said("held; asking again").then_some(()));
    bench.in_postgres(async |session, table| {
        session.batch_execute(&format!("BEGIN; LOCK TABLE {table}")).await?;
        eventually("a claim that failed", || waiting.said("claim failed").then_some(()));
        session.batch_execute(&format!("UPDATE {table} SET slot_ms = 1577836860000; COMMIT")).await
    });
    let lines = waiting.wait().expect(69).err;
    let last = lines.lines().last().unwrap();
    assert!(last.contains("perhaps by the claim that failed") && last.contains("--rerun"), "{lines}");
    assert!(!bench.path("ran").exists());
    drop(holder);
}

#[test]
fn what_only_looks_makes_no_table_and_run_makes_a_missing_one() {
    on_each(|bench, product| {
        for _ in 0..2 {
            let slots = [&["slots"][..], &["slots", "x"]];
            let others = [&["status", "x"][..], &["list"], &["check"], &["watch"], &["watch", "x"]];
            for arguments in slots.into_iter().chain(others) {
                let line = bench.run(arguments).expect_line(69);
                assert!(line.contains("`lease migrate`"), "{product}: {line}");
                assert!(!line.contains("migrate()"), "{line}");
            }
        }
        assert_eq!(bench.run(&["run", "x", "--", "printenv", "LEASE_TERM"]).expect(0).out, "1\n");
    });
}

#[test]
fn tables_of_two_names_are_two() {
    on_each(|bench, product| {
        bench.run(&["run", "x", "--", "true"]).expect(0);
        let other = bench.other_table();
        let outcome = bench.run(&["run", "x", "--table", &other, "--", "printenv", "LEASE_TERM"]);
        assert_eq!(outcome.expect(0).out, "1\n", "{product}");
        for bad in ["", "a b", "a;b", "1a", "a.b.c"] {
            bench.run(&["check", "--table", bad]).expect_line(64);
        }
    });
}

#[test]
fn after_sigkill_of_lease_its_command_is_ended_before_the_lease_is_another_s_and_no_ttl_is_waited_for() {
    on_each(|bench, product| {
        let running = bench.start(&["run", "x", "--ttl", "1h", "--", "sleep", "1000"]);
        let command = bench.await_command("sleep 1000");
        running.signal(Signal::KILL);
        assert_eq!(running.wait().code, None);
        // Ended or waiting to be reaped, it is no longer in the list of living processes.
        let script =
            format!("printenv LEASE_TERM; grep -s State /proc/{}/status | grep -v Z; true", command.pid());
        let Outcome { out, .. } =
            bench.run(&["run", "x", "--ttl", "5s", "--wait", "10m", "--", "sh", "-c", &script]).expect(0);
        assert_eq!(out, "2\n", "{product}");
    });
}

#[test]
fn programs_take_turns_behind_a_pooler() {
    let server = Server::start(Product::Postgres, Setup::default());
    let pooler = PgBouncer::start(&server);
    let bench = Bench::new();
    let db = ["--db", &pooler.url()];
    let with = |arguments: &[&str]| {
        let end = arguments.iter().position(|word| *word == "--").unwrap_or(arguments.len());
        let (ours, command) = arguments.split_at(end);
        bench.start(&[ours, &db, command].concat())
    };
    with(&["migrate"]).wait().expect(0);
    with(&["check"]).wait().expect(0);
    let running: Vec<_> = (0..4)
        .map(|_| with(&["run", "x", "--ttl", "30s", "--wait", "10m", "--", "printenv", "LEASE_TERM"]))
        .collect();
    let mut terms: Vec<_> = running.into_iter().map(|running| running.wait().expect(0).out).collect();
    terms.sort();
    assert_eq!(terms.concat(), "1\n2\n3\n4\n");
    assert!(with(&["status", "x"]).wait().expect(0).out.contains("term: 4"));
    assert!(with(&["list"]).wait().expect(0).out.contains("released"));
}

#[test]
fn a_wait_covers_a_server_that_comes_back_meanwhile() {
    for product in Product::ALL {
        let mut server = Server::start(product, Setup::default());
        server.stop();
        let bench = Bench::new();
        let url = server.url();
        bench.run(&["run", "x", "--db", &url, "--", "touch", "ran"]).expect_line(69);
        let waiting = {
            let port = TcpListener::bind(("127.0.0.1", server.port())).unwrap();
            let running =
                bench.start(&["run", "x", "--db", &url, "--wait", "10m", "--", "printenv", "LEASE_TERM"]);
            // It has tried, and was closed on.
            port.accept().unwrap();
            running
        };
        server.start_again();
        assert_eq!(waiting.wait().expect(0).out, "1\n", "{product}");
        assert!(!bench.path("ran").exists());
    }
}

#[test]
fn a_schema_that_is_missing_is_not_said_to_be_made_by_a_migration() {
    let bench = Bench::on_server(Product::Postgres);
    for arguments in [&["migrate"][..], &["run", "x"]] {
        let table = ["--table", "lease_no_such_schema.leases", "--", "true"];
        let table = &table[..if arguments[0] == "run" { 4 } else { 2 }];
        let line = bench.run(&[arguments, table].concat()).expect_line(69);
        assert!(line.contains("the schema is missing (SQLSTATE 3F000: "), "{line}");
        assert!(line.trim_end().ends_with("; create it, or name another"), "{line}");
        assert!(!line.contains("migrate"), "{line}");
    }
}
