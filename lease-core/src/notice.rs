//! Hints that a name was given back, so that who waits for it need not wait for the next look.

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use crate::LeaseName;

/// Hints that were not taken in yet; beyond it they are one hint about every name.
const KEPT: usize = 64;

/// Where a store says what it hears: one for all who wait in this process.
#[derive(Debug)]
pub struct Notifier(broadcast::Sender<Option<LeaseName>>);

/// What a store has heard since this was made: a hint to look at once, never a reason not to look otherwise.
#[derive(Debug)]
pub struct Notices(broadcast::Receiver<Option<LeaseName>>);

/// What was heard of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// It was given back: to claim it may well succeed.
    GivenBack,
    /// Something has happened, perhaps to another name: worth a look, not a claim.
    Perhaps,
}

impl Notifier {
    /// With nobody listening.
    pub fn new() -> Self {
        Self(broadcast::Sender::new(KEPT))
    }

    /// Hears from now on.
    pub fn listen(&self) -> Notices {
        Notices(self.0.subscribe())
    }

    /// Whether anybody listens.
    pub fn is_heard(&self) -> bool {
        self.0.receiver_count() > 0
    }

    /// A name may have been given back; `None`: any name may. Never waits. Who listens looks at most a few hundred times a
    /// second for the latter, however often it is said.
    pub fn given_back(&self, name: Option<LeaseName>) {
        // Nobody may be listening.
        drop(self.0.send(name));
    }
}

impl Default for Notifier {
    fn default() -> Self {
        Self::new()
    }
}

impl Notices {
    /// Waits until this name may have been given back since this was made or last answered. For ever, once the store
    /// hears nothing any more.
    ///
    /// Dropping the future loses nothing.
    pub async fn about(&mut self, name: &LeaseName) -> Hint {
        self.wait(|heard| heard == name).await
    }

    /// As [`about`](Self::about), of all names that begin with `prefix`.
    pub async fn about_any(&mut self, prefix: &str) -> Hint {
        self.wait(|heard| heard.as_str().starts_with(prefix)).await
    }

    async fn wait(&mut self, is_meant: impl Fn(&LeaseName) -> bool) -> Hint {
        let hint = |heard: &Option<LeaseName>| match heard {
            Some(heard) if !is_meant(heard) => None,
            Some(_) => Some(Hint::GivenBack),
            None => Some(Hint::Perhaps),
        };
        let mut heard = loop {
            let heard = match self.0.recv().await {
                Ok(heard) => hint(&heard),
                Err(RecvError::Lagged(_)) => Some(Hint::Perhaps),
                Err(RecvError::Closed) => return std::future::pending().await,
            };
            if let Some(heard) = heard {
                break heard;
            }
        };
        // What was heard by now is one hint: who has missed a hundred looks once.
        loop {
            match self.0.try_recv() {
                Ok(more) if hint(&more) == Some(Hint::GivenBack) => heard = Hint::GivenBack,
                Ok(_) | Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return heard,
            }
        }
    }
}
