//! As much of `tokio::sync::watch` as this crate uses, of shuttle's primitives. Under tokio's own lock a thread of shuttle's
//! could not be set aside for another: what that one waits for would stop the whole exploration.
//!
//! One difference: nobody learns that the senders have gone. Each of ours lives as long as its receivers.

use std::future::poll_fn;
use std::sync::{Arc, PoisonError};
use std::task::{Poll, Waker};

use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::sync::{Mutex, RwLock, RwLockReadGuard};

#[derive(Debug, Default)]
struct Shared<T> {
    value: RwLock<T>,
    version: AtomicU64,
    wakers: Mutex<Vec<Waker>>,
}

#[derive(Debug, Default)]
pub(crate) struct Sender<T>(Arc<Shared<T>>);

#[derive(Debug)]
pub(crate) struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

/// All senders have gone, which is never said here.
#[derive(Debug)]
pub(crate) struct RecvError;

impl<T> Sender<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(Shared {
            value: RwLock::new(value),
            version: AtomicU64::new(0),
            wakers: Mutex::new(Vec::new()),
        }))
    }

    pub(crate) fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        let mut value = self.0.value.write().unwrap_or_else(PoisonError::into_inner);
        if !modify(&mut value) {
            return false;
        }
        self.0.version.fetch_add(1, Ordering::SeqCst);
        drop(value);
        let wakers = std::mem::take(&mut *self.0.wakers.lock().unwrap_or_else(PoisonError::into_inner));
        wakers.into_iter().for_each(Waker::wake);
        true
    }

    pub(crate) fn send_modify(&self, modify: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            modify(value);
            true
        });
    }

    pub(crate) fn send_replace(&self, mut value: T) -> T {
        self.send_modify(|present| std::mem::swap(present, &mut value));
        value
    }

    pub(crate) fn borrow(&self) -> RwLockReadGuard<'_, T> {
        self.0.value.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn subscribe(&self) -> Receiver<T> {
        Receiver { shared: Arc::clone(&self.0), seen: self.0.version.load(Ordering::SeqCst) }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Receiver<T> {
    pub(crate) fn borrow_and_update(&mut self) -> RwLockReadGuard<'_, T> {
        let value = self.shared.value.read().unwrap_or_else(PoisonError::into_inner);
        // Nobody writes meanwhile.
        self.seen = self.shared.version.load(Ordering::SeqCst);
        value
    }

    pub(crate) async fn changed(&mut self) -> Result<(), RecvError> {
        let (shared, seen) = (&self.shared, &mut self.seen);
        poll_fn(|cx| {
            shared.wakers.lock().unwrap_or_else(PoisonError::into_inner).push(cx.waker().clone());
            let version = shared.version.load(Ordering::SeqCst);
            if version == *seen {
                return Poll::Pending;
            }
            *seen = version;
            Poll::Ready(Ok(()))
        })
        .await
    }

    pub(crate) async fn wait_for(
        &mut self,
        mut is_meant: impl FnMut(&T) -> bool,
    ) -> Result<RwLockReadGuard<'_, T>, RecvError> {
        while !is_meant(&self.borrow_and_update()) {
            self.changed().await?;
        }
        // What is waited for here stays as it is.
        Ok(self.borrow_and_update())
    }
}
