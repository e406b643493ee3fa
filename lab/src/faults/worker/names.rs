//! Names held again and again.

use std::sync::Arc;

use lease_core::{Claimed, ErrorKind, Lease, LeaseName, RunError};
use tokio::time::sleep;

use super::Worker;
use crate::history::{Event, Name};

/// Held by `elect`.
pub(crate) const ELECTED: &str = "elected";

/// Held by `acquire`, with and without `run`.
pub(crate) const TAKEN: &str = "taken";

/// What the names of rounds begin with.
pub(crate) const ROUNDS: &str = "round";

impl Worker {
    /// Leads whenever it can.
    pub(super) async fn elects(self: &Arc<Self>) {
        let name: LeaseName = ELECTED.parse().expect("a name");
        self.writer.tell(Event::Wants(Name::from(&name)));
        while !self.is_stopping() {
            let worker = Arc::clone(self);
            let work = move |tenure| {
                let worker = Arc::clone(&worker);
                async move {
                    let takes = worker.part(50..300);
                    worker.work(&tenure, takes).await;
                    Ok::<_, std::convert::Infallible>(())
                }
            };
            match self.leases.elect(name.clone(), work).await {
                Ok(()) => break,
                Err(error) => self.failed("elect", &error).await,
            }
        }
        self.writer.tell(Event::WantsNoMore(Name::from(&name)));
    }

    /// Takes a name whenever it can, and works under it supervised or not.
    pub(super) async fn takes(self: &Arc<Self>) {
        let name: LeaseName = TAKEN.parse().expect("a name");
        self.writer.tell(Event::Wants(Name::from(&name)));
        while !self.is_stopping() {
            match self.leases.acquire(name.clone(), self.order.ttl() * 4).await {
                Ok(Claimed::Granted(lease)) => self.holds(lease).await,
                Ok(Claimed::Held(_)) => {}
                Err(error) if error.kind() == ErrorKind::Closed => break,
                Err(error) => self.failed("acquire", &error).await,
            }
        }
        self.writer.tell(Event::WantsNoMore(Name::from(&name)));
    }

    async fn holds(self: &Arc<Self>, lease: Lease) {
        let takes = self.part(50..200);
        if self.below(2) == 0 {
            let worker = Arc::clone(self);
            let work = async move |tenure| {
                worker.work(&tenure, takes).await;
                Ok::<_, std::convert::Infallible>(())
            };
            if let Err(error @ (RunError::Panicked { .. } | RunError::Store(_))) = lease.run(work).await {
                self.failed("run", &error).await;
            }
        } else {
            let tenure = lease.tenure();
            self.work(&tenure, takes).await;
            drop(tenure);
            if let Err(error) = lease.release().await {
                eprintln!("release: {error}");
            }
        }
    }

    /// What waiting does not cure by itself is cured by whoever broke it.
    pub(super) async fn failed(&self, what: &str, error: &dyn std::error::Error) {
        eprintln!("{what}: {error}");
        sleep(self.part(3..10)).await;
    }
}
