//! A thread for the connections of a store.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::panic::resume_unwind;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc;

use crate::ErrorKind;
use crate::store::StoreError;

/// One OS thread with a runtime of its own, for a store that talks over a network.
///
/// All connections of the store live on it and all its statements run there. So
/// - work that blocks its own runtime starves no renewal;
/// - a caller that drops its future leaves no connection in the middle of an answer: the statement
///   runs on, to its end or its [`Limit`](crate::store::Limit);
/// - a connection may be used from every runtime, also when the one it was first asked for on is gone.
///
/// A clone is another handle of the same thread. It ends when the last handle has gone and the last
/// statement has ended.
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
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (in_use, mut unused) = mpsc::channel(1);
        thread::Builder::new().name(name.to_owned()).spawn(move || runtime.block_on(unused.recv()))?;
        Ok(Self { runtime: handle, in_use })
    }

    /// Runs a statement on the thread and waits for its answer. Dropping this future leaves the
    /// statement running.
    ///
    /// # Panics
    ///
    /// When the statement does.
    pub async fn run<T: Send + 'static>(
        &self,
        statement: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let in_use = self.in_use.clone();
        let task = self.runtime.spawn(async move {
            let answer = statement.await;
            drop(in_use);
            answer
        });
        match task.await {
            Ok(answer) => answer,
            Err(ended) if ended.is_panic() => resume_unwind(ended.into_panic()),
            Err(ended) => {
                let message = "the store's thread has ended, which is a bug";
                Err(StoreError::new(ErrorKind::Other, message).with_source(ended))
            }
        }
    }
}
