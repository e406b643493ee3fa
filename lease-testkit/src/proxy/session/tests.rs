use super::super::Direction::{ToClient, ToServer};
use super::*;

/// A PostgreSQL message with a type.
fn typed(letter: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    [&[letter][..], &length, body].concat()
}

/// A PostgreSQL message without one.
fn start(code: u32) -> Vec<u8> {
    let body = [&code.to_be_bytes()[..], b"user\0me\0\0"].concat();
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    [&length[..], &body].concat()
}

/// A MySQL packet.
fn packet(sequence: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_le_bytes();
    [&length[..3], &[sequence], body].concat()
}

/// What a client of these abilities answers to the greeting.
fn handshake_response(flags: u32) -> Vec<u8> {
    packet(1, &[&flags.to_le_bytes()[..], &[0; 28], b"me\0"].concat())
}

/// All messages in `bytes`, which come at once.
fn all(session: &mut Session, direction: Direction, bytes: &[u8]) -> Vec<Message> {
    let (mut messages, mut done) = (Vec::new(), 0);
    while let Some(message) = session.next(direction, &bytes[done..]) {
        done += message.bytes;
        messages.push(message);
    }
    assert_eq!(done, bytes.len(), "what was given were whole messages: {messages:?}");
    messages
}

fn kinds(session: &mut Session, direction: Direction, bytes: &[u8]) -> Vec<&'static str> {
    all(session, direction, bytes).iter().map(|message| message.kind).collect()
}

/// How many round trips these begin.
fn trips(session: &mut Session, bytes: &[u8]) -> usize {
    all(session, ToServer, bytes).iter().filter(|message| message.begins_trip).count()
}

fn postgres() -> Session {
    let mut session = Session::new(Wire::Postgres);
    assert_eq!(kinds(&mut session, ToServer, &start(196_608)), ["StartupMessage"]);
    let login = [typed(b'R', &[0; 4]), typed(b'S', b"a\0b\0"), typed(b'Z', b"I")].concat();
    let messages = all(&mut session, ToClient, &login);
    assert!(messages.iter().all(|message| message.login), "{messages:?}");
    session
}

fn mysql() -> Session {
    let mut session = Session::new(Wire::MySql);
    assert_eq!(kinds(&mut session, ToClient, &packet(0, b"\x0a8.4")), ["Greeting"]);
    assert_eq!(kinds(&mut session, ToServer, &handshake_response(0x200)), ["HandshakeResponse"]);
    let asks = [packet(2, b"\xfeplugin\0nonce"), packet(4, b"\x01\x03")].concat();
    assert_eq!(kinds(&mut session, ToClient, &asks), ["AuthenticationRequest"; 2]);
    assert_eq!(kinds(&mut session, ToServer, &packet(3, b"\x00secret")), ["Authentication"]);
    let last = all(&mut session, ToClient, &packet(5, b"\x00\0\0"));
    assert_eq!(last, [Message { bytes: 7, kind: "Ok", login: true, begins_trip: false }]);
    session
}

const READY: [u8; 6] = [b'Z', 0, 0, 0, 5, b'I'];

#[test]
fn a_message_that_comes_byte_by_byte_is_one_and_the_same() {
    for (mut session, message) in
        [(postgres(), typed(b'Q', b"SELECT 1\0")), (mysql(), packet(0, b"\x03SELECT 1"))]
    {
        for end in 0..message.len() {
            assert_eq!(session.next(ToServer, &message[..end]), None);
        }
        let whole = Message { bytes: message.len(), kind: "Query", login: false, begins_trip: true };
        assert_eq!(session.next(ToServer, &message), Some(whole));
    }
}

#[test]
fn the_first_messages_of_postgres_may_come_byte_by_byte_too() {
    let (mut session, message) = (Session::new(Wire::Postgres), start(196_608));
    for end in 0..message.len() {
        assert_eq!(session.next(ToServer, &message[..end]), None);
    }
    assert_eq!(session.next(ToServer, &message).unwrap().bytes, message.len());
}

#[test]
fn a_mysql_message_goes_on_over_packets_of_the_greatest_length() {
    let mut session = mysql();
    for rest in [vec![], vec![b' '; 9]] {
        let head = [b"\x03".to_vec(), vec![b' '; 0xff_fffe]].concat();
        let message = [packet(0, &head), packet(1, &rest)].concat();
        assert_eq!(session.next(ToServer, &message[..4 + 0xff_ffff]), None);
        assert_eq!(session.next(ToServer, &message[..message.len() - 1]), None);
        let next = packet(0, b"\x0e");
        assert_eq!(kinds(&mut session, ToServer, &[message, next].concat()), ["Query", "Ping"]);
    }
}

#[test]
fn an_extended_query_is_one_round_trip_and_so_is_all_that_is_sent_before_its_end() {
    let mut session = postgres();
    let extended =
        [typed(b'P', b"\0\0\0\0"), typed(b'B', b"\0\0"), typed(b'E', b"\0\0\0\0\0"), typed(b'S', b"")];
    assert_eq!(trips(&mut session, &extended.concat()), 1);
    assert_eq!(trips(&mut session, &typed(b'Q', b"COMMIT\0")), 0);
    all(&mut session, ToClient, &[typed(b'1', b""), READY.to_vec()].concat());
    assert_eq!(trips(&mut session, &typed(b'Q', b"SELECT 1\0")), 0, "one answer is still owed");
    all(&mut session, ToClient, &[READY, READY].concat());
    assert_eq!(trips(&mut session, &typed(b'Q', b"SELECT 1\0")), 1);
}

#[test]
fn messages_before_their_sync_are_one_round_trip_though_the_server_answers_meanwhile() {
    let mut session = postgres();
    assert_eq!(trips(&mut session, &[typed(b'P', b"\0\0\0\0"), typed(b'H', b"")].concat()), 1);
    all(&mut session, ToClient, &typed(b'1', b""));
    assert_eq!(trips(&mut session, &typed(b'S', b"")), 0);
}

#[test]
fn a_simple_query_ends_what_was_sent_before_it_without_a_sync() {
    for query in [typed(b'Q', b"SELECT 1\0"), typed(b'F', b"\0\0\0\0")] {
        let mut session = postgres();
        assert_eq!(trips(&mut session, &[typed(b'P', b"\0\0\0\0"), query.clone()].concat()), 1);
        all(&mut session, ToClient, &[typed(b'1', b""), READY.to_vec()].concat());
        assert_eq!(trips(&mut session, &query), 1);
    }
}

#[test]
fn a_copy_is_one_round_trip_and_leaves_nothing_behind() {
    let mut session = postgres();
    assert_eq!(trips(&mut session, &typed(b'Q', b"COPY a FROM STDIN\0")), 1);
    all(&mut session, ToClient, &typed(b'G', b"\0\0\0"));
    assert_eq!(trips(&mut session, &[typed(b'd', b"1\n"), typed(b'c', b"")].concat()), 0);
    all(&mut session, ToClient, &[typed(b'C', b"COPY 1\0"), READY.to_vec()].concat());
    assert_eq!(trips(&mut session, &typed(b'Q', b"SELECT 1\0")), 1);
}

#[test]
fn words_of_the_server_that_nobody_asked_for_change_no_count() {
    let mut session = postgres();
    all(&mut session, ToClient, &typed(b'A', b"\0\0\0\x01a\0\0"));
    assert_eq!(trips(&mut session, &typed(b'Q', b"SELECT 1\0")), 1);
    all(&mut session, ToClient, &typed(b'N', b"\0"));
    assert_eq!(trips(&mut session, &typed(b'Q', b"SELECT 1\0")), 0);
}

#[test]
fn a_mysql_command_is_one_round_trip_however_long_its_answer() {
    let mut session = mysql();
    assert_eq!(trips(&mut session, &packet(0, b"\x16SELECT ?")), 1);
    let answer = [packet(1, b"\x00\x01\0\0\0"), packet(2, b"\x03def"), packet(3, b"\xfe\0\0\0\0")];
    assert_eq!(kinds(&mut session, ToClient, &answer.concat()), ["Ok", "Part", "End"]);
    let execute = packet(0, b"\x17\x01\0\0\0");
    assert_eq!(trips(&mut session, &execute.repeat(2)), 1, "the second goes before any answer");
    let answer =
        [packet(1, b"\x01"), packet(2, b"\x03def"), packet(3, b"\x00\0"), packet(4, b"\xff\x15\x04")];
    assert_eq!(kinds(&mut session, ToClient, &answer.concat()), ["Columns", "Part", "Part", "Error"]);
}

#[test]
fn what_asks_for_no_answer_is_no_round_trip() {
    assert_eq!(trips(&mut postgres(), &typed(b'X', b"")), 0);
    let mut session = mysql();
    for (command, count) in [(&b"\x19\x01\0\0\0"[..], 0), (b"\x03SELECT 1", 1), (b"\x19\x01\0\0\0", 0)] {
        assert_eq!(trips(&mut session, &packet(0, command)), count, "{command:?}");
    }
    all(&mut session, ToClient, &packet(1, b"\x00\0\0"));
    assert_eq!(trips(&mut session, &packet(0, b"\x01")), 0);
}

#[test]
fn a_refused_encryption_is_followed_by_a_login_in_plain() {
    let mut session = Session::new(Wire::Postgres);
    for code in [80_877_104, 80_877_103] {
        all(&mut session, ToServer, &start(code));
        assert_eq!(kinds(&mut session, ToClient, b"N"), ["NotEncrypted"]);
    }
    assert_eq!(kinds(&mut session, ToServer, &start(196_608)), ["StartupMessage"]);
    assert_eq!(kinds(&mut session, ToClient, &READY), ["ReadyForQuery"]);
    assert_eq!(trips(&mut session, &typed(b'Q', b"SELECT 1\0")), 1);
}

#[test]
fn encrypted_or_compressed_bytes_are_passed_on_as_they_come() {
    let mut asked = Session::new(Wire::Postgres);
    all(&mut asked, ToServer, &start(80_877_103));
    assert_eq!(kinds(&mut asked, ToClient, b"S"), ["Encrypted"]);
    let unasked = Session::new(Wire::Postgres);
    let encrypted = [1 << 11, 1 << 5, 1 << 26].map(|flag| {
        let mut session = Session::new(Wire::MySql);
        all(&mut session, ToClient, &packet(0, b"\x0a8.4"));
        all(&mut session, ToServer, &handshake_response(0x200 | flag));
        session
    });
    for mut session in encrypted.into_iter().chain([asked, unasked]) {
        for direction in [ToServer, ToClient] {
            let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc";
            let messages = all(&mut session, direction, hello);
            assert_eq!(messages, [Message { bytes: 9, kind: "bytes", login: true, begins_trip: false }]);
        }
    }
}

#[test]
fn lengths_that_cannot_be_are_passed_on_as_they_come() {
    for length in [[0; 4], [0, 0, 0, 3]] {
        let bytes = [&b"Q"[..], &length, b"rest"].concat();
        assert_eq!(kinds(&mut postgres(), ToServer, &bytes), ["bytes"]);
        assert_eq!(kinds(&mut postgres(), ToClient, &bytes), ["bytes"]);
    }
    assert_eq!(kinds(&mut Session::new(Wire::Postgres), ToServer, &[0, 0, 0, 7, 0, 0, 0, 0]), ["bytes"]);
}
