//! What `examples/deploy` would have run: each command line, by the program itself.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::bench::{Bench, lease_file};

const UNITS: [&str; 3] = ["worker.service", "report.service", "report.timer"];

fn example(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/deploy").join(name)).unwrap()
}

/// The values of a setting, each on a line of its own.
fn values(text: &str, setting: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix(setting))
        .map(|value| value.trim().to_owned())
        .collect()
}

/// The line as a shell would get it, with the program that was built and with `true` as the command.
fn here(line: &str) -> String {
    // An instant of today that has come.
    let line = line.replace("/usr/bin/lease", lease_file()).replace("T03:00:00", "T00:00:00");
    line.split(' ')
        .map(|word| if word.contains("/usr/local/bin/") { "true" } else { word })
        .collect::<Vec<_>>()
        .join(" ")
}

/// Runs a line of a file.
fn run(bench: &Bench, line: &str) {
    assert!(line.contains("lease"), "{line}");
    bench.spawn(bench.command("sh").args(["-c", line])).wait().expect(0);
}

#[test]
fn units_start_what_the_program_understands() {
    let bench = Bench::new();
    let mut lines = 0;
    for unit in UNITS {
        for line in values(&example(unit), "ExecStart=") {
            let line = line.replace("%%", "%").replace("%H", "host").replace("$$", "$");
            let quote = if line.ends_with('\'') { "'" } else { "" };
            run(&bench, &format!("{}{quote}", here(&line)));
            lines += 1;
        }
    }
    assert_eq!(lines, 2);
    assert_eq!((bench.term("worker"), bench.term("report")), (1, 1));
}

#[test]
fn systemd_verifies_the_units_where_it_is_installed() {
    let bench = Bench::new();
    for unit in UNITS {
        let text = example(unit).replace("/usr/bin/lease", lease_file());
        fs::write(bench.path(unit), text.replace("/usr/local/bin/worker", "/bin/true")).unwrap();
    }
    for unit in UNITS {
        // What every unit has, read here too: a section, then settings with values.
        let text = example(unit);
        let mut lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        assert!(lines.next().unwrap().starts_with("[Unit]"), "{unit}");
        assert!(
            lines.all(|line| line.starts_with('[')
                || line.split_once('=').is_some_and(|(_, value)| !value.is_empty()))
        );
        let Ok(verified) =
            Command::new("systemd-analyze").args(["--man=no", "verify"]).arg(bench.path(unit)).output()
        else {
            continue;
        };
        let said = String::from_utf8_lossy(&verified.stderr).into_owned();
        let said: Vec<_> = said.lines().filter(|line| line.contains(unit)).collect();
        assert!(said.is_empty(), "{unit}: {said:?}");
    }
}

#[test]
fn the_times_to_stop_leave_room_for_the_grace_and_the_release() {
    let stop = |text: &str, setting| values(text, setting).concat().parse::<u32>().unwrap();
    // A daemon that is stopped has done well; a report that is stopped was cut short.
    for (unit, well) in [("worker.service", "75 143"), ("report.service", "75")] {
        let text = example(unit);
        assert!(stop(&text, "TimeoutStopSec=") >= 45, "{unit}");
        assert_eq!(values(&text, "KillMode="), ["mixed"], "{unit}: SIGTERM is for `lease` alone");
        assert_eq!(values(&text, "SuccessExitStatus="), [well], "{unit}");
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
        run(&bench, &words.join(" "));
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
        run(&bench, &here(&command.replace("\\%", "%")));
    }
    assert_eq!(bench.term("report"), 1);
}
