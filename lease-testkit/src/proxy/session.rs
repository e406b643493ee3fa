//! What the bytes of one connection mean. No I/O.

#[cfg(test)]
mod tests;

use super::mysql::MySql;
use super::postgres::Postgres;
use super::{Direction, Wire};

/// A connection's place in its protocol.
pub(super) enum Session {
    Postgres(Postgres),
    MySql(MySql),
    /// Encrypted, compressed or not understood: only bytes. It says why.
    Opaque(&'static str),
}

/// A whole message at the head of what has come.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) bytes: usize,
    pub(super) kind: &'static str,
    /// It belongs to connecting and logging in.
    pub(super) login: bool,
    /// The client was owed nothing when it sent this, and is owed an answer from now on.
    pub(super) begins_trip: bool,
}

/// What a protocol says of the bytes that have come.
pub(super) enum Read {
    /// The message has not come whole.
    Part,
    Message(Message),
    /// As `Message`, the last that can be understood, and why.
    Last(Message, &'static str),
    /// These bytes are no message.
    Unknown,
}

impl Session {
    pub(super) fn new(wire: Wire) -> Self {
        match wire {
            Wire::Postgres => Self::Postgres(Postgres::default()),
            Wire::MySql => Self::MySql(MySql::default()),
        }
    }

    /// The message at the head of `bytes`, if it has come whole. A message is asked for once.
    pub(super) fn next(&mut self, direction: Direction, bytes: &[u8]) -> Option<Message> {
        if bytes.is_empty() {
            return None;
        }
        let read = match self {
            Self::Postgres(session) => session.read(direction, bytes),
            Self::MySql(session) => session.read(direction, bytes),
            Self::Opaque(_) => Read::Unknown,
        };
        match read {
            Read::Part => None,
            Read::Message(message) => Some(message),
            Read::Last(message, why) => {
                *self = Self::Opaque(why);
                Some(message)
            }
            Read::Unknown => {
                if !matches!(self, Self::Opaque(_)) {
                    *self = Self::Opaque("what came is no message of the protocol");
                }
                Some(Message { bytes: bytes.len(), kind: "bytes", login: true, begins_trip: false })
            }
        }
    }
}
