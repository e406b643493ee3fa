//! How a guarded transaction can end, but for well.

use std::error::Error;

/// Why a guarded transaction is not known to be committed.
#[derive(Debug, thiserror::Error)]
pub enum NotDone {
    /// The lease is not held: somebody else may be at work. Nothing is committed.
    #[error("the lease was lost, nothing is committed")]
    Lost,
    /// The word of the database or the work before the commit, or the database's refusal of that. Nothing is committed.
    #[error("nothing is committed: {0}")]
    Failed(#[source] Cause),
    /// No word that the commit took place. Look at what it would have written.
    #[error("nobody knows whether it is committed: {0}")]
    Unknown(#[source] Cause),
}

/// An error of one of the three libraries.
pub(crate) type Cause = Box<dyn Error + Send + Sync>;

impl From<sqlx::Error> for NotDone {
    fn from(error: sqlx::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<diesel::result::Error> for NotDone {
    fn from(error: diesel::result::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<sea_orm::DbErr> for NotDone {
    fn from(error: sea_orm::DbErr) -> Self {
        Self::Failed(error.into())
    }
}
