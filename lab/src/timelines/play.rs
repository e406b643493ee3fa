//! Two processes and one database, played by the real library in virtual time: what happened, and when.

use std::error::Error;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lease_core::clock::sleep_until;
use lease_core::store::DbTime;
use lease_core::{Claimed, Clock, Instance, LeaseName, LeaseStore, Leases, Moment, Tenure, Timings};
use lease_testkit::{Fault, FaultStore, ManualClock, MemoryStore, Op};

/// What is to happen. Times are since the start.
#[derive(Debug)]
pub struct Plan {
    /// How long A works, unless it is kept from it.
    pub a_works: Duration,
    /// When B begins to wait.
    pub b_waits: Duration,
    /// What befalls A.
    pub mishap: Option<Mishap>,
    /// How long all of it takes.
    pub span: Duration,
}

/// What befalls A.
#[derive(Debug, Clone, Copy)]
pub enum Mishap {
    /// From this moment on it does nothing any more.
    Killed(Duration),
    /// From this moment on nothing that it sends arrives, and nothing tells it so.
    CutOff(Duration),
}

/// A works, and hands over to B.
pub const HEALTHY: Plan =
    Plan { a_works: Duration::from_millis(6_600), b_waits: seconds(1), mishap: None, span: seconds(13) };
/// A is killed.
pub const CRASH: Plan =
    Plan { mishap: Some(Mishap::Killed(seconds(3))), a_works: HOUR, span: seconds(21), ..HEALTHY };
/// A is cut off from the database.
pub const PARTITION: Plan = Plan { mishap: Some(Mishap::CutOff(seconds(3))), ..CRASH };

const HOUR: Duration = seconds(3_600);
/// A statement's way to the database, and its answer's way back.
pub const THERE: Duration = Duration::from_millis(200);
/// See [`THERE`].
pub const BACK: Duration = Duration::from_millis(100);
/// How far the clocks go between two looks at everything.
const STEP: Duration = Duration::from_millis(10);

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// What happened. Times are since the start.
#[derive(Debug)]
pub struct Played {
    /// The timings of both.
    pub timings: Timings,
    /// The first holder.
    pub a: Side,
    /// Its successor.
    pub b: Side,
    /// Who had the name in the database, one after the other.
    pub row: Vec<Held>,
    /// When the record ends.
    pub span: Duration,
}

/// What one process did, and believed.
#[derive(Debug, Clone, Default)]
pub struct Side {
    /// What it sent.
    pub calls: Vec<Sent>,
    /// When it was granted the name, so that its work began.
    pub begins: Option<Duration>,
    /// When its work was told that the lease is lost.
    pub lost: Option<Duration>,
    /// When its work ended, or was aborted.
    pub ends: Option<Duration>,
}

/// A statement.
#[derive(Debug, Clone)]
pub struct Sent {
    /// Which.
    pub op: Op,
    /// When it was sent.
    pub at: Duration,
    /// When the database ran it, if it got there.
    pub ran: Option<Duration>,
    /// When it was answered or given up.
    pub ended: Option<Duration>,
}

/// A term in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Whose it was.
    pub by: String,
    /// Which.
    pub term: String,
    /// When it began.
    pub since: Duration,
    /// When it was renewed last.
    pub renewed: Duration,
    /// When it was given back, or else expires.
    pub until: Duration,
}

/// Plays.
///
/// # Errors
///
/// The library refused something, which it has no reason for.
pub fn play(plan: &Plan) -> Result<Played, Box<dyn Error + Send + Sync>> {
    tokio::runtime::Builder::new_current_thread().build()?.block_on(play_here(plan))
}

async fn play_here(plan: &Plan) -> Result<Played, Box<dyn Error + Send + Sync>> {
    let clock = ManualClock::new();
    let memory = MemoryStore::with_clock(clock.clone());
    let name = LeaseName::new("nightly")?;
    let (mut a, mut b) = (Process::start("A", 1, &memory)?, Process::start("B", 2, &memory)?);
    let mut row = Vec::new();
    let (start, mut now, mut a_lives) = (clock.now(), Duration::ZERO, true);
    a.lead(&name, plan.a_works);
    clock.play(Duration::ZERO).await;
    while now < plan.span {
        if now == plan.b_waits {
            b.lead(&name, HOUR);
            clock.play(Duration::ZERO).await;
        }
        match plan.mishap {
            // Whoever is dead sends nothing and hears nothing: all that a process does here goes by its clock.
            Some(Mishap::Killed(at)) if at == now => a_lives = false,
            Some(Mishap::CutOff(at)) if at == now => a.cut_off(),
            _ => {}
        }
        now += STEP;
        // All of them first, so that whoever hears of another reads the same time.
        clock.advance(STEP);
        b.clock.advance(STEP);
        if a_lives {
            a.clock.advance(STEP);
        }
        clock.play(Duration::ZERO).await;
        a.look(now);
        b.look(now);
        look_at_row(&mut row, &memory, &name, now).await?;
    }
    let timings = *a.leases.timings();
    Ok(Played { timings, a: a.record(start), b: b.record(start), row, span: plan.span })
}

/// A process: a clock and a way to the database of its own.
struct Process {
    clock: Arc<ManualClock>,
    leases: Leases,
    /// Where it sends, ...
    sending: FaultStore,
    /// ... and where that arrives.
    arriving: FaultStore,
    start: Moment,
    ends: Vec<Option<Duration>>,
    notes: Arc<Mutex<Notes>>,
}

impl Process {
    fn start(name: &str, seed: u8, memory: &MemoryStore) -> Result<Self, lease_core::Error> {
        let clock = ManualClock::new();
        let arriving = FaultStore::new(memory.clone(), clock.clone());
        let on_the_way = FaultStore::new(arriving.clone(), clock.clone());
        on_the_way.plan(|_| Some(Fault::DelayBefore(THERE)));
        let sending = FaultStore::new(on_the_way, clock.clone());
        // Counted from the sending, like the other delay.
        sending.plan(|_| Some(Fault::DelayAfter(THERE + BACK)));
        let drawn = Mutex::new(u64::from(seed));
        let leases = Leases::builder(sending.clone())
            .clock(clock.clone())
            .instance(Instance::named(name))
            .randomness(move |bytes| fill(&mut unpoisoned(&drawn), bytes))
            .build()?;
        let start = clock.now();
        Ok(Self { clock, leases, sending, arriving, start, ends: Vec::new(), notes: Arc::default() })
    }

    /// Waits for the name, works under it for so long, and gives it back.
    fn lead(&self, name: &LeaseName, works: Duration) {
        let (leases, name, notes) = (self.leases.clone(), name.clone(), Arc::clone(&self.notes));
        let (clock, start) = (Arc::clone(self.leases.clock()), self.start);
        tokio::spawn(async move {
            if let Ok(Claimed::Granted(lease)) = leases.acquire(name, HOUR).await {
                // How it ends is in the notes.
                drop(lease.run(move |tenure| work(tenure, clock, start + works, notes)).await);
            }
        });
    }

    fn cut_off(&self) {
        self.sending.plan(|_| Some(Fault::HangBefore));
    }

    /// Notes when statements have ended. There is one at a time here, so that whatever is followed by another has ended.
    fn look(&mut self, now: Duration) {
        let log = self.sending.log();
        for (n, _) in log.iter().enumerate() {
            if n == self.ends.len() {
                self.ends.push(None);
            }
            let next = log.get(n + 1).map(|call| call.at.since(self.start));
            let idle = (self.sending.in_flight() == 0).then_some(now);
            self.ends[n] = self.ends[n].or(next).or(idle);
        }
    }

    fn record(&self, start: Moment) -> Side {
        let mut arrived = self.arriving.log().into_iter().peekable();
        let mut calls = Vec::new();
        for (call, ended) in self.sending.log().into_iter().zip(&self.ends) {
            let ran = arrived.next_if(|there| there.op == call.op && there.at.since(call.at) <= THERE);
            let ran = ran.map(|there| there.at.since(start));
            calls.push(Sent { op: call.op, at: call.at.since(start), ran, ended: *ended });
        }
        let notes = unpoisoned(&self.notes);
        let since = |moment: Option<Moment>| moment.map(|moment| moment.since(start));
        Side { calls, begins: since(notes.begins), lost: since(notes.lost), ends: since(notes.ends) }
    }
}

#[derive(Debug, Default)]
struct Notes {
    begins: Option<Moment>,
    lost: Option<Moment>,
    ends: Option<Moment>,
}

/// Work that does not heed a loss, and so is aborted.
async fn work(
    tenure: Tenure,
    clock: Arc<dyn Clock>,
    until: Moment,
    notes: Arc<Mutex<Notes>>,
) -> Result<(), std::convert::Infallible> {
    unpoisoned(&notes).begins = Some(clock.now());
    let _end = NoteTheEnd { clock: Arc::clone(&clock), notes: Arc::clone(&notes) };
    tokio::select! {
        biased;
        _ = tenure.lost() => unpoisoned(&notes).lost = Some(clock.now()),
        () = sleep_until(&clock, until) => return Ok(()),
    }
    pending().await
}

struct NoteTheEnd {
    clock: Arc<dyn Clock>,
    notes: Arc<Mutex<Notes>>,
}

impl Drop for NoteTheEnd {
    fn drop(&mut self) {
        unpoisoned(&self.notes).ends = Some(self.clock.now());
    }
}

/// Notes what the row says now, of each term.
async fn look_at_row(
    terms: &mut Vec<Held>,
    memory: &MemoryStore,
    name: &LeaseName,
    now: Duration,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let seen = memory.inspect(name, STEP).await?;
    let Some(row) = seen.row else { return Ok(()) };
    let ago = |at: DbTime| now.saturating_sub(seen.now.since(at));
    let (term, since, renewed) = (row.term.to_string(), ago(row.claimed_at), ago(row.renewed_at));
    let until = if row.expires_at == DbTime::RELEASED { now } else { renewed + row.ttl };
    match terms.last_mut() {
        Some(last) if last.term == term => {
            // The first look at a release is that of its moment.
            if row.expires_at != DbTime::RELEASED || last.until > now {
                last.until = until;
            }
            last.renewed = renewed;
        }
        _ => terms.push(Held { by: row.instance, term, since, renewed, until }),
    }
    Ok(())
}

/// The same numbers from the same seed (splitmix64).
fn fill(state: &mut u64, bytes: &mut [u8]) {
    for byte in bytes {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        *byte = (mixed ^ (mixed >> 27)).to_le_bytes()[3];
    }
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
