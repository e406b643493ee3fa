//! What a test has done at a message.

use std::sync::mpsc;

use super::*;

#[test]
fn a_call_before_a_message_comes_while_the_receiver_has_nothing_of_it() {
    in_each_protocol(|lab, words| {
        for direction in [ToServer, ToClient] {
            let mut ends = lab.login(words);
            lab.proxy.reset();
            let (calling, called) = mpsc::channel();
            let (go_on, wait) = mpsc::channel();
            lab.proxy.call_before(2, direction, move || {
                calling.send(thread::current().name().map(str::to_owned)).unwrap();
                wait.recv_timeout(PATIENCE).unwrap();
            });
            let (first, second) = match direction {
                ToServer => (words.question, words.question),
                ToClient => words.answer.split_at(FIRST_OF_ANSWER),
            };
            ends.pass(direction, first);
            assert!(called.try_recv().is_err(), "called at the first message");
            let forwarded = lab.proxy.log().len();
            ends.send(direction, second);
            assert_eq!(called.recv_timeout(PATIENCE).unwrap().as_deref(), Some("proxy"));
            assert!(ends.has_nothing(direction));
            assert_eq!((lab.proxy.log().len(), lab.proxy.planned()), (forwarded, 1));
            go_on.send(()).unwrap();
            ends.receive(direction, second);
            assert_eq!(lab.proxy.planned(), 0);
            ends.ask(words);
        }
    });
}

#[test]
fn a_call_after_a_message_comes_when_the_receiver_has_it_and_before_the_next() {
    in_each_protocol(|lab, words| {
        let mut ends = lab.login(words);
        let (calling, called) = mpsc::channel();
        let (go_on, wait) = mpsc::channel();
        lab.proxy.call_after(1, ToClient, move || {
            calling.send(()).unwrap();
            wait.recv_timeout(PATIENCE).unwrap();
        });
        ends.pass(ToServer, words.question);
        ends.send(ToClient, words.answer);
        called.recv_timeout(PATIENCE).unwrap();
        let (first, rest) = words.answer.split_at(FIRST_OF_ANSWER);
        ends.receive(ToClient, first);
        assert!(ends.has_nothing(ToClient));
        go_on.send(()).unwrap();
        ends.receive(ToClient, rest);
        assert_eq!(lab.proxy.planned(), 0);
    });
}

#[test]
fn logging_in_is_not_counted_towards_a_call() {
    in_each_protocol(|lab, words| {
        let (calling, called) = mpsc::channel();
        lab.proxy.call_before(1, ToServer, move || calling.send(()).unwrap());
        let mut ends = lab.login(words);
        assert!(called.try_recv().is_err());
        ends.pass(ToServer, words.question);
        called.recv_timeout(PATIENCE).unwrap();
    });
}

#[test]
fn calls_at_one_message_come_in_the_order_planned_and_before_its_cut() {
    in_each_protocol(|lab, words| {
        let (calling, called) = mpsc::channel();
        for n in [1, 2] {
            let calling = calling.clone();
            lab.proxy.call_before(1, ToServer, move || calling.send(n).unwrap());
        }
        lab.proxy.call_after(1, ToServer, move || calling.send(3).unwrap());
        lab.proxy.cut_before(1, ToServer);
        let mut ends = lab.login(words);
        ends.send(ToServer, words.question);
        ends.ends(ToServer);
        ends.ends(ToClient);
        assert_eq!(called.iter().collect::<Vec<_>>(), [1, 2], "the message that was cut was never forwarded");
        assert_eq!((lab.proxy.planned(), lab.proxy.trips()), (1, 0));
    });
}

#[test]
fn a_call_may_use_the_proxy() {
    in_each_protocol(|lab, words| {
        let mut ends = lab.login(words);
        let proxy = Arc::clone(&lab.proxy);
        lab.proxy.call_before(1, ToServer, move || {
            assert_eq!((proxy.trips(), proxy.planned()), (0, 1));
            proxy.cut();
        });
        ends.send(ToServer, words.question);
        ends.ends(ToServer);
        ends.ends(ToClient);
        assert_eq!((lab.proxy.planned(), lab.proxy.trips()), (0, 0));
    });
}

#[test]
fn a_call_that_panics_ends_its_connection_and_stays_planned() {
    in_each_protocol(|lab, words| {
        let mut ends = lab.login(words);
        lab.proxy.call_before(1, ToServer, || panic!("of the test's own making"));
        ends.send(ToServer, words.question);
        ends.ends(ToServer);
        assert_eq!(lab.proxy.planned(), 1);
        lab.login(words).ask(words);
    });
}

#[test]
#[should_panic(expected = "counted from 1")]
fn nothing_can_be_called_at_the_message_before_the_first() {
    Lab::new(Wire::MySql).proxy.call_before(0, ToServer, || {});
}

#[test]
fn a_call_that_holds_its_direction_holds_its_message() {
    in_each_protocol(|lab, words| {
        let mut ends = lab.login(words);
        let proxy = Arc::clone(&lab.proxy);
        lab.proxy.call_before(1, ToServer, move || proxy.hold(ToServer));
        ends.send(ToServer, words.question);
        until("called", || lab.proxy.planned() == 0);
        // The proxy's thread has been at something else since.
        lab.connect();
        assert!(ends.has_nothing(ToServer));
        lab.proxy.release(ToServer);
        ends.receive(ToServer, words.question);
        ends.pass(ToClient, words.answer);
    });
}

#[test]
fn a_message_whose_connection_was_cut_is_not_counted_towards_a_plan() {
    // Which of two things that have come is seen first is left to chance.
    const ROUNDS: usize = 20;
    for _ in 0..ROUNDS {
        in_each_protocol(|lab, words| {
            let (mut one, mut other) = (lab.login(words), lab.login(words));
            lab.proxy.hold(ToServer);
            other.send(ToServer, words.question);
            let proxy = Arc::clone(&lab.proxy);
            lab.proxy.call_before(1, ToClient, move || {
                proxy.cut();
                proxy.release(ToServer);
            });
            lab.proxy.call_before(1, ToServer, || {});
            one.send(ToClient, words.answer);
            other.ends(ToServer);
            assert_eq!(lab.proxy.planned(), 1, "called at a message that was never forwarded");
        });
    }
}
