//! The package manager of Debian and Ubuntu.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::geteuid;

use crate::Error;
use crate::binaries::{Version, program};

/// An apt that may install.
pub(super) struct Apt {
    /// What makes a command run as root.
    prefix: &'static [&'static str],
}

impl Apt {
    pub(super) fn find() -> Result<Self, Error> {
        is_there()?;
        let sudo: &[&str] = &["sudo", "-n"];
        let may = |prefix: &[&str]| prefix.is_empty() || runs(prefix, &["true"]);
        let prefix = if geteuid().is_root() { &[] } else { sudo };
        if may(prefix) {
            return Ok(Self { prefix });
        }
        Err(Error::new("only root or a user of sudo without a password may install packages"))
    }

    /// The first of these sets of packages that the system's lists know; the lists are fetched if they
    /// know none.
    pub(super) fn available<'a>(
        &self,
        sets: &[&'a [&'a str]],
        say: &dyn Fn(&str),
    ) -> Result<&'a [&'a str], Error> {
        let is_known = |packages: &&[&str]| packages.iter().all(|name| candidate(&[], name).is_some());
        if let Some(packages) = sets.iter().copied().find(is_known) {
            return Ok(packages);
        }
        say("fetching the lists of packages with apt-get update");
        self.update(say)?;
        let names = || sets.iter().map(|packages| packages.join(" and ")).collect::<Vec<_>>().join(", or ");
        let known = sets.iter().copied().find(is_known);
        known.ok_or_else(|| Error::new(format!("this system's package sources do not have {}", names())))
    }

    /// Installs packages as the system configures them, but starts no service of theirs. Nothing that is
    /// installed is removed for them. The script `before` is run by the same shell, so that its traps hold.
    pub(super) fn install(&self, packages: &[&str], before: &str, say: &dyn Fn(&str)) -> Result<(), Error> {
        say(&format!("installing {} with apt-get", packages.join(" and ")));
        let options =
            ["-qq", "-y", "--no-install-recommends", "--no-remove", "-o", "DPkg::Lock::Timeout=300"];
        let words = [&["apt-get"], &options[..], &["install"], packages].concat();
        let install = || self.run(&after(before, &words));
        install().or_else(|_| {
            // Old lists name packages that the mirror no longer has.
            say("that failed; fetching the lists of packages and trying once more");
            self.update(say)?;
            install()
        })
    }

    fn update(&self, say: &dyn Fn(&str)) -> Result<(), Error> {
        patiently(say, Duration::from_secs(5), || self.run(&["apt-get", "-qq", "update"]))
    }

    fn run(&self, words: &[&str]) -> Result<(), Error> {
        let words = [self.prefix, &["env"], UNATTENDED, words].concat();
        output(&words.iter().map(OsString::from).collect::<Vec<_>>()).map(drop)
    }
}

/// The words of a shell that runs the script and then the command.
pub(super) fn after<'a>(script: &'a str, command: &[&'a str]) -> Vec<&'a str> {
    if script.is_empty() {
        return command.to_vec();
    }
    [&["sh", "-c", "eval \"$0\"; \"$@\"; exit $?", script], command].concat()
}

/// Tries again for some minutes while another apt is at work. Installing waits by itself; fetching lists
/// fails at once, and has no exit code of its own for that.
fn patiently(
    say: &dyn Fn(&str),
    pause: Duration,
    mut attempt: impl FnMut() -> Result<(), Error>,
) -> Result<(), Error> {
    let since = Instant::now();
    let mut outcome = attempt();
    while since.elapsed() < Duration::from_secs(300)
        && outcome.as_ref().is_err_and(|error| error.to_string().contains("Could not get lock"))
    {
        say("another apt is at work; waiting for it");
        thread::sleep(pause);
        outcome = attempt();
    }
    outcome
}

/// Packages ask nothing and start no service: with systemd, and with the older way of run levels.
const UNATTENDED: &[&str] = &["DEBIAN_FRONTEND=noninteractive", "SYSTEMD_OFFLINE=1", "RUNLEVEL=1"];

/// Fails when nothing may be installed, or this system has no apt.
pub(super) fn is_there() -> Result<(), Error> {
    if env::var_os("LEASE_TEST_INSTALL").is_some_and(|answer| answer == "no") {
        return Err(Error::new("LEASE_TEST_INSTALL=no forbids that"));
    }
    let missing = ["apt-get", "apt-cache", "dpkg-deb"].into_iter().find(|name| program(name).is_none());
    missing.map_or(Ok(()), |name| Err(Error::new(format!("this system has no {name}"))))
}

/// The version of this package that an apt with these options would install.
pub(super) fn candidate(options: &[OsString], package: &str) -> Option<Version> {
    let mut words = vec!["apt-cache".into()];
    words.extend_from_slice(options);
    words.extend(["policy".into(), package.into()]);
    candidate_in(&String::from_utf8_lossy(&output(&words).ok()?.stdout))
}

/// Of what `apt-cache policy` prints: the candidate, without the epoch.
fn candidate_in(policy: &str) -> Option<Version> {
    let stated = policy.lines().find_map(|line| line.trim().strip_prefix("Candidate: "))?;
    Version::leading(stated.split_once(':').map_or(stated, |(_, version)| version))
}

/// Runs a command to its end; a failure comes with the end of what it printed.
pub(super) fn output(words: &[OsString]) -> Result<Output, Error> {
    let shown = words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).env("LC_ALL", "C");
    let output = command.output().map_err(Error::while_doing(format_args!("run `{shown}`")))?;
    if output.status.success() {
        return Ok(output);
    }
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    let said = String::from_utf8_lossy(&said);
    Err(Error::new(format!(
        "`{shown}` failed, {}:\n{}",
        output.status,
        crate::instance::tail(said.trim_end())
    )))
}

fn runs(prefix: &[&str], words: &[&str]) -> bool {
    let words: Vec<OsString> = [prefix, words].concat().iter().map(OsString::from).collect();
    output(&words).is_ok()
}

/// An option of apt that names a place.
pub(super) fn place(name: &str, path: &Path) -> [OsString; 2] {
    let mut option = OsString::from(format!("{name}="));
    option.push(path);
    ["-o".into(), option]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_candidate_is_read_without_its_epoch_and_its_packaging() {
        let policy = "mariadb-server-core:\n  Installed: (none)\n  Candidate: 1:10.11.19-0+deb12u1\n  Version table:\n";
        assert_eq!(candidate_in(policy), Version::leading("10.11.19"));
        assert_eq!(candidate_in("mysql-server-core:\n  Candidate: 9.7.4-2\n"), Version::leading("9.7.4"));
    }

    #[test]
    fn another_apt_is_waited_for_and_other_failures_are_not() {
        let mut outcomes =
            ["E: Could not get lock /var/lib/apt/lists/lock.", "E: no network", "late"].into_iter();
        let outcome = patiently(&|_| (), Duration::ZERO, || Err(Error::new(outcomes.next().unwrap())));
        assert_eq!(outcome.unwrap_err().to_string(), "E: no network");
        assert_eq!(outcomes.next(), Some("late"));
    }

    #[test]
    fn a_package_without_a_candidate_is_unknown() {
        assert_eq!(candidate_in("mysql-server-core:\n  Installed: (none)\n  Candidate: (none)\n"), None);
        assert_eq!(candidate_in(""), None);
    }
}
