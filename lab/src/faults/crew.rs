//! The workers of a history, as their parent sees them: started, stopped, killed, and started again when they die.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, ExitStatus, Stdio};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::Failure;
use super::order::Order;
use super::place::Place;
use super::spawn::{Life, spawn};
use super::worker::{STOP, Said};
use crate::history::{Change, Event, Writer, now};

/// A worker that is to end in order has so long before it counts as one that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a worker dies whose work outlived its grace.
const SIGABRT: i32 = 6;

/// All workers of a history. They are killed when this is dropped.
pub(crate) struct Crew {
    seats: Vec<Mutex<Seat>>,
    writer: Writer,
    life: Life,
    /// What went wrong with workers that must not.
    pub(crate) problems: Mutex<Vec<String>>,
    /// How many died by their failing hook.
    deaths: AtomicI64,
}

struct Seat {
    order: Order,
    child: Option<Child>,
    is_stopped: bool,
    board: Arc<Board>,
}

/// What an incarnation has said of itself.
#[derive(Default)]
pub(crate) struct Board {
    guards: AtomicI64,
    rounds: AtomicI64,
    /// When it last said that it holds a name.
    held: Mutex<BTreeMap<String, u64>>,
}

impl Crew {
    /// Starts a worker at each of these places.
    pub(crate) fn start(
        places: Vec<Place>,
        ttl: Duration,
        seed: u64,
        folder: &std::path::Path,
        writer: &Writer,
        life: Life,
    ) -> Result<Self, Failure> {
        let seat = |(process, place)| {
            let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
            let seed = seed.wrapping_mul(31).wrapping_add(u64::from(process));
            let order = Order { place, ttl_ms, seed, process, incarnation: 0, folder: folder.to_owned() };
            Mutex::new(Seat { order, child: None, is_stopped: false, board: Arc::default() })
        };
        let seats: Vec<_> = (1..).zip(places).map(seat).collect();
        let crew = Self {
            seats,
            writer: writer.clone(),
            life,
            problems: Mutex::default(),
            deaths: AtomicI64::new(0),
        };
        for seat in &crew.seats {
            lock(seat).start(&crew.life)?;
        }
        Ok(crew)
    }

    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.seats.len()).expect("few workers")
    }

    /// How many died by their failing hook.
    pub(crate) fn deaths(&self) -> i64 {
        self.deaths.load(Ordering::Relaxed)
    }

    /// Kills a worker, which then is away; `None` if it is already.
    pub(crate) fn kill(&self, worker: u32) -> Option<(u32, u32)> {
        let mut seat = self.seat(worker);
        if seat.is_stopped {
            return None;
        }
        let mut child = seat.child.take()?;
        // What has ended by itself meanwhile is seen by its status.
        drop(child.kill());
        let status = child.wait().expect("a worker that was killed ends");
        self.tell(&seat, if status.signal() == Some(9) { Change::Killed } else { self.died(status, &seat) });
        Some(seat.id())
    }

    /// Starts another incarnation of a worker that is away.
    pub(crate) fn start_again(&self, worker: u32) -> Result<(), Failure> {
        let mut seat = self.seat(worker);
        if seat.child.is_some() {
            return Ok(());
        }
        seat.order.incarnation += 1;
        seat.order.seed = seat.order.seed.wrapping_add(1 << 32);
        seat.start(&self.life)
    }

    /// Stops a worker where it is and sees that it stands still; `None` if it cannot be.
    pub(crate) fn stop(&self, worker: u32) -> Option<(u32, u32)> {
        let mut seat = self.seat(worker);
        let pid = seat.pid().filter(|_| !seat.is_stopped)?;
        kill_process(pid, Signal::STOP).ok()?;
        seat.is_stopped = true;
        let since = Instant::now();
        while !stands_still(pid) && since.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
        self.tell(&seat, Change::Stopped);
        Some(seat.id())
    }

    /// Lets a worker go on that was stopped.
    pub(crate) fn go_on(&self, worker: u32) {
        let mut seat = self.seat(worker);
        if let Some(pid) = seat.pid().filter(|_| seat.is_stopped) {
            self.tell(&seat, Change::Continued);
            let _ = kill_process(pid, Signal::CONT);
        }
        seat.is_stopped = false;
    }

    /// Which incarnation of a worker there is.
    pub(crate) fn id(&self, worker: u32) -> (u32, u32) {
        self.seat(worker).id()
    }

    /// How the system says that a worker is: `T` for one that stands still. `None`: it is away.
    #[cfg(test)]
    pub(crate) fn state(&self, worker: u32) -> Option<char> {
        self.seat(worker).pid().and_then(state)
    }

    /// Whether a guarded transaction is open, and whether a round runs, in one worker or in any.
    pub(crate) fn open(&self, worker: Option<u32>) -> (bool, bool) {
        let boards: Vec<_> = match worker {
            Some(worker) => vec![Arc::clone(&self.seat(worker).board)],
            None => self.seats.iter().map(|seat| Arc::clone(&lock(seat).board)).collect(),
        };
        let any = |count: fn(&Board) -> &AtomicI64| {
            boards.iter().any(|board| count(board).load(Ordering::Relaxed) > 0)
        };
        (any(|board| &board.guards), any(|board| &board.rounds))
    }

    /// The last moment at which any worker said that it holds a name of this beginning.
    pub(crate) fn held(&self, name: &str) -> Option<u64> {
        let of = |seat: &Mutex<Seat>| {
            let board = Arc::clone(&lock(seat).board);
            let held = lock(&board.held);
            held.iter().filter(|(held, _)| held.starts_with(name)).map(|(_, at)| *at).max()
        };
        self.seats.iter().filter_map(of).max()
    }

    /// Replaces workers that have died by themselves.
    pub(crate) fn look(&self) -> Result<(), Failure> {
        for seat in &self.seats {
            let mut seat = lock(seat);
            let Some(child) = &mut seat.child else { continue };
            let Some(status) = child.try_wait()? else { continue };
            seat.child = None;
            seat.is_stopped = false;
            let died = self.died(status, &seat);
            self.tell(&seat, died);
            seat.order.incarnation += 1;
            seat.start(&self.life)?;
        }
        Ok(())
    }

    /// Has all end in order, and waits for that.
    pub(crate) fn end(&self) {
        for seat in &self.seats {
            let mut seat = lock(seat);
            if let Some(stdin) = seat.child.as_mut().and_then(|child| child.stdin.as_mut()) {
                // One that has died is found below.
                drop(writeln!(stdin, "{STOP}"));
            }
        }
        let since = Instant::now();
        for seat in &self.seats {
            let mut seat = lock(seat);
            let Some(mut child) = seat.child.take() else { continue };
            let status = loop {
                match child.try_wait() {
                    Ok(Some(status)) => break Some(status),
                    _ if since.elapsed() > PATIENCE => break None,
                    _ => thread::sleep(Duration::from_millis(5)),
                }
            };
            match status {
                Some(status) if status.success() => {}
                Some(status) => {
                    let died = self.died(status, &seat);
                    self.tell(&seat, died);
                }
                None => {
                    drop((child.kill(), child.wait()));
                    self.tell(&seat, Change::Killed);
                    let (process, incarnation) = seat.id();
                    self.problem(format!(
                        "worker {process} ({incarnation}) does not end though it was told to"
                    ));
                }
            }
        }
    }

    fn seat(&self, worker: u32) -> MutexGuard<'_, Seat> {
        lock(&self.seats[worker as usize])
    }

    fn tell(&self, seat: &Seat, change: Change) {
        let (process, incarnation) = seat.id();
        self.writer.tell(Event::Process { process, incarnation, change });
    }

    /// By its failing hook, which is lawful; everything else is not.
    fn died(&self, status: ExitStatus, seat: &Seat) -> Change {
        if status.signal() == Some(SIGABRT) {
            self.deaths.fetch_add(1, Ordering::Relaxed);
        } else {
            let (process, incarnation) = seat.id();
            let told = seat.errors().display().to_string();
            self.problem(format!("worker {process} ({incarnation}) has failed, {status}; see {told}"));
        }
        Change::Died(status.code())
    }

    pub(crate) fn problem(&self, problem: String) {
        lock(&self.problems).push(problem);
    }
}

impl Seat {
    fn id(&self) -> (u32, u32) {
        (self.order.process, self.order.incarnation)
    }

    fn pid(&self) -> Option<Pid> {
        self.child.as_ref().map(Pid::from_child)
    }

    fn errors(&self) -> PathBuf {
        self.order.folder.join(format!("worker-{}.err", self.order.process))
    }

    fn start(&mut self, life: &Life) -> Result<(), Failure> {
        let errors = File::options().create(true).append(true).open(self.errors())?;
        let mut command = life.command();
        command.arg("worker").arg(self.order.to_word());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut child = spawn(command)?;
        self.board = Arc::default();
        let said = child.stdout.take().ok_or("the standard output is piped")?;
        let board = Arc::clone(&self.board);
        thread::spawn(move || board.hear(said));
        self.child = Some(child);
        Ok(())
    }
}

impl Board {
    fn hear(&self, said: ChildStdout) {
        for line in BufReader::new(said).lines().map_while(io::Result::ok) {
            match line.parse() {
                Ok(Said::Guard(begins)) => count(&self.guards, begins),
                Ok(Said::Round(begins)) => count(&self.rounds, begins),
                Ok(Said::Held(name)) => drop(lock(&self.held).insert(name, now())),
                // Torn by a kill.
                Err(_) => {}
            }
        }
        for open in [&self.guards, &self.rounds] {
            open.store(0, Ordering::Relaxed);
        }
    }
}

fn count(open: &AtomicI64, begins: bool) {
    open.fetch_add(if begins { 1 } else { -1 }, Ordering::Relaxed);
}

impl Drop for Crew {
    fn drop(&mut self) {
        for seat in &self.seats {
            if let Some(mut child) = lock(seat).child.take() {
                drop((child.kill(), child.wait()));
            }
        }
    }
}

fn stands_still(pid: Pid) -> bool {
    state(pid).is_none_or(|state| matches!(state, 'T' | 'Z'))
}

fn state(pid: Pid) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
