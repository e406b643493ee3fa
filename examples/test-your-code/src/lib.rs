//! Invoices are sent by one of all replicas: the code whose tests are the example, in `tests/billing.rs`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease_core::clock::sleep_until;
use lease_core::{Clock, Leases, RunError, Tenure, Term};

/// The name that the replica holds that sends.
pub const NAME: &str = "billing";

/// After this time without an invoice it is looked for more.
pub const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Where invoices come from and go to.
#[async_trait]
pub trait Office: Send + Sync + 'static {
    /// The next invoice that is due and was not sent.
    async fn next_due(&self) -> io::Result<Option<u32>>;

    /// Sends it. An office that has seen a later term refuses this one.
    async fn send(&self, invoice: u32, term: Term) -> io::Result<()>;
}

/// Sends what is due, beside other replicas that do the same, until [`Leases::shutdown`].
///
/// # Errors
///
/// What the office has failed with; a failure of the store that waiting does not cure.
pub async fn bill(leases: &Leases, office: Arc<dyn Office>) -> Result<(), RunError<(), io::Error>> {
    // Not tokio's time: a test moves this clock.
    let clock = Arc::clone(leases.clock());
    leases.elect(NAME, move |tenure| send_what_is_due(tenure, Arc::clone(&office), Arc::clone(&clock))).await
}

async fn send_what_is_due(tenure: Tenure, office: Arc<dyn Office>, clock: Arc<dyn Clock>) -> io::Result<()> {
    while !tenure.is_stopping() {
        if let Some(invoice) = office.next_due().await? {
            // Asked to stop, it finishes what it has begun, for the name stays ours until then. After a loss it is not.
            tokio::select! {
                biased;
                _ = tenure.lost() => {}
                sent = office.send(invoice, tenure.term()) => sent?,
            }
        } else {
            tokio::select! {
                biased;
                () = tenure.stopping() => {}
                () = sleep_until(&clock, clock.now() + LOOK_AGAIN) => {}
            }
        }
    }
    Ok(())
}
