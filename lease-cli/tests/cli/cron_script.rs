//! The script and the crontab of `examples/cron-script`, as cron runs them on two hosts.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use rustix::process::Signal;

use crate::bench::{Bench, Running, eventually, lease_file};
use crate::schedule::slots_of;

/// A shop, and what the hosts have in their `PATH`.
struct Shop {
    bench: Bench,
}

impl Shop {
    fn new() -> Self {
        let bench = Bench::new();
        fs::create_dir(bench.path("bin")).unwrap();
        symlink(lease_file(), bench.path("bin/lease")).unwrap();
        symlink(example("nightly-report.sh"), bench.path("bin/nightly-report.sh")).unwrap();
        let shop = Self { bench };
        shop.orders("1,10.50\n2,20\n");
        shop
    }

    fn orders(&self, lines: &str) {
        let _ = fs::remove_file(self.bench.path("orders.csv"));
        fs::write(self.bench.path("orders.csv"), lines).unwrap();
    }

    /// Such is the time on all hosts.
    fn it_is(&self, time: &str) {
        let date = self.bench.path("bin/date");
        fs::write(&date, format!("#!/bin/sh\nPATH=/usr/bin:/bin exec date -d '{time}' \"$@\"\n")).unwrap();
        fs::set_permissions(date, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs the line of the crontab that says this, as cron on a host does.
    fn host_runs(&self, words: &str) -> Running {
        let crontab = fs::read_to_string(example("crontab")).unwrap();
        let line = crontab.lines().find(|line| line.contains(words)).unwrap();
        let (_, command) = line.split_once("lease run").expect("the command is behind the five times");
        let command = format!("exec lease run{}", command.replace(r"\%", "%"));
        let path = format!("{}:/usr/bin:/bin", self.bench.path("bin").display());
        let mut host = self.bench.command("sh");
        host.args(["-c", &command]).env("PATH", path).env("SHOP", self.bench.path("")).env("TZ", "UTC");
        self.bench.spawn(&mut host)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.bench.path("reports/log")).unwrap_or_default()
    }

    fn report(&self, day: &str) -> String {
        fs::read_to_string(self.bench.path(&format!("reports/{day}.txt"))).unwrap_or_default()
    }
}

fn example(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/cron-script").join(name)
}

/// What a reader would see who types what the page shows. The build is left out: the program is there.
#[test]
fn the_page_shows_what_is_seen() {
    let bench = Bench::new();
    fs::create_dir_all(bench.path("target/debug")).unwrap();
    symlink(lease_file(), bench.path("target/debug/lease")).unwrap();
    fs::create_dir(bench.path("examples")).unwrap();
    symlink(example(""), bench.path("examples/cron-script")).unwrap();
    let page = fs::read_to_string(example("README.md")).unwrap();
    let blocks = page.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let shown: Vec<_> =
        blocks.flat_map(str::lines).filter(|line| *line != "$ cargo build -q -p lease-cli").collect();
    let mut script = String::from("exec 2>&1\n");
    for command in shown.iter().filter_map(|line| line.strip_prefix("$ ")) {
        writeln!(script, "cat <<'COMMAND'\n$ {command}\nCOMMAND\n{command}").unwrap();
    }
    let seen = bench.spawn(bench.command("sh").args(["-c", &script])).wait().expect(0).out;
    let folder = fs::canonicalize(bench.path("")).unwrap();
    let seen = seen.replace(folder.to_str().unwrap(), "...");
    assert_eq!(seen.lines().map(str::trim_end).collect::<Vec<_>>(), shown);
}

#[test]
fn the_page_shows_lines_of_the_crontab() {
    let [page, crontab] = ["README.md", "crontab"].map(|file| fs::read_to_string(example(file)).unwrap());
    let shown = page.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(shown.lines().count(), 2);
    for line in shown.lines() {
        assert!(crontab.lines().any(|of| of == line), "{line}");
    }
}

#[test]
fn of_two_hosts_one_runs_the_script_and_none_runs_it_again() {
    let shop = Shop::new();
    shop.it_is("2026-03-05 03:00:00");
    let hosts = [shop.host_runs("--slot"), shop.host_runs("--slot")];
    let told: Vec<_> = hosts.into_iter().map(|host| host.wait().expect(0).err).collect();
    assert_eq!(told.iter().filter(|line| line.contains("claimed or skipped")).count(), 1, "{told:?}");
    let log = "2026-03-05: reported under term 1, rerun 0\n";
    assert_eq!((shop.log().as_str(), shop.report("2026-03-05").as_str()), (log, "2 orders, 30.50 in all\n"));
    // Nor does one that is late, or one that looks for what was cut short.
    shop.it_is("2026-03-05 03:01:07");
    assert!(shop.host_runs("--slot").wait().expect(0).err.contains("claimed or skipped"));
    shop.host_runs("--rerun").wait().expect(0);
    assert_eq!(shop.log(), log);
}

#[test]
fn what_is_cut_short_on_one_host_is_run_once_more_on_another() {
    let shop = Shop::new();
    shop.it_is("2026-03-05 03:00:00");
    // It waits for orders that do not come.
    fs::remove_file(shop.bench.path("orders.csv")).unwrap();
    shop.bench.spawn(shop.bench.command("mkfifo").arg("orders.csv")).wait().expect(0);
    let host = shop.host_runs("--slot");
    eventually("the script waits", || shop.bench.path("reports/2026-03-05.txt.1").exists().then_some(()));
    host.signal(Signal::TERM);
    host.wait().expect(143);
    assert_eq!(slots_of(&shop.bench, "nightly-report")["slot_state"], "cut_short");

    shop.orders("1,10.50\n2,20\n3,5\n");
    shop.it_is("2026-03-06 00:05:00");
    for _ in 0..2 {
        shop.host_runs("--rerun").wait().expect(0);
    }
    assert_eq!(shop.log(), "2026-03-05: reported under term 2, rerun 1\n");
    assert_eq!(shop.report("2026-03-05"), "3 orders, 35.50 in all\n");
}
