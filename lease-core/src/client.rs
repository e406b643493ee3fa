//! What every handle on a [`Leases`](crate::Leases) shares: the store, the setup and the way to the driver.

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::attempt::attempt;
use crate::driver::{Command, in_background};
use crate::error::{Asked, Error};
use crate::give_back::announce;
use crate::state::Setup;
use crate::store::StoreError;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::watch;
use crate::{Instance, LeaseName, LeaseStore, Probe};

pub(crate) struct Client {
    pub(crate) store: Arc<dyn LeaseStore>,
    pub(crate) setup: Arc<Setup>,
    pub(crate) instance: Instance,
    pub(crate) probe: Option<Arc<dyn Probe>>,
    /// Where claims run: the driver's runtime, so that a claim in flight outlives its caller.
    pub(crate) runtime: Handle,
    commands: mpsc::UnboundedSender<Command>,
    shutdown: watch::Sender<bool>,
    open: Arc<OpenCount>,
    last_id: AtomicU64,
}

impl Client {
    pub(crate) fn new(
        store: Arc<dyn LeaseStore>,
        setup: Arc<Setup>,
        instance: Instance,
        probe: Option<Arc<dyn Probe>>,
        (runtime, commands): (Handle, mpsc::UnboundedSender<Command>),
    ) -> Self {
        Self {
            store,
            setup,
            instance,
            probe,
            runtime,
            commands,
            shutdown: watch::Sender::new(false),
            open: Arc::default(),
            last_id: AtomicU64::new(0),
        }
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Answers whether there is a driver to be told. Without one its runtime has shut down, and rows expire.
    pub(crate) fn send(&self, command: Command) -> bool {
        self.commands.send(command).is_ok()
    }

    pub(crate) async fn driver_gone(&self) {
        self.commands.closed().await;
    }

    pub(crate) fn shut_down(&self) {
        if !self.shutdown.send_replace(true) {
            self.send(Command::ShutDown);
        }
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        *self.shutdown.borrow()
    }

    pub(crate) async fn shutting_down(&self) {
        // The sender is ours, so the wait ends by the value alone.
        let _ = self.shutdown.subscribe().wait_for(|shutdown| *shutdown).await;
    }

    /// Counts something that `close` waits for, until the answer is dropped.
    pub(crate) fn open(&self) -> Open {
        self.open.0.send_modify(|count| *count += 1);
        Open(Arc::clone(&self.open))
    }

    pub(crate) async fn all_closed(&self) {
        let mut open = self.open.0.subscribe();
        let _ = open.wait_for(|count| *count == 0).await;
    }

    /// Asks the store once.
    pub(crate) async fn ask<'a, T, F>(
        &'a self,
        question: impl FnOnce(&'a dyn LeaseStore, Duration) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let (clock, within) = (&self.setup.clock, self.setup.timings.attempt());
        attempt(clock, clock.now() + within, question(&*self.store, within)).await
    }

    /// Tells those who wait for a name that it is free. Nobody but `close` waits for this.
    pub(crate) fn announce_apart(self: &Arc<Self>, name: LeaseName) {
        let (client, open) = (Arc::clone(self), self.open());
        in_background(&self.runtime, async move {
            announce(&*client.store, &client.setup, &name).await;
            drop(open);
        });
    }

    pub(crate) fn store_error(
        &self,
        what: impl Into<Cow<'static, str>>,
        name: &LeaseName,
        error: StoreError,
    ) -> Error {
        self.shared_store_error(what, name, Arc::new(error))
    }

    pub(crate) fn shared_store_error(
        &self,
        what: impl Into<Cow<'static, str>>,
        name: &LeaseName,
        error: Arc<StoreError>,
    ) -> Error {
        let database = self.store.describe();
        Error::store(Asked { what: what.into(), name: Some(name.clone()), database }, error)
    }

    /// The failure of a question about several names at once.
    pub(crate) fn store_error_of_many(&self, what: &'static str, error: StoreError) -> Error {
        let database = self.store.describe();
        Error::store(Asked { what: what.into(), name: None, database }, Arc::new(error))
    }
}

/// How many claims are in flight and leases not settled.
#[derive(Debug, Default)]
struct OpenCount(watch::Sender<usize>);

/// Something that `close` waits for.
#[derive(Debug)]
pub(crate) struct Open(Arc<OpenCount>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}
