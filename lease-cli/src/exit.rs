//! How `lease` ends: its exit codes, and the one line on standard error that goes with a failure.

use std::env;
use std::fmt::Display;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};
use std::thread;

use lease_core::{Error, ErrorKind};
use tokio::sync::oneshot;

use crate::database;
use crate::text::{for_users, one_line, without_password_of, without_passwords};

pub(crate) const SUCCESS: u8 = 0;
/// Called in a way that cannot work: arguments, names, durations, URLs.
pub(crate) const USAGE: u8 = 64;
/// The database is out of reach or cannot carry leases.
pub(crate) const DATABASE: u8 = 69;
/// The lease was lost, or the guardian was killed, while the command ran: the command was ended.
pub(crate) const LOST: u8 = 70;
/// The system refused something: the guardian could not be started, the answer not be written.
pub(crate) const SYSTEM: u8 = 71;
/// Somebody else holds the lease; `--held-exit` chooses another.
pub(crate) const HELD: u8 = 75;
/// The command was found but cannot be run.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The command was not found.
pub(crate) const NOT_FOUND: u8 = 127;

/// An end that is not success: what to say about it, and the exit code.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) message: String,
    /// The same may succeed a little later: the database was busy, say, or out of reach.
    pub(crate) may_pass: bool,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), may_pass: false }
    }

    pub(crate) fn usage(message: impl Display) -> Self {
        Self::new(USAGE, message.to_string())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(code_of(error.kind()), error.to_string())
    }
}

/// The exit code of an error of this kind.
pub(crate) fn code_of(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Invalid => USAGE,
        ErrorKind::Closed | ErrorKind::Runtime => SYSTEM,
        _ => DATABASE,
    }
}

/// The exit code of a shell for a command that ended like this.
pub(crate) fn code_of_command(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// The exit code of a program that ends because of this signal.
pub(crate) fn code_of_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// Says one line on standard error, in which there is no password: messages quote what was given.
pub(crate) fn say(message: &str) {
    let given = env::args_os().skip(1).chain(env::var_os(database::VARIABLE));
    let message = given
        .fold(for_users(message), |message, given| without_password_of(&given.to_string_lossy(), &message));
    say_unmasked(&without_passwords(&one_line(&message)));
}

/// Says one line on standard error that quotes nothing that may be a URL.
pub(crate) fn say_unmasked(message: &str) {
    let message = one_line(message);
    // Standard error may be closed; there is nobody to tell then.
    let _ = writeln!(io::stderr(), "lease: {message}");
}

/// As [`say_unmasked`], from a thread of its own: standard error may be a pipe that nobody reads for now. The
/// receiver learns that it is done.
pub(crate) fn say_aside(message: &str) -> oneshot::Receiver<()> {
    let (done, said) = oneshot::channel();
    let spawned = thread::Builder::new().spawn({
        let message = message.to_owned();
        move || {
            say_unmasked(&message);
            drop(done);
        }
    });
    if spawned.is_err() {
        say_unmasked(message);
    }
    said
}

/// Writes an answer to standard output. Who closed it has read enough.
pub(crate) fn answer(text: &str) -> Result<(), Failure> {
    answer_on(text).map(|_| ())
}

/// Writes a piece of an answer to standard output; `false`: nobody reads on.
pub(crate) fn answer_on(text: &str) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::new(SYSTEM, format!("cannot write to standard output: {error}"))),
    }
}

/// Ends with what the subcommand came to.
pub(crate) fn finish(outcome: Result<u8, Failure>) -> ExitCode {
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(Failure { code, message, .. }) => {
            say(&message);
            ExitCode::from(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_the_commands_own_or_128_and_the_signal() {
        assert_eq!(code_of_command(ExitStatus::from_raw(0)), 0);
        assert_eq!(code_of_command(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(code_of_command(ExitStatus::from_raw(255 << 8)), 255);
        assert_eq!(code_of_command(ExitStatus::from_raw(15)), 143);
        assert_eq!(code_of_command(ExitStatus::from_raw(9 | 0x80)), 137);
        assert_eq!(code_of_signal(2), 130);
    }
}
