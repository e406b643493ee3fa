//! `watch`, and which leases `list` shows, to people at narrow terminals and to programs.

use std::fs;
use std::process::Stdio;

use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::bench::{Bench, Running, eventually, lease_file};
use crate::schedule::sql;
use crate::terminal::{at_terminal, await_screen};

/// The lines that a watch has written, once there are so many.
fn lines(watch: &Running, count: usize) -> Vec<String> {
    eventually(&format!("{count} lines"), || {
        let shown = watch.shown();
        let lines: Vec<String> = shown.split_inclusive('\n').map(str::to_owned).collect();
        let whole = lines.iter().filter(|line| line.ends_with('\n')).count();
        (whole >= count).then_some(lines)
    })
}

/// The lines that a watch has written, once the last of them holds this text.
fn lines_up_to(watch: &Running, text: &str) -> Vec<String> {
    eventually(&format!("a line with {text:?}"), || {
        let lines: Vec<String> = watch.shown().split_inclusive('\n').map(str::to_owned).collect();
        lines.last().is_some_and(|line| line.ends_with('\n') && line.contains(text)).then_some(lines)
    })
}

fn json(lines: &[String]) -> Vec<Value> {
    lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn each_change_of_a_name_is_a_line_as_soon_as_it_is_seen() {
    let bench = Bench::new();
    bench.run(&["migrate"]).expect(0);
    let people = bench.start(&["watch", "x"]);
    let programs = bench.start(&["watch", "--prefix", "x", "--json"]);
    lines(&people, 1);
    // That it was held may be seen too, or not.
    bench.run(&["run", "x", "--", "true"]).expect(0);
    lines_up_to(&people, " \"x\" released, last held by ");
    lines_up_to(&programs, "\"released\"");
    let holder = bench.start(&["run", "x", "--ttl", "1h", "--", "sleep", "1000"]);
    let shown = lines_up_to(&people, &format!(":{}, term 2\n", holder.pid()));
    assert!(shown.iter().all(|line| line.starts_with("20")), "{shown:?}");
    assert!(shown[0].ends_with("Z \"x\" never claimed\n"), "{shown:?}");
    assert!(shown.last().unwrap().contains(" \"x\" held, by "), "{shown:?}");

    let objects = json(&lines_up_to(&programs, "\"term\":2,"));
    for object in &objects {
        assert!(object["kind"] == "now" && object["name"] == "x" && object["now"].is_string(), "{object}");
        assert!(object["database"].as_str().unwrap().contains("leases.db"), "{object}");
    }
    // The lease has the shape that `status` has.
    let status = bench.status("x");
    let fields = |lease: &Value| lease.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(fields(&objects[0]["lease"]), fields(&status["lease"]));
    let terms: Vec<_> = objects.iter().map(|object| object["lease"]["term"].as_i64().unwrap()).collect();
    assert!(terms.is_sorted(), "{terms:?}");
    assert_eq!(objects.last().unwrap()["lease"]["state"], "held");

    people.signal(Signal::INT);
    assert_eq!(people.wait().expect(130).err, "");
    programs.signal(Signal::TERM);
    programs.wait().expect(143);
}

#[test]
fn a_watch_or_a_list_whose_reader_has_gone_ends_well() {
    let bench = Bench::new();
    bench.run(&["run", "x", "--", "true"]).expect(0);
    for arguments in ["watch x", "watch --json", "list", "list --json"] {
        let script = format!("{{ {} {arguments}; echo $? >code; }} | head -1", lease_file());
        let outcome = bench.spawn(bench.command("sh").args(["-c", &script])).wait().expect(0);
        assert!(outcome.out.lines().count() == 1 && outcome.err.is_empty(), "{arguments}: {outcome:?}");
        assert_eq!(bench.await_file("code"), "0\n", "{arguments}");
        fs::remove_file(bench.path("code")).unwrap();
    }
}

#[test]
fn a_signal_ends_a_watch_whose_reader_does_not_read() {
    let bench = Bench::new();
    bench.run(&["run", "x", "--", "true"]).expect(0);
    let copy = "CREATE TEMP TABLE copy AS SELECT * FROM leases";
    let copies =
        (0..2_000).map(|i| format!("UPDATE copy SET name = 'x{i}'; INSERT INTO leases SELECT * FROM copy;"));
    sql(&bench, &format!("BEGIN; {copy}; {} COMMIT", copies.collect::<String>()));
    let mut watch = bench.lease(&["watch"]).stdout(Stdio::piped()).spawn().unwrap();
    let pipe = watch.stdout.take().unwrap();
    // A pipe takes 64 KiB, and holes at the ends of its pages.
    eventually("a full pipe", || (ioctl_fionread(&pipe).unwrap() > 60_000).then_some(()));
    kill_process(Pid::from_child(&watch), Signal::TERM).unwrap();
    let status = eventually("the end of the watch", || watch.try_wait().unwrap());
    assert_eq!(status.code(), Some(143));
    drop(pipe);
}

#[test]
fn a_database_that_goes_away_is_said_to_and_when_it_is_back_how_things_are_then() {
    let bench = Bench::new();
    bench.run(&["run", "x", "--", "true"]).expect(0);
    let people = bench.start(&["watch"]);
    let programs = bench.start(&["watch", "x", "--json"]);
    lines(&people, 1);
    lines(&programs, 1);
    let (here, away) = (bench.path(""), bench.path("").with_extension("away"));
    let files = ["leases.db", "leases.db-wal", "leases.db-shm"];
    let move_all = |from: &std::path::Path, to: &std::path::Path| {
        fs::create_dir_all(to).unwrap();
        // The log first: a database must not be read without it.
        for file in files.iter().rev() {
            if from.join(file).exists() {
                fs::rename(from.join(file), to.join(file)).unwrap();
            }
        }
    };
    move_all(&here, &away);
    let line = lines(&people, 2).pop().unwrap();
    assert!(line.contains(" database away: ") && line.contains("leases.db"), "{line}");
    let object = json(&lines(&programs, 2)).pop().unwrap();
    assert!(object["kind"] == "away" && object["error"].is_string(), "{object}");
    move_all(&away, &here);
    fs::remove_dir_all(&away).unwrap();
    let line = lines(&people, 3).pop().unwrap();
    assert!(line.contains(" \"x\" released, "), "{line}");
    let object = json(&lines(&programs, 3)).pop().unwrap();
    assert!(object["kind"] == "now" && object["lease"]["term"] == 1, "{object}");
    drop((people, programs));
}

#[test]
fn list_shows_the_leases_that_are_asked_for() {
    let bench = Bench::new();
    for name in ["job-held", "job-late", "job-done", "other%", "JOB"] {
        bench.run(&["run", name, "--", "true"]).expect(0);
    }
    sql(&bench, "UPDATE leases SET expires_at_ms = 32503680000000 WHERE name IN ('job-held', 'JOB')");
    sql(&bench, "UPDATE leases SET expires_at_ms = 1 WHERE name IN ('job-late', 'other%')");
    let names = |arguments: &[&str]| {
        let out = bench.run(&[&["list", "--json"], arguments].concat()).expect(0).out;
        let answer: Value = serde_json::from_str(&out).unwrap();
        let leases = answer["leases"].as_array().unwrap();
        leases.iter().map(|lease| lease["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&["--prefix", "job"]), ["job-done", "job-held", "job-late"]);
    assert_eq!(names(&["--live"]), ["JOB", "job-held"]);
    assert_eq!(names(&["--expired", "--prefix", "job"]), ["job-late"]);
    assert_eq!(names(&["--prefix", "%"]), [""; 0]);
    assert!(bench.run(&["list", "--prefix", "nobody"]).expect(0).out.starts_with("no such lease in "));
    bench.run(&["list", "--live", "--expired"]).expect_line(64);
    bench.run(&["watch", "x", "--prefix", "y"]).expect_line(64);
}

#[test]
fn a_list_fits_a_terminal_of_40_columns() {
    let bench = Bench::new();
    for name in ["nightly", "a-name-of-25-characters-xx"] {
        bench.run(&["run", name, "--", "true"]).expect(0);
    }
    sql(&bench, "UPDATE leases SET instance = 'host:1'");
    let (running, keys) = at_terminal(&bench, r#"stty cols 40; "$LEASE" list"#);
    running.wait().expect(0);
    await_screen(&bench, "name: nightly", 1);
    let screen = bench.await_file("screen");
    // What `script` says itself is longer.
    let mut lines = screen.lines().filter(|line| !line.starts_with("Script "));
    assert!(lines.all(|line| line.trim_end().chars().count() <= 40), "{screen}");
    assert!(screen.contains("since: 20") && screen.contains("state: released"), "{screen}");
    drop(keys);
}
