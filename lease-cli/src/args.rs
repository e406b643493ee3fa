//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use lease_core::Slot;

use crate::instant;

const AFTER_HELP: &str = "\
Exit codes: that of the command for `run` (128 + signal; 126 cannot be run,
127 not found); 75 held: by another, or still, with `clear` and `resign --wait`;
70 lost while the command ran; 69 database out of reach or unusable; 71 refused
by the system; 64 wrong usage; 128 + signal when that ended a wait or `watch`;
0 without running the command when the instant of --slot has been claimed, or
--rerun finds nothing.

Environment: LEASE_DATABASE_URL is the default of --db; LEASE_LOG is a filter
for log lines (warn).";

/// Leases in the SQL database you already have: at most one holder per name at a time.
#[derive(Debug, Parser)]
#[command(name = "lease", version, after_help = AFTER_HELP, max_term_width = 100)]
#[command(subcommand_required = true, arg_required_else_help = false)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) subcommand: Sub,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Sub {
    /// Run a command while holding a lease, if nobody else holds it
    ///
    /// The command gets `LEASE_NAME`, `LEASE_TERM` and `LEASE_HOLDER`, with a slot `LEASE_SLOT` and `LEASE_RERUN`
    /// too. Should the lease be lost, or `lease`
    /// itself be killed or stopped, the command and what it started are ended before another can
    /// take the lease.
    Run(RunArguments),
    /// Say who holds a lease
    Status(StatusArguments),
    /// Say who holds what
    List(ListArguments),
    /// Say every change of who holds a lease, or of all
    ///
    /// One line for each lease as it is, then one for each change that is seen, until a signal comes or nobody reads.
    Watch(WatchArguments),
    /// Free a lease whose holder is dead, and say what was freed
    ///
    /// Dead is proven: by a look at the holder's process, if that ran on this host; with --wait also by watching
    /// the lease for its whole ttl without seeing a renewal. A lease whose holder lives, or may, is refused (exit
    /// code 75): nothing forces it.
    Clear(ClearArguments),
    /// Ask the holder of a lease to step down
    ///
    /// It learns of it with its next renewal; the command of a `lease run` then gets SIGTERM, and the lease is given
    /// back when it has ended.
    Resign(ResignArguments),
    /// Say what became of the instants of schedules
    Slots(SlotsArguments),
    /// Create the table, or bring it up to date
    Migrate(DatabaseArguments),
    /// Print the table's definition
    Schema(DatabaseArguments),
    /// Say whether the database can carry leases
    Check(DatabaseArguments),
    /// Print the completions of a shell, to be kept where it looks for them
    Completions(CompletionsArguments),
    /// Print the manual page, or write it and those of the subcommands to a folder
    Man(ManArguments),
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// The name of the lease, 1 to 191 bytes
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) database: DatabaseArguments,
    /// Run for this instant of a schedule, unless it has been claimed already: RFC 3339, or `@` and seconds
    /// since 1970
    #[arg(long, value_name = "TIME", value_parser = instant::parse, allow_hyphen_values = true)]
    pub(crate) slot: Option<Slot>,
    /// Run the last instant once more if its round was cut short, and nothing otherwise
    #[arg(long, conflicts_with_all = ["slot", "wait"])]
    pub(crate) rerun: bool,
    /// Wait this long to be granted the lease, rather than give up at once
    #[arg(long, value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) wait: Option<Duration>,
    /// How long a lease whose holder has vanished stays taken [default: 15s]
    #[arg(long, value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) ttl: Option<Duration>,
    /// The exit code when somebody else holds the lease
    #[arg(long, value_name = "N", allow_hyphen_values = true, default_value_t = crate::exit::HELD)]
    pub(crate) held_exit: u8,
    /// A text to show beside host and process id
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// Where the command can be reached, to show to those who are refused
    #[arg(long, value_name = "TEXT")]
    pub(crate) address: Option<String>,
    /// The command's version, to show to those who are refused
    #[arg(long, value_name = "TEXT")]
    pub(crate) version: Option<String>,
    /// Wait for the lease of a holder that crashed on this host to expire, rather than take it at once
    #[arg(long)]
    pub(crate) no_probe: bool,
    /// Do not say who holds the lease when somebody else does, nor why there is nothing to run
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    /// The name of the lease
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) database: DatabaseArguments,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    #[command(flatten)]
    pub(crate) database: DatabaseArguments,
    /// Only names that begin with this
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    /// Only leases that are held
    #[arg(long, conflicts_with = "expired")]
    pub(crate) live: bool,
    /// Only leases whose holders did not renew them in time
    #[arg(long)]
    pub(crate) expired: bool,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WatchArguments {
    /// The name of the lease, else all there are
    #[arg(conflicts_with = "prefix")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) database: DatabaseArguments,
    /// All names that begin with this
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    /// A JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ClearArguments {
    /// The name of the lease
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) database: DatabaseArguments,
    /// Watch the lease this long for a renewal; without a value as long as that takes, its ttl and a moment
    // That decides it, however long the wait.
    #[arg(long, value_name = "DURATION", value_parser = duration, num_args = 0..=1, default_missing_value = "100y")]
    pub(crate) wait: Option<Duration>,
    /// Do not look for the holder's process on this host
    #[arg(long)]
    pub(crate) no_probe: bool,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ResignArguments {
    /// The name of the lease
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) database: DatabaseArguments,
    /// Wait this long for the holder to have stepped down
    #[arg(long, value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) wait: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct SlotsArguments {
    /// The names, else all that ever had a slot
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) database: DatabaseArguments,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DatabaseArguments {
    /// The database: `postgres://USER@HOST/DB`, `mysql://USER@HOST/DB`, sqlite:PATH or a path
    /// [default: that in `LEASE_DATABASE_URL`, or a file in the user's state folder]
    // Not clap's `env`: its help and its errors would show a password.
    #[arg(long, value_name = "URL")]
    pub(crate) db: Option<OsString>,
    /// The table that holds the leases; on PostgreSQL also SCHEMA.TABLE
    #[arg(long, value_name = "TABLE", default_value = "leases")]
    pub(crate) table: String,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// The shell
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// Write lease.1, and lease-run.1 and so on for the subcommands, to this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write 1500ms, 30s, 5m or 1h30m, for example"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn durations_read_as_people_write_them() {
        for (text, ms) in
            [("1500ms", 1_500), ("30s", 30_000), ("5m", 300_000), ("1h30m", 5_400_000), ("0s", 0)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "5", "s", "-1s", "1.5x", "99999999999999999999s", "99999999999999999y"] {
            let error = duration(text).unwrap_err();
            assert!(error.contains("for example"), "{text}: {error}");
        }
    }
}
