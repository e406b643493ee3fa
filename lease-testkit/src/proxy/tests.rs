mod calls;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Instant;

use super::Direction::{ToClient, ToServer};
use super::*;

/// However slow the machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that a test speaks for, behind a proxy.
struct Lab {
    proxy: Arc<Proxy>,
    server: TcpListener,
}

/// The two ends of a connection through the proxy.
struct Ends {
    client: TcpStream,
    server: TcpStream,
}

/// What the two ends say to log in, and to ask and answer, in one protocol.
struct Words {
    login: &'static [(Direction, &'static [u8])],
    question: &'static [u8],
    answer: &'static [u8],
}

const POSTGRES: Words = Words {
    login: &[(ToServer, b"\0\0\0\x09\0\x03\0\0\0"), (ToClient, b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I")],
    question: b"Q\0\0\0\x06;\0",
    answer: b"I\0\0\0\x04Z\0\0\0\x05I",
};

const MYSQL: Words = Words {
    login: &[
        (ToClient, b"\x02\0\0\0\x0a8"),
        (ToServer, b"\x06\0\0\x01\0\x02\0\0me"),
        (ToClient, b"\x03\0\0\x02\0\0\0"),
    ],
    question: b"\x02\0\0\0\x03;",
    answer: b"\x01\0\0\x01\x01\x01\0\0\x02\xfe",
};

/// Where the first message of an answer ends, in both.
const FIRST_OF_ANSWER: usize = 5;

impl Lab {
    fn new(wire: Wire) -> Self {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy::start(server.local_addr().unwrap(), wire).unwrap();
        Self { proxy: Arc::new(proxy), server }
    }

    fn connect(&self) -> Ends {
        let client = TcpStream::connect(self.proxy.addr()).unwrap();
        let (server, _) = self.server.accept().unwrap();
        for end in [&client, &server] {
            end.set_read_timeout(Some(PATIENCE)).unwrap();
        }
        Ends { client, server }
    }

    /// A connection that is logged in.
    fn login(&self, words: &Words) -> Ends {
        let mut ends = self.connect();
        for (direction, bytes) in words.login {
            ends.pass(*direction, bytes);
        }
        ends
    }
}

impl Ends {
    fn send(&mut self, direction: Direction, bytes: &[u8]) {
        let from = if direction == ToServer { &mut self.client } else { &mut self.server };
        from.write_all(bytes).unwrap();
    }

    fn receive(&mut self, direction: Direction, bytes: &[u8]) {
        let to = if direction == ToServer { &mut self.server } else { &mut self.client };
        let mut come = vec![0; bytes.len()];
        to.read_exact(&mut come).unwrap();
        assert_eq!(come, bytes);
    }

    fn pass(&mut self, direction: Direction, bytes: &[u8]) {
        self.send(direction, bytes);
        self.receive(direction, bytes);
    }

    fn ask(&mut self, words: &Words) {
        self.pass(ToServer, words.question);
        self.pass(ToClient, words.answer);
    }

    /// Holds the receiver of this direction to get nothing more than the end.
    fn ends(&mut self, direction: Direction) {
        let to = if direction == ToServer { &mut self.server } else { &mut self.client };
        let mut rest = Vec::new();
        match to.read_to_end(&mut rest) {
            Ok(_) => assert_eq!(rest, b""),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
        }
    }

    fn has_nothing(&mut self, direction: Direction) -> bool {
        let to = if direction == ToServer { &mut self.server } else { &mut self.client };
        to.set_nonblocking(true).unwrap();
        let peeked = to.peek(&mut [0]);
        to.set_nonblocking(false).unwrap();
        peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// Waits until the proxy has noticed.
fn until(what: &str, mut so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !so() {
        assert!(since.elapsed() < PATIENCE, "never {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn in_each_protocol(test: impl Fn(&Lab, &Words)) {
    test(&Lab::new(Wire::Postgres), &POSTGRES);
    test(&Lab::new(Wire::MySql), &MYSQL);
}

#[test]
fn round_trips_are_counted_over_all_connections_without_their_logins() {
    in_each_protocol(|lab, words| {
        let (mut one, mut other) = (lab.login(words), lab.login(words));
        assert_eq!((lab.proxy.trips(), lab.proxy.connections(), lab.proxy.open()), (0, 2, 2));
        one.ask(words);
        other.ask(words);
        one.ask(words);
        assert_eq!(lab.proxy.trips(), 3);
        lab.proxy.reset();
        one.ask(words);
        drop(other);
        assert_eq!((lab.proxy.trips(), lab.proxy.connections()), (1, 0));
        until("one connection less", || lab.proxy.open() == 1);
    });
}

#[test]
fn the_log_names_the_messages_in_their_order() {
    let lab = Lab::new(Wire::Postgres);
    let mut ends = lab.login(&POSTGRES);
    lab.proxy.reset();
    ends.ask(&POSTGRES);
    let log: Vec<String> = lab.proxy.log().iter().map(ToString::to_string).collect();
    assert_eq!(log, ["#1 -> Query", "#1 <- EmptyQueryResponse", "#1 <- ReadyForQuery"]);
}

#[test]
fn a_message_in_pieces_and_messages_in_one_piece_come_through_as_they_are() {
    in_each_protocol(|lab, words| {
        let mut ends = lab.login(words);
        for byte in words.question {
            ends.send(ToServer, &[*byte]);
        }
        ends.receive(ToServer, words.question);
        let answers = words.answer.repeat(1000);
        ends.pass(ToClient, &answers);
        assert_eq!(lab.proxy.trips(), 1);
        assert_eq!(lab.proxy.log().len(), 1000, "the log forgets the oldest");
    });
}

#[test]
fn a_long_message_comes_through_whole() {
    let lab = Lab::new(Wire::MySql);
    let mut ends = lab.login(&MYSQL);
    let long = [&b"\xff\xff\xff\0\x03"[..], &vec![b' '; 0xff_fffe], b"\x01\0\0\x01;"].concat();
    let (mut client, sent) = (ends.client.try_clone().unwrap(), long.clone());
    let sender = thread::spawn(move || client.write_all(&sent).unwrap());
    ends.receive(ToServer, &long);
    sender.join().unwrap();
    assert_eq!(lab.proxy.log().last().unwrap().to_string(), "#1 -> Query");
}

#[test]
fn one_end_closing_is_told_to_the_other_after_all_that_was_sent() {
    in_each_protocol(|lab, words| {
        let mut ends = lab.login(words);
        ends.send(ToServer, words.question);
        ends.client.shutdown(net::Shutdown::Write).unwrap();
        ends.receive(ToServer, words.question);
        ends.ends(ToServer);
        ends.pass(ToClient, words.answer);
        ends.server.shutdown(net::Shutdown::Write).unwrap();
        ends.ends(ToClient);
        until("closed", || lab.proxy.open() == 0);
    });
}

#[test]
fn a_cut_closes_all_connections_and_new_ones_can_be_made() {
    in_each_protocol(|lab, words| {
        let mut cut = [lab.login(words), lab.login(words)];
        lab.proxy.cut();
        for ends in &mut cut {
            ends.ends(ToClient);
            ends.ends(ToServer);
        }
        until("closed", || lab.proxy.open() == 0);
        lab.login(words).ask(words);
    });
}

#[test]
fn a_cut_before_a_question_keeps_it_from_the_server() {
    in_each_protocol(|lab, words| {
        lab.proxy.cut_before(2, ToServer);
        let mut ends = lab.login(words);
        ends.ask(words);
        ends.send(ToServer, words.question);
        ends.ends(ToServer);
        ends.ends(ToClient);
        assert_eq!(lab.proxy.trips(), 1);
        lab.login(words).ask(words);
    });
}

#[test]
fn a_cut_after_a_question_keeps_the_answer_from_the_client() {
    in_each_protocol(|lab, words| {
        lab.proxy.cut_after(1, ToServer);
        let mut ends = lab.login(words);
        ends.send(ToServer, words.question);
        ends.receive(ToServer, words.question);
        ends.send(ToClient, words.answer);
        ends.ends(ToServer);
        ends.ends(ToClient);
        assert_eq!(lab.proxy.trips(), 1);
    });
}

#[test]
fn a_server_reads_all_that_was_forwarded_to_it_though_its_answer_is_cut_off() {
    in_each_protocol(|lab, words| {
        let mut ends = lab.login(words);
        lab.proxy.hold(ToClient);
        // More than the proxy reads at a time: at the cut some of it is still on its way.
        let (mut server, answers) = (ends.server.try_clone().unwrap(), words.answer.repeat(20_000));
        let sender = thread::spawn(move || server.write_all(&answers));
        ends.send(ToServer, words.question);
        until("asked", || lab.proxy.trips() == 1);
        lab.proxy.cut();
        ends.receive(ToServer, words.question);
        assert_eq!(ends.server.read(&mut [0]).unwrap(), 0);
        sender.join().unwrap().unwrap();
    });
}

#[test]
fn an_answer_can_be_cut_at_each_of_its_messages() {
    in_each_protocol(|lab, words| {
        for (n, forwarded) in [(1, &[][..]), (2, &words.answer[..FIRST_OF_ANSWER])] {
            let mut ends = lab.login(words);
            lab.proxy.cut_before(n, ToClient);
            ends.pass(ToServer, words.question);
            ends.send(ToClient, words.answer);
            ends.receive(ToClient, forwarded);
            ends.ends(ToClient);
            ends.ends(ToServer);
        }
        let mut ends = lab.login(words);
        lab.proxy.cut_after(2, ToClient);
        ends.ask(words);
        ends.ends(ToClient);
    });
}

#[test]
fn a_planned_cut_closes_the_connection_that_comes_to_it_and_no_other() {
    in_each_protocol(|lab, words| {
        let (mut one, mut other) = (lab.login(words), lab.login(words));
        lab.proxy.cut_after(2, ToServer);
        one.ask(words);
        other.pass(ToServer, words.question);
        other.ends(ToServer);
        one.ask(words);
    });
}

#[test]
#[should_panic(expected = "counted from 1")]
fn the_message_before_the_first_cannot_be_cut() {
    Lab::new(Wire::MySql).proxy.cut_before(0, ToServer);
}

#[test]
fn a_planned_cut_is_counted_until_it_has_been_made() {
    in_each_protocol(|lab, words| {
        assert_eq!(lab.proxy.planned(), 0);
        lab.proxy.cut_before(2, ToServer);
        lab.proxy.cut_after(9, ToClient);
        let mut ends = lab.login(words);
        ends.ask(words);
        assert_eq!(lab.proxy.planned(), 2);
        ends.send(ToServer, words.question);
        ends.ends(ToServer);
        assert_eq!(lab.proxy.planned(), 1);
        lab.proxy.reset();
        assert_eq!(lab.proxy.planned(), 1, "faults stay");
    });
}

#[test]
fn nothing_is_said_of_trips_and_cuts_once_a_connection_is_no_longer_understood() {
    type Act<'a> = &'a dyn Fn(&Lab);
    let encrypted = |lab: &Lab| {
        let mut ends = lab.connect();
        ends.pass(ToServer, b"\0\0\0\x08\x04\xd2\x16\x2f");
        ends.pass(ToClient, b"S");
    };
    let not_understood = |lab: &Lab| lab.connect().pass(ToServer, b"\x16\x03\x01\x02\0\x01\0\x01\xfc");
    let compressed = |lab: &Lab| {
        let mut ends = lab.connect();
        ends.pass(ToClient, b"\x02\0\0\0\x0a8");
        ends.pass(ToServer, b"\x06\0\0\x01\x20\x02\0\0me");
    };
    let opaque: [(Wire, Act<'_>, &str); 3] = [
        (Wire::Postgres, &encrypted, "sslmode=disable"),
        (Wire::Postgres, &not_understood, "no message"),
        (Wire::MySql, &compressed, "compression"),
    ];
    for (wire, go_opaque, why) in opaque {
        let lab = Lab::new(wire);
        go_opaque(&lab);
        let asked: [&dyn Fn(&Proxy); 5] = [
            &|proxy| assert_eq!(proxy.trips(), 0),
            &|proxy| proxy.cut_before(1, ToServer),
            &|proxy| proxy.cut_after(1, ToServer),
            &|proxy| proxy.call_before(1, ToServer, || {}),
            &|proxy| proxy.call_after(1, ToServer, || {}),
        ];
        for ask in asked {
            let panic = catch_unwind(AssertUnwindSafe(|| ask(&lab.proxy))).unwrap_err();
            let said = panic.downcast::<String>().unwrap();
            assert!(said.contains(why) && said.contains("#1"), "{said}");
        }
        assert_eq!((lab.proxy.planned(), lab.proxy.connections()), (0, 1));
        assert!(!lab.proxy.log().is_empty());
    }
}

#[test]
fn a_request_to_cancel_is_understood() {
    let lab = Lab::new(Wire::Postgres);
    lab.connect().pass(ToServer, b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x01\0\0\0\x02");
    assert_eq!(lab.proxy.trips(), 0);
}

#[test]
fn a_direction_that_is_held_lets_nothing_through_until_it_is_released_and_loses_nothing() {
    in_each_protocol(|lab, words| {
        let mut ends = lab.login(words);
        lab.proxy.reset();
        lab.proxy.hold(ToServer);
        ends.send(ToServer, words.question);
        // The other way is open, and tells that the proxy has had time.
        ends.pass(ToClient, words.answer);
        assert!(ends.has_nothing(ToServer));
        assert_eq!(lab.proxy.trips(), 0);
        assert!(lab.proxy.log().iter().all(|passed| passed.direction == ToClient));
        lab.proxy.release(ToServer);
        ends.receive(ToServer, words.question);
        assert_eq!(lab.proxy.trips(), 1);

        lab.proxy.hold(ToClient);
        ends.send(ToClient, words.answer);
        ends.pass(ToServer, words.question);
        assert!(ends.has_nothing(ToClient));
        lab.proxy.release(ToClient);
        ends.receive(ToClient, words.answer);
    });
}

#[test]
fn a_server_behind_a_partition_does_not_learn_that_its_client_has_gone() {
    in_each_protocol(|lab, words| {
        let mut ends = lab.login(words);
        lab.proxy.hold(ToServer);
        // With an answer unread, the client's end is a reset; what comes then is an error to forward.
        ends.send(ToClient, words.answer);
        until("answered", || !ends.has_nothing(ToClient));
        ends.client = TcpStream::connect(lab.server.local_addr().unwrap()).unwrap();
        let seen = lab.proxy.log().len();
        ends.send(ToClient, words.answer);
        until("forwarded", || lab.proxy.log().len() > seen);
        assert!(ends.has_nothing(ToServer));
        assert_eq!(lab.proxy.open(), 1);
        lab.proxy.release(ToServer);
        ends.ends(ToServer);
    });
}

#[test]
fn a_cut_goes_through_a_hold() {
    in_each_protocol(|lab, words| {
        let mut ends = lab.login(words);
        lab.proxy.hold(ToServer);
        lab.proxy.hold(ToClient);
        lab.proxy.cut();
        ends.ends(ToServer);
        ends.ends(ToClient);
    });
}

#[test]
fn a_delay_is_added_each_way() {
    in_each_protocol(|lab, words| {
        let mut ends = lab.login(words);
        let delay = Duration::from_millis(50);
        lab.proxy.delay(delay);
        let since = Instant::now();
        ends.ask(words);
        assert!(since.elapsed() >= delay * 2, "{:?}", since.elapsed());
    });
}

#[test]
fn refused_clients_are_closed_at_once_while_open_connections_stay() {
    in_each_protocol(|lab, words| {
        let mut ends = lab.login(words);
        lab.proxy.refuse();
        let mut refused = TcpStream::connect(lab.proxy.addr()).unwrap();
        refused.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(refused.read(&mut [0]).unwrap(), 0);
        ends.ask(words);
        assert_eq!(lab.proxy.connections(), 1);
        lab.proxy.accept();
        lab.login(words).ask(words);
    });
}

#[test]
fn a_client_of_a_server_that_is_not_there_is_closed() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let proxy = Proxy::start(nobody, Wire::Postgres).unwrap();
    let mut client = TcpStream::connect(proxy.addr()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_dropped_proxy_closes_its_port_and_its_connections() {
    let lab = Lab::new(Wire::MySql);
    let mut ends = lab.login(&MYSQL);
    let Lab { proxy, server: _server } = lab;
    let addr = proxy.addr();
    drop(proxy);
    ends.ends(ToClient);
    ends.ends(ToServer);
    assert!(TcpStream::connect(addr).is_err());
}
