//! What `lease run` and its guardian say to each other: frames of nine bytes over a socket pair. Only behind
//! [`Order::Variables`] stands a text.

use std::time::Duration;

use lease_core::Moment;

/// Said to the guardian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// The lease is granted. A text of so many bytes follows: [variables](encode_variables) for the command. The first order, once.
    Variables(usize),
    /// The lease is believed until this moment of the machine's clock. The first one
    /// starts the command.
    Believe(Moment),
    /// The lease is lost.
    Lost,
    /// Pass this signal on to the command's group.
    Signal(i32),
}

/// Said by the guardian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    /// The command runs.
    Started,
    /// The command could not be run: the system's error number.
    NotStarted(i32),
    /// A signal of the terminal stopped the command.
    Stopped(i32),
    /// The deadline passed, or the lease was said to be lost: the command is being ended.
    Ending,
    /// The command ended with this wait status. Others of its group may be left.
    Ended(i32),
}

/// The length of a frame: what it is, and a number.
pub(super) const FRAME: usize = 9;

pub(super) type Frame = [u8; FRAME];

fn frame(kind: u8, number: u64) -> Frame {
    let mut frame = [kind; FRAME];
    frame[1..].copy_from_slice(&number.to_le_bytes());
    frame
}

/// A wait status, an error or a signal: none is negative.
fn small(number: i32) -> u64 {
    u64::from(number.unsigned_abs())
}

fn parts(frame: Frame) -> (u8, u64) {
    let [kind, number @ ..] = frame;
    (kind, u64::from_le_bytes(number))
}

impl Order {
    pub(super) fn encode(self) -> Frame {
        match self {
            Self::Variables(length) => frame(b'V', u64::try_from(length).unwrap_or(u64::MAX)),
            Self::Believe(until) => {
                frame(b'B', u64::try_from(until.since_zero().as_nanos()).unwrap_or(u64::MAX))
            }
            Self::Lost => frame(b'L', 0),
            Self::Signal(signal) => frame(b'S', small(signal)),
        }
    }

    pub(super) fn decode(frame: Frame) -> Option<Self> {
        match parts(frame) {
            (b'V', length) => usize::try_from(length).ok().map(Self::Variables),
            (b'B', ns) => Some(Self::Believe(Moment::new(Duration::from_nanos(ns)))),
            (b'L', _) => Some(Self::Lost),
            (b'S', signal) => i32::try_from(signal).ok().map(Self::Signal),
            _ => None,
        }
    }
}

impl Report {
    pub(super) fn encode(self) -> Frame {
        match self {
            Self::Started => frame(b's', 0),
            Self::NotStarted(errno) => frame(b'n', small(errno)),
            Self::Stopped(signal) => frame(b'z', small(signal)),
            Self::Ending => frame(b'l', 0),
            Self::Ended(status) => frame(b'e', small(status)),
        }
    }

    pub(super) fn decode(frame: Frame) -> Option<Self> {
        let (kind, number) = parts(frame);
        let number = i32::try_from(number).ok()?;
        match kind {
            b's' => Some(Self::Started),
            b'n' => Some(Self::NotStarted(number)),
            b'z' => Some(Self::Stopped(number)),
            b'l' => Some(Self::Ending),
            b'e' => Some(Self::Ended(number)),
            _ => None,
        }
    }
}

/// One variable of the command's environment; `None` is to be taken out of it.
pub(super) type Variable<'a> = (&'a str, Option<&'a str>);

/// The variables as text: `NAME=VALUE` or `NAME`, each ended by a zero byte, which none of them holds.
pub(super) fn encode_variables<'a>(variables: impl IntoIterator<Item = Variable<'a>>) -> String {
    let texts = variables.into_iter().map(|(name, value)| match value {
        Some(value) => format!("{name}={value}\0"),
        None => format!("{name}\0"),
    });
    texts.collect()
}

pub(super) fn decode_variables(text: &str) -> impl Iterator<Item = Variable<'_>> {
    text.split_terminator('\0').map(|variable| match variable.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (variable, None),
    })
}

/// Cuts what arrives into frames.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
}

impl Inbox {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn next(&mut self) -> Option<Frame> {
        let frame = *self.bytes.first_chunk()?;
        self.bytes.drain(..FRAME);
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_arrives_as_it_was_sent_however_it_is_cut() {
        let sent = [
            Order::Variables(700),
            Order::Believe(Moment::new(Duration::from_nanos(1_234_567_890_123))),
            Order::Lost,
            Order::Signal(15),
            Order::Believe(Moment::new(Duration::from_nanos(u64::MAX))),
        ];
        let bytes: Vec<u8> = sent.iter().flat_map(|order| order.encode()).collect();
        for cut in 1..bytes.len() {
            let mut inbox = Inbox::default();
            let mut got = Vec::new();
            for piece in bytes.chunks(cut) {
                inbox.push(piece);
                while let Some(frame) = inbox.next() {
                    got.push(Order::decode(frame).unwrap());
                }
            }
            assert_eq!(got, sent, "cut at {cut}");
        }
        for report in [
            Report::Started,
            Report::NotStarted(2),
            Report::Stopped(20),
            Report::Ending,
            Report::Ended(0x0f00),
        ] {
            assert_eq!(Report::decode(report.encode()), Some(report));
        }
    }

    #[test]
    fn variables_arrive_as_they_were_given_whatever_they_hold() {
        let given = [("LEASE_NAME", Some("a=b ä\n=")), ("LEASE_SLOT", None), ("LEASE_RERUN", Some(""))];
        let text = encode_variables(given);
        assert_eq!(decode_variables(&text).collect::<Vec<_>>(), given);
        assert_eq!(decode_variables("").count(), 0);
    }

    #[test]
    fn a_frame_of_no_known_kind_is_no_message() {
        assert_eq!(Order::decode([b'?'; FRAME]), None);
        assert_eq!(Report::decode([b'?'; FRAME]), None);
        assert_eq!(Report::decode(frame(b'e', u64::MAX)), None);
    }
}
