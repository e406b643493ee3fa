//! The ways for a guard to be wrong.

/// What is wrong; `guard_mutants.rs` says it in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    NeverVerifies,
    OnlyBeginVerifies,
    LossIsFailure,
    ContentionIsLoss,
    BeginsThoughLostHere,
    CommitsThoughLostHere,
    WritesAtOnce,
    CommitsAPart,
    EmptyCommitFails,
    SaysCommitted,
    LosesAPart,
    CommitsLater,
    GapInCommit,
    UnlocksBeforeCommit,
    LocksBeforeItsSession,
    CommitOutlivesItsDrop,
    RollbackCommits,
    DropCommits,
    KeepsLocksAfterCommit,
    KeepsLocksAfterDrop,
    SuccessorHangs,
    RenewalsBlocked,
    RenewalEndsIt,
    CommitReleases,
    KeepsTheName,
    LossSpreads,
}
