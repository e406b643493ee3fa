//! Faults, as the orchestrator tells of them.

use serde::{Deserialize, Serialize};

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// A worker was killed.
    ClientKilled,
    /// A worker was stopped and continued.
    ClientStopped,
    /// The server was killed and started again.
    ServerKilled,
    /// The server was stopped and continued.
    ServerStopped,
    /// The server was restarted in order.
    ServerRestarted,
    /// Nothing passed to the server, or from it, or both (`at` says which).
    Partition,
    /// Connections stayed open with one end gone.
    HalfOpen,
    /// Messages came late by `ms`.
    Latency,
    /// A connection was cut at the message, or behind the bytes, that `at` and `bytes` say.
    Cut,
    /// The database's clock was set by `ms`, forward or (negative) back. Each step is a fault of its own, the one that undoes
    /// another too; it begins before the clock is set and ends when that has been done.
    ClockStepped,
    /// A transaction held the row of a lease.
    RowLocked,
    /// An idle connection was killed on the server.
    ConnectionKilled,
    /// The server took no writes.
    ReadOnly,
    /// The file was moved away, and after a while a copy of it with every row was put in its place, written by nobody meanwhile: terms go
    /// on, though who holds something in the old file loses it.
    FileCopied,
    /// The file was replaced by another one, without its rows or with older ones: terms may begin again.
    FileReplaced,
    /// The disk was full.
    DiskFull,
    /// Rows were changed by hand. Nothing is promised of names (`at`: the name; all, when empty) that were.
    RowsEdited,
}

/// One fault, from its begin to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Its number in this history, the same at its begin and at its end.
    pub number: u64,
    /// Its kind.
    pub kind: FaultKind,
    /// Of process and incarnation; `None`: of the database, or of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<(u32, u32)>,
    /// How long, how late or by how much, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<i64>,
    /// How many bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Where, in words for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub at: String,
}
