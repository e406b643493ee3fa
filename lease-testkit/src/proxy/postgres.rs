//! Messages of PostgreSQL's protocol, version 3 (PostgreSQL manual, "Frontend/Backend Protocol").

use super::Direction;
use super::session::{Message, Read};

/// A connection's place in the protocol.
#[derive(Default)]
pub(super) struct Postgres {
    phase: Phase,
    /// The `ReadyForQuery` messages that the client is owed.
    owed: u32,
    /// The client has sent messages whose `Sync`, or a query in its place, is yet to come.
    unsynced: bool,
}

#[derive(Default, PartialEq, Eq)]
enum Phase {
    /// The client begins, with a message that has no type.
    #[default]
    Start,
    /// The client has asked for encryption: the server answers with one byte.
    Asked,
    Login,
    Ready,
}

const CANCEL: u32 = 80_877_102;
const TLS: u32 = 80_877_103;
const GSS: u32 = 80_877_104;
/// The server refuses longer ones too, so anything longer is another protocol (TLS without asking).
const LONGEST_START: usize = 10_000;

impl Postgres {
    pub(super) fn read(&mut self, direction: Direction, bytes: &[u8]) -> Read {
        match (direction, &self.phase) {
            (Direction::ToServer, Phase::Start) => self.start(bytes),
            (Direction::ToServer, Phase::Asked) => Read::Unknown,
            (Direction::ToClient, Phase::Asked) if matches!(bytes[0], b'S' | b'G') => Read::Last(
                login(1, "Encrypted"),
                "the client asked for encryption and got it; give it sslmode=disable",
            ),
            (Direction::ToClient, Phase::Asked) if bytes[0] == b'N' => {
                self.phase = Phase::Start;
                Read::Message(login(1, "NotEncrypted"))
            }
            _ => self.typed(direction, bytes),
        }
    }

    fn start(&mut self, bytes: &[u8]) -> Read {
        let (Some(length), Some(code)) = (number(bytes), bytes.get(4..).and_then(number)) else {
            return Read::Part;
        };
        let length = length as usize;
        if !(8..=LONGEST_START).contains(&length) {
            return Read::Unknown;
        }
        if bytes.len() < length {
            return Read::Part;
        }
        let (phase, kind) = match code {
            // Nothing comes after it.
            CANCEL => (Phase::Start, "CancelRequest"),
            TLS => (Phase::Asked, "SSLRequest"),
            GSS => (Phase::Asked, "GSSENCRequest"),
            _ => (Phase::Login, "StartupMessage"),
        };
        self.phase = phase;
        Read::Message(login(length, kind))
    }

    /// A message with a byte for its type and its length.
    fn typed(&mut self, direction: Direction, bytes: &[u8]) -> Read {
        let Some(length) = bytes.get(1..).and_then(number) else { return Read::Part };
        if length < 4 {
            return Read::Unknown;
        }
        let whole = 1 + length as usize;
        if bytes.len() < whole {
            return Read::Part;
        }
        let kind = kind(direction, bytes[0]);
        if self.phase != Phase::Ready {
            if direction == Direction::ToClient && bytes[0] == b'Z' {
                self.phase = Phase::Ready;
            }
            return Read::Message(login(whole, kind));
        }
        let begins_trip = match direction {
            Direction::ToServer => self.sent(bytes[0]),
            Direction::ToClient => {
                if bytes[0] == b'Z' {
                    self.owed = self.owed.saturating_sub(1);
                }
                false
            }
        };
        Read::Message(Message { bytes: whole, kind, login: false, begins_trip })
    }

    /// What the client is owed after a message of this type; whether it was owed nothing before.
    fn sent(&mut self, kind: u8) -> bool {
        let idle = self.owed == 0 && !self.unsynced;
        match kind {
            // A query ends what was sent before it, as a `Sync` does.
            b'Q' | b'F' | b'S' => {
                self.owed += 1;
                self.unsynced = false;
            }
            // The end, and data for a copy, to which the statement before them is owed the answer.
            b'X' | b'd' | b'c' | b'f' => return false,
            _ => self.unsynced = true,
        }
        idle
    }
}

fn login(bytes: usize, kind: &'static str) -> Message {
    Message { bytes, kind, login: true, begins_trip: false }
}

/// The number in the first four bytes.
fn number(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().copied().map(u32::from_be_bytes)
}

fn kind(direction: Direction, letter: u8) -> &'static str {
    match (direction, letter) {
        (Direction::ToServer, b'B') => "Bind",
        (Direction::ToServer, b'C') => "Close",
        (Direction::ToServer, b'D') => "Describe",
        (Direction::ToServer, b'E') => "Execute",
        (Direction::ToServer, b'F') => "FunctionCall",
        (Direction::ToServer, b'H') => "Flush",
        (Direction::ToServer, b'P') => "Parse",
        (Direction::ToServer, b'Q') => "Query",
        (Direction::ToServer, b'S') => "Sync",
        (Direction::ToServer, b'X') => "Terminate",
        (Direction::ToServer, b'f') => "CopyFail",
        (Direction::ToServer, b'p') => "PasswordMessage",
        (Direction::ToClient, b'1') => "ParseComplete",
        (Direction::ToClient, b'2') => "BindComplete",
        (Direction::ToClient, b'3') => "CloseComplete",
        (Direction::ToClient, b'A') => "NotificationResponse",
        (Direction::ToClient, b'C') => "CommandComplete",
        (Direction::ToClient, b'D') => "DataRow",
        (Direction::ToClient, b'E') => "ErrorResponse",
        (Direction::ToClient, b'G') => "CopyInResponse",
        (Direction::ToClient, b'H') => "CopyOutResponse",
        (Direction::ToClient, b'I') => "EmptyQueryResponse",
        (Direction::ToClient, b'K') => "BackendKeyData",
        (Direction::ToClient, b'N') => "NoticeResponse",
        (Direction::ToClient, b'R') => "Authentication",
        (Direction::ToClient, b'S') => "ParameterStatus",
        (Direction::ToClient, b'T') => "RowDescription",
        (Direction::ToClient, b'Z') => "ReadyForQuery",
        (Direction::ToClient, b'n') => "NoData",
        (Direction::ToClient, b's') => "PortalSuspended",
        (Direction::ToClient, b't') => "ParameterDescription",
        (_, b'c') => "CopyDone",
        (_, b'd') => "CopyData",
        _ => "unknown",
    }
}
