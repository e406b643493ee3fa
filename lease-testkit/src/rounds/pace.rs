//! How far the workers of a trial may go: its parent tells them on their standard input, so that the kills land in
//! the work they are meant for, however slowly the parent gets on.

use std::io::{self, BufRead as _};
use std::process;
use std::thread;

use tokio::sync::watch;

use super::plan::number;

/// How many instants of each name may be begun. A round of the last of them goes on until there are more.
#[derive(Clone)]
pub(crate) struct Pace(watch::Receiver<usize>);

impl Pace {
    /// Reads on, on a thread of its own. The end of the standard input, which is the end of the parent, ends this process.
    pub(crate) fn told() -> Self {
        let (tell, told) = watch::channel(0);
        thread::spawn(move || {
            for line in io::stdin().lock().lines() {
                let Some(allowed) = line.ok().and_then(|line| number(&line).ok()) else { break };
                tell.send_replace(allowed);
            }
            process::exit(1);
        });
        Self(told)
    }

    pub(crate) fn now(&self) -> usize {
        *self.0.borrow()
    }

    /// Waits until so many may be begun.
    pub(crate) async fn until(&self, allowed: usize) {
        let mut told = self.0.clone();
        told.wait_for(|now| *now >= allowed).await.expect("the reading thread lives as long as the process");
    }
}
