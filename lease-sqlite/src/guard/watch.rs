//! What SQLite asks before each commit, and while it works.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lease_core::guard::Guarding;
use lease_core::store::StoreError;
use lease_core::{ErrorKind, GuardError, Tenure};
use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization, TransactionOperation};

use super::raw;

/// A guarded transaction as its connection's hooks see it.
pub(super) struct Watch {
    guarding: Guarding,
    /// Nobody waits for the outcome any more.
    abandoned: Arc<AtomicBool>,
    /// The guard's own commit is being sent.
    committing: AtomicBool,
    /// A commit was let through.
    passed: AtomicBool,
    /// The transaction was rolled back; whatever is open now is another one.
    undone: AtomicBool,
}

/// How many instructions of SQLite's virtual machine lie between two looks at the lease: some microseconds. Those of a
/// statement that is run again are counted on.
const INSTRUCTIONS: c_int = 100;

impl Watch {
    pub(super) fn new(guarding: Guarding, abandoned: Arc<AtomicBool>) -> Arc<Self> {
        let (committing, passed, undone) = Default::default();
        Arc::new(Self { guarding, abandoned, committing, passed, undone })
    }

    pub(super) fn tenure(&self) -> &Tenure {
        self.guarding.tenure()
    }

    /// Whether there is any use in going on.
    pub(super) fn check(&self) -> Result<(), GuardError> {
        self.guarding.check()?;
        if self.abandoned.load(Ordering::Acquire) {
            let dropped = StoreError::new(ErrorKind::Other, "the future that waited for it was dropped");
            return Err(GuardError::Failed(dropped.without_effect()));
        }
        Ok(())
    }

    /// Runs the guard's own commit. Answers as well whether it was let through: it has not taken place otherwise.
    pub(super) fn commit<T>(&self, commit: impl FnOnce() -> T) -> (T, bool) {
        self.passed.store(false, Ordering::Release);
        self.committing.store(true, Ordering::Release);
        let answer = commit();
        self.committing.store(false, Ordering::Release);
        (answer, self.passed.load(Ordering::Acquire))
    }

    pub(super) fn is_undone(&self) -> bool {
        self.undone.load(Ordering::Acquire)
    }

    /// Installs the hooks. While they are there nothing is committed on the connection, but by [`commit`](Self::commit)
    /// while the lease is held. So are writes refused outside a transaction, which SQLite would commit one by one when
    /// it has rolled the transaction back by itself: after an interrupt, on a full disk, for `ON CONFLICT ROLLBACK`.
    ///
    /// Not one hook is left behind by an error.
    pub(super) fn install(self: &Arc<Self>, connection: &mut Connection) -> rusqlite::Result<()> {
        let [commit, progress, authorizer] = std::array::from_fn(|_| Arc::clone(self));
        let installed = connection
            .commit_hook(Some(move || !is_sure(|| commit.may_commit())))
            .and_then(|()| {
                connection.progress_handler(INSTRUCTIONS, Some(move || !is_sure(|| progress.may_go_on())))
            })
            .and_then(|()| {
                connection.authorizer(Some(move |context: AuthContext<'_>| {
                    let may = is_sure(|| authorizer.may_prepare(&context.action));
                    if may { Authorization::Allow } else { Authorization::Deny }
                }))
            })
            // The driver frees the program's own.
            .and_then(|()| connection.rollback_hook(None::<fn()>));
        if let Err(error) = installed {
            remove(connection);
            return Err(error);
        }
        // SAFETY: the guard has `self` until it is dropped, which removes the hook before. One that is forgotten has it for ever.
        #[expect(unsafe_code, reason = "see there")]
        unsafe {
            raw::tell_of_rollbacks(connection, &self.undone);
        }
        Ok(())
    }

    fn may_commit(&self) -> bool {
        let may = self.committing.load(Ordering::Acquire) && !self.is_undone() && self.may_go_on();
        self.passed.store(may, Ordering::Release);
        may
    }

    /// A loop of short statements does not get far enough in any for the progress handler. And no journal that can undo
    /// the transaction is turned off within it, nor is the lock kept behind it.
    fn may_prepare(&self, action: &AuthAction<'_>) -> bool {
        match action {
            AuthAction::Transaction { operation: TransactionOperation::Rollback } => true,
            AuthAction::Pragma { pragma_name, pragma_value: Some(_) }
                if ["journal_mode", "locking_mode"].iter().any(|it| it.eq_ignore_ascii_case(pragma_name)) =>
            {
                false
            }
            // Asked by the commit hook.
            AuthAction::Transaction { .. } if self.committing.load(Ordering::Acquire) => true,
            _ => self.may_go_on(),
        }
    }

    fn may_go_on(&self) -> bool {
        !self.abandoned.load(Ordering::Acquire) && self.tenure().check()
    }
}

/// The driver takes a hook that panics for one that agrees. The clock that is asked may be the program's.
fn is_sure(ask: impl FnOnce() -> bool) -> bool {
    catch_unwind(AssertUnwindSafe(ask)).unwrap_or(false)
}

/// Removes what [`Watch::install`] has installed.
pub(super) fn remove(connection: &mut Connection) {
    let_it_be_undone(connection);
    // What cannot be removed goes on to refuse.
    let _ = connection.commit_hook(None::<fn() -> bool>);
}

/// Removes all but the refusal of commits, so that a rollback runs to its end.
pub(super) fn let_it_be_undone(connection: &mut Connection) {
    let _ = connection.progress_handler(0, None::<fn() -> bool>);
    let _ = connection.authorizer(None::<fn(AuthContext<'_>) -> Authorization>);
    raw::tell_of_rollbacks_no_more(connection);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_that_panics_refuses() {
        assert!(is_sure(|| true));
        assert!(!is_sure(|| false));
        assert!(!is_sure(|| panic!("on purpose")));
    }
}
