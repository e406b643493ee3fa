//! A watcher in a process of its own, whose connections are cut while a name is handed over a thousand times. The same for
//! every server.

use std::env;
use std::io::{self, BufRead, BufReader};
use std::process::{self, Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use lease_core::{Claimed, Instance, Leases, Standing, TimingParts, Timings, Watched};

use crate::{open, through};

/// Where the watcher finds the leases.
const PLACE: &str = "LEASE_TEST_WATCHER_PLACE";

const NAME: &str = "handed over";
const HAND_OVERS: u64 = 1_000;
const CUTS: u64 = 10;
const LONG: Duration = Duration::from_secs(120);

/// What the watcher was told.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    term: u64,
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
    let of_term = |term: u64| &holders[usize::from(term % 2 == 1)];
    for term in 1..=HAND_OVERS {
        match of_term(term).1.claim(NAME).await.unwrap() {
            Claimed::Granted(lease) => {
                assert_eq!(lease.term().get(), i64::try_from(term).unwrap());
                lease.release().await.unwrap();
            }
            Claimed::Held(refusal) => panic!("{refusal:?}"),
        }
        match term % (HAND_OVERS / CUTS) {
            // It is connected by then, and cut off in the middle of what follows.
            50 => watcher.has_seen_the_end_of(term).await,
            60 => {
                assert!(proxy.open() > 0, "nothing to cut");
                proxy.cut();
            }
            _ => {}
        }
    }
    watcher.has_seen_the_end_of(HAND_OVERS).await;

    let told = watcher.told();
    for Told { term, holder, .. } in &told {
        assert!(*term <= HAND_OVERS, "term {term} was never granted");
        assert!(*term == 0 || holder == of_term(*term).0, "term {term} was never {holder}'s");
    }
    for pair in told.windows(2) {
        let [before, after] = pair else { unreachable!() };
        assert!((before.term, before.is_free) <= (after.term, after.is_free), "{before:?}, then {after:?}");
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
    let parts = TimingParts { renew: Duration::from_millis(100), ..unhurried().parts() };
    let leases = Leases::builder_shared(open(&place)).timings(Timings::new(parts).unwrap()).build().unwrap();
    let mut watch = leases.watch(NAME).unwrap();
    loop {
        // That it was away is nothing about the name.
        let Watched::Now(seen) = watch.next().await else { continue };
        let (term, is_held) = (seen.term().map_or(0, |term| term.get()), seen.standing() == Standing::Held);
        let holder = seen.row().map_or("", |row| row.instance.as_str());
        println!("\n> {term} {} {holder}", if is_held { "held" } else { "free" });
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
                let [term, state, holder] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
                let (term, is_free, holder) = (term.parse().unwrap(), state == "free", holder.to_owned());
                telling.lock().unwrap().push(Told { term, is_free, holder });
            }
        });
        Self { child, told }
    }

    fn told(&self) -> Vec<Told> {
        self.told.lock().unwrap().clone()
    }

    async fn has_seen_the_end_of(&self, term: u64) {
        let give_up = Instant::now() + LONG;
        while self.told().last().is_none_or(|last| (last.term, last.is_free) != (term, true)) {
            assert!(Instant::now() < give_up, "never seen: the end of {term}; told: {:?}", self.told());
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
