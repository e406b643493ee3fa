//! Packets of the protocol of MySQL and MariaDB (MySQL's source documentation, "Client/Server Protocol").

use super::Direction;
use super::session::{Message, Read};

/// A connection's place in the protocol.
pub(super) struct MySql {
    phase: Phase,
    /// The server has sent something since the client's last command.
    answered: bool,
}

#[derive(PartialEq, Eq)]
enum Phase {
    /// The server greets; the client has not spoken yet.
    Greeting,
    Login,
    Ready,
}

const HEADER: usize = 4;
/// A packet of this length is followed by one that goes on with it.
const LONGEST: usize = 0xff_ffff;
const COMPRESS: u32 = 1 << 5;
const TLS: u32 = 1 << 11;
const ZSTD: u32 = 1 << 26;

impl Default for MySql {
    fn default() -> Self {
        Self { phase: Phase::Greeting, answered: true }
    }
}

impl MySql {
    pub(super) fn read(&mut self, direction: Direction, bytes: &[u8]) -> Read {
        let Some(whole) = whole(bytes) else { return Read::Part };
        let (sequence, first) = (bytes[3], if whole == HEADER { None } else { Some(bytes[HEADER]) });
        let message = |kind| Message { bytes: whole, kind, login: true, begins_trip: false };
        match (&self.phase, direction) {
            (Phase::Greeting, Direction::ToClient) => {
                Read::Message(message(if first == Some(0xff) { "Error" } else { "Greeting" }))
            }
            (Phase::Greeting, Direction::ToServer) => {
                self.phase = Phase::Login;
                let flags = bytes[HEADER..whole].first_chunk().copied().map_or(0, u32::from_le_bytes);
                if flags & (TLS | COMPRESS | ZSTD) == 0 {
                    Read::Message(message("HandshakeResponse"))
                } else {
                    Read::Last(
                        message("HandshakeResponse"),
                        "the client asked for TLS or compression; let it ask for none",
                    )
                }
            }
            (Phase::Login, Direction::ToServer) => Read::Message(message("Authentication")),
            (Phase::Login, Direction::ToClient) => {
                if first == Some(0) {
                    self.phase = Phase::Ready;
                }
                Read::Message(message(match first {
                    Some(0) => "Ok",
                    Some(0xff) => "Error",
                    _ => "AuthenticationRequest",
                }))
            }
            (Phase::Ready, Direction::ToServer) => {
                let command = if sequence == 0 { first } else { None };
                let begins_trip = self.answered && !asks_nothing(command);
                self.answered &= !begins_trip;
                Read::Message(Message { begins_trip, login: false, ..message(kind(command)) })
            }
            (Phase::Ready, Direction::ToClient) => {
                self.answered = true;
                Read::Message(Message { login: false, ..message(answer(sequence, first, whole)) })
            }
        }
    }
}

/// The length of the packets that make the first message, when all have come.
fn whole(bytes: &[u8]) -> Option<usize> {
    let mut end = 0;
    loop {
        let [a, b, c, _] = *bytes.get(end..)?.first_chunk()?;
        let length = u32::from_le_bytes([a, b, c, 0]) as usize;
        end += HEADER + length;
        if length < LONGEST {
            return (bytes.len() >= end).then_some(end);
        }
    }
}

/// Whether the server sends nothing for this command.
fn asks_nothing(command: Option<u8>) -> bool {
    // The end, data for a statement, the closing of a statement.
    matches!(command, Some(0x01 | 0x18 | 0x19))
}

fn kind(command: Option<u8>) -> &'static str {
    match command {
        None => "Data",
        Some(0x01) => "Quit",
        Some(0x02) => "InitDb",
        Some(0x03) => "Query",
        Some(0x0e) => "Ping",
        Some(0x11) => "ChangeUser",
        Some(0x16) => "Prepare",
        Some(0x17) => "Execute",
        Some(0x18) => "SendLongData",
        Some(0x19) => "CloseStatement",
        Some(0x1a) => "ResetStatement",
        Some(0x1b) => "SetOption",
        Some(0x1c) => "Fetch",
        Some(0x1f) => "ResetConnection",
        Some(_) => "unknown",
    }
}

/// The kind of a packet from the server. Without its command, only the first is surely told apart.
fn answer(sequence: u8, first: Option<u8>, whole: usize) -> &'static str {
    match (sequence, first) {
        (_, Some(0xff)) => "Error",
        (1, Some(0x00)) => "Ok",
        (1, Some(0xfb)) => "LocalInfile",
        (_, Some(0xfe)) if whole < HEADER + 9 => "End",
        (1, _) => "Columns",
        _ => "Part",
    }
}
