//! A thread for the connections of a store.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::panic::resume_unwind;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::ErrorKind;
use crate::store::StoreError;

/// One OS thread with a runtime of its own, for a store that talks over a network.
///
/// All connections of the store live on it and all its statements run there. So
/// - a runtime that is blocked holds up no connection. (Renewals are *asked for* where the driver runs: work
///   that may block its runtime wants [`own_thread`](crate::LeasesBuilder::own_thread) as well.);
/// - a caller that drops its future leaves no connection in the middle of an answer: the statement
///   runs on, to its end or its [`Limit`](crate::store::Limit);
/// - a connection may be used from every runtime, also when the one it was first asked for on is gone.
///
/// A clone is another handle of the same thread. It ends when the last handle has gone and the last
/// statement has ended. A process that forks without `exec` has no such thread in the child, and a call there
/// waits for ever.
#[derive(Debug, Clone)]
pub struct IoThread {
    runtime: Handle,
    in_use: mpsc::Sender<Infallible>,
}

impl IoThread {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// The system has no thread or no file descriptor left.
    pub fn start(name: &str) -> io::Result<Self> {
        let (in_use, mut unused) = mpsc::channel(1);
        let until_unused = async move { while unused.recv().await.is_some() {} };
        Ok(Self { runtime: runtime_thread(name, until_unused)?, in_use })
    }

    /// Runs a statement on the thread and waits for its answer. Dropping this future leaves the
    /// statement running.
    ///
    /// # Errors
    ///
    /// The statement's own; [`Other`](ErrorKind::Other) if the thread has ended, which is a defect.
    ///
    /// # Panics
    ///
    /// When the statement does.
    pub async fn run<T: Send + 'static>(
        &self,
        statement: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        match self.spawn(statement).await {
            Ok(answer) => answer,
            Err(ended) if ended.is_panic() => resume_unwind(ended.into_panic()),
            Err(ended) => {
                let message = "the store's thread has ended, which is a bug";
                Err(StoreError::new(ErrorKind::Other, message).with_source(ended))
            }
        }
    }

    /// Runs on the thread what nobody waits for. The thread does not end before it has.
    pub fn spawn<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        let in_use = self.in_use.clone();
        self.runtime.spawn(async move {
            let answer = task.await;
            drop(in_use);
            answer
        })
    }
}

/// Starts a thread with a runtime on which `main` runs to its end.
///
/// The runtime is built there: where the system refuses a thread it could not be dropped here, which may be
/// inside another runtime.
pub(crate) fn runtime_thread(
    name: &str,
    main: impl Future<Output = ()> + Send + 'static,
) -> io::Result<Handle> {
    let (started, start) = std::sync::mpsc::channel();
    let thread = thread::Builder::new().name(name.to_owned());
    thread.spawn(move || match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            drop(started.send(Ok(runtime.handle().clone())));
            runtime.block_on(main);
        }
        Err(error) => drop(started.send(Err(error))),
    })?;
    start.recv().unwrap_or_else(|_| Err(io::Error::other("the thread has ended")))
}
