//! A watcher in a process of its own, whose connections are cut while names are handed over a thousand times. The same for
//! every server.

use std::env;
use std::io::{self, BufRead, BufReader};
use std::process::{self, Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lease_core::{Claimed, Instance, Leases, Standing, TimingParts, Timings, Watched};

use crate::{open, through};

/// Where the watcher finds the leases.
const PLACE: &str = "LEASE_TEST_WATCHER_PLACE";

/// In each of so many rounds the watcher is cut off once, and each of so many names is handed over so often.
const ROUNDS: i64 = 10;
const NAMES: usize = 10;
const HAND_OVERS: i64 = 10;

/// So many terms each name has in the end.
const TERMS: i64 = ROUNDS * HAND_OVERS;

const LONG: Duration = Duration::from_secs(120);

/// What the watcher was told.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    name: usize,
    term: i64,
    is_free: bool,
    holder: String,
}

pub(crate) async fn a_watcher_that_is_cut_off_sees_no_term_out_of_order_none_invented_and_the_last_state(
    place: &str,
) {
    let (proxy, cut_off) = through(place);
    let watcher = Watcher::start(&cut_off);
    let holders = ["even", "odd"].map(|name| {
        let (timings, instance) = (unhurried(), Instance::named(name));
        (name, Leases::builder_shared(open(place)).timings(timings).instance(instance).build().unwrap())
    });
    let of_term = |term: i64| &holders[usize::from(term % 2 == 1)];
    let hand_over = async |name: usize, round: i64| {
        for term in (round * HAND_OVERS..(round + 1) * HAND_OVERS).map(|before| before + 1) {
            match of_term(term).1.claim(format!("name {name}")).await.unwrap() {
                Claimed::Granted(lease) => {
                    assert_eq!(lease.term().get(), term);
                    lease.release().await.unwrap();
                }
                Claimed::Held(refusal) => panic!("{refusal:?}"),
            }
        }
    };
    for round in 0..ROUNDS {
        let before = watcher.told().len();
        let cut_off = async {
            watcher.comes_to(|told| told.len() > before).await;
            assert!(proxy.open() > 0, "nothing to cut");
            proxy.cut();
        };
        tokio::join!(cut_off, join_all((0..NAMES).map(|name| hand_over(name, round))));
    }
    let last = |told: &[Told], name| told.iter().rfind(|told| told.name == name).cloned();
    let is_last = |told: Option<Told>| told.is_some_and(|told| told.term == TERMS && told.is_free);
    watcher.comes_to(|told| (0..NAMES).all(|name| is_last(last(told, name)))).await;

    for name in 0..NAMES {
        let told: Vec<Told> = watcher.told().into_iter().filter(|told| told.name == name).collect();
        for Told { term, holder, .. } in &told {
            assert!((1..=TERMS).contains(term), "{name}: term {term} was never granted");
            assert_eq!(holder, of_term(*term).0, "{name}: term {term} was another's");
        }
        let is_ordered = told.is_sorted_by_key(|told| (told.term, told.is_free));
        assert!(is_ordered, "{name}: {told:?}");
    }
    for (_, leases) in &holders {
        leases.close().await;
    }
}

/// Elsewhere than in its process it does nothing.
pub(crate) async fn what_the_watcher_does() {
    let Ok(place) = env::var(PLACE) else { return };
    // Not longer than the process that started it.
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        process::exit(0);
    });
    let parts = TimingParts { renew: Duration::from_millis(50), ..unhurried().parts() };
    let leases = Leases::builder_shared(open(&place)).timings(Timings::new(parts).unwrap()).build().unwrap();
    let mut watch = leases.watch_all("name ");
    loop {
        // That it was away is nothing about the name.
        let Some(Watched::Now(seen)) = watch.next().await else { continue };
        let name = seen.name().as_str().trim_start_matches("name ");
        let state = if seen.standing() == Standing::Held { "held" } else { "free" };
        let row = seen.row().unwrap();
        println!("\n> {name} {} {state} {}", row.term, row.instance);
    }
}

/// Nothing expires while the test lasts.
fn unhurried() -> Timings {
    Timings::from_ttl(Duration::from_secs(3600)).unwrap()
}

/// A process that watches.
struct Watcher {
    child: Child,
    told: Arc<Mutex<Vec<Told>>>,
}

impl Watcher {
    fn start(place: &str) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["what_the_watcher_does", "--exact", "--nocapture"])
            .env(PLACE, place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (told, stdout) = (Arc::<Mutex<Vec<Told>>>::default(), child.stdout.take().unwrap());
        let telling = Arc::clone(&told);
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let Some(line) = line.strip_prefix("> ") else { continue };
                let words: Vec<&str> = line.split(' ').collect();
                let [name, term, state, holder] = words[..] else { panic!("{line}") };
                let (name, term) = (name.parse().unwrap(), term.parse().unwrap());
                let told = Told { name, term, is_free: state == "free", holder: holder.to_owned() };
                telling.lock().unwrap().push(told);
            }
        });
        Self { child, told }
    }

    fn told(&self) -> Vec<Told> {
        self.told.lock().unwrap().clone()
    }

    async fn comes_to(&self, is_there: impl Fn(&[Told]) -> bool) {
        let give_up = Instant::now() + LONG;
        while !is_there(&self.told()) {
            assert!(Instant::now() < give_up, "never seen; told: {:?}", self.told());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
