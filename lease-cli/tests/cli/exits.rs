//! The exit codes, each with its line.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use crate::bench::Bench;

#[test]
fn the_exit_code_is_the_commands_own() {
    let bench = Bench::new();
    for (script, code) in
        [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -TERM $$", 143), ("kill -KILL $$", 137)]
    {
        let outcome = bench.run(&["run", "x", "--", "sh", "-c", script]).expect(code);
        assert_eq!(outcome.err, "", "{script}");
    }
}

#[test]
fn a_command_that_is_missing_or_cannot_run_claims_nothing() {
    let bench = Bench::new();
    fs::write(bench.path("data"), "no program").unwrap();
    let data = bench.path("data");
    for (command, code) in
        [("no-such-command", 127), ("./no-such-command", 127), (data.to_str().unwrap(), 126), ("/", 126)]
    {
        let line = bench.run(&["run", "x", "--", command]).expect_line(code);
        assert!(line.contains("nothing was claimed"), "{line}");
        assert!(!bench.database().exists());
    }
}

#[test]
fn a_closed_folder_in_the_path_hides_its_commands_and_nothing_more() {
    let bench = Bench::new();
    let closed = bench.path("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let path = format!("{}:{}", closed.display(), std::env::var("PATH").unwrap());
    let run = |command: &str| {
        bench.spawn(bench.unprivileged(&["run", "x", "--", command]).env("PATH", &path)).wait()
    };
    run("no-such-command").expect_line(127);
    run(closed.join("command").to_str().unwrap()).expect_line(126);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_command_that_fails_to_start_after_all_gives_the_lease_back() {
    let bench = Bench::new();
    let script = bench.path("script");
    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let line = bench.run(&["run", "x", "--", script.to_str().unwrap()]).expect_line(126);
    assert!(line.contains("cannot run"), "{line}");
    assert_eq!(bench.status("x")["lease"]["state"], "released");
}

#[test]
fn who_is_refused_learns_by_whom_the_lease_is_held() {
    let bench = Bench::new();
    let holder = bench.start(&["run", "x", "--ttl", "1h", "--label", "blue", "--", "sleep", "1000"]);
    bench.await_command("sleep 1000");

    let line = bench.run(&["run", "x", "--", "true"]).expect_line(75);
    assert!(line.contains("\"x\" is held by "), "{line}");
    assert!(line.contains(&format!(":{} blue since 20", holder.pid())), "{line}");
    assert!(
        line.contains("last renewed ") && line.contains("expires in ") && line.contains("term 1"),
        "{line}"
    );

    assert!(bench.run(&["run", "x", "--wait", "1ms", "--", "true"]).expect_line(75).contains(" is held by "));
    bench.run(&["run", "x", "--held-exit", "0", "--", "true"]).expect_line(0);
    bench.run(&["run", "x", "--held-exit", "255", "--", "true"]).expect_line(255);
    assert_eq!(bench.run(&["run", "x", "-q", "--", "true"]).expect(75).err, "");
    assert_eq!(bench.term("x"), 1);
}

#[test]
fn a_holder_is_shown_whole_though_it_reads_like_part_of_a_url() {
    let bench = Bench::new();
    let name = "sync-mysql:orders://all";
    let _holder = bench.start(&["run", name, "--ttl", "1h", "--label", "ops@x", "--", "sleep", "1000"]);
    bench.await_command("sleep 1000");
    let line = bench.run(&["run", name, "--", "true"]).expect_line(75);
    assert!(line.contains(" ops@x") && !line.contains("***"), "{line}");
}

#[test]
fn waiting_is_rewarded_when_the_lease_comes_free() {
    let bench = Bench::new();
    let script = "echo >begun; while ! [ -e end ]; do sleep 0.05; done";
    let holder = bench.start(&["run", "x", "--ttl", "1h", "--", "sh", "-c", script]);
    bench.await_file("begun");
    // It looks again after a third of its ttl.
    let waiting = bench.start(&["run", "x", "--wait", "10m", "--ttl", "3s", "--", "printenv", "LEASE_TERM"]);
    fs::write(bench.path("end"), "").unwrap();
    holder.wait().expect(0);
    assert_eq!(waiting.wait().expect(0).out, "2\n");
}

#[test]
fn a_busy_database_is_waited_for_too() {
    let bench = Bench::new();
    let other = rusqlite::Connection::open(bench.database()).unwrap();
    other.execute_batch("CREATE TABLE other (x); BEGIN EXCLUSIVE").unwrap();
    let mut waiting = bench.start(&["run", "x", "--wait", "1h", "--", "true"]);
    // Each of these begins later and gives up.
    for _ in 0..2 {
        bench.run(&["run", "x", "--", "true"]).expect_line(69);
    }
    assert!(!waiting.has_ended());
    other.execute_batch("COMMIT").unwrap();
    waiting.wait().expect(0);
}

#[test]
fn a_signal_ends_the_wait_for_a_lease_and_leaves_nothing_behind() {
    let bench = Bench::new();
    let holder = bench.start(&["run", "x", "--ttl", "1h", "--", "sleep", "1000"]);
    bench.await_command("sleep 1000");
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::QUIT, 131)] {
        let mut waiting = bench.lease(&["run", "x", "--wait", "10m", "--", "true"]);
        let waiting = bench.spawn(waiting.env("LEASE_LOG", "lease_core=debug"));
        let pid = waiting.pid();
        // A handler takes the signal: the mask of caught signals says when.
        crate::bench::eventually("the handlers", || {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
            let caught = u64::from_str_radix(caught, 16).unwrap();
            (caught >> (signal.as_raw() - 1) & 1 == 1).then_some(())
        });
        waiting.signal(signal);
        waiting.wait().expect(code);
    }
    assert_eq!(bench.term("x"), 1);
    drop(holder);
}

#[test]
fn a_closed_pipe_is_no_error_and_a_full_disk_is_one() {
    let bench = Bench::new();
    bench.run(&["run", "x", "--", "true"]).expect(0);
    for arguments in
        [&["list"][..], &["list", "--json"], &["status", "x"], &["slots", "x"], &["schema"], &["--help"]]
    {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = bench.lease(arguments).stdout(writer).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");

        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = bench.lease(arguments).stdout(full).output().unwrap();
        let line = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(71), "{arguments:?}: {line}");
        assert!(line.starts_with("lease: cannot write") && line.lines().count() == 1, "{line}");
    }
}

#[test]
fn help_and_version_are_successes_and_wrong_usage_is_64() {
    let bench = Bench::new();
    for arguments in [&["--help"][..], &["--version"], &["run", "--help"], &["help", "run"]] {
        let outcome = bench.run(arguments).expect(0);
        assert!(!outcome.out.is_empty() && outcome.err.is_empty(), "{outcome:?}");
    }
    for arguments in [
        &[][..],
        &["no-such-subcommand"],
        &["run"],
        &["run", "x"],
        &["run", "x", "--"],
        &["run", "x", "true"],
        &["run", "x", "--held-exit", "256", "--", "true"],
        &["run", "x", "--held-exit", "-1", "--", "true"],
        &["run", "x", "--no-such-option", "--", "true"],
        &["status"],
        &["list", "x"],
        &["list", "--db"],
    ] {
        bench.run(arguments).expect_line(64);
    }
    let line = bench.run(&["run", "x", "--held-exit", "-1", "--", "true"]).expect_line(64);
    assert!(line.contains("0..=255"), "{line}");
}

#[test]
fn a_log_filter_that_is_none_is_wrong_usage() {
    let bench = Bench::new();
    let mut command = bench.lease(&["list"]);
    let line = bench.spawn(command.env("LEASE_LOG", "lease=nonsense=x")).wait().expect_line(64);
    assert!(line.contains("LEASE_LOG"), "{line}");
}
