//! Which signals are passed on, and which `lease` was started to ignore.

use std::fs;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;

use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{Failure, SYSTEM};

/// What `lease run` passes on to the command. The guardian, in the command's group, survives them.
pub(crate) const PASSED_ON: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// The signals that this process was started to ignore: `nohup` and a shell's `&` do that, and the
/// command inherits it as it would without `lease` in between.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ignored(u64);

impl Ignored {
    /// Reads the set. To be called before handlers are installed: they replace what was ignored.
    pub(crate) fn at_start() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self(parse(&status).unwrap_or(0))
    }

    pub(crate) fn contains(self, signal: i32) -> bool {
        self.0 >> (signal - 1) & 1 == 1
    }
}

/// The signals that `lease run` receives.
#[derive(Debug)]
pub(crate) struct Signals {
    wanted: Vec<(i32, Signal)>,
    /// Not read: where it is ignored, children that end are gone before they are waited for.
    _child: Signal,
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// To be passed on to the command, or an end when there is none.
    PassOn(i32),
    /// `lease run` was stopped and goes on.
    Continued,
}

impl Signals {
    /// From now on the signals are received here rather than ending the process.
    pub(crate) fn listen() -> Result<Self, Failure> {
        Self::try_to_listen()
            .map_err(|error| Failure::new(SYSTEM, format!("cannot receive signals: {error}")))
    }

    fn try_to_listen() -> io::Result<Self> {
        let ignored = Ignored::at_start();
        let wanted = PASSED_ON.into_iter().filter(|number| !ignored.contains(*number)).chain([SIGCONT]);
        let listen = |number| Ok((number, signal(SignalKind::from_raw(number))?));
        Ok(Self {
            wanted: wanted.map(listen).collect::<io::Result<_>>()?,
            _child: signal(SignalKind::child())?,
        })
    }

    /// The next signal. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Received {
        poll_fn(|context| {
            for (number, signal) in &mut self.wanted {
                if signal.poll_recv(context).is_ready() {
                    let passed_on = *number != SIGCONT;
                    return Poll::Ready(if passed_on {
                        Received::PassOn(*number)
                    } else {
                        Received::Continued
                    });
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Waits for something that leaves nothing behind when a signal ends the wait.
    ///
    /// # Errors
    ///
    /// The signal.
    pub(crate) async fn or_signal<T>(&mut self, future: impl Future<Output = T>) -> Result<T, i32> {
        tokio::select! {
            biased;
            signal = self.next_to_end() => Err(signal),
            answer = future => Ok(answer),
        }
    }

    /// Waits for something that must not be given up lightly: one signal is answered beside what it came to.
    ///
    /// # Errors
    ///
    /// A second signal, which ended the wait.
    pub(crate) async fn or_second_signal<T>(
        &mut self,
        future: impl Future<Output = T>,
    ) -> Result<(T, Option<i32>), i32> {
        let mut future = pin!(future);
        let first = match self.or_signal(&mut future).await {
            Ok(answer) => return Ok((answer, None)),
            Err(first) => first,
        };
        tracing::debug!("a signal has come; the database's answer is waited for until the next");
        tokio::select! {
            biased;
            answer = future => Ok((answer, Some(first))),
            second = self.next_to_end() => Err(second),
        }
    }

    /// The next signal that would have ended the process.
    pub(crate) async fn next_to_end(&mut self) -> i32 {
        loop {
            if let Received::PassOn(number) = self.next().await {
                return number;
            }
        }
    }
}

fn parse(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ignored_signals_are_read_from_the_status_of_the_process() {
        let ignored =
            Ignored(parse("Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n").unwrap());
        assert!(ignored.contains(SIGHUP));
        assert!(ignored.contains(signal_hook::consts::SIGPIPE));
        assert!(!ignored.contains(SIGTERM));
        assert!(parse("Name:\tx\n").is_none());
    }
}
