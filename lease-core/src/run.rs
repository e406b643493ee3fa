//! Work under a lease, supervised until it has really ended.

use std::backtrace::Backtrace;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::error::Error;
use crate::panicked::{Catch, Panicked};
use crate::{ErrorKind, Lease, LossReason, Tenure};

/// What ended a run other than success.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError<T, E> {
    /// The work failed with its own error; the lease was held to the end.
    Work(E),
    /// The work panicked; the lease was held to the end.
    Panicked {
        /// The panic's message.
        message: String,
        /// Where, if `RUST_BACKTRACE` asks for it and no later panic hook hides it.
        backtrace: Option<Backtrace>,
    },
    /// The lease was lost before the work had ended, even if the work then succeeded.
    Lost {
        /// Why.
        reason: LossReason,
        /// What the work returned all the same; `None` when it was not begun, was aborted or panicked.
        output: Option<Result<T, E>>,
    },
    /// The lease could not be claimed; no work was begun.
    Store(Error),
}

impl<T, E: fmt::Display> fmt::Display for RunError<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Work(error) => error.fmt(f),
            Self::Panicked { message, .. } => write!(f, "the work panicked: {message}"),
            Self::Lost { reason, output } => {
                let work = match output {
                    None => "the work was cut short or not begun",
                    Some(Ok(_)) => "the work ended all the same",
                    Some(Err(_)) => "the work failed then",
                };
                write!(f, "the lease was lost: {reason}; {work}")
            }
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl<T: fmt::Debug, E: std::error::Error + 'static> std::error::Error for RunError<T, E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Work(error) => error.source(),
            Self::Store(error) => error.source(),
            Self::Panicked { .. } | Self::Lost { .. } => None,
        }
    }
}

/// How the work's own future ended; `None` when it was aborted or its runtime shut down.
type Ended<T, E> = Option<Returned<T, E>>;

/// What the work's future came to.
struct Returned<T, E> {
    output: Result<Result<T, E>, Panicked>,
    /// Whether it was asked to stop, or the lease was lost, before it returned.
    asked_to_stop: bool,
}

impl<T, E> Returned<T, E> {
    /// Work that succeeds has run to its end whatever was asked of it meanwhile; work that fails, only if nothing was.
    fn ran_to_its_end(&self) -> bool {
        matches!(self.output, Ok(Ok(_))) || !self.asked_to_stop
    }
}

impl Lease {
    /// Runs work under the lease, then gives the name back.
    ///
    /// The work is a task of its own on the caller's runtime, with its [`Tenure`] as argument and as
    /// [`Tenure::current`]. A supervisor keeps the lease until the work has *ended*: its future has
    /// returned and every tenure of the lease is gone, so blocking children that carry a clone count, and
    /// so does a tenure that the caller kept.
    ///
    /// - **Shutdown or step-down:** the work learns of it by [`Tenure::stopping`] and is waited for,
    ///   without a bound; renewals go on.
    /// - **Loss:** the work learns of it by [`Tenure::lost`] and has the grace to end. When nine tenths
    ///   of the grace have passed its future is aborted (it ends at its next await). What still runs
    ///   at the end of the grace calls the failing hook, which by default aborts the process. With the
    ///   hook replaced, this still does not return while the work runs. A loss that is noticed when the
    ///   grace is over already (the machine was suspended, the process stopped) aborts the work at once
    ///   and calls the hook a tenth of the grace later.
    /// - **Dropping this future** asks the work to stop, aborts it, keeps renewing until it has ended,
    ///   then gives the name back, all in the background.
    ///
    /// The first call in a process puts a panic hook before the one there is, which notes the backtrace of a
    /// panic of such work and passes every panic on.
    ///
    /// # Errors
    ///
    /// [`RunError`]: the work's own error, its panic, or the loss. When the name could not be given
    /// back within an attempt, that is no error: it is tried until the row has expired.
    pub async fn run<F, Fut, T, E>(self, work: F) -> Result<T, RunError<T, E>>
    where
        F: FnOnce(Tenure) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        let begun = begin(&self, work)?;
        let run = conclude(self, begun, |lease, outcome| async move {
            drop(lease.release().await);
            outcome.result
        });
        run.await.unwrap_or(Err(RunError::Lost { reason: LossReason::Released, output: None }))
    }
}

/// Work that has begun: a task of the runtime.
pub(crate) struct Begun<T, E> {
    runtime: Handle,
    work: JoinHandle<Returned<T, E>>,
}

/// What work that was begun came to.
pub(crate) struct Outcome<T, E> {
    pub(crate) result: Result<T, RunError<T, E>>,
    /// Else it was cut short. What happens once it has returned changes nothing of that.
    pub(crate) ran_to_its_end: bool,
}

/// Begins work under a lease, unless that is lost.
pub(crate) fn begin<F, Fut, T, E>(lease: &Lease, work: F) -> Result<Begun<T, E>, RunError<T, E>>
where
    F: FnOnce(Tenure) -> Fut + Send + 'static,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    let runtime = Handle::try_current().map_err(|_| {
        let name = lease.name();
        let message = format!("cannot run work under lease {name:?}: not inside a tokio runtime");
        RunError::Store(Error::own(ErrorKind::Runtime, message))
    })?;
    let span = tracing::info_span!("lease", lease = %lease.name(), term = %lease.term());
    let tenure = lease.tenure();
    lease.state().begin_work().map_err(|reason| RunError::Lost { reason, output: None })?;
    // The scope's tenure lives exactly as long as the work's future.
    let scope = tenure.clone();
    let work = runtime.spawn(scope.scope(async move {
        let output = Catch::new(async move { work(tenure).await }, span).await;
        // Here and not by the supervisor: what is asked later was not asked of this work.
        let asked_to_stop = Tenure::current().is_some_and(|tenure| tenure.is_stopping() || !tenure.check());
        Returned { output, asked_to_stop }
    }));
    lease.state().work_can_be_aborted_by(work.abort_handle());
    Ok(Begun { runtime, work })
}

/// Supervises work until it has really ended, then ends its lease: in the background, so that dropping this future
/// changes no more than that the work is told. `None`: the runtime shut down.
pub(crate) async fn conclude<T, E, R, Fut>(
    lease: Lease,
    begun: Begun<T, E>,
    end: impl FnOnce(Lease, Outcome<T, E>) -> Fut + Send + 'static,
) -> Option<R>
where
    Fut: Future<Output = R> + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
    R: Send + 'static,
{
    let (wanted, unwanted) = oneshot::channel::<()>();
    let (done, ended) = oneshot::channel();
    begun.runtime.spawn(async move {
        let outcome = supervise(&lease, begun.work, unwanted).await;
        drop(done.send(end(lease, outcome).await));
    });
    let ended = ended.await;
    drop(wanted);
    ended.ok()
}

async fn supervise<T, E>(
    lease: &Lease,
    mut work: JoinHandle<Returned<T, E>>,
    unwanted: oneshot::Receiver<()>,
) -> Outcome<T, E> {
    let state = Arc::clone(lease.state());
    let ended: Ended<T, E> = tokio::select! {
        biased;
        ended = &mut work => ended.ok(),
        // The run future was dropped.
        _ = unwanted => {
            state.ask_stop();
            work.abort();
            work.await.ok()
        }
    };
    let ran_to_its_end = ended.as_ref().is_some_and(Returned::ran_to_its_end);
    // What the work left running under a clone of its tenure is told to end, and waited for.
    state.ask_stop();
    state.work_gone().await;

    let result = match (state.held(), ended.map(|ended| ended.output)) {
        (Ok(()), Some(Ok(output))) => output.map_err(RunError::Work),
        (Ok(()), Some(Err(Panicked { message, backtrace }))) => {
            Err(RunError::Panicked { message, backtrace })
        }
        // Aborted because nobody wants the outcome any more; nobody will see this either.
        (Ok(()), None) => Err(RunError::Lost { reason: LossReason::Released, output: None }),
        (Err(reason), Some(Ok(output))) => Err(RunError::Lost { reason, output: Some(output) }),
        (Err(reason), Some(Err(panicked))) => {
            tracing::error!(lease = %state.name, panic = panicked.message, "the work panicked after the loss");
            Err(RunError::Lost { reason, output: None })
        }
        (Err(reason), None) => Err(RunError::Lost { reason, output: None }),
    };
    Outcome { result, ran_to_its_end }
}
