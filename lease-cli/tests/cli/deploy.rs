//! What `examples/deploy` would have run: each command line, by the program itself.

mod units;

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use crate::bench::{Bench, Outcome, lease_file};
use crate::schedule::slots_of;
use units::{Unit, findings};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/deploy")
}

fn example(name: &str) -> String {
    fs::read_to_string(folder().join(name)).unwrap()
}

/// The files, without the page.
fn files() -> Vec<String> {
    let files = fs::read_dir(folder()).unwrap();
    let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<_> = files.filter(|file| file != "README.md").collect();
    files.sort();
    files
}

/// All there are, whoever adds one.
fn all_units() -> Vec<Unit> {
    let units =
        files().into_iter().filter(|file| matches!(file.rsplit('.').next(), Some("service" | "timer")));
    units.map(|unit| Unit::read(&unit, &example(&unit))).collect()
}

/// The values of a setting, each on a line of its own.
fn values(text: &str, setting: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix(setting))
        .map(|value| value.trim().to_owned())
        .collect()
}

/// The line as a shell would get it, with the program that was built and with another command.
fn with_command(line: &str, command: &str) -> String {
    // An instant of today that has come.
    let line = line.replace("/usr/bin/lease", lease_file()).replace("T03:00:00", "T00:00:00");
    line.split(' ')
        .map(|word| if word.contains("/usr/local/bin/") { command } else { word })
        .collect::<Vec<_>>()
        .join(" ")
}

fn here(line: &str) -> String {
    with_command(line, "true")
}

/// The same of a line of a unit, of which systemd has read its marks.
fn started(line: &str, command: &str) -> String {
    let line = line.replace("%%", "%").replace("%H", "host").replace("$$", "$");
    let quote = if line.ends_with('\'') { "'" } else { "" };
    format!("{}{quote}", with_command(&line, command))
}

/// Runs a line of a file.
fn run(bench: &Bench, line: &str) -> Outcome {
    assert!(line.contains("lease"), "{line}");
    bench.spawn(bench.command("sh").args(["-c", line])).wait()
}

#[test]
fn the_page_has_every_file_and_no_other() {
    let page = example("README.md");
    let shown = page.lines().filter(|line| line.starts_with("| [")).collect::<Vec<_>>().concat();
    let mut shown: Vec<_> = shown.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    shown.retain(|target| !target.contains('/'));
    shown.sort_unstable();
    assert_eq!(shown, files());
}

#[test]
fn units_start_what_the_program_understands() {
    let bench = Bench::new();
    let mut lines = 0;
    for unit in all_units() {
        for line in unit.values("Service", "ExecStart") {
            run(&bench, &started(line, "true")).expect(0);
            lines += 1;
        }
    }
    assert_eq!(lines, 3);
    assert_eq!((bench.term("worker"), bench.term("report")), (1, 1));
}

#[test]
fn what_the_unit_of_the_night_leaves_cut_short_that_of_the_rerun_runs_once_more() {
    let bench = Bench::new();
    let report = bench.path("report");
    fs::write(&report, "#!/bin/sh\necho $LEASE_RERUN >>ran; [ $LEASE_RERUN = 1 ] || kill -KILL $$\n")
        .unwrap();
    fs::set_permissions(&report, fs::Permissions::from_mode(0o755)).unwrap();
    let units = all_units();
    let run = |name: &str| {
        let unit = units.iter().find(|unit| unit.name == name).unwrap_or_else(|| panic!("no {name}"));
        let [line] = unit.values("Service", "ExecStart")[..] else { panic!("{name}") };
        run(&bench, &started(line, "./report"))
    };
    run("report.service").expect(137);
    assert_eq!(slots_of(&bench, "report")["slot_state"], "cut_short");
    // Every five minutes, of which the journal is to say nothing.
    for _ in 0..2 {
        assert_eq!(run("report-rerun.service").expect(0).err, "");
    }
    assert_eq!(bench.await_file("ran"), "0\n1\n");
    assert_eq!(slots_of(&bench, "report")["slot_state"], "finished");
}

#[test]
fn the_units_say_what_systemd_would_read() {
    let units = all_units();
    assert!(!units.is_empty());
    assert_eq!(findings(&units), [""; 0]);
}

#[test]
fn systemd_verifies_the_units_where_it_is_installed() {
    let bench = Bench::new();
    let units = all_units();
    for unit in &units {
        let text = example(&unit.name).replace("/usr/bin/lease", lease_file());
        fs::write(bench.path(&unit.name), text).unwrap();
    }
    for unit in &units {
        let verified = verify(&bench, &unit.name);
        if !verified.unwrap_or_else(|found| panic!("{}: {found}", unit.name)) {
            // Past the test runner, which keeps to itself what a test says that passes.
            let _ = io::stderr().write_all(b"the units are not verified: systemd-analyze is missing\n");
            return;
        }
    }
    let broken = example("worker.service").replace("/usr/bin/lease", "/usr/bin/no-such-lease");
    fs::write(bench.path("broken.service"), broken).unwrap();
    verify(&bench, "broken.service").unwrap_err();
}

/// Whether the program is there, and if it finds anything what that is.
fn verify(bench: &Bench, unit: &str) -> Result<bool, String> {
    let program = "systemd-analyze";
    let help = match Command::new(program).arg("--help").output() {
        Ok(help) => String::from_utf8_lossy(&help.stdout).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error.to_string()),
    };
    let mut verify = Command::new(program);
    verify.args(["--man=no", "verify"]);
    // From systemd 250 on: without it a key that is unknown, say, is told and the status is 0.
    if help.contains("--recursive-errors") {
        verify.arg("--recursive-errors=no");
    }
    let verified = verify.arg(bench.path(unit)).output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&verified.stderr);
    // Of other units of the machine it may say anything.
    let ours = said.lines().any(|line| line.contains(unit));
    if verified.status.success() && !ours {
        return Ok(true);
    }
    Err(format!("{}: {said}", verified.status))
}

#[test]
fn the_times_to_stop_leave_room_for_the_grace_and_the_release() {
    let stop = |text: &str, setting| values(text, setting).concat().parse::<u32>().unwrap();
    for unit in all_units().iter().filter(|unit| unit.name.ends_with(".service")) {
        let text = example(&unit.name);
        assert!(stop(&text, "TimeoutStopSec=") >= 45, "{}", unit.name);
        assert_eq!(values(&text, "KillMode="), ["mixed"], "{}: SIGTERM is for `lease` alone", unit.name);
        // A daemon that is stopped has done well; a report that is stopped was cut short.
        let well = if unit.name == "worker.service" { "75 143" } else { "75" };
        assert_eq!(values(&text, "SuccessExitStatus="), [well], "{}", unit.name);
    }
    assert!(stop(&example("kubernetes.yaml"), "terminationGracePeriodSeconds:") >= 45);
}

#[test]
fn the_manifest_starts_and_probes_what_the_program_understands() {
    let bench = Bench::new();
    let manifest = example("kubernetes.yaml");
    let commands = values(&manifest, "command:");
    assert_eq!(commands.len(), 2);
    for command in commands {
        let words: Vec<String> = serde_json::from_str(&command).unwrap();
        let words: Vec<_> = words.iter().map(|word| here(&word.replace("$(POD_NAME)", "worker-1"))).collect();
        run(&bench, &words.join(" ")).expect(0);
    }
    assert_eq!(bench.term("worker"), 1);
    assert!(!manifest.contains('\t') && values(&manifest, "replicas:") == ["2"]);
}

#[test]
fn the_crontab_runs_what_the_program_understands() {
    let bench = Bench::new();
    let crontab = example("crontab");
    let lines: Vec<_> = crontab.lines().filter(|line| line.contains(" * * * ")).collect();
    assert_eq!(lines.len(), 2);
    for line in lines {
        let command = line.splitn(6, ' ').nth(5).unwrap();
        run(&bench, &here(&command.replace("\\%", "%"))).expect(0);
    }
    assert_eq!(bench.term("report"), 1);
}
