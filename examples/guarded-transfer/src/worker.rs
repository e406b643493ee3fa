//! The process that is stopped.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lease_core::{Claimed, Leases, Term, Timings};

use crate::bank::{Bank, Ending, Outcome, Pause};

/// What is held while money is moved.
pub(crate) const NAME: &str = "transfers";

/// Longer than anything takes on a slow machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How the money is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Plain,
    Guarded,
}

impl Way {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Guarded => "guarded",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Plain, Self::Guarded].into_iter().find(|way| way.name() == name)
    }
}

/// Claims the lease and moves the amount under it, with a pause behind the look at the lease. Says `paused TERM` when it
/// is there, then `moved` or `refused: ...`.
///
/// The lease is held by hand. Under `Lease::run` the process would be ended soon after it goes on, for its work runs under a lease
/// that was lost; what it writes at once would be written all the same.
pub(crate) async fn work(bank: &dyn Bank, way: Way) -> Outcome<()> {
    let timings = Timings::from_ttl(bank.ttl())?;
    let leases = Leases::builder_shared(bank.store()).timings(timings).own_thread().build()?;
    loop {
        let lease = match leases.acquire(NAME, PATIENCE).await? {
            Claimed::Granted(lease) => lease,
            Claimed::Held(refusal) => return Err(refusal.holder().await?.to_string().into()),
        };
        let tenure = lease.tenure();
        let has_paused = Arc::new(AtomicBool::new(false));
        let pause = pause(tenure.term(), Arc::clone(&has_paused));
        let ending = match way {
            Way::Plain if tenure.check() => {
                pause();
                bank.transfer().await?;
                Ending::Moved
            }
            Way::Plain => continue,
            Way::Guarded => bank.guarded_transfer(&tenure, pause).await?,
        };
        match ending {
            Ending::Moved => say("moved"),
            Ending::Refused(why) if has_paused.load(Ordering::Relaxed) => say(&format!("refused: {why}")),
            // So slow a machine that the lease was lost before anything was begun.
            Ending::Refused(_) => continue,
        }
        return Ok(());
    }
}

/// Says so and waits for a line, so that whoever reads it can stop this process right here.
fn pause(term: Term, has_paused: Arc<AtomicBool>) -> Pause {
    Box::new(move || {
        has_paused.store(true, Ordering::Relaxed);
        say(&format!("paused {term}"));
        let told_to_go_on = io::stdin().read_line(&mut String::new()).is_ok_and(|bytes| bytes > 0);
        if !told_to_go_on {
            // The story has ended early, and this process with it.
            std::process::exit(1);
        }
    })
}

fn say(what: &str) {
    println!("{what}");
    // It is read by a program.
    let _ = io::stdout().flush();
}
