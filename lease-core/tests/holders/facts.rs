//! The facts about a process as text: what was written reads back, and anything else is no facts.

use lease_core::store::IDENTITY_MAX_BYTES;
use lease_core::{Instance, NotProcessFacts, ProcessFacts};

use super::abandoned::facts;

const TEXT: &str =
    "boot=6f0c8d2e-6c1f-4c43-9d0c-1f6f1f3c8a11 pidns=4026531836 timens=4026531834 pid=4711 start=123456";

fn parse(text: &str) -> Result<ProcessFacts, NotProcessFacts> {
    text.parse()
}

#[test]
fn facts_read_back_as_they_were_written() {
    assert_eq!(facts().to_string(), TEXT);
    let extremes = ProcessFacts {
        boot: "b".to_owned(),
        pid_namespace: u64::MAX,
        time_namespace: 0,
        pid: i32::MAX,
        start: u64::MAX,
        group: Some(i32::MAX),
    };
    let grouped = ProcessFacts { group: Some(2), ..facts() };
    for facts in [facts(), grouped, extremes] {
        assert_eq!(parse(&facts.to_string()), Ok(facts));
    }
}

#[test]
fn facts_that_ask_for_something_else_are_none() {
    let other = |change: fn(&mut ProcessFacts)| {
        let mut facts = facts();
        change(&mut facts);
        parse(&facts.to_string())
    };
    assert!(other(|_| {}).is_ok());
    for change in [
        (|facts| facts.pid = 0) as fn(&mut ProcessFacts),
        |facts| facts.pid = -1,
        |facts| facts.pid = i32::MIN,
        |facts| facts.group = Some(0),
        |facts| facts.group = Some(1),
        |facts| facts.group = Some(-4_711),
        |facts| facts.boot = String::new(),
        |facts| facts.boot = "two words".to_owned(),
        |facts| facts.boot = "ä".to_owned(),
        |facts| facts.boot = "b".repeat(200),
    ] {
        assert_eq!(other(change), Err(NotProcessFacts));
    }
}

#[test]
fn texts_that_were_damaged_are_no_facts() {
    let parts: Vec<&str> = TEXT.split(' ').collect();
    for n in 0..parts.len() {
        let mut missing = parts.clone();
        missing.remove(n);
        assert!(parse(&missing.join(" ")).is_err(), "without {}", parts[n]);
        let mut doubled = parts.clone();
        doubled.insert(n, parts[n]);
        assert!(parse(&doubled.join(" ")).is_err(), "{} twice", parts[n]);
        let mut swapped = parts.clone();
        swapped.swap(n, (n + 1) % parts.len());
        assert!(parse(&swapped.join(" ")).is_err(), "{} elsewhere", parts[n]);
    }
    for text in ["", " ", "boot=", "nonsense", &TEXT.to_uppercase(), &"x".repeat(1 << 20)] {
        assert!(parse(text).is_err(), "{text:.40}");
    }
    for end in
        [" ", " group=", " group=x", " group=+5", " group=05", " group=5 group=5", " more=5", "\n", "0 "]
    {
        assert!(parse(&format!("{TEXT}{end}")).is_err(), "with {end:?}");
    }
    assert!(parse(&TEXT.replace("4711", "99999999999")).is_err());
    assert!(parse(&TEXT.replace("123456", "18446744073709551616")).is_err());
}

/// Every text that differs in one byte is refused, or is exactly what other facts write.
#[test]
fn no_text_is_read_as_facts_that_would_be_written_otherwise() {
    let text = format!("{TEXT} group=815");
    for at in 0..text.len() {
        for byte in
            [None, Some(b'0'), Some(b'9'), Some(b' '), Some(b'='), Some(b'-'), Some(b'+'), Some(b'\t')]
        {
            for kept in [0, 1] {
                let mut damaged = text.clone().into_bytes();
                damaged.splice(at..at + kept, byte);
                let damaged = String::from_utf8(damaged).unwrap();
                if let Ok(facts) = parse(&damaged) {
                    assert_eq!(facts.to_string(), damaged);
                }
            }
        }
    }
}

#[test]
fn facts_that_fill_their_column_may_have_been_cut_and_are_none() {
    // Long enough that the group is cut off, and nothing else.
    let without_group = facts().to_string().len();
    let boot = "b".repeat(facts().boot.len() + IDENTITY_MAX_BYTES - without_group);
    let long = ProcessFacts { boot, group: Some(815), ..facts() };
    let column = Instance::named("x").process(Some(&long)).process_facts().to_string();
    assert_eq!(column.len(), IDENTITY_MAX_BYTES);
    assert!(long.to_string().starts_with(&format!("{column} group=")));
    assert!(parse(&column).is_err());
}

#[test]
fn an_instance_records_the_facts_of_its_process() {
    let instance = Instance::named("x").process(Some(&facts()));
    assert_eq!(instance.process_facts().as_str(), TEXT);
    assert_eq!(instance.process(None).process_facts().as_str(), "");
    let current = Instance::current().process_facts().to_string();
    assert_eq!(parse(&current).ok(), ProcessFacts::current());
}
